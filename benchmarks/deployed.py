"""A consortium as it is deployed, in one process: roster, signed study, tables on disk, coordinator and nodes over TLS.

The wiring is that of `cohortsum.coordinator.serve` and `cohortsum.node.serve`; what differs is that everybody shares one
event loop and one pool of threads. Import this only after the environment variable of `TLS13_ONLY` is set.
"""

import asyncio
import hashlib
import os
from collections.abc import Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.timed import Clock, TimedRunner, TimedSession
from cohortsum.coordinator.hub import Hub, Place
from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.runner import Pace
from cohortsum.coordinator.service import ConsortiumService, secure_server
from cohortsum.coordinator.store import Store, sqlite_url
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import IdentityKey
from cohortsum.node.client import Caller, Connection, Line, NodeClient, in_thread
from cohortsum.node.config import PolicyConfig, TablesConfig
from cohortsum.node.decisions import Decision
from cohortsum.node.joining import Site
from cohortsum.node.ledger import Ledger
from cohortsum.protocol.denylist import nobody_denied
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import Roster, SiteId
from cohortsum.study.definition import freeze, load_roster, load_study
from cohortsum.study.definition.signing import SignedStudy, sign_study
from cohortsum.study.planning import StudyPlan, plan_study

HUB, STATISTICIAN = "hub", "statistician"
PEOPLE = 24
PATIENCE_S = 60.0
GATHER_S = 600.0

STUDY = """
study: bench
title: Many outcomes on three terms
version: 1
roster: 1
expires: 2099-12-31
person: subject_id
variables:
  dx: {{levels: [control, case]}}
  sex: {{levels: [female, male]}}
  age: {{unit: years, range: [6, 64]}}
{outcomes}
cohort: {{epoch: bench}}
analyses:
  many:
    kind: regression
    outcomes: [{names}]
    terms: [dx, age, sex]
    site_effect: within
    missing: per_outcome
protection:
  mode: masking
  min_sites: 3
  min_participants: 60
  max_participants: 100000
  min_participants_per_site: 10
  max_colluding_sites: 1
  min_honest_inputs: 3
privacy: {{noise: none}}
release: {{checkers: {{consortium: 0, sites: none}}}}
"""


@dataclass(frozen=True, slots=True)
class Consortium:
    """What everybody holds before a study runs."""

    roster: Roster
    signed: SignedStudy
    plan: StudyPlan
    folder: Path


def found(folder: Path, sites: int, outcomes: int) -> Consortium:
    """Write a roster, a study with so many outcomes, and a table for every site into ``folder``."""
    names = [f"y{number}" for number in range(outcomes)]
    roles = {HUB: "coordinator", STATISTICIAN: "statistician"} | dict.fromkeys(_sites(sites), "site")
    lines = ["consortium: bench", "roster: 1", "identities:"]
    for number, (name, role) in enumerate(roles.items()):
        index = f", index: {number - 2}" if role == "site" else ""
        key = identity_key(name).public.hex()
        lines.append(
            f"  - {{id: {name}, role: {role}{index}, name: {name}, organisation: bench, key: 'ed25519:{key}'}}"
        )
    roster = load_roster("\n".join(lines).encode(), "consortium.yaml")
    text = STUDY.format(
        outcomes="\n".join(f"  {name}: {{unit: mm, range: [0, 5]}}" for name in names), names=", ".join(names)
    )
    study = freeze(load_study(text.encode(), "study.yaml"))
    for site, name in enumerate(_sites(sites)):
        (folder / f"{name}.csv").write_text(_table(site, names), encoding="utf-8")
    signed = sign_study(study, STATISTICIAN, identity_key(STATISTICIAN))
    return Consortium(roster, signed, plan_study(study, roster), folder)


def identity_key(name: str) -> IdentityKey:
    """Return a fixed identity key, so that every run is the same."""
    return IdentityKey(SecretBytes(hashlib.sha256(f"bench/{name}".encode()).digest(), "identity seed"))


