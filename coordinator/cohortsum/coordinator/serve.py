"""The coordinator as a process: ``python -m cohortsum.coordinator.serve CONFIG``.

Reads its settings, waits until no other coordinator serves from the same store (`lease`), verifies rosters, takes up every study that is
not over, listens with TLS 1.3 and client certificates, and serves until SIGTERM or SIGINT. With ``--study`` it takes in that one study and ends with it, 0 with a result, 3 without one, or before it
where it is told to (3).
Exit codes: 1 a fault of cohortsum, 2 bad settings, or a store or audit log that cannot be written or was tampered with, 5 another
coordinator has taken over. One JSON line per event goes to standard output. What could name a person is scrubbed from it, and from standard error.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from cohortsum.coordinator.config import CoordinatorConfig, load_coordinator_config, read_file
from cohortsum.crypto.certificates import TLS13_ONLY
from cohortsum.crypto.errors import CohortsumError, ConfigurationError, FencedError, StoreError
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.crypto.scrubbing import ScrubbedText, scrub
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import IdentityKey

if TYPE_CHECKING:
    from cohortsum.coordinator.hub import Hub
    from cohortsum.study.definition.signing import SignedStudy

WITHOUT_RESULT = 3
"""Exit code where the one study ended without a result, or was not waited for."""

TAKEN_OVER = 5
"""Exit code where another coordinator holds the lease now; started again, this one waits for its turn."""

LOOK_AROUND_S = 2.0
"""How often a running coordinator looks for new rosters and denials."""


def main() -> int:
    """Serve as the command line says, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run a cohortsum coordinator.")
    parser.add_argument("config", type=Path, help="coordinator.yaml")
    parser.add_argument("--study", type=Path, help="take in this signed study, and end with it")
    arguments = parser.parse_args()
    return run(arguments.config, arguments.study)


