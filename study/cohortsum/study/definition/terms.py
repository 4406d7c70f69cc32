"""Terms of a regression: what the text says, and what its coefficients are called in results and contrasts."""

import math
from collections.abc import Mapping, Sequence
from itertools import product

from cohortsum.study.variables import Factor, Variable

Term = tuple[str, ...]
"""The variables of a regression term: one for a main effect, several for their interaction."""

MAX_COEFFICIENTS = 1000


def read_term(text: str) -> Term:
    """Return the variables of ``a``, or of the interaction ``a:b``; blanks around the colon do not count."""
    return tuple(part.strip() for part in text.split(":"))


def write_term(term: Term) -> str:
    """Return the text of a term."""
    return ":".join(term)


def term_size(term: Term, variables: Mapping[str, Variable]) -> int:
    """Return how many coefficients a term has."""
    return math.prod(len(entry.levels) - 1 for name in term if isinstance(entry := variables[name], Factor))


def coefficient_names(term: Term, variables: Mapping[str, Variable]) -> tuple[str, ...]:
    """Return the names of a term's coefficients: ``age``, ``dx[autism]``, ``dx[autism]:age``.

    A factor has one per level except the reference; in an interaction the last variable changes fastest.
    """
    parts = [_parts(name, variables[name]) for name in term]
    return tuple(":".join(combination) for combination in product(*parts))


def _parts(name: str, variable: Variable) -> Sequence[str]:
    return (
        [variable.level_name(level) for level in variable.levels[1:]]
        if isinstance(variable, Factor)
        else [name]
    )
