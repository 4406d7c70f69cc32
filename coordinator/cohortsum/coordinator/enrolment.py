"""Who takes part in one study: the sites' newest answers until the window closes, and who is present before an attempt.

A window closes once and for good: the moment is written down before anything is made of it, and a restart does not open it
again. Afterwards an approval is refused, and sites can only get fewer, by a revocation. A site that is not present when an
attempt opens would only hold it up. All this decides liveness; thresholds and survivor sets are checked by the sites.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog

from cohortsum.coordinator.clock import Clock, before, tell
from cohortsum.coordinator.presence import Presence
from cohortsum.coordinator.record import StudyRecord
from cohortsum.crypto.errors import ConfigurationError, LimitError, RemoteProtocolError
from cohortsum.protocol.approvals import read_answer
from cohortsum.protocol.codec import MAX_PAYLOAD_BYTES
from cohortsum.protocol.messages import Envelope, Packet
from cohortsum.protocol.roster import Roster
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.disclosure.regimens import read_waivers
from cohortsum.study.enrolment import closes_at, closes_early, too_late
from cohortsum.study.planning import StudyPlan

log: structlog.stdlib.BoundLogger = structlog.get_logger()


class Enrolment:
    """The answers to one study, and the presence of its sites.

    Args:
        plan: the study's plan.
        roster: the roster it names, with the sites that count now.
        record: its rows in the store.
        clock: for both waits.
        enrol_s: how long the window stays open, from submission or until everybody has answered; None takes the study's.
        gather_s: how long approving sites are waited for; None takes the study's.

    Attributes:
        closes: when the window closes at the latest, UTC; `datetime.max` until the study is taken up.
        presence: who is there now.
        changed: tells of answers, presence, and whatever else a wait of this study looks at.
    """

    def __init__(
        self,
        plan: StudyPlan,
        roster: Roster,
        record: StudyRecord,
        clock: Clock,
        enrol_s: float | None = None,
        gather_s: float | None = None,
    ) -> None:
        self.closes = datetime.max
        self.presence = Presence()
        self.changed = asyncio.Condition()
        self._plan, self._roster, self._record, self._clock = plan, roster, record, clock
        self._enrol_s = enrol_s
        self._gather_s = gather_s or plan.study.deadlines_s.gather
        self._names = _names(roster)
        self._answers: dict[int, Envelope | None] = {}
        self._closed: datetime | None = None
        self._ended = False
        self._log = log.bind(study=plan.study.study, version=plan.study.version)

    @property
    def names(self) -> Mapping[int, str]:
        """The sites that count now, by roster index."""
        return self._names

    @property
    def answers(self) -> Mapping[int, bool]:
        """Whether each site that has answered takes part, by roster index."""
        return {index: held is not None for index, held in self._answers.items()}

    @property
    def approvals(self) -> Mapping[int, Envelope]:
        """The approvals of the sites that count now, by roster index."""
        return {index: held for index, held in sorted(self._answers.items()) if held is not None}

    def remember(self, signed: SignedStudy) -> None:
        """Begin, or take up what was known before a restart."""
        held = self._record.remember(signed, self._clock.now())
        self.closes = (
            closes_at(self._plan.study, held.submitted)
            if self._enrol_s is None
            else held.submitted + timedelta(seconds=self._enrol_s)
        )
        self._closed = held.closed
        for envelope in held.answers:
            if envelope.sender in self._roster.identities:  # not denied since
                index, approval = read_answer(envelope, self._plan.round, self._roster)
                self._answers[index] = envelope if approval is not None else None

    async def take(self, packet: Packet) -> None:
        """Take a site's answer.

        Raises RemoteProtocolError (A1) after the window, A2 for a profile or waivers that mean nothing, or M1 to M4, R0.1; LimitError for
        an answer so long that those of all sites would not fit into the opening of a round.
        """
        most = MAX_PAYLOAD_BYTES // (2 * len(self._roster.sites))
        if len(packet.envelope.payload) > most:
            raise LimitError(
                f"an answer of more than {most} bytes; waive fewer rules, with shorter reasons",
                "answer_bytes",
            )
        index, approval = read_answer(packet.envelope, self._plan.round, self._roster)
        self.presence.seen(index)
        held = packet.envelope if approval is not None else None
        if index in self._answers and self._answers[index] == held:
            return
        if self._closed is not None or self._ended:
            if held is None:
                return  # it stays out of the round by itself
            raise RemoteProtocolError("A1", too_late(self._plan.study, self._closed or self._clock.now()))
        if approval is not None:
            try:
                read_waivers(self._names[index], approval.regimen)
            except ConfigurationError as error:
                raise RemoteProtocolError("A2", error.message) from error
        self._record.answer(index, packet)
        self._answers[index] = held
        self._log.info("study.answer", site=self._names[index], taking_part=approval is not None)
        await tell(self.changed)

    async def exclude(self, roster: Roster) -> None:
        """Go on without the sites that ``roster`` no longer has."""
        self._roster, self._names = roster, _names(roster)
        self._answers = {index: held for index, held in self._answers.items() if index in self._names}
        await tell(self.changed)

    async def end(self) -> None:
        """Wait for nobody any more, and take no approval."""
        self._ended = True
        await tell(self.changed)

    async def window(self) -> None:
        """Return once the window has closed."""
        if self._closed is not None:
            return
        early = closes_early(self._plan.study) or self._enrol_s is not None
        self._record.enter("enrolling")
        self._log.info(
            "study.enrolling",
            fingerprint=self._plan.study.fingerprint,
            sites=len(self._names),
            closes=self.closes.isoformat(),
        )

        def everybody() -> bool:
            return self._ended or (early and self._answers.keys() >= self._names.keys())

        await before(self._clock, self.closes, self.changed, everybody)
        self._closed = self._clock.now()
        self._record.close_window(self._closed)

    def absent(self, bound: tuple[int, ...]) -> tuple[int, ...]:
        """Return who of ``bound``, or of everybody who approved where it is empty, does not count now or is not present."""
        return tuple(
            index
            for index in bound or self.approvals
            if index not in self._names or not self.presence.is_present(index)
        )

    async def gather(self, bound: tuple[int, ...], patience_s: float | None = None) -> None:
        """Wait until nobody who could still come is `absent`, for at most ``patience_s``, or else the gathering time."""

        def awaited() -> tuple[int, ...]:
            return tuple(index for index in self.absent(bound) if index in self._names)

        if not awaited():
            return
        self._record.enter("gathering")
        self._log.info("study.gathering", absent=self._record.listed(awaited()))
        patience = timedelta(seconds=self._gather_s if patience_s is None else patience_s)
        until = self._clock.now() + patience
        await before(self._clock, until, self.changed, lambda: self._ended or not awaited())


def _names(roster: Roster) -> Mapping[int, str]:
    return {index: str(site) for site, index in roster.sites.items()}