def run(path: Path, study: Path | None = None) -> int:
    """Serve with the settings in ``path`` and return the exit code. Nothing may have imported grpc before."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            scrub,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stdout),
    )
    log: structlog.stdlib.BoundLogger = structlog.get_logger()
    os.environ[TLS13_ONLY[0]] = TLS13_ONLY[1]  # before grpc is imported, or TLS 1.2 stays possible
    try:
        with contextlib.redirect_stderr(ScrubbedText(sys.stderr)):
            return asyncio.run(_serve(load_coordinator_config(path), path, study))
    except CohortsumError as error:
        log.error("coordinator.stopped", error=type(error).__name__, sentence=error.message)
        return TAKEN_OVER if isinstance(error, FencedError) else 2
    except Exception as error:  # a fault of ours: its traceback is scrubbed like everything else
        log.exception("coordinator.failed", error=type(error).__name__)
        return 1


async def _serve(config: CoordinatorConfig, settings: Path, study_file: Path | None) -> int:
    from cohortsum.coordinator.lease import leased
    from cohortsum.coordinator.store import FENCED, Store
    from cohortsum.study.definition.signing import signed_study_from_json

    signed = None if study_file is None else signed_study_from_json(read_file(study_file))
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    lost = asyncio.Event()
    with contextlib.closing(Store(config.store)) as store:
        async with leased(store, settings, config.lease_s, stopping, lost) as token:
            if token is None:
                return 0 if signed is None else WITHOUT_RESULT
            code = await _lead(config, settings.parent, signed, stopping, token)
        if lost.is_set():
            raise FencedError(FENCED)
        return code


async def _lead(
    config: CoordinatorConfig,
    folder: Path,
    signed: "SignedStudy | None",
    stopping: asyncio.Event,
    token: int,
) -> int:
    """Serve under a lease until told to stop."""
    log: structlog.stdlib.BoundLogger = structlog.get_logger()
    async with _listening(config, folder, token) as hub:
        if signed is not None:
            code = await _before(stopping, _one_study(hub, signed, config.grace_s))
            if code is not None:
                return code
        while not stopping.is_set():
            await hub.exclude_denied()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), LOOK_AROUND_S)
    log.info("coordinator.ended", reason="asked to")
    return 0 if signed is None else WITHOUT_RESULT


async def _one_study(hub: "Hub", signed: "SignedStudy", grace_s: float) -> int:
    """Take in a study and return the exit code once it ended and its sites heard of it."""
    outcome = await hub.ended(await hub.submit(signed))
    await asyncio.sleep(grace_s)
    return 0 if outcome.document is not None else WITHOUT_RESULT


async def _before(stopping: asyncio.Event, work: Coroutine[None, None, int]) -> int | None:
    """Return what ``work`` returns, or None where the program is asked to end first."""
    doing, asked = asyncio.ensure_future(work), asyncio.ensure_future(stopping.wait())
    await asyncio.wait((doing, asked), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if doing.done():
        return doing.result()
    doing.cancel()
    return None


@asynccontextmanager
async def _listening(config: CoordinatorConfig, folder: Path, token: int) -> "AsyncGenerator[Hub]":
    """Take up the studies and serve them."""
    from cohortsum.coordinator.audit_log import AUDIT
    from cohortsum.coordinator.bundle import papers_in
    from cohortsum.coordinator.committee_desk import CommitteeDesk
    from cohortsum.coordinator.evidence import EVIDENCE
    from cohortsum.coordinator.hub import Hub, Place
    from cohortsum.coordinator.metrics import Tally, served_metrics
    from cohortsum.coordinator.notices import Messenger
    from cohortsum.coordinator.roll import RollBook
    from cohortsum.coordinator.runner import Pace
    from cohortsum.coordinator.service import ConsortiumService, secure_server
    from cohortsum.coordinator.store import Store
    from cohortsum.coordinator.trustee_client import TrusteeClient
    from cohortsum.protocol.audit import Deed, DeedKind

    log: structlog.stdlib.BoundLogger = structlog.get_logger()
    book = RollBook(config, folder)
    if config.identity != book.roll.now.coordinator.id:
        raise ConfigurationError(f"identity '{config.identity}' is not the coordinator of the roster")
    key = IdentityKey(
        SecretBytes(parse_hex(read_file(config.identity_key), 32, config.identity_key.name), "seed")
    )
    config.spool.mkdir(parents=True, exist_ok=True)
    store = Store(config.store, folder / AUDIT, config.process)
    store.token = token
    with contextlib.closing(store), ThreadPoolExecutor(os.cpu_count()) as pool:
        fault = store.audit().fault
        if fault is not None:
            raise StoreError(
                f"the audit log was tampered with ({fault}); keep {AUDIT} for whoever investigates, then begin a new one with "
                "`cohortsum coordinator audit renew`"
            )
        store.note(Deed(DeedKind.STARTED, by=config.identity))
        pace = Pace(config.enrol_s, config.gather_s, config.step_max_s)
        tally, teller = Tally(), Messenger(config.notices, config.identity, folder)
        papers, desk = papers_in(config, folder), CommitteeDesk(key)
        place = Place(
            store,
            config.spool,
            config.results,
            pool,
            pace,
            teller.send,
            papers,
            config.limits,
            folder / EVIDENCE,
            None if config.trustee is None else TrusteeClient(config.trustee, key, lambda: book.roll),
            desk,
        )
        hub = Hub(lambda: book.roll, key, place)
        server, port = secure_server(
            ConsortiumService(hub, tally),
            lambda: book.roll,
            key,
            config.listen,
            config.limits,
            config.allow,
            desk,
        )
        await hub.resume()
        await server.start()
        log.info("coordinator.listening", host=config.listen.rpartition(":")[0], port=port)
        try:
            with served_metrics(config.metrics, hub, tally):
                yield hub
        finally:
            await server.stop(grace=1)
            await hub.close()


if __name__ == "__main__":
    sys.exit(main())
