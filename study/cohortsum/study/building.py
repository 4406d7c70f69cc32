"""From an analysis as a study freezes it to the statistic that computes it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.definition import (
    AnalysisSpec,
    CombatSpec,
    Condition,
    CorrelationSpec,
    CovarianceSpec,
    CoxSpec,
    CrosstabSpec,
    DpSgdSpec,
    FrozenStudy,
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
    SummarySpec,
    holds,
    write_term,
)
from cohortsum.study.statistics.chained import Chained
from cohortsum.study.statistics.combat import Combat
from cohortsum.study.statistics.correlation import Correlation
from cohortsum.study.statistics.covariance import Covariance
from cohortsum.study.statistics.cox import Cox
from cohortsum.study.statistics.crosstab import Crosstab
from cohortsum.study.statistics.curves import Curve
from cohortsum.study.statistics.descent import Schedule
from cohortsum.study.statistics.design import NOTHING, build_design
from cohortsum.study.statistics.dp_sgd import DpSgd
from cohortsum.study.statistics.exact_quantiles import ExactQuantiles
from cohortsum.study.statistics.families import FAMILIES
from cohortsum.study.statistics.glm import Glm
from cohortsum.study.statistics.group_tests import GroupTests
from cohortsum.study.statistics.groups import Banded, Groups
from cohortsum.study.statistics.histogram import Histogram
from cohortsum.study.statistics.interface import Statistic
from cohortsum.study.statistics.joint import Joint
from cohortsum.study.statistics.kaplan_meier import KaplanMeier
from cohortsum.study.statistics.logrank import Logrank
from cohortsum.study.statistics.means import Means
from cohortsum.study.statistics.meta import Meta
from cohortsum.study.statistics.mixed import Mixed
from cohortsum.study.statistics.noised_regression import NoisedRegression
from cohortsum.study.statistics.normative import Normative
from cohortsum.study.statistics.norms import Grid
from cohortsum.study.statistics.pca import Pca
from cohortsum.study.statistics.proportion import Proportion
from cohortsum.study.statistics.quantile_table import Request
from cohortsum.study.statistics.quantiles import Quantiles
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.statistics.site_test import SiteTest
from cohortsum.study.statistics.summary import Summary
from cohortsum.study.statistics.targets import Count, Event, Shift
from cohortsum.study.statistics.units import Where
from cohortsum.study.variables import Factor

NOISED_BITS = 24
"""Bits behind the binary point of the sums that a site forms exactly before it rounds them to the grid of the noise."""


MASKED_BITS, ENCRYPTED_BITS = 62, 58
"""Of the greatest sum that is safe from wrapping, on the ring modulo 2**64 and modulo the prime of two-key mode, just below 2**60."""


def fraction_bits(max_participants: int, bits: int = MASKED_BITS) -> int:
    """Return the bits behind the binary point of the finest grid on which max_participants values of 1 cannot wrap."""
    return bits - max_participants.bit_length()


def grid_bits(study: FrozenStudy) -> int:
    """Return the bits of the sums of a study: under noise a coarser grid follows, which these only have to be far finer than."""
    bits = ENCRYPTED_BITS if study.protection.mode == "two_key" else MASKED_BITS
    finest = fraction_bits(study.protection.max_participants, bits)
    return finest if study.privacy.noise == "none" else min(finest, NOISED_BITS)


def statistic_of(study: FrozenStudy, spec: AnalysisSpec) -> Statistic:
    """Return the statistic behind one analysis of a study."""
    where = None if spec.where is None else _subgroup(study, spec.where)
    if spec.needs is None:
        return _statistic(study, spec, where)
    combat = statistic_of(study, study.analyses[spec.needs])
    if not isinstance(combat, Combat):  # checked where the study was frozen
        raise TypeError(f"analysis {spec.name}: {spec.needs} harmonises nothing")
    return Chained(
        name=spec.name,
        inner=_statistic(study, spec, None),
        combat=combat,
        outcomes=spec.suppliable,
        where=where,
    )


def _statistic(study: FrozenStudy, spec: AnalysisSpec, where: Where | None) -> Statistic:
    """Return the statistic of an analysis over the people of ``where``."""
    bits = grid_bits(study)
    numbers, factors = study.numbers, study.factors
    match spec:
        case SummarySpec():
            variables = tuple(numbers[name] for name in spec.variables)
            by = tuple(factors[name] for name in spec.by)
            noised = study.privacy.noise != "none"
            if spec.moments != 2 and noised is (spec.moments == 4):
                said = "needs noise" if spec.moments == 1 else "is not given under noise"
                raise StudyFileError(
                    f"analysis {spec.name}: moments: {spec.moments} {said}; write moments: 2"
                )
            if spec.moments == 1:
                return Means(spec.name, variables, bits, spec.clip)
            everybody = noised and not by and where is None and study.privacy.adjacency is None
            return Summary(spec.name, variables, by, bits, where, spec.moments, everybody)
        case HistogramSpec():
            return Histogram(spec.name, tuple(numbers[name] for name in spec.variables), spec.edges, where)
        case CrosstabSpec():
            return Crosstab(spec.name, tuple(factors[name] for name in spec.factors), where)
        case ProportionSpec():
            return Proportion(
                spec.name,
                tuple(numbers[name] for name in spec.variables),
                spec.thresholds,
                tuple(factors[name] for name in spec.factors),
                tuple(factors[name] for name in spec.by),
                where,
            )
        case QuantilesSpec():
            banded = tuple(Banded(numbers[name], cuts) for name, cuts in spec.bands.items())
            groups = Groups(tuple(factors[name] for name in spec.by), banded)
            variables = tuple(numbers[name] for name in spec.variables)
            if spec.step is not None:
                least = study.protection.min_cell
                assert least is not None, "a frozen study in mode committee has one"  # noqa: S101
                return ExactQuantiles(
                    spec.name, variables, spec.probabilities, spec.step, groups, least, where
                )
            request = Request(
                analysis=spec.name,
                variables=variables,
                probabilities=spec.probabilities,
                edges=spec.edges,
                groups=groups,
                refine=spec.refine,
                min_bin=spec.min_bin,
                where=where,
            )
            return Quantiles(spec.name, request)
        case GroupTestSpec():
            outcomes = tuple(numbers[name] for name in spec.outcomes)
            return GroupTests(spec.name, outcomes, factors[spec.factor], spec.tests, bits, where)
        case CorrelationSpec():
            return Correlation(
                name=spec.name,
                numbers=tuple(numbers[name] for name in spec.variables),
                given=spec.given,
                variables=study.variables,
                site_effect=spec.site_effect,
                missing=spec.missing,
                fraction_bits=bits,
                where=where,
            )
        case CovarianceSpec() | PcaSpec():
            covariance = Covariance(
                name=spec.name,
                numbers=tuple(numbers[name] for name in spec.variables),
                variables=study.variables,
                site_effect=spec.site_effect,
                shrinkage=spec.shrinkage,
                fraction_bits=bits,
                where=where,
            )
            if isinstance(spec, CovarianceSpec):
                return covariance
            return Pca(spec.name, covariance, spec.components, spec.matrix)
        case RegressionSpec():
            report = spec.report
            regression = replace(
                _linear(study, spec, spec.site_effect, where),
                effect=None if report is None else report.effect,
                correction="none" if report is None else report.correction,
                contrasts={name: dict(weights) for name, weights in spec.contrasts.items()},
                tests={name: tuple(write_term(term) for term in terms) for name, terms in spec.tests.items()},
                weights=None if spec.weights is None else numbers[spec.weights],
                ridge=spec.ridge,
                vif=spec.vif,
                covariance=spec.covariance,
                multivariate={
                    name: Joint(joint.outcomes, tuple(write_term(term) for term in joint.terms))
                    for name, joint in spec.multivariate.items()
                },
            )
            if study.privacy.noise != "none":
                return NoisedRegression(
                    name=spec.name,
                    regression=regression,
                    under_noise=spec.under_noise,
                    test_site=spec.test_site,
                )
            if spec.under_noise is not None:
                raise StudyFileError(
                    f"analysis '{spec.name}', field 'under_noise': this study has no noise; remove it, or write privacy.noise"
                )
            return SiteTest(spec.name, regression) if spec.test_site else regression
        case MixedSpec():
            return Mixed(
                name=spec.name,
                regression=_linear(study, spec, "within", where),
                ratios=spec.ratios,
                site_size=spec.site_size,
                max_ratio=spec.max_ratio,
            )
        case NormativeSpec():
            curves = {spec.over: Curve(numbers[spec.over], spec.basis, spec.knots)}
            return Normative(
                name=spec.name,
                regression=_linear(study, spec, spec.site_effect, where, curves),
                grid=grid_of(spec.grid, factors),
                centiles=spec.centiles,
                modelled=spec.scale == "modelled",
            )
        case GlmSpec():
            events = zip(spec.outcomes, spec.events, strict=False)
            shift = spec.exposure or spec.offset
            return Glm(
                name=spec.name,
                family=FAMILIES[spec.family],
                targets=tuple(Event(factors[name], level) for name, level in events)
                or tuple(Count(numbers[name]) for name in spec.outcomes),
                terms=tuple(write_term(term) for term in spec.terms),
                variables=study.variables,
                fraction_bits=bits,
                shift=None if shift is None else Shift(numbers[shift], spec.exposure is not None),
                max_iterations=spec.max_iterations,
                where=where,
            )
        case DpSgdSpec():
            if study.privacy.noise == "none":
                raise StudyFileError(
                    f"analysis {spec.name}: kind dp_sgd is training under noise; write privacy.noise, or kind: glm for the exact fit"
                )
            schedule = Schedule(
                spec.steps, spec.learning_rate, spec.schedule == "decaying", spec.average == "tail"
            )
            return DpSgd(
                name=spec.name,
                target=Event(factors[spec.outcome], spec.event),
                terms=tuple(write_term(term) for term in spec.terms),
                variables=study.variables,
                fraction_bits=bits,
                rate=spec.sampling_rate,
                clip=spec.clip,
                schedule=schedule,
                where=where,
            )
        case KaplanMeierSpec() | LogrankSpec():
            time, event = numbers[spec.time], Event(factors[spec.status], spec.event)
            by = tuple(factors[name] for name in spec.by)
            if isinstance(spec, LogrankSpec):
                return Logrank(name=spec.name, time=time, event=event, times=spec.times, by=by, where=where)
            return KaplanMeier(
                name=spec.name,
                time=time,
                event=event,
                times=spec.times,
                by=by,
                where=where,
                censored=spec.censored,
            )
        case CoxSpec():
            return Cox(
                name=spec.name,
                time=numbers[spec.time],
                event=Event(factors[spec.status], spec.event),
                terms=tuple(write_term(term) for term in spec.terms),
                variables=study.variables,
                fraction_bits=bits,
                start=None if spec.start is None else numbers[spec.start],
                ties=spec.ties,
                min_events=spec.min_events,
                proportionality=spec.proportionality,
                max_iterations=spec.max_iterations,
                where=where,
            )
        case MetaSpec():
            return Meta(
                name=spec.name,
                outcomes=tuple(numbers[name] for name in spec.outcomes),
                terms=tuple(write_term(term) for term in spec.terms),
                variables=study.variables,
                effect=spec.effect,
                measure=spec.measure,
                models=spec.models,
                min_per_arm=spec.min_per_arm,
                min_sites=study.protection.min_sites,
                correction=spec.correction,
                fraction_bits=bits,
                where=where,
            )
        case CombatSpec():
            terms = tuple(write_term(term) for term in spec.keep)
            return Combat(
                name=spec.name,
                outcomes=tuple(numbers[name] for name in spec.outcomes),
                design=build_design(spec.name, terms, study.variables) if terms else NOTHING,
                fit_on=None if spec.fit_on is None else _subgroup(study, spec.fit_on),
                empirical_bayes=spec.empirical_bayes,
                mean_only=spec.mean_only,
                min_per_site=spec.min_per_site,
                fraction_bits=bits,
                where=where,
            )
        case _:
            raise TypeError(f"analysis {spec.name}: no statistic computes kind {spec.kind}")


def _linear(
    study: FrozenStudy,
    spec: RegressionSpec | MixedSpec | NormativeSpec,
    site_effect: Literal["within", "none"],
    where: Where | None,
    curves: Mapping[str, Curve] = MappingProxyType({}),
) -> Regression:
    """Return the linear model that an analysis is or rests on: its outcomes on its terms."""
    return Regression(
        name=spec.name,
        outcomes=tuple(study.numbers[name] for name in spec.outcomes),
        terms=tuple(write_term(term) for term in spec.terms),
        variables=study.variables,
        site_effect=site_effect,
        missing=spec.missing,
        fraction_bits=grid_bits(study),
        where=where,
        curves=curves,
    )


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
