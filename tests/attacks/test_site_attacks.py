"""Hostile sites, alone, together, or with the coordinator (A6, A10, A14, A15, A17, A18, A22)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

import grpc
import numpy as np
import pytest
from structlog.testing import capture_logs

from cohortsum.crypto.certificates import certify, trust_anchor
from cohortsum.crypto.errors import ConfigurationError, LocalProtocolError, ShareError
from cohortsum.crypto.shamir import combine, split
from cohortsum.node.pinning import load_pin
from cohortsum.protocol import site as site_machine
from cohortsum.protocol.approvals import approve
from cohortsum.protocol.bounds import broken_bound, threshold
from cohortsum.protocol.coordinator_states import Aborted, Opened
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import add_words
from cohortsum.protocol.messages import (
    Adverts,
    GateShares,
    Kind,
    Message,
    Regimen,
    Shares,
)
from cohortsum.protocol.plan import PlannedBlock
from cohortsum.protocol.roster import Identity, Role
from cohortsum.protocol.seeds import HeldShares, Seeds, SharedSeeds, advertise, deal
from cohortsum.protocol.site_states import Advertised
from cohortsum.wire.v1 import service_pb2, service_pb2_grpc
from tests.admin import desk
from tests.attacks import switched_off
from tests.attacks.hand import Hand
from tests.attacks.honest import WithHostileNodes, coordinate
from tests.attacks.sites import Machines
from tests.edges.harness import HUB, LIMIT_S, Loopback
from tests.edges.oracle import check_pooled
from tests.protocol.consortium import Consortium, identity_key, plan_of, protection, stream

N = 5
FEW = 3
"""h_min in all of these studies."""


def consortium_of(n: int, c: int = 0) -> Consortium:
    return Consortium(n, protection(max_colluding_sites=c))


def settings() -> list[tuple[int, int]]:
    return [
        (n, c)
        for n in range(3, 8)
        for c in range(n)
        if broken_bound(n, protection(max_colluding_sites=c)) is None
    ]


# A6


@pytest.mark.parametrize(("n", "c"), settings(), ids=str)
def test_attack_a06_hostile_sites_subtract_themselves_from_every_sum_that_opens(n: int, c: int) -> None:
    """The coordinator leaves out as many honest sites as it may; what is left of the sum is about h_min honest sites or more."""
    hostile = frozenset(range(n - c, n))
    opened, refused = 0, 0
    for size in range(1, n + 1):
        survivors = sorted({*range(max(0, size - c)), *sorted(hostile)[: min(size, c)]})
        hand = Hand(Machines(consortium_of(n, c), hostile))
        hand.open()
        hand.show_adverts()
        hand.deliver()
        hand.show_survivors(of=survivors, to=survivors)
        hand.show_quorum()
        hand.open_gate()
        for members, values in hand.opened().items():
            opened += 1
            assert len(members) >= FEW
            assert members <= set(survivors) - hostile
            assert int(values[0]) == sum(10 + index for index in members)
        refused += set(hand.refusals().values()) == {"R3.3"}
    assert opened == n - threshold(n) + 1
    assert refused == threshold(n) - 1


@pytest.mark.parametrize("defended", [True, False])
def test_attack_a06_a_round_so_small_that_an_insider_faces_two_others(
    monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        switched_off.bounds(monkeypatch)
        switched_off.suppliers(
            monkeypatch
        )  # R3.6 would find it later: everybody supplies the number of people
    small = Consortium(4, protection(max_colluding_sites=1, min_participants=1))
    hand = Hand(Machines(small, frozenset({3})))
    hand.open()
    hand.show_adverts()
    if defended:
        assert hand.refusals() == dict.fromkeys(range(4), "R1.7")
        assert hand.words == {}
        return
    hand.deliver()
    hand.show_survivors(of=(0, 1, 3), to=(0, 1, 3))
    hand.show_quorum()
    hand.open_gate()
    assert hand.opened().keys() == {frozenset({0, 1})}


@pytest.mark.parametrize("defended", [True, False])
def test_attack_a06_an_outcome_that_few_sites_supply_hides_in_a_sum_of_many(
    monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        switched_off.suppliers(monkeypatch)
    blocks = (PlannedBlock("fiq", 2, 2**40, "person", (frozenset({"fiq"}),)),)
    consortium = Consortium(
        N, blocks=blocks, items=("fiq",), supplies=lambda index: frozenset({"fiq"} if index < FEW else ())
    )
    honest = consortium.values
    consortium.values = (  # type: ignore[method-assign]
        lambda index, length: (
            honest(index, length) if index < FEW else honest(index, length) * (np.arange(length) == 0)
        )
    )
    hand = Hand(Machines(consortium))
    hand.open()
    hand.show_adverts()
    hand.deliver()
    hand.show_survivors(of=range(1, N), to=range(1, N))
    if defended:
        assert hand.refusals() == dict.fromkeys(range(1, N), "R3.6")
        assert hand.opened() == {}
        return
    hand.show_quorum()
    hand.open_gate()
    (values,) = hand.opened().values()
    assert int(values[1]) == 2**1 + 2**2  # two sites' outcome stands alone


# A10


def sybils(names: Sequence[str]) -> dict[str, Signer]:
    """Return identities that nobody admitted, with keys as good as any."""
    return {
        name: Signer(Identity(name, Role.SITE, 50 + place, identity_key(name).public), identity_key(name))
        for place, name in enumerate(names)
    }


def test_attack_a10_invented_sites_in_the_opening_and_in_l1() -> None:
    hand = Hand(Machines(consortium_of(N)))
    invented = sybils([f"sybil{number}" for number in range(10)])
    plan = hand.sites.plan
    approvals = [approve(signer, plan, Regimen("open_data"), frozenset()) for signer in invented.values()]
    reply = hand.say(0, replace(hand.opening, approvals=(*hand.opening.approvals, *approvals)))
    assert reply.refused == "M1"
    hand.open()
    adverts = [
        signer.sign(hand.context, advertise(hand.context, 50 + place, Seeds.draw(stream(name))))
        for place, (name, signer) in enumerate(invented.items())
    ]
    for index in range(N):
        assert hand.say(index, Adverts((*hand.envelopes(Kind.ADVERT), *adverts))).refused == "M1"
    assert Kind.SHARES not in hand.sent


def test_attack_a10_a_roster_with_ten_new_sites_counts_only_once_the_admin_has_pinned_it(
    tmp_path: Path,
) -> None:
    """The operator's own signature under it is not enough: a study of that roster finds no site."""
    consortium, first = desk.make_consortium(tmp_path), desk.make_site(tmp_path, "nyu")
    desk.admit(consortium, first)
    desk.pin(consortium, first)
    before = load_pin(first).newest
    desk.admit(consortium, *(desk.make_site(tmp_path, f"sybil{number}") for number in range(10)))
    held = load_pin(first)
    assert held.newest == before
    assert not any(name.startswith("sybil") for name in held.newest.identities)
    with pytest.raises(ConfigurationError, match="is not pinned here"):
        held.of_version(before.version + 10)


