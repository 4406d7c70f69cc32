"""A site's session without a network: when it stays out, when it stops, and that nothing leaves before it is on disk."""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cohortsum.crypto.errors import AuthenticationError, ConfigurationError, PolicyError
from cohortsum.crypto.masks import Vector, add_masks
from cohortsum.node.config import PolicyConfig, Thresholds
from cohortsum.node.joining import Site, still_waived
from cohortsum.node.session import StudySession
from cohortsum.protocol.approvals import decline
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import Aborted, CoordinatorSetup, CoordinatorState, Opened
from cohortsum.protocol.effects import Combine, CoordinatorEffect, Deliver, Send
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import add_words, words_digest
from cohortsum.protocol.messages import Abort, Kind, Packet, WaivedRule
from cohortsum.study.definition.signing import SignedStudy, sign_study
from cohortsum.study.planning import plan_study
from tests.edges.harness import (
    HUB,
    STATISTICIAN,
    approving,
    make_site,
    pinned_roster,
    signed_study,
    study_with,
)
from tests.protocol.consortium import identity_key

ROSTER = pinned_roster(4)
STUDY, SIGNED = signed_study()
PLAN = plan_study(STUDY, ROSTER)
KEY = RoundKey(b"r" * 16, 1, 1)

Change = Callable[[Site], Site]


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as held:
        yield held


def site_in(folder: Path, index: int, pool: ThreadPoolExecutor) -> Site:
    return make_site(folder / f"site{index}", index, ROSTER, STUDY, pool)


@contextmanager
def session_of(site: Site) -> Generator[StudySession]:
    session = StudySession(site)
    try:
        yield session
    finally:
        session.close()


def table_of(site: Site) -> Path:
    (table,) = site.tables.tables.values()
    assert table.path is not None
    return table.path


def same(site: Site) -> Site:
    return site


class Round:
    """Four sessions and a coordinator's machine in memory; what every site sent is kept by index."""

    def __init__(
        self, folder: Path, pool: ThreadPoolExecutor, change: dict[int, Change] | None = None
    ) -> None:
        changes = change or {}
        self.sites = [changes.get(index, same)(site_in(folder, index, pool)) for index in range(4)]
        self.sessions = [StudySession(site) for site in self.sites]
        self.approvals = {
            index: session.consider(SIGNED).envelope for index, session in enumerate(self.sessions)
        }
        setup = CoordinatorSetup(
            Signer(ROSTER.coordinator, identity_key(HUB)), ROSTER, PLAN.round, self.approvals
        )
        self.hub = CoordinatorRound(setup, KEY)
        self.context = self.hub.fixed.context
        self.uploads: dict[int, Vector] = {}
        self.sent: list[tuple[int, Kind]] = []
        self.delivered: list[tuple[int, Packet]] = []
        self.before: Callable[[int, Packet], None] = lambda _index, _packet: None
        self.on_send: Callable[[int, Kind], None] = lambda _index, _kind: None
        self._queue: deque[tuple[int, Packet]] = deque()

    def play(self) -> CoordinatorState:
        """Play to the end; a deadline passes whenever everything is quiet."""
        self._at_hub(self.hub.open())
        while True:
            while self._queue:
                index, packet = self._queue.popleft()
                self.before(index, packet)
                self.delivered.append((index, packet))
                self.deliver(index, packet)
            step = self.hub.step
            if step is None:
                self.close()
                return self.hub.state
            self._at_hub(self.hub.deadline_passed(step))

    def deliver(self, index: int, packet: Packet) -> tuple[Send, ...]:
        sends = self.sessions[index].handle(packet)
        for send in sends:
            self.on_send(index, send.packet.envelope.kind)
            self.sent.append((index, send.packet.envelope.kind))
            self._at_hub(self.hub.receive(send.packet))
            if send.words is not None:
                self.uploads[index] = send.words
                self._at_hub(self.hub.uploaded(index, words_digest(send.words)))
        return sends

    def close(self) -> None:
        for session, site in zip(self.sessions, self.sites, strict=True):
            session.close()
            site.ledger.close()

    def kinds(self, index: int) -> list[Kind]:
        return [kind for sender, kind in self.sent if sender == index]

    def _at_hub(self, effects: tuple[CoordinatorEffect, ...]) -> None:
        for effect in effects:
            match effect:
                case Deliver():
                    self._queue.append((effect.receiver, effect.packet))
                case Combine():
                    total = add_words((self.uploads[index] for index in effect.survivors), self.hub.length)
                    add_masks(total, effect.keys.plus, effect.keys.minus)
                    self._at_hub(self.hub.combined(total))
                case _:
                    pass


