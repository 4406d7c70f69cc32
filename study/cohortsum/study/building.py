"""From an analysis as a study freezes it to the statistic that computes it."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.definition import (
    AnalysisSpec,
    Condition,
    CrosstabSpec,
    FrozenStudy,
    HistogramSpec,
    MixedSpec,
    NormativeSpec,
    RegressionSpec,
    SummarySpec,
    holds,
    write_term,
)
from cohortsum.study.statistics.crosstab import Crosstab
from cohortsum.study.statistics.curves import Curve
from cohortsum.study.statistics.histogram import Histogram
from cohortsum.study.statistics.interface import Statistic
from cohortsum.study.statistics.joint import Joint
from cohortsum.study.statistics.mixed import Mixed
from cohortsum.study.statistics.normative import Normative
from cohortsum.study.statistics.norms import Grid
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.statistics.site_test import SiteTest
from cohortsum.study.statistics.summary import Summary
from cohortsum.study.statistics.units import Where
from cohortsum.study.variables import Factor


def fraction_bits(max_participants: int) -> int:
    """Return the bits behind the binary point of the finest grid on which max_participants values of 1 cannot wrap."""
    return 62 - max_participants.bit_length()


def statistic_of(study: FrozenStudy, spec: AnalysisSpec) -> Statistic:
    """Return the statistic behind one analysis of a study."""
    bits = fraction_bits(study.protection.max_participants)
    where = None if spec.where is None else _subgroup(study, spec.where)
    numbers, factors = study.numbers, study.factors
    match spec:
        case SummarySpec():
            variables = tuple(numbers[name] for name in spec.variables)
            return Summary(spec.name, variables, tuple(factors[name] for name in spec.by), bits, where)
        case HistogramSpec():
            return Histogram(spec.name, tuple(numbers[name] for name in spec.variables), spec.edges, where)
        case CrosstabSpec():
            return Crosstab(spec.name, tuple(factors[name] for name in spec.factors), where)
        case RegressionSpec():
            report = spec.report
            regression = Regression(
                name=spec.name,
                outcomes=tuple(numbers[name] for name in spec.outcomes),
                terms=tuple(write_term(term) for term in spec.terms),
                variables=study.variables,
                site_effect=spec.site_effect,
                missing=spec.missing,
                fraction_bits=bits,
                effect=None if report is None else report.effect,
                correction="none" if report is None else report.correction,
                contrasts={name: dict(weights) for name, weights in spec.contrasts.items()},
                tests={name: tuple(write_term(term) for term in terms) for name, terms in spec.tests.items()},
                where=where,
                weights=None if spec.weights is None else numbers[spec.weights],
                ridge=spec.ridge,
                vif=spec.vif,
                covariance=spec.covariance,
                multivariate={
                    name: Joint(joint.outcomes, tuple(write_term(term) for term in joint.terms))
                    for name, joint in spec.multivariate.items()
                },
            )
            return SiteTest(spec.name, regression) if spec.test_site else regression
        case MixedSpec():
            return Mixed(
                name=spec.name,
                regression=Regression(
                    name=spec.name,
                    outcomes=tuple(numbers[name] for name in spec.outcomes),
                    terms=tuple(write_term(term) for term in spec.terms),
                    variables=study.variables,
                    site_effect="within",
                    missing=spec.missing,
                    fraction_bits=bits,
                    where=where,
                ),
                ratios=spec.ratios,
                site_size=spec.site_size,
                max_ratio=spec.max_ratio,
            )
        case NormativeSpec():
            return Normative(
                name=spec.name,
                regression=Regression(
                    name=spec.name,
                    outcomes=tuple(numbers[name] for name in spec.outcomes),
                    terms=tuple(write_term(term) for term in spec.terms),
                    variables=study.variables,
                    site_effect=spec.site_effect,
                    missing=spec.missing,
                    fraction_bits=bits,
                    where=where,
                    curves={spec.over: Curve(numbers[spec.over], spec.basis, spec.knots)},
                ),
                grid=grid_of(spec.grid, factors),
                centiles=spec.centiles,
                modelled=spec.scale == "modelled",
            )
        case _:
            raise TypeError(f"analysis {spec.name}: no statistic computes kind {spec.kind}")


def grid_of(values: Mapping[str, Sequence[str | float]], factors: Mapping[str, Factor]) -> Grid:
    """Return every combination of ``values``, as they are written and as people; the last variable runs fastest."""
    points = tuple(product(*values.values()))
    numbers: dict[str, NDArray[np.float64]] = {}
    levels: dict[str, NDArray[np.int16]] = {}
    for place, name in enumerate(values):
        column = [point[place] for point in points]
        if name in factors:
            levels[name] = np.array([factors[name].levels.index(str(level)) for level in column], np.int16)
        else:
            numbers[name] = np.array(column, np.float64)
    return tuple(values), points, Batch(len(points), numbers, levels)


def _subgroup(study: FrozenStudy, condition: Condition) -> Where:
    def where(batch: Batch) -> NDArray[np.bool_]:
        return holds(condition, batch, study.factors)

    return where
