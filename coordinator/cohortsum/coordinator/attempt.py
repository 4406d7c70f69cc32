"""One attempt at a study's round: the edge around the coordinator's state machine.

The machine decides, this carries out: packets into mailboxes, uploads into a spool, every effective message and every named
survivor set into the store before any site hears of it, and timers for its steps. Effects wait in one line; what a failing
store holds up stays first in it, so that the repeated call which follows completes it. Only the addition of uploads and the
removal of masks leave the event loop.

An attempt that was open when the coordinator stopped goes on (`attempt_rows`): its inputs are played again, and its sites get
every packet again. To what they have seen before they send the same bytes, uploads and shares included.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from cohortsum.coordinator.attempt_rows import Event, EventKind, OpenAttempt, to_replay
from cohortsum.coordinator.clock import tell
from cohortsum.coordinator.locking import RoundLock, UnlockedSum
from cohortsum.coordinator.mailbox import Mailbox
from cohortsum.coordinator.record import StudyRecord
from cohortsum.coordinator.sealing import SealedRounds
from cohortsum.coordinator.spool import Spool, Upload
from cohortsum.crypto.errors import (
    CohortsumError,
    FencedError,
    LineError,
    LocalProtocolError,
    ProtocolError,
    RefusedError,
    RemoteProtocolError,
    StoreError,
)
from cohortsum.crypto.failpoints import reach
from cohortsum.crypto.masks import Vector
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.coordinator import STEPS, CoordinatorRound
from cohortsum.protocol.coordinator_states import Aborted, Combining, CoordinatorSetup, Masking, Opened
from cohortsum.protocol.effects import (
    Audit,
    AwaitStep,
    Combine,
    CoordinatorEffect,
    Deliver,
    DiscardUploads,
    MessageTaken,
    Proven,
)
from cohortsum.protocol.evidence import Evidence
from cohortsum.protocol.masking import add_over_parallel
from cohortsum.protocol.messages import Kind, Packet

log: structlog.stdlib.BoundLogger = structlog.get_logger()

STEP_OF = {
    Kind.ADVERT: "r0",
    Kind.SHARES: "r1",
    Kind.MASKED: "r2",
    Kind.CONSISTENCY: "r3",
    Kind.GATE_SHARES: "r4a",
    Kind.DATA_SHARES: "r4b",
}
ASK_AGAIN_S = 1.0
NO_KEY = "R0: no key from the trustee"
NOT_UNLOCKED = "R4b: the trustee did not decrypt"
WORDS_LOST = "R5: masked values that went with a restart of the coordinator did not come again"
BURIAL_S = 60.0
"""Sites that are there sign a tombstone at once; the others are not waited for."""


@dataclass(frozen=True, slots=True)
class _Ending:
    """The attempt is aborted; noted before any site hears of it, so that no restart goes on with it."""

    reason: str
    survivors: tuple[int, ...]


class Attempt:
    """Runs one attempt.

    Args:
        setup: what the coordinator brings.
        key: identifiers of this attempt.
        record: the study's rows in the store.
        boxes: the sites' mailboxes, by roster index; they outlive the attempt.
        folder: uploads go into a folder of this attempt below it.
        pool: threads for masks.
        waits: seconds of a step until its deadline, and until its final one.
        changed: tells of everything that the attempt did.
        seen: told of an opened sum before any site hears of it; returns whether sites are to see it.
        sealed: keeps what was opened for auditors; None keeps nothing.
        keep: keeps evidence against a site.
        lock: the trustee, in two-key mode.
    """

    def __init__(
        self,
        setup: CoordinatorSetup,
        key: RoundKey,
        record: StudyRecord,
        boxes: Mapping[int, Mailbox],
        folder: Path,
        pool: Executor,
        waits: tuple[float, float],
        changed: asyncio.Condition,
        seen: Callable[[bytes, Opened], bool] = lambda _context, _opened: False,
        sealed: SealedRounds | None = None,
        keep: Callable[[Evidence], None] = lambda _evidence: None,
        lock: RoundLock | None = None,
    ) -> None:
        self.key = key
        self.machine = CoordinatorRound(setup, key)
        self._record, self._boxes, self._pool = record, boxes, pool
        self._waits, self._changed, self._seen = waits, changed, seen
        self._sealed, self._keep, self._lock = sealed, keep, lock
        self._spool: Spool | None = Spool(folder / self.context.hex()[:16], self.machine.length)
        self._deadlines: list[asyncio.TimerHandle] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending: deque[CoordinatorEffect | Event | _Ending] = deque()
        self._ending_noted = False
        self._answered: Mapping[tuple[str, str], bytes] = {}
        self._log = log.bind(study=record.study.study, version=record.study.version)

    @property
    def context(self) -> bytes:
        """What every message of this attempt is bound to."""
        return self.machine.fixed.context

    async def run(self, held: OpenAttempt | None = None) -> Opened | Aborted:
        """Invite the sites, and return how the attempt ended; its uploads are wiped then.

        Args:
            held: what the store holds of this attempt, if it was open when the coordinator stopped.
        """
        machine = self.machine
        if held is None:
            self._record.attempt_opened(self.context, self.key, machine.opening, machine.setup.exact)
        self._log.info(
            "round.open" if held is None else "round.resumed",
            iteration=self.key.iteration,
            attempt=self.key.attempt,
            sites=len(machine.setup.approvals),
            numbers=machine.length,
        )
        if held is None and not await self._take_key():
            return await self._end(told=False)
        await self._apply(machine.open() if held is None else self._replayed(held))
        async with self._changed:
            await self._changed.wait_for(lambda: isinstance(machine.state, Opened | Aborted))
        return await self._end()

    async def _take_key(self) -> bool:
        """In two-key mode, ask the trustee for the key of this round; return whether sites may be invited."""
        machine = self.machine
        if self._lock is None:
            return True
        offer = None
        try:
            offer = await self._lock.key(machine.opening)
            machine.lock(offer)
        except CohortsumError as error:
            self._log.error("round.no_key", sentence=error.message)
            if machine.step is not None:
                machine.abort(f"{NO_KEY}: {error.message}")
        if offer is None or isinstance(
            machine.state, Aborted
        ):  # by this, or by somebody who stopped the study meanwhile
            return False
        self._record.event(self.context, Event.of(offer))
        return True

    async def _end(self, told: bool = True) -> Opened | Aborted:
        """Return how the attempt ended, its uploads wiped; of one that nobody was told of, nobody is told the end."""
        machine = self.machine
        self._clear_deadline()
        if self._spool is not None:
            self._spool.wipe()
            self._spool = None
        if told:
            await self._bury()
            for box in self._boxes.values():
                box.keep_ending(self.context)
        if not isinstance(machine.state, Opened | Aborted):
            raise AssertionError("an attempt ends opened or aborted")
        return machine.state

    async def receive(self, packet: Packet) -> None:
        """Take a site's packet; raises RemoteProtocolError for one that the machine refuses."""
        envelope = packet.envelope
        if self._answered.get((envelope.sender, envelope.kind.name), envelope.digest) != envelope.digest:
            for proof in self.machine.prove(envelope):
                self._keep(proof.evidence)
            self._record.refused(self.context, envelope.sender, "M5")
            raise RemoteProtocolError("M5", f"a second {envelope.kind.name} with other bytes")
        effects = self.machine.receive(packet)
        match effects:
            # nothing but a refusal: the edge keeps what it proves, logs it and tells the sender
            case (*proven, Audit(check, sender, sentence)) if not any(
                isinstance(one, MessageTaken) for one in proven
            ):
                for one in proven:
                    if isinstance(one, Proven):
                        self._keep(one.evidence)
                self._record.refused(self.context, sender, check)
                raise RemoteProtocolError(check, sentence.removeprefix(f"{check}: "))
            case _:
                await self._apply(effects)

    def begin_upload(self, site: int) -> Upload:
        """Start to spool the data words of a site; raises RemoteProtocolError (U2) where none are awaited."""
        known = self.machine.awaits_upload(site) or self.machine.has_upload(site)
        if self._spool is None or not known:
            raise RemoteProtocolError("U2", "no upload is awaited")
        return self._spool.receive(site)

    async def end_upload(self, site: int, upload: Upload) -> None:
        """Keep a spooled upload, if it is still awaited; raises RemoteProtocolError (U1, U2, U4)."""
        digest = upload.finish()
        if self.machine.encryption_key is not None:
            await asyncio.to_thread(upload.check, self.machine.encryption_key)
        if self.machine.has_upload(site, digest):  # sent again because the answer was lost, or the words were
            if self._spool is not None and not self._spool.holds((site,)):
                self._spool.keep(site, upload, digest)
            await self._apply(())  # what a failing store held up the first time
            return
        if self._spool is None or not self.machine.awaits_upload(site):
            raise RemoteProtocolError("U2", "no upload is awaited")
        self._spool.keep(site, upload, digest)
        self._log.info("round.upload", site=self._record.id_of(site))
        effects = self.machine.uploaded(site, digest)
        await self._apply((Event(EventKind.UPLOAD, self._record.id_of(site), digest), *effects))

    async def abort(self, reason: str) -> None:
        """End the attempt, unless its sum is being opened already."""
        if self.machine.step is not None:
            await self._apply(self.machine.abort(reason))

    async def _bury(self) -> None:
        """After an abort, give the sites time to show that nobody can open the attempt any more."""
        machine = self.machine
        if not (isinstance(machine.state, Aborted) and machine.state.advertised):
            return

        def closed() -> bool:
            return isinstance(machine.state, Aborted) and machine.state.closed

        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._waits[0], BURIAL_S)), self._changed:
                await self._changed.wait_for(closed)
        self._log.info("round.closed" if closed() else "round.not_closed", attempt=self.key.attempt)

    def _replayed(self, held: OpenAttempt) -> tuple[CoordinatorEffect, ...]:
        """Bring the machine where it was, and return what the sites are to get again and the step that waits for them."""
        machine, index_of = self.machine, {name: index for index, name in self._record.names.items()}
        self._answered = held.answered
        if held.offer is not None:
            machine.lock(held.offer)
        effects = [*machine.open()]
        for event in to_replay(held, STEPS[Masking]):
            match event.kind:
                case EventKind.MESSAGE:
                    effects += machine.receive(event.packet)
                case EventKind.UPLOAD:
                    effects += machine.uploaded(index_of[event.sender], event.content)
                case EventKind.LATE:
                    effects += machine.deadline_passed(event.content.decode(), final=False)
                case EventKind.OFFER:
                    pass  # taken before the sites were invited
        steps = [effect for effect in effects if isinstance(effect, AwaitStep)]
        return (*(effect for effect in effects if isinstance(effect, Deliver)), *steps[-1:])

    async def _apply(self, effects: "tuple[CoordinatorEffect | Event, ...]") -> None:
        """Carry effects out in order. What a failing store holds up stays first in line for the next call."""
        state = self.machine.state
        if isinstance(state, Aborted) and not self._ending_noted:
            self._ending_noted = True
            self._pending.append(_Ending(state.reason, state.survivors))
        self._pending.extend(effects)
        while self._pending:
            effect = self._pending[0]
            match effect:
                case _Ending():
                    self._record.attempt_aborted(self.context, effect.reason, effect.survivors)
                case Event():
                    self._record.event(self.context, effect)
                case MessageTaken():
                    step = STEP_OF.get(effect.envelope.kind, "")
                    reach(f"hub.{step}.before")
                    self._record.message(effect.packet)
                    reach(f"hub.{step}.noted")
                    self._log.info(
                        "round.message", site=effect.envelope.sender, kind=effect.envelope.kind.name
                    )
                case Deliver():
                    self._boxes[effect.receiver].put(effect.packet)
                case AwaitStep():
                    self._log.info("round.step", step=effect.step)
                    self._set_deadline(effect.step)
                case Combine():
                    self._clear_deadline()
                    self._spawn(self._combine(effect))
                case DiscardUploads():
                    if effect.survivors:
                        reach("hub.named.before")
                        self._record.survivors(self.context, effect.survivors)
                        reach("hub.named.noted")
                    if self._spool is not None:
                        self._spool.keep_only(effect.survivors)
                case Proven():
                    self._keep(effect.evidence)
                case Audit():
                    self._record.refused(self.context, effect.sender, effect.check)
                    self._log.warning(
                        "round.refused", check=effect.check, sender=effect.sender, sentence=effect.sentence
                    )
            self._pending.popleft()
        await tell(self._changed)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Coroutine[None, None, None]) -> None:
        """Run background work; if it fails, the round ends with a reason instead of waiting for ever."""
        try:
            await work
        except FencedError:
            # whoever has taken over goes on with this attempt: no site hears a word of its end
            self._log.error("round.fenced")
        except Exception as error:
            self._log.exception("round.failed", error=type(error).__name__)
            if isinstance(self.machine.state, Opened | Aborted):
                return
            self._pending.clear()
            self._ending_noted = True  # by whoever started the attempt, once the store takes it
            effects = self.machine.abort("the coordinator failed")
            await self._apply(tuple(effect for effect in effects if isinstance(effect, Deliver)))

    async def _combine(self, effect: Combine) -> None:
        spool = self._spool
        if spool is None:
            raise AssertionError("sums are formed while a round is open")
        try:  # words that a restart lost are on their way again, unless their site has been restarted too
            async with asyncio.timeout(max(self._waits)), self._changed:
                await self._changed.wait_for(lambda: spool.holds(effect.survivors))
        except TimeoutError:
            await self._apply(self.machine.abort(WORDS_LOST))
            return
        try:
            words, unlocked = await self._opened_words(spool, effect)
        except (ProtocolError, LineError, RefusedError) as error:
            await self._apply(self.machine.abort(f"{NOT_UNLOCKED}: {error.message}"))
            return
        await self._seal(spool, unlocked)

        def disclosed(opened: Opened) -> Mapping[int, bytes]:
            if not self._seen(self.context, opened):
                return {}
            return {site: spool.words(site) for site in opened.survivors}

        effects = await self._kept(lambda: self.machine.combined(words, disclosed))
        if isinstance(self.machine.state, Aborted) and self._sealed is not None:
            self._sealed.drop(self.context)
        await self._apply(effects)

    async def _kept(
        self, combined: Callable[[], tuple[CoordinatorEffect, ...]]
    ) -> tuple[CoordinatorEffect, ...]:
        """Return what follows from an opened sum, once the store has it; a store that refuses is asked again."""
        async with asyncio.timeout(max(self._waits)):
            while True:
                try:
                    reach("hub.r5.before")
                    effects = combined()
                    reach("hub.r5.noted")
                except FencedError:
                    raise
                except StoreError as error:
                    self._log.error("round.not_kept", sentence=error.message)
                    await asyncio.sleep(ASK_AGAIN_S)
                else:
                    return effects

    async def _seal(self, spool: Spool, unlocked: UnlockedSum | None) -> None:
        """Keep for the auditors what was opened. A disk that refuses ends no round; the study then has no proof bundle."""
        state = self.machine.state
        if self._sealed is None or not isinstance(state, Combining):
            return
        try:
            await asyncio.to_thread(self._sealed.write, self.context, state, spool.words, unlocked)
        except OSError as error:
            self._log.error("round.not_sealed", errno=error.errno)

    async def _opened_words(self, spool: Spool, effect: Combine) -> tuple[Vector, UnlockedSum | None]:
        """Return the opened words, and what the trustee said of them in two-key mode; raises what it refuses with."""
        key, state = self.machine.encryption_key, self.machine.state
        if key is None:
            return await asyncio.to_thread(self._open_sum, spool, effect), None
        if self._lock is None or not isinstance(state, Combining):
            raise LocalProtocolError("K1", "a sum of ciphertexts without a trustee")
        length = sum(block.size for block in self.machine.fixed.blocks)
        ciphertexts = await asyncio.to_thread(spool.encrypted_sum, effect.survivors, key, length)
        unlocked = await self._lock.open(state, self.context, ciphertexts, length)
        words = unlocked.words.copy()
        await asyncio.to_thread(self._remove_masks, words, effect, key.parameters.modulus)
        return words, unlocked

    def _open_sum(self, spool: Spool, effect: Combine) -> Vector:
        total = spool.sum(effect.survivors)
        self._remove_masks(total, effect)
        return total

    def _remove_masks(self, words: Vector, effect: Combine, modulus: int = 0) -> None:
        keys = effect.keys
        add_over_parallel(words, keys.plus, keys.minus, modulus, self._pool, os.cpu_count() or 1)

    def _set_deadline(self, step: str) -> None:
        self._clear_deadline()
        step_s, longest_s = self._waits
        loop = asyncio.get_running_loop()
        self._deadlines = [
            loop.call_later(step_s, self._expire, step, False),
            loop.call_later(max(step_s, longest_s), self._expire, step, True),
        ]

    def _expire(self, step: str, final: bool) -> None:
        if self.machine.step == step:
            self._log.warning("round.deadline", step=step, final=final)
            effects = self.machine.deadline_passed(step, final)
            moved = effects and not isinstance(self.machine.state, Aborted)
            late = (Event(EventKind.LATE, content=step.encode()),) if moved else ()
            self._spawn(self._moved_on((*late, *effects)))

    async def _moved_on(self, effects: "tuple[CoordinatorEffect | Event, ...]") -> None:
        """Carry out what a deadline brings. No call follows that would be repeated, so a store that refuses is asked again."""
        while True:
            try:
                return await self._apply(effects)
            except FencedError:
                raise
            except StoreError as error:
                self._log.error("round.not_kept", sentence=error.message)
                effects = ()
                await asyncio.sleep(ASK_AGAIN_S)

    def _clear_deadline(self) -> None:
        for deadline in self._deadlines:
            deadline.cancel()
        self._deadlines = []
