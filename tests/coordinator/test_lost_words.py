"""A restart of the coordinator loses the masked values; where their sites are gone too, the attempt ends and says why."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from cohortsum.coordinator.attempt import WORDS_LOST, Attempt
from cohortsum.coordinator.mailbox import Mailbox
from cohortsum.coordinator.record import StudyRecord
from cohortsum.coordinator.store import Store, sqlite_url
from cohortsum.protocol.coordinator_states import Aborted
from cohortsum.protocol.effects import Combine, CoordinatorEffect
from cohortsum.protocol.messages import Kind
from tests.edges.harness import pinned_roster, signed_study
from tests.protocol.consortium import Consortium
from tests.protocol.lies import N


class UpToTheSum(Consortium):
    """A round whose answers are all there, and whose sum is to be formed next."""

    combine: Combine | None = None

    def from_coordinator(self, effects: tuple[CoordinatorEffect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Combine):
                self.combine = effect
            else:
                super().from_coordinator((effect,))


class Restarted(Attempt):
    """An attempt in a process that has no uploads."""

    async def go_on(self, effect: Combine) -> None:
        await self._combine(effect)


def test_words_that_do_not_come_again_end_the_attempt_and_bind_its_survivors(tmp_path: Path) -> None:
    consortium = UpToTheSum(N)
    consortium.run()
    machine, combine = consortium.coordinator, consortium.combine
    assert combine is not None
    study, signed = signed_study()
    boxes = {index: Mailbox() for index in range(N)}

    async def play(record: StudyRecord) -> None:
        record.remember(signed, datetime.now(UTC))
        record.attempt_opened(machine.fixed.context, consortium.coordinator_key, machine.opening, True)
        with ThreadPoolExecutor(1) as pool:
            changed = asyncio.Condition()
            attempt = Restarted(
                machine.setup,
                consortium.coordinator_key,
                record,
                boxes,
                tmp_path,
                pool,
                (0.01, 0.01),
                changed,
            )
            attempt.machine = machine
            await attempt.go_on(combine)

    with closing(Store(sqlite_url(tmp_path / "hub.db"))) as store:
        record = StudyRecord(store, study, pinned_roster(N))
        asyncio.run(play(record))
        assert record.attempts(1) == (1, tuple(f"site{index}" for index in range(N)))
    assert isinstance(machine.state, Aborted)
    assert (machine.state.reason, machine.state.survivors) == (WORDS_LOST, tuple(range(N)))
    assert [box.packets[box.last].envelope.kind for box in boxes.values()] == [Kind.ABORT] * N
