"""The operator's look into the store, and `cohortsum coordinator status`: every study, and an exit code for monitoring."""

import json
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cohortsum.coordinator.config import load_coordinator_config
from cohortsum.coordinator.overview import LATELY, STUCK, OverviewLine, overview
from cohortsum.coordinator.store import AnswerRow, PresenceRow, RoundRow, Store, StudyRow
from cohortsum.protocol.approvals import approve, decline
from cohortsum.protocol.codec import packet_to_bytes
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Packet, Regimen
from cohortsum.study.planning import plan_study
from tests.admin import desk
from tests.edges.harness import pinned_roster, signed_study, study_with
from tests.protocol.consortium import identity_key

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@dataclass
class Shelf:
    """A consortium's folder whose store a test fills."""

    folder: Path

    @property
    def store(self) -> Store:
        return Store(load_coordinator_config(self.folder / "coordinator.yaml").store)

    def study(
        self,
        name: str,
        state: str,
        submitted: datetime,
        closed: datetime | None = None,
        reason: str = "",
        yes: tuple[int, ...] = (),
        no: tuple[int, ...] = (),
        attempts: int = 0,
    ) -> None:
        study, signed = signed_study(study_with(study=name))
        roster = pinned_roster(5)
        plan = plan_study(study, roster).round
        digest = study.digest.hex()
        with closing(self.store) as store, store.transaction() as session:
            session.add(
                StudyRow(
                    digest=digest,
                    name=name,
                    version=1,
                    canonical=signed.canonical,
                    statistician=signed.statistician,
                    signature=signed.signature,
                    state=state,
                    reason=reason,
                    submitted=submitted,
                    closed=closed,
                )
            )
            session.flush()
            for index in (*yes, *no):
                site = f"site{index}"
                signer = Signer(roster.identities[site], identity_key(site))
                answer = (
                    approve(signer, plan, Regimen("open_data"), frozenset())
                    if index in yes
                    else decline(signer, plan)
                )
                packet = packet_to_bytes(Packet(answer))
                session.add(AnswerRow(study=digest, site=site, packet=packet, received=submitted))
            for number in range(1, attempts + 1):
                session.add(
                    RoundRow(
                        context=f"{name}-{number}",
                        study=digest,
                        round_id="0" * 32,
                        iteration=1,
                        attempt=number,
                        state="aborted",
                        opened=submitted,
                    )
                )

    def heard(self, site: str, moment: datetime) -> None:
        with closing(self.store) as store, store.transaction() as session:
            session.add(PresenceRow(site=site, seen=moment))

    def lines(self, now: datetime = NOW) -> tuple[OverviewLine, ...]:
        return overview(load_coordinator_config(self.folder / "coordinator.yaml"), now)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(desk.make_consortium(tmp_path))


def test_a_study_is_shown_with_who_approved_and_who_was_heard_of_lately(shelf: Shelf) -> None:
    shelf.study("thickness", "gathering", NOW - 2 * HOUR, NOW - HOUR, yes=(3, 0, 1), no=(2,), attempts=2)
    shelf.heard("site0", NOW - LATELY + SECOND)
    shelf.heard("site1", NOW - LATELY)
    shelf.heard("site2", NOW)  # takes no part
    assert shelf.lines() == (
        OverviewLine(
            "thickness",
            1,
            "gathering",
            NOW - HOUR,
            ("site0", "site1", "site3"),
            ("site0",),
            2,
            "",
            needs_a_look=False,
        ),
    )


def test_an_open_window_shows_when_it_will_close(shelf: Shelf) -> None:
    shelf.study("one", "enrolling", NOW - HOUR)
    (line,) = shelf.lines()
    gather = timedelta(seconds=signed_study()[0].deadlines_s.gather)
    assert line.closes == NOW - HOUR + gather


def test_studies_come_in_the_order_of_their_submission(shelf: Shelf) -> None:
    shelf.study("second", "enrolling", NOW - HOUR)
    shelf.study("first", "released", NOW - 3 * HOUR, NOW - 2 * HOUR)
    shelf.study("third", "enrolling", NOW)
    assert [line.name for line in shelf.lines()] == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("state", "age", "look"),
    [
        ("gathering", STUCK, False),
        ("gathering", STUCK + SECOND, True),
        ("running", STUCK + SECOND, True),
        ("released", 100 * STUCK, False),
        ("ended", 100 * STUCK, False),
        ("withdrawn", 100 * STUCK, False),
        ("superseded", 100 * STUCK, False),
    ],
)
def test_a_study_that_is_not_over_a_day_after_its_window_needs_a_look(
    shelf: Shelf, state: str, age: timedelta, look: bool
) -> None:
    shelf.study("one", state, NOW - age - HOUR, NOW - age)
    (line,) = shelf.lines()
    assert line.needs_a_look is look
    assert line.note == ("enrolment ended more than a day ago" if look else "")


def test_why_a_study_ended_is_its_note(shelf: Shelf) -> None:
    shelf.study("one", "ended", NOW - HOUR, NOW, reason="2 sites take part, 3 are required")
    (line,) = shelf.lines()
    assert (line.note, line.needs_a_look) == ("2 sites take part, 3 are required", False)


def test_the_command_shows_every_study_and_exits_with_0(shelf: Shelf) -> None:
    now = datetime.now(UTC)
    shelf.study("one", "enrolling", now, yes=(0, 1))
    shelf.study("two", "ended", now - HOUR, now, reason="[b]nobody[/b]")
    shown = desk.run("coordinator", "status", shelf.folder)
    assert shown.code == 0
    words = shown.out.split()
    for word in ("one", "two", "enrolling", "ended", "site0,", "site1", "[b]nobody[/b]"):
        assert word in words, shown.out


def test_the_command_exits_with_1_where_a_study_needs_a_look(shelf: Shelf) -> None:
    now = datetime.now(UTC)
    shelf.study("one", "enrolling", now)
    assert desk.run("coordinator", "status", shelf.folder).code == 0
    shelf.study("two", "running", now - 3 * STUCK, now - 2 * STUCK)
    for more in ((), ("--json",)):
        assert desk.run("coordinator", "status", shelf.folder, *more).code == 1


def test_json_is_for_monitoring(shelf: Shelf) -> None:
    now = datetime.now(UTC)
    shelf.study("one", "gathering", now - HOUR, now, yes=(0, 1), attempts=1)
    shelf.heard("site1", now)
    shown = desk.run("coordinator", "status", shelf.folder, "--json")
    (line,) = json.loads(shown.out)
    assert datetime.fromisoformat(line.pop("closes")) == now
    assert line == {
        "name": "one",
        "version": 1,
        "state": "gathering",
        "approved": ["site0", "site1"],
        "lately": ["site1"],
        "attempts": 1,
        "note": "",
        "needs_a_look": False,
    }


def test_a_consortium_without_studies_is_an_empty_list(shelf: Shelf) -> None:
    shown = desk.run("coordinator", "status", shelf.folder, "--json")
    assert (shown.code, json.loads(shown.out)) == (0, [])
