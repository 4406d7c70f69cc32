"""The pooled answer, for the demo: what one would get with all rows in one place, and what averaging site answers gives.

Fitted here from the rows by least squares with one dummy per site, by other code than the federated regression.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Answers:
    """The coefficient of autism for one outcome: from all rows, and as the mean of the sites' own fits."""

    pooled: float
    averaged: float


def fit_demo(tables: Mapping[str, Path], outcomes: tuple[str, ...]) -> dict[str, Answers]:
    """Return the answers per outcome over the demo's CSV files, by site."""
    sites = [_read(path) for path in tables.values()]
    return {name: Answers(_pooled(sites, name), _averaged(sites, name)) for name in outcomes}


def _read(path: Path) -> dict[str, Floats]:
    text = np.genfromtxt(path, delimiter=",", dtype=str, names=None, encoding="utf-8")
    header, rows = text[0], text[1:]
    columns = {str(name): rows[:, place] for place, name in enumerate(header)}
    numbers: dict[str, Floats] = {
        "autism": (columns.pop("dx") == "autism").astype(np.float64),
        "male": (columns.pop("sex") == "male").astype(np.float64),
    }
    columns.pop("subject_id")
    for name, values in columns.items():
        numbers[name] = np.where(np.isin(values, ("", "NA")), "nan", values).astype(np.float64)
    return numbers


def _design(site: Mapping[str, Floats], outcome: str) -> tuple[Floats, Floats]:
    design = np.column_stack([site["autism"], site["age"], site["male"]])
    known = ~np.isnan(site[outcome])
    return design[known], site[outcome][known]


def _pooled(sites: list[dict[str, Floats]], outcome: str) -> float:
    parts = [_design(site, outcome) for site in sites]
    lengths = [len(y) for _, y in parts]
    dummies = np.repeat(np.eye(len(sites)), lengths, axis=0)
    design = np.hstack([np.vstack([x for x, _ in parts]), dummies])
    return _first(design, np.concatenate([y for _, y in parts]))


def _averaged(sites: list[dict[str, Floats]], outcome: str) -> float:
    fits: list[float] = []
    for site in sites:
        x, y = _design(site, outcome)
        fits.append(_first(np.column_stack([x, np.ones(len(y))]), y))
    return float(np.mean(fits))


def _first(design: Floats, y: Floats) -> float:
    return float(np.linalg.lstsq(design, y, rcond=None)[0][0])
