"""The noise of a round: enough for every number of honest sites, on every number but the one that is public, and never in the way."""

from dataclasses import replace
from math import isqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from cohortsum.crypto.noise import NoiseStream
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol import site_checks
from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.coordinator_states import Opened
from cohortsum.protocol.effects import Contribute
from cohortsum.protocol.noise import (
    LEAST_SIGMA,
    MOST_SIGMA,
    NANO,
    TAIL,
    NoisedCount,
    NoisePart,
    NoisePlan,
    draw_gate_noise,
    draw_noise,
)
from cohortsum.protocol.opening import check_gate, check_result
from cohortsum.protocol.plan import PlannedBlock, RoundPlan
from cohortsum.protocol.site_states import Attempt
from tests.protocol.consortium import PEOPLE, Consortium, plan_of, protection

SUMS = PlannedBlock("sums", 3, 1000, "person", ())
COUNTS = PlannedBlock("counts", 2, 50, "person", ())
PART = NoisePart(("sums", "counts"), 4_000_000, NANO // 20)
NOISE = NoisePlan("distributed", "replace_one", (PART,))


PEOPLE_TOO = NoisedCount(NoisePart(("people",), 10_000, NANO // 400), 100)
GATE = NoisedCount(NoisePart(("gate",), 10_000, NANO // 400), 100)
ADDED = replace(NOISE, adjacency="add_or_remove", people=PEOPLE_TOO, gate=GATE)


def noised(noise: NoisePlan = NOISE, sites: int = 9) -> RoundPlan:
    return replace(plan_of(sites, protection(max_colluding_sites=1), (SUMS, COUNTS)), noise=noise)


@given(st.integers(1, 10**9), st.integers(1, 10 * NANO), st.integers(1, 200))
def test_sigma_is_the_least_whole_number_that_stays_below_the_rho(
    squared: int, nano: int, honest: int
) -> None:
    sigma = NoisePart(("x",), squared, nano).sigma(honest)
    assert 2 * nano * honest * sigma**2 > squared * NANO
    assert sigma == 1 or 2 * nano * honest * (sigma - 1) ** 2 <= squared * NANO


@pytest.mark.parametrize("sites", [9, 34, 200])
def test_the_honest_sites_noise_alone_keeps_the_claim_at_every_size(sites: int) -> None:
    plan = noised(sites=sites)
    for advertised in range(7, sites + 1):
        honest = NOISE.honest(advertised, plan.protection)
        assert honest == threshold(advertised) - 1
        assert 2 * PART.nano_rho * honest * PART.sigma(honest) ** 2 >= PART.squared * NANO


def test_local_noise_counts_on_nobody() -> None:
    assert replace(NOISE, placement="local").honest(9, protection(max_colluding_sites=1)) == 1


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (NoisePart(("sums",), 1000, NANO),),
        (PART, NoisePart(("sums",), 1000, NANO)),
        (NoisePart(("people", "sums", "counts"), 4_000_000, NANO // 20),),
        (NoisePart(("sums", "counts", "others"), 4_000_000, NANO // 20),),
    ],
    ids=["nothing", "a block without", "a block twice", "the number of people", "a block that is not there"],
)
def test_noise_covers_every_number_but_the_public_one(parts: tuple[NoisePart, ...]) -> None:
    with pytest.raises(ConfigurationError, match="must cover every block"):
        noised(replace(NOISE, parts=parts))


def test_what_is_public_is_named_and_gets_none() -> None:
    plan = noised(replace(NOISE, parts=(NoisePart(("sums",), 4_000_000, NANO // 20),), public=("counts",)))
    assert plan.noise_bounds.keys() == {"sums"}
    assert plan.noise is not None
    drawn = draw_noise(plan.noise, [("people", 1), ("sums", 3), ("counts", 2)], 6, NoiseStream.fresh())
    assert drawn[0] == 0
    assert not drawn[4:].any()


@pytest.mark.parametrize("sigma", [LEAST_SIGMA - 1, MOST_SIGMA + 1])
def test_a_grid_that_is_too_coarse_or_too_fine_is_refused(sigma: int) -> None:
    rho = -(-NANO // 12)  # h = 6: the squared sensitivity is the squared sigma
    part = NoisePart(("sums", "counts"), sigma * sigma, rho)
    assert part.sigma(6) == sigma
    with pytest.raises(ConfigurationError, match=f"expected {LEAST_SIGMA} to {MOST_SIGMA}"):
        replace(
            plan_of(9, protection(max_colluding_sites=1, min_sites=9), (SUMS, COUNTS)),
            noise=replace(NOISE, parts=(part,)),
        )


def test_the_proof_that_nothing_wraps_reckons_with_the_noise() -> None:
    worst = min(threshold(size) - 1 for size in range(7, 10))
    tail = TAIL * PART.sigma(worst)
    most = (2**63 - 1 - 9 * (1 + tail)) // 10_000
    bounds = protection(max_colluding_sites=1, min_sites=7)
    fits, beyond = (
        plan_of(9, bounds, (replace(SUMS, unit_bound=bound), COUNTS)) for bound in (most, most + 1)
    )
    replace(fits, noise=NOISE)
    with pytest.raises(ConfigurationError, match="could wrap"):
        replace(beyond, noise=NOISE)


def test_plans_differ_wherever_the_noise_does() -> None:
    other = NoisePart(("sums", "counts"), 4_000_001, NANO // 20)
    held = [
        noised(),
        noised(replace(NOISE, placement="local", parts=(replace(PART, nano_rho=NANO),))),
        noised(ADDED),
        noised(replace(ADDED, gate=replace(GATE, levels=101))),
        noised(replace(ADDED, people=replace(PEOPLE_TOO, levels=101))),
        noised(replace(NOISE, parts=(other,))),
        noised(replace(NOISE, parts=(replace(PART, nano_rho=PART.nano_rho + 1),))),
        noised(replace(NOISE, parts=(replace(PART, blocks=("counts", "sums")),))),
        plan_of(9, protection(max_colluding_sites=1), (SUMS, COUNTS)),
    ]
    assert len({plan.digest for plan in held}) == len(held)


def test_drawn_noise_has_the_spread_of_its_part() -> None:
    """A right sampler fails once in 10^6 runs: five standard errors of a variance of 20,000 draws."""
    fine, coarse = NoisePart(("sums",), 4_000_000, NANO // 20), NoisePart(("counts",), 40_000, NANO // 20)
    plan = replace(NOISE, parts=(fine, coarse))
    drawn = draw_noise(plan, [("people", 1), ("counts", 20_000), ("sums", 20_000)], 6, NoiseStream.fresh())
    for part, values in ((coarse, drawn[1:20_001]), (fine, drawn[20_001:])):
        assert abs(np.var(values.astype(float)) / part.sigma(6) ** 2 - 1) < 5 * np.sqrt(2 / 20_000)
        assert abs(values.mean()) < 5 * part.sigma(6) / np.sqrt(20_000)


def test_one_key_gives_one_noise_and_blocks_of_one_spread_do_not_share_it() -> None:
    blocks = [("people", 1), ("sums", 3), ("counts", 2)]
    streams = [NoiseStream(SecretBytes(b"k" * 32, "noise key")) for _ in range(2)]
    one, other = (draw_noise(NOISE, blocks, 6, stream) for stream in streams)
    assert one.tolist() == other.tolist()
    assert len(set(one[1:].tolist())) == 5


@pytest.mark.parametrize("sign", [1, -1])
def test_noise_may_take_a_sites_number_beyond_its_peoples_bound_but_not_beyond_the_tail(sign: int) -> None:
    plan = noised()
    most = plan.noise_bounds["sums"]
    people, survivors = 500, 9
    values = np.array([people, 0, 0, 0, 0, 0], np.int64)
    values[1] = sign * (people * SUMS.unit_bound + survivors * (1 + most))
    assert check_result(plan, plan.blocks, values, survivors) == people
    values[1] += sign
    with pytest.raises(RemoteProtocolError, match=r"R5\.4|out of its possible range"):
        check_result(plan, plan.blocks, values, survivors)


def test_a_round_with_noise_opens_the_sum_of_values_and_noise() -> None:
    """The pure round: what opens is exactly what the sites added, noise included, and each was told how many take part."""
    told: list[int] = []

    class Town(Consortium):
        def from_site(self, index: int, effects: object) -> None:
            told.extend(effect.advertised for effect in effects if isinstance(effect, Contribute))  # type: ignore[attr-defined]
            super().from_site(index, effects)  # type: ignore[arg-type]

    town = Town(9, protection(max_colluding_sites=1), (SUMS, COUNTS))
    town.run()
    assert isinstance(town.coordinator.state, Opened)
    assert told == [9] * 9


def test_isqrt_is_exact_where_floats_are_not() -> None:
    squared = (2**31 + 1) ** 2 + 1
    assert NoisePart(("x",), squared, NANO // 2).sigma(1) == isqrt(squared - 1) + 1


def test_a_site_refuses_its_own_noise_beyond_the_tail() -> None:
    town = Consortium(9, protection(max_colluding_sites=1), (SUMS, COUNTS))
    town.run()
    setup = replace(next(iter(town.machines.values())).setup, plan=noised())
    attempt = Attempt(b"c" * 32, None, None, setup.plan.blocks, {setup.index: frozenset()}, None)  # type: ignore[arg-type]
    values = np.array([10, 0, 0, 0, 0, 0], np.int64)
    values[1] = 10 * SUMS.unit_bound + 1 + setup.plan.noise_bounds["sums"]
    site_checks.contribution(setup, attempt, 10, values)
    values[1] += 1
    with pytest.raises(LocalProtocolError, match="R2"):
        site_checks.contribution(setup, attempt, 10, values)


# One person more or less: the number of people is data


@pytest.mark.parametrize(
    "noise",
    [
        replace(NOISE, adjacency="add_or_remove"),
        replace(ADDED, gate=None),
        replace(ADDED, people=None),
        replace(ADDED, adjacency="replace_one"),
    ],
    ids=["neither", "no gate", "no people", "noise that is not needed"],
)
def test_where_people_may_come_and_go_their_number_and_the_gate_carry_noise(noise: NoisePlan) -> None:
    with pytest.raises(ConfigurationError, match="must cover every block"):
        noised(noise)


def test_what_an_opening_costs_holds_people_and_gate() -> None:
    assert ADDED.nano_rho == PART.nano_rho + 2 * (NANO // 400)
    plan = noised(ADDED)
    assert (plan.people_levels, plan.gate_levels) == (100, 100)
    assert plan.people_slack == -(-9 * plan.noise_bounds["people"] // 100)


@pytest.mark.parametrize(
    ("opened", "people"), [(0, 0), (49, 0), (50, 1), (12_345, 123), (12_350, 124), (-49, 0)]
)
def test_the_number_of_people_is_rounded(opened: int, people: int) -> None:
    assert noised(ADDED).people_of(opened) == people


def test_the_gate_is_compared_on_its_own_grid() -> None:
    plan, exact = noised(ADDED), noised()
    least = plan.protection.gate_minimum
    check_gate(100 * least, plan, 0, "R4.8")
    check_gate(least, exact, 0, "R4.8")
    for total, held in ((100 * least - 1, plan), (least - 1, exact)):
        with pytest.raises(RemoteProtocolError, match=r"R4\.8|too few participants"):
            check_gate(total, held, 0, "R4.8")


def test_an_opened_number_of_people_may_be_off_by_its_noise_and_not_by_more() -> None:
    plan = replace(noised(ADDED), blocks=(replace(PEOPLE, unit_bound=100), SUMS, COUNTS))
    most = plan.protection.max_participants + plan.people_slack
    for people, fine in (
        (most, True),
        (most + 1, False),
        (1 - plan.people_slack, True),
        (-plan.people_slack - 1, False),
    ):
        values = np.array([people * 100, 0, 0, 0, 0, 0], np.int64)
        if fine:
            assert check_result(plan, plan.blocks, values, 9) == people
        else:
            with pytest.raises(RemoteProtocolError):
                check_result(plan, plan.blocks, values, 9)


def test_gate_noise_is_drawn_where_it_is_due() -> None:
    assert draw_gate_noise(NOISE, 6, NoiseStream.fresh()) == 0
    drawn = [draw_gate_noise(ADDED, 6, NoiseStream.fresh()) for _ in range(200)]
    assert len(set(drawn)) > 100
    assert abs(np.mean(drawn)) < 6 * GATE.part.sigma(6) / np.sqrt(200)
