"""Names that different versions and programs give to one measure.

FreeSurfer renamed structures between versions, and ENIGMA's scripts write their own names for FreeSurfer's measures. A
study uses one name; a site whose FreeSurfer or ENIGMA table has another one for the same measure need not map it.

====================================  ==========================================================
names                                 where
====================================  ==========================================================
``Left-Thalamus-Proper``              FreeSurfer up to 6; ``Left-Thalamus`` from 7 on
``CorticalWhiteMatterVol``            FreeSurfer 5; ``CerebralWhiteMatterVol`` from 6 on; also lh, rh
``EstimatedTotalIntraCranialVol``     aseg; ``eTIV`` in aparc tables, ``ICV`` in ENIGMA's
``lh_G&S_frontomargin_thickness``     ``lh_G_and_S_...`` where a program could not write ``&``
``lh_cuneus_thickness``, ``_area``    FreeSurfer; ``L_cuneus_thickavg``, ``_surfavg`` in ENIGMA's tables
``Left-Hippocampus`` and seven more   aseg; ``Lhippo`` and the like in ENIGMA's LandRvolumes.csv
====================================  ==========================================================

Names are opaque beyond this list: nothing is compared by sound, case or spelling.
"""

import re
from collections.abc import Iterator

_ENIGMA = {
    "LatVent": ("Lateral-Ventricle",),
    "thal": ("Thalamus-Proper", "Thalamus"),
    "caud": ("Caudate",),
    "put": ("Putamen",),
    "pal": ("Pallidum",),
    "hippo": ("Hippocampus",),
    "amyg": ("Amygdala",),
    "accumb": ("Accumbens-area",),
}
_SIDES = (("L", "Left"), ("R", "Right"))

_SETS: tuple[tuple[str, ...], ...] = (
    ("EstimatedTotalIntraCranialVol", "eTIV", "ICV"),
    *((f"{side}CerebralWhiteMatterVol", f"{side}CorticalWhiteMatterVol") for side in ("", "lh", "rh")),
    *(
        (f"{letter}{short}", *(f"{side}-{structure}" for structure in structures))
        for letter, side in _SIDES
        for short, structures in _ENIGMA.items()
    ),
)
_BY_NAME = {name: names for names in _SETS for name in names}

_REGION = re.compile(r"(lh|rh)_(.+)_(thickness|area)")
_ENIGMA_REGION = re.compile(r"(L|R)_(.+)_(thickavg|surfavg)")
_HEMISPHERES = {"lh": "L", "rh": "R", "L": "lh", "R": "rh"}
_MEASURES = {"thickness": "thickavg", "area": "surfavg", "thickavg": "thickness", "surfavg": "area"}
_AND = "_and_"
_DESTRIEUX = re.compile(r"(lh|rh)_[GS]_?.*")


def also_called(name: str) -> tuple[str, ...]:
    """Return the other names of the measure that is called ``name``, the likeliest first."""
    found = dict.fromkeys(_others(name))
    found.pop(name, None)
    return tuple(found)


def _others(name: str) -> Iterator[str]:
    yield from _BY_NAME.get(name, ())
    for pattern in (_REGION, _ENIGMA_REGION):
        match = pattern.fullmatch(name)
        if match is not None:
            side, region, measure = match.groups()
            yield f"{_HEMISPHERES[side]}_{region}_{_MEASURES[measure]}"
    if _DESTRIEUX.fullmatch(name) is not None:
        yield name.replace("&", _AND)
        yield name.replace(_AND, "&")
