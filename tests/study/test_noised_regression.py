"""Regression under noise: nobody moves more than the parts say, without noise it is the pooled fit, and its intervals hold."""

from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.crypto.noise import NoiseStream, discrete_gaussian
from cohortsum.study.batch import Batch
from cohortsum.study.noising import regrid, squared_units
from cohortsum.study.results import Absent, Status
from cohortsum.study.statistics.noised import Noisy
from cohortsum.study.statistics.noised_fit import NoisedTotals, noised_fit
from cohortsum.study.statistics.noised_regression import SHARES_DR, SHARES_E, SHARES_F, NoisedRegression
from tests.study.noised_models import (
    AGE,
    OUTCOMES,
    REFERENCE,
    cohort,
    column,
    formulation,
    known,
    natural,
    noisy,
    public_outcomes,
    standard_deviations,
    table_of,
)
from tests.study.pooled import (
    Floats,
    benjamini_hochberg,
    contribution,
    federate,
)

SM: Any = import_module("statsmodels.api")

FORMULATIONS = ["E", "F", "Dr"]
VARIANTS = [
    ("E", "per_outcome"),
    ("E", "complete"),
    ("F", "per_outcome"),
    ("Dr", "per_outcome"),
    ("Dr", "complete"),
]

levels = st.sampled_from([-1, 0, 1])


def values(lower: float, upper: float) -> st.SearchStrategy[float]:
    corners = st.sampled_from([lower, upper, (lower + upper) / 2, float("nan")])
    return corners | st.floats(lower, upper)


records = st.tuples(
    levels, levels, values(AGE.lower, AGE.upper), *(values(one.lower, one.upper) for one in OUTCOMES)
)
Record = tuple[int, int, float, float, float, float]


def site_of(people: list[Record]) -> Batch:
    dx, sex, age, *outcomes = (np.array(column) for column in zip(*people, strict=True))
    numbers = {"age": age.astype(np.float64)}
    numbers |= {one.name: held.astype(np.float64) for one, held in zip(OUTCOMES, outcomes, strict=True)}
    return Batch(len(people), numbers, {"dx": dx.astype(np.int16), "sex": sex.astype(np.int16)})


def moved(statistic: NoisedRegression, one: Batch, other: Batch) -> dict[str, float]:
    """Return by block how far the numbers of a site that noise would go on lie apart, in L2 norm."""
    first, second = (natural(statistic, contribution(statistic, site, 1000)) for site in (one, other))
    return {name: float(np.linalg.norm(first[name] - second[name])) for name in first}