def test_attack_a10_an_invented_site_does_not_even_get_a_line(tmp_path: Path) -> None:
    async def script() -> grpc.StatusCode:
        async with Loopback(tmp_path, 3) as town:
            now = datetime.now(UTC)
            tls = certify(identity_key("sybil0"), "site0", now, timedelta(days=1))
            anchor = trust_anchor(HUB, identity_key(HUB).public, now)
            held = grpc.ssl_channel_credentials(anchor, tls.private_key, tls.certificate)
            options = [("grpc.ssl_target_name_override", HUB)]
            async with grpc.aio.secure_channel(town.line.target, held, options=options) as channel:
                stub: service_pb2_grpc.ConsortiumAsyncStub = service_pb2_grpc.ConsortiumStub(channel)
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await stub.GetStudy(service_pb2.GetStudyRequest(wire_version=1), timeout=10)
                assert town.wire.received == {}
                return error.value.code()

    with capture_logs():
        assert asyncio.run(script()) is grpc.StatusCode.UNAVAILABLE


def test_attack_a10_succeeds_where_ten_invented_sites_were_pinned() -> None:
    """Two honest sites among twelve: the others hold enough shares of everything, and nobody needs to be asked."""
    hand = Hand(Machines(consortium_of(12), frozenset(range(2, 12))))
    hand.open()
    hand.show_adverts()
    hand.deliver()
    assert hand.opened().keys() == {frozenset({0}), frozenset({1})}


