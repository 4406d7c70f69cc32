"""The kinds of analysis a study may ask for, one module each; a new kind goes into the three lists below."""

from typing import Annotated

from pydantic import Field

from cohortsum.study.definition.kinds.crosstab import CrosstabEntry, CrosstabSpec
from cohortsum.study.definition.kinds.histogram import HistogramEntry, HistogramSpec
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec
from cohortsum.study.definition.kinds.mixed import MixedEntry, MixedSpec
from cohortsum.study.definition.kinds.normative import NormativeEntry, NormativeSpec
from cohortsum.study.definition.kinds.regression import RegressionEntry, RegressionSpec, ReportSpec
from cohortsum.study.definition.kinds.summary import SummaryEntry, SummarySpec

__all__ = [
    "KINDS",
    "LATER_KINDS",
    "AnalysisEntry",
    "AnalysisSection",
    "AnalysisSpec",
    "CrosstabSpec",
    "HistogramSpec",
    "MixedSpec",
    "NormativeSpec",
    "RegressionSpec",
    "ReportSpec",
    "SummarySpec",
]

AnalysisEntry = Annotated[
    SummaryEntry
    | HistogramEntry
    | CrosstabEntry
    | RegressionEntry
    | MixedEntry
    | NormativeEntry,
    Field(discriminator="kind"),
]  # fmt: skip

KINDS: dict[str, type[AnalysisSection]] = {
    "summary": SummaryEntry,
    "histogram": HistogramEntry,
    "crosstab": CrosstabEntry,
    "regression": RegressionEntry,
    "mixed": MixedEntry,
    "normative": NormativeEntry,
}
"""The entry behind each word of ``kind:``, in the order in which messages list them."""

LATER_KINDS = frozenset(
    {
        "quantiles", "proportion", "covariance", "correlation", "pca", "glm", "cox", "kaplan_meier",
        "logrank", "meta", "combat", "test", "dp_sgd",
    }
)  # fmt: skip
"""Analyses that later versions have; refused by name."""
