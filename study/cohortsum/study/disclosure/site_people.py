"""What the site gate looks for in the people themselves: totals that are one person's, fits that rest on single people, models that are full.

Asked once, when a study is considered, of everybody who would be in it; never under noise, which covers any one person, and where the
answer would itself be told. An item that fails is not supplied, and why stays at the site.

A group of fewer people than may be told is not asked about: the people rule leaves it out anyway.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.definition import AnalysisSpec, GroupTestSpec, SummarySpec, holds
from cohortsum.study.definition.kinds.interface import OutcomesOnTerms
from cohortsum.study.disclosure.site.dominance import Contributions, contributions, dominance_findings
from cohortsum.study.disclosure.site.finding import Finding
from cohortsum.study.disclosure.site.leverage import leverage_findings
from cohortsum.study.disclosure.site.saturation import Fitted, fit_findings
from cohortsum.study.planning import StudyPlan, analysis_item
from cohortsum.study.statistics.crossing import Crossing
from cohortsum.study.statistics.design import Design, build_design
from cohortsum.study.statistics.interface import marked
from cohortsum.study.statistics.units import Where, selected
from cohortsum.study.variables import Number

Batches = Callable[[], Iterable[Batch]]
Floats = NDArray[np.float64]
MATRICES = ("covariance", "correlation", "pca")
SUMS = ("summary", "test", "combat")
"""Kinds whose tables hold means of a variable by groups."""


def people_findings(
    plan: StudyPlan, supplied: frozenset[str], rules: frozenset[str], batches: Batches, least: int
) -> dict[str, str]:
    """Return the items of ``supplied`` that this site's people forbid, each with its reason.

    Args:
        plan: of the study, without noise.
        supplied: what the site could supply.
        rules: ids of the gate's own rules that hold here.
        batches: the site's raw people, as often as it is called.
        least: the smallest group that is asked about.
    """

    def prepared() -> Iterator[Batch]:
        return map(plan.cohort.prepare, batches())

    found: dict[str, str] = {}
    for spec in plan.study.analyses.values():
        if analysis_item(spec.name) not in supplied:
            continue
        for item, finding in _of_analysis(plan, spec, supplied, prepared, least):
            if finding.rule.value in rules:
                found.setdefault(item, f"{finding.item}: {finding.what} [{finding.rule.value}]")
    return {item: found[item] for item in plan.round.items if item in found}


def _of_analysis(
    plan: StudyPlan, spec: AnalysisSpec, supplied: frozenset[str], prepared: Batches, least: int
) -> Iterator[tuple[str, Finding]]:
    if spec.kind in SUMS:
        yield from _dominance(plan, spec, supplied, prepared, least)
    if spec.kind in MATRICES:
        yield from _matrix(plan, spec, supplied, prepared)
    if isinstance(spec, OutcomesOnTerms):
        yield from _fits(plan, spec, supplied, prepared)


def _dominance(
    plan: StudyPlan, spec: AnalysisSpec, supplied: frozenset[str], prepared: Batches, least: int
) -> Iterator[tuple[str, Finding]]:
    """Yield the variables of which somebody makes up a mean of a group."""
    factors = plan.study.factors
    names = spec.by if isinstance(spec, SummarySpec) else ()
    names = (spec.factor,) if isinstance(spec, GroupTestSpec) else names
    crossing = Crossing(tuple(factors[name] for name in names))
    cells = crossing.cells
    where = _where(plan, spec)
    numbers = [
        number
        for name in sorted(spec.about)
        if isinstance(number := plan.study.variables.get(name), Number) and _has(name, spec, supplied)
    ]
    states: dict[str, Contributions] = {}
    for batch in prepared():
        people = selected(batch, where)
        groups = crossing.places(batch, people)
        for number in numbers:
            values = batch.numbers.get(number.name)
            if values is not None:
                state = contributions(values[people], groups, len(cells), number)
                before = states.get(number.name)
                states[number.name] = state if before is None else before.merged(state)
    for name, state in states.items():
        called = [f"{name}{' of ' + ', '.join(cell) if cell else ''}" for cell in cells]
        large = {title for title, people in zip(called, state.people, strict=True) if people >= least}
        for finding in dominance_findings(state, called):
            if finding.item in large:
                yield _item(spec, name, supplied), finding


def _matrix(
    plan: StudyPlan, spec: AnalysisSpec, supplied: frozenset[str], prepared: Batches
) -> Iterator[tuple[str, Finding]]:
    """Yield a matrix of too many variables for this site's people."""
    names = sorted(spec.about & plan.study.numbers.keys())
    where = _where(plan, spec)
    people = 0
    for batch in prepared():
        if all(name in batch.numbers for name in names):
            chosen = selected(batch, where)
            known = ~np.isnan(np.array([batch.numbers[name][chosen] for name in names])).any(axis=0)
            people += int(np.count_nonzero(known))
    for finding in fit_findings(spec.name, Fitted.MATRIX, people, len(names)) if people else ():
        yield analysis_item(spec.name), finding


