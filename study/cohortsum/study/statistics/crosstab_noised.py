"""The cells of a contingency table under noise (`counts_noised`), with percentages and the noise in them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import Absent, Cell, Status
from cohortsum.study.statistics.counts_noised import share_noise, share_of, too_small, whole

CROSSTAB_NOISE_COLUMNS = ("count_noise_sd", "row_percent_noise_se", "column_percent_noise_se")
PERCENT_NOTE = (
    "Percentages are made of the noised counts before these are rounded; they are given where the noised total is at least three "
    "standard deviations of its noise. There is no test of association under noise."
)


@dataclass(frozen=True, slots=True)
class NoisedCells:
    """Noised counts.

    Attributes:
        counts: (layers, rows, columns) float64.
        opened: which of them had enough suppliers, likewise.
        sd: of the noise in each.
    """

    counts: NDArray[np.float64]
    opened: NDArray[np.bool_]
    sd: float

    def cells(self, place: tuple[int, ...]) -> tuple[Cell, ...]:
        """Return count, row and column percent, status, and the noise of the three, of one cell."""
        layer, row, column = place
        if not self.opened[place]:
            unknown = Absent(Status.TOO_FEW_SITES)
            return (unknown, unknown, unknown, Status.TOO_FEW_SITES.value, unknown, unknown, unknown)
        count = float(self.counts[place])
        by_row = self._percent(count, self.counts[layer, row], self.opened[layer, row])
        by_column = self._percent(count, self.counts[layer, :, column], self.opened[layer, :, column])
        drowned = Absent(Status.NOISE_TOO_LARGE) in (by_row[0], by_column[0])
        status = Status.NOISE_TOO_LARGE if drowned else Status.OK
        return (whole(count), by_row[0], by_column[0], status.value, self.sd, by_row[1], by_column[1])

    def _percent(
        self, count: float, among: NDArray[np.float64], known: NDArray[np.bool_]
    ) -> tuple[Cell, Cell]:
        """Return 100 times the share of a count among some, itself included, and its noise."""
        if not known.all():
            return Absent(Status.TOO_FEW_SITES), Absent(Status.TOO_FEW_SITES)
        total, numbers = float(among.sum()), len(among)
        why = too_small(total, self.sd * numbers**0.5)
        if why is not None:
            return why, why
        share = share_of(count, total)
        return 100 * share, 100 * share_noise(share, total, numbers, True, self.sd)


def noised_cells(
    held: Sequence[NDArray[np.float64] | None], shape: tuple[int, ...], sd: float
) -> NoisedCells:
    """Return the noised counts of the cells, last factor fastest; None had too few suppliers."""
    counts = np.array([0.0 if one is None else float(one[0]) for one in held])
    opened = np.array([one is not None for one in held], np.bool_)
    return NoisedCells(counts.reshape(shape), opened.reshape(shape), sd)