# A14, A15


def unchecked(_plan: object, _blocks: object, values: Sequence[int], *_: object) -> int:
    """Believe every number."""
    return int(values[0])


@pytest.mark.parametrize("amount", [2**60, -(2**60)])
@pytest.mark.parametrize("defended", [True, False])
def test_attack_a14_a_site_adds_an_impossible_number(
    monkeypatch: pytest.MonkeyPatch, amount: int, defended: bool
) -> None:
    if not defended:
        monkeypatch.setattr("cohortsum.protocol.coordinator.check_result", unchecked)
    ended = coordinate(Machines(consortium_of(N), frozenset({2}), poisoned={2: (0, amount)}))
    if defended:
        assert isinstance(ended.state, Aborted)
        assert "out of its possible range: a site sent impossible numbers" in ended.state.reason
    else:
        assert isinstance(ended.state, Opened)
        assert int(ended.state.values[1]) == 31 + amount


def test_attack_a14_the_sites_find_it_too_where_they_go_on_from_the_sum() -> None:
    consortium = consortium_of(N)
    plan = replace(consortium.plan, seen=True)
    consortium.plan = plan
    consortium.approvals = {
        index: approve(signer, plan, Regimen("open_data"), frozenset())
        for index, signer in consortium.signers.items()
    }
    object.__setattr__(consortium.coordinator.setup, "plan", plan)
    for index in range(N):
        consortium.machines[index] = consortium.site(index)
    sites = Machines(consortium, frozenset({2}), poisoned={2: (0, 2**60)})
    hand = Hand(sites)
    hand.play()
    sites.betrayed.clear()  # the coordinator opens the sum of all
    closing, words = hand.closing(seen=True)
    replies = {index: hand.say(index, closing, words) for index in range(N)}
    assert {index: reply.refused for index, reply in replies.items()} == dict.fromkeys(range(N), "R5.4")
    assert sites.seen == {}


