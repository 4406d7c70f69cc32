"""All comparisons, by kind of analysis in the order of the documents."""

from cohortsum.study.definition.kinds import KINDS
from tests.truths import (  # each adds its own to the list
    abide,
    cnsim,
    dssurv,
    enigma,
    fcon,
    impac_descriptions,
    impac_harmony,
    impac_likelihoods,
    impac_regressions,
    lung,
)
from tests.truths.registry import COMPARISONS, Comparison

MODULES = (
    *(impac_descriptions, impac_regressions, impac_likelihoods, impac_harmony),
    *(abide, fcon, cnsim, dssurv, lung, enigma),
)

UNDER_NOISE = frozenset({"dp_sgd"})
"""Kinds that run under noise only: no other library gives the same digits."""


def every() -> tuple[Comparison, ...]:
    """Return all comparisons; within a kind as the modules list them."""
    modules = [module.__name__ for module in MODULES]
    kinds = list(KINDS)
    return tuple(
        sorted(
            COMPARISONS,
            key=lambda one: (kinds.index(one.kind), modules.index(one.compare.__module__)),
        )
    )
