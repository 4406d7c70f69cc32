"""A round that builds on an earlier one: unchanged blocks stay away, and only over the survivors that every site signed."""

import pytest

from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import Aborted, CoordinatorSetup, Opened
from cohortsum.protocol.plan import PlannedBlock
from cohortsum.protocol.site_states import EarlierRound
from tests.protocol.consortium import Consortium

N = 5
EVERYBODY = tuple(range(N))
EARLIER = b"e" * 32
BLOCKS = (
    PlannedBlock("old", 3, 2**40, "person", ()),
    PlannedBlock("new", 2, 2**40, "person", ()),
)
OLD = frozenset({"old"})


def building(
    at_sites: dict[int, EarlierRound | None] | None = None,
    bound: tuple[int, ...] = EVERYBODY,
    unchanged: frozenset[str] = OLD,
) -> Consortium:
    """Return a consortium whose coordinator builds on a round; every site has signed it unless said otherwise."""
    consortium = Consortium(N, blocks=BLOCKS)
    setup = consortium.coordinator.setup
    consortium.coordinator = CoordinatorRound(
        CoordinatorSetup(setup.signer, setup.roster, setup.plan, setup.approvals, bound, EARLIER, unchanged),
        consortium.coordinator_key,
    )
    for index in EVERYBODY:
        known = EarlierRound(EVERYBODY, OLD)
        held = (at_sites or {}).get(index, known)
        consortium.machines[index] = consortium.site(index, earlier={} if held is None else {EARLIER: held})
    return consortium


def first_errors(consortium: Consortium) -> dict[int, str]:
    """Return the check that each site stopped at; what comes for a stopped round afterwards is not of interest."""
    return {index: error.check for index, error in reversed(consortium.errors)}


def test_only_the_new_block_travels_with_the_number_of_people() -> None:
    consortium = building()
    consortium.run()
    state = consortium.coordinator.state
    assert isinstance(state, Opened)
    assert [block.name for block in state.blocks] == ["people", "new"]
    assert state.values.tolist() == consortium.expected(EVERYBODY)
    assert state.survivors == EVERYBODY


@pytest.mark.parametrize(
    "held",
    [None, EarlierRound((0, 1, 2, 3), OLD), EarlierRound((), OLD)],
    ids=["unknown round", "other survivors", "no survivors"],
)
def test_a_site_that_did_not_sign_that_round_with_these_survivors_refuses(held: EarlierRound | None) -> None:
    consortium = building({2: held})
    consortium.run()
    assert first_errors(consortium) == {2: "R0.12"}
    assert isinstance(consortium.coordinator.state, Aborted)


def test_no_site_goes_on_without_one_of_the_survivors() -> None:
    """A coordinator that names everybody and then shows the adverts of four is refused by all four."""
    consortium = building()
    consortium.down.add(4)
    consortium.coordinator.setup = CoordinatorSetup(
        consortium.coordinator.setup.signer,
        consortium.roster,
        consortium.plan,
        consortium.approvals,
    )  # so that the machine itself does not stop
    consortium.run()
    assert first_errors(consortium) == dict.fromkeys((0, 1, 2, 3), "R1.6")


def test_sites_that_disagree_about_what_is_unchanged_send_other_lengths_and_nothing_opens() -> None:
    """Site 1 holds everything for new, as if it had been shown another version: its upload does not fit."""
    consortium = building({1: EarlierRound(EVERYBODY, frozenset())})
    with pytest.raises(ValueError, match=r"length|shape|broadcast"):
        consortium.run()
