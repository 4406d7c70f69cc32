"""Runs of committees at the coordinator: their machines, their boxes, their time, and their retries.

Everything is in memory. A run that is lost with the process, or ends for any other reason, is not taken up again: a retry is another
run, with keys and shares of its own. Items for a site wait in one box per study, under ascending numbers, and leave it once the site asks
for what comes after them; what belongs to a run that is over is taken out.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from cohortsum.coordinator.store import now
from cohortsum.crypto.errors import AuthenticationError, RefusedError, RemoteProtocolError, RoundFailedError
from cohortsum.crypto.signing import IdentityKey
from cohortsum.protocol.committee.coordinator import CoordinatorRun, Effect, Failed, Opened, Tell
from cohortsum.protocol.committee.messages import Kind, Packet, RunKey, Sealed
from cohortsum.protocol.committee.plan import CommitteePlan
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import Identity, Roster, SiteId

Item = Packet | Sealed

BOX_BYTES = 64 * 2**20
"""Of all that waits for one site in one study; a site that takes nothing ends its run when there is more."""
REPLY_BYTES = 2**20
"""An answer holds items until they are so long together, and one at least."""

MOST_BOXES = 256
"""Studies in whose runs one site may ask for items."""

log: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class CommitteePace:
    """How long a run waits.

    Attributes:
        step_s: for keys, and for shares.
        compute_s: for results.
        attempts: runs that are tried.
    """

    step_s: float = 600.0
    compute_s: float = 600.0
    attempts: int = 3


@dataclass
class Box:
    """What waits for one site in one study."""

    items: dict[int, Item] = field(default_factory=dict[int, Item])
    last: int = field(default_factory=lambda: int(now().timestamp() * 1000))
    size: int = 0
    taken: bool = False
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, item: Item) -> None:
        """Add an item; raises RefusedError where the box is full."""
        if self.size + weight(item) > BOX_BYTES:
            raise RefusedError("this site does not take what waits for it")
        self.last += 1
        self.items[self.last] = item
        self.size += weight(item)
        self.arrived.set()

    def drop(self, numbers: Sequence[int]) -> None:
        """Take items out."""
        for number in numbers:
            self.size -= weight(self.items.pop(number))


@dataclass
class Running:
    """A run that is under way.

    Attributes:
        machine: of the run.
        roster: whose sites take part.
        study: digest.
        moved: set when the machine has taken something.
        outcome: once it is over.
    """

    machine: CoordinatorRun
    roster: Roster
    study: bytes
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: Opened | Failed | None = None


class CommitteeDesk:
    """The runs of all studies.

    Args:
        key: the coordinator's identity key.
        pace: how long a run waits.
    """

    def __init__(self, key: IdentityKey, pace: CommitteePace | None = None) -> None:
        self._key, self.pace = key, pace or CommitteePace()
        self._runs: dict[bytes, Running] = {}
        self._boxes: dict[tuple[bytes, str], Box] = {}

    async def compute(
        self,
        roster: Roster,
        plan: CommitteePlan,
        study: bytes,
        epoch: str,
        pace: CommitteePace | None = None,
    ) -> Opened:
        """Return what a committee opened, after as many attempts as the pace allows.

        Args:
            roster: of the study.
            plan: of the run.
            study: digest of the study.
            epoch: label of the data epoch.
            pace: how long this run waits; None takes the desk's.

        Raises:
            RoundFailedError: no attempt came to an end; the sentence is that of the last one.
        """
        reason, pace = "no attempt was made", pace or self.pace
        for attempt in range(1, pace.attempts + 1):
            key = RunKey(secrets.token_bytes(16), plan.stage, attempt)
            signer = Signer(roster.coordinator, self._key)
            running = Running(CoordinatorRun(roster, signer, plan, key, study, epoch), roster, study)
            outcome = await self._followed(running, pace)
            if isinstance(outcome, Opened):
                log.info("committee.opened", stage=plan.stage, attempt=attempt)
                return outcome
            reason = outcome.reason
            log.warning("committee.failed", stage=plan.stage, attempt=attempt, sentence=reason)
        raise RoundFailedError(f"committee: {reason}")

    async def next(self, caller: Identity, study: bytes, after: int, wait_s: float) -> list[tuple[int, Item]]:
        """Return what waits for a site beyond a number, waiting for something for a while; what is before it is dropped."""
        if (study, caller.id) not in self._boxes:
            self._check_boxes(caller.id)
        box = self._boxes.setdefault((study, caller.id), Box())
        if after == 0 and box.taken:
            self._started_anew(caller.id, study)
        handled = [number for number in box.items if number <= after]
        box.taken = after > 0 and (box.taken or bool(handled))
        box.drop(handled)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not box.items:
                    box.arrived.clear()
                    await box.arrived.wait()
        found: list[tuple[int, Item]] = []
        size = 0
        for number, item in sorted(box.items.items()):
            if found and size + weight(item) > REPLY_BYTES:
                break
            found.append((number, item))
            size += weight(item)
        return found

    def submit(self, caller: Identity, packet: Packet) -> None:
        """Take a message of a site; one for a run that is over has no effect.

        Raises AuthenticationError or RemoteProtocolError.
        """
        if packet.signed.sender != caller.id:
            raise RemoteProtocolError("C1", "a message of another sender than the one who is connected")
        running = self._runs.get(packet.signed.context)
        if running is not None:
            self._site(running, caller)
            self._apply(running, running.machine.submit(packet))

    def carry(self, caller: Identity, frame: Sealed) -> None:
        """Take a frame of a member; one for a run that is over has no effect."""
        running = self._runs.get(frame.context)
        if running is not None:
            self._apply(running, running.machine.carry(self._site(running, caller), frame))

    def forget(self, study: bytes) -> None:
        """Empty the boxes of a study that is over; its sites ask no more."""
        for key in [key for key in self._boxes if key[0] == study]:
            del self._boxes[key]

    async def _followed(self, running: Running, pace: CommitteePace) -> Opened | Failed:
        """Return how a run ends, of itself or because the time of a step is over."""
        self._runs[running.machine.context] = running
        try:
            self._apply(running, running.machine.open())
            while (outcome := running.outcome) is None:
                step = running.machine.step
                limit_s = pace.compute_s if running.machine.computing else pace.step_s
                try:
                    async with asyncio.timeout(limit_s):
                        while running.machine.step == step:
                            running.moved.clear()
                            await running.moved.wait()
                except TimeoutError:
                    self._apply(running, running.machine.expire())
            return outcome
        finally:
            self._apply(running, running.machine.end("the coordinator stops"))
            del self._runs[running.machine.context]

    def _apply(self, running: Running, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Opened() | Failed():
                    running.outcome = effect
                    self._clear(running)
                case Tell():
                    self._tell(running, effect)
        running.moved.set()

    def _tell(self, running: Running, tell: Tell) -> None:
        names = {index: name for name, index in running.roster.sites.items()}
        for index in tell.sites:
            box = self._boxes.setdefault((running.study, names[index]), Box())
            try:
                box.put(tell.item)
            except RefusedError:
                self._apply(running, running.machine.end(f"{names[index]} takes nothing"))
                return

    def _clear(self, running: Running) -> None:
        """Take out of the boxes what belongs to a run that is over, but how it ended."""
        for (study, _), box in self._boxes.items():
            if study == running.study:
                box.drop([number for number, item in box.items.items() if _is_past(item, running)])

    def _started_anew(self, site: str, study: bytes) -> None:
        """End the runs of a site that has handled some of a run's items and asks from the beginning: it has lost them."""
        for running in list(self._runs.values()):
            if running.study == study and running.roster.sites.get(SiteId(site)) in running.machine.sites:
                self._apply(running, running.machine.end(f"{site} has started anew"))

    def _check_boxes(self, site: str) -> None:
        """Refuse a site that asks about studies without end; raises RefusedError."""
        if sum(name == site for _, name in self._boxes) >= MOST_BOXES:
            raise RefusedError(f"{MOST_BOXES} studies of this site are looked at; ask about fewer")

    def _site(self, running: Running, caller: Identity) -> int:
        """Return the roster index that a caller has in a run; raises AuthenticationError if it is not in its roster."""
        identity = running.roster.identities.get(caller.id)
        if identity is None or identity.key != caller.key or identity.index is None:
            raise AuthenticationError
        return identity.index


def weight(item: Item) -> int:
    """Return about how many bytes an item holds."""
    if isinstance(item, Sealed):
        return len(item.sealed) + 64
    return len(item.signed.payload) + sum(map(len, item.attachments)) + 256


def _is_past(item: Item, running: Running) -> bool:
    if isinstance(item, Sealed):
        return item.context == running.machine.context
    ending = item.signed.kind in {Kind.CLOSING, Kind.END}
    return item.signed.context == running.machine.context and not ending
