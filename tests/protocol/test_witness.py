"""A witness signed nothing: it is shown only what t survivors stand by, and adds up only what its owners signed."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.crypto.field import PRIME
from cohortsum.protocol.coordinator_states import Combining, Opened
from cohortsum.protocol.effects import Combine, CoordinatorEffect
from cohortsum.protocol.masking import words_to_bytes
from cohortsum.protocol.messages import Kind, Packet
from cohortsum.protocol.proof import Transcript
from cohortsum.protocol.witness import OpenedInputs, WitnessedRound, blocks_of, recomputed, witnessed
from tests.protocol.consortium import Consortium, protection
from tests.protocol.lies import flip
from tests.protocol.test_proof import DROPOUT, SURVIVORS, N, T, envelopes, kept, meddled, played, with_list


def witness(transcript: Transcript) -> WitnessedRound:
    consortium = played("round")
    return witnessed(transcript, consortium.plan, consortium.roster)


def refused(transcript: Transcript) -> str:
    """Return the check that refuses a transcript, or nothing for one that a witness believes."""
    try:
        witness(transcript)
    except RemoteProtocolError as error:
        return error.check
    return ""


@dataclass
class Keeping(Consortium):
    """Keeps what the coordinator holds at the moment at which everything is open."""

    held: list[Combining] = field(default_factory=list[Combining])

    def from_coordinator(self, effects: tuple[CoordinatorEffect, ...]) -> None:
        if any(isinstance(effect, Combine) for effect in effects):
            assert isinstance(self.coordinator.state, Combining)
            self.held.append(self.coordinator.state)
        super().from_coordinator(effects)


@cache
def opened() -> tuple[Keeping, OpenedInputs]:
    """Return the very round of `kept`, and what was opened of it."""
    consortium = Keeping(N, seed="round")

    def before_send(index: int, packet: Packet) -> bool:
        return (index, packet.envelope.kind) != (DROPOUT, Kind.MASKED)

    consortium.before_send = before_send
    consortium.run()
    (state,) = consortium.held
    words = {index: words_to_bytes(consortium.uploads[index]) for index in SURVIVORS}
    return consortium, OpenedInputs(words, state.data_seeds, state.mask_seeds)


def test_an_honest_round_is_proven_to_somebody_who_was_not_there() -> None:
    found = witness(kept())
    assert found.key == played("round").coordinator_key
    assert found.context == played("round").coordinator.fixed.context
    assert found.survivors == SURVIVORS == found.signers
    assert found.dropped == (DROPOUT,)
    assert sorted(found.approvals) == sorted(found.adverts) == list(range(N))
    assert {approval.regimen.profile for approval in found.approvals.values()} == {"open_data"}


def test_no_single_change_to_an_envelope_is_believed_unless_t_survivors_still_stand_by_the_same_set() -> None:
    honest, believed = witness(kept()), 0
    for what, transcript in meddled():
        if transcript == kept() or refused(transcript):
            continue
        found = witness(transcript)
        believed += 1
        assert what.startswith("consistency"), what
        assert replace(found, signers=honest.signers) == honest, what
        assert T <= len(found.signers) < len(honest.signers), what
    assert believed


def test_a_survivor_set_that_t_sites_did_not_sign_is_refused() -> None:
    for survivors in (
        SURVIVORS[1:],
        SURVIVORS[::-1],
        (*SURVIVORS, DROPOUT),
        (*SURVIVORS, 99),
        (),
        SURVIVORS * 2,
    ):
        assert refused(replace(kept(), survivors=survivors)) in {"R3.1", "R3.3", "R4.3"}
    few = replace(kept(), consistency=kept().consistency[: T - 1])
    assert refused(few) == "R4.3"
    assert refused(replace(kept(), consistency=kept().consistency[:T])) == ""


@pytest.mark.parametrize("name", ["adverts", "shares", "masked", "consistency"])
def test_a_list_is_in_order_and_once_each(name: str) -> None:
    held = envelopes(kept(), name)
    for changed in (held[::-1], (*held, held[-1])):
        assert refused(with_list(kept(), name, changed)) in {"R1.2", "R2.1", "R3.1", "R4.1"}


def test_thresholds_of_the_study_are_asked_for_again() -> None:
    consortium = played("round")
    for changes, check in (({"min_sites": N}, "R3.3"), ({"max_colluding_sites": 3}, "R1.7")):
        # as if sites had let it pass: the digest is that of the plan they signed, the thresholds are others
        plan = replace(consortium.plan, protection=protection(**changes))
        object.__setattr__(plan, "digest", consortium.plan.digest)
        with pytest.raises(RemoteProtocolError, match=f"^{check}"):
            witnessed(kept(), plan, consortium.roster)


def test_the_sum_is_added_up_again_from_what_was_opened() -> None:
    consortium, inputs = opened()
    found = witness(kept())
    length = sum(block.size for block in blocks_of(found, consortium.plan, frozenset()))
    values = recomputed(found, inputs, length)
    assert [int(value) for value in values] == consortium.expected(SURVIVORS)
    state = consortium.coordinator.state
    assert isinstance(state, Opened)
    assert np.array_equal(values, state.values)


def test_nothing_is_added_up_that_its_owner_did_not_sign() -> None:
    consortium, inputs = opened()
    found = witness(kept())
    length = consortium.coordinator.length

    def without(held: dict[int, int]) -> dict[int, int]:
        return {index: seed for index, seed in held.items() if index != 0}

    seeds, masks = dict(inputs.data), dict(inputs.mask)
    lies: tuple[Callable[[], OpenedInputs], ...] = (
        lambda: replace(inputs, words={**inputs.words, 0: flip(inputs.words[0], 3)}),
        lambda: replace(inputs, words={**inputs.words, 0: inputs.words[0][:-8]}),
        lambda: replace(inputs, words={**inputs.words, 0: inputs.words[1], 1: inputs.words[0]}),
        lambda: replace(inputs, data={**seeds, 0: (seeds[0] + 1) % PRIME}),
        lambda: replace(inputs, data=without(seeds)),
        lambda: replace(inputs, mask={DROPOUT: (masks[DROPOUT] + 1) % PRIME}),
        lambda: replace(inputs, mask={}),
        lambda: replace(inputs, mask={**masks, 0: 1}),
    )
    for lie in lies:
        with pytest.raises(RemoteProtocolError, match=r"^R5\.0"):
            recomputed(found, lie(), length)
    with pytest.raises(RemoteProtocolError, match=r"^R5\.0"):
        recomputed(found, inputs, length + 1)
