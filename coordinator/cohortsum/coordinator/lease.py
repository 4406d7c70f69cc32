"""Which of several coordinators may write: a lease in the store, with a token that fences off whoever lost it.

Any number of processes may run over one database. One holds the lease and serves; the others wait. The holder renews it; if it dies, or its
machine sleeps, the lease ends and another process takes it, under the next token. Clocks decide only how soon that happens. What
makes it safe is the token: every transaction of the store first compares it (`store.Store.transaction`), so a process that wakes up
without the lease can write nothing, and since everything is written before a site hears of it, says nothing either.

A process that was killed is followed at once where it is started again on the same machine: a lock on a file beside its settings, which
ends with the process, shows that the holder of that name is dead.

Source: leases and fencing tokens, Gray and Cheriton 1989; Kleppmann 2017, *Designing Data-Intensive Applications*, chapter 8.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import socket
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import structlog

from cohortsum.coordinator.store import FENCED, LEASE, LeaseRow, Store, as_utc, now
from cohortsum.crypto.errors import ConfigurationError, FencedError, StoreError

RENEWALS = 3
"""Times that a lease is renewed within its length."""
LOOKS = 5
"""Times that a waiting process looks within a length."""

log: structlog.stdlib.BoundLogger = structlog.get_logger()


class Lease:
    """The lease as one process sees it.

    Args:
        store: where it lies.
        holder: this process's name, the same after a restart.
        length_s: how long it holds without a renewal.
    """

    def __init__(self, store: Store, holder: str, length_s: float) -> None:
        self._store, self._holder, self._length_s = store, holder, length_s
        self._renewed_s = 0.0

    def take(self) -> int | None:
        """Return the token if the lease is free, has ended, or was this holder's own; None while another holds it."""
        with self._store.transaction() as session:
            row = session.get(LeaseRow, LEASE)
            if row is None:
                row = LeaseRow(name=LEASE, token=0)
                session.add(row)
            elif row.holder != self._holder and as_utc(row.until) > now():
                return None
            row.token, row.holder = row.token + 1, self._holder
            row.until = now() + timedelta(seconds=self._length_s)
            token = row.token
        self._renewed_s = time.monotonic()
        return token

    def renew(self, token: int) -> None:
        """Hold the lease for another length; raises FencedError where another process has it."""
        began_s = time.monotonic()
        with self._store.transaction() as session:
            row = session.get_one(LeaseRow, LEASE)
            if row.token != token:
                raise FencedError(FENCED)
            row.until = now() + timedelta(seconds=self._length_s)
        self._renewed_s = began_s

    def end(self, token: int) -> None:
        """Let another process take the lease at once."""
        with self._store.transaction() as session:
            row = session.get_one(LeaseRow, LEASE)
            if row.token == token:
                row.until = now()

    async def hold(self, token: int, lost: Callable[[], None]) -> None:
        """Renew until cancelled; call ``lost`` once the lease is another's, or could not be renewed while it held."""
        while True:
            await asyncio.sleep(self._length_s / RENEWALS)
            try:
                await asyncio.to_thread(self.renew, token)
            except FencedError:
                log.error("lease.lost", reason="another coordinator has taken over")
                return lost()
            except StoreError as error:
                log.warning("lease.not_renewed", sentence=error.message)
                if time.monotonic() - self._renewed_s > self._length_s:
                    log.error(
                        "lease.lost", reason="the database did not answer for as long as the lease holds"
                    )
                    return lost()


@asynccontextmanager
async def leased(
    store: Store, settings: Path, length_s: float, stopping: asyncio.Event, lost: asyncio.Event
) -> AsyncGenerator[int | None]:
    """Wait for the lease and yield its token, renewed meanwhile; None where the program is to stop before.

    Sets ``lost`` and ``stopping`` when the lease is another's.

    Raises:
        ConfigurationError: another process runs with the same settings on this machine.
        StoreError: the database refuses.
    """
    with _alone(settings):
        lease = Lease(store, _holder(settings), length_s)
        token = await _taken(lease, length_s, stopping)
        if token is None:
            yield None
            return
        log.info("lease.taken", token=token)

        def lose() -> None:
            lost.set()
            stopping.set()

        holding = asyncio.create_task(lease.hold(token, lose))
        try:
            yield token
        finally:
            holding.cancel()
            with contextlib.suppress(StoreError):  # it ends by itself
                lease.end(token)


async def _taken(lease: Lease, length_s: float, stopping: asyncio.Event) -> int | None:
    waiting = False
    while not stopping.is_set():
        token = await asyncio.to_thread(lease.take)
        if token is not None:
            return token
        if not waiting:
            log.info("lease.waits", reason="another coordinator serves; this one takes over when it stops")
            waiting = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), length_s / LOOKS)
    return None


def _holder(settings: Path) -> str:
    return hashlib.sha256(f"{socket.gethostname()}\0{settings.resolve()}".encode()).hexdigest()


@contextlib.contextmanager
def _alone(settings: Path) -> Generator[None]:
    """Hold a lock that ends with this process; raises ConfigurationError while another process holds it."""
    path = settings.with_name(f".{settings.name}.lock")
    try:
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{path.name}: cannot be made ({error.strerror}); check rights") from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise ConfigurationError(
            f"{settings.name}: a coordinator runs with these settings already; stop it, or give this one settings of its own"
        ) from None
    try:
        yield
    finally:
        os.close(held)
