"""The kinds of analysis a study may ask for, one module each; a new kind goes into the three lists below."""

from typing import Annotated

from pydantic import Field

from cohortsum.study.definition.kinds.combat import CombatEntry, CombatSpec
from cohortsum.study.definition.kinds.cox import CoxEntry, CoxSpec
from cohortsum.study.definition.kinds.crosstab import CrosstabEntry, CrosstabSpec
from cohortsum.study.definition.kinds.dp_sgd import DpSgdEntry, DpSgdSpec
from cohortsum.study.definition.kinds.glm import GlmEntry, GlmSpec
from cohortsum.study.definition.kinds.group_test import GroupTestEntry, GroupTestSpec
from cohortsum.study.definition.kinds.histogram import HistogramEntry, HistogramSpec
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec
from cohortsum.study.definition.kinds.kaplan_meier import KaplanMeierEntry, KaplanMeierSpec
from cohortsum.study.definition.kinds.logrank import LogrankEntry, LogrankSpec
from cohortsum.study.definition.kinds.meta import MetaEntry, MetaSpec
from cohortsum.study.definition.kinds.mixed import MixedEntry, MixedSpec
from cohortsum.study.definition.kinds.normative import NormativeEntry, NormativeSpec
from cohortsum.study.definition.kinds.products import (
    CorrelationEntry,
    CorrelationSpec,
    CovarianceEntry,
    CovarianceSpec,
    PcaEntry,
    PcaSpec,
)
from cohortsum.study.definition.kinds.proportion import ProportionEntry, ProportionSpec
from cohortsum.study.definition.kinds.quantiles import QuantilesEntry, QuantilesSpec
from cohortsum.study.definition.kinds.regression import RegressionEntry, RegressionSpec, ReportSpec
from cohortsum.study.definition.kinds.summary import SummaryEntry, SummarySpec

__all__ = [
    "KINDS",
    "LATER_KINDS",
    "AnalysisEntry",
    "AnalysisSection",
    "AnalysisSpec",
    "CombatSpec",
    "CorrelationSpec",
    "CovarianceSpec",
    "CoxSpec",
    "CrosstabSpec",
    "DpSgdSpec",
    "GlmSpec",
    "GroupTestSpec",
    "HistogramSpec",
    "KaplanMeierSpec",
    "LogrankSpec",
    "MetaSpec",
    "MixedSpec",
    "NormativeSpec",
    "PcaSpec",
    "ProportionSpec",
    "QuantilesSpec",
    "RegressionSpec",
    "ReportSpec",
    "SummarySpec",
]

AnalysisEntry = Annotated[
    SummaryEntry
    | HistogramEntry
    | CrosstabEntry
    | ProportionEntry
    | QuantilesEntry
    | GroupTestEntry
    | CorrelationEntry
    | CovarianceEntry
    | PcaEntry
    | RegressionEntry
    | MixedEntry
    | NormativeEntry
    | GlmEntry
    | MetaEntry
    | CombatEntry
    | KaplanMeierEntry
    | LogrankEntry
    | CoxEntry
    | DpSgdEntry,
    Field(discriminator="kind"),
]  # fmt: skip

KINDS: dict[str, type[AnalysisSection]] = {
    "summary": SummaryEntry,
    "histogram": HistogramEntry,
    "crosstab": CrosstabEntry,
    "proportion": ProportionEntry,
    "quantiles": QuantilesEntry,
    "test": GroupTestEntry,
    "correlation": CorrelationEntry,
    "covariance": CovarianceEntry,
    "pca": PcaEntry,
    "regression": RegressionEntry,
    "mixed": MixedEntry,
    "normative": NormativeEntry,
    "glm": GlmEntry,
    "meta": MetaEntry,
    "combat": CombatEntry,
    "kaplan_meier": KaplanMeierEntry,
    "logrank": LogrankEntry,
    "cox": CoxEntry,
    "dp_sgd": DpSgdEntry,
}
"""The entry behind each word of ``kind:``, in the order in which messages list them."""

LATER_KINDS: frozenset[str] = frozenset()
"""Analyses that later versions have; refused by name. There is none at present."""
