"""Report of an index run (the JSON contract of `polyhop index`), and its text forms."""

from dataclasses import asdict, dataclass, field
from typing import Any

from polyhop.schemas.chat import cost_words
from polyhop.schemas.languages import ENGLISH, language_name, likely_language, recorded_language
from polyhop.schemas.settings import LOCAL, EncoderSettings, Settings
from polyhop.schemas.tables import CHANGE_KINDS
from polyhop.schemas.text import escaped, plural, printable, table_lines
from polyhop.tasks.extraction.rows import KEPT_ITEMS, LISTED_ITEMS, KeptItems, kept_words
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import readable_manifest
from polyhop.warehouse.tables.query import query_rows


@dataclass(frozen=True, slots=True)
class RunModelUse:
    """Model use of a run: calls, requests answered from the cache, tokens, United States dollars.

    A cost is None where the price of a model is unknown. `replaced_counts`: calls whose reported token counts were
    impossible, so that our own were taken. `unknown_…`: calls of earlier runs that were killed, at their worst case,
    which may not have been billed; not among this run's tokens and cost.
    """

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    replaced_counts: int = 0
    unknown_calls: int = 0
    unknown_tokens: int = 0
    unknown_cost_usd: float | None = 0.0

    def sentences(self) -> list[str]:
        """Sentences on calls and cost of models, with uncertain amounts; empty if no model was called."""
        said = []
        if self.calls or self.cached:
            said.append(
                f"models: {plural(self.calls, 'call')}, {self.prompt_tokens:,} + {self.completion_tokens:,} tokens, "
                f"{cost_words(self.cost_usd)}; {plural(self.cached, 'reply', 'replies')} from the cache"
            )
        if self.replaced_counts:
            said.append(
                f"models: the server reported impossible token counts of {plural(self.replaced_counts, 'call')}, "
                "so Polyhop's own count is used"
            )
        if self.unknown_calls:
            said.append(
                f"models: the outcome of {plural(self.unknown_calls, 'call')} of earlier, killed runs is unknown, "
                f"counted at the worst case: {self.unknown_tokens:,} tokens, {cost_words(self.unknown_cost_usd)}"
            )
        return said


