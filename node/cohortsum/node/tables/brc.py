"""``IDPs.txt`` of the BRC pipeline: a person's id and thousands of numbers in a line, and no header.

The pipeline (SPMIC-UoN/BRC_Pipeline, ``BRC_IDP_extraction``) appends one block of values after the other, so a
column is known by its place alone, and the number of fields tells which blocks are there:

======  =========================================================
fields  blocks after the id
======  =========================================================
868     867 image-derived phenotypes of IDP_list.txt
1274    1273 values of FreeSurfer (``FS_IDPs.txt``)
2141    both
5607    both, and 3466 values of resting-state fMRI
======  =========================================================

Any other number is refused. A line that lost or gained a value is broken, and so is a line with a word among its numbers:
the pipeline takes whatever its programs print for values, messages included. Nothing is ever shifted.
``IDPs.tsv`` of newer versions has the header line ``SubjectID ...`` and is read by it.

``brc_columns.tsv`` lists name and unit of every column. The units are those of the values, where the pipeline's own list
says otherwise: diffusivities are mm2/s (its list: AU), and the volume of white-matter hyperintensities is a count of
voxels (its list: mm3), so it says nothing before the site declares the volume of a voxel.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.sniff import BLANKS, Facts, Layout, delimiter_of, first_line, sniff, split

_ID = "SubjectID"
_LISTED = 867
_FREESURFER = 1273
_ORIGIN = "the format"


@cache
def _columns() -> tuple[tuple[str, str], ...]:
    """Return name and unit (empty: none) of the 5606 columns of values, in their order."""
    text = files("cohortsum.node.tables").joinpath("brc_columns.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return tuple((name, unit) for name, unit in rows)


@cache
def _known() -> Mapping[int, tuple[tuple[str, str], ...]]:
    """Return the columns after the id by the number of fields in a line."""
    columns = _columns()
    blocks = (
        columns[:_LISTED],
        columns[_LISTED : _LISTED + _FREESURFER],
        columns[: _LISTED + _FREESURFER],
        columns,
    )
    return {1 + len(block): block for block in blocks}


def units() -> Mapping[str, str]:
    """Return the units of the columns that have one of the closed table, by name."""
    return {name: unit for name, unit in _columns() if unit}


def layout(rows: Iterable[str], file: str) -> Layout:
    """Return the layout, by the header line or by the number of fields in the first line; raises DataError."""
    line = first_line(rows, file)
    fields = split(line.strip(BLANKS), " ")
    if fields is None:
        raise DataError(f"{file}: the quotes in the first line do not close; supply the file as BRC wrote it")
    if fields[0] == _ID:
        return _with_header(line, file)
    columns = _known().get(len(fields))
    if columns is None:
        raise DataError(
            f"{file}: the first line has {len(fields)} fields, expected {', '.join(map(str, sorted(_known())))}, or a"
            f" header line that begins with {_ID}; supply the table with its header"
        )
    facts = {place: Facts(_ORIGIN, unit) for place, (_, unit) in enumerate(columns, start=1) if unit}
    names = (_ID, *(name for name, _ in columns))
    return Layout(" ", names, header=False, numeric=True, facts=facts)


def _with_header(line: str, file: str) -> Layout:
    found = sniff([line], file)
    known = units()
    facts = {place: Facts(_ORIGIN, known[name]) for place, name in enumerate(found.names) if name in known}
    return Layout(delimiter_of(line), found.names, numeric=True, facts=facts)