async def run(consortium: Consortium) -> tuple[Clock, TimedRunner, list[NDArray[np.int64]]]:
    """Run the study to its release; returns what was timed, and every site's values."""
    roster, folder = consortium.roster, consortium.folder
    clock, cores = Clock(len(roster.sites)), os.cpu_count() or 1
    contributed: list[NDArray[np.int64]] = []
    with ThreadPoolExecutor(cores) as pool, ThreadPoolExecutor(len(roster.sites) + cores) as threads:
        asyncio.get_running_loop().set_default_executor(threads)  # every site waits in a thread of its own
        store = Store(sqlite_url(folder / "coordinator.db"))
        hub = Signer(roster.coordinator, identity_key(HUB))
        deadlines = consortium.plan.study.deadlines_s
        runner = TimedRunner(
            consortium.plan,
            consortium.signed,
            roster,
            hub,
            store,
            folder / "spool",
            folder / "results",
            pool,
            Pace(GATHER_S, GATHER_S, deadlines.step_max),
        )
        runner.clock = clock
        roll = Roll({roster.version: roster}, nobody_denied(roster.consortium))
        place = Place(store, folder / "spool", folder / "results", pool)
        studies = Hub(lambda: roll, hub.key, place)
        studies.adopt(runner)
        server, port = secure_server(ConsortiumService(studies), lambda: roll, hub.key, "localhost:0")
        await server.start()
        try:
            async with asyncio.TaskGroup() as nodes:  # a node that fails ends the run
                for name in roster.sites:
                    nodes.create_task(_node(consortium, name, port, pool, clock, contributed))
                clock.note("begin")
                outcome = await runner.run()
                clock.note("end")
        finally:
            clock.release()
        await server.stop(grace=1)
        store.close()
    assert outcome.document is not None, outcome.reason
    return clock, runner, contributed


async def _node(
    consortium: Consortium,
    name: SiteId,
    port: int,
    pool: Executor,
    clock: Clock,
    contributed: list[NDArray[np.int64]],
) -> None:
    roster, folder, study = consortium.roster, consortium.folder, consortium.plan.study
    signer = Signer(roster.identities[name], identity_key(name))
    own = folder / name  # a ledger has its audit log beside it
    own.mkdir()
    with _ledger(own / "ledger.db") as ledger:
        site = Site(
            rosters={roster.version: roster},
            deny=lambda: nobody_denied(roster.consortium),
            signer=signer,
            tables=TablesConfig().for_file(folder / f"{name}.csv", study.person),
            policy=PolicyConfig(profile="open_data"),
            epoch=study.epoch,
            ledger=ledger,
            decision=lambda digest: Decision(
                digest, study.study, study.version, True, None, None, "benchmark", datetime.now(UTC)
            ),
            pool=pool,
            scratch=folder,
        )
        session = TimedSession(site)
        session.clock = clock
        line = Line(f"localhost:{port}", PATIENCE_S)
        async with Connection(line, signer, roster) as connection:
            client = NodeClient(Caller(connection, line, name), session, name)
            await client.answer(await in_thread(lambda: session.consider(consortium.signed)))
            await client.follow(study.digest)
        contributed.append(session.values())
        session.close()


@contextmanager
def _ledger(path: Path) -> Generator[Ledger]:
    ledger = Ledger(path)
    try:
        yield ledger
    finally:
        ledger.close()


def _sites(sites: int) -> list[str]:
    return [f"site{index}" for index in range(sites)]


def _table(site: int, names: list[str]) -> str:
    """Return a site's table: everything a plain function of site, person and outcome, nothing missing."""
    lines = [",".join(["subject_id", "dx", "sex", "age", *names])]
    for person in range(PEOPLE + site % 5):
        dx, sex = ("control", "case")[person % 2], ("female", "male")[person // 2 % 2]
        age = 6 + (7 * person + 3 * site) % 58
        values = (
            f"{(31 * person + 17 * site + 13 * number + person * number) % 500 / 100:.2f}"
            for number in range(len(names))
        )
        lines.append(",".join([f"p{site}-{person}", dx, sex, str(age), *values]))
    return "\n".join(lines) + "\n"