EVERYTHING = [Kind.ADVERT, Kind.SHARES, Kind.MASKED, Kind.CONSISTENCY, Kind.GATE_SHARES, Kind.DATA_SHARES]


def opened(state: CoordinatorState) -> Opened:
    assert isinstance(state, Opened), state
    return state


def test_four_sessions_open_the_sum_of_their_people(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    held = Round(tmp_path, pool)
    state = opened(held.play())
    assert (state.survivors, state.people) == ((0, 1, 2, 3), 4 + 8 + 16 + 32)
    assert all(held.kinds(index) == EVERYTHING for index in range(4))


def test_every_record_is_in_the_ledger_before_its_message_leaves(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    needed = {
        Kind.ADVERT: (),
        Kind.SHARES: (),
        Kind.MASKED: ("spent",),
        Kind.CONSISTENCY: ("spent", "signed"),
        Kind.GATE_SHARES: ("spent", "signed", "answered gate"),
        Kind.DATA_SHARES: ("spent", "signed", "answered gate", "answered data"),
    }
    held = Round(tmp_path, pool)

    def check(index: int, kind: Kind) -> None:
        ledger = held.sites[index].ledger
        assert ledger.seen_rounds() == {(KEY.round_id, KEY.iteration, KEY.attempt)}
        assert ledger.deeds(held.context) == needed[kind]

    held.on_send = check
    opened(held.play())


def test_a_ledger_that_takes_nothing_lets_nothing_leave(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    held = Round(tmp_path, pool)
    held.sites[3].ledger.close()
    assert opened(held.play()).survivors == (0, 1, 2)
    assert held.kinds(3) == []


def test_data_that_changed_after_approval_keep_the_site_out_and_nothing_of_them_is_sent(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    held = Round(tmp_path, pool)

    def tamper(index: int, packet: Packet) -> None:
        if index == 3 and packet.envelope.kind is Kind.DELIVERY:
            table = table_of(held.sites[3])
            table.write_text(table.read_text().replace("control", "case", 1))
            assert held.sites[3].ledger.deeds(held.context) == ()

    held.before = tamper
    with capture_logs() as logs:
        state = opened(held.play())
    assert (state.survivors, state.people) == ((0, 1, 2), 4 + 8 + 16)
    assert held.kinds(3) == [Kind.ADVERT, Kind.SHARES]
    (line,) = [line for line in logs if line["event"] == "round.over" and line["site"] == "site3"]
    assert "changed after approval" in line["reason"]


def test_a_table_that_vanished_after_approval_keeps_the_site_out(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    held = Round(tmp_path, pool)
    table_of(held.sites[3]).unlink()
    assert opened(held.play()).survivors == (0, 1, 2)
    assert held.kinds(3) == [Kind.ADVERT, Kind.SHARES]


@pytest.mark.parametrize(
    ("thresholds", "last"),
    [
        (Thresholds(min_sites=5), Kind.ADVERT),
        (Thresholds(min_participants=10_000), Kind.GATE_SHARES),
    ],
    ids=["more sites than there are", "more people than there are"],
)
def test_a_site_whose_own_floor_is_not_met_answers_no_further(
    tmp_path: Path, pool: ThreadPoolExecutor, thresholds: Thresholds, last: Kind
) -> None:
    policy = PolicyConfig(profile="open_data", thresholds=thresholds)
    held = Round(tmp_path, pool, {3: lambda site: replace(site, policy=policy)})
    state = opened(held.play())
    assert held.kinds(3)[-1] is last
    assert (3 in state.survivors) is (last is Kind.GATE_SHARES)


def test_no_result_is_opened_when_every_site_s_own_floor_is_not_met(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    policy = PolicyConfig(profile="open_data", thresholds=Thresholds(min_participants=10_000))
    held = Round(tmp_path, pool, dict.fromkeys(range(4), lambda site: replace(site, policy=policy)))
    state = held.play()
    assert isinstance(state, Aborted)
    assert Kind.DATA_SHARES not in {kind for _, kind in held.sent}


def test_a_message_that_anybody_could_have_sent_costs_nothing(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    held = Round(tmp_path, pool)

    def disturb(index: int, packet: Packet) -> None:
        if index != 2:
            return
        forged = replace(packet.envelope, signature=bytes(64))
        stray = held.sites[1].signer.sign(held.context, Abort("stop"))
        assert held.sessions[2].handle(Packet(forged, packet.attachments)) == ()
        assert held.sessions[2].handle(Packet(stray)) == ()

    held.before = disturb
    with capture_logs() as logs:
        assert opened(held.play()).survivors == (0, 1, 2, 3)
    checks = [line["check"] for line in logs if line["event"] == "message.refused"]
    packets = [packet for index, packet in held.delivered if index == 2]
    assert checks == [
        "M1",
        "M4",
        *["M1"] * 2 * (len(packets) - 1),
    ]  # before the opening there is no round to abort


def test_a_packet_delivered_twice_has_one_effect(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    held = Round(tmp_path, pool)

    def repeat(index: int, packet: Packet) -> None:
        del packet
        earlier = [delivered for at, delivered in held.delivered if at == index == 2]
        if earlier:
            held.sessions[2].handle(earlier[-1])

    held.before = repeat
    assert opened(held.play()).survivors == (0, 1, 2, 3)
    assert held.kinds(2) == EVERYTHING


def test_a_restarted_site_leaves_the_open_round_and_never_enters_it_again(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    held = Round(tmp_path, pool)

    def restart(index: int, packet: Packet) -> None:
        if index == 2 and packet.envelope.kind is Kind.DELIVERY:
            held.sessions[2].close()
            held.sessions[2] = StudySession(held.sites[2])
            assert held.sessions[2].consider(SIGNED).envelope == held.approvals[2]
            opening = next(sent for at, sent in held.delivered if at == 2)
            assert held.sessions[2].handle(opening) == ()

    held.before = restart
    with capture_logs() as logs:
        assert opened(held.play()).survivors == (0, 1, 3)
    assert held.kinds(2) == [Kind.ADVERT, Kind.SHARES]
    assert "R0.3" in [line["check"] for line in logs if line["event"] == "message.refused"]


def test_a_study_that_has_expired_is_declined(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    study, signed = signed_study(study_with(expires="2020-01-01"))
    site = replace(site_in(tmp_path, 0, pool), decision=approving(study.digest))
    with session_of(site) as session, capture_logs() as logs:
        answer = session.consider(signed)
    assert answer == Packet(decline(site.signer, plan_study(study, ROSTER).round))
    (line,) = [line for line in logs if line["event"] == "study.stays_out"]
    assert "expired on 2020-01-01" in line["reason"]
    site.ledger.close()


def test_a_study_expires_at_the_end_of_its_last_day(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    today = datetime.now(UTC).date().isoformat()
    study, signed = signed_study(study_with(expires=today))
    site = replace(site_in(tmp_path, 0, pool), decision=approving(study.digest))
    with session_of(site) as session:
        assert session.consider(signed).envelope.kind is Kind.APPROVAL
    site.ledger.close()


DECLINES: dict[str, tuple[Change, str]] = {
    "not approved": (lambda site: replace(site, decision=approving(b"x" * 32)), "not approved here"),
    "another epoch": (lambda site: replace(site, epoch="2026-12"), "snapshot is 2026-12"),
    "fewer people than the floor": (
        lambda site: replace(
            site,
            policy=PolicyConfig(profile="open_data", thresholds=Thresholds(min_participants_per_site=5)),
        ),
        "min_participants_per_site 5",
    ),
    "an analysis that is not listed": (
        lambda site: replace(site, policy=PolicyConfig(profile="open_data", statistics=("histogram",))),
        "does not list summary",
    ),
    "more colluding sites than the study reckons with": (
        lambda site: replace(
            site, policy=PolicyConfig(profile="open_data", thresholds=Thresholds(max_colluding_sites=1))
        ),
        "1 colluding",
    ),
    "fewer people than the rules of the profile ask for": (
        lambda site: replace(site, policy=PolicyConfig()),
        "min_participants_per_site 20",
    ),
}


@pytest.mark.parametrize("name", DECLINES)
def test_a_refusal_of_policy_is_declined_with_the_same_bytes_and_its_reason_stays_in_the_log(
    tmp_path: Path, pool: ThreadPoolExecutor, name: str
) -> None:
    change, reason = DECLINES[name]
    site = change(site_in(tmp_path, 0, pool))
    with session_of(site) as session, capture_logs() as logs:
        assert session.consider(SIGNED) == Packet(decline(site.signer, PLAN.round))
        assert session.handle(Packet(identity(HUB).sign(b"c" * 32, Abort("stop")))) == ()
    (line,) = [line for line in logs if line["event"] == "study.stays_out"]
    assert reason in line["reason"]
    site.ledger.close()


def test_an_epoch_label_whose_content_changed_is_declined(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    site = site_in(tmp_path, 0, pool)
    with session_of(site) as session:
        assert session.consider(SIGNED).envelope.kind is Kind.APPROVAL
    table = table_of(site)
    table.write_text(table.read_text() + "new,case,50,2.5\n")
    with session_of(site) as session:
        assert session.consider(SIGNED) == Packet(decline(site.signer, PLAN.round))
    site.ledger.close()


def identity(name: str) -> Signer:
    return Signer(ROSTER.identities[name], identity_key(name))


@pytest.mark.parametrize(
    "signed",
    [
        replace(SIGNED, signature=bytes([SIGNED.signature[0] ^ 1]) + SIGNED.signature[1:]),
        replace(SIGNED, canonical=SIGNED.canonical.replace(b"Loopback", b"Loopbacc")),
        replace(SIGNED, statistician=HUB),
        replace(SIGNED, statistician="nobody"),
        sign_study(STUDY, HUB, identity_key(HUB)),
        sign_study(STUDY, STATISTICIAN, identity_key("stranger")),
    ],
    ids=[
        "altered signature",
        "altered study",
        "another signer's name",
        "an unknown signer",
        "signed by the coordinator",
        "signed by a stranger",
    ],
)
def test_a_study_that_no_statistician_signed_is_not_answered_at_all(
    tmp_path: Path, pool: ThreadPoolExecutor, signed: SignedStudy
) -> None:
    site = site_in(tmp_path, 0, pool)
    with session_of(site) as session, pytest.raises(AuthenticationError):
        session.consider(signed)
    site.ledger.close()


def test_a_study_for_another_roster_version_is_not_answered(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    study, signed = signed_study(study_with(roster="2"))
    site = replace(site_in(tmp_path, 0, pool), decision=approving(study.digest))
    with session_of(site) as session, pytest.raises(ConfigurationError, match="roster version 2"):
        session.consider(signed)
    site.ledger.close()


def test_closing_removes_the_private_copy_of_the_data(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    site = site_in(tmp_path, 0, pool)
    session = StudySession(site)
    session.consider(SIGNED)
    folder = tmp_path / "site0"
    assert [path for path in folder.iterdir() if path.is_dir()]
    session.close()
    session.close()
    assert {path.name for path in folder.iterdir() if path.is_dir()} == set()
    site.ledger.close()


def test_a_site_that_stays_out_keeps_no_copy_of_its_data(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    site = DECLINES["fewer people than the floor"][0](site_in(tmp_path, 0, pool))
    with session_of(site) as session:
        session.consider(SIGNED)
        assert [path for path in (tmp_path / "site0").iterdir() if path.is_dir()] == []
    site.ledger.close()


def test_nothing_is_sent_under_a_waiver_that_has_ended() -> None:
    held = WaivedRule("group_10", "off", "a board agreed", "ann", "2999-12-31")
    still_waived([held])
    with pytest.raises(PolicyError, match="the waiver of group_10 ended on 2020-01-01"):
        still_waived([held, replace(held, until="2020-01-01")])
