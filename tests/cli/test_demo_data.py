"""The demo's people are invented, reproducible, and carry the published effects.

Draws have a fixed seed. Were the seed changed, a comparison at 4.5 standard errors would fail for a right generator
with probability 7e-6, so the whole file with probability below 1e-3.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# statsmodels ships no types.

import csv
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray

from cohortsum.cli.demo_data import (
    MISSING,
    OUTCOMES,
    SHARES,
    SITES,
    SLOPE,
    DemoTable,
    make_demo_tables,
    published_effects,
    true_standard_deviations,
    write_demo_tables,
)
from cohortsum.report.anatomy import DESIKAN_KILLIANY, read_name

PUBLISHED = "published_asd_mega-analysis_case-controls_CortThick.csv"
SHARED = Path(__file__).resolve().parents[2] / "../shared/data/enigma_format" / PUBLISHED
LIMIT = 4.5  # standard errors


@pytest.fixture(scope="module")
def tables() -> dict[str, DemoTable]:
    return make_demo_tables()


def test_equal_seeds_give_equal_tables(tables: dict[str, DemoTable]) -> None:
    again = make_demo_tables()
    assert {name: table.to_csv() for name, table in again.items()} == {
        name: table.to_csv() for name, table in tables.items()
    }


def test_another_seed_gives_other_people(tables: dict[str, DemoTable]) -> None:
    other = make_demo_tables(seed=1)
    assert all(other[name].to_csv() != table.to_csv() for name, table in tables.items())


def test_there_are_nine_sites_of_different_size(tables: dict[str, DemoTable]) -> None:
    sizes = [len(table.subject_id) for table in tables.values()]
    assert len(set(sizes)) == 9
    assert min(sizes) == 60
    assert max(sizes) == 300
    assert sizes == [site.people for site in SITES]
    assert list(tables) == sorted(tables)


def test_people_have_their_own_ids_and_known_levels(tables: dict[str, DemoTable]) -> None:
    ids = [subject for table in tables.values() for subject in table.subject_id]
    assert len(set(ids)) == len(ids)
    for table in tables.values():
        assert set(table.dx) == {"control", "autism"}
        assert set(table.sex) == {"female", "male"}


def test_ages_stay_in_the_range_of_their_site(tables: dict[str, DemoTable]) -> None:
    for site in SITES:
        youngest, oldest = site.ages
        age = tables[site.name].age
        assert 6.0 <= youngest <= age.min()
        assert age.max() <= oldest <= 64.0


def test_thickness_is_plausible_and_rounded_as_freesurfer_rounds(tables: dict[str, DemoTable]) -> None:
    for table in tables.values():
        present = table.thickness[~np.isnan(table.thickness)]
        assert table.thickness.shape == (len(table.subject_id), 68)
        assert present.min() > 1.0
        assert present.max() < 4.5
        assert np.array_equal(np.round(present, 3), present)


def test_cells_are_missing_at_the_stated_rate(tables: dict[str, DemoTable]) -> None:
    missing = np.concatenate([np.isnan(table.thickness).ravel() for table in tables.values()])
    standard_error = np.sqrt(MISSING * (1 - MISSING) / missing.size)
    assert abs(missing.mean() - MISSING) < LIMIT * standard_error
    assert 0.01 <= MISSING <= 0.02


def test_published_effects_are_those_of_the_packaged_table() -> None:
    effects = published_effects()
    assert set(OUTCOMES) - set(effects) == {"lh_fusiform_thickness", "rh_fusiform_thickness"}
    assert len(effects) == 66
    assert effects["lh_entorhinal_thickness"] == -0.15
    assert effects["rh_rostralmiddlefrontal_thickness"] == 0.22
    assert effects["lh_bankssts_thickness"] == 0.0


def test_packaged_table_is_the_published_file_unchanged() -> None:
    if not SHARED.exists():
        pytest.skip("the published table is not at hand: ../shared/data is absent")
    packaged = Path(__file__).resolve().parents[2] / "cli/cohortsum/cli/data" / PUBLISHED
    assert packaged.read_bytes() == SHARED.read_bytes()


def test_files_hold_the_tables(tmp_path: Path, tables: dict[str, DemoTable]) -> None:
    paths = write_demo_tables(tmp_path / "data")
    assert [path.name for path in paths] == [f"{site.name}.csv" for site in SITES]
    for path in paths:
        data = path.read_bytes()
        assert b"\r" not in data
        header, *rows = list(csv.reader(data.decode().splitlines()))
        table = tables[path.stem]
        assert header == ["subject_id", "dx", "sex", "age", *OUTCOMES]
        assert [tuple(row[:3]) for row in rows] == list(
            zip(table.subject_id, table.dx, table.sex, strict=True)
        )
        values = np.array([[np.nan if cell == "NA" else float(cell) for cell in row[4:]] for row in rows])
        np.testing.assert_array_equal(values, table.thickness)
        np.testing.assert_array_equal([float(row[3]) for row in rows], table.age)


def test_noise_shares_make_variance_one() -> None:
    assert sum(SHARES.values()) == pytest.approx(1.0)


def test_pooled_fit_recovers_effects_age_slope_and_spread(tables: dict[str, DemoTable]) -> None:
    """b of autism is d x sd in every region, within sampling error, and not compatible with no effect."""
    design, thickness = _pooled(tables)
    published = published_effects()
    d = np.array([published.get(outcome, 0.0) for outcome in OUTCOMES])
    sd = true_standard_deviations()
    estimates = np.empty(68)
    errors = np.empty(68)
    for region in range(68):
        fit = sm.OLS(thickness[:, region], design, missing="drop").fit()
        b, se = np.asarray(fit.params), np.asarray(fit.bse)
        assert abs(b[0] - d[region] * sd[region]) < LIMIT * se[0], OUTCOMES[region]
        assert abs(b[1] - SLOPE) < LIMIT * se[1], OUTCOMES[region]
        assert np.sqrt(fit.scale) == pytest.approx(sd[region], rel=LIMIT / np.sqrt(2 * fit.df_resid), abs=0.0)
        estimates[region], errors[region] = b[0] / sd[region], se[0] / sd[region]

    # the share of the published effects that came back: 1, with an error that rules out 0
    share = d @ estimates / (d @ d)
    covariance = np.outer(errors, errors) * _noise_correlation()
    share_error = np.sqrt(d @ covariance @ d) / (d @ d)
    assert abs(share - 1.0) < LIMIT * share_error
    assert share > LIMIT * share_error


def test_noise_is_correlated_in_space(tables: dict[str, DemoTable]) -> None:
    """Every pair of regions correlates as the shares say: Fisher's z within 5 standard errors (2278 pairs: 1e-3)."""
    design, thickness = _pooled(tables)
    residuals = np.full(thickness.shape, np.nan)
    for region in range(68):
        known = ~np.isnan(thickness[:, region])
        x, y = design[known], thickness[known, region]
        residuals[known, region] = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    pairs = np.triu_indices(68, k=1)
    present = (~np.isnan(residuals)).astype(np.float64)
    people = (present.T @ present)[pairs]  # with both values
    found = _pairwise_correlation(residuals)[pairs]
    off = np.abs(np.arctanh(found) - np.arctanh(_noise_correlation()[pairs]))
    limit = 5 / np.sqrt(people - design.shape[1] - 3)
    assert (off < limit).all()
    assert limit.max() < np.arctanh(SHARES["cortex"] + SHARES["lobe"]) - np.arctanh(SHARES["cortex"])


