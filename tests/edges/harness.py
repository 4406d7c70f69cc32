"""A consortium on loopback: one coordinator and its sites in one event loop, with real gRPC and mutual TLS.

The first eight sites hold ``4 * 2**i`` people, so that a site that is missing, doubled or foreign shows in every count. Everything
that passes the coordinator's edge is recorded, and a test may stop a call before or after it had its effect.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
import numpy as np
from numpy.typing import NDArray

from cohortsum.coordinator.clock import Clock
from cohortsum.coordinator.committee_desk import CommitteeDesk
from cohortsum.coordinator.evidence import EvidenceBook
from cohortsum.coordinator.hub import Hub, Place
from cohortsum.coordinator.locking import RoundLock
from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.runner import Outcome, Pace, StudyRunner
from cohortsum.coordinator.service import ConsortiumService, secure_server
from cohortsum.coordinator.store import Store, sqlite_url
from cohortsum.crypto.certificates import certified_name
from cohortsum.node.client import Caller, Connection, Line, NodeClient, in_thread, secure_channel
from cohortsum.node.committee.following import follow
from cohortsum.node.config import PolicyConfig, TablesConfig
from cohortsum.node.decisions import Decision
from cohortsum.node.joining import Site
from cohortsum.node.ledger import Ledger
from cohortsum.node.session import StudySession
from cohortsum.protocol.codec import WIRE_VERSION
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.denylist import nobody_denied
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Kind
from cohortsum.protocol.roster import ROSTER, Roster, verify_roster
from cohortsum.report.document import ResultDocument
from cohortsum.study.definition import FrozenStudy, freeze, load_roster, load_study
from cohortsum.study.definition.signing import SignedStudy, open_study, sign_study
from cohortsum.study.planning import plan_study
from cohortsum.study.results import Cell
from cohortsum.wire.v1 import round_pb2, service_pb2, service_pb2_grpc
from tests.protocol.consortium import identity_key

STATISTICIAN = "statistician"
HUB = "hub"
EPOCH = "2026-11"
PATIENCE_S = 30.0
LIMIT_S = 45.0
"""No test waits longer for anything."""

STUDY = """
study: loopback
title: Loopback
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  dx: {levels: [control, case]}
  age: {unit: years, range: [0, 100]}
  thick: {unit: mm, range: [0, 5]}
cohort: {epoch: 2026-11}
analyses:
  ages: {kind: summary, variables: [age], by: [dx]}
  bands: {kind: histogram, variables: [age], edges: [0, 25, 50, 75, 100]}
  thickness: {kind: regression, outcomes: [thick], terms: [dx, age]}
protection:
  min_sites: 3
  min_participants: 3
  max_participants: 100000
  min_participants_per_site: 2
  max_colluding_sites: 0
privacy: {noise: none}
release: {checkers: {consortium: 0, sites: none}}
deadlines: {step: 20s, tick: 1ms}
"""

Context = grpc.aio.ServicerContext[Any, Any]
Row = Mapping[str, Cell]
Hook = Callable[[str, str], Awaitable[None]]
"""Called with the site's id and what it does: a call, or the kind of the packet it submits, or ``UPLOAD``."""


def roster_yaml(sites: int, guests: Iterable[str] = ()) -> bytes:
    """Return a roster; ``guests`` are further identities, a line each."""
    lines = ["consortium: loopback", "roster: 1", "identities:"]
    roles = [(HUB, "coordinator", None), (STATISTICIAN, "statistician", None)]
    for name, role, index in [*roles, *((f"site{index}", "site", index) for index in range(sites))]:
        place = "" if index is None else f" index: {index},"
        lines.append(
            f"  - {{id: {name}, role: {role},{place} name: {name}, organisation: test,"
            f' key: "ed25519:{identity_key(name).public.hex()}"}}'
        )
    return "\n".join((*lines, *guests)).encode()


def pinned_roster(sites: int, guests: Iterable[str] = ()) -> Roster:
    """Return the roster of ``sites`` sites, as operators sign it and daemons verify it."""
    operator, text = identity_key("operator"), roster_yaml(sites, guests)
    verify_roster(text, operator.sign(ROSTER, text), operator.public)
    return load_roster(text, "consortium.yaml")


def signed_study(text: str = STUDY) -> tuple[FrozenStudy, SignedStudy]:
    study = freeze(load_study(text.encode(), "study.yaml"))
    return study, sign_study(study, STATISTICIAN, identity_key(STATISTICIAN))


