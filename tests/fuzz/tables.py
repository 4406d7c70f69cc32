"""Readers of a site's own tables: text of every format, with sidecars; the values in them."""

import hashlib
from collections.abc import Callable, Iterable

import numpy as np

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables import brc, enigma, freesurfer
from cohortsum.node.tables.bids import Sidecar
from cohortsum.node.tables.files import SiteFile
from cohortsum.node.tables.levels import LevelColumn
from cohortsum.node.tables.numbers import NumberColumn
from cohortsum.node.tables.rows import Wanted
from cohortsum.node.tables.sniff import Layout, sniff
from tests.fuzz.target import Reader, Target, decoder, scratch

LAYOUTS: tuple[Callable[[Iterable[str], str], Layout], ...] = (
    sniff,
    freesurfer.any_layout,
    freesurfer.layout,
    enigma.layout,
    brc.layout,
)


def _text(data: bytes) -> None:
    """Read a text table as one of the formats, and copy its first and last columns."""
    reader = Reader(data)
    layout_of = reader.pick(LAYOUTS)
    home = scratch()
    path, copy = home / "table.csv", home / "copy"
    path.write_bytes(reader.rest())
    for old in (copy, copy.with_suffix(".cells")):
        old.unlink(missing_ok=True)
    file = SiteFile("table t", path, layout_of, frozenset({"-9999"}))
    layout = file.layout()
    assert all(layout.names)
    wanted = Wanted(0, None, (0, len(layout.names) - 1))
    count, digest = file.copy(layout, wanted, copy)
    assert digest == file.digest() == hashlib.sha256(path.read_bytes()).digest()
    assert len(copy.read_bytes().splitlines()) == count.good or count.good
    for _, cells in file.rows(layout, hashlib.sha256()):
        for column in (NumberColumn(declared=frozenset({"-9999"}), codes={"89+": "89"}),):
            values = column.parse([cell.strip() for cell in cells or ()]).values
            assert not np.isinf(values).any()
            column.parse([cell.strip() for cell in cells or ()], decimal_comma=True)
        LevelColumn(("control", "case"), codes={"1": "control"}).parse(cells or ())


def _ids(data: bytes) -> None:
    path = scratch() / "ids.txt"
    path.write_bytes(data)
    SiteFile("exclusion list", path).texts()


def _sidecar(data: bytes) -> None:
    layout = Layout("\t", ("participant_id", "age", "sex"))
    found = Sidecar("table t", scratch() / "table.json").describe(layout, data)
    assert found.names == layout.names


TARGETS = (
    Target("table-text", decoder(_text, errors=DataError), size=2048, examples=40),
    Target("table-ids", decoder(_ids, errors=DataError), size=1024),
    Target("table-sidecar", decoder(_sidecar, errors=DataError), size=1024),
)