class TestSensitivity:
    @pytest.mark.parametrize(("letter", "missing"), VARIANTS)
    @given(
        crowd=st.lists(st.tuples(records, st.integers(1, 30)), min_size=0, max_size=4),
        before=records,
        after=records,
        clip=st.sampled_from([0.3, 2.0, 6.9]),
    )
    @settings(max_examples=80, deadline=None)
    def test_replacing_a_person_moves_no_part_farther_than_it_says(
        self,
        letter: str,
        missing: str,
        crowd: list[tuple[Record, int]],
        before: Record,
        after: Record,
        clip: float,
    ) -> None:
        statistic = formulation(letter, clip, missing=missing)
        if letter == "F":
            after = (before[0], *after[1:])  # neighbours agree in the contrast
        others = [record for record, times in crowd for _ in range(times)]
        distance = moved(statistic, site_of([before, *others]), site_of([after, *others]))
        for part in statistic.parts("replace_one"):
            together = sqrt(sum(distance[name] ** 2 for name in part.blocks))
            assert together <= part.l2, part.blocks

    @given(seed=st.integers(0, 2**32 - 1))
    @settings(max_examples=30, deadline=None)
    @pytest.mark.parametrize(("letter", "missing"), VARIANTS)
    def test_the_bounds_hold_on_random_corners(self, letter: str, missing: str, seed: int) -> None:
        """Most people in one corner and the replaced one anywhere is where the bounds are nearly reached."""
        rng = np.random.default_rng(seed)
        statistic = formulation(letter, float(rng.choice([1.0, 4.0])), missing=missing)

        def record() -> Record:
            y = [float(rng.choice([one.lower, one.upper])) for one in OUTCOMES]
            return (int(rng.integers(-1, 2)), int(rng.integers(0, 2)), float(rng.choice([5.0, 65.0])), *y)  # type: ignore[return-value]  # three outcomes

        crowd = [record()] * int(rng.integers(1, 60)) + [record() for _ in range(int(rng.integers(0, 3)))]
        before, after = record(), record()
        after = (before[0], *after[1:]) if letter == "F" else after
        distance = moved(statistic, site_of([before, *crowd]), site_of([after, *crowd]))
        for part in statistic.parts("replace_one"):
            assert sqrt(sum(distance[name] ** 2 for name in part.blocks)) <= part.l2, part.blocks

    @pytest.mark.parametrize("letter", ["E", "Dr"])
    def test_the_bounds_of_the_protected_contrast_are_nearly_reached(self, letter: str) -> None:
        """1000 people in one corner; one of them goes to the opposite one, or, where all others are not, only the outcomes do."""
        statistic = formulation(letter, 2.0)
        low, high = (0, 0, 5.0, 0.0, 0.0, -1.0), (1, 1, 65.0, 4.0, 8000.0, 1.0)
        crowd = [low] * 1000
        corner = moved(statistic, site_of([low, *crowd]), site_of([high, *crowd]))
        crossed = moved(statistic, site_of([high[:3] + low[3:], *crowd]), site_of([high, *crowd]))
        bounds = {part.blocks[0]: part.l2 for part in statistic.parts("replace_one")}
        entries = {"E": 1, "Dr": 6}[letter]
        assert corner["r/design"] == pytest.approx(4 * sqrt(entries), rel=2e-3)  # n, which adds 1, stays
        rows = ["r/effect", "r/covariates"] if letter == "Dr" else ["r/effect"]
        for row in rows:
            assert 0.99 * bounds[row] < crossed[row] <= bounds[row]

    def test_the_bound_of_the_design_is_reached_in_n_as_well(self) -> None:
        statistic = formulation("E")
        low, crowd = (0, 0, 5.0, 2.0, 4000.0, 0.0), [(1, 0, 5.0, 2.0, 4000.0, 0.0)] * 500
        distance = moved(statistic, site_of([low, *crowd]), site_of([(-1, *low[1:]), *crowd]))
        (bound,) = [part.l2 for part in statistic.parts("replace_one") if part.blocks == ("r/design",)]
        assert 0.998 * bound < distance["r/design"] <= bound

    @pytest.mark.parametrize("letter", FORMULATIONS)
    def test_the_bound_of_the_spread_is_reached(self, letter: str) -> None:
        """A crowd beyond C / 2 holds the centre there; one person goes from the centre to the far end of the ball."""
        statistic = formulation(letter, 2.0)
        y0 = {
            "crowd": 2.0 + 0.5 * 1.2,
            "near": 2.0 + 0.5,
            "far": 2.0 - 0.5 * 2.0,
        }  # 1.2, 1 and -2 public deviations
        at = {
            key: (
                0,
                0,
                35.0,
                value + 0.05 * (-0.5 if letter == "Dr" else 0),
                4000.0 if letter != "Dr" else 3825.0,
                0.0,
            )
            for key, value in y0.items()
        }
        crowd = [at["crowd"]] * 100
        distance = moved(statistic, site_of([at["near"], *crowd]), site_of([at["far"], *crowd]))
        (bound,) = [part.l2 for part in statistic.parts("replace_one") if part.blocks == ("r/spread",)]
        assert distance["r/spread"] == pytest.approx(bound, rel=1e-5)

    def test_the_bound_of_the_public_contrast_is_reached_at_the_cap_and_beyond_it(self) -> None:
        statistic = formulation("F", 2.0)
        (bound,) = [part.l2 for part in statistic.parts("replace_one") if part.blocks == ("r/effect",)]
        for larger in (11, 15, 19):  # of 20
            crowd = [(1, 0, 35.0, 2.0, 4000.0, 0.0)] * larger + [(0, 0, 35.0, 2.0, 4000.0, 0.0)] * (
                19 - larger
            )
            one, other = (0, 0, 35.0, 0.0, 4000.0, 0.0), (0, 0, 35.0, 4.0, 4000.0, 0.0)
            distance = moved(statistic, site_of([one, *crowd]), site_of([other, *crowd]))
            assert distance["r/effect"] == pytest.approx(bound, rel=1e-6)
            assert distance["r/design"] == distance["r/arms"] == 0.0

    def test_every_block_is_in_one_part_and_shares_are_no_more_than_the_budget(self) -> None:
        for letter in FORMULATIONS:
            statistic = formulation(letter)
            named = [name for part in statistic.parts("replace_one") for name in part.blocks]
            assert sorted(named) == sorted(block.name for block in statistic.layout())
            public = {name for part in statistic.parts("replace_one") if not part.l2 for name in part.blocks}
            expected = {"r/people", "r/sites"} | ({"r/arms", "r/design"} if letter == "F" else set[str]())
            assert public == expected
        for shares in (SHARES_E, SHARES_DR, SHARES_F):
            assert float(sum(Fraction(share) for share in shares.values())) == 1.0

    def test_batches_do_not_change_a_digit(self) -> None:
        for letter in FORMULATIONS:
            statistic = formulation(letter)
            (site,) = cohort(3, 1, 90, holes=0.1)
            once, often = contribution(statistic, site, 1000), contribution(statistic, site, 7)
            assert all(np.array_equal(once[name], often[name]) for name in once)