def _pooled(tables: dict[str, DemoTable]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the design [autism, age, male, one column per site] and the thickness of all people."""
    sites = np.concatenate(
        [np.full(len(table.subject_id), index) for index, table in enumerate(tables.values())]
    )
    autism = np.concatenate([np.array(table.dx) == "autism" for table in tables.values()])
    male = np.concatenate([np.array(table.sex) == "male" for table in tables.values()])
    age = np.concatenate([table.age for table in tables.values()])
    dummies = sites[:, np.newaxis] == np.arange(len(tables))
    design = np.column_stack([autism, age, male, dummies]).astype(np.float64)
    return design, np.concatenate([table.thickness for table in tables.values()])


def _pairwise_correlation(residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the correlation of every two columns over the people who have both."""
    present = (~np.isnan(residuals)).astype(np.float64)
    value = np.nan_to_num(residuals)
    n = present.T @ present
    mean = (value.T @ present) / n  # of the row's region, over people with both
    covariance = value.T @ value / n - mean * mean.T
    variance = (value**2).T @ present / n - mean**2
    return np.asarray(covariance / np.sqrt(variance * variance.T), np.float64)


def _noise_correlation() -> NDArray[np.float64]:
    names = [read_name(outcome) for outcome in OUTCOMES]
    correlation = np.empty((68, 68))
    for row, one in enumerate(names):
        for column, other in enumerate(names):
            same_lobe = DESIKAN_KILLIANY[one.structure].lobe == DESIKAN_KILLIANY[other.structure].lobe
            correlation[row, column] = (
                SHARES["cortex"]
                + SHARES["lobe"] * (same_lobe and one.hemisphere == other.hemisphere)
                + SHARES["twin"] * (one.structure == other.structure)
                + SHARES["region"] * (row == column)
            )
    return correlation