def study_with(**changes: str) -> str:
    """Return the study with some of its keys' values replaced."""
    text = STUDY
    for key, value in changes.items():
        before, found, after = text.partition(f"{key}: ")
        assert found, key
        end = min(place for sign in ",}\n" if (place := after.find(sign)) >= 0)
        text = f"{before}{found}{value}{after[end:]}"
    return text


def people_at(index: int) -> int:
    return 4 << index % 8


@dataclass(frozen=True, slots=True)
class People:
    """The rows of one site; every number has few digits, so that its text is the number."""

    dx: NDArray[np.int64]
    age: NDArray[np.float64]
    thick: NDArray[np.float64]

    @classmethod
    def of(cls, index: int) -> "People":
        generator = np.random.default_rng(index)
        size = people_at(index)
        dx = np.arange(size) % 2
        age = generator.integers(500, 9500, size) / 100
        noise = generator.integers(-500, 500, size) / 1000
        return cls(dx, age, np.round(2.5 + 0.1 * index - 0.2 * dx - 0.005 * age + noise, 4))

    def csv(self, prefix: str) -> str:
        rows = (
            f"{prefix}-{number:05d},{('control', 'case')[dx]},{age},{thick}"
            for number, (dx, age, thick) in enumerate(zip(self.dx, self.age, self.thick, strict=True))
        )
        return "\n".join(("id,dx,age,thick", *rows)) + "\n"


def tables_at(path: Path) -> TablesConfig:
    return TablesConfig.model_validate({"tables": {"data": {"path": path, "id": "id"}}})


def approving(*studies: bytes) -> Callable[[bytes], Decision | None]:
    """Return the decisions of an admin who approved these studies and nothing else."""

    def decision(digest: bytes) -> Decision | None:
        if digest not in studies:
            return None
        return Decision(digest, "study", 1, True, None, None, "admin", datetime.now(UTC))

    return decision


def make_site(folder: Path, index: int, roster: Roster, study: FrozenStudy, pool: ThreadPoolExecutor) -> Site:
    """Return site ``index`` in a folder of its own, with its table written and the study approved."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "people.csv"
    table.write_text(People.of(index).csv(f"s{index}"), encoding="utf-8")
    name = f"site{index}"
    return Site(
        rosters={roster.version: roster},
        deny=lambda: nobody_denied(roster.consortium),
        signer=Signer(roster.identities[name], identity_key(name)),
        tables=tables_at(table),
        policy=PolicyConfig(profile="open_data"),
        epoch=EPOCH,
        ledger=Ledger(folder / "ledger.db"),
        decision=approving(study.digest),
        pool=pool,
        scratch=folder,
    )


class SeenRunner(StudyRunner):
    """A runner that shows its machine."""

    @property
    def machine(self) -> CoordinatorRound:
        assert self._current is not None, "a round is open"
        return self._current.machine

    def expire(self) -> None:
        """Let the deadline of the step that is waited for pass now."""
        assert self._current is not None, "a round is open"
        self._current._expire(self.machine.step or "", True)  # pyright: ignore[reportPrivateUsage]


@dataclass
class Wire:
    """Everything that passed the coordinator's edge, decrypted, by site: what came in and what went out."""

    received: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict[str, list[tuple[str, bytes]]])
    sent: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict[str, list[tuple[str, bytes]]])

    def note(self, direction: dict[str, list[tuple[str, bytes]]], site: str, what: str, data: bytes) -> None:
        direction.setdefault(site, []).append((what, data))

    def all_bytes(self) -> bytes:
        held = [*self.received.values(), *self.sent.values()]
        return b"".join(data for entries in held for _, data in entries)

    def packets(self, site: str) -> list[tuple[str, bytes]]:
        """Return what a site submitted and uploaded, without its polls."""
        return [
            (what, data) for what, data in self.received.get(site, []) if what not in ("GetStudy", "Next")
        ]


async def _nothing(_site: str, _what: str) -> None:
    return