class TestWithoutNoise:
    """Exact sums on a fine grid; bits 36 leave room for so few outcomes and people."""

    def stacked(
        self, statistic: NoisedRegression, sites: list[Batch], counted: list[Any]
    ) -> tuple[Floats, Floats, NDArray[np.intp]]:
        """Return the outcomes, dx as 0/1 with one dummy per site, and the site of who is counted."""
        y = np.vstack(
            [public_outcomes(site, statistic)[mask] for site, mask in zip(sites, counted, strict=True)]
        )
        dx = np.concatenate([site.levels["dx"][mask] for site, mask in zip(sites, counted, strict=True)])
        label = np.repeat(np.arange(len(sites)), [int(mask.sum()) for mask in counted])
        dummies = (label[:, np.newaxis] == np.arange(len(sites))).astype(np.float64)
        return y, np.column_stack((dx.astype(np.float64), dummies)), label

    @pytest.mark.parametrize("clip", [1.2, 6.9])
    @pytest.mark.parametrize("letter", ["E", "F"])
    def test_e_and_f_are_the_pooled_fit_of_the_shortened_outcomes(self, letter: str, clip: float) -> None:
        sites = cohort(5, 6, 80, holes=0.06)
        statistic = formulation(letter, clip, fraction_bits=36)
        y, x, label = self.stacked(statistic, sites, [site.levels["dx"] >= 0 for site in sites])
        weights = np.ones(len(y))
        if letter == "F":
            for place in range(len(sites)):
                share = x[label == place, 0].mean()
                weights[label == place] = min(1.0, 0.55 / max(share, 1 - share))
            assert weights.min() < 1.0
        table = table_of(statistic, sites)
        units = np.array([outcome.half_width / 4 for outcome in OUTCOMES])
        fits = [SM.WLS(one, x, weights=weights).fit() for one in y.T]
        assert column(table, "b") == pytest.approx(units * [fit.params[0] for fit in fits], rel=1e-9)
        assert column(table, "n").tolist() == [len(y)] * 3
        if (
            letter == "E"
        ):  # the centres of all sites lie inside half the ball, so the spread is that about them
            df = len(y) - 7
            residual = sum(fit.ssr for fit in fits) / (3 * df)
            se = units * sqrt(residual) * np.sqrt(fits[0].normalized_cov_params[0, 0])
            assert column(table, "se") == pytest.approx(se, rel=1e-9)
            assert column(table, "se_sampling") == pytest.approx(se, rel=1e-9)
            assert column(table, "df") == pytest.approx([df] * 3)
            assert column(table, "d") == pytest.approx(column(table, "b") / units / sqrt(residual))

    def test_the_sampling_error_of_capped_sites_is_that_of_their_weighted_sums(self) -> None:
        sites = cohort(7, 6, 80)
        statistic = formulation("F", 6.9, fraction_bits=36)
        _, x, label = self.stacked(statistic, sites, [site.levels["dx"] >= 0 for site in sites])
        above = below = 0.0
        for place in range(6):
            share, n = x[label == place, 0].mean(), np.sum(label == place)
            weight = min(1.0, 0.55 / max(share, 1 - share))
            above += weight**2 * n * share * (1 - share)
            below += weight * n * share * (1 - share)
        (table,) = (table_of(statistic, sites),)
        residual = column(table, "b")[0] / column(table, "d")[0]
        assert column(table, "se_sampling")[0] == pytest.approx(residual * sqrt(above) / below)

    def test_one_outcome_has_the_interval_of_ordinary_least_squares(self) -> None:
        sites = cohort(9, 5, 60)
        statistic = formulation("E", 6.9, fraction_bits=36, outcomes=OUTCOMES[:1])
        y, x, _ = self.stacked(statistic, sites, [site.levels["dx"] >= 0 for site in sites])
        fit = SM.OLS(np.clip(y[:, 0], -4, 4), x).fit()
        table = table_of(statistic, sites)
        low, high = fit.conf_int(0.05)[0] * 0.5
        assert column(table, "low")[0] == pytest.approx(low, rel=1e-8)
        assert column(table, "high")[0] == pytest.approx(high, rel=1e-8)
        assert column(table, "p")[0] == pytest.approx(fit.pvalues[0], rel=1e-8)

    @pytest.mark.parametrize("multiplier", [0.0, 0.5])
    @pytest.mark.parametrize("missing", ["per_outcome", "complete"])
    def test_dr_is_the_ridge_toward_the_reference(self, missing: str, multiplier: float) -> None:
        """Its penalty is 3 standard deviations of the noise in xx: as many more people who have the reference's outcomes."""
        sites = cohort(11, 6, 80, holes=0.03)
        statistic = formulation("Dr", 2.5, fraction_bits=36, missing=missing)
        counted = [known(site) for site in sites]
        if missing == "complete":
            has = [~np.isnan([site.numbers[one.name] for one in OUTCOMES]).any(axis=0) for site in sites]
            counted = [mask & other for mask, other in zip(counted, has, strict=True)]
        y, x, _ = self.stacked(statistic, sites, counted)
        age, sex = (
            np.concatenate([held[mask] for held, mask in zip(columns, counted, strict=True)]).astype(
                np.float64
            )
            for columns in (
                [(site.numbers["age"] - 35.0) / 30.0 for site in sites],
                [2.0 * site.levels["sex"] - 1.0 for site in sites],
            )
        )
        penalty = 3.0 * standard_deviations(statistic, multiplier)["r/design"]
        design = np.column_stack((x, age, sex))
        further = np.zeros((2, design.shape[1]))
        further[0, -2] = further[1, -1] = sqrt(penalty)
        augmented = SM.OLS(np.vstack((y, np.zeros((2, 3)))), np.vstack((design, further))).fit()
        units = np.array([outcome.half_width / 4 for outcome in OUTCOMES])
        table = table_of(statistic, sites, multiplier)
        assert column(table, "b") == pytest.approx(units * augmented.params[0], rel=1e-9)

    def test_a_missing_outcome_stands_in_the_middle_or_leaves_the_person_out(self) -> None:
        (site,) = cohort(13, 1, 60)
        site.numbers["y0"][:10] = np.nan
        kept = formulation("E", 6.9, missing="complete")
        rest = Batch(
            50,
            {name: held[10:] for name, held in site.numbers.items()},
            {name: held[10:] for name, held in site.levels.items()},
        )
        left_out, without = (contribution(kept, one, 1000) for one in (site, rest))
        assert all(np.array_equal(left_out[name], without[name]) for name in left_out if name != "r/people")
        imputed = contribution(formulation("E", 6.9), site, 1000)
        site.numbers["y0"][:10] = 2.0
        assert np.array_equal(
            imputed["r/effect"], contribution(formulation("E", 6.9), site, 1000)["r/effect"]
        )


