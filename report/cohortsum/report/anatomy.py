"""Names of brain regions: what a FreeSurfer or ENIGMA column means to a reader.

``lh_bankssts_thickness`` is hemisphere, Desikan-Killiany region, measure; ENIGMA writes ``L_bankssts_thickavg``. A
structure under the cortex is ``Left-Hippocampus`` or ``Lhippo``. Readers of a figure want ``hippocampus`` under `left
hemisphere`; the ENIGMA Toolbox wants its own names. A name that is of no such form stands for itself: outcomes are
opaque text and only their display depends on this module.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

Hemisphere = Literal["left", "right"]
Lobe = Literal["frontal", "parietal", "temporal", "occipital", "cingulate", "insula"]

MEASURES: Final = ("thickness", "area", "volume")
_ENIGMA_MEASURES: Final = {"thickavg": "thickness", "surfavg": "area"}


@dataclass(frozen=True, slots=True)
class Region:
    """A region of the Desikan-Killiany atlas as a reader names it."""

    label: str
    lobe: Lobe


DESIKAN_KILLIANY: Final[dict[str, Region]] = {
    "bankssts": Region("banks of superior temporal sulcus", "temporal"),
    "caudalanteriorcingulate": Region("caudal anterior cingulate", "cingulate"),
    "caudalmiddlefrontal": Region("caudal middle frontal", "frontal"),
    "cuneus": Region("cuneus", "occipital"),
    "entorhinal": Region("entorhinal", "temporal"),
    "fusiform": Region("fusiform", "temporal"),
    "inferiorparietal": Region("inferior parietal", "parietal"),
    "inferiortemporal": Region("inferior temporal", "temporal"),
    "isthmuscingulate": Region("isthmus cingulate", "cingulate"),
    "lateraloccipital": Region("lateral occipital", "occipital"),
    "lateralorbitofrontal": Region("lateral orbitofrontal", "frontal"),
    "lingual": Region("lingual", "occipital"),
    "medialorbitofrontal": Region("medial orbitofrontal", "frontal"),
    "middletemporal": Region("middle temporal", "temporal"),
    "parahippocampal": Region("parahippocampal", "temporal"),
    "paracentral": Region("paracentral", "frontal"),
    "parsopercularis": Region("pars opercularis", "frontal"),
    "parsorbitalis": Region("pars orbitalis", "frontal"),
    "parstriangularis": Region("pars triangularis", "frontal"),
    "pericalcarine": Region("pericalcarine", "occipital"),
    "postcentral": Region("postcentral", "parietal"),
    "posteriorcingulate": Region("posterior cingulate", "cingulate"),
    "precentral": Region("precentral", "frontal"),
    "precuneus": Region("precuneus", "parietal"),
    "rostralanteriorcingulate": Region("rostral anterior cingulate", "cingulate"),
    "rostralmiddlefrontal": Region("rostral middle frontal", "frontal"),
    "superiorfrontal": Region("superior frontal", "frontal"),
    "superiorparietal": Region("superior parietal", "parietal"),
    "superiortemporal": Region("superior temporal", "temporal"),
    "supramarginal": Region("supramarginal", "parietal"),
    "frontalpole": Region("frontal pole", "frontal"),
    "temporalpole": Region("temporal pole", "temporal"),
    "transversetemporal": Region("transverse temporal", "temporal"),
    "insula": Region("insula", "insula"),
}
"""The 34 regions of one hemisphere, in the order of FreeSurfer's tables."""


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure under the cortex.

    Attributes:
        label: as a reader names it.
        enigma: as ENIGMA names it after ``L`` or ``R``; empty where it has no name there.
    """

    label: str
    enigma: str


SUBCORTICAL: Final[dict[str, Structure]] = {
    "Lateral-Ventricle": Structure("lateral ventricle", "LatVent"),
    "Thalamus": Structure("thalamus", "thal"),
    "Caudate": Structure("caudate", "caud"),
    "Putamen": Structure("putamen", "put"),
    "Pallidum": Structure("pallidum", "pal"),
    "Hippocampus": Structure("hippocampus", "hippo"),
    "Amygdala": Structure("amygdala", "amyg"),
    "Accumbens-area": Structure("accumbens", "accumb"),
    "VentralDC": Structure("ventral diencephalon", ""),
}
"""Structures of one hemisphere as FreeSurfer 7 names them after ``Left-`` and ``Right-``."""

_OTHER_NAMES: Final = {"Thalamus-Proper": "Thalamus"}  # FreeSurfer 6 and before
_BY_ENIGMA: Final = {structure.enigma: name for name, structure in SUBCORTICAL.items() if structure.enigma}
_SIDES: Final[dict[str, Hemisphere]] = {"lh": "left", "rh": "right", "L": "left", "R": "right"}
_ASEG: Final = re.compile(r"(Left|Right)-(.+)")
_ENIGMA_CORTEX: Final = re.compile(r"([LR])_(.+)_(thickavg|surfavg)")


@dataclass(frozen=True, slots=True)
class OutcomeName:
    """What an outcome's name says.

    Attributes:
        name: the name in the study.
        hemisphere: ``left`` or ``right``, or None where the name has no hemisphere.
        structure: the name without hemisphere and measure, for example ``bankssts`` or ``Hippocampus``.
        measure: ``thickness``, ``area`` or ``volume``, or None.
    """

    name: str
    hemisphere: Hemisphere | None
    structure: str
    measure: str | None

    @property
    def label(self) -> str:
        """The structure in a reader's words; the whole name where it is no known region."""
        if self.is_subcortical:
            return SUBCORTICAL[self.structure].label
        region = DESIKAN_KILLIANY.get(self.structure)
        return region.label if region else self.structure

    @property
    def is_cortical(self) -> bool:
        """Whether this is a Desikan-Killiany region of one hemisphere."""
        return self.hemisphere is not None and self.structure in DESIKAN_KILLIANY

    @property
    def is_subcortical(self) -> bool:
        """Whether this is a known structure under the cortex of one hemisphere."""
        return self.hemisphere is not None and self.structure in SUBCORTICAL

    @property
    def enigma(self) -> str:
        """The structure as the ENIGMA Toolbox writes it: ``L_bankssts``, ``Lhippo``; elsewhere the structure alone."""
        if self.hemisphere is None:
            return self.structure
        side = "L" if self.hemisphere == "left" else "R"
        if self.is_subcortical:
            known = SUBCORTICAL[self.structure].enigma
            return f"{side}{known}" if known else self.name
        return f"{side}_{self.structure}"


def read_name(name: str) -> OutcomeName:
    """Return what ``name`` says; a name of no known form is its own structure."""
    side, _, rest = name.partition("_")
    structure, _, measure = rest.rpartition("_")
    if side in ("lh", "rh") and structure and measure in MEASURES:
        return OutcomeName(name, _SIDES[side], structure, measure)
    if (found := _ENIGMA_CORTEX.fullmatch(name)) and found[2] in DESIKAN_KILLIANY:
        return OutcomeName(name, _SIDES[found[1]], found[2], _ENIGMA_MEASURES[found[3]])
    if found := _ASEG.fullmatch(name):
        structure = _OTHER_NAMES.get(found[2], found[2])
        if structure in SUBCORTICAL:
            return OutcomeName(name, "left" if found[1] == "Left" else "right", structure, "volume")
    if name[:1] in ("L", "R") and name[1:] in _BY_ENIGMA:
        return OutcomeName(name, _SIDES[name[0]], _BY_ENIGMA[name[1:]], "volume")
    return OutcomeName(name, None, name, None)
