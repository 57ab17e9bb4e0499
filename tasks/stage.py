"""What a stage is: data plus three plain functions, so that one list of stages runs directly, on Prefect or anywhere.

Runs nothing (flows/index.py does).
"""

from collections.abc import Callable
from dataclasses import dataclass

from warehouse.build import Build

Counts = dict[str, int]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch did: units in it, and how many of them no cache could answer."""

    units: int
    computed: int


@dataclass(frozen=True, slots=True)
class Stage:
    """One step from a corpus to a published version.

    Attributes:
        name: Name, as seen in manifests, progress and on the dashboard.
        fingerprint: sha256 of everything that will determine the result; the stage is skipped if a published version
            has the same.
        batches: Numbers of the batches still to do; empty if `finish` does all the work.
        run_batch: Does one batch; safe to repeat, safe beside other batches; returns what it did.
        finish: Puts the batches together into tables and arrays; returns counts that depend on the result only.
        tables: Tables that the stage fills.
        rows: (table, column, value) of the rows that it fills in tables shared with other stages.
        arrays: Prefix of the array files that it writes, "" if none.
        outcome: Hash of what came out, for stages whose fingerprint does not determine it because a model has a say;
            asked after `finish`.
        reads_parts_of: Stages whose part files `finish` reads; they must run if this one does.
    """

    name: str
    fingerprint: Callable[[Build], str]
    batches: Callable[[Build], list[int]]
    run_batch: Callable[[Build, int], BatchResult]
    finish: Callable[[Build], Counts]
    tables: tuple[str, ...] = ()
    rows: tuple[tuple[str, str, str], ...] = ()
    arrays: str = ""
    outcome: Callable[[Build], str] | None = None
    reads_parts_of: tuple[str, ...] = ()


def no_batches(_: Build) -> list[int]:
    """For stages that are one step."""
    return []


def nothing_to_run(_: Build, batch: int) -> BatchResult:
    """The batch function of stages without batches.

    Raises:
        ValueError: Always: nobody may call it.
    """
    raise ValueError(f"this stage has no batch {batch}")
