"""Every module of the product that has a function or a class is named by a test: imported, or mentioned by its path.

A name says nothing about what is tested; a module without one has no test of its own for certain.
"""

import ast
import re
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("polyhop", "flows", "tasks", "schemas", "warehouse", "worker")
MENTIONED = re.compile(r"\bpolyhop(?:\.\w+)+")

TESTED_THROUGH_OTHERS: dict[str, tuple[str, ...]] = {
    "contract/test_encoder.py": (
        "warehouse.models.embedding_gateway",
        "warehouse.models.litellm_encoder",
    ),
    "contract/test_index_reader.py": (
        "schemas.tracing",
        "tasks.embeddings.stage",
        "tasks.extraction.page_types",
        "tasks.extraction.triples",
        "tasks.graph.stage",
        "tasks.hubs.path_rows",
        "tasks.hubs.read",
        "tasks.hubs.search_stage",
        "tasks.hubs.searched",
        "tasks.lexical.stage",
        "tasks.propositions.stage",
        "tasks.publish.changes",
        "tasks.publish.checksums",
        "tasks.publish.encoder_record",
    ),
    "contract/test_queue_outcomes.py": (
        "warehouse.queue.results",
        "warehouse.queue.workers",
    ),
    "contract/test_strategy.py": (
        "worker.ranking.facets.read_question",
        "worker.ranking.facets.signature_words",
        "worker.strategies.arcana",
        "worker.strategies.arcana_entities",
        "worker.strategies.arcana_evidence",
        "worker.strategies.drawn_paths",
        "worker.strategies.feedback",
        "worker.strategies.fused",
        "worker.strategies.hublink",
        "worker.strategies.hublink_evidence",
        "worker.strategies.lexical",
        "worker.strategies.masked_questions",
        "worker.strategies.proprag",
        "worker.strategies.qasa_evidence",
        "worker.strategies.rerank",
        "worker.strategies.rrf_ppr",
        "worker.strategies.sprig",
    ),
    "e2e/test_cache_command.py": ("commands.cache",),
    "e2e/test_demo.py": ("commands.demo",),
    "e2e/test_entities_command.py": ("commands.entities",),
    "e2e/test_entity_edits.py": ("commands.entity_edits",),
    "e2e/test_filtered_questions.py": (
        "warehouse.record_fields",
        "worker.filtered_sessions",
    ),
    "e2e/test_namesakes.py": ("tasks.resolution.namesake_rows",),
    "e2e/test_programs.py": ("programs",),
    "e2e/test_several_indexes.py": (
        "commands.several_text",
        "several",
    ),
    "e2e/test_tuning.py": ("commands.tune",),
    "e2e/test_worker_chaos.py": ("commands.worker",),
    "integration/test_doctor_servers.py": ("warehouse.graph.neo4j_health",),
    "integration/test_neo4j_as_source.py": ("warehouse.graph.neo4j_source",),
    "integration/test_neo4j_export.py": (
        "commands.export",
        "warehouse.tables.export_rows",
    ),
    "integration/test_neo4j_hubs.py": ("flows.hub_coverage",),
    "integration/test_prefect_deploy.py": (
        "commands.deploy",
        "flows.choices",
        "flows.deployed_indexes",
        "flows.prefect_deploy",
    ),
    "integration/test_prefect_export.py": ("flows.prefect_export",),
    "integration/test_prefect_index.py": (
        "flows.prefect_batches",
        "flows.prefect_run",
    ),
    "integration/test_prefect_schedules.py": (
        "flows.prefect_automations",
        "flows.prefect_maintain",
        "flows.prefect_verify",
    ),
    "unit/flows/test_change_page.py": (
        "tasks.lexical.kept",
        "tasks.resolution.filling",
        "tasks.resolution.kept",
    ),
    "unit/flows/test_copied_vectors.py": (
        "flows.run_history",
        "tasks.extraction.rule_batches",
    ),
    "unit/flows/test_damaged_versions.py": (
        "warehouse.vectors.damage",
        "worker.configured_reader",
    ),
    "unit/flows/test_document_corpora.py": (
        "tasks.passages.metadata",
        "warehouse.files.kept_records",
    ),
    "unit/flows/test_evaluation_of_triples.py": (
        "commands.evaluate",
        "commands.evaluation_triples",
        "flows.evaluation.asked",
        "flows.evaluation.closed_book",
        "flows.evaluation.served",
        "flows.evaluation.store",
        "tasks.evaluation.run_documents",
        "warehouse.files.graph_lines",
    ),
    "unit/flows/test_hubs.py": (
        "flows.current_version",
        "tasks.hubs.stage",
    ),
    "unit/flows/test_maintain.py": ("warehouse.files.sqlite_files",),
    "unit/flows/test_prefect_progress.py": ("flows.prefect_show",),
    "unit/flows/test_run_history.py": ("warehouse.tables.history",),
    "unit/flows/test_triples_beside_propositions.py": ("worker.services",),
    "unit/polyhop/pages/test_answer_page.py": ("schemas.earlier_evidence",),
    "unit/polyhop/test_control_characters.py": (
        "connections",
        "graph_results",
        "warehouse.tables.relation_passages",
    ),
    "unit/polyhop/test_diagnosis.py": ("diagnosis",),
    "unit/polyhop/test_generate_command.py": ("tasks.evaluation.generated_prose",),
    "unit/polyhop/test_queue_commands.py": ("jobs",),
    "unit/polyhop/test_sql_sandbox.py": ("warehouse.tables.sandbox",),
    "unit/polyhop/test_sweep.py": ("sweep_process",),
    "unit/polyhop/test_version_diff.py": ("version_diff",),
    "unit/schemas/test_settings.py": (
        "schemas.runner_settings",
        "schemas.setting_section",
    ),
    "unit/tasks/evaluation/rendering/test_maps_and_best_values.py": ("tasks.evaluation.ranges_section",),
    "unit/warehouse/test_documents.py": (
        "warehouse.documents.building",
        "warehouse.documents.containers",
        "warehouse.documents.epub",
        "warehouse.documents.mail",
        "warehouse.documents.pdf",
        "warehouse.documents.sheets",
        "warehouse.documents.slides",
        "warehouse.documents.word",
    ),
    "unit/warehouse/test_folder_links.py": ("warehouse.files.folders",),
    "unit/warehouse/test_named_encoders.py": ("warehouse.models.named_encoders",),
    "unit/warehouse/test_rdf_files.py": ("warehouse.files.ntriples",),
    "unit/warehouse/test_readers_failures.py": (
        "warehouse.files.rows",
        "warehouse.files.tabular",
    ),
    "unit/warehouse/test_readers_questions.py": ("warehouse.files.question_sets",),
    "unit/worker/reading/test_hub_reader.py": ("worker.reading.hub_answer",),
    "unit/worker/reading/test_parsing.py": ("worker.reading.main_clause",),
    "unit/worker/reading/test_yes_no.py": ("worker.reading.statements",),
    "unit/worker/strategies/test_hub_facets.py": ("worker.strategies.hub_facets_evidence",),
    "unit/worker/strategies/test_rerank_strategies.py": ("worker.strategies.rerank_parameters",),
}
"""What no test names yet, without `polyhop.`: a file of tests by whose calls its functions run, and the modules."""

