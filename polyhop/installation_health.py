"""The checks of `polyhop doctor` on what is installed and who is writing: packages, the encoder, leases, Neo4j.

Changes nothing.
"""

import os
import time
from importlib.metadata import PackageNotFoundError, requires, version

from polyhop.schemas.encoder_settings import ENTITIES, LOCAL, PASSAGES, Space
from polyhop.schemas.errors import ConfigurationError, StoreError
from polyhop.schemas.printable import plural
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.writer import read_lease
from polyhop.warehouse.models.openvino_session import faster_precision
from polyhop.warehouse.open import examine_graph_server
from polyhop.warehouse.open_encoders import open_encoder


def check_packages(_: Settings) -> str:
    """Says whether the installed packages are those that Polyhop was tested with.

    Raises:
        ConfigurationError: If one is missing, or of a version out of its range.
    """
    wrong, right = [], 0
    for line in requires("polyhop") or []:
        sentence = requirement_fault(line)
        right += not sentence
        wrong += [sentence] if sentence else []
    if wrong:
        raise ConfigurationError(f"{'; '.join(wrong)}. Install what Polyhop asks for: pip install --upgrade polyhop")
    return f"{right} requirements met"


def requirement_fault(line: str) -> str:
    """What is wrong with an installed package, "" if nothing is; one of an extra may be missing.

    Args:
        line: A requirement as packages state it: `prefect<3.9,>=3.8`, `rdflib>=7.1; extra == 'rdf'`.
    """
    from packaging.requirements import Requirement

    wanted = Requirement(line)
    is_extra = "extra" in (line.partition(";")[2])
    if wanted.marker is not None and not is_extra and not wanted.marker.evaluate():
        return ""
    try:
        found = version(wanted.name)
    except PackageNotFoundError:
        return "" if is_extra else f"{wanted.name} is not installed"
    if wanted.specifier.contains(found, prereleases=True):
        return ""
    return f"{wanted.name} is {found}, Polyhop needs {wanted.specifier}"


def check_encoder(settings: Settings) -> str:
    """Encodes a question by the configured encoder, a server's included, and says what did it.

    Raises:
        ModelFileError: If its files are missing, or the local one's not the published ones.
        PolyhopError: If its package or key is missing, or its server does not reply as it should.
    """
    said = _tried(settings, PASSAGES)
    return f"{said}; entities: {_tried(settings, ENTITIES)}" if settings.encoder.entities.name else said


def _tried(settings: Settings, space: Space) -> str:
    encoder = open_encoder(settings, space)
    started = time.perf_counter()
    vectors = encoder.encode_questions(["Is the encoder working?"])
    said = f"{encoder.model}, {vectors.shape[1]} dimensions"
    choice = settings.encoder.choice_of(space)
    if choice.name == LOCAL:
        advice = faster_precision() if choice.precision == "float32" else ""
        return f"{said}, no network; its weights have the published sha256{f'; {advice}' if advice else ''}"
    return f"{said}, one text in {time.perf_counter() - started:.2f} s"


def check_leases(settings: Settings) -> str:
    """Says who is writing which index."""
    layout = Layout(settings.root)
    holders = {name: read_lease(layout.index(name)) for name in layout.index_names()}
    held = [f"index '{name}' is being written by {holder}" for name, holder in holders.items() if holder is not None]
    return "; ".join(held) or "no index is being written"


def check_neo4j(_: Settings) -> str:
    """Says which Neo4j NEO4J_URI names, and whether its indexes serve.

    Raises:
        PolyhopError: If it does not answer, refuses the credentials, or is too old.
        StoreError: If indexes of ours are not online.
    """
    if not os.environ.get("NEO4J_URI"):
        return "no NEO4J_URI: nothing is exported"
    found = examine_graph_server()
    failed = sorted(name for name, state in found.indexes.items() if state != "ONLINE")
    if failed:
        states = ", ".join(f"{name} is {found.indexes[name]}" for name in failed)
        raise StoreError(
            f"Neo4j {found.version} ({found.edition}): {states}; wait until they are built, or drop those that FAILED "
            "and export again"
        )
    count = len(found.indexes)
    return f"version {found.version}, {found.edition} edition, {plural(count, 'index', 'indexes')} of Polyhop online"
