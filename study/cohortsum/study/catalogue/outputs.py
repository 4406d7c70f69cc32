"""What can be released about a variable, in the terms of the disclosure page, and which analysis releases what.

The page tells three classes apart: aggregates, model parameters and counts; its tables add percentiles, covariance
matrices, components and what belongs to one person.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Output(StrEnum):
    """A kind of released figure."""

    SUMMARY = "means, variances and other moments"
    DISTRIBUTION = "percentiles"
    MODEL = "model parameters"
    COVARIANCE = "covariance and correlation matrices"
    COMPONENTS = "principal components"
    COUNT = "counts of people"
    INDIVIDUAL = "values of one person"


AGGREGATES = frozenset(
    (Output.SUMMARY, Output.DISTRIBUTION, Output.MODEL, Output.COVARIANCE, Output.COMPONENTS)
)
"""What is computed from values of many people. A rule for a mean holds for all of them: an intercept is a mean, the
diagonal of a covariance matrix holds variances, and components come from that matrix."""

RELEASES = AGGREGATES | {Output.COUNT}
"""Everything about many people."""

EVERYTHING = frozenset(Output)

OUTPUTS_OF_KIND: Mapping[str, frozenset[Output]] = MappingProxyType(
    {
        "summary": frozenset((Output.SUMMARY, Output.COUNT)),
        "histogram": frozenset((Output.DISTRIBUTION, Output.COUNT)),
        "quantiles": frozenset((Output.DISTRIBUTION, Output.COUNT)),
        "crosstab": frozenset((Output.COUNT,)),
        "proportion": frozenset((Output.COUNT,)),
        "test": frozenset((Output.SUMMARY, Output.MODEL)),
        "correlation": frozenset((Output.COVARIANCE,)),
        "covariance": frozenset((Output.COVARIANCE,)),
        "pca": frozenset((Output.COMPONENTS,)),
        "regression": frozenset((Output.MODEL,)),
        "mixed": frozenset((Output.MODEL,)),
        "normative": frozenset((Output.MODEL,)),
        "glm": frozenset((Output.MODEL,)),
        "meta": frozenset((Output.MODEL,)),
        "cox": frozenset((Output.MODEL,)),
        "kaplan_meier": frozenset((Output.COUNT,)),
        "logrank": frozenset((Output.MODEL, Output.COUNT)),
        "combat": frozenset((Output.SUMMARY, Output.MODEL)),
        "dp_sgd": frozenset((Output.MODEL,)),
    }
)
"""Outputs by the kind of an analysis in the study file. Centiles of `normative` are those of a fitted normal law, hence
parameters; a histogram shows a distribution by counts, and must satisfy the rules for both."""
