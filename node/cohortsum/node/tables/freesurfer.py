"""FreeSurfer's tables, as ``aparcstats2table`` and ``asegstats2table`` write them.

The first header cell says what a table holds: ``lh.aparc.thickness`` is hemisphere, parcellation and measure,
``Measure:volume`` is aseg. From it follow the units, and whether a table may stand under the names that a study uses:
the Desikan-Killiany and the DKT parcellation give their regions the same names and other borders
(Klein and Tourville 2012), so a sum over both would be a sum over different regions. Columns of a DKT table are
therefore called ``NAME_dkt``, in whatever format the table was declared, and only a variable that says ``dkt`` in
its own name may come from them.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.sniff import Facts, Layout, sniff

DKT_MARK = "_dkt"
_ORIGIN = "the format"

_APARC = re.compile(
    r"(?P<hemisphere>lh|rh)\.(?P<parcellation>.+)\."
    r"(?P<measure>area|volume|thickness|thicknessstd|meancurv|gauscurv|foldind|curvind)"
)
_ASEG = re.compile(r"Measure:(?P<measure>\w+)")
_UNITS = {"area": "mm2", "volume": "mm3", "thickness": "mm", "thicknessstd": "mm"}
_WHOLE_HEAD = frozenset(("eTIV", "BrainSegVolNotVent", "BrainSegVol"))
"""Volumes that ``aparcstats2table`` adds to every table, whatever it measures."""

_ASEG_COUNT = re.compile(r".*SurfaceHoles")
_ASEG_SHARE = re.compile(r".*-to-eTIV")
_ASEG_NAME = re.compile(
    r"(Left|Right)-.+|Brain-?S.*|eTIV|EstimatedTotalIntraCranialVol|IntraCranialVol|.*Vol"
)


def any_layout(rows: Iterable[str], file: str) -> Layout:
    """Return the layout of any text table, with columns of a DKT table called so."""
    return _marked(sniff(rows, file))


def layout(rows: Iterable[str], file: str) -> Layout:
    """Return the layout of a FreeSurfer table with its units; raises DataError for another table."""
    found = sniff(rows, file)
    first, *names = found.names
    aparc = _APARC.fullmatch(first)
    told = aparc or _ASEG.fullmatch(first)
    if told is None:
        raise DataError(
            f"{file}: the first column is not named as aparcstats2table or asegstats2table name it, expected"
            " lh.aparc.thickness or Measure:volume or the like; supply their table, or say format: text"
        )
    if aparc is None and not any(_ASEG_NAME.fullmatch(name) for name in names):
        raise DataError(
            f"{file}: no column bears the name of a structure, expected Left-Hippocampus and the like: the"
            " table is transposed; write it without --transpose"
        )
    unit_of = _aparc_unit if aparc is not None else _aseg_unit
    units = {place: unit_of(told["measure"], name) for place, name in enumerate(names, start=1)}
    facts = {place: Facts(_ORIGIN, unit) for place, unit in units.items() if unit is not None}
    return _marked(replace(found, facts=facts))


def _aparc_unit(measure: str, name: str) -> str | None:
    if name in _WHOLE_HEAD:
        return "mm3"
    return _UNITS.get(measure)


def _aseg_unit(measure: str, name: str) -> str | None:
    if measure != "volume" or _ASEG_COUNT.fullmatch(name) or _ASEG_SHARE.fullmatch(name):
        return None
    return "mm3"


def _marked(found: Layout) -> Layout:
    first, *names = found.names
    aparc = _APARC.fullmatch(first)
    if aparc is None or "DKT" not in aparc["parcellation"]:
        return found
    marked = (name if name in _WHOLE_HEAD else name + DKT_MARK for name in names)
    return replace(found, names=(first, *marked))