@pytest.mark.parametrize("sign", [1, -1])
def test_attack_a15_two_hundred_sites_at_the_greatest_values_do_not_wrap_and_one_unit_more_is_no_study(
    sign: int,
) -> None:
    n, people_each = 200, 10
    most = n * people_each
    study = protection(max_participants=most)
    bound = (2**63 - 1 - n) // most
    plan = plan_of(n, study, (PlannedBlock("powers", 2, bound, "person", ()),))
    with pytest.raises(ConfigurationError, match="could wrap modulo"):
        plan_of(n, study, (PlannedBlock("powers", 2, bound + 1, "person", ()),))
    one = np.full(3, sign * (bound * people_each + 1), dtype=np.int64)
    total = add_words((one.view(np.uint64) for _ in range(n)), 3).view(np.int64)
    assert int(total[1]) == sign * n * (bound * people_each + 1)
    assert plan.blocks[1].unit_bound == bound
    worse = np.full(3, sign * ((2**63 // n) + 1), dtype=np.int64)
    wrapped = add_words((worse.view(np.uint64) for _ in range(n)), 3).view(np.int64)
    assert int(wrapped[1]) * sign < 0  # without the proof a large sum comes out with the other sign


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("beyond", [0, 1])
def test_attack_a15_a_site_at_its_bound_is_summed_exactly_and_beyond_it_masks_nothing(
    sign: int, beyond: int
) -> None:
    bound = (2**63 - 1 - N) // 100
    consortium = Consortium(
        N,
        protection(max_participants=100),
        (PlannedBlock("powers", 2, bound, "person", ()),),
        people=lambda _: 20,
    )
    greatest = bound * 20 + 1 + beyond

    def values(index: int, length: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        held = np.full(length, sign * greatest, dtype=np.int64)
        held[0] = consortium.people(index)
        return held

    consortium.values = values  # type: ignore[method-assign]
    sites = Machines(consortium)
    if beyond:
        with pytest.raises(LocalProtocolError, match=r"^R2\.9"):
            coordinate(sites)
        return
    ended = coordinate(sites)
    assert isinstance(ended.state, Opened)
    assert [int(value) for value in ended.state.values[1:]] == [sign * N * greatest] * 2


# A17, A18


def others_shares(sites: Machines, of: int) -> Callable[[Message], Message]:
    """Answer with the shares of another hostile holder, as if its point were one's own."""

    def change(message: Message) -> Message:
        assert isinstance(message, GateShares)
        ((held),) = [betrayed.held for (_, index), betrayed in sites.betrayed.items() if index == of]
        return replace(message, gate={owner: held[owner].gate for owner in message.gate})

    return change


def of_the_other_kind(sites: Machines) -> Callable[[Message], Message]:
    """Answer for the gate with shares of the data seeds."""

    def change(message: Message) -> Message:
        assert isinstance(message, GateShares)
        ((held),) = [betrayed.held for (_, index), betrayed in sites.betrayed.items() if index == 0]
        return replace(message, gate={owner: held[owner].data for owner in message.gate})

    return change


def at_zero(sites: Machines) -> Callable[[Message], Message]:
    """Answer with the value at x = 0, the seed itself, where it is one's own."""

    def change(message: Message) -> Message:
        assert isinstance(message, GateShares)
        ((seeds),) = [betrayed.seeds for (_, index), betrayed in sites.betrayed.items() if index == 0]
        return replace(message, gate={**message.gate, 0: seeds["gate"]})

    return change


@pytest.mark.parametrize("lie", ["another holder's", "another kind", "at zero"])
@pytest.mark.parametrize("defended", [True, False])
def test_attack_a17_shares_at_another_point_or_of_another_kind(
    monkeypatch: pytest.MonkeyPatch, lie: str, defended: bool
) -> None:
    sites = Machines(consortium_of(N), frozenset({0, 1}))
    sites.bent = {
        (0, Kind.GATE_SHARES): {
            "another holder's": others_shares(sites, 1),
            "another kind": of_the_other_kind(sites),
            "at zero": at_zero(sites),
        }[lie]
    }
    if not defended:
        switched_off.commitments_to_shares(monkeypatch)
    ended = coordinate(sites)
    if defended:
        assert ended.blamed == {("R4.13", "site0")}
        assert isinstance(ended.state, Opened)
        assert ended.state.values.tolist() == sites.consortium.expected(range(N))
    else:  # the round is lost, and whoever dealt the share is blamed for it
        assert isinstance(ended.state, Aborted)
        assert "is not the one it committed to" in ended.state.reason
        assert not any(sender == "site0" for _, sender in ended.blamed)


@pytest.mark.parametrize("points", [(1, 2, 2, 3), (0, 1, 2, 3)], ids=["doubled", "zero"])
def test_attack_a17_points_that_are_doubled_or_zero_are_dealt_and_combined_by_nobody(
    points: tuple[int, ...],
) -> None:
    with pytest.raises(ShareError):
        split(5, [7, 11], points)
    if 0 in points:
        with pytest.raises(ShareError):
            combine(dict.fromkeys(points, 5), 4)


@pytest.mark.parametrize(
    "holders", [(0, 1, 2, 3, 3), (0, 1, 2, 3, 9)], ids=["a holder twice", "a holder who is none"]
)
def test_attack_a17_a_dealer_that_names_holders_of_its_own(holders: tuple[int, ...]) -> None:
    """It drops out; nobody else does."""

    def bent(message: Message) -> Message:
        assert isinstance(message, Shares)
        return replace(message, holders=holders)

    sites = Machines(consortium_of(N), frozenset({0}), {(0, Kind.SHARES): bent})
    ended = coordinate(sites)
    assert {sender for _, sender in ended.blamed} == {"site0"}
    assert {check for check, _ in ended.blamed} <= {"R1.8", "M2"}
    assert isinstance(ended.state, Opened)
    assert ended.state.survivors == (1, 2, 3, 4)


@pytest.mark.parametrize("degree", [1, -1])
def test_attack_a17_a_dealer_takes_a_polynomial_of_another_degree(
    monkeypatch: pytest.MonkeyPatch, degree: int
) -> None:
    """One more: t shares give no seed that it committed to, and it is named. One less: fewer sites know its own seeds, no others'."""
    sites = Machines(consortium_of(N), frozenset({0}))

    def dealt(
        seeds: SharedSeeds, t: int, holders: Sequence[int], randomness: Callable[[int], bytes]
    ) -> Mapping[int, HeldShares]:
        state = sites.machine(0).state
        mine = isinstance(state, Advertised) and state.own is seeds
        return deal(seeds, t + degree if mine else t, holders, randomness)

    monkeypatch.setattr(site_machine, "deal", dealt)
    ended = coordinate(sites)
    if degree > 0:
        assert isinstance(ended.state, Aborted)
        assert ended.state.reason == "R4.6: the gate seed of site index 0 is not the one it committed to"
    else:
        assert isinstance(ended.state, Opened)
        assert ended.state.values.tolist() == sites.consortium.expected(range(N))


def wrong(message: Message) -> Message:
    assert isinstance(message, GateShares)
    return replace(message, gate={owner: share ^ 1 for owner, share in message.gate.items()})


@pytest.mark.parametrize("bad", [1, 2, 3])
def test_attack_a18_wrong_shares_are_survived_up_to_n_less_t_and_one_more_opens_nothing(bad: int) -> None:
    n = 7
    assert n - threshold(n) == 2
    bent = {(index, Kind.GATE_SHARES): wrong for index in range(bad)}
    sites = Machines(consortium_of(n), frozenset(range(bad)), bent)
    ended = coordinate(sites)
    assert ended.blamed == {("R4.13", f"site{index}") for index in range(bad)}
    if bad <= 2:
        assert isinstance(ended.state, Opened)
        assert ended.state.values.tolist() == sites.consortium.expected(range(n))
    else:
        assert isinstance(ended.state, Aborted)
        assert "too few sites answered in time" in ended.state.reason


def test_attack_a18_succeeds_where_shares_are_not_compared_with_commitments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One wrong share among seven spoils the round, and nobody knows whose it was."""
    switched_off.commitments_to_shares(monkeypatch)
    ended = coordinate(Machines(consortium_of(7), frozenset({0}), {(0, Kind.GATE_SHARES): wrong}))
    assert isinstance(ended.state, Aborted)
    assert not any(sender == "site0" for _, sender in ended.blamed)


def test_attack_a18_a_node_that_answers_with_wrong_shares_over_grpc(tmp_path: Path) -> None:
    """Its answer arrives while another is still needed: one of the four that suffice is held until then."""
    refused: set[tuple[object, object]] = set()

    async def script() -> None:
        async with WithHostileNodes(tmp_path, 5, {(0, Kind.GATE_SHARES): wrong}) as town:
            held = town.hold("site4", "GATE_SHARES")
            ending = town.start()
            while not refused:
                refused.update(
                    (line["site"], line["sentence"]) for line in logs if line["event"] == "message.not_taken"
                )
                await asyncio.sleep(0.01)
            held.released.set()
            outcome = await ending
            assert outcome.document is not None, outcome.reason
            check_pooled(outcome.document, range(5))

    with capture_logs() as logs:
        asyncio.run(asyncio.wait_for(script(), LIMIT_S))
    assert len(refused) == 1
    ((site, sentence),) = refused
    assert site == "site0"
    assert "refused (R4.13)" in str(sentence)


# A22


@pytest.mark.parametrize("dropout", [None, 1])
@pytest.mark.parametrize("shared_key", [False, True], ids=["keys of its own", "a key that all sites share"])
def test_attack_a22_a_site_and_the_coordinator_hold_no_key_that_opens_a_third(
    dropout: int | None, shared_key: bool
) -> None:
    """All that one site knows, with all that travels, gives the total. A secret in every site's kit gives everybody."""
    hand = Hand(Machines(consortium_of(N, 1), frozenset({4})))
    hand.open()
    hand.show_adverts()
    hand.deliver()
    survivors = [index for index in range(N) if index != dropout]
    hand.show_survivors(of=survivors, to=survivors)
    hand.show_quorum()
    hand.open_gate()
    loot = hand.loot()
    if shared_key:  # as if the kits' one secret were behind the sites' generators
        for index in range(N - 1):
            seeds = Seeds.draw(stream(f"round/{index}/1"))
            for kind in ("mask", "gate", "data"):
                loot.guessed[kind, index] = seeds.element(kind)
        assert loot.opened().keys() == {frozenset({index}) for index in range(N - 1)}
        return
    honest = frozenset(survivors) - {4}
    assert loot.opened().keys() == {honest}
    for few in (1, 2):
        assert not any(frozenset(some) in loot.opened() for some in combinations(range(N - 1), few))