class TestIntervals:
    """1000 cohorts each with fresh noise and 3 outcomes; the standard error of a coverage is at most 0.7 %.

    Residuals are normal, C is beyond 99.9 % of the norms, and the reference of Dr is right, so the true coverage is near 95 %. A
    right one would fail a run with another seed with a probability of about 0.005.
    """

    RUNS, SITES, PEOPLE = 1000, 4, 200

    def covered(self, letter: str, multiplier: float, seed: int) -> tuple[float, float, float, float]:
        """Return the coverage of b and of d, the noise beside the sampling error, and the share of runs with an interval."""
        rng = np.random.default_rng(seed)
        statistic = formulation(letter, 4.5, missing="complete" if letter == "Dr" else "per_outcome")
        sd = standard_deviations(statistic, multiplier)
        effects, units = np.array([0.0, 0.4, -0.8]), np.array([one.half_width / 4 for one in OUTCOMES])
        held: list[Floats] = []
        for _ in range(self.RUNS):
            sums: dict[str, Any] = {}
            for site in range(self.SITES):
                for name, one in statistic.contribute(
                    statistic.accumulate(self.site(rng, site, effects, letter))
                ).items():
                    sums[name] = sums.get(name, 0) + one
            (table,) = statistic.finish_noised(noisy(natural(statistic, sums), sd, rng, self.SITES))
            if table.rows[0][table.columns.index("status")] == "ok":
                b, d = effects * units, effects / 0.9
                inside = (column(table, "low") <= b) & (b <= column(table, "high"))
                inside_d = (column(table, "d_low") <= d) & (d <= column(table, "d_high"))
                ratio = column(table, "se_noise") / column(table, "se_sampling")
                held.append(np.array([inside, inside_d, ratio], np.float64))
        b, d, ratio = np.mean(held, axis=(0, 2))
        return float(b), float(d), float(ratio), len(held) / self.RUNS

    def site(self, rng: np.random.Generator, site: int, effects: Floats, letter: str) -> Batch:
        n = self.PEOPLE
        dx, sex = (rng.random((2, n)) < [[0.4 + 0.05 * site], [0.5]]).astype(np.int16)
        age = rng.uniform(5.0, 65.0, n)
        numbers = {"age": age}
        noise = 0.9 * rng.standard_normal((3, n))
        for outcome, effect, residual in zip(OUTCOMES, effects, noise, strict=True):
            v = 0.3 * np.sin(site) + effect * (dx - 0.5) + residual
            values = outcome.middle + outcome.half_width / 4 * v
            if letter == "Dr":
                slopes = REFERENCE[outcome.name]
                values += slopes["age"] * (age - 35.0) + slopes["sex[male]"] * (sex - 0.5)
                if "intercept" in slopes:
                    values += (
                        slopes["intercept"]
                        + 35.0 * slopes["age"]
                        + 0.5 * slopes["sex[male]"]
                        - outcome.middle
                    )
            numbers[outcome.name] = np.clip(values, outcome.lower, outcome.upper)
        return Batch(n, numbers, {"dx": dx, "sex": sex})

    @pytest.mark.parametrize(
        ("letter", "multiplier", "least", "most"),
        [("E", 0.7, 0.4, 0.8), ("E", 2.0, 1.2, 2.0), ("F", 1.2, 0.4, 0.8), ("Dr", 0.7, 0.4, 1.0)],
    )
    def test_intervals_hold_the_effect_as_often_as_they_say(
        self, letter: str, multiplier: float, least: float, most: float
    ) -> None:
        b, d, ratio, estimated = self.covered(letter, multiplier, seed=20261201)
        assert 0.93 <= b <= 0.97
        assert 0.93 <= d <= 0.97
        assert least < ratio < most
        assert estimated > 0.98


