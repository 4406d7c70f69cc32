"""Lies about what is asked: parameters, studies, versions, data asked for twice (A1, A2, A8, A12)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from cohortsum.crypto.errors import AuthenticationError, LocalProtocolError, StoreError, StudyFileError
from cohortsum.node import joining
from cohortsum.node.config import PolicyConfig, Thresholds
from cohortsum.node.decisions import Decision
from cohortsum.node.joining import Site
from cohortsum.node.session import StudySession
from cohortsum.node.tables.reader import open_tables
from cohortsum.protocol import codec
from cohortsum.protocol.effects import ContextSpent, Send, SiteEffect
from cohortsum.protocol.masking import words_from_bytes, words_to_bytes
from cohortsum.protocol.messages import Advert, Kind
from cohortsum.protocol.opening import result_digest
from cohortsum.protocol.site_states import Contributing
from cohortsum.study.definition.signing import STUDY_SIGNATURE, SignedStudy
from cohortsum.study.planning import StudyPlan, by_block, plan_study
from cohortsum.study.sums import Integers
from cohortsum.wire.v1 import service_pb2
from tests.attacks import switched_off
from tests.attacks.hand import Hand
from tests.attacks.served import Answering, serve
from tests.attacks.sessions import Homes, Sessions, yes
from tests.attacks.sites import Machines, Sites
from tests.edges.harness import STATISTICIAN, STUDY, Loopback, signed_study
from tests.edges.test_fits import FIT, without_bands
from tests.protocol.consortium import Consortium, identity_key

N = 5
EVERYBODY = tuple(range(N))
OTHERS = (0, 1, 2, 3)
VICTIM = 4


# A1


def lied(hand: Hand, change: Callable[[Integers], None]) -> dict[int, str]:
    """Close a round that was played to the end with another sum: one input is altered so that the sum is the false one.

    Return who refused it, by site.
    """
    closing, words = hand.closing(seen=True)
    (total,) = hand.opened().values()
    false = total.copy()
    change(false)
    altered = words_from_bytes(words[2]) + (false - total).view(np.uint64)
    attached = (*words[:2], words_to_bytes(altered), *words[3:])
    closing = replace(closing, result_digest=result_digest(false.view(np.uint64)))
    return {
        index: reply.refused for index in EVERYBODY if (reply := hand.say(index, closing, attached)).refused
    }


def ten_more(values: Integers) -> None:
    """Let the sum be about ten people who do not exist."""
    values[0] += 10


def test_attack_a01_a_false_sum_is_announced_to_all(tmp_path: Path) -> None:
    def script(sites: Answering) -> None:
        hand = Hand(sites)
        hand.play()
        assert lied(hand, ten_more) == dict.fromkeys(EVERYBODY, "R5.0")

    serve(tmp_path, script, N, FIT)


@pytest.mark.parametrize("defended", [True, False])
def test_attack_a01_a_false_sum_feeds_no_further_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        switched_off.comparisons(monkeypatch)
    with Homes(tmp_path, N) as homes, Sessions(homes, FIT) as sites:
        hand = Hand(sites)
        hand.play()
        refused = lied(hand, ten_more)
        believed = [homes.sites[index].ledger.seen_sums(sites.study.digest) for index in EVERYBODY]
    if defended:
        assert refused == dict.fromkeys(EVERYBODY, "R5.0")
        assert believed == [()] * N
    else:
        assert refused == {}
        assert {int(sums["people"][0]) for ((_, sums),) in believed} == {134}


def second_round(hand: Hand, first: StudyPlan) -> StudyPlan:
    """Close the first round truly, and return the plan that follows from its sum."""
    closing, words = hand.closing(seen=True)
    for index in EVERYBODY:
        assert hand.say(index, closing, words).refused == ""
    (total,) = hand.opened().values()
    following = first.advance(by_block(first.round.blocks, total))
    assert following is not None
    return following


def test_attack_a01_other_parameters_for_one_victim_get_nothing_of_it(tmp_path: Path) -> None:
    def script(sites: Answering) -> None:
        study, _ = signed_study(FIT)
        hand = Hand(sites)
        hand.play()
        true = second_round(hand, plan_study(study, sites.roster)).round
        chosen = replace(true, parameters=bytes(32))
        lie = Hand(sites, "second", EVERYBODY, 2, plan=chosen)
        assert lie.open(to=(VICTIM,))[VICTIM].refused == "R5.2"
        truth = Hand(sites, "second", EVERYBODY, 2, plan=true)
        truth.open(to=OTHERS)
        for step in (
            truth.show_adverts,
            truth.deliver,
            truth.show_survivors,
            truth.show_quorum,
            truth.open_gate,
        ):
            step()
        assert truth.opened().keys() == {frozenset(OTHERS)}
        assert VICTIM not in {**truth.words, **lie.words}

    serve(tmp_path, script, N, FIT)


def test_attack_a01_a_coordinator_that_hides_its_parameters_in_another_context_gets_masks_that_cancel_nowhere(
    tmp_path: Path,
) -> None:
    """Everybody is at the true parameters; the opening for one says so, under a context made from others."""

    def script(sites: Answering) -> None:
        study, _ = signed_study(FIT)
        hand = Hand(sites)
        hand.play()
        true = second_round(hand, plan_study(study, sites.roster)).round
        lie = Hand(sites, "second", EVERYBODY, 2, plan=replace(true, parameters=bytes(32)))
        lie.opening = replace(lie.opening, plan=true.digest)
        assert {reply.refused for reply in lie.open().values()} == {"M3"}

    serve(tmp_path, script, N, FIT)


def careful(site: Site) -> Site:
    return replace(site, policy=PolicyConfig(profile="open_data", thresholds=Thresholds(set_difference=5)))


@pytest.mark.parametrize("rule", [True, False], ids=["with a people rule", "without one"])
def test_attack_a01_weights_that_rest_on_one_person_are_refused_before_masking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    """As if R5.0 were broken: the coordinator's false sum gives coefficients at which 1.6 of sixteen people weigh at site 2."""
    switched_off.comparisons(monkeypatch)
    study, _ = signed_study(without_bands(FIT))
    with (
        Homes(tmp_path, N, {2: careful} if rule else None) as homes,
        Sessions(homes, without_bands(FIT)) as sites,
    ):
        first = plan_study(study, sites.roster)
        held: dict[str, Integers] = {}

        def steep(values: Integers) -> None:
            """Make the score of age as great as it may be."""
            names = [block.name for block in first.round.blocks]
            at = sum(block.size for block in first.round.blocks[: names.index("odds/dx[case]/score")])
            values[at : at + 2] = (44 * 2**45, 120 * 2**45)
            held.update(by_block(first.round.blocks, values))

        hand = Hand(sites)
        hand.play()
        assert lied(hand, steep) == {}
        following = first.advance(held)
        assert following is not None
        chosen = Hand(sites, "second", EVERYBODY, 2, plan=following.round)
        chosen.open()
        chosen.show_adverts()
        stopped = chosen.deliver()[2].stopped
        assert set(chosen.words) == {0, 1, 3, 4} if rule else set(EVERYBODY)
        assert stopped == (
            "analysis odds: the weights of round 2 rest on fewer than 5 people here; this site adds nothing"
            if rule
            else ""
        )


