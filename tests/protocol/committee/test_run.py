"""A run's machines: what an honest one gives, and what each lie of coordinator, dealer or member comes to."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.agreement import AgreementKey
from cohortsum.crypto.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from cohortsum.crypto.field import COMMITTEE
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.shamir import combine
from cohortsum.protocol.committee import CommitteePlan, OpenCounts
from cohortsum.protocol.committee.channels import Channels
from cohortsum.protocol.committee.checks import agreed_answers
from cohortsum.protocol.committee.codec import (
    decode,
    encode,
    packet_from_wire,
    packet_to_wire,
    sealed_from_wire,
    sealed_to_wire,
)
from cohortsum.protocol.committee.coordinator import Failed, Tell
from cohortsum.protocol.committee.dealing import deal, fresh_key, inputs_digest, opened_shares
from cohortsum.protocol.committee.effects import Part, Send
from cohortsum.protocol.committee.messages import (
    Closing,
    Deal,
    Inputs,
    Key,
    Keys,
    Kind,
    Message,
    Opening,
    Packet,
    Result,
    RunKey,
    Sealed,
    Signed,
    sign,
)
from cohortsum.protocol.committee.plain import (
    answers_from_bytes,
    answers_to_bytes,
    plan_from_plain,
    plan_to_plain,
)
from tests.protocol.committee.played import ANSWERS, HUB, RUN, VALUES, Played, signer_of, table_plan
from tests.protocol.consortium import stream

OTHER = RunKey(b"o" * 16, 1, 2)


def resigned(run: Played, message: Message, attachments: tuple[bytes, ...] = ()) -> Packet:
    """Return a message truly signed by the coordinator, for this run: the worst it can do."""
    kind, payload = encode(message)
    return Packet(sign(signer_of(run.roster, HUB), run.hub.context, kind, payload), attachments)


def lie(kind: Kind, victim: int, change: Callable[[Played, Packet], list[Packet | Sealed]]) -> Played:
    """Return a run in which the coordinator changes what it tells one site."""

    def meddle(run: Played, site: int, item: Packet | Sealed) -> list[Packet | Sealed]:
        if site == victim and isinstance(item, Packet) and item.signed.kind is kind:
            return change(run, item)
        return [item]

    return Played(meddle=meddle).play()


def checks(run: Played) -> set[str]:
    return {error.check for _, error in run.errors if isinstance(error, RemoteProtocolError)}


def refused(run: Played, check: str) -> None:
    """Assert that a run came to nothing, first at this check."""
    assert run.opened is None
    assert not run.finished
    assert isinstance(run.errors[0][1], RemoteProtocolError)
    assert run.errors[0][1].check == check
    assert run.failed is not None


def test_an_honest_run_gives_every_site_what_all_members_signed() -> None:
    run = Played().play()
    assert not run.errors
    assert run.failed is None
    assert run.opened is not None
    assert run.opened.answers == ANSWERS
    assert {finished.answers for finished in run.finished.values()} == {ANSWERS}
    assert set(run.finished) == set(range(5))
    assert run.bindings == dict.fromkeys((0, 2, 3), (0, 1, 2, 3, 4))
    results = run.finished[1].results
    assert agreed_answers(run.plan, run.hub.context, run.roster, results) == ANSWERS


def test_members_and_dealers_may_be_different_sites() -> None:
    run = Played(table_plan(members=(0, 1, 4), dealers=(1, 2, 3))).play()
    assert not run.errors
    assert run.opened is not None
    assert run.opened.answers == ((-1, -1, -1, 30),)


@pytest.mark.parametrize("members", [3, 5, 7])
def test_two_hundred_sites_deal_to_a_committee_of_any_size(members: int) -> None:
    values = {site: ((site * 7) % 3, (site * 5) % 2, int(site == 9)) for site in range(200)}
    sums = [sum(column) for column in zip(*values.values(), strict=True)]
    colluding = (members - 1) // 2
    program = OpenCounts("x", 3, 10, 2)
    plan = CommitteePlan(tuple(range(5, 5 + members)), tuple(range(200)), colluding, (program,))
    run = Played(plan, values=values).play()
    assert not run.errors
    assert run.opened is not None
    assert run.opened.answers == ((sums[0], sums[1], -1),)
    assert len(run.finished) == 200


def test_a_coordinator_sees_no_share() -> None:
    """Nothing it carries holds a share that a member starts from, and two of three packages of a dealer open nothing."""
    run = Played().play()
    carried = b"".join(
        item.sealed if isinstance(item, Sealed) else item.signed.payload + b"".join(item.attachments)
        for _, item in run.told
    )
    for member in run.members.values():
        assert all(COMMITTEE.to_bytes(share) not in carried for share in member.compute.shares)


@pytest.mark.parametrize("where", ["payload", "signature", "context", "sender"])
@pytest.mark.parametrize("kind", [Kind.OPENING, Kind.KEYS, Kind.INPUTS, Kind.CLOSING])
def test_what_the_coordinator_did_not_sign_is_refused(kind: Kind, where: str) -> None:
    def altered(_: Played, packet: Packet) -> list[Packet | Sealed]:
        signed = packet.signed
        changes = {
            "payload": replace(signed, payload=signed.payload[:-1] + bytes([signed.payload[-1] ^ 1])),
            "signature": replace(signed, signature=bytes([signed.signature[0] ^ 1]) + signed.signature[1:]),
            "context": replace(signed, context=bytes(32)),
            "sender": replace(signed, sender="site1"),
        }
        return [replace(packet, signed=changes[where])]

    run = lie(kind, 2, altered)
    assert 2 not in run.finished
    site, error = run.errors[0]
    assert site == 2
    assert isinstance(error, RemoteProtocolError)
    assert error.check in {"C1", "C2", "M2"}


OPENINGS: dict[str, Callable[[Opening], Opening]] = {
    "plan": lambda opening: replace(opening, plan=bytes(32)),
    "roster": lambda opening: replace(opening, roster_digest=bytes(32)),
    "study": lambda opening: replace(opening, study_digest=bytes(32)),
    "epoch": lambda opening: replace(opening, epoch="2027-01"),
    "dealers": lambda opening: replace(opening, dealers=(0, 1, 2, 3)),
}


@pytest.mark.parametrize("what", OPENINGS)
def test_an_opening_with_another_plan_roster_study_or_epoch_is_refused(what: str) -> None:
    run = Played()
    (tell,) = run.hub.open()
    assert isinstance(tell, Tell)
    assert isinstance(tell.item, Packet)
    opening = decode(tell.item.signed)
    assert isinstance(opening, Opening)
    other = OPENINGS[what](opening)
    kind, payload = encode(other)
    packet = Packet(sign(signer_of(run.roster, HUB), other.context, kind, payload))
    with pytest.raises(RemoteProtocolError, match="C3"):
        run.sites[2].handle(packet)
    assert run.sites[2].give_up("no").packet.signed.context == other.context


def test_a_member_whose_key_was_exchanged_ends_the_run() -> None:
    def altered(run: Played, packet: Packet) -> list[Packet | Sealed]:
        keys = decode(packet.signed)
        assert isinstance(keys, Keys)
        kind, payload = encode(Key(AgreementKey(SecretBytes(bytes(31) + b"\x09", "key")).public))
        forged = sign(signer_of(run.roster, "site2"), run.hub.context, kind, payload)
        return [resigned(run, Keys((keys.keys[0], forged, keys.keys[2])))]

    refused(lie(Kind.KEYS, 2, altered), "C4")


def test_dealers_that_are_shown_other_keys_deal_what_nobody_takes() -> None:
    """A member with two keys and a coordinator that shows one of them to a single dealer: h1 differs."""

    def altered(run: Played, packet: Packet) -> list[Packet | Sealed]:
        keys = decode(packet.signed)
        assert isinstance(keys, Keys)
        kind, payload = encode(Key(AgreementKey(SecretBytes(bytes(31) + b"\x09", "key")).public))
        forged = sign(signer_of(run.roster, "site3"), run.hub.context, kind, payload)
        return [resigned(run, Keys((*keys.keys[:2], forged)))]

    # an honest coordinator's machine would not hand it on, nor would any member take it
    refused(lie(Kind.KEYS, 1, altered), "C6")


@pytest.mark.parametrize(
    "how", ["one fewer", "another order", "another package", "a package of another member"]
)
def test_inputs_that_are_not_one_deal_of_every_dealer_are_refused(how: str) -> None:
    def altered(run: Played, packet: Packet) -> list[Packet | Sealed]:
        inputs, sealed = decode(packet.signed), list(packet.attachments)
        assert isinstance(inputs, Inputs)
        deals = list(inputs.deals)
        if how == "one fewer":
            deals, sealed = deals[:-1], sealed[:-1]
        elif how == "another order":
            deals[0], deals[1] = deals[1], deals[0]
        elif how == "another package":
            sealed[1] = sealed[2]
        else:
            others = [item for site, item in run.queue if site == 3 and isinstance(item, Packet)]
            sealed = list(others[-1].attachments) if others else sealed[::-1]
        return [resigned(run, Inputs(tuple(deals)), tuple(sealed))]

    run = lie(Kind.INPUTS, 2, altered)
    refused(run, "C5" if "package" in how else "C6")


def test_members_who_were_shown_different_deals_hear_nothing_from_each_other() -> None:
    """A dealer that signs two deals, and a coordinator that shows each to some members."""

    def altered(run: Played, packet: Packet) -> list[Packet | Sealed]:
        inputs = decode(packet.signed)
        assert isinstance(inputs, Inputs)
        keys = next(
            decode(item.signed)
            for _, item in run.told
            if isinstance(item, Packet) and item.signed.kind is Kind.KEYS
        )
        assert isinstance(keys, Keys)
        publics = [decode(one) for one in keys.keys]
        first = decode(inputs.deals[1])
        assert isinstance(first, Deal)
        dealt = deal(
            run.plan,
            run.hub.context,
            1,
            (0, 9, 0, 0),
            [key.key for key in publics if isinstance(key, Key)],
            first.keys_digest,
            stream("second"),
        )
        kind, payload = encode(dealt.deal)
        second = sign(signer_of(run.roster, "site1"), run.hub.context, kind, payload)
        deals, sealed = list(inputs.deals), list(packet.attachments)
        deals[1], sealed[1] = second, dealt.ciphertexts[1]
        return [resigned(run, Inputs(tuple(deals)), tuple(sealed))]

    run = lie(Kind.INPUTS, 2, altered)
    assert run.opened is None
    assert checks(run) == {"C7"}


def test_a_closing_with_other_results_is_refused() -> None:
    def fewer(run: Played, packet: Packet) -> list[Packet | Sealed]:
        closing = decode(packet.signed)
        assert isinstance(closing, Closing)
        return [resigned(run, Closing(closing.results[:2]))]

    def doubled(run: Played, packet: Packet) -> list[Packet | Sealed]:
        closing = decode(packet.signed)
        assert isinstance(closing, Closing)
        return [resigned(run, Closing((closing.results[0],) * 3))]

    def another(run: Played, packet: Packet) -> list[Packet | Sealed]:
        closing = decode(packet.signed)
        assert isinstance(closing, Closing)
        first = decode(closing.results[0])
        assert isinstance(first, Result)
        lied = answers_to_bytes([(-1, 12, -1, 41)])
        kind, payload = encode(replace(first, answers=lied))
        forged = sign(signer_of(run.roster, "site0"), run.hub.context, kind, payload)
        return [resigned(run, Closing((forged, *closing.results[1:])))]

    for change in (fewer, doubled, another):
        run = lie(Kind.CLOSING, 1, change)
        assert run.errors[0][0] == 1
        assert checks(run) == {"C8"}
        assert 1 not in run.finished


def test_a_member_that_signs_other_answers_ends_the_run_for_all() -> None:
    run = Played()
    run.lies[3] = answers_to_bytes([(-1, 12, -1, 41)])
    run.play()
    assert run.opened is None
    assert run.failed == Failed("C8: the members do not agree on inputs or answers", True)
    assert set(run.ended) == set(range(5))


FRAMES: dict[str, Callable[[Sealed, Sealed], list[Packet | Sealed]]] = {
    "repeated": lambda frame, other: [frame, frame],
    "changed": lambda frame, other: [replace(frame, sealed=frame.sealed[:-1] + b"\0")],
    "renumbered": lambda frame, other: [replace(frame, number=1)],
    "another context": lambda frame, other: [replace(frame, context=bytes(32))],
    "of another run": lambda frame, other: [replace(frame, sealed=other.sealed)],
    "another sender": lambda frame, other: [replace(frame, sender=2)],
    "another receiver": lambda frame, other: [replace(frame, receiver=2)],
}


@pytest.mark.parametrize("what", FRAMES)
def test_a_coordinator_that_repeats_changes_or_mixes_frames_ends_the_run(what: str) -> None:
    other = Played(key=OTHER).play()
    foreign = next(item for _, item in other.told if isinstance(item, Sealed) and item.receiver == 0)

    def meddle(_: Played, site: int, item: Packet | Sealed) -> list[Packet | Sealed]:
        if isinstance(item, Sealed) and (item.sender, item.receiver) == (foreign.sender, 0):
            return FRAMES[what](item, foreign)
        return [item]

    run = Played(meddle=meddle).play()
    assert run.errors[0][0] == 0
    assert checks(run) == {"C7"}
    assert run.opened is None


def test_frames_out_of_order_are_refused() -> None:
    keys = {member: AgreementKey(SecretBytes(bytes([member + 1] * 32), "key")) for member in range(3)}
    publics = {member: key.public for member, key in keys.items()}
    one, two = (Channels(keys[member], publics, member, bytes(32), b"h1", b"h2") for member in (0, 1))
    first, second = one.seal(1, b"first"), one.seal(1, b"second")
    with pytest.raises(RemoteProtocolError, match="C7"):
        two.open(second)
    assert two.open(first) == b"first"
    assert two.open(second) == b"second"
    with pytest.raises(RemoteProtocolError, match="C7"):
        two.open(second)
    back = two.seal(0, b"first")
    assert back.sealed != first.sealed
    with pytest.raises(LocalProtocolError):
        one.seal(0, b"to myself")
    for h1, h2 in ((b"h1", b"other"), (b"other", b"h2")):
        with pytest.raises(RemoteProtocolError, match="C7"):
            Channels(keys[0], publics, 0, bytes(32), h1, h2).open(back)


def test_a_member_computes_again_on_the_same_dealers_only() -> None:
    everybody = tuple(range(5))
    assert Played(bound={2: everybody}, key=OTHER).play().opened is not None
    refused(Played(table_plan(dealers=(0, 1, 2, 3)), bound={2: everybody}, key=OTHER).play(), "C9")
    assert Played(table_plan(dealers=(0, 1, 2, 3)), key=OTHER).play().opened is not None


def test_a_step_that_takes_too_long_ends_the_run_and_names_who_is_missing() -> None:
    def silent(_: Played, site: int, item: Packet | Sealed) -> list[Packet | Sealed]:
        return [] if site == 3 and isinstance(item, Packet) and item.signed.kind is Kind.KEYS else [item]

    run = Played(meddle=silent).play()
    assert run.opened is None
    run.take(run.hub.expire())
    assert run.failed == Failed("no shares of site3 in time", False)
    assert run.hub.over
    assert run.hub.expire() == []


def test_a_dealer_that_seals_nonsense_is_named() -> None:
    run = Played()
    (tell,) = run.hub.open()
    run.take([tell])
    while run.queue[0][1] == tell.item:  # type: ignore[union-attr]  # an opening is told
        run.hand(*run.queue.popleft())
    site, keys = run.queue.popleft()
    assert isinstance(keys, Packet)
    (send,) = run.sites[site].handle(keys)
    assert isinstance(send, Send)
    packet = send.packet
    spoiled = Packet(packet.signed, tuple(bytes(len(one)) for one in packet.attachments))
    with pytest.raises(RemoteProtocolError, match="C5") as caught:
        run.hub.submit(spoiled)
    assert caught.value.accused == f"site{site}"


def test_shares_of_a_deal_are_the_numbers_and_are_bound_to_everything() -> None:
    plan, context, h1 = table_plan(), bytes(32), b"1" * 32
    members = [fresh_key(context, stream(str(member))) for member in range(3)]
    publics = [key.public for key in members]
    dealt = deal(plan, context, 4, (1, 2, 3, 40), publics, h1, stream("dealer"))
    shares = [
        opened_shares(plan, context, 4, member, members[member], dealt.deal, dealt.ciphertexts[member])
        for member in range(3)
    ]
    for pair in ((0, 1), (0, 2), (1, 2)):
        values = [combine({m + 1: shares[m][at] for m in pair}, 2, COMMITTEE.prime) for at in range(4)]
        assert values == [1, 2, 3, 40]
    lies = {
        "member": (plan, context, 4, 1, members[0], dealt.deal),
        "dealer": (plan, context, 3, 0, members[0], dealt.deal),
        "context": (plan, bytes([1] * 32), 4, 0, members[0], dealt.deal),
        "h1": (plan, context, 4, 0, members[0], replace(dealt.deal, keys_digest=b"2" * 32)),
        "key": (plan, context, 4, 0, members[1], dealt.deal),
        "length": (table_plan(members=(0, 1, 2, 3, 4)), bytes([2] * 32), 4, 0, members[0], dealt.deal),
    }
    for arguments in lies.values():
        with pytest.raises(RemoteProtocolError, match="C5"):
            opened_shares(*arguments, dealt.ciphertexts[0])
    with pytest.raises(ConfigurationError):
        deal(plan, context, 4, (1, 2, 3, 41), publics, h1, stream("dealer"))
    assert inputs_digest(context, h1, ()) != inputs_digest(context, b"2" * 32, ())


def test_the_same_numbers_dealt_twice_have_nothing_in_common() -> None:
    plan, context = table_plan(), bytes(32)
    publics = [fresh_key(context, stream(str(member))).public for member in range(3)]
    dealt = [deal(plan, context, 4, VALUES[0], publics, bytes(32), stream(seed)) for seed in "ab"]
    assert not set(dealt[0].ciphertexts) & set(dealt[1].ciphertexts)


def test_every_message_survives_the_wire() -> None:
    run = Played().play()
    for _, item in run.told:
        if isinstance(item, Sealed):
            assert sealed_from_wire(sealed_to_wire(item)) == item
        else:
            assert packet_from_wire(packet_to_wire(item)) == item
            assert encode(decode(item.signed)) == (item.signed.kind, item.signed.payload)


@given(st.sampled_from(list(Kind)), st.binary(max_size=200))
def test_arbitrary_payloads_raise_only_our_errors(kind: Kind, payload: bytes) -> None:
    signed = Signed(bytes(32), kind, "site0", payload, bytes(64))
    try:
        message = decode(signed)
    except RemoteProtocolError:
        return
    assert encode(message) == (kind, payload)


@given(st.binary(max_size=60))
def test_arbitrary_answers_raise_only_our_errors(data: bytes) -> None:
    plan = table_plan()
    try:
        answers = answers_from_bytes(plan, data)
    except ConfigurationError:
        return
    assert answers_to_bytes(answers) == data


def test_a_plan_survives_the_pipe() -> None:
    assert plan_from_plain(plan_to_plain(table_plan())).digest == table_plan().digest


def test_what_a_site_brings_is_never_shown() -> None:
    assert "123" not in repr(Part(table_plan(), (123, 0, 0, 0)))


def test_runs_have_contexts_of_their_own() -> None:
    assert Played(key=OTHER).hub.context != Played(key=RUN).hub.context
