"""A study in mode committee at the coordinator: its runs from the first to the last, and again from the first where one fails.

Every run follows from the answers before it (`cohortsum.study.committee`). A site that started anew has forgotten these, so whatever fails,
the study begins again with its first run, over the same sites once any of them may have computed: members begin a stage on the numbers of
these and of no others. As often as the study's ``max_attempts`` says.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from cohortsum.coordinator.committee_desk import CommitteeDesk, CommitteePace
from cohortsum.coordinator.enrolment import Enrolment
from cohortsum.coordinator.record import StudyRecord
from cohortsum.crypto.errors import RoundFailedError, StudyFileError
from cohortsum.protocol.committee.checks import outcome_digest
from cohortsum.protocol.context import ROUND_ID_BYTES, RoundKey
from cohortsum.protocol.roster import Roster
from cohortsum.study.committee import Run, Stopped, first_run
from cohortsum.study.committee_members import members_of
from cohortsum.study.planning import StudyPlan
from cohortsum.study.results import Table

log: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Answered:
    """What a committee made of a study.

    Attributes:
        context: of the last run.
        key: of the last run; its iteration is the stage.
        dealers: roster indices of the sites whose numbers are in it.
        tables: of all analyses.
    """

    context: bytes
    key: RoundKey
    dealers: tuple[int, ...]
    tables: tuple[Table, ...] = field(repr=False)


class CommitteeCourse:
    """The attempts at a study in mode committee.

    Args:
        desk: carries the runs; None where this coordinator carries none.
        plan: of the study.
        roster: returns the roster that the study names, with the sites that count now.
        enrolment: who takes part, and who is present.
        record: notes what was answered.
    """

    def __init__(
        self,
        desk: CommitteeDesk | None,
        plan: StudyPlan,
        roster: Callable[[], Roster],
        enrolment: Enrolment,
        record: StudyRecord,
    ) -> None:
        self._desk, self._plan, self._roster = desk, plan, roster
        self._enrolment, self._record = enrolment, record
        self._task: asyncio.Task[Answered | str] | None = None
        self._stopped = False

    async def run(self) -> Answered | str:
        """Return what the committee answers, or the public reason why there is nothing; a run that fails is begun again."""
        enrolment, protection, study = self._enrolment, self._plan.round.protection, self._plan.study
        least, bound = max(protection.min_sites, protection.suppliers_least), tuple[int, ...]()
        reason = "no attempt was made"
        if self._desk is None:
            return "this coordinator carries no runs of committees"
        try:
            members = frozenset(members_of(study, self._roster()))
        except StudyFileError as error:  # one was denied
            return error.message
        for attempt in range(1, protection.max_attempts + 1):
            await enrolment.gather(bound)
            absent = enrolment.absent(bound)
            if self._stopped:
                break
            if bound and absent:
                return incomplete(self._record.listed(absent))
            present = bound or tuple(index for index in enrolment.approvals if index not in absent)
            if away := sorted(members - set(present)):
                return f"a committee needs all of its members, and absent is {self._record.listed(away)}"
            if len(present) < least:
                return f"{len(present)} sites are present, {least} are required"
            self._record.enter("running")
            runs = answered(self._desk, self._plan, self._roster(), present, attempt, self._record)
            self._task = asyncio.create_task(runs)
            try:
                return await self._task
            except asyncio.CancelledError:
                if self._stopped:
                    break
                self._task.cancel()
                raise
            except RoundFailedError as error:
                bound, reason = present, error.message
                log.info("committee.attempt_failed", study=study.study, attempt=attempt, reason=reason)
        return reason

    def stop(self) -> None:
        """End the run that is under way, and begin no other."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()


def incomplete(absent: str) -> str:
    """Return why an attempt that is bound to its sites is not made."""
    return f"a retry needs every survivor, and absent is {absent}"


async def answered(
    desk: CommitteeDesk,
    plan: StudyPlan,
    roster: Roster,
    dealers: Sequence[int],
    attempt: int,
    record: StudyRecord,
) -> Answered | str:
    """Return what the committee answers, or the public reason why it may not.

    Args:
        desk: carries the runs.
        plan: of the study.
        roster: that the study names, with the sites that count now.
        dealers: roster indices of the sites that take part.
        attempt: at the study, from 1.
        record: notes what was answered.

    Raises:
        RoundFailedError: a run came to no end.
        StudyFileError: a member counts no more.
        ConfigurationError: these sites cannot make a run.
    """
    study, step_s = plan.study, plan.study.deadlines_s.step
    pace = CommitteePace(step_s, step_s, 1)
    run = first_run(plan, roster, dealers)
    while True:
        opened = await desk.compute(roster, run.plan, study.digest, study.epoch, pace)
        context = opened.results[0].context
        key = RoundKey(context[:ROUND_ID_BYTES], run.plan.stage, attempt)
        following = run.after(opened.answers)
        last = not isinstance(following, Run | Stopped)
        record.committee_answered(context, key, run.plan.dealers, outcome_digest(opened.results), last)
        if isinstance(following, Stopped):
            return following.reason
        if not isinstance(following, Run):
            return Answered(context, key, run.plan.dealers, following)
        run = following
