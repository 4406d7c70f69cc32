"""The tables of ENIGMA's protocols, and the units of their columns.

``CorticalMeasuresENIGMA_ThickAvg.csv`` and ``_SurfAvg.csv`` hold 68 regions of the Desikan-Killiany atlas,
``LandRvolumes.csv`` 16 subcortical volumes; every one repeats ICV, and the cortical ones the means of the hemispheres.
``Covariates.csv`` is a table like any other: its units are the site's to say.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from cohortsum.node.tables.freesurfer import any_layout
from cohortsum.node.tables.sniff import Facts, Layout

_UNITS = (
    (re.compile(r"[LR]_.+_thickavg|[LR]Thickness"), "mm"),
    (re.compile(r"[LR]_.+_surfavg|[LR]SurfArea"), "mm2"),
    (re.compile(r"ICV|[LR](LatVent|thal|caud|put|pal|hippo|amyg|accumb)"), "mm3"),
)


def layout(rows: Iterable[str], file: str) -> Layout:
    """Return the layout with the units that the protocols fix; raises DataError."""
    found = any_layout(rows, file)
    units = {place: _unit(name) for place, name in enumerate(found.names)}
    facts = {place: Facts("the format", unit) for place, unit in units.items() if unit is not None}
    return replace(found, facts=facts)


def _unit(name: str) -> str | None:
    return next((unit for pattern, unit in _UNITS if pattern.fullmatch(name)), None)
