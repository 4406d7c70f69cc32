"""Whole studies whose coordinator keeps its store in PostgreSQL: the same numbers, the same transcripts, across a restart."""

import asyncio
from contextlib import closing
from pathlib import Path

from sqlalchemy import select

from cohortsum.coordinator.status import study_status
from cohortsum.coordinator.store import IterationRow, MessageRow, RoundRow, Store, as_utc, now
from cohortsum.coordinator.trail import kept_transcript, trail_of
from cohortsum.protocol.witness import witnessed
from cohortsum.report.document import from_json
from cohortsum.study.planning import plan_study
from tests.edges.harness import Loopback
from tests.edges.oracle import check_pooled
from tests.release.bundles import FIT

SITES = range(5)


class PostgresLoopback(Loopback):
    """The consortium of `tests.edges`, with another store."""

    def __init__(self, folder: Path, url: str, study: str) -> None:
        super().__init__(folder, len(SITES), study)
        self.store.close()
        self.store = Store(url)


def test_a_fit_in_several_rounds_opens_the_pooled_numbers_and_outlasts_a_restart(
    tmp_path: Path, postgres_url: str
) -> None:
    async def played() -> PostgresLoopback:
        async with PostgresLoopback(tmp_path, postgres_url, FIT) as town:
            outcome = await town.run()
            assert outcome.document is not None, outcome.reason
            check_pooled(outcome.document, SITES)
            return town

    town = asyncio.run(played())
    digest = town.study.digest
    with closing(Store(postgres_url)) as store:
        written = store.result(digest.hex())
        assert written is not None
        check_pooled(from_json(written), SITES)
        status = study_status(store, digest, None)
        assert (status.state, len(status.attempts)) == ("released", from_json(written).round.iterations)
        plan = plan_study(town.study, town.roster).round
        with store.transaction() as session:
            contexts = list(session.scalars(select(RoundRow.context).order_by(RoundRow.iteration)))
            assert set(session.scalars(select(IterationRow.context))) == set(contexts)
            moments = [as_utc(moment) for moment in session.scalars(select(MessageRow.received))]
        assert len(contexts) > 2
        assert all(moment.utcoffset() == as_utc(now()).utcoffset() and moment <= now() for moment in moments)
        for number, context in enumerate(contexts, start=1):
            found = witnessed(kept_transcript(store, bytes.fromhex(context), town.roster), plan, town.roster)
            assert (found.key.iteration, found.survivors) == (number, tuple(SITES))
        assert [len(trail_of(store, f"site{index}")) for index in SITES] == [len(contexts)] * len(SITES)