def _fits(
    plan: StudyPlan, spec: OutcomesOnTerms, supplied: frozenset[str], prepared: Batches
) -> Iterator[tuple[str, Finding]]:
    """Yield the outcomes whose model is full here, or rests on single people."""
    terms = tuple(":".join(term) for term in spec.terms)
    if not terms:
        return
    design = build_design(spec.name, terms, plan.study.variables)
    where = _where(plan, spec)
    columns = 1 + len(design.columns)
    judged: dict[bytes, tuple[Finding, ...]] = {}
    for outcome in spec.outcomes:
        if not _has(outcome, spec, supplied):
            continue

        def rows(outcome: str = outcome) -> Iterator[Floats]:
            for batch in prepared():
                yield _design_rows(design, batch, where, outcome)

        who = sha256()
        people = 0
        for batch in prepared():
            counted = _counted(design, batch, where, outcome)
            people += int(np.count_nonzero(counted))
            who.update(np.packbits(counted).tobytes())
        if not people:
            continue
        if who.digest() not in judged:  # outcomes of the same people have the same design
            judged[who.digest()] = (
                *fit_findings(spec.name, Fitted.MODEL, people, columns),
                *leverage_findings(spec.name, rows, columns),
            )
        for finding in judged[who.digest()]:
            yield _item(spec, outcome, supplied), finding


def _counted(design: Design, batch: Batch, where: Where | None, outcome: str) -> NDArray[np.bool_]:
    """Return who of a batch counts for an outcome, (people,) bool."""
    people = selected(batch, where)
    known = ~np.isnan(design.values(batch, people)).any(axis=1)
    values = batch.numbers.get(outcome)
    known &= False if values is None else ~np.isnan(values[people])
    return marked(batch.people, people[known])


def _design_rows(design: Design, batch: Batch, where: Where | None, outcome: str) -> Floats:
    """Return the design of who counts for an outcome, (people, 1 + columns), the constant first."""
    people = np.flatnonzero(_counted(design, batch, where, outcome))
    return np.hstack((np.ones((len(people), 1)), design.values(batch, people)))


def _where(plan: StudyPlan, spec: AnalysisSpec) -> Where | None:
    """Return the subgroup of an analysis, as its statistic judges it."""
    condition = spec.where
    return None if condition is None else lambda batch: holds(condition, batch, plan.study.factors)


def _has(variable: str, spec: AnalysisSpec, supplied: frozenset[str]) -> bool:
    return variable in supplied or variable in spec.required


def _item(spec: AnalysisSpec, variable: str, supplied: frozenset[str]) -> str:
    spared = variable in spec.suppliable - spec.required and variable in supplied
    return variable if spared else analysis_item(spec.name)


def missing_patterns(
    plan: StudyPlan, supplied: frozenset[str], batches: Batches
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Sequence[str]]:
    """Return who is in the cohort, (people,) of everybody; which of these have which outcome, (cohort, outcomes); and the outcomes.

    An outcome counts for somebody who has it and every number that all its analyses need.
    """
    outcomes = sorted(supplied & plan.study.numbers.keys())
    needs = {
        name: frozenset().union(
            *(spec.required for spec in plan.study.analyses.values() if name in spec.suppliable)
        )
        & plan.study.numbers.keys()
        for name in outcomes
    }
    inside: list[NDArray[np.bool_]] = []
    having: list[NDArray[np.bool_]] = []
    for raw in batches():
        batch = plan.cohort.prepare(raw)
        inside.append(plan.cohort.included(raw))
        columns = [
            reduce(np.logical_and, (_known(batch, one) for one in sorted({name, *needs[name]})))
            for name in outcomes
        ]
        having.append(np.array(columns, np.bool_).reshape(len(outcomes), batch.people).T)
    return np.concatenate(inside), np.concatenate(having), outcomes


def _known(batch: Batch, name: str) -> NDArray[np.bool_]:
    values = batch.numbers.get(name)
    return np.zeros(batch.people, np.bool_) if values is None else ~np.isnan(values)
