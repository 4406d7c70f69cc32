"""The optimiser: a typed door to HiGHS, as scipy ships it (Huangfu and Hall 2018).

Linear and whole-number programs alike go through here. No search ends by a clock, so that the same tables give the same pattern.
HiGHS is exact to about a millionth; whoever reads its numbers rounds to whole people with ``SLACK``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import RefusedError

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# scipy ships no types; what it returns is converted here and goes no further untyped
_OPTIMIZE: Any = import_module("scipy.optimize")
_SPARSE: Any = import_module("scipy.sparse")
_INFEASIBLE = 2
"""What scipy says where no point meets the conditions."""
SLACK = 1e-6
NODES = 20_000
"""Nodes of a search tree after which it ends without a proof."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Linear conditions, as scipy has them."""

    conditions: Any


class Matrix:
    """The coefficients of linear conditions, (conditions, unknowns), which serve many searches."""

    def __init__(self, coefficients: Floats) -> None:
        self._held = _SPARSE.csc_array(coefficients)

    def between(self, lowest: Floats | float, highest: Floats | float) -> Rows:
        """Return the conditions ``lowest <= coefficients @ x <= highest``; ends may be infinite."""
        return Rows(_OPTIMIZE.LinearConstraint(self._held, lowest, highest))


@dataclass(frozen=True, slots=True)
class Optimum:
    """What was found.

    Attributes:
        value: of the objective.
        point: where it is taken.
        bound: no point has a smaller value; less than ``value`` where the search ended early.
    """

    value: float
    point: Floats
    bound: float


def minimise(
    costs: Floats,
    rows: Sequence[Rows],
    least: Floats | float,
    greatest: Floats | float,
    whole: bool = False,
    gap: float = 0.0,
) -> Optimum | None:
    """Return the cheapest point that meets the rows within its ends, or None if there is no point.

    Args:
        costs: of one unit of every unknown.
        rows: conditions.
        least: end of every unknown, or of all.
        greatest: likewise.
        whole: whether unknowns are whole numbers.
        gap: how much more than the bound a whole point may cost, as a share.

    Raises:
        RefusedError: the objective has no minimum, or no point was found within `NODES`.
    """
    found = _OPTIMIZE.milp(
        costs,
        constraints=[one.conditions for one in rows],
        bounds=_OPTIMIZE.Bounds(least, greatest),
        integrality=np.full(len(costs), int(whole)),
        options={"mip_rel_gap": gap, "node_limit": NODES},
    )
    if found.status == _INFEASIBLE:
        return None
    if found.x is None:
        raise RefusedError("no way to print these tables was found in time; print fewer, or merge levels")
    value = float(found.fun)
    bound = float(found.mip_dual_bound) if whole else value
    return Optimum(value, np.asarray(found.x, np.float64), bound)
