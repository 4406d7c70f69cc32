"""Synthetic data for the demo: nine sites that never existed, and effects that somebody published.

The thickness of region r of person i at site s, in mm, is drawn from::

    thickness = mean[r] + offset[s, r] + SLOPE (age - 30) + sex[r] (if male) + sd[r] (residual + d[r] (if autism))

- ``mean``, ``sd`` and ``sex`` are smooth rules of the region's lobe and place in the atlas, not measurements.
- ``offset`` is the site's scanner: one shift for all regions and a smaller one per region.
- ``residual`` has variance 1 and is correlated in space: a share common to the whole cortex, one common to the lobe of a
  hemisphere, one common to a region and its twin on the other side, and one of the region alone (`SHARES`).
- ``d`` is the published effect of autism in units of ``sd``, so that a pooled fit on dx, age, sex and site has
  b = d x sd, up to sampling error. Both fusiform rows of the published table are empty: there the demo has no effect.

Cells are missing completely at random and rounded to three decimals, as FreeSurfer prints them. Age, sex and diagnosis
are complete. Autism is more frequent in males, ages differ between sites: covariates matter. numpy's generator is for
these invented people only; nothing secret comes from it.
"""

import csv
import io
import math
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cohortsum.report.anatomy import DESIKAN_KILLIANY, Lobe

Floats = NDArray[np.float64]

SEED: Final = 20261130
SLOPE: Final = -0.004
"""Thinning with age, mm per year."""
MISSING: Final = 0.015
"""Probability that a thickness is missing."""
SHARES: Final = {"cortex": 0.40, "lobe": 0.18, "twin": 0.12, "region": 0.30}
"""Shares of the residual variance."""
P_MALE: Final = {"control": 0.6, "autism": 0.8}

