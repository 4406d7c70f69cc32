"""The rank search over iterations: secrets dealt ahead leak nothing, and each rule about them is needed.

A search that looks at nothing passes too, so each one states how many cases it must examine.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

import pytest

from tests.rank_search.algebra import PRIME, Total, isolates, spans
from tests.rank_search.iterated_spaces import (
    courses,
    one_slot,
    own_contexts,
    own_slots,
    three_attempts,
    two_attempts,
    two_parameters,
)
from tests.rank_search.iterations import (
    Context,
    Fit,
    Request,
    bystanders,
    known_seeds,
    leaks,
    obey,
    play,
    told_seeds,
)
from tests.rank_search.model import H_MIN, Leak, Outcome, Rules, Step
from tests.rank_search.spaces import Size, sizes

RULES = Rules()
ANY_PARAMETERS = replace(RULES, parameters_recomputed=False)
KEYED_BY_SLOT = replace(RULES, masks_bound_to_context=False)
NEITHER = replace(KEYED_BY_SLOT, parameters_recomputed=False)
SIZES = sizes(RULES)
EVERYONE = 0b11111
ALL_BUT_ONE = 0b01111
Space = Callable[[Size], Iterator[Fit]]

next_iteration = partial(two_attempts, iteration=4, slot=2)
retry_on_the_next_slot = partial(two_attempts, iteration=3, slot=2)
next_iteration_on_the_same_slot = partial(two_attempts, iteration=4, slot=1)

# How many cases each space holds for each size (honest sites, quorum), and in how many something is opened.
ONE_SLOT = {
    **{(k, k): (4, 2) for k in range(3, 8)},
    **{(k, k - 1): (48, 24) for k in range(4, 8)},
    **{(5, 3): (456, 228), (6, 4): (456, 228), (7, 5): (456, 228), (7, 4): (4188, 2094)},
}
OWN_CONTEXTS = {(3, 3): (32, 2), (4, 3): (32_768, 250), (4, 4): (128, 2), (5, 5): (512, 2)}
# The number of cases of the other spaces.
TWO_ATTEMPTS = {
    **{(3, 3): 12, (4, 3): 192, (4, 4): 14, (5, 3): 1416, (5, 4): 230, (5, 5): 16, (6, 4): 1736, (6, 5): 268},
    **{(6, 6): 18, (7, 4): 8638, (7, 5): 2056, (7, 6): 306, (7, 7): 20},
}
TWO_PARAMETERS = {
    **{(3, 3): 40, (4, 3): 230, (4, 4): 70, (5, 3): 792, (5, 4): 392, (5, 5): 112, (6, 4): 1316, (6, 5): 616},
    **{(6, 6): 168, (7, 4): 3432, (7, 5): 2032, (7, 6): 912, (7, 7): 240},
}
THREE_ATTEMPTS = {
    **{(3, 3): 72, (4, 3): 1920, (4, 4): 240, (5, 3): 5280, (5, 4): 5280, (5, 5): 660},
    **{(6, 4): 12_672, (6, 5): 12_672, (6, 6): 1584},
    **{(7, 4): 27_456, (7, 5): 27_456, (7, 6): 27_456, (7, 7): 3432},
}


def examine(fits: Iterable[Fit], rules: Rules = RULES) -> tuple[int, int]:
    """Return how many cases were examined and in how many something was opened; fail at the first with a leak."""
    examined = some_opened = 0
    for fit in fits:
        examined += 1
        outcome = play(fit, rules)
        assert not leaks(outcome), (fit, outcome)
        assert all(len(total) >= H_MIN for total in outcome.opened), (fit, outcome)
        some_opened += bool(outcome.opened)
    return examined, some_opened


def first_leak(space: Space, rules: Rules, kind: Leak) -> Outcome | None:
    """Return the first leak of that kind in a space, over every size that the rules allow."""
    outcomes = (play(fit, rules) for fit in chain.from_iterable(map(space, sizes(rules))))
    return next((outcome for outcome in outcomes if kind in leaks(outcome)), None)


def up_to(most: int, spaces: dict[tuple[int, int], int]) -> list[object]:
    """Return the sizes of a space; those of more than ``most`` honest sites are for the long search."""
    return [
        Size(*size) if size[0] <= most else pytest.param(Size(*size), marks=pytest.mark.exhaustive)
        for size in spaces
    ]


def asked(context: Context, u3: int, steps: Iterable[Step], parameters: Iterable[int] = ()) -> list[Request]:
    """Return what five sites are asked in one attempt, each with its own parameters where they are given."""
    shown = dict(enumerate(parameters))
    return [
        Request(site, context._replace(parameter=shown.get(site, context.parameter)), u3, step)
        for site, step in enumerate(steps)
    ]


def five(*attempts: list[Request]) -> Fit:
    """Return attempts of five sites of which three make a quorum."""
    return Fit(3, (0,) * 5, tuple(chain.from_iterable(attempts)))


def data(iteration: int, parameters: dict[int, int]) -> Total:
    """Return the sum of the data of some sites, each at its own parameters."""
    return {Context(iteration, 1, 1, shown).unknown("data", site): 1 for site, shown in parameters.items()}


# With all rules


def test_every_allowed_size_is_searched() -> None:
    for counts in (ONE_SLOT, TWO_ATTEMPTS, TWO_PARAMETERS, THREE_ATTEMPTS):
        assert set(counts) == set(SIZES)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_course_of_iterations_opens_its_totals_and_nothing_else(size: Size) -> None:
    """Three iterations on one exchange, dropouts in one of them, before or after they masked."""
    examined = 0
    for fit in courses(size):
        examined += 1
        outcome = play(fit, RULES)
        assert not leaks(outcome), (fit, outcome)
        assert spans(outcome.determined, outcome.opened), "an honest course opens what a quorum agreed to"
        assert 4 <= len(outcome.opened) <= 6, "two iterations at least, gate and data"
    assert examined == 3 * (size.honest - size.quorum + 1) * 2 * len(Step)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_on_one_slot_nothing_but_opened_totals_is_revealed(size: Size) -> None:
    """Outside the quorum every site has any context, h2 and place; the quorum stops after each step."""
    assert examine(one_slot(size)) == ONE_SLOT[size]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    "space",
    [next_iteration, retry_on_the_next_slot, next_iteration_on_the_same_slot],
    ids=["next iteration", "retry on the next slot", "next iteration on the same slot"],
)
def test_two_attempts_on_one_exchange_reveal_opened_totals_only(space: Space, size: Size) -> None:
    """Any U3 in each, any sites away in each, the first stopped after any step."""
    examined, some_opened = examine(space(size))
    assert examined == TWO_ATTEMPTS[size]
    assert some_opened >= 4


@pytest.mark.parametrize("size", up_to(5, THREE_ATTEMPTS), ids=str)
def test_of_three_attempts_on_one_slot_only_one_is_played(size: Size) -> None:
    examined, some_opened = examine(three_attempts(size))
    assert examined == THREE_ATTEMPTS[size]
    assert some_opened >= 20


@pytest.mark.parametrize(
    ("size", "dropped", "cases"),
    [
        (Size(3, 3), 0, 2925),
        (Size(4, 3), 0, 20_475),
        pytest.param(Size(4, 4), 0, 20_475, marks=pytest.mark.exhaustive),
        pytest.param(Size(4, 3), 1, 4 * 2925 * 25, marks=pytest.mark.exhaustive),
        *(pytest.param(Size(5, q), 0, 118_755, marks=pytest.mark.exhaustive) for q in (3, 4, 5)),
    ],
    ids=str,
)
def test_sites_at_different_iterations_and_slots_reveal_opened_totals_only(
    size: Size, dropped: int, cases: int
) -> None:
    """Each site is asked twice for any iteration with any slot: one is ahead, another repeats, a third skips."""
    examined, some_opened = examine(own_slots(size, dropped))
    assert examined == cases
    assert some_opened >= 100


# What sites are told


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_what_every_site_is_told_adds_nothing(size: Size) -> None:
    """The coordinator held it already, and a site that hears it determines the opened totals and nothing else."""
    told = examined = 0
    for fit in chain(courses(size), next_iteration(size) if size.honest <= 5 else ()):
        examined += 1
        done = obey(fit, RULES)
        assert told_seeds(done, RULES) <= known_seeds(done, RULES)
        heard = bystanders(fit, RULES)
        assert not leaks(heard), (fit, heard)
        assert spans(play(fit, RULES).determined, heard.determined)
        told += bool(heard.determined)
    assert told == examined


def test_a_slot_used_twice_would_show_every_site_the_data_of_a_single_one() -> None:
    """Dropped in one iteration, listed in the next on the same slot: R5.0 brings both of its seeds."""
    twice = replace(RULES, slot_once=False)
    first = asked(Context(3, 1), ALL_BUT_ONE, [Step.DATA] * 4 + [Step.MASKED])
    fit = five(first, asked(Context(4, 1), EVERYONE, [Step.DATA] * 5))
    assert spans(bystanders(fit, twice).determined, [data(4, {4: 0})])
    assert not leaks(bystanders(fit, RULES))


def test_a_site_that_drops_out_shows_its_number_of_people_and_no_data() -> None:
    """The gates of two iterations count the same people; the data of two iterations are other numbers."""
    left = asked(Context(4, 2), ALL_BUT_ONE, [Step.DATA] * 4 + [Step.MASKED])
    outcome = play(five(asked(Context(3, 1), EVERYONE, [Step.DATA] * 5), left), RULES)
    assert len(outcome.determined) == 4
    assert spans(outcome.determined, [{("gate", 4): 1}])
    assert not isolates([t for t in outcome.opened if ("gate", 0) not in t], H_MIN)
    assert not leaks(outcome)


# The context in the mask key


def test_without_the_context_in_the_mask_key_a_parameter_shown_to_one_site_shows_what_it_changes() -> None:
    """x_j(beta) - x_j(beta') of one site: all its data, where the parameters are chosen for it."""
    honest = asked(Context(3, 1, attempt=1), EVERYONE, [Step.DATA] * 5)
    lying = asked(Context(3, 2, attempt=2), EVERYONE, [Step.DATA] * 5, parameters=[0, 0, 0, 0, 1])
    fit = five(honest, lying)
    change: Total = {**data(3, {4: 0}), ("data 3.1", 4): PRIME - 1}
    found = play(fit, NEITHER)
    assert leaks(found) == {Leak.NOT_OPENED, Leak.TOO_FEW}
    assert spans(found.determined, [change])
    for rules in (RULES, KEYED_BY_SLOT, ANY_PARAMETERS):
        assert not leaks(play(fit, rules))
        assert not spans(play(fit, rules).determined, [change])


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_any_parameters_at_any_site_open_nothing_but_totals_if_they_are_in_the_mask_key(size: Size) -> None:
    """A chosen parameter is no leak of the algebra: sums at it are totals of a quorum like any other.

    This search cannot show why sites refuse it nevertheless (R5.2). With coefficients chosen for it, the weights of
    a logistic fit vanish but for one person, and the Hessian, a total over all sites, is that person's row. That
    is a property of the statistic, argued in docs/protocol.md (Iterations) and tested with R5.0 and R5.2
    (tests/protocol/test_iterations.py).
    """
    examined, some_opened = examine(two_parameters(size), ANY_PARAMETERS)
    assert examined == TWO_PARAMETERS[size]
    assert some_opened >= 24
    assert examine(one_slot(size), ANY_PARAMETERS) == ONE_SLOT[size]


@pytest.mark.parametrize("size", OWN_CONTEXTS, ids=str)
def test_own_contexts_of_up_to_five_sites_reveal_opened_totals_only(size: tuple[int, int]) -> None:
    """Brute force: no quorum is assumed, and sites accept any parameters."""
    assert examine(own_contexts(Size(*size)), ANY_PARAMETERS) == OWN_CONTEXTS[size]


@pytest.mark.exhaustive
def test_own_contexts_of_five_sites_with_one_to_spare_reveal_opened_totals_only() -> None:
    """4 or 5 of the sites are alike in 392 cases, which follows from counting too."""
    assert examine(own_contexts(Size(5, 4)), ANY_PARAMETERS) == (20**5 // 2, 392)


@pytest.mark.parametrize("size", [size for size in SIZES if size.honest <= 6], ids=str)
def test_one_parameter_for_all_hides_as_much_while_all_are_at_one_iteration(size: Size) -> None:
    """With sites that recompute, the context in the key matters where iterations are mixed (below)."""
    examined, some_opened = examine(two_parameters(size), KEYED_BY_SLOT)
    assert examined == TWO_PARAMETERS[size]
    assert some_opened >= 14


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_h2_in_the_mask_key_is_a_second_line_on_a_slot_too(size: Size) -> None:
    assert examine(one_slot(size), replace(ANY_PARAMETERS, masks_bound_to_h2=False)) == ONE_SLOT[size]


# One attempt per slot


def test_three_attempts_on_one_slot_open_the_data_of_one_site() -> None:
    """Two attempts without the last site, each answered by one site too few, and a third with it.

    The two answers and the two of others complete the site's mask seed, the third attempt opens its self seed.
    """
    signed, answered = [Step.SIGNED], [Step.GATE]
    first = asked(Context(3, 1), ALL_BUT_ONE, answered * 2 + signed * 2 + [Step.MASKED])
    second = asked(Context(4, 1), ALL_BUT_ONE, signed * 2 + answered * 2 + [Step.MASKED])
    third = asked(Context(5, 1), EVERYONE, [Step.DATA] * 5)
    twice = replace(RULES, slot_once=False)
    found = play(five(first, second, third), twice)
    assert leaks(found) == {Leak.NOT_OPENED, Leak.TOO_FEW}
    assert all(spans(found.determined, [data(iteration, {4: 0})]) for iteration in (3, 4, 5))
    assert len(found.opened) == 2, "a quorum opened gate and data of the third attempt only"
    for fewer in ((first, second), (second, third), (first, third)):
        assert Leak.TOO_FEW not in leaks(play(five(*fewer), twice))
    assert not leaks(play(five(first, second, third), RULES))


def test_sites_do_no_more_than_the_rules_let_them() -> None:
    """The rule makes the difference, not the request."""
    one = asked(Context(3, 2), EVERYONE, [Step.DATA] * 5)
    again = asked(Context(4, 2), ALL_BUT_ONE, [Step.DATA] * 5)
    back = asked(Context(5, 1), EVERYONE, [Step.DATA] * 5)
    chosen = asked(Context(6, 3, parameter=1), EVERYONE, [Step.DATA] * 5)
    fit = five(one, one, again, back, chosen)

    def played(rules: Rules) -> list[list[Request]]:
        done = obey(fit, rules).requests
        return [attempt for attempt in (one, again, back, chosen) if set(attempt) & set(done)]

    assert obey(fit, RULES).requests == tuple(one), "one context once (R0.3), one slot once and forwards"
    assert played(ANY_PARAMETERS) == [one, chosen]
    assert played(replace(RULES, slot_once=False)) == [one, again, back]


@pytest.mark.parametrize(
    ("rules", "space", "kind"),
    [
        (NEITHER, one_slot, Leak.NOT_OPENED),
        (NEITHER, two_parameters, Leak.TOO_FEW),
        (KEYED_BY_SLOT, own_slots, Leak.TOO_FEW),
        (replace(RULES, slot_once=False), next_iteration_on_the_same_slot, Leak.TOO_FEW),
        (replace(RULES, slot_once=False), three_attempts, Leak.TOO_FEW),
        (replace(RULES, fresh_mask_seeds=False), next_iteration, Leak.TOO_FEW),
        (replace(RULES, fresh_self_seeds=False), next_iteration, Leak.TOO_FEW),
        (replace(RULES, same_survivors=False), retry_on_the_next_slot, Leak.TOO_FEW),
        (replace(RULES, b2=False), one_slot, Leak.TOO_FEW),
        (replace(RULES, one_kind=False), one_slot, Leak.TOO_FEW),
        (replace(RULES, quorum=False), own_contexts, Leak.NOT_OPENED),
        (replace(RULES, self_seed_per_part=False), one_slot, Leak.NOT_OPENED),
        (replace(RULES, mask_label_per_part=False), one_slot, Leak.TOO_FEW),
    ],
    ids=[
        "one site shown other parameters, masks keyed by slot",
        "and the same iteration again",
        "masks keyed by slot, sites at different iterations",
        "a slot for two iterations",
        "a slot for three iterations",
        "one mask seed for all slots",
        "self seeds for all slots",
        "retry with another survivor set",
        "too few honest inputs",
        "both kinds of share",
        "no signature quorum",
        "one self seed for gate and data",
        "one pairwise label for gate and data",
    ],
)
def test_without_the_rule_there_is_a_leak(rules: Rules, space: Space, kind: Leak) -> None:
    assert first_leak(space, rules, kind) is not None