class WatchedService(ConsortiumService):
    """The product's service with a recorder and two hooks around every call."""

    def __init__(self, hub: Hub, wire: Wire) -> None:
        super().__init__(hub)
        self.wire = wire
        self.before: Hook = _nothing
        self.after: Hook = _nothing

    async def GetStudy(
        self, request: service_pb2.GetStudyRequest, context: Context
    ) -> service_pb2.SignedStudy:
        site = caller(context)
        self.wire.note(self.wire.received, site, "GetStudy", request.SerializeToString())
        reply = await super().GetStudy(request, context)
        self.wire.note(self.wire.sent, site, "GetStudy", reply.SerializeToString())
        return reply

    async def Next(self, request: service_pb2.NextRequest, context: Context) -> service_pb2.NextReply:
        site = caller(context)
        self.wire.note(self.wire.received, site, "Next", request.SerializeToString())
        await self.after(site, "POLL")
        reply = await super().Next(request, context)
        self.wire.note(self.wire.sent, site, "Next", reply.SerializeToString())
        return reply

    async def Submit(self, request: round_pb2.Packet, context: Context) -> service_pb2.SubmitReply:
        site, kind = caller(context), request.envelope.kind
        what = Kind(kind).name if kind in set(Kind) else str(kind)
        self.wire.note(self.wire.received, site, what, request.SerializeToString())
        await self.before(site, what)
        reply = await super().Submit(request, context)
        await self.after(site, what)
        return reply

    async def Upload(
        self, request_iterator: AsyncIterator[service_pb2.UploadChunk], context: Context
    ) -> service_pb2.SubmitReply:
        site = caller(context)

        async def chunks() -> AsyncIterator[service_pb2.UploadChunk]:
            async for chunk in request_iterator:
                self.wire.note(self.wire.received, site, "UPLOAD", chunk.SerializeToString())
                await self.after(site, "CHUNK")
                yield chunk

        await self.before(site, "UPLOAD")
        try:
            reply = await super().Upload(chunks(), context)
        except BaseException:
            await self.after(site, "UPLOAD broken off")
            raise
        await self.after(site, "UPLOAD")
        return reply


def caller(context: Context) -> str:
    return certified_name(next(iter(context.auth_context()["x509_pem_cert"])))


