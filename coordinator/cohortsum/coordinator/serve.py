"""The coordinator as a process: ``python -m cohortsum.coordinator.serve CONFIG``.

Reads its settings, verifies roster and study, listens with TLS 1.3 and client certificates, runs the study and exits: 0 with
a result, 3 without one, 2 for bad settings. One JSON line per event goes to standard output.
"""

import argparse
import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import structlog

from cohortsum.coordinator.admission import load_consortium
from cohortsum.coordinator.config import CoordinatorConfig, load_coordinator_config, read_file
from cohortsum.crypto.certificates import TLS13_ONLY
from cohortsum.crypto.errors import CohortsumError, ConfigurationError
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import SIGNATURE_BYTES, IdentityKey
from cohortsum.protocol.denylist import DenyList, nobody_denied, without_denied
from cohortsum.protocol.roster import Roster
from cohortsum.study.definition.consortium import open_roster


def main() -> int:
    """Run one study as the command line says, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run a cohortsum coordinator for one study.")
    parser.add_argument("config", type=Path, help="coordinator.yaml")
    parser.add_argument("--study", type=Path, help="the signed study, instead of the one in the settings")
    arguments = parser.parse_args()
    return run(arguments.config, arguments.study)


def run(path: Path, study: Path | None) -> int:
    """Run one study with the settings in ``path`` and return the exit code. Nothing may have imported grpc before."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stdout),
    )
    log: structlog.stdlib.BoundLogger = structlog.get_logger()
    os.environ[TLS13_ONLY[0]] = TLS13_ONLY[1]  # before grpc is imported, or TLS 1.2 stays possible
    try:
        return asyncio.run(_serve(load_coordinator_config(path), path.parent, study))
    except CohortsumError as error:
        log.error("coordinator.stopped", error=type(error).__name__, sentence=error.message)
        return 2


async def _serve(config: CoordinatorConfig, folder: Path, study_file: Path | None) -> int:

    from cohortsum.coordinator.runner import StudyRunner
    from cohortsum.coordinator.service import ConsortiumService, secure_server
    from cohortsum.coordinator.store import Store
    from cohortsum.protocol.envelope import Signer
    from cohortsum.study.definition import parse_canonical, refuse_unbuilt
    from cohortsum.study.definition.signing import open_study, signed_study_from_json
    from cohortsum.study.planning import plan_study

    log: structlog.stdlib.BoundLogger = structlog.get_logger()
    file = study_file or config.study
    if file is None:
        raise ConfigurationError(
            "no study is named; give --study with a file that `cohortsum study sign` wrote"
        )
    signed = signed_study_from_json(read_file(file))
    whole, deny = _pinned(config, folder, parse_canonical(signed.canonical).roster)
    roster = without_denied(whole, deny)
    if config.identity != roster.coordinator.id:
        raise ConfigurationError(f"identity '{config.identity}' is not the coordinator of the roster")
    key = IdentityKey(SecretBytes(_hex(config.identity_key, 32), "identity seed"))
    study = open_study(signed, roster)
    refuse_unbuilt(study)
    if study.expires < datetime.now(UTC).date():
        raise ConfigurationError(f"study {study.study} expired on {study.expires}; sign a new version")
    plan = plan_study(study, whole)
    config.spool.mkdir(parents=True, exist_ok=True)
    store, signer = Store(config.store), Signer(roster.coordinator, key)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runner = StudyRunner(
            plan,
            signed,
            roster,
            signer,
            store,
            config.spool,
            config.results,
            pool,
            config.gather_s or study.deadlines_s.gather,
            config.step_max_s or study.deadlines_s.step_max,
        )
        host = config.listen.rpartition(":")[0]
        server, port = secure_server(ConsortiumService(roster, runner), roster, signer, config.listen)
        await server.start()
        log.info("coordinator.listening", host=host, port=port)
        outcome = await runner.run()
        await asyncio.sleep(config.grace_s)
        await server.stop(grace=1)
    store.close()
    return 0 if outcome.document is not None else 3


def _pinned(config: CoordinatorConfig, folder: Path, version: int) -> tuple[Roster, DenyList]:
    """Return the roster that a study names, and the deny-list in force."""
    if (folder / "rosters").is_dir():
        consortium = load_consortium(folder)
        if version not in consortium.rosters:
            raise ConfigurationError(
                f"roster version {version}, which the study names, is not in {folder / 'rosters'}"
            )
        return consortium.rosters[version], consortium.deny
    text = read_file(config.roster)
    signature = _hex(config.roster_signature, SIGNATURE_BYTES)
    roster = open_roster(text, signature, bytes.fromhex(config.operator_key), config.roster.name)
    return roster, nobody_denied(roster.consortium)


def _hex(path: Path, size: int) -> bytes:
    return parse_hex(read_file(path), size, path.name)


if __name__ == "__main__":
    sys.exit(main())