@dataclass(slots=True)
class IndexReport:
    """Result of a run.

    `changes` counts records by how they differ from the version before (0 of each kind if nothing was published);
    `ratios` are those of the version's manifest; `unread` counts files of a folder corpus, and attached to messages,
    that were not read, by kind, and `unread_files` names the first of them; `damaged` is what it found damaged, in the
    version before or in caches, and made again; `failing` counts the units of a stage that a model failed on, which the
    next run asks again; `pinned` is the version that stays current, None if none is pinned; `lacks_types` says that
    only titles have types, where their page states one.
    """

    index: str
    version: int = 0
    changed: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    model: RunModelUse = field(default_factory=RunModelUse)
    extraction: dict[str, int] = field(default_factory=dict)
    failing: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    unread_files: list[str] = field(default_factory=list)
    changes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CHANGE_KINDS, 0))
    computed: dict[str, int] = field(default_factory=dict)
    reused: list[str] = field(default_factory=list)
    removed_versions: list[int] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    pinned: int | None = None
    lacks_types: bool = False

    @property
    def pin_sentence(self) -> str:
        """Sentence on the pinned version; "" if none is pinned."""
        if self.pinned is None:
            return ""
        later = f"version {self.version}" if self.version != self.pinned else "later versions"
        return (
            f"version {self.pinned} is pinned and stays current; to use {later}, unpin it: "
            f"polyhop versions --index {self.index} --use latest"
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop index` (architecture.md section 9)."""
        return asdict(self) | {"seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()}}

    @property
    def ratios_in_words(self) -> str:
        """Density of the graph, as text; "" if the version has no mentions."""
        ratios = self.ratios
        return "; ".join(
            f"{ratios[mentions]:.2f} mentions and {ratios[f'relations_per_{unit}']:.2f} relations per {unit}"
            for unit in ("passage", "entity")
            if (mentions := f"mentions_per_{unit}") in ratios
        )

    def model_sentences(self) -> list[str]:
        """Sentences on the run's model use and on failing units, whether it published or not."""
        said = self.model.sentences()
        if kept := self.kept_words():
            said.append(f"models: of their replies {kept}")
        if self.failing:
            stages = ", ".join(f"{stage} {count:,}" for stage, count in self.failing.items())
            still = "still fails" if sum(self.failing.values()) == 1 else "still fail"
            said.append(f"{plural(sum(self.failing.values()), 'unit')} {still} ({stages}); the next run retries")
        if "extract" in self.failing:
            said.append(f"why: polyhop sql \"FROM extraction_ledger WHERE state = 'failed'\" --index {self.index}")
        return said

    def extracted_units(self) -> dict[str, int]:
        """Counts of extraction without the items of replies, which `kept_words` says."""
        counts = self.extraction.items()
        return {name: count for name, count in counts if not name.startswith((LISTED_ITEMS, KEPT_ITEMS))}

    def kept_words(self) -> str:
        """Kept items of the replies that extraction asked for, in words; "" if it kept all of them."""
        counts = self.extraction
        kinds = {name: name.removeprefix(LISTED_ITEMS) for name in counts if name.startswith(LISTED_ITEMS)}
        items = [KeptItems(kind, counts.get(f"{KEPT_ITEMS}{kind}", 0), counts[name]) for name, kind in kinds.items()]
        return kept_words(items) if any(each.kept < each.listed for each in items) else ""

    @staticmethod
    def from_json(document: dict[str, Any]) -> "IndexReport":
        """The report whose `to_json` this is."""
        return IndexReport(**{**document, "model": RunModelUse(**document["model"])})


def _rows(settings: Settings, report: IndexReport, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = query_rows(Layout(settings.root), report.index, query, report.version).to_pylist()
    return rows


SHOWN_CHANGES = 50  # at most as many records as a page shows at once
_LONGEST_ID = 200  # characters of an id; chosen: longer ones are addresses whose ends say little
_QUERY = "SELECT record_id, kind, from_id, source FROM changes ORDER BY record_id"


def changed_records(report: IndexReport) -> str:
    """Counts of changed records by kind, as text."""
    return ", ".join(f"{count:,} {kind}" for kind, count in report.changes.items() if count) or "no record changed"


def change_lines(settings: Settings, before: dict[str, int], report: IndexReport) -> list[str]:
    """The page of a version in Markdown, with counts of the one before; ids and sources are data and escaped."""
    lines = [f"# Version {report.version} of {escaped(report.index)}: {changed_records(report)}", ""]
    pairs = {name: (before.get(name, 0), report.counts.get(name, 0)) for name in {**report.counts, **before}}
    counts = [[name.replace("_", " "), f"{old:,}", f"{new:,}", f"{new - old:+,}"] for name, (old, new) in pairs.items()]
    lines += [*table_lines([["what", "before", "now", "difference"], *counts], 1), ""]
    total = sum(report.changes.values())
    if not total:
        return lines
    shown = _rows(settings, report, f"{_QUERY} LIMIT {SHOWN_CHANGES}")
    cells = [[row[name] or "" for name in ("record_id", "kind", "from_id", "source")] for row in shown]
    rows = [[escaped(printable(f"{c[:_LONGEST_ID]}…" if len(c) > _LONGEST_ID else c)) for c in row] for row in cells]
    lines += [*table_lines([["record", "kind", "id before", "source"], *rows], 4), ""]
    if total > len(shown):
        lines += [f"{plural(total - len(shown), 'more record')} changed.", ""]
    return [*lines, "All of them:", "", "```", f'polyhop sql "{_QUERY}" --index {report.index}', "```"]


SHOWN_QUARANTINE = 100  # at most as many rows as a page shows at once
LONG_ENCODING_SECONDS = 60.0  # below it encoding is fast enough; chosen
SAMPLED_PASSAGES, SAMPLED_CHARACTERS = 300, 1000
"""Passages that tell the language of a corpus, and of each how much; chosen: 20,000 words, 40 ms to count."""
_SAMPLE = f"""
    SELECT left(text, {SAMPLED_CHARACTERS}) AS text FROM passages ORDER BY hash(passage_id), passage_id
    LIMIT {SAMPLED_PASSAGES}
"""
_COVERAGE = "FROM hub_coverage ORDER BY what, covered + uncovered DESC, part LIMIT 500"
_QUARANTINE = f"SELECT source, line, reason FROM quarantine ORDER BY source, line LIMIT {SHOWN_QUARANTINE}"


def counts_of_current(settings: Settings, index: str) -> dict[str, int]:
    """Counts of the version that the next run derives from, none if there is none that can be read."""
    manifest = readable_manifest(Layout(settings.root).index(index))
    return dict(manifest.counts) if manifest is not None else {}


def headline(report: IndexReport) -> str:
    """One-line summary of a run."""
    if report.changed:
        said = f"version {report.version} published in {sum(report.seconds.values()):.1f} s"
    else:
        said = "nothing has changed" + ("" if report.pinned else f"; version {report.version} stays current")
    return "; ".join(filter(None, (said, report.pin_sentence)))


def summary_lines(settings: Settings, report: IndexReport) -> list[str]:
    """The run in Markdown: what became of it, how much the version holds, where it lies."""
    lines = [f"# Index {report.index}: {headline(report)}", ""]
    lines += [f"* {sentence}" for sentence in report.model_sentences()]
    if not report.changed:
        return lines
    lines += [f"* {name.replace('_', ' ')}: {count:,}" for name, count in report.counts.items()]
    lines += [f"* {report.ratios_in_words}"] if report.ratios else []
    lines += ["", f"Stages reused: {', '.join(report.reused) or 'none'}."]
    lines += [f"* rebuilt after damage: {sentence}" for sentence in report.damaged]
    lines += [f"* {advice}" for advice in run_advice(settings, report)]
    folder = Layout(settings.root).index(report.index).version(report.version)
    return [*lines, "", f"Files: `{folder.path.resolve()}`"]


def run_advice(settings: Settings, report: IndexReport) -> list[str]:
    """Advice on speed and choice of the encoder, and on the language of the corpus, a sentence each."""
    advices = encoding_advice(settings, report), encoder_advice(settings, report), language_advice(settings, report)
    return [advice for advice in advices if advice]


def encoder_advice(settings: Settings, report: IndexReport) -> str:
    """Says that an index keeps another encoder than the default one, and how to change it; otherwise ""."""
    manifest = readable_manifest(Layout(settings.root).index(report.index))
    record = manifest.vectors.get("passage") if manifest is not None else None
    default = EncoderSettings().name
    if record is None or record.encoder.name == default or "name" in settings.encoder.model_fields_set:
        return ""
    return (
        f"the index keeps its encoder {record.encoder.name}; to move it to the default: "
        f"polyhop index --index {report.index} --set encoder.name={default}"
    )


def language_advice(settings: Settings, report: IndexReport) -> str:
    """Advice to set the language if the texts look unlike the default one; otherwise "".

    Read as English, texts of some languages lose their words and names, and nothing else would say so.
    """
    manifest = readable_manifest(Layout(settings.root).index(report.index))
    if not report.changed or manifest is None or "language" in settings.corpus.model_fields_set:
        return ""
    if recorded_language(manifest.settings) != ENGLISH or not report.counts.get("passages"):
        return ""
    code = likely_language([row["text"] for row in _rows(settings, report, _SAMPLE)])
    if not code:
        return ""
    return (
        f"the texts look {language_name(code)} but were read as English, the default; to change that: "
        f"polyhop index --index {report.index} --set corpus.language={code}"
    )


def encoding_advice(settings: Settings, report: IndexReport) -> str:
    """Advice on faster encoding on this machine; "" if there is none, or encoding took less than a minute."""
    from polyhop.warehouse.models.onnx_session import faster_precision

    stages = [stage for stage in report.seconds if stage.startswith("embed-") and report.computed.get(stage)]
    seconds = sum(report.seconds[stage] for stage in stages)
    encoder = settings.encoder
    if seconds < LONG_ENCODING_SECONDS or encoder.name != LOCAL or encoder.precision != "float32":
        return ""
    advice = faster_precision()
    return f"encoding took {seconds:.0f} s; {advice}" if advice else ""


def coverage_rows(settings: Settings, report: IndexReport) -> list[dict[str, Any]]:
    """Shares of what was to be covered: units that a model extracted, and of a graph what its hubs cover."""
    done, failed = report.extraction.get("extracted_units", 0), report.extraction.get("failed_units", 0)
    rows = []
    if done or failed:
        share = round(done / (done + failed), 4)
        rows = [{"what": "extraction", "part": "(all)", "covered": done, "uncovered": failed, "share": share}]
    return rows + (_rows(settings, report, _COVERAGE) if "hubs" in report.counts else [])


def cost_rows(report: IndexReport) -> list[dict[str, Any]]:
    """Rows on the run's model use; empty if no model was called."""
    use = report.model
    if not use.calls and not use.cached:
        return []
    return [
        {
            "calls": use.calls,
            "cached": use.cached,
            "prompt tokens": use.prompt_tokens,
            "completion tokens": use.completion_tokens,
            "cost": cost_words(use.cost_usd),
            "calls of unknown outcome": use.unknown_calls,
            "cost of these at most": cost_words(use.unknown_cost_usd),
        }
    ]


def quarantine_rows(settings: Settings, report: IndexReport) -> list[dict[str, Any]]:
    """The first records of the version that could not be used, and why."""
    return _rows(settings, report, _QUARANTINE) if report.counts.get("quarantined") else []


def published_payload(settings: Settings, report: IndexReport) -> dict[str, Any]:
    """Payload of the event that is emitted after publishing."""
    return {
        **{name: getattr(report, name) for name in ("index", "version", "pinned", "counts", "computed", "reused")},
        "seconds": round(sum(report.seconds.values()), 3),
        "cost_usd": report.model.cost_usd,
        "root": str(settings.root.resolve()),
    }
