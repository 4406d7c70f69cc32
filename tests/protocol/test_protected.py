"""The rule of protected sites in a round: every survivor checks it, whatever the coordinator shows."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.protocol.coordinator_states import Aborted, Opened
from cohortsum.protocol.messages import Advert
from cohortsum.protocol.plan import PlannedBlock
from cohortsum.protocol.protected import protected_rule, together
from tests.protocol.consortium import Consortium

N = 7
LEAST = 3
USED = b"u" * 32
BLOCKS = (
    PlannedBlock("a", 2, 2**40, "person", (frozenset({"a"}),)),
    PlannedBlock("b", 2, 2**40, "person", (frozenset({"b"}),)),
)
BOTH = frozenset({"a", "b"})


def playing(
    protected: Mapping[int, bytes], supplies: Mapping[int, frozenset[str]] | None = None
) -> Consortium:
    """Return a consortium some of whose sites are protected, by index with the attempt they name."""
    given_by = supplies or {}
    consortium = Consortium(
        N, blocks=BLOCKS, items=("a", "b"), supplies=lambda index: given_by.get(index, BOTH)
    )
    for index, used in protected.items():
        consortium.machines[index] = consortium.site(index, protected=True, used=used)
    return consortium


def survivors(consortium: Consortium) -> tuple[int, ...]:
    state = consortium.coordinator.state
    assert isinstance(state, Opened), state
    assert state.values.tolist() == consortium.expected(state.survivors)
    return state.survivors


def test_enough_of_them_are_opened_with_everybody() -> None:
    consortium = playing(dict.fromkeys((4, 5, 6), b""))
    consortium.run()
    assert survivors(consortium) == tuple(range(N))


@pytest.mark.parametrize(
    "protected",
    [{5: b"", 6: b""}, {4: b"", 5: b"", 6: USED}],
    ids=["too few", "one names an earlier attempt"],
)
def test_a_coordinator_leaves_out_those_who_cannot_be_together(protected: dict[int, bytes]) -> None:
    consortium = playing(protected)
    consortium.run()
    assert survivors(consortium) == tuple(index for index in range(N) if index not in protected)


def test_of_two_groups_with_other_supplies_the_larger_one_takes_part() -> None:
    few: dict[int, frozenset[str]] = {0: frozenset({"a"})}
    consortium = playing(dict.fromkeys((0, 3, 4, 5), b""), few)
    consortium.run()
    assert survivors(consortium) == (1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize(
    "protected",
    [{5: b"", 6: b""}, {4: b"", 5: b"", 6: USED}, dict.fromkeys((3, 4, 5), USED)],
    ids=["too few", "mixed", "an attempt that nobody recorded"],
)
def test_whatever_the_coordinator_shows_no_survivor_signs(
    monkeypatch: pytest.MonkeyPatch, protected: dict[int, bytes]
) -> None:
    """The machine's own care is taken away; every site refuses the survivor list."""
    consortium = playing(protected)

    def all_of(adverts: Mapping[int, Advert], *_: object) -> frozenset[int]:
        return frozenset(adverts)

    def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr("cohortsum.protocol.coordinator.together", all_of)
    monkeypatch.setattr("cohortsum.protocol.coordinator.protected_rule", nothing)
    consortium.run()
    assert isinstance(consortium.coordinator.state, Aborted)
    first = {index: error.check for index, error in reversed(consortium.errors)}
    assert first == dict.fromkeys(range(N), "R3.8")
    assert consortium.signed == {}


def test_a_retry_over_recorded_survivors_goes_on() -> None:
    everybody = tuple(range(N))
    consortium = playing({})
    for index in everybody:
        known: dict[str, object] = {"named": {USED: everybody}}
        if index in (4, 5, 6):
            known |= {"protected": True, "used": USED}
        consortium.machines[index] = consortium.site(index, **known)
    consortium.run()
    assert survivors(consortium) == everybody


ADVERTS = st.dictionaries(
    st.integers(0, 9),
    st.tuples(st.booleans(), st.sampled_from([b"", USED]), st.sampled_from([BOTH, frozenset({"a"})])),
)


@given(ADVERTS)
def test_who_goes_together_breaks_no_rule_and_every_derivable_site_is_among_them(
    drawn: dict[int, tuple[bool, bytes, frozenset[str]]],
) -> None:
    adverts = {
        index: Advert(b"", b"", b"", b"", protected=protected, used=used if protected else b"")
        for index, (protected, used, _) in drawn.items()
    }
    supplies = {index: items for index, (_, _, items) in drawn.items()}
    chosen = together(adverts, supplies, LEAST)
    assert protected_rule({index: adverts[index] for index in chosen}, supplies, LEAST) is None
    assert {index for index, advert in adverts.items() if not advert.protected} <= chosen
