"""Names as a version keeps them for the next one: of an edit, names whose cluster changed are decided about again.

What is decided about a name depends on its cluster alone (or that it was left out of one), unless people or a model
have a say. So decisions about all other names are those of the version before, and equal those of a run from nothing.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyhop.tasks.resolution.candidates import Name, all_pairs, words_of
from polyhop.tasks.resolution.resolve import MAX_CLUSTER, Groups, groups_of
from polyhop.warehouse.files.disk import writing

PREFIX = "resolution"
FILE = f"{PREFIX}_names.parquet"

_ALONE, _LEFT_OUT, _GONE = -1, -2, -3  # instead of the number of the first name of a name's cluster


@dataclass(frozen=True, slots=True, eq=False)
class KeptNames:
    """Names in order (key, name, form, type, mention_count, is_guess), their candidate pairs, and their clusters.

    Of each name's cluster the number of its first name, or why it has none.
    """

    names: pa.Table
    pairs: NDArray[np.int64]
    clusters: NDArray[np.int64]

    @classmethod
    def read(cls, path: Path) -> "KeptNames":
        """Reads the file that `write` wrote."""
        table = pq.read_table(path).combine_chunks()
        longer = table.column("longer").combine_chunks()
        numbers = np.repeat(np.arange(len(table)), longer.value_lengths())
        pairs = np.column_stack((numbers, longer.flatten())).astype(np.int64)
        clusters = table.column("cluster").to_numpy().astype(np.int64)
        return cls(table.drop_columns(["cluster", "longer"]), pairs, clusters)

    @classmethod
    def of(cls, names: pa.Table, groups: Groups) -> "KeptNames":
        """Names and their groups."""
        clusters = np.full(len(names), _ALONE)
        clusters[groups.clusters.left_out] = _LEFT_OUT
        for members in groups.clusters.clusters:
            clusters[members] = members[0]
        return cls(names, groups.pairs, clusters)

    def write(self, path: Path) -> None:
        """One row per name, with the numbers of the names that it may be a shorter form of."""
        bounds = np.searchsorted(self.pairs[:, 0], np.arange(len(self.names) + 1)).astype(np.int32)
        longer = pa.ListArray.from_arrays(bounds, self.pairs[:, 1].astype(np.int32))
        table = self.names.append_column("cluster", pa.array(self.clusters, pa.int32())).append_column("longer", longer)
        with writing("names", path):
            pq.write_table(table, path, compression="zstd", use_dictionary=False)  # each key is there once


def name_table(names: Iterable[Name]) -> pa.Table:
    """Names as they are kept."""
    rows = [(n.key, n.name, n.form, n.type, n.mention_count, n.is_guess) for n in names]
    types = pa.string(), pa.string(), pa.string(), pa.string(), pa.int64(), pa.bool_()
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    labels = ("key", "name", "form", "type", "mention_count", "is_guess")
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], labels)


def _names(table: pa.Table) -> list[Name]:
    keys, names, _, types, counts, guesses = (column.to_pylist() for column in table.columns)
    rows = zip(keys, names, types, counts, guesses, strict=True)
    return [Name(key, name, kind, count, is_guess=guess) for key, name, kind, count, guess in rows]


@dataclass(frozen=True, slots=True, eq=False)
class ChangedNames:
    """All names now, and those to be decided about again with their groups; `keys` of these, and of names that went."""

    kept: KeptNames
    cluster_count: int
    names: Sequence[Name]
    groups: Groups
    keys: Sequence[str]


def changed_names(
    before: KeptNames, named: Mapping[str, Name | None], max_cluster: int = MAX_CLUSTER
) -> ChangedNames | None:
    """The names whose clusters are not as they were; None if all are.

    Args:
        before: The names of the version before.
        named: All names that may have changed, by key, as they are now; None if they no longer exist.
        max_cluster: Names in a cluster, at most.

    Cost: O(names), and what all clusters cost (candidates.py); comparisons of names that changed only.
    """
    is_named = pc.is_in(before.names.column("key"), pa.array(named, pa.string()))
    was = {name.key: name for name in _names(before.names.filter(is_named))}
    changed = {key: name for key, name in named.items() if name != was.get(key)}
    if not changed:
        return None
    is_kept = ~np.asarray(pc.is_in(before.names.column("key"), pa.array(changed, pa.string())))
    new = sorted((name for name in changed.values() if name), key=lambda name: (name.form, name.key))
    # Numbers that all names have now, and the row of each in the names before with the new ones below them.
    kept, count = np.flatnonzero(is_kept), len(before.names)
    forms, keys = before.names.column("form"), before.names.column("key")
    offsets = [bisect_left(kept, (n.form, n.key), key=lambda i: (forms[i].as_py(), keys[i].as_py())) for n in new]
    rows = np.insert(kept, offsets, count + np.arange(len(new)))
    names = pa.concat_tables([before.names, name_table(new)]).combine_chunks().take(pa.array(rows))
    is_new, number = rows >= count, np.full(count, _GONE)
    number[rows[~is_new]] = np.flatnonzero(~is_new)
    # The groups of all: candidate pairs of two kept names are as they were.
    known = number[before.pairs]
    form, kind, guess = (names.column(name).combine_chunks() for name in ("form", "type", "is_guess"))
    words = words_of(form, kind, np.asarray(guess))
    groups = groups_of(words, all_pairs(words, is_new, known[(known >= 0).all(axis=1)]), max_cluster)
    now = KeptNames.of(names, groups)
    # Names in another cluster than before, and all that were or are in one with these, or with those that went.
    clusters = np.where(before.clusters >= 0, number[before.clusters], before.clusters)
    former = np.full(len(rows), _GONE)
    former[~is_new] = clusters[is_kept]
    is_other = now.clusters != former
    touched = np.concatenate((now.clusters[is_other], former[is_other], clusters[~is_kept]))
    is_chosen = is_other | np.isin(now.clusters, touched[touched >= 0])
    chosen = _names(names.filter(pa.array(is_chosen)))
    decided = [*changed, *(name.key for name in chosen)]
    return ChangedNames(now, len(groups.clusters.clusters), chosen, groups.within(is_chosen), decided)