class TestErrors:
    """2000 draws of the noise alone: the standard error of a standard deviation is 1.6 %."""

    DRAWS = 2000

    @pytest.mark.parametrize("columns", [1, 3])
    def test_noise_in_the_rows_and_in_xx_is_in_the_errors_and_not_in_the_residual(self, columns: int) -> None:
        rng = np.random.default_rng(20261203)
        b = np.array([[3.0, -1.0], [0.5, 2.0], [-1.0, 1.0]])[:columns]
        xx = np.array([[900.0, 100.0, 50.0], [100.0, 300.0, 30.0], [50.0, 30.0, 800.0]])[:columns, :columns]
        explained = float(np.sum(b * (xx @ b)))
        exact = NoisedTotals(
            people=1000.0,
            people_sd=0.0,
            sites=4,
            xx=xx - 30.0 * np.diag([0.0, 1.0, 1.0][:columns]),  # the ridge is then a part of the truth
            xx_sd=10.0,
            rows=xx @ b,
            rows_sd=np.array([30.0, 20.0, 20.0][:columns]),
            squares=None,
            spread=explained + 0.8 * 2 * (996 - columns),
            spread_sd=0.0,
        )
        said = noised_fit(exact)
        found, variances = np.empty((self.DRAWS, 2)), np.empty(self.DRAWS)
        for draw in range(self.DRAWS):
            moved_xx = np.triu(10.0 * rng.standard_normal((columns, columns)))
            moved_xx += np.triu(moved_xx, 1).T
            moved_rows = exact.rows_sd[:, np.newaxis] * rng.standard_normal((columns, 2))
            one = noised_fit(replace(exact, xx=exact.xx + moved_xx, rows=exact.rows + moved_rows))
            found[draw], variances[draw] = one.b, one.residual_sd**2
        assert np.std(found, axis=0) == pytest.approx(said.noise, rel=0.06)
        assert float(np.mean(variances)) == pytest.approx(0.8, rel=0.03)


