"""Runner and sessions that note when a round does what; nothing they do is left out or replaced.

Sites compute at the same time in a deployment, but here they share the machine with the coordinator. A barrier therefore
holds every site before its own computing until all have got there, and after it until all are done: what lies between is
the sites' own computing and nothing else, and the rest of the round is protocol time.
"""

import threading
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cohortsum.coordinator.amendment import Earlier
from cohortsum.coordinator.attempt import Attempt
from cohortsum.coordinator.course import Course
from cohortsum.coordinator.record import OpenedIteration
from cohortsum.coordinator.runner import StudyRunner
from cohortsum.crypto.errors import LocalProtocolError
from cohortsum.node.session import StudySession
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.coordinator_states import CoordinatorSetup, Opened
from cohortsum.protocol.effects import Contribute, Send, SiteEffect
from cohortsum.protocol.messages import Packet
from cohortsum.study.definition.signing import SignedStudy

BARRIER_S = 600.0


@dataclass
class Clock:
    """Moments of one study, in seconds of the wall clock.

    Attributes:
        sites: number of sites that must meet at the barrier.
        moments: by name; ``contribute`` and ``contributed`` bound the sites' own computing in the round.
        consider_s: how long every site took to consider the study: reading its tables and answering.
        contribute_s: how long every site took for its values and masks.
        checks_s: processor time of every message a site handled, its contribution left out.
        steps: when each step of the round began, in order.
    """

    sites: int
    moments: dict[str, float] = field(default_factory=dict[str, float])
    consider_s: list[float] = field(default_factory=list[float])
    contribute_s: list[float] = field(default_factory=list[float])
    checks_s: list[float] = field(default_factory=list[float])
    steps: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def __post_init__(self) -> None:
        """Set up both barriers."""
        self.before = threading.Barrier(self.sites, lambda: self.note("contribute"), BARRIER_S)
        self.after = threading.Barrier(self.sites, lambda: self.note("contributed"), BARRIER_S)

    def note(self, name: str) -> None:
        """Note the moment."""
        self.moments[name] = time.perf_counter()

    def release(self) -> None:
        """Let go whoever still waits at a barrier: the study has ended or failed."""
        self.before.abort()
        self.after.abort()

    def between(self, first: str, second: str) -> float:
        """Return the seconds between two moments."""
        return self.moments[second] - self.moments[first]


class TimedSession(StudySession):
    """A session that notes its own computing."""

    clock: Clock
    _asked: Contribute | None = None
    _contributing_s = 0.0

    def consider(self, signed: SignedStudy) -> Packet:
        """Consider the study, and note how long it took."""
        start = time.perf_counter()
        try:
            return super().consider(signed)
        finally:
            self.clock.consider_s.append(time.perf_counter() - start)

    def handle(self, packet: Packet) -> tuple[Send, ...]:
        """Handle the packet, and note the processor time of everything but the contribution."""
        self._contributing_s, start = 0.0, time.thread_time()
        sends = super().handle(packet)
        self.clock.checks_s.append(time.thread_time() - start - self._contributing_s)
        return sends

    def values(self) -> NDArray[np.int64]:
        """Return this site's values, computed once more when the round is over, for comparison with what opened."""
        if self._joined is None or self._asked is None:
            raise LocalProtocolError("R2", "the site took part in no round")
        joined = self._joined
        return joined.plan.contribution(joined.tables.batches, self._asked.blocks, joined.supplied)[1]

    def _contribute(self, effect: Contribute) -> tuple[SiteEffect, ...]:
        self._asked = effect
        self.clock.before.wait()
        start, cpu_start = time.perf_counter(), time.thread_time()
        effects = super()._contribute(effect)
        self._contributing_s = time.thread_time() - cpu_start
        self.clock.contribute_s.append(time.perf_counter() - start)
        self.clock.after.wait()
        return effects


class TimedAttempt(Attempt):
    """An attempt that notes its steps."""

    clock: Clock

    def _set_deadline(self, step: str) -> None:
        self.clock.steps.append((step, time.perf_counter()))
        super()._set_deadline(step)


class TimedRunner(StudyRunner):
    """A runner that notes the steps of its round, and keeps what it opened."""

    kind_of_attempt = TimedAttempt
    clock: Clock
    opened: NDArray[np.int64]

    def _prepare(self, setup: CoordinatorSetup, key: RoundKey, course: Course) -> Attempt:
        self.clock.note("open")
        attempt = super()._prepare(setup, key, course)
        if isinstance(attempt, TimedAttempt):
            attempt.clock = self.clock
        return attempt

    def _opened(
        self, course: Course, attempt: Attempt, ended: Opened, earlier: Earlier | None
    ) -> OpenedIteration:
        self.clock.note("opened")
        self.opened = ended.values
        return super()._opened(course, attempt, ended, earlier)
