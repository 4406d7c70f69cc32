"""Reading the fields of an analysis against the variables of one study; what is wrong is noted, not raised."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType

from cohortsum.crypto.errors import ExpressionError
from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.grammar import parse_condition
from cohortsum.study.definition.names import is_glob, matching, nearest
from cohortsum.study.definition.problems import Path, Problems
from cohortsum.study.definition.terms import (
    MAX_COEFFICIENTS,
    Term,
    coefficient_names,
    read_term,
    term_size,
    write_term,
)
from cohortsum.study.results import INTERCEPT
from cohortsum.study.variables import Factor, Number, Variable


class Reading:
    """Expands and checks what analyses name, and notes what is wrong with it.

    Attributes:
        variables: the variables of the study, derived ones included.
        problems: where notes go.
    """

    def __init__(self, variables: Mapping[str, Variable], problems: Problems) -> None:
        self.variables = variables
        self.problems = problems
        self._numbers = [name for name, entry in variables.items() if isinstance(entry, Number)]
        self._factors = {name: entry.levels for name, entry in variables.items() if isinstance(entry, Factor)}

    def condition(self, text: str | None, path: Path) -> Condition | None:
        """Return a condition over the study's variables."""
        if text is None:
            return None
        try:
            return parse_condition(text, self._numbers, self._factors)
        except ExpressionError as error:
            self.problems.add_expression(path, error)
            return None

    def numbers(self, names: Sequence[str], path: Path) -> tuple[str, ...]:
        """Return numeric variables with globs written out, each once, in order of first mention."""
        found: dict[str, None] = {}
        for index, name in enumerate(names):
            here = (*path, index)
            if is_glob(name):
                matches = matching(name, self._numbers)
                if not matches:
                    self.problems.add(
                        here, f"{name!r} matches no number of the study; declare it under variables"
                    )
                found |= dict.fromkeys(matches)
            else:
                self.number(name, here)
                found |= {name: None}
        return tuple(found)

    def number(self, name: str, path: Path) -> str:
        """Return the name of one numeric variable."""
        if name in self._factors:
            self.problems.add(path, f"{name!r} is a factor; expected a number")
        elif name not in self.variables:
            self.unknown(path, name)
        return name

    def factor(self, name: str, path: Path) -> tuple[str, ...]:
        """Return the levels of one factor; of anything else, none."""
        if name in self._numbers:
            self.problems.add(path, f"{name!r} is a number; groups are made by factors")
        elif name not in self._factors:
            self.unknown(path, name)
        return self._factors.get(name, ())

    def factors(self, names: Sequence[str], path: Path, taken: AbstractSet[str]) -> tuple[str, ...]:
        """Return factors, none twice and none called like one of the columns ``taken``."""
        for index, name in enumerate(names):
            here = (*path, index)
            if not self.factor(name, here):
                continue
            if name in names[:index]:
                self.problems.add(here, f"{name!r} is listed twice; remove one")
            elif name in taken:
                self.problems.add(here, f"the result table has a column {name!r}; rename the factor")
        return tuple(names)

    def event(self, name: str, written: str | None, path: Path) -> str:
        """Return the level of a factor that is the event: the one written, or the second of two."""
        levels = self._factors.get(name, ())
        if written is None:
            if len(levels) > 2:
                self.problems.add(
                    path, f"{name!r} has {len(levels)} levels; add event: one of {', '.join(levels)}"
                )
            return levels[-1] if levels else ""
        if levels and written not in levels:
            self.problems.add(path, f"{name!r} has no level {written!r}; event: one of {', '.join(levels)}")
        return written

    def unknown(self, path: Path, name: str) -> None:
        """Note that the study has no such variable."""
        cure = nearest(name, self.variables, "declare it under variables")
        self.problems.add(path, f"the study has no variable {name!r}; {cure}")

    def terms(self, texts: Sequence[str], path: Path) -> tuple[Term, ...]:
        """Return the terms that can be read."""
        terms: list[Term] = []
        for index, text in enumerate(texts):
            here, term = (*path, index), read_term(text)
            unknown = [part for part in term if part not in self.variables]
            if "*" in text:
                self.problems.add(
                    here, "terms have no *; write a:b for an interaction, and its main effects apart"
                )
            elif unknown:
                self.unknown(here, unknown[0])
            elif len(set(term)) < len(term):
                self.problems.add(here, "a variable meets itself; derive its square instead")
            elif any(set(term) == set(other) for other in terms):
                self.problems.add(here, "this term is there twice; remove one")
            else:
                terms.append(term)
        if sum(term_size(term, self.variables) for term in terms) > MAX_COEFFICIENTS:
            self.problems.add(path, f"more than {MAX_COEFFICIENTS} coefficients; use fewer terms or levels")
            return ()
        return tuple(terms)

    def no_outcome_in_terms(self, outcomes: Sequence[str], terms: Sequence[Term], path: Path) -> None:
        """Note outcomes that explain themselves."""
        in_terms = {variable for term in terms for variable in term}
        for outcome in sorted(in_terms.intersection(outcomes)):
            self.problems.add(path, f"{outcome!r} is an outcome and in a term; remove one")

    def contrasts(
        self,
        written: Mapping[str, Mapping[str, float]],
        terms: Sequence[Term],
        intercept: bool,
        path: Path,
    ) -> Mapping[str, tuple[tuple[str, float], ...]]:
        """Return the weights by coefficient name; a term with one coefficient may be named by the term."""
        known: dict[str, str] = {INTERCEPT: INTERCEPT} if intercept else {}
        for term in terms:
            names = coefficient_names(term, self.variables)
            known |= {name: name for name in names}
            if len(names) == 1:
                known[write_term(term)] = names[0]
        contrasts: dict[str, tuple[tuple[str, float], ...]] = {}
        for contrast, weights in sorted(written.items()):
            found: dict[str, float] = {}
            for text, weight in weights.items():
                here, name = (*path, contrast, text), known.get(text)
                if name is None:
                    cure = nearest(text, known, f"there are {', '.join(known)}")
                    self.problems.add(here, f"the regression has no coefficient {text!r}; {cure}")
                elif name in found:
                    self.problems.add(here, f"{name!r} has two weights; remove one")
                elif weight != 0.0:
                    found[name] = weight
            if not found:
                self.problems.add(
                    (*path, contrast), "expected at least one coefficient with a weight other than 0"
                )
            contrasts[contrast] = tuple(sorted(found.items()))
        return MappingProxyType(contrasts)

    def tests(
        self, written: Mapping[str, Sequence[str]], terms: Sequence[Term], path: Path
    ) -> Mapping[str, tuple[Term, ...]]:
        """Return the terms dropped together, per test."""
        tests: dict[str, tuple[Term, ...]] = {}
        for test, texts in sorted(written.items()):
            dropped: list[Term] = []
            for index, text in enumerate(texts):
                term = next((term for term in terms if set(term) == set(read_term(text))), None)
                if term is None:
                    expected = ", ".join(map(write_term, terms))
                    self.problems.add((*path, test, index), f"expected terms of the regression: {expected}")
                elif term in dropped:
                    self.problems.add((*path, test, index), "this term is there twice; remove one")
                else:
                    dropped.append(term)
            tests[test] = tuple(dropped)
        return MappingProxyType(tests)
