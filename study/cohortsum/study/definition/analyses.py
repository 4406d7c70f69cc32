"""The analyses of a study: globs expanded, names and terms checked, both as a file entry and as a typed spec."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import prod
from types import MappingProxyType

from cohortsum.crypto.errors import ExpressionError
from cohortsum.study.definition.expressions import Condition, render
from cohortsum.study.definition.frozen import (
    AnalysisSpec,
    CrosstabSpec,
    HistogramSpec,
    RegressionSpec,
    ReportSpec,
    SummarySpec,
    Term,
)
from cohortsum.study.definition.grammar import parse_condition
from cohortsum.study.definition.models import (
    AnalysisEntry,
    CrosstabEntry,
    HistogramEntry,
    RegressionEntry,
    SummaryEntry,
)
from cohortsum.study.definition.problems import Path, Problems
from cohortsum.study.definition.terms import (
    MAX_COEFFICIENTS,
    coefficient_names,
    read_term,
    term_size,
    write_term,
)
from cohortsum.study.definition.variables import is_glob, matching, nearest
from cohortsum.study.results import ASSOCIATION_COLUMNS, CROSSTAB_COLUMNS, INTERCEPT, SUMMARY_COLUMNS
from cohortsum.study.variables import Factor, Number, Variable

BESIDE_CROSSED = frozenset({"rows", "columns", *CROSSTAB_COLUMNS, *ASSOCIATION_COLUMNS})
MAX_CELLS = 10_000
"""Cells of a crosstab; each is a number that travels, and nobody reads more."""


class AnalysisReader:
    """Reads analyses over the variables of one study and notes what is wrong with them."""

    def __init__(self, variables: Mapping[str, Variable], problems: Problems) -> None:
        self._variables = variables
        self._numbers = [name for name, entry in variables.items() if isinstance(entry, Number)]
        self._factors = {name: entry.levels for name, entry in variables.items() if isinstance(entry, Factor)}
        self._problems = problems

    def read(self, name: str, entry: AnalysisEntry) -> tuple[AnalysisEntry, AnalysisSpec]:
        """Return the entry with everything written out, and its spec; meaningless once a problem was noted."""
        path: Path = ("analyses", name)
        where = self._where(entry.where, (*path, "where"))
        common = {"where": None if where is None else render(where)}
        match entry:
            case SummaryEntry():
                variables = self._expand(entry.variables, (*path, "variables"))
                by = self._by(entry.by, (*path, "by"), {"variable", *SUMMARY_COLUMNS})
                return (
                    entry.model_copy(update=common | {"variables": variables, "by": by}),
                    SummarySpec(name, variables, by, where),
                )
            case HistogramEntry():
                variables = self._expand(entry.variables, (*path, "variables"))
                edges = entry.public_edges()
                return (
                    entry.model_copy(update=common | {"variables": variables, "edges": edges, "bins": None}),
                    HistogramSpec(name, variables, edges, where),
                )
            case CrosstabEntry():
                factors = self._by(entry.factors, (*path, "factors"), BESIDE_CROSSED)
                self._cells(factors, (*path, "factors"))
                return entry.model_copy(update=common), CrosstabSpec(name, factors, where)
            case RegressionEntry():
                spec = self._regression(name, entry, path, where)
                written = {
                    "outcomes": spec.outcomes,
                    "terms": tuple(write_term(term) for term in spec.terms),
                    "contrasts": {key: dict(weights) for key, weights in spec.contrasts.items()},
                    "tests": {key: tuple(map(write_term, terms)) for key, terms in spec.tests.items()},
                }
                return entry.model_copy(update=common | written), spec

    def _where(self, text: str | None, path: Path) -> Condition | None:
        if text is None:
            return None
        try:
            return parse_condition(text, self._numbers, self._factors)
        except ExpressionError as error:
            self._problems.add_expression(path, error)
            return None

    def _expand(self, names: Sequence[str], path: Path) -> tuple[str, ...]:
        """Return numeric variables with globs written out, each once, in order of first mention."""
        found: dict[str, None] = {}
        for index, name in enumerate(names):
            here = (*path, index)
            if is_glob(name):
                matches = matching(name, self._numbers)
                if not matches:
                    self._problems.add(
                        here, f"{name!r} matches no number of the study; declare it under variables"
                    )
                found |= dict.fromkeys(matches)
            elif name in self._factors:
                self._problems.add(here, f"{name!r} is a factor; expected a number")
            elif name not in self._variables:
                self._unknown(here, name)
            found |= {name: None} if not is_glob(name) else {}
        return tuple(found)

    def _unknown(self, path: Path, name: str) -> None:
        cure = nearest(name, self._variables, "declare it under variables")
        self._problems.add(path, f"the study has no variable {name!r}; {cure}")

    def _by(self, names: Sequence[str], path: Path, taken: AbstractSet[str]) -> tuple[str, ...]:
        for index, name in enumerate(names):
            if name in self._numbers:
                self._problems.add((*path, index), f"{name!r} is a number; groups are made by factors")
            elif name not in self._factors:
                self._unknown((*path, index), name)
            elif name in names[:index]:
                self._problems.add((*path, index), f"{name!r} is listed twice; remove one")
            elif name in taken:
                self._problems.add(
                    (*path, index), f"the result table has a column {name!r}; rename the factor"
                )
        return tuple(names)

    def _cells(self, factors: Sequence[str], path: Path) -> None:
        cells = prod(len(self._factors.get(name, ())) for name in factors)
        if cells > MAX_CELLS:
            self._problems.add(path, f"the table has {cells} cells; cross fewer factors, at most {MAX_CELLS}")

    def _regression(
        self, name: str, entry: RegressionEntry, path: Path, where: Condition | None
    ) -> RegressionSpec:
        outcomes = self._expand(entry.outcomes, (*path, "outcomes"))
        terms = self._terms(entry.terms, (*path, "terms"))
        in_terms = {variable for term in terms for variable in term}
        for outcome in sorted(in_terms.intersection(outcomes)):
            self._problems.add((*path, "outcomes"), f"{outcome!r} is an outcome and in a term; remove one")
        if entry.report is not None and (entry.report.effect,) not in terms:
            expected = ", ".join(write_term(term) for term in terms if len(term) == 1)
            self._problems.add((*path, "report", "effect"), f"expected one of the terms: {expected}")
        asked = entry.report
        report = None if asked is None else ReportSpec(asked.effect, asked.measure, asked.correction)
        return RegressionSpec(
            name,
            outcomes,
            terms,
            entry.site_effect,
            entry.missing,
            report,
            self._contrasts(entry, terms, (*path, "contrasts")),
            self._tests(entry, terms, (*path, "tests")),
            where,
        )

    def _terms(self, texts: Sequence[str], path: Path) -> tuple[Term, ...]:
        """Return the terms that can be read; what cannot is noted."""
        terms: list[Term] = []
        for index, text in enumerate(texts):
            here, term = (*path, index), read_term(text)
            unknown = [part for part in term if part not in self._variables]
            if "*" in text:
                self._problems.add(
                    here, "terms have no *; write a:b for an interaction, and its main effects apart"
                )
            elif unknown:
                self._unknown(here, unknown[0])
            elif len(set(term)) < len(term):
                self._problems.add(here, "a variable meets itself; derive its square instead")
            elif any(set(term) == set(other) for other in terms):
                self._problems.add(here, "this term is there twice; remove one")
            else:
                terms.append(term)
        if sum(term_size(term, self._variables) for term in terms) > MAX_COEFFICIENTS:
            self._problems.add(path, f"more than {MAX_COEFFICIENTS} coefficients; use fewer terms or levels")
            return ()
        return tuple(terms)

    def _contrasts(
        self, entry: RegressionEntry, terms: Sequence[Term], path: Path
    ) -> Mapping[str, tuple[tuple[str, float], ...]]:
        """Return the weights by coefficient name; a term with one coefficient may be named by the term."""
        known: dict[str, str] = {} if entry.site_effect == "within" else {INTERCEPT: INTERCEPT}
        for term in terms:
            names = coefficient_names(term, self._variables)
            known |= {name: name for name in names}
            if len(names) == 1:
                known[write_term(term)] = names[0]
        contrasts: dict[str, tuple[tuple[str, float], ...]] = {}
        for contrast, weights in sorted(entry.contrasts.items()):
            found: dict[str, float] = {}
            for text, weight in weights.items():
                here, name = (*path, contrast, text), known.get(text)
                if name is None:
                    cure = nearest(text, known, f"there are {', '.join(known)}")
                    self._problems.add(here, f"the regression has no coefficient {text!r}; {cure}")
                elif name in found:
                    self._problems.add(here, f"{name!r} has two weights; remove one")
                elif weight != 0.0:
                    found[name] = weight
            if not found:
                self._problems.add(
                    (*path, contrast), "expected at least one coefficient with a weight other than 0"
                )
            contrasts[contrast] = tuple(sorted(found.items()))
        return MappingProxyType(contrasts)

    def _tests(
        self, entry: RegressionEntry, terms: Sequence[Term], path: Path
    ) -> Mapping[str, tuple[Term, ...]]:
        tests: dict[str, tuple[Term, ...]] = {}
        for test, texts in sorted(entry.tests.items()):
            dropped: list[Term] = []
            for index, text in enumerate(texts):
                term = next((term for term in terms if set(term) == set(read_term(text))), None)
                if term is None:
                    expected = ", ".join(map(write_term, terms))
                    self._problems.add((*path, test, index), f"expected terms of the regression: {expected}")
                elif term in dropped:
                    self._problems.add((*path, test, index), "this term is there twice; remove one")
                else:
                    dropped.append(term)
            tests[test] = tuple(dropped)
        return MappingProxyType(tests)
