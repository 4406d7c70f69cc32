"""A federation without cryptography, and pooled oracles to compare it with.

`federate` plays every site: it reads in batches of an odd size, merges, contributes, checks every declared bound and adds
integers. `least_squares` is statsmodels on all rows together.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Cell, Table
from cohortsum.study.statistics.interface import Statistic, Sums

DATA = Path(__file__).resolve().parents[2] / "../shared/data"
SM: Any = import_module("statsmodels.api")  # without types; what it returns is converted here

BITS = 44
"""A grid that leaves room for 2**18 people below 2**62."""

needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the larger real tables are not beside the repository (../shared/data)"
)

Floats = NDArray[np.float64]


def slice_of(batch: Batch, people: NDArray[np.intp]) -> Batch:
    """Return the given people of a batch."""
    return Batch(
        len(people),
        {name: values[people] for name, values in batch.numbers.items()},
        {name: values[people] for name, values in batch.levels.items()},
    )


def split(batch: Batch, site: Sequence[str] | NDArray[Any]) -> list[Batch]:
    """Return one batch per site, sorted by site."""
    labels = np.asarray(site)
    return [slice_of(batch, np.flatnonzero(labels == label)) for label in np.unique(labels)]


def contribution(statistic: Statistic, site: Batch, batch_size: int) -> Sums:
    """Return what one site sends, read ``batch_size`` people at a time; its blocks keep what the layout promises."""
    starts = range(0, max(site.people, 1), batch_size)
    batches = [
        slice_of(site, np.arange(start, min(start + batch_size, site.people), dtype=np.intp))
        for start in starts
    ]
    statistic = statistic.at_site(lambda: iter(batches))
    sent = statistic.contribute(statistic.merge([statistic.accumulate(batch) for batch in batches]))
    layout = statistic.layout()
    assert set(sent) == {block.name for block in layout}
    assert len(sent) == len(layout)
    for block in layout:
        values = sent[block.name]
        assert values.dtype == np.int64
        assert values.shape == (block.size,)
        people = site.people if block.per == "person" else 1
        limit = int(people * block.bound * 2**block.fraction_bits)
        assert all(abs(int(value)) <= limit for value in values), block.name
    return sent


def federate(
    statistic: Statistic, sites: Sequence[Batch], batch_size: int = 17
) -> dict[str, NDArray[np.int64]]:
    """Return the opened sums over ``sites``."""
    sent = [contribution(statistic, site, batch_size) for site in sites]
    totals: dict[str, NDArray[np.int64]] = {}
    for block in statistic.layout():
        total = np.zeros(block.size, np.int64)
        for one in sent:
            total = total + one[block.name]
        totals[block.name] = total
    return totals


def federate_rounds(
    statistic: Statistic, sites: Sequence[Batch], batch_size: int = 1000
) -> tuple[tuple[Table, ...], int]:
    """Return the tables over ``sites`` and the number of rounds they took."""
    for rounds in range(1, statistic.most_rounds + 1):
        sums = federate(statistic, sites, batch_size)
        following = statistic.further(sums)
        if following is None:
            return statistic.finish(sums), rounds
        assert np.all(np.isfinite(following.parameters))
        statistic = following
    raise AssertionError("more rounds than the statistic said")


def row(table: Table, **keys: str) -> dict[str, Cell]:
    """Return the one row whose cells equal ``keys``, by column name."""
    rows = [dict(zip(table.columns, cells, strict=True)) for cells in table.rows]
    (found,) = [one for one in rows if all(one[name] == value for name, value in keys.items())]
    return found


def number(cell: Cell) -> float:
    """Return a cell that must be a number."""
    assert isinstance(cell, int | float), cell
    return float(cell)


@dataclass(frozen=True, slots=True)
class Oracle:
    """What statsmodels says of all rows together; arrays follow ``names``."""

    names: tuple[str, ...]
    b: Floats
    se: Floats
    t: Floats
    p: Floats
    interval: Floats
    df: float
    model: Any
    scale: Floats

    def contrast(self, weights: Mapping[str, float]) -> tuple[float, float, float, float]:
        """Return estimate, se, t and p of a linear combination."""
        vector = np.array([weights.get(name, 0.0) for name in self.names]) / self.scale
        test = self.model.t_test(vector)
        return (
            float(test.effect[0]),
            float(np.ravel(test.sd)[0]),
            float(np.ravel(test.tvalue)[0]),
            float(test.pvalue),
        )


def least_squares(y: Floats, columns: Mapping[str, Floats], site: NDArray[Any] | None) -> Oracle:
    """Fit y on columns with one dummy per site, or with one intercept, over the rows without a missing value.

    Columns are scaled by a power of two before the fit, so that the oracle itself loses no digits to units.
    """
    stacked = np.column_stack([y, *columns.values()])
    complete = ~np.isnan(stacked).any(axis=1)
    if site is None:
        x = {"intercept": np.ones(len(y)), **columns}
    else:
        labels = np.unique(site[complete])
        x = {**columns, **{f"site {label}": (site == label).astype(np.float64) for label in labels}}
    design = np.column_stack(list(x.values()))[complete]
    scale = np.array([2.0 ** np.ceil(np.log2(max(np.abs(column).max(), 1e-300))) for column in design.T])
    model: Any = SM.OLS(y[complete], design / scale).fit(method="qr")
    interval = np.asarray(model.conf_int(0.05)) / scale[:, np.newaxis]
    return Oracle(
        names=tuple(x),
        b=np.asarray(model.params) / scale,
        se=np.asarray(model.bse) / scale,
        t=np.asarray(model.tvalues),
        p=np.asarray(model.pvalues),
        interval=interval,
        df=float(model.df_resid),
        model=model,
        scale=scale,
    )


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """Return p adjusted for the false discovery rate by statsmodels."""
    return [float(value) for value in SM.stats.multipletests(list(p), method="fdr_bh")[1]]


def assert_equal_fit(
    table: Table, outcome: str, oracle: Oracle, terms: Sequence[str], relative: float
) -> None:
    """Compare b, se, t, p and interval of ``terms`` with the oracle."""
    for term in terms:
        place = oracle.names.index(term)
        found = row(table, outcome=outcome, term=term)
        assert found["status"] == "ok"
        assert found["df"] == oracle.df
        b, se, low, high = (number(found[name]) for name in ("b", "se", "low", "high"))
        assert se == pytest.approx(oracle.se[place], rel=relative)
        # an estimate may lie near 0: its error is judged against its standard error as well
        assert b == pytest.approx(oracle.b[place], rel=relative, abs=relative * oracle.se[place])
        assert number(found["statistic"]) == pytest.approx(oracle.t[place], rel=relative, abs=relative)
        assert number(found["p"]) == pytest.approx(oracle.p[place], rel=1e3 * relative, abs=1e-300)
        assert [low, high] == pytest.approx(
            list(oracle.interval[place]), rel=relative, abs=10 * relative * oracle.se[place]
        )


def read_columns(*names: str) -> dict[str, list[str]]:
    """Return the columns of comma-separated files under each other, as text, names stripped of blanks."""
    columns: dict[str, list[str]] = {}
    for name in names:
        with (DATA / name).open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            header = [field.strip() for field in next(reader)]
            for record in reader:
                for field, text in zip(header, record, strict=True):
                    columns.setdefault(field, []).append(text)
    return columns


def floats(texts: Sequence[str], missing: tuple[str, ...] = ("", "NA")) -> Floats:
    """Return texts as float64, NaN where one is a missing code."""
    return np.array([np.nan if text in missing else float(text) for text in texts])


def codes(texts: Sequence[str], levels: Sequence[str]) -> NDArray[np.int16]:
    """Return the position of each text among the levels."""
    return np.array([levels.index(text) for text in texts], np.int16)
