"""The study definition: the file a statistician writes, checked, frozen and fingerprinted."""

from cohortsum.study.definition.consortium import load_roster
from cohortsum.study.definition.evaluation import constants_in, holds, names_in
from cohortsum.study.definition.expressions import Condition, Expression
from cohortsum.study.definition.freezing import freeze, parse_canonical
from cohortsum.study.definition.frozen import DeadlineSpec, EnrolSpec, FrozenStudy
from cohortsum.study.definition.kinds import (
    AnalysisSpec,
    CombatSpec,
    CorrelationSpec,
    CovarianceSpec,
    CoxSpec,
    CrosstabSpec,
    DpSgdSpec,
    GlmSpec,
    GroupTestSpec,
    HistogramSpec,
    KaplanMeierSpec,
    LogrankSpec,
    MetaSpec,
    MixedSpec,
    NormativeSpec,
    PcaSpec,
    ProportionSpec,
    QuantilesSpec,
    RegressionSpec,
    ReportSpec,
    SummarySpec,
)
from cohortsum.study.definition.loading import Study, load_study
from cohortsum.study.definition.schema import study_schema
from cohortsum.study.definition.terms import Term, coefficient_names, write_term
from cohortsum.study.definition.unbuilt import refuse_unbuilt

__all__ = [
    "AnalysisSpec",
    "CombatSpec",
    "Condition",
    "CorrelationSpec",
    "CovarianceSpec",
    "CoxSpec",
    "CrosstabSpec",
    "DeadlineSpec",
    "DpSgdSpec",
    "EnrolSpec",
    "Expression",
    "FrozenStudy",
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
    "Study",
    "SummarySpec",
    "Term",
    "coefficient_names",
    "constants_in",
    "freeze",
    "holds",
    "load_roster",
    "load_study",
    "names_in",
    "parse_canonical",
    "refuse_unbuilt",
    "study_schema",
    "write_term",
]
