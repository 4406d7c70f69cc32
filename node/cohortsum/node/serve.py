"""The node as a process: ``python -m cohortsum.node.serve FOLDER``.

The folder holds ``node.yaml``, ``policy.yaml``, what the admin pinned (`pinning`: the operator's key, rosters, deny-list), and
``approved.txt`` with the digests of the studies the admin approved. One JSON line per
event goes to standard output; it stays at the site. Exit codes: 0 the study ended, 2 bad settings or a ledger that
cannot be written, 4 the line stayed down.
"""

import argparse
import asyncio
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import structlog

from cohortsum.crypto.certificates import TLS13_ONLY
from cohortsum.crypto.errors import CohortsumError, ConfigurationError, LineError

PATIENCE_S = 3600.0


def main() -> int:
    """Take part in one study as the command line says, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run a cohortsum node for one study.")
    parser.add_argument("folder", type=Path, help="the node's folder")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_S, help="seconds without the coordinator before giving up"
    )
    arguments = parser.parse_args()
    return run(arguments.folder, arguments.patience)


def run(folder: Path, patience_s: float = PATIENCE_S) -> int:
    """Take part in one study and return the exit code. Nothing may have imported grpc before."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stdout),
    )
    log: structlog.stdlib.BoundLogger = structlog.get_logger()
    os.environ[TLS13_ONLY[0]] = TLS13_ONLY[1]  # before grpc is imported, or TLS 1.2 stays possible
    try:
        asyncio.run(_serve(folder, patience_s))
    except CohortsumError as error:
        log.error("node.stopped", error=type(error).__name__, sentence=error.message)
        return 4 if isinstance(error, LineError) else 2
    return 0


async def _serve(folder: Path, patience_s: float) -> None:
    from cohortsum.node.approval import approved
    from cohortsum.node.client import Line, NodeClient, secure_channel
    from cohortsum.node.config import load_node_config, load_policy_config
    from cohortsum.node.files import read_key
    from cohortsum.node.ledger import Ledger
    from cohortsum.node.pinning import load_pin
    from cohortsum.node.session import Site, StudySession
    from cohortsum.protocol.denylist import without_denied
    from cohortsum.protocol.envelope import Signer
    from cohortsum.protocol.roster import Role

    config = load_node_config(folder / "node.yaml")
    for left in folder.glob("cohortsum-*"):  # private copies that a killed process could not remove
        shutil.rmtree(left)
    pin = load_pin(folder)
    roster = without_denied(pin.newest, pin.deny)
    identity = roster.identities.get(config.site)
    if identity is None or identity.role is not Role.SITE:
        raise ConfigurationError(
            f"node.yaml: site '{config.site}' is no site of the roster; ask the operator to admit it"
        )
    signer = Signer(identity, read_key(config.identity_key))
    with closing(Ledger(folder / "ledger.db")) as ledger, ThreadPoolExecutor(os.cpu_count()) as pool:
        site = Site(
            rosters=pin.rosters,
            deny=pin.deny,
            signer=signer,
            tables=config,
            policy=load_policy_config(folder / "policy.yaml"),
            epoch=config.epoch,
            ledger=ledger,
            approved=approved(folder),
            pool=pool,
            scratch=folder,
        )
        session = StudySession(site)
        line = Line(config.coordinator, patience_s)
        try:
            async with secure_channel(line, signer, roster) as channel:
                await NodeClient(channel, session, line, config.site).run()
        finally:
            session.close()


if __name__ == "__main__":
    sys.exit(main())