class TestThroughTheGrid:
    @pytest.mark.parametrize("letter", FORMULATIONS)
    def test_noise_of_the_product_on_its_grid_gives_the_fit_within_its_errors(self, letter: str) -> None:
        """Sites round their sums to the grid of the noise and add discrete Gaussian values; as `noising` does it."""
        sites = cohort(17, 5, 200)
        statistic = formulation(letter, 4.0)
        exact, sent = table_of(statistic, sites), federate(statistic, sites)
        own = {block.name: block.fraction_bits for block in statistic.layout()}
        stream = NoiseStream.fresh()
        found, sd = natural(statistic, sent), dict.fromkeys(sent, 0.0)
        for part in statistic.parts("replace_one"):
            if part.l2 == 0.0:
                continue
            levels, rho = 64, 2.0 * part.share  # rho 2 for all parts together
            sigma = int(sqrt(squared_units(part, levels, exact=False) / (2 * rho * len(sites)))) + 1
            assert 4 <= sigma <= 2048
            for name in part.blocks:
                total = np.zeros(len(sent[name]), np.int64)
                for site in sites:
                    values = regrid(contribution(statistic, site, 1000)[name], own[name], levels)
                    total += values + discrete_gaussian(sigma, len(values), stream)
                found[name] = total.astype(np.float64) / levels
                sd[name] = sigma * sqrt(len(sites)) / levels
        (table,) = statistic.finish_noised(Noisy(found, sd, 1000, len(sites)))
        # six standard errors: a run in 10^8 would fail by chance
        assert np.all(np.abs(column(table, "b") - column(exact, "b")) < 6 * column(table, "se_noise"))
        assert np.all(column(table, "se_noise") < column(table, "se"))


