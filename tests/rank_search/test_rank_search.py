"""The rank search: no leak under the rules of the round, and a leak as soon as one of them is off.

A search that looks at nothing passes too, so each one states how many cases it must examine.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, combinations
from random import Random

import pytest

from tests.rank_search.algebra import PRIME, Input, Row, determined, isolates, spans
from tests.rank_search.model import (
    H_MIN,
    Attempt,
    Case,
    Leak,
    Outcome,
    Rules,
    Step,
    View,
    obey,
    play,
)
from tests.rank_search.spaces import (
    Setting,
    Size,
    default_threshold,
    one_attempt,
    own_survivors,
    own_views,
    retries,
    settings,
    sizes,
    two_survivor_lists,
)

RULES = Rules()
SIZES = sizes(RULES)
Space = Callable[[Size], Iterator[Case]]

# How many cases each space holds for each size (honest sites, quorum).
ONE_ATTEMPT = {
    **{(k, k): 4 for k in range(3, 8)},
    **{(k, k - 1): 32 for k in range(4, 8)},
    **{(5, 3): 1024, (6, 4): 1060, (7, 5): 1060, (7, 4): 130_612},
}
RETRIES = {
    **{(3, 3): 12, (4, 3): 192, (4, 4): 14, (5, 3): 1416, (5, 4): 230, (5, 5): 16, (6, 4): 1736, (6, 5): 268},
    **{(6, 6): 18, (7, 4): 8638, (7, 5): 2056, (7, 6): 306, (7, 7): 20},
}
# (honest, colluding): retries with bound signers, and those that open something under a lower threshold.
BOUND_RETRIES = {
    **{(3, 0): (12, 0), (4, 0): (100, 0), (5, 0): (294, 94), (6, 0): (602, 172), (7, 0): (1930, 622)},
    **{(4, 1): (80, 0), (5, 1): (294, 94), (6, 1): (1078, 322), (7, 1): (2146, 870)},
    **{(4, 2): (80, 0), (5, 2): (468, 0), (6, 2): (1270, 566), (7, 2): (2550, 1054)},
    **{(5, 3): (372, 0), (6, 3): (1132, 524), (7, 3): (3786, 1700)},
}


def examine(cases: Iterable[Case], rules: Rules = RULES) -> int:
    """Return how many cases were examined; fail at the first with a leak."""
    examined = 0
    for case in cases:
        examined += 1
        outcome = play(case, rules)
        assert not outcome.leaks(), (case, outcome)
    return examined


def first_leak(space: Space, rules: Rules, kind: Leak) -> Outcome | None:
    """Return the first leak of that kind in a space, over every size that the rules allow."""
    outcomes = (play(case, rules) for case in chain.from_iterable(map(space, sizes(rules))))
    return next((outcome for outcome in outcomes if kind in outcome.leaks()), None)


# What the model takes for granted


def test_every_allowed_setting_is_searched() -> None:
    allowed = settings(RULES)
    assert len(allowed) == 32
    assert all(2 * s.threshold > s.sites + s.colluding for s in allowed)
    assert all(s.threshold - s.colluding >= H_MIN for s in allowed)
    assert {s.size for s in allowed} == set(SIZES) == set(ONE_ATTEMPT) == set(RETRIES)
    with_default = [s for s in allowed if s.threshold == default_threshold(s.sites)]
    assert [(s.sites, s.colluding, s.threshold) for s in with_default] == [
        *[(3, 0, 3), (4, 0, 3), (5, 0, 4), (5, 1, 4), (6, 0, 5), (6, 1, 5), (6, 2, 5)],
        *[(7, 0, 5), (7, 1, 5), (7, 2, 5)],
    ]


@pytest.mark.parametrize("setting", settings(RULES), ids=str)
def test_a_quorum_of_honest_shares_completes_a_seed_and_one_fewer_says_nothing(setting: Setting) -> None:
    """This is what lets the model count honest answers: corrupt sites add c shares of everything."""
    n, c, t = setting.sites, setting.colluding, setting.threshold

    def shares(holders: Iterable[int]) -> Iterator[Row]:
        for x in holders:
            yield Row({("seed", 0): 1}, {power: pow(x, power, PRIME) for power in range(1, t)})

    corrupt, honest = range(1, c + 1), range(c + 1, n + 1)
    for answers in combinations(honest, setting.size.quorum):
        assert len(determined(shares([*corrupt, *answers]))) == 1
        assert determined(shares([*corrupt, *answers[1:]])) == []


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_two_quorums_share_an_honest_site(size: Size) -> None:
    everyone = range(size.honest)
    assert all(
        set(one) & set(other)
        for one in combinations(everyone, size.quorum)
        for other in combinations(everyone, size.quorum)
    )


def test_rank_finds_what_masks_do_not_hide() -> None:
    a, b, c = (("data", site) for site in range(3))
    rows = [Row({a: 1}, {"m": 1}), Row({b: 1}, {"m": PRIME - 1}), Row({c: 1}, {"m": 1, "self": 1})]
    found = determined(rows)
    assert len(found) == 1
    assert spans(found, [{a: 1, b: 1}])
    assert not spans(found, [{a: 1}])
    assert isolates(found, 3)
    assert not isolates(found, 2)


def test_a_difference_of_totals_is_seen_as_about_few_sites() -> None:
    everyone: dict[Input, int] = {("data", site): 1 for site in range(5)}
    all_but_one: dict[Input, int] = {("data", site): 1 for site in range(4)}
    assert not isolates([everyone], 3)
    assert not isolates([all_but_one], 3)
    assert isolates([everyone, all_but_one], 2)


# One attempt


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_one_attempt_reveals_opened_totals_only(size: Size) -> None:
    """Outside the quorum every site has any U2, h2 and place; the quorum stops after each step."""
    opened = examined = 0
    for case in one_attempt(size):
        examined += 1
        outcome = play(case, RULES)
        assert not outcome.leaks(), (case, outcome)
        step = next(view.step for view in case[0].views if view is not None)
        parts = {part for total in outcome.determined for part, _ in total}
        allowed = {Step.GATE: {"gate"}, Step.DATA: {"gate", "data"}}.get(step, set[str]())
        assert parts <= allowed, (case, outcome)
        opened += bool(parts)
    assert examined == ONE_ATTEMPT[size]
    assert opened > 0, "the honest case opens its totals, so not finding any is a fault of the search"


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_an_honest_round_opens_exactly_two_totals(size: Size) -> None:
    everyone = (1 << size.honest) - 1
    for survivors in range(size.quorum, size.honest + 1):
        u3 = (1 << survivors) - 1
        views = [
            View(everyone, u3, Step.DATA if site < survivors else Step.MASKED) for site in range(size.honest)
        ]
        outcome = play((Attempt(size.quorum, tuple(views)),), RULES)
        assert len(outcome.opened) == len(outcome.determined) == 2
        assert spans(outcome.determined, outcome.opened)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_one_answer_too_few_reveals_nothing(size: Size) -> None:
    everyone = (1 << size.honest) - 1
    views = [
        View(everyone, everyone, Step.GATE if site < size.quorum - 1 else Step.SIGNED)
        for site in range(size.honest)
    ]
    outcome = play((Attempt(size.quorum, tuple(views)),), RULES)
    assert outcome == Outcome([], [])


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_two_survivor_lists_in_one_attempt_open_one_at_most(size: Size) -> None:
    examined = 0
    for case in two_survivor_lists(size):
        examined += 1
        outcome = play(case, RULES)
        assert not outcome.leaks(), (case, outcome)
        assert len({frozenset(site for _, site in total) for total in outcome.opened}) <= 1
    assert examined >= 20


@pytest.mark.parametrize(("size", "least"), [(Size(3, 3), 4), (Size(4, 3), 19_208), (Size(4, 4), 8)], ids=str)
def test_own_views_of_up_to_four_sites_reveal_opened_totals_only(size: Size, least: int) -> None:
    """Brute force: no quorum is assumed and nothing is renamed."""
    assert examine(own_views(size)) >= least


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("size", "shared", "least"),
    [(Size(5, 3), 3, 80_000), (Size(5, 4), 0, 900_000), (Size(5, 5), 0, 16)],
    ids=str,
)
def test_own_views_of_five_sites_reveal_opened_totals_only(size: Size, shared: int, least: int) -> None:
    """With quorum 3 sites 0..2 share a view: up to renaming, all assignments that open anything."""
    assert examine(own_views(size, shared)) >= least


def test_two_groups_with_different_l1_are_two_rounds() -> None:
    """h1 separates them: each group is a round of its own, with its own quorum, and both may open."""
    examined = 0
    for first, second in ((3, 3), (3, 4), (4, 3)):
        for one in one_attempt(Size(first, 3)):
            for other in one_attempt(Size(second, 3)):
                left = replace(one[0], views=(*one[0].views, *[None] * second))
                moved = (
                    view and replace(view, u2=view.u2 << first, u3=view.u3 << first)
                    for view in other[0].views
                )
                right = replace(other[0], views=(*[None] * first, *moved))
                examined += 1
                assert not play((left, right), RULES).leaks()
    assert examined == 4 * 4 + 2 * 4 * 32


# Retries


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_retry_reveals_no_more_than_one_attempt(size: Size) -> None:
    """The first attempt stops after any step; the second has any U2 and U3."""
    examined = both = 0
    for case in retries(size):
        examined += 1
        outcome = play(case, RULES)
        assert not outcome.leaks(), (case, outcome)
        assert len(outcome.determined) <= 2, "one total per part, whatever was asked"
        both += len(outcome.opened) > len(outcome.determined)
    assert examined == RETRIES[size]
    assert both > 0, "some retries open the same total again"


def _default_quorum(colluding: int) -> Callable[[int], int | None]:
    def quorum(honest: int) -> int | None:
        setting = Setting(honest + colluding, colluding, default_threshold(honest + colluding))
        return setting.size.quorum if setting in settings(RULES) else None

    return quorum


@pytest.mark.parametrize(
    "setting", [s for s in settings(RULES) if s.threshold == default_threshold(s.sites)], ids=str
)
def test_a_retry_over_fewer_of_up_to_seven_sites_is_safe_at_the_derived_threshold(setting: Setting) -> None:
    """The threshold of the second attempt follows its own, smaller U1."""
    assert examine(retries(setting.size, _default_quorum(setting.colluding))) >= 12


def test_a_retry_over_fewer_sites_that_lowers_the_threshold_leaks() -> None:
    """10 sites, c = 3, t = 7, then 8 of them at t = 6: three honest sites never signed, and two stand alone.

    Both thresholds are the derived ones. A retry that keeps the threshold reveals one total, whatever its U2
    and U3 (test_a_retry_reveals_no_more_than_one_attempt).
    """
    first, second = (Setting(n, 3, default_threshold(n)).size for n in (10, 8))
    assert (first, second) == (Size(7, 4), Size(5, 3))
    lowered = (play(case, RULES).leaks() for case in retries(first, {second.honest: second.quorum}.get))
    assert any(Leak.TOO_FEW in leaks for leaks in lowered)


def _least_quorum(colluding: int, honest: Iterable[int]) -> int | None:
    """Return the least quorum of honest sites that any allowed U1 has, of one of ``honest`` sizes.

    Corrupt sites may stay away; the bounds hold against all ``colluding`` of them nevertheless.
    """
    quorums = [
        default_threshold(h + present) - present
        for h in honest
        for present in range(colluding + 1)
        if 2 * default_threshold(h + present) > h + present + colluding
        and default_threshold(h + present) - colluding >= H_MIN
    ]
    return min(quorums, default=None)


def _bound_retries(honest: int, colluding: int) -> Iterator[Case]:
    """Yield the retries in which a site that signed U3 advertises only if U1 is exactly that U3.

    A second attempt without any of them runs at the least quorum of all U1 that hold its U2, one with some of
    them at that of U1 = U3.
    """
    quorum = _least_quorum(colluding, [honest])
    if quorum is None:
        return

    def widest(u2: int) -> int | None:
        return _least_quorum(colluding, range(u2, honest + 1))

    for first, second in retries(Size(honest, quorum), widest):
        signed = {site for site, view in first.masked() if view.step >= Step.SIGNED}
        if signed.isdisjoint(site for site, _ in second.masked()):
            yield first, second
            continue
        u3 = next(view.u3 for _, view in first.masked())
        bound_quorum = _least_quorum(colluding, [u3.bit_count()])
        u2 = next(view.u2 for _, view in second.masked())
        if bound_quorum is not None and not u2 & ~u3:
            yield first, replace(second, quorum=bound_quorum)


@pytest.mark.parametrize(("honest", "colluding"), BOUND_RETRIES)
def test_a_retry_over_any_fewer_sites_is_safe_if_who_signed_joins_only_the_set_it_signed(
    honest: int, colluding: int
) -> None:
    """U1 shrinks arbitrarily, its threshold too; 7 honest sites and c = 3 hold the leak shown above."""
    examined = opened_lower = 0
    for case in _bound_retries(honest, colluding):
        examined += 1
        outcome = play(case, RULES)
        assert not outcome.leaks(), (case, outcome)
        if case[1].quorum < case[0].quorum:
            opened_lower += len(outcome.opened) > len(play(case[:1], RULES).opened)
    assert (examined, opened_lower) == BOUND_RETRIES[honest, colluding]


def test_bound_retries_cover_every_allowed_number_of_up_to_seven_honest_sites() -> None:
    allowed = {
        (honest, colluding)
        for honest in range(1, 8)
        for colluding in range(4)
        if _least_quorum(colluding, [honest]) is not None
    }
    assert allowed == set(BOUND_RETRIES)
    derived = [s for s in settings(RULES) if s.threshold == default_threshold(s.sites)]
    assert {(s.size.honest, s.colluding) for s in derived} <= allowed
    assert _least_quorum(3, [7]) == Setting(10, 3, 7).size.quorum
    assert _least_quorum(3, [5]) == Setting(8, 3, 6).size.quorum


def test_attempts_with_fresh_secrets_add_up() -> None:
    """Two attempts determine what each determines alone, whatever is shown: their masks are different."""
    draw = Random(29)  # noqa: S311 - draws cases, not secrets

    def some(size: Size) -> Attempt:
        def grow(sites: int) -> int:
            return sites | sum(1 << site for site in range(size.honest) if draw.random() < 0.5)

        core = (1 << size.quorum) - 1
        u3 = grow(core)
        shared = View(grow(u3), u3, draw.choice([Step.GATE, Step.DATA]))
        views = [
            shared
            if site < size.quorum
            else View(grow(core | 1 << site), u3, Step.MASKED, draw.choice([0, site]))
            for site in range(size.honest)
        ]
        order = draw.sample(range(size.honest), size.honest)

        def rename(sites: int) -> int:
            return sum(1 << order[site] for site in range(size.honest) if sites >> site & 1)

        renamed = {
            order[site]: replace(view, u2=rename(view.u2), u3=rename(view.u3))
            for site, view in enumerate(views)
        }
        return Attempt(size.quorum, tuple(renamed[site] for site in range(size.honest)))

    # Without the rule on retries both attempts may open, which is the harder case for this claim.
    rules = replace(RULES, same_survivors=False)
    two_opened = 0
    for _ in range(400):
        size = draw.choice([size for size in SIZES if size.honest <= 6])
        one, other = some(size), some(size)
        both = play((one, other), rules).determined
        alone = play((one,), rules).determined + play((other,), rules).determined
        assert spans(both, alone)
        assert spans(alone, both)
        two_opened += len(both) > 2
    assert two_opened >= 20


# Every rule is needed


@pytest.mark.parametrize(
    ("rules", "space", "kind"),
    [
        (replace(RULES, b1=False), two_survivor_lists, Leak.TOO_FEW),
        (replace(RULES, b2=False), one_attempt, Leak.TOO_FEW),
        (replace(RULES, one_kind=False), one_attempt, Leak.TOO_FEW),
        (replace(RULES, quorum=False), own_survivors, Leak.TOO_FEW),
        (replace(RULES, self_seed_per_part=False), one_attempt, Leak.NOT_OPENED),
        (replace(RULES, mask_label_per_part=False), one_attempt, Leak.TOO_FEW),
        (replace(RULES, same_survivors=False), retries, Leak.TOO_FEW),
        (replace(RULES, fresh_self_seeds=False, fresh_mask_seeds=False), retries, Leak.TOO_FEW),
        (replace(RULES, fresh_self_seeds=False), retries, Leak.TOO_FEW),
    ],
    ids=[
        "t too small",
        "too few honest inputs",
        "both kinds of share",
        "no signature quorum",
        "one self seed for gate and data",
        "one pairwise label for gate and data",
        "retry with another survivor set",
        "no fresh secrets",
        "no fresh self seeds",
    ],
)
def test_without_the_rule_there_is_a_leak(rules: Rules, space: Space, kind: Leak) -> None:
    assert first_leak(space, rules, kind) is not None


def test_a_shared_self_seed_opens_the_data_under_a_failed_gate() -> None:
    everyone = View(0b11111, 0b11111, Step.GATE)
    case = (Attempt(3, (everyone,) * 5),)
    data: dict[Input, int] = {("data", site): 1 for site in range(5)}
    assert not spans(play(case, RULES).determined, [data])
    assert spans(play(case, replace(RULES, self_seed_per_part=False)).determined, [data])


@pytest.mark.parametrize(
    ("size", "cases"),
    [
        (Size(4, 3), 4**4),
        (Size(5, 4), 5**5),
        pytest.param(Size(5, 3), 11**5, marks=pytest.mark.exhaustive),
    ],
    ids=str,
)
def test_own_survivor_lists_with_the_quorum_rule_reveal_opened_totals_only(size: Size, cases: int) -> None:
    """The space in which the missing quorum leaks is clean with it."""
    assert examine(own_survivors(size)) == cases


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_h1_and_h2_in_the_mask_key_are_a_second_line(size: Size) -> None:
    """Nothing more is determined without them: B1 and the partition suffice. They fail to noise first."""
    unbound = replace(RULES, masks_bound_to_h2=False)
    answered = (case for case in one_attempt(size) if case[0].views[0] and case[0].views[0].step is Step.DATA)
    assert examine(answered, unbound) == ONE_ATTEMPT[size] // len(Step)
    assert examine(retries(size), unbound) == RETRIES[size]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_fresh_mask_seeds_are_a_second_line_in_a_retry(size: Size) -> None:
    """One survivor set and fresh self seeds hide what a mask seed, opened in either attempt, shows."""
    assert examine(retries(size), replace(RULES, fresh_mask_seeds=False)) == RETRIES[size]


def test_sites_do_no_more_than_the_rules_let_them() -> None:
    """The rule makes the difference, not the request."""
    everyone, shown = 0b1111, (0b0111, 0b1011, 0b0111, 0b1011)
    case = (Attempt(3, tuple(View(everyone, u3, Step.DATA) for u3 in shown)),)

    def steps(rules: Rules) -> set[Step]:
        return {view.step for attempt in obey(case, rules) for _, view in attempt.masked()}

    assert steps(RULES) == {Step.SIGNED}, "two signatures for each list, three needed"
    assert steps(replace(RULES, quorum=False)) == {Step.GATE}, "no gate is opened, so no data are answered"
