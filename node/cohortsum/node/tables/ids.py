# ruff: noqa: S608  identifiers in SQL are the caller's (t0); nothing read from a file becomes SQL
r"""Person ids: text, matched exactly, once per table; what is wrong is counted, never repaired silently.

Near misses are ids without a partner that would have one but for letter case, blanks, a ``sub-`` or ``FS_``
prefix, or zero padding. They are counted so that the site can correct its tables; joining them would be a
guess about identity.

The ids of the people who are left stand in a private file beside the values, row by row. Values and ids meet only in
the site's own record of whom it answered for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from cohortsum.crypto.errors import DataError
from cohortsum.node.table_config import Named, RowChoice
from cohortsum.node.tables.numbers import MISSING, PATTERN
from cohortsum.node.tables.store import Store

_SLICE = 2**16
"""Most ids in memory at once while the file is written."""

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+)?"

_NEAR = {  # keys under which two different ids may be one person
    "letter case": "lower({})",
    "blanks": "trim({}, ' ' || chr(9))",
    "a sub- prefix": "regexp_replace({}, '^sub-', '')",
    "an FS_ prefix": "regexp_replace({}, '^FS_', '')",
    "zero padding": r"regexp_replace({}, '(^|[^0-9])0+([0-9])', '\1\2', 'g')",
}


@dataclass(frozen=True, slots=True)
class IdsFile:
    """A private file of person ids, one a line: no id holds a line end, because tables are read by lines.

    Attributes:
        path: where it lies.
        people: number of lines.
    """

    path: Path = field(repr=False)
    people: int = field(repr=False)

    def write(self, store: Store) -> None:
        """Copy the ids of the table ``joined`` in the order of its column ``place``."""
        with self.path.open("x", encoding="utf-8", newline="\n") as out:
            for ids in store.ids("joined", self.people, _SLICE):
                out.writelines(f"{one}\n" for one in ids)

    def batches(self, size: int) -> Iterator[list[str]]:
        """Yield the ids in batches of ``size``, always in the same order."""
        with self.path.open(encoding="utf-8", newline="\n") as lines:
            while batch := [line[:-1] for line in islice(lines, size)]:
                yield batch


def require_ids(store: Store, table: str, label: str, column: str) -> None:
    """Raise DataError where a row has no id."""
    without = store.count(
        f"SELECT count(*) FROM {table} WHERE trim(id) IN (SELECT unnest(?))", [sorted(MISSING)]
    )
    if without:
        raise DataError(f"{label}, column {column}: {without} rows have no id; fill it in or remove the rows")


def choose_rows(store: Store, table: str, label: str, id_column: str, choice: RowChoice | None) -> int:
    """Keep one row per person in ``table``, by ``choice`` and the column ``visit``; return how many went.

    Raises DataError where people still have several rows, or where the order of visits is not certain.
    """
    before = _rows(store, table)
    if choice is not None and isinstance(choice.choose, Named):
        store.run(f"DELETE FROM {table} WHERE visit <> ?", [choice.choose.named])
    elif choice is not None:
        _keep_first_or_last(store, table, label, choice)
    repeated = store.count(f"SELECT count(*) FROM (SELECT id FROM {table} GROUP BY id HAVING count(*) > 1)")
    if repeated:
        surplus = store.count(f"SELECT count(*) - count(DISTINCT id) FROM {table}")
        cure = (
            "say which row counts with rows: {order: ..., choose: first | last | {named: ...}} in node.yaml"
            if choice is None
            else f"column {choice.order} does not tell them apart: repair the table"
        )
        raise DataError(
            f"{label}, column {id_column}: {repeated} ids repeat, {surplus} rows too many; {cure}"
        )
    return before - _rows(store, table)


def _keep_first_or_last(store: Store, table: str, label: str, choice: RowChoice) -> None:
    repeated = f"FROM {table} WHERE id IN (SELECT id FROM {table} GROUP BY id HAVING count(*) > 1)"
    rows = store.count(f"SELECT count(*) {repeated}")
    numbers, dates = (
        store.count(f"SELECT count(*) {repeated} AND regexp_full_match(visit, ?)", [pattern])
        for pattern in (PATTERN, _DATE)
    )
    if rows not in (numbers, dates):
        raise DataError(
            f"{label}, column {choice.order}: {rows} rows are of people with several; {numbers} hold a number"
            f" and {dates} a date like 2026-11-30, expected all of one kind to order them;"
            " repair them or choose by label: {named: ...}"
        )
    key = "try_cast(visit AS DOUBLE)" if rows == numbers else "visit"
    order = "ASC" if choice.choose == "first" else "DESC"
    store.run(
        f"CREATE OR REPLACE TABLE {table} AS SELECT * EXCLUDE (nth) FROM"
        f" (SELECT *, rank() OVER (PARTITION BY id ORDER BY {key} {order}) AS nth FROM {table}) WHERE nth = 1"
    )


def leave_out(store: Store, tables: Sequence[str], ids: Sequence[str], label: str) -> tuple[int, int]:
    """Remove the people in ``ids``; return how many ids were found and how many were not.

    A withdrawal must not be missed for a spelling: an id that is not found but nearly matches a person is a
    DataError.
    """
    everybody = " UNION ".join(f"SELECT id FROM {table}" for table in tables)
    store.run("CREATE TABLE excluded AS SELECT DISTINCT unnest(?::VARCHAR[]) AS id", [list(ids)])
    store.run(f"CREATE TABLE everybody AS {everybody}")
    near = near_misses(store, "excluded", "everybody")
    if near:
        raise DataError(
            f"{label}: ids match nobody exactly but somebody nearly ({_listed(near)});"
            " write them as the tables do, so that no withdrawal is missed"
        )
    for table in tables:
        store.run(f"DELETE FROM {table} WHERE id IN (SELECT id FROM excluded)")
    unknown = unmatched(store, "excluded", "everybody")
    return _rows(store, "excluded") - unknown, unknown


def unmatched(store: Store, left: str, right: str) -> int:
    """Return how many ids of ``left`` are not in ``right``."""
    return store.count(f"SELECT count(*) FROM {left} WHERE id NOT IN (SELECT id FROM {right})")


def near_misses(store: Store, left: str, right: str) -> dict[str, int]:
    """Return, by the kind of difference, how many unmatched ids of ``left`` nearly match one of ``right``."""
    alone = "(SELECT id FROM {} WHERE id NOT IN (SELECT id FROM {}))"
    ours, theirs = alone.format(left, right), alone.format(right, left)
    together = "id"
    for key in _NEAR.values():
        together = key.format(together)
    counts = {
        kind: store.count(f"SELECT count(*) FROM {ours} WHERE {key} IN (SELECT {key} FROM {theirs})")
        for kind, key in {kind: key.format("id") for kind, key in _NEAR.items()}.items()
        | {("any of these", together)}
    }
    return {kind: counts[kind] for kind in (*_NEAR, "any of these") if counts[kind]}


def compare(store: Store, first: tuple[str, str], second: tuple[str, str]) -> list[str]:
    """Return sentences on how the ids of two tables (name, label) match; counts only."""
    (left, left_label), (right, right_label) = first, second
    report = [
        f"{unmatched(store, one, other)} people of {one_label} are not in {other_label}"
        for one, one_label, other, other_label in (
            (left, left_label, right, right_label),
            (right, right_label, left, left_label),
        )
    ]
    near = near_misses(store, left, right)
    if near:
        report.append(
            f"ids of {left_label} and {right_label} that differ only by {_listed(near)}; none was joined"
        )
    return report


def _listed(near: dict[str, int]) -> str:
    return ", ".join(f"{kind}: {count}" for kind, count in near.items())


def _rows(store: Store, table: str) -> int:
    return store.count(f"SELECT count(*) FROM {table}")
