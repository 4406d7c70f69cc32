"""The plan: no number can wrap, two builders that differ anywhere notice, and scarce blocks do not travel."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.protocol.masking import add_words, signed
from cohortsum.protocol.plan import PlannedBlock, RoundPlan, Suppliers, first_beyond
from tests.protocol.consortium import PEOPLE, plan_of, protection

A, B = frozenset({"age"}), frozenset({"bmi"})
BLOCK = PlannedBlock("age.sum", 2, 1000, "person", (A, B))


def plan_with(sites: int, max_participants: int, block: PlannedBlock) -> RoundPlan:
    return plan_of(sites, protection(max_participants=max_participants), [block])


# No wrap


@pytest.mark.parametrize(
    ("sites", "people", "bound", "per"),
    [
        (7, 8, 2**60 - 1, "person"),  # 8 b + 7 = 2**63 - 1
        (1, 2, 2**62 - 1, "person"),  # 2 b + 1 = 2**63 - 1
        (63, 2**32, 2**31 - 1, "person"),
        (7, 8, (2**63 - 1) // 7 - 1, "site"),  # 7 b + 7 = 2**63 - 1
        (1, 8, 2**63 - 2, "site"),
    ],
)
def test_the_greatest_bound_is_planned_and_one_more_is_refused(
    sites: int, people: int, bound: int, per: Literal["person", "site"]
) -> None:
    most = people if per == "person" else sites
    assert most * bound + sites < 2**63 <= most * (bound + 1) + sites
    plan_with(sites, people, PlannedBlock("edge", 1, bound, per, ()))
    with pytest.raises(ConfigurationError, match="block edge: the sum of max_participants"):
        plan_with(sites, people, PlannedBlock("edge", 1, bound + 1, per, ()))


def test_one_site_more_for_its_rounding_unit_is_refused() -> None:
    block = PlannedBlock("edge", 1, 2**60 - 1, "person", ())
    plan_with(7, 8, block)
    with pytest.raises(ConfigurationError, match="could wrap"):
        plan_with(8, 8, block)


def test_one_person_more_is_refused() -> None:
    block = PlannedBlock("edge", 1, 2**31, "person", ())
    plan_with(5, 2**32 - 1, block)
    with pytest.raises(ConfigurationError, match="could wrap"):
        plan_with(5, 2**32, block)


@given(
    st.integers(1, 1000),
    st.integers(1, 2**40),
    st.integers(0, 2**64),
    st.sampled_from(["person", "site"]),
)
def test_a_plan_is_made_exactly_if_the_greatest_sum_stays_below_the_signed_range(
    sites: int, people: int, bound: int, per: Literal["person", "site"]
) -> None:
    block = PlannedBlock("edge", 1, bound, per, ())
    if (people if per == "person" else sites) * bound + sites < 2**63:
        assert plan_with(sites, max(people, 1), block).length == 2
    else:
        with pytest.raises(ConfigurationError):
            plan_with(sites, people, block)


def test_the_boundary_plan_opens_to_the_true_extremes() -> None:
    """7 sites and 8 people at the greatest bound, every site with its rounding unit, in either direction."""
    bound, people = 2**60 - 1, [2, 1, 1, 1, 1, 1, 1]
    plan_with(7, sum(people), PlannedBlock("edge", 1, bound, "person", ()))
    for sign in (1, -1):
        values = [sign * (bound * count + 1) for count in people]
        words = add_words((np.array([value], dtype=np.int64).view(np.uint64) for value in values), 1)
        assert signed(words).tolist() == [sum(values)] == [sign * (2**63 - 1)]


def test_any_block_that_could_wrap_is_named() -> None:
    blocks = [BLOCK, PlannedBlock("icv.square", 1, 2**62, "person", ()), BLOCK]
    with pytest.raises(ConfigurationError, match=r"block icv\.square: .* lower max_participants or narrow"):
        plan_of(5, protection(), blocks)


def test_the_length_is_that_of_all_blocks() -> None:
    assert plan_of(5, protection(), [BLOCK, replace(BLOCK, size=40)]).length == 1 + 2 + 40
    with pytest.raises(FrozenInstanceError):
        plan_of(5, protection()).length = 3  # type: ignore[misc]


# The digest


def test_two_builders_of_one_plan_agree() -> None:
    one = plan_of(5, protection(), [replace(BLOCK, supply=(frozenset({"age", "bmi"}),))])
    other = plan_of(5, protection(), [replace(BLOCK, supply=(frozenset({"bmi", "age"}),))])
    assert one.digest == other.digest
    assert len(one.digest) == 32


def test_the_digest_differs_wherever_plans_differ() -> None:
    plan = plan_of(5, protection(), [BLOCK])
    block_changes = [
        replace(BLOCK, name="age.sun"),
        replace(BLOCK, size=3),
        replace(BLOCK, unit_bound=1001),
        replace(BLOCK, per="site"),
        replace(BLOCK, supply=()),
        replace(BLOCK, supply=(A,)),
        replace(BLOCK, supply=(B, A)),
        replace(BLOCK, supply=(A | B,)),
        replace(BLOCK, supply=(A, B, frozenset())),
        replace(BLOCK, supply=(A, B, B)),
        replace(BLOCK, supply=(frozenset({"agebmi"}),)),
    ]
    plans = [
        plan,
        replace(plan, study_digest=bytes(32)),
        replace(plan, roster_digest=bytes(32)),
        replace(plan, study_digest=plan.roster_digest, roster_digest=plan.study_digest),
        replace(plan, epoch="2026-12"),
        *(replace(plan, blocks=(PEOPLE, block)) for block in block_changes),
        replace(plan, blocks=(BLOCK, PEOPLE)),
        replace(plan, blocks=(PEOPLE, BLOCK, BLOCK)),
        replace(plan, blocks=(PEOPLE, replace(BLOCK, size=1), replace(BLOCK, size=1))),
        replace(plan, blocks=(PEOPLE,)),
        replace(plan, blocks=()),
    ]
    assert len({held.digest for held in plans}) == len(plans)


# Suppliers

ITEMS = ["age", "bmi", "fiq"]
GROUPS = st.frozensets(st.sampled_from(ITEMS), max_size=3)


@given(st.lists(GROUPS, max_size=3), st.dictionaries(st.integers(0, 9), GROUPS, max_size=8))
def test_the_scarcest_group_counts(
    groups: list[frozenset[str]], supplies: Mapping[int, frozenset[str]]
) -> None:
    counted = [
        len([site for site in supplies if all(x in supplies[site] for x in group)]) for group in groups
    ]
    block = replace(BLOCK, supply=tuple(groups))
    assert Suppliers(supplies).least(block) == min([len(supplies), *counted])


def test_groups_are_counted_apart() -> None:
    """Three sites hold either item, but only one holds both."""
    supplies = {0: A, 1: A, 2: A | B, 3: B, 4: B}
    assert Suppliers(supplies).least(replace(BLOCK, supply=(A, B))) == 3
    assert Suppliers(supplies).least(replace(BLOCK, supply=(A | B,))) == 1
    assert Suppliers(supplies).least(replace(BLOCK, supply=())) == 5
    assert Suppliers({}).least(BLOCK) == 0


def test_blocks_with_enough_suppliers_are_kept_in_order() -> None:
    named = [("age", (A,)), ("bmi", (B,)), ("both", (A, B)), ("joint", (A | B,)), ("free", ())]
    blocks = [PlannedBlock(name, 1, 1, "person", supply) for name, supply in named]
    supplies = {0: A, 1: A | B, 2: A | B, 3: A | B, 4: A}

    def kept(held: Mapping[int, frozenset[str]], **changes: int) -> list[str]:
        plan = plan_of(6, protection(**changes), blocks, ("age", "bmi"))
        return [block.name for block in plan.kept(held)]

    assert kept(supplies) == ["people", "age", "bmi", "both", "joint", "free"]
    assert kept(supplies, max_colluding_sites=1) == ["people", "age", "free"]
    assert kept(supplies, min_sites=4) == ["people", "age", "free"]
    assert kept(supplies, min_sites=6) == []
    assert kept({0: A, 1: A, 2: B}) == ["people", "free"]
    assert kept({}) == []


@pytest.mark.parametrize("size", [1, 2, 300, 1000])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_first_value_beyond_its_bound_is_found_in_short_and_long_blocks(size: int, at: int) -> None:
    blocks = [PlannedBlock(f"b{place}", size, 1, "person", ()) for place in range(3)]
    bounds = [5, 7, 2**62]
    inside = np.concatenate(
        [np.full(size, bound, np.int64) * (-1) ** place for place, bound in enumerate(bounds)]
    )
    assert first_beyond(blocks, bounds, inside) is None
    for sign in (1, -1):
        beyond = inside.copy()
        beyond[at * size + size // 2] = sign * (bounds[at] + 1)
        beyond[-1] = 2**63 - 1 if at == 2 else beyond[-1]
        assert first_beyond(blocks, bounds, beyond) is blocks[at]