class TestWhatIsSaid:
    def test_nothing_is_estimated_where_xx_is_not_positive(self) -> None:
        statistic, sites = formulation("E"), cohort(19, 4, 50)
        values = natural(statistic, federate(statistic, sites))
        sd = standard_deviations(statistic, 0.5)
        for shift, status in ((-1.0, Status.NOT_ESTIMABLE), (2.0, Status.NOISE_TOO_LARGE)):
            drowned = values | {"r/design": np.array([200.0, shift * sd["r/design"]])}
            (table,) = statistic.finish_noised(noisy(drowned, sd, None, 4))
            assert {cells[table.columns.index("status")] for cells in table.rows} == {status.value}
            assert {cells[table.columns.index("b")] for cells in table.rows} == {Absent("no data")}

    def test_covariates_whose_noise_is_beyond_the_ridge_are_not_projected(self) -> None:
        statistic, sites = formulation("Dr"), cohort(19, 4, 50)
        values = natural(statistic, federate(statistic, sites))
        sd = standard_deviations(statistic, 0.1)
        triangle = values["r/design"].copy()
        triangle[4] = -4.0 * sd["r/design"]  # n, then dx dx, dx age, dx sex, age age
        (table,) = statistic.finish_noised(noisy(values | {"r/design": triangle}, sd, None, 4))
        assert table.rows[0][table.columns.index("status")] == Status.NOT_ESTIMABLE.value

    def test_a_spread_within_its_noise_leaves_the_coefficient_and_its_noise(self) -> None:
        statistic, sites = formulation("F"), cohort(19, 4, 50)
        values = natural(statistic, federate(statistic, sites))
        sd = standard_deviations(statistic, 0.5)
        (table,) = statistic.finish_noised(noisy(values | {"r/spread": np.array([-5.0])}, sd, None, 4))
        (cells, *_) = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        assert cells["status"] == Status.VARIANCE_FLOORED.value
        assert isinstance(cells["b"], float)
        assert isinstance(cells["se_noise"], float)
        assert isinstance(cells["se"], Absent)
        assert isinstance(cells["low"], Absent)

    def test_too_few_suppliers_are_said_of_every_outcome(self) -> None:
        statistic = formulation("E")
        (table,) = statistic.finish_noised(Noisy({}, {}, 0, 0))
        assert len(table.rows) == 3
        assert {cells[table.columns.index("status")] for cells in table.rows} == {"too few sites"}

    def test_more_people_are_not_counted_than_there_are(self) -> None:
        statistic, sites = formulation("E"), cohort(19, 4, 50)
        values = natural(statistic, federate(statistic, sites))
        more = values | {"r/design": values["r/design"] + [30.0, 0.0]}
        (table,) = statistic.finish_noised(noisy(more, standard_deviations(statistic, 0.1), None, 4))
        assert column(table, "n").tolist() == [200.0] * 3

    def test_false_discovery_is_over_the_outcomes(self) -> None:
        table = table_of(formulation("E", correction="fdr_bh"), cohort(19, 4, 50), 0.1)
        assert column(table, "p_fdr") == pytest.approx(benjamini_hochberg(column(table, "p").tolist()))

    @pytest.mark.parametrize(
        ("letter", "said"),
        [
            ("E", ["Protected: the record of one person, dx included", "n carries noise", "norm 3"]),
            ("F", ["Protected: the outcomes of one person, not dx", "Public: who has which dx", "0.55"]),
            ("Dr", ["the reference model", "ridge", "drawn to 0"]),
        ],
    )
    def test_notes_say_what_is_protected_and_what_no_interval_covers(
        self, letter: str, said: list[str]
    ) -> None:
        notes = " ".join(table_of(formulation(letter), cohort(19, 4, 50), 0.1).notes)
        assert "in no interval" in notes
        for words in said:
            assert words in notes

    def test_arm_sizes_are_given_only_where_they_are_public(self) -> None:
        sites = cohort(19, 4, 50)
        arms = [sum(int(np.sum(site.levels["dx"] == level)) for site in sites) for level in (0, 1)]
        table = table_of(formulation("F"), sites)
        assert [column(table, name)[0] for name in ("n_reference", "n_level")] == arms
        protected = table_of(formulation("E"), sites)
        assert protected.rows[0][protected.columns.index("n_level")] == Absent("protected by noise")
        assert formulation("F").unprotected == {"dx"}
        assert not formulation("E").unprotected

    def test_people_sets_are_the_cohort_and_what_is_public(self) -> None:
        (site,) = cohort(19, 1, 50, holes=0.2)
        for letter in FORMULATIONS:
            statistic = formulation(letter)
            masks = statistic.members(site)
            assert set(masks) == {name for block in statistic.layout() for name in block.sets}
            assert masks["r/cohort"].all()
        masks = formulation("F").members(site)
        assert int(masks["r/dx"].sum()) == int(masks["r/dx[control]"].sum() + masks["r/dx[autism]"].sum())

    def test_the_forecast_halves_its_ratio_with_four_times_the_people(self) -> None:
        for letter in FORMULATIONS:
            statistic = formulation(letter)
            sd = standard_deviations(statistic, 1.0)
            small, large = (statistic.forecast(sd, people)[1] for people in (1000.0, 4000.0))
            assert small.ratio == pytest.approx(2 * large.ratio)
            assert (small.unit, small.per) == ("mm3", 3)
            assert small.sampling_se == pytest.approx(2000 * 0.9 / sqrt(910))
