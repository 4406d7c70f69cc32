"""A study in mode committee at the coordinator: its runs from the first to the last, and again from the first where one fails.

Every run follows from the answers before it (`cohortsum.study.committee`). A site that started anew has forgotten these, so whatever fails,
the study begins again with its first run, over the same sites once any of them may have computed: members begin a stage on the numbers of
these and of no others. As often as the study's ``max_attempts`` says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cohortsum.coordinator.committee_desk import CommitteeDesk, CommitteePace
from cohortsum.coordinator.record import StudyRecord
from cohortsum.protocol.committee.checks import outcome_digest
from cohortsum.protocol.context import ROUND_ID_BYTES, RoundKey
from cohortsum.protocol.roster import Roster
from cohortsum.study.committee import Run, Stopped, first_run
from cohortsum.study.planning import StudyPlan
from cohortsum.study.results import Table


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