class Hold:
    """Stops one call of one site until it is released."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await self.released.wait()


class Loopback:
    """One study of one consortium on loopback; an async context manager.

    Args:
        folder: of this consortium alone.
        sites: how many.
        study: the study file.
        change: what to change about single sites, by index.
        gather_s: how long an attempt waits for its sites to be present.
        clock: for enrolment and gathering; with one the study's own window counts.
        guests: further lines of the roster.
        evidence: where the coordinator keeps evidence against sites.
        store: URL of the coordinator's database; SQLite in the folder by default.
    """

    def __init__(
        self,
        folder: Path,
        sites: int = 5,
        study: str = STUDY,
        change: Mapping[int, Callable[[Site], Site]] | None = None,
        gather_s: float = LIMIT_S,
        clock: Clock | None = None,
        guests: Iterable[str] = (),
        evidence: EvidenceBook | None = None,
        store: str = "",
    ) -> None:
        self.evidence = evidence
        self.folder, self.count, self.gather_s, self.clock = folder, sites, gather_s, clock
        self.roster = pinned_roster(sites, guests)
        self._roll = Roll({self.roster.version: self.roster}, nobody_denied(self.roster.consortium))
        self.study, self.signed = signed_study(study)
        self.pool = ThreadPoolExecutor(2)
        changes = change or {}
        self.sites = [
            changes.get(index, _same)(
                make_site(folder / f"site{index}", index, self.roster, self.study, self.pool)
            )
            for index in range(sites)
        ]
        self.store = Store(store or sqlite_url(folder / "coordinator.db"))
        self.wire = Wire()
        self.port = 0
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.happened: list[tuple[str, str]] = []
        self._holds: dict[tuple[str, str, str], Hold] = {}
        self._leavers: set[tuple[str, str]] = set()
        self._moved = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.serve()
        return self

    async def serve(self) -> None:
        """Serve the study as a process that has just begun, from what is kept."""
        study = open_study(self.signed, self.roster)
        self.carries = self.make_desk()
        self.runner = SeenRunner(
            plan_study(study, self.roster),
            self.signed,
            self.roster,
            Signer(self.roster.coordinator, identity_key(HUB)),
            self.store,
            self.folder / "spool",
            self.results,
            self.pool,
            Pace(None if self.clock else LIMIT_S, self.gather_s, study.deadlines_s.step),
            self.clock,
            evidence=self.evidence,
            lock=self.make_lock(),
            desk=self.carries,
        )
        self.hub = Hub(
            self.roll, identity_key(HUB), Place(self.store, self.folder / "spool", self.results, self.pool)
        )
        self.hub.adopt(self.runner)
        self.service = self.make_service()
        self.service.before, self.service.after = self._before, self._after
        await self.start_server()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        await self.stop_server()
        self.store.close()
        for site in self.sites:
            site.ledger.close()
        self.pool.shutdown()

    def make_service(self) -> WatchedService:
        """Return what is served: the product's service, unless a subclass says otherwise."""
        return WatchedService(self.hub, self.wire)

    def make_lock(self) -> RoundLock | None:
        """Return the trustee of the study, where a subclass has one."""
        return None

    def make_desk(self) -> CommitteeDesk | None:
        """Return what carries the runs of committees, where a subclass has one."""
        return None

    def make_session(self, site: Site) -> StudySession:
        """Return what answers for a site: the product's session, unless a subclass says otherwise."""
        return StudySession(site)

    def roll(self) -> Roll:
        """Who counts at the coordinator."""
        return self._roll

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def line(self) -> Line:
        return Line(f"127.0.0.1:{self.port}", PATIENCE_S)

    def line_of(self, _site: str) -> Line:
        """Return the line of one site's node."""
        return self.line

    async def start_server(self) -> None:
        """Listen, on the same port as before if there was one."""
        self._server, self.port = secure_server(
            self.service, self.roll, identity_key(HUB), f"127.0.0.1:{self.port}", committee=self.carries
        )
        await self._server.start()

    async def stop_server(self) -> None:
        """Stop listening at once; calls that are under way are broken off."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def run(self, nodes: Iterable[int] | None = None) -> Outcome:
        """Run the study with these nodes, by default all of them, to its end."""
        ending = self.start(nodes)
        async with asyncio.timeout(LIMIT_S):
            outcome = await ending
            await asyncio.gather(*(task for task in self.tasks.values() if not task.cancelled()))
        return outcome

    def start(self, nodes: Iterable[int] | None = None) -> asyncio.Task[Outcome]:
        """Begin the study and return the task of its outcome."""
        for index in range(self.count) if nodes is None else nodes:
            self.join(index)
        return asyncio.create_task(self.runner.run())

    def join(self, index: int) -> None:
        self.tasks[f"site{index}"] = asyncio.create_task(self._node(self.sites[index]))

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until calls that had their effect make ``ready`` true."""
        async with asyncio.timeout(LIMIT_S):
            while not ready():
                self._moved.clear()
                await self._moved.wait()

    def times(self, what: str, site: str = "") -> int:
        """Return how often something had its effect, for one site or for all."""
        return sum(done == what and site in ("", who) for who, done in self.happened)

    def polls(self, site: str) -> bool:
        """Return whether a node has nothing to do but ask for its next packet."""
        return next(what for who, what in reversed(self.happened) if who == site) == "POLL"

    def hold(self, site: str, what: str, when: str = "before") -> Hold:
        """Stop a site's call before or after its effect."""
        held = Hold()
        self._holds[when, site, what] = held
        return held

    def leave_after(self, site: str, what: str) -> None:
        """Let a node vanish as soon as the coordinator has taken something of it."""
        self._leavers.add((site, what))

    @asynccontextmanager
    async def stub(self, index: int) -> "AsyncGenerator[service_pb2_grpc.ConsortiumAsyncStub]":
        """Call the coordinator under the identity of a site, without a node."""
        async with secure_channel(self.line, self.sites[index].signer, self.roster) as channel:
            held: service_pb2_grpc.ConsortiumAsyncStub = service_pb2_grpc.ConsortiumStub(channel)
            yield held

    async def _node(self, site: Site) -> None:
        session, name = self.make_session(site), site.signer.identity.id
        line = self.line_of(name)
        try:
            async with Connection(line, site.signer, self.roster) as connection:
                caller = Caller(connection, line, name)
                request = service_pb2.GetStudyRequest(wire_version=WIRE_VERSION, digest=self.study.digest)
                held = await caller.call(lambda stub: stub.GetStudy(request, timeout=LIMIT_S))
                signed = SignedStudy(held.canonical, held.statistician, held.signature)
                client = NodeClient(caller, session, name)
                await client.answer(await in_thread(lambda: session.consider(signed)))
                folder = self.folder / name
                await follow(caller, client, session, folder, self.study.digest)
        finally:
            session.close()

    async def _before(self, site: str, what: str) -> None:
        held = self._holds.pop(("before", site, what), None)
        if held is not None:
            await held.wait()

    async def _after(self, site: str, what: str) -> None:
        self.happened.append((site, what))
        self._moved.set()
        if (site, what) in self._leavers:
            self._leavers.discard((site, what))
            self.tasks[site].cancel()
        held = self._holds.pop(("after", site, what), None)
        if held is not None:
            await held.wait()


def _same(site: Site) -> Site:
    return site


def rows(document: ResultDocument, analysis: str) -> list[Row]:
    """Return the rows of one result table, each by column."""
    table = next(block.table() for block in document.tables if block.analysis == analysis)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]
