"""The node as a process: ``python -m cohortsum.node.serve FOLDER``.

The folder holds ``node.yaml``, ``policy.yaml``, what the admin pinned (`pinning`) and decided (`decisions`). The node serves
until SIGTERM or SIGINT; with ``--once`` it ends when every study at the coordinator is over. One JSON line per event goes to
standard output; it stays at the site. What could name a person is scrubbed from it, and from standard error. Exit codes: 0 asked
to stop, or over; 1 a fault of cohortsum; 2 bad settings, or a ledger or audit log that cannot be written or was tampered with;
4 the line stayed down for longer than ``--patience``.
"""

import argparse
import asyncio
import contextlib
import math
import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from cohortsum.crypto.certificates import TLS13_ONLY
from cohortsum.crypto.errors import CohortsumError, ConfigurationError, LineError, StoreError
from cohortsum.crypto.scrubbing import ScrubbedText, scrub

if TYPE_CHECKING:
    from cohortsum.node.config import NodeConfig
    from cohortsum.node.daemon import Daemon
    from cohortsum.node.recovery import Rebuilt
    from cohortsum.protocol.envelope import Signer
    from cohortsum.protocol.roster import Roster


def main() -> int:
    """Serve as the command line says, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run a cohortsum node.")
    parser.add_argument("folder", type=Path, help="the node's folder")
    parser.add_argument("--patience", type=float, default=math.inf, help="seconds without the coordinator")
    parser.add_argument("--once", action="store_true", help="end when every study is over")
    arguments = parser.parse_args()
    return run(arguments.folder, arguments.patience, once=arguments.once)


def run(folder: Path, patience_s: float = math.inf, *, once: bool = False) -> int:
    """Serve and return the exit code. Nothing may have imported grpc before."""
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
            asyncio.run(_serve(folder, patience_s, once))
    except CohortsumError as error:
        log.error("node.stopped", error=type(error).__name__, sentence=error.message)
        return 4 if isinstance(error, LineError) else 2
    except Exception as error:  # a fault of ours: its traceback is scrubbed like everything else
        log.exception("node.failed", error=type(error).__name__)
        return 1
    log.info("node.ended", reason="over" if once else "asked to")
    return 0


def recover(folder: Path, patience_s: float) -> "Rebuilt":
    """Rebuild the ledger in ``folder`` and return what was found. Nothing may have imported grpc before."""
    os.environ[TLS13_ONLY[0]] = TLS13_ONLY[1]
    return asyncio.run(_recover(folder, patience_s))


async def _recover(folder: Path, patience_s: float) -> "Rebuilt":
    from cohortsum.node.client import Caller, Connection, Line
    from cohortsum.node.recovery import rebuild

    config, signer, roster = _identity(folder)
    line = Line(config.coordinator, patience_s, config.standby)
    async with Connection(line, signer, roster) as connection:
        return await rebuild(folder, Caller(connection, line, config.site), signer)


def _identity(folder: Path) -> "tuple[NodeConfig, Signer, Roster]":
    """Return settings, signer and newest roster of the node in ``folder``; raises ConfigurationError if it is not in it."""
    from cohortsum.node.config import load_node_config
    from cohortsum.node.files import read_key
    from cohortsum.node.pinning import load_pin
    from cohortsum.protocol.denylist import without_denied
    from cohortsum.protocol.envelope import Signer
    from cohortsum.protocol.roster import Role

    config, pin = load_node_config(folder / "node.yaml"), load_pin(folder)
    roster = without_denied(pin.newest, pin.deny)
    identity = roster.identities.get(config.site)
    if identity is None or identity.role is not Role.SITE:
        raise ConfigurationError(
            f"node.yaml: site '{config.site}' is no site of the roster; ask the operator to admit it"
        )
    return config, Signer(identity, read_key(config.identity_key)), roster


async def _serve(folder: Path, patience_s: float, once: bool) -> None:
    from cohortsum.node.audit_log import AUDIT
    from cohortsum.node.client import Caller, Connection, Line
    from cohortsum.node.daemon import Daemon
    from cohortsum.node.decisions import DecisionBook
    from cohortsum.node.joining import site_of
    from cohortsum.node.ledger import Ledger
    from cohortsum.node.notices import Messenger
    from cohortsum.protocol.audit import Deed, DeedKind

    config, signer, roster = _identity(folder)
    for left in folder.glob("cohortsum-*"):  # private copies that a killed process could not remove
        shutil.rmtree(left)
    decisions = DecisionBook(folder)
    line = Line(config.coordinator, patience_s, config.standby)
    with closing(Ledger(folder / "ledger.db")) as ledger, ThreadPoolExecutor(os.cpu_count()) as pool:
        fault = ledger.audit().fault
        if fault is not None:
            raise StoreError(
                f"the audit log was tampered with ({fault}); keep {AUDIT} for whoever investigates, then begin a new one with "
                "`cohortsum node audit renew`"
            )
        ledger.note(Deed(DeedKind.STARTED, by=config.site))
        site = partial(site_of, folder, signer, ledger, decisions, pool)
        site()  # faults of files are said at once, not with the first study
        async with Connection(line, signer, roster) as connection:
            daemon = Daemon(
                folder,
                Caller(connection, line, config.site),
                site,
                decisions,
                Messenger(config.notices, config.site, folder),
                once=once,
            )
            await _until_told(daemon)


async def _until_told(daemon: "Daemon") -> None:
    """Serve until a signal comes or the daemon ends by itself."""
    serving = asyncio.create_task(daemon.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        if not serving.cancelled():
            raise


if __name__ == "__main__":
    sys.exit(main())
