"""Names of brain regions: what a FreeSurfer column means to a reader.

``lh_bankssts_thickness`` is hemisphere, Desikan-Killiany region, measure. Readers of a figure want ``banks of STS``
under `left hemisphere`; the ENIGMA Toolbox wants ``L_bankssts``. A name that is not of this form stands for itself:
outcomes are opaque text and only their display depends on this module.
"""

from dataclasses import dataclass
from typing import Final, Literal

Hemisphere = Literal["left", "right"]
Lobe = Literal["frontal", "parietal", "temporal", "occipital", "cingulate", "insula"]

MEASURES: Final = ("thickness", "area", "volume")


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
class OutcomeName:
    """What an outcome's name says.

    Attributes:
        name: the name in the study.
        hemisphere: ``left`` or ``right``, or None where the name has no hemisphere.
        structure: the name without hemisphere and measure, for example ``bankssts``.
        measure: ``thickness``, ``area`` or ``volume``, or None.
    """

    name: str
    hemisphere: Hemisphere | None
    structure: str
    measure: str | None

    @property
    def label(self) -> str:
        """The structure in a reader's words; the whole name where it is no known region."""
        region = DESIKAN_KILLIANY.get(self.structure)
        return region.label if region else self.structure

    @property
    def enigma(self) -> str:
        """The structure as the ENIGMA Toolbox writes it: ``L_bankssts``; without a hemisphere the structure alone."""
        match self.hemisphere:
            case "left":
                return f"L_{self.structure}"
            case "right":
                return f"R_{self.structure}"
            case None:
                return self.structure


def read_name(name: str) -> OutcomeName:
    """Return what ``name`` says; a name that is not ``{lh,rh}_<structure>_<measure>`` is its own structure."""
    side, _, rest = name.partition("_")
    structure, _, measure = rest.rpartition("_")
    if structure and measure in MEASURES:
        match side:
            case "lh":
                return OutcomeName(name, "left", structure, measure)
            case "rh":
                return OutcomeName(name, "right", structure, measure)
            case _:
                pass
    return OutcomeName(name, None, name, None)
