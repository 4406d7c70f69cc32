"""Whole sessions of nodes, with ledger, tables and policy, without a socket: what a hostile coordinator meets at a site."""

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from structlog.testing import capture_logs

from cohortsum.node.decisions import Decision
from cohortsum.node.joining import Site
from cohortsum.node.ledger import Ledger
from cohortsum.node.session import StudySession
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Envelope, Kind, Packet
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import Roster
from cohortsum.study.planning import plan_study
from tests.attacks.sites import Betrayed, Reply
from tests.edges.harness import HUB, STUDY, make_site, people_at, pinned_roster, signed_study
from tests.protocol.consortium import identity_key

Change = Callable[[Site], Site]


def yes(digest: bytes) -> Decision | None:
    """Return the decision of an admin who approves every study."""
    return Decision(digest, "study", 1, True, None, None, "admin", datetime.now(UTC))


class Homes:
    """The folders, tables and ledgers of some sites, which outlive studies and sessions; a context manager.

    Args:
        folder: of these sites alone.
        count: how many.
        change: what to change about single sites, by index.
        on_disk: whether ledgers are files, so that they can be set back; otherwise they live in memory.
    """

    def __init__(
        self, folder: Path, count: int, change: Mapping[int, Change] | None = None, on_disk: bool = False
    ) -> None:
        self.folder = folder
        self.roster, self.pool = pinned_roster(count), ThreadPoolExecutor(2)
        study, _ = signed_study()
        self.sites: dict[int, Site] = {}
        for index in range(count):
            site = make_site(folder / f"site{index}", index, self.roster, study, self.pool)
            site = replace(site, decision=yes)
            if not on_disk:
                site.ledger.close()
                site = replace(site, ledger=Ledger(None))
            self.sites[index] = site if change is None or index not in change else change[index](site)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for site in self.sites.values():
            site.ledger.close()
        self.pool.shutdown()

    def keep_ledger(self, index: int) -> Path:
        """Return a copy of a site's ledger as it is now, as a backup of its machine holds it."""
        kept = self.folder / f"ledger{index}.kept"
        with (
            closing(sqlite3.connect(self.folder / f"site{index}" / "ledger.db")) as now,
            closing(sqlite3.connect(kept)) as copy,
        ):
            now.backup(copy)
        return kept

    def set_back(self, index: int, kept: Path) -> None:
        """Put an earlier copy in the place of a site's ledger."""
        site, path = self.sites[index], self.folder / f"site{index}" / "ledger.db"
        site.ledger.close()
        for left in path.parent.glob("ledger.db*"):
            left.unlink()
        shutil.copy(kept, path)
        self.sites[index] = replace(site, ledger=Ledger(path))


class Sessions:
    """One study at the sites of `Homes`; a context manager.

    Attributes:
        reasons: why sites stay out, by index; a coordinator never hears them.
    """

    def __init__(self, homes: Homes, text: str = STUDY) -> None:
        self.homes = homes
        self.study, self.signed = signed_study(text)
        self.sessions: dict[int, StudySession] = {}
        self.reasons: dict[int, str] = {}
        self.approvals: dict[int, Envelope] = {}
        self.betrayed: Mapping[tuple[bytes, int], Betrayed] = {}
        for index in homes.sites:
            self.start(index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with capture_logs():
            for session in self.sessions.values():
                session.close()

    @property
    def roster(self) -> Roster:
        return self.homes.roster

    @property
    def plan(self) -> RoundPlan:
        return plan_study(self.study, self.roster).round

    @property
    def hub(self) -> Signer:
        return Signer(self.roster.coordinator, identity_key(HUB))

    def start(self, index: int) -> None:
        """Start a node, or start it again: what it had in memory is gone."""
        with capture_logs():
            if index in self.sessions:
                self.sessions[index].close()
            self.sessions[index] = StudySession(self.homes.sites[index])
            answer = self.sessions[index].consider(self.signed).envelope
        if answer.kind is Kind.APPROVAL:
            self.approvals[index] = answer
        else:
            self.reasons[index] = self.sessions[index].reason

    def people(self, index: int) -> int:
        return people_at(index)

    def tell(self, index: int, packet: Packet) -> Reply:
        with capture_logs() as logs:
            sends = self.sessions[index].handle(packet)
        said = [dict(line) for line in logs]
        stopped = next((str(line["reason"]) for line in said if line["event"] == "round.over"), "")
        return Reply(sends, refusal(said, f"site{index}"), stopped=stopped)


def refusal(logs: list[dict[str, object]], site: str) -> str:
    """Return the check under which a node's log says that it refused a message, or nothing."""
    return next(
        (str(line["check"]) for line in logs if line["event"] == "message.refused" and line["site"] == site),
        "",
    )
