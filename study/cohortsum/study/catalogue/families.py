"""All families of the catalogue, one tool after the other.

A study that says ``{catalogue: freesurfer.thickness}`` takes unit and clamp from here. Both are copied into the frozen
study, so a later catalogue changes no signed study. Families without rows hold names that rules speak of and that no
study can take from the catalogue.
"""

from collections.abc import Mapping
from types import MappingProxyType

from cohortsum.study.catalogue.clinical import CLINICAL
from cohortsum.study.catalogue.diffusion import DIFFUSION
from cohortsum.study.catalogue.family import Family
from cohortsum.study.catalogue.freesurfer import FREESURFER
from cohortsum.study.catalogue.fsl import FSL
from cohortsum.study.catalogue.prohibited import PROHIBITED
from cohortsum.study.catalogue.quality import QUALITY

ALL_FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.name: family for family in (*PROHIBITED, *FSL, *FREESURFER, *DIFFUSION, *QUALITY, *CLINICAL)}
)
"""Every family by name: where patterns overlap, the first one has the column, and prohibited ones come first."""

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {name: family for name, family in ALL_FAMILIES.items() if family.rows}
)
"""The families that a study can name after ``catalogue:``."""