UNNAMED = {f"polyhop.{name}" for names in TESTED_THROUGH_OTHERS.values() for name in names}


def test_every_module_is_named_by_a_test() -> None:
    silent = sorted(product() - named() - UNNAMED)
    assert silent == [], "Write a unit test for these modules (tests/unit mirrors the source):\n" + "\n".join(silent)


def test_the_exceptions_are_modules_that_no_test_names() -> None:
    done = sorted(UNNAMED - (product() - named()))
    assert done == [], (
        "Take these out of TESTED_THROUGH_OTHERS; a test names them by now, or they are gone:\n" + "\n".join(done)
    )
    assert sorted(file for file in TESTED_THROUGH_OTHERS if not (PROJECT / "tests" / file).is_file()) == []


def test_the_search_finds_what_is_there() -> None:
    assert len(product()) > 500
    assert {"polyhop.cli", "polyhop.schemas.ports", "polyhop.worker.ranking.order"} <= product()


def test_a_module_is_named_by_every_form_of_import_and_by_a_text() -> None:
    text = (
        "import polyhop.a.one\nfrom polyhop.a import two\nfrom polyhop.a.three import Name\n"
        "patch('polyhop.a.four.name')\nCODE = '''\nfrom polyhop.a.five import x\n'''\n# polyhop.a.six\n"
    )
    found = {f"polyhop.a.{name}" for name in ("one", "two", "three", "four", "five")}
    assert {name for name in names_in(text) if name.count(".") == 2} >= found
    assert "polyhop.a.six" not in names_in(text)


@cache
def product() -> set[str]:
    """Modules with a function or a class; polyhop/ links to the other packages, which are not read twice."""
    return {
        module_of(path.relative_to(PROJECT))
        for package in PACKAGES
        for path in (PROJECT / package).rglob("*.py")
        if not any(folder.is_symlink() for folder in path.parents) and has_code(path.read_text(encoding="utf-8"))
    }


def module_of(path: Path) -> str:
    parts = [*path.parts[:-1], *([] if path.stem == "__init__" else [path.stem])]
    return ".".join(parts if parts[0] == "polyhop" else ["polyhop", *parts])


def has_code(text: str) -> bool:
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in ast.parse(text).body)


@cache
def named() -> set[str]:
    """All that tests import or mention, and the modules above: `polyhop.a.b.name` names `polyhop.a.b`."""
    found: set[str] = set()
    for path in (PROJECT / "tests").rglob("*.py"):
        if path != Path(__file__):
            found |= names_in(path.read_text(encoding="utf-8"))
    return found


def names_in(text: str) -> set[str]:
    """Dotted names in imports and texts, each with its beginnings; packages are named by themselves only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for name in MENTIONED.findall(node.value):
                found |= {name, name.rpartition(".")[0]}
    return found
