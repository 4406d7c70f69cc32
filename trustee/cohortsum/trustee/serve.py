"""The trustee as a process: ``python -m cohortsum.trustee.serve FOLDER``, or with the path of its ``trustee.yaml``.

Reads its settings, verifies rosters, listens with TLS 1.3 and client certificates, and serves until SIGTERM or SIGINT. Its keys end with it.
Exit codes: 0 asked to stop, 1 a fault of cohortsum, 2 bad settings, or a ledger or audit log that cannot be written or was tampered with.
One JSON line per event goes to standard output. What could name a person is scrubbed from it, and from standard error.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import structlog

from cohortsum.crypto.certificates import TLS13_ONLY
from cohortsum.crypto.errors import CohortsumError, ConfigurationError, StoreError
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.crypto.scrubbing import ScrubbedText, scrub
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import IdentityKey
from cohortsum.trustee.config import LEDGER, SETTINGS_FILE, load_trustee_config, read_file

LOOK_AROUND_S = 60.0
"""How often keys that are too old are looked for, beside every call."""


def main() -> int:
    """Serve as the command line says, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run a cohortsum trustee.")
    parser.add_argument("folder", type=Path, help=f"folder of {SETTINGS_FILE}, or the file")
    given: Path = parser.parse_args().folder
    return run(given.parent if given.name == SETTINGS_FILE else given)


def run(folder: Path) -> int:
    """Serve with the settings in ``folder`` and return the exit code. Nothing may have imported grpc before."""
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
            asyncio.run(_serve(folder))
    except CohortsumError as error:
        log.error("trustee.stopped", error=type(error).__name__, sentence=error.message)
        return 2
    except Exception as error:  # a fault of ours: its traceback is scrubbed like everything else
        log.exception("trustee.failed", error=type(error).__name__)
        return 1
    log.info("trustee.ended", reason="asked to")
    return 0


async def _serve(folder: Path) -> None:
    from cohortsum.crypto.tenseal_seam import library
    from cohortsum.protocol.audit import Deed, DeedKind
    from cohortsum.trustee.audit_log import AUDIT
    from cohortsum.trustee.desk import Desk
    from cohortsum.trustee.keys import KeyRing
    from cohortsum.trustee.ledger import Ledger
    from cohortsum.trustee.roll import RollBook, own_place
    from cohortsum.trustee.server import secure_server
    from cohortsum.trustee.service import TrusteeService

    log: structlog.stdlib.BoundLogger = structlog.get_logger()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    library()  # where it is missing, say so now and not at the first study
    config = load_trustee_config(folder)
    book = RollBook(folder, bytes.fromhex(config.operator_key))
    key = IdentityKey(
        SecretBytes(parse_hex(read_file(config.identity_key), 32, config.identity_key.name), "seed")
    )
    wrong = own_place(book.roll, config.identity, key.public)
    if wrong is not None:
        raise ConfigurationError(wrong)
    with contextlib.closing(Ledger(folder / LEDGER)) as ledger:
        fault = ledger.audit().fault
        if fault is not None:
            raise StoreError(
                f"the audit log was tampered with ({fault}); keep {AUDIT} for whoever investigates, then begin a new one with "
                "`cohortsum trustee audit renew`"
            )
        ledger.note(Deed(DeedKind.STARTED, by=config.identity))
        ring = KeyRing(config.keys, 3600 * config.keep_h, time.monotonic)
        desk = Desk(config.identity, key, lambda: book.roll, ring, ledger, config.numbers)
        service = TrusteeService(desk, lambda: book.roll)
        server, port = secure_server(service, lambda: book.roll, config.identity, key, config.listen)
        await server.start()
        log.info("trustee.listening", host=config.listen.rpartition(":")[0], port=port)
        try:
            while not stopping.is_set():
                desk.sweep()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), LOOK_AROUND_S)
        finally:
            await server.stop(grace=1)
            desk.close()


if __name__ == "__main__":
    sys.exit(main())