_EFFECTS: Final = "published_asd_mega-analysis_case-controls_CortThick.csv"
_LOBE_MEAN: Final[dict[Lobe, float]] = {
    "frontal": 2.6, "parietal": 2.4, "temporal": 2.8, "occipital": 2.0, "cingulate": 2.6, "insula": 3.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DemoSite:
    """An invented site: its id, how many people, the share with autism, and the youngest and oldest age in years."""

    name: str
    people: int
    autism: float
    ages: tuple[float, float]


SITES: Final = (
    DemoSite("amc", 212, 0.50, (18.0, 55.0)),
    DemoSite("bru", 96, 0.42, (8.0, 17.0)),
    DemoSite("dov", 148, 0.47, (12.0, 30.0)),
    DemoSite("elm", 60, 0.55, (6.0, 12.0)),
    DemoSite("fen", 174, 0.45, (18.0, 64.0)),
    DemoSite("kcl", 300, 0.49, (16.0, 50.0)),
    DemoSite("lir", 83, 0.40, (7.0, 18.0)),
    DemoSite("oak", 255, 0.52, (10.0, 40.0)),
    DemoSite("ver", 121, 0.44, (20.0, 64.0)),
)
"""Sorted by name; 1449 people."""

HEMISPHERES: Final = ("lh", "rh")
OUTCOMES: Final = tuple(f"{side}_{name}_thickness" for side in HEMISPHERES for name in DESIKAN_KILLIANY)
"""The 68 thickness columns."""


@dataclass(frozen=True, slots=True)
class DemoTable:
    """One site's table, one entry per person in every field.

    Attributes:
        site: id of the site.
        subject_id: invented ids.
        dx: ``control`` or ``autism``.
        sex: ``female`` or ``male``.
        age: (people,) float64, years, two decimals.
        thickness: (people, 68) float64, mm, three decimals, columns as `OUTCOMES`; NaN is missing.
    """

    site: str
    subject_id: tuple[str, ...]
    dx: tuple[str, ...]
    sex: tuple[str, ...]
    age: Floats
    thickness: Floats

    def to_csv(self) -> str:
        """Return the table as CSV with LF line ends; a missing thickness is ``NA``."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["subject_id", "dx", "sex", "age", *OUTCOMES])
        people = zip(
            self.subject_id, self.dx, self.sex, self.age.tolist(), self.thickness.tolist(), strict=True
        )
        for subject_id, dx, sex, age, thickness in people:
            cells = ("NA" if math.isnan(value) else f"{value:.3f}" for value in thickness)
            writer.writerow([subject_id, dx, sex, f"{age:.2f}", *cells])
        return text.getvalue()


def published_effects() -> dict[str, float]:
    """Return the published Cohen's d of autism by thickness column; the two fusiform columns have none.

    Source: the ENIGMA Toolbox's table of the mega-analysis, packaged in ``data`` with its licence.
    """
    text = (files("cohortsum.cli") / "data" / _EFFECTS).read_text(encoding="utf-8")
    effects: dict[str, float] = {}
    for row in csv.DictReader(io.StringIO(text)):
        side, _, name = row["Structure"].partition("_")
        if row["d_icv"]:
            effects[f"{side.lower()}h_{name}_thickness"] = float(row["d_icv"])
    return effects


def true_standard_deviations() -> Floats:
    """Return the standard deviation of each region among people alike in age, sex, diagnosis and site, (68,) in mm."""
    return 0.14 + 0.04 * _wave(0.9)


def make_demo_tables(seed: int = SEED) -> dict[str, DemoTable]:
    """Return one table per site, in the order of `SITES`; equal seeds give equal tables.

    Every site has its own stream of random numbers, so its people do not depend on the other sites.
    """
    effects = published_effects()
    d = np.array([effects.get(outcome, 0.0) for outcome in OUTCOMES])
    return {
        site.name: _make_table(site, d, np.random.default_rng([seed, index]))
        for index, site in enumerate(SITES)
    }


def write_demo_tables(folder: Path, seed: int = SEED) -> tuple[Path, ...]:
    """Write ``<site>.csv`` for every site into ``folder``, which is made if need be, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, table in make_demo_tables(seed).items():
        path = folder / f"{name}.csv"
        path.write_text(table.to_csv(), encoding="utf-8", newline="\n")
        paths.append(path)
    return tuple(paths)


def _make_table(site: DemoSite, d: Floats, rng: np.random.Generator) -> DemoTable:
    autism = np.zeros(site.people, np.bool_)
    autism[: round(site.people * site.autism)] = True
    rng.shuffle(autism)
    male = rng.random(site.people) < np.where(autism, P_MALE["autism"], P_MALE["control"])
    age = np.round(rng.uniform(*site.ages, site.people), 2)

    mean = np.array([_LOBE_MEAN[region.lobe] for region in DESIKAN_KILLIANY.values()] * 2) + 0.15 * _wave(2.3)
    sex = 0.01 * _wave(1.7)
    sd = true_standard_deviations()
    offset = rng.normal(0.0, 0.08) + rng.normal(0.0, 0.03, len(OUTCOMES))
    thickness = (
        mean
        + offset
        + SLOPE * (age[:, np.newaxis] - 30.0)
        + np.outer(male, sex)
        + sd * (_residuals(site.people, rng) + np.outer(autism, d))
    )
    thickness = np.round(thickness, 3)
    thickness[rng.random(thickness.shape) < MISSING] = np.nan
    return DemoTable(
        site.name,
        tuple(f"{site.name}-{number:04d}" for number in range(1, site.people + 1)),
        tuple(np.where(autism, "autism", "control").tolist()),
        tuple(np.where(male, "male", "female").tolist()),
        age,
        thickness,
    )


def _residuals(people: int, rng: np.random.Generator) -> Floats:
    """Return residuals of variance 1, (people, 68), that neighbours share."""
    regions = len(DESIKAN_KILLIANY)
    lobes = sorted({region.lobe for region in DESIKAN_KILLIANY.values()})
    lobe = [lobes.index(region.lobe) for region in DESIKAN_KILLIANY.values()]
    by_lobe = rng.normal(size=(people, 2, len(lobes)))[:, :, lobe].reshape(people, 2 * regions)
    parts = {
        "cortex": rng.normal(size=(people, 1)),
        "lobe": by_lobe,
        "twin": np.tile(rng.normal(size=(people, regions)), 2),
        "region": rng.normal(size=(people, 2 * regions)),
    }
    residuals = np.zeros((people, 2 * regions))
    for name, part in parts.items():
        residuals += math.sqrt(SHARES[name]) * part
    return residuals


def _wave(frequency: float) -> Floats:
    """Return values in [-1, 1] that vary smoothly along the atlas, equal in both hemispheres, (68,)."""
    return np.tile(np.sin(frequency * np.arange(len(DESIKAN_KILLIANY))), 2)
