"""What this site brings to the runs of a study in mode committee, and what it must have seen before it does.

Every check that stands before a masked round stands before a deal: the admin's yes, waivers, an open epoch, tables unchanged since the
approval, floors, the people rule. Then the plan of the run: the first follows from the study and the dealers, every other from answers
that all members signed and this site heard (`cohortsum.study.committee`). A site that has forgotten them, because it started anew, is
asked from the beginning by the coordinator.

Whose numbers go into a deal is in the ledger before anything of the run leaves.
"""

import structlog

from cohortsum.crypto.errors import ConfigurationError, DataError, PolicyError
from cohortsum.node.joining import Joined, Site, history_of, in_force, still_waived
from cohortsum.node.people_rule import asked_sets, check_write
from cohortsum.node.tables.reader import content_digest
from cohortsum.protocol.committee.effects import Finished, Part
from cohortsum.protocol.committee.messages import Opening
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.ledger import PeopleSet, Request, Step
from cohortsum.study.committee import Run, Stopped, first_run

MOST_KNOWN = 64
"""Runs that may come next: one per stage and set of dealers."""

log: structlog.stdlib.BoundLogger = structlog.get_logger()


class StudyPart:
    """This site's part in one study.

    Args:
        site: the site.
        joined: the study, with the site's data ready.
    """

    def __init__(self, site: Site, joined: Joined) -> None:
        self._site, self._joined = site, joined
        self._next: dict[bytes, Run] = {}
        self._under_way: dict[bytes, Run] = {}

    def part_of(self, opening: Opening) -> Part:
        """Return the plan of a run as this site makes it, and its numbers.

        Raises ConfigurationError for a run that does not follow from what this site knows, PolicyError or DataError where the site may
        not bring anything by now.
        """
        site, joined = self._site, self._joined
        study = joined.plan.study
        in_force(site, study)
        still_waived(joined.known.waivers)
        if site.ledger.epochs.closed(study.epoch) is not None:
            raise PolicyError(f"epoch {study.epoch} is closed here")
        run = self._run(opening)
        if len(run.plan.dealers) < joined.floors.min_sites:
            raise PolicyError(f"fewer sites than min_sites {joined.floors.min_sites} take part")
        self._under_way[opening.context] = run
        if site.signer.identity.index not in run.plan.dealers:
            return Part(run.plan, None)
        if content_digest(site.tables) != joined.tables.digest:
            raise DataError("the tables changed after approval; make a new snapshot and approve again")
        values = run.values(joined.tables.batches())
        with site.ledger.alone():  # what the people rule reads still holds when the write is made
            key = RoundKey(opening.key.run_id, opening.key.stage, opening.key.attempt)
            people = self._entering(opening, key)
            site.ledger.write_shares(
                study.digest, opening.context, key, run.plan.digest, run.plan.dealers, people
            )
        return Part(run.plan, values)

    def heard(self, opening: Opening, finished: Finished) -> None:
        """Go on from answers that all members signed."""
        run = self._under_way.pop(opening.context, None)
        if run is None:
            return
        following = run.after(finished.answers)
        log.info("committee.answered", study=run.study.study.study, stage=run.plan.stage)
        if isinstance(following, Run):
            while len(self._next) >= MOST_KNOWN:
                del self._next[next(iter(self._next))]
            self._next[following.plan.digest] = following
        elif isinstance(following, Stopped):
            log.warning("committee.stopped", study=run.study.study.study, reason=following.reason)

    def _run(self, opening: Opening) -> Run:
        if opening.key.stage == 1:
            return first_run(self._joined.plan, self._joined.pinned, opening.dealers)
        run = self._next.get(opening.plan)
        if run is None:
            raise ConfigurationError("a run that follows from answers which this site has not heard")
        return run

    def _entering(self, opening: Opening, key: RoundKey) -> dict[str, PeopleSet]:
        """Return the people sets that the numbers are about; raises PolicyError where the people rule forbids it by now."""
        joined = self._joined
        if joined.people is None:
            return {}
        plan = joined.plan
        sets = asked_sets(plan, joined.people, plan.round.blocks, joined.supplied, joined.limits.k)
        step = Step(plan.study.digest, key.iteration, key.attempt)
        request = Request(opening.context, step, joined.status, sets, joined.cells)
        check_write(history_of(self._site), request, joined.limits)
        return {asked.name: asked.people for asked in sets}