# A2

UNTRUE = {
    "an unknown statistic": ('"kind":"summary"', '"kind":"python"'),
    "a field more": ('"kind":"summary"', '"code":"open(1)","kind":"summary"'),
    "a wider range": ("[0.0,100.0]", "[0.0,200.0]"),
}


@pytest.fixture
def opened_tables(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with every attempt to open a site's tables."""
    opened: list[str] = []

    def watched(*arguments: Any) -> object:
        opened.append("opened")
        return open_tables(*arguments)

    monkeypatch.setattr(joining, "open_tables", watched)
    return opened


def changed(what: str) -> bytes:
    text, (before, after) = signed_study()[0].canonical.decode(), UNTRUE[what]
    assert before in text
    return text.replace(before, after).encode()


def signed_by_a_statistician(canonical: bytes) -> SignedStudy:
    """Return bytes that a hostile statistician of the roster really signed."""
    key = identity_key(STATISTICIAN)
    return SignedStudy(canonical, STATISTICIAN, key.sign(STUDY_SIGNATURE, STATISTICIAN.encode(), canonical))


@pytest.mark.parametrize("what", UNTRUE)
def test_attack_a02_a_study_that_the_coordinator_changed(
    tmp_path: Path, what: str, opened_tables: list[str]
) -> None:
    _, honest = signed_study()
    with Homes(tmp_path, 3) as homes:
        session = StudySession(homes.sites[0])
        with pytest.raises((AuthenticationError, StudyFileError)):
            session.consider(replace(honest, canonical=changed(what)))
        assert opened_tables == []
        assert session.consider(honest).envelope.kind is Kind.APPROVAL
        session.close()
    assert opened_tables == ["opened"]


@pytest.mark.parametrize("what", UNTRUE)
def test_attack_a02_a_study_of_a_hostile_statistician(
    tmp_path: Path, what: str, opened_tables: list[str]
) -> None:
    """A statistic or a field that nobody knows is no study; a wider range is another one, which the admin has not approved."""
    signed = signed_by_a_statistician(changed(what))
    known = signed_study()[0].digest

    def approved(digest: bytes) -> Decision | None:
        return yes(digest) if digest == known else None

    with Homes(tmp_path, 3) as homes:
        session = StudySession(replace(homes.sites[0], decision=approved))
        if what == "a wider range":
            assert session.consider(signed).envelope.kind is Kind.NOT_TAKING_PART
            assert "is not approved here" in session.reason
        else:
            with pytest.raises(StudyFileError, match=r"kind|code"):
                session.consider(signed)
        session.close()
    assert opened_tables == []


def test_attack_a02_numbers_that_the_plan_does_not_name_are_neither_asked_for_nor_sent() -> None:
    """The coordinator's messages carry no layout; what a site sends has the plan's, or does not leave."""
    consortium = Consortium(N)
    honest = consortium.values
    consortium.values = lambda index, length: np.append(honest(index, length), 7)  # type: ignore[method-assign]
    hand = Hand(Machines(consortium))
    hand.open()
    hand.show_adverts()
    with pytest.raises(LocalProtocolError, match=r"^R2\.9"):
        hand.deliver()
    assert hand.words == {}


# A8


def test_attack_a08_an_older_version_of_a_study_is_handed_out_again(tmp_path: Path) -> None:
    """Signed, approved, and below the newer one's thresholds."""
    older = STUDY
    newer = STUDY.replace("version: 1", "version: 2").replace("min_sites: 3", "min_sites: 5")
    with Homes(tmp_path, N) as homes:
        with Sessions(homes, newer) as sites:
            assert set(sites.approvals) == set(EVERYBODY)
        with Sessions(homes, older) as sites:
            assert sites.approvals == {}
            assert all("version" in reason for reason in sites.reasons.values())
    with Homes(tmp_path / "fresh", N) as homes, Sessions(homes, older) as sites:
        assert set(sites.approvals) == set(EVERYBODY)  # where no newer one was seen


@pytest.mark.parametrize("version", [0, 2])
def test_attack_a08_another_wire_version_is_spoken(tmp_path: Path, version: int) -> None:
    async def script() -> str:
        async with Loopback(tmp_path, 3) as town, town.stub(0) as stub:
            request = service_pb2.GetStudyRequest(wire_version=version, digest=town.study.digest)
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stub.GetStudy(request, timeout=10)
            request.wire_version = 1
            assert (await stub.GetStudy(request, timeout=10)).canonical
            return error.value.details() or ""

    assert "W1" in asyncio.run(script())


# A12


def begun(sites: Sites) -> Hand:
    hand = Hand(sites)
    hand.open()
    hand.show_adverts()
    hand.deliver()
    return hand


def another_value(site: Site) -> None:
    """Change the last person's thickness in a site's table."""
    (table,) = site.tables.tables.values()
    assert table.path is not None
    *lines, last = table.path.read_text().splitlines()
    table.path.write_text("\n".join((*lines, last.rpartition(",")[0] + ",2.5")) + "\n")


def test_attack_a12_asked_twice_with_other_data_behind_it_a_site_sends_the_same_bytes(tmp_path: Path) -> None:
    with Homes(tmp_path, N) as homes, Sessions(homes) as sites:
        hand = begun(sites)
        another_value(homes.sites[VICTIM])
        before = hand.sent[Kind.MASKED][VICTIM], hand.words[VICTIM].copy()
        again = hand.hand_over(VICTIM, hand.told[VICTIM][-1]).of(Kind.MASKED)
        assert again is not None
        assert again.words is not None
        assert again.packet == before[0]
        assert np.array_equal(again.words, before[1])


def test_attack_a12_a_restarted_site_does_not_mask_under_the_same_context_again(tmp_path: Path) -> None:
    with Homes(tmp_path, N) as homes, Sessions(homes) as sites:
        hand = begun(sites)
        assert VICTIM in hand.words
        sites.start(VICTIM)
        reply = hand.say(VICTIM, hand.opening)
        assert (reply.refused, reply.sends) == ("R0.3", ())
        record = ContextSpent(hand.context, bytes(32), bytes(32), bytes(32), frozenset(), frozenset())
        with pytest.raises(StoreError):
            homes.sites[VICTIM].ledger.write(sites.study.digest, record)


@pytest.mark.parametrize("defended", [True, False])
def test_attack_a12_two_vectors_under_one_mask(defended: bool) -> None:
    """Without the state that has masked once, the difference of two vectors is the difference of the data, in the clear."""
    consortium = Consortium(N)
    sites = Machines(consortium)
    hand = Hand(sites)
    hand.open()
    hand.show_adverts()
    machine, states = sites.machine(VICTIM), list[Contributing]()
    honest = machine.contribute

    def contribute(people: int, values: Integers, gate_noise: int = 0) -> tuple[SiteEffect, ...]:
        assert isinstance(machine.state, Contributing)
        states.append(machine.state)
        return honest(people, values, gate_noise)

    machine.contribute = contribute  # type: ignore[method-assign]
    hand.deliver()
    other = consortium.values(VICTIM, 3)
    other[1] += 1
    if not defended:
        machine.state = states[0]
        (_, send) = honest(consortium.people(VICTIM), other)
        assert isinstance(send, Send)
        assert send.words is not None
        assert (send.words - hand.words[VICTIM]).tolist() == [0, 1, 0]
        return
    with pytest.raises(LocalProtocolError, match=r"^R2: no contribution is awaited"):
        honest(consortium.people(VICTIM), other)


@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "the generator starts again"])
def test_attack_a12_a_second_attempt_shares_no_seed_with_the_first(reused: bool) -> None:
    """Else a site that dropped from the first, whose mask seed is open, is bare in the second."""
    everything: list[set[object]] = []
    for attempt in (1, 2):
        consortium = Consortium(N, attempt=1 if reused else attempt)
        sites = Machines(consortium, frozenset(EVERYBODY))
        hand = Hand(sites, f"attempt {attempt}", attempt=attempt)
        hand.open()
        hand.show_adverts()
        hand.deliver()
        seeds = {seed for held in sites.betrayed.values() for seed in held.seeds.values()}
        assert len(seeds) == 3 * N
        public: set[object] = set()
        for envelope in hand.envelopes(Kind.ADVERT):
            advert = codec.decode(Kind.ADVERT, envelope.payload)
            assert isinstance(advert, Advert)
            public |= {advert.mask_key, advert.channel_key, advert.gate_commitment, advert.data_commitment}
        everything.append(seeds | public)
    shared = everything[0] & everything[1]
    assert bool(shared) is reused


@pytest.mark.parametrize("defended", [True, False])
def test_attack_a12_the_masks_of_the_gate_are_taken_off_the_data(
    monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    """Before any data seed is open: a site's count at the gate is public where it is capped, and so is the sum of its gate masks."""
    if not defended:
        switched_off.parts(monkeypatch)
    hand = begun(Machines(Consortium(N)))
    capped = hand.sites.plan.protection.gate_cap
    found: list[bool] = []
    for index in EVERYBODY:
        gate = words_from_bytes(hand.sent[Kind.MASKED][index].attachments[0])
        masks = gate - np.uint64(capped)
        found.append(int((hand.words[index][:1] - masks)[0]) == hand.sites.people(index))
    assert found == [not defended] * N
