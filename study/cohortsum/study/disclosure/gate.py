"""The cohort gate: what stands between finished tables and whoever may read them.

Under ``open_data`` the sites have declared that every value may be public, and tables pass as they are.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import NotInThisVersionError
from cohortsum.study.disclosure.verdict import Gated, Regime
from cohortsum.study.results import Table

if TYPE_CHECKING:
    from cohortsum.study.planning import StudyPlan


def cohort_gate(
    plan: "StudyPlan", tables: tuple[Table, ...], sums: Mapping[str, NDArray[np.int64]], regime: Regime
) -> Gated:
    """Return what may be shown of ``tables``, and the result of every rule.

    Args:
        plan: of the last round.
        tables: as finished from the opened sums.
        sums: of that round, by block name; what a rule recomputes it recomputes from these.
        regime: of the sites in the sum.
    """
    if regime.profile == "dpuk":
        raise NotInThisVersionError("disclosure control (profile dpuk)", "use open_data for public data")
    return Gated(tables)
