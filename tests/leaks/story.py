"""One consortium through everything that can go wrong; what each path did is noted, so that a path that stops failing is seen.

Five sites with planted people. Sites 3 and 4 keep the people rule. A study that sites leave waits half a second for each.
"""

import asyncio
import os
import shutil
import sqlite3
import sys
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import grpc
import pytest

from cohortsum.coordinator.spool import Upload
from cohortsum.crypto.certificates import certify, trust_anchor
from cohortsum.crypto.failpoints import VARIABLE
from cohortsum.node.client import Line, secure_channel
from cohortsum.node.config import load_node_config
from cohortsum.node.files import read_key
from cohortsum.node.ledger import Ledger
from cohortsum.node.pinning import load_pin
from cohortsum.protocol.envelope import Signer
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.planning import StudyPlan
from cohortsum.wire.v1 import round_pb2, service_pb2, service_pb2_grpc
from tests.edges.harness import STUDY
from tests.leaks.planted import CODES, Person, people
from tests.leaks.watched import Kept, WatchedTown
from tests.life.test_people_rule import MORE, PLAIN
from tests.life.town import LIMIT_S, study_of
from tests.protocol.consortium import identity_key


class Change(Protocol):
    """Breaks a table; ``one`` is its first person."""

    def __call__(self, text: str, one: Person) -> str: ...


OPEN = {"version: 1\n": 'version: 1\nenrol: {until: "2099-01-01T00:00+00:00", start: at_deadline}\n'}
IMPATIENT = {"step: 20s, tick: 1ms": "gather: 8s, step: 500ms, step_max: 500ms, tick: 1ms"}
HURRIED = {"step: 20s, tick: 1ms": "gather: 2s, step: 500ms, step_max: 500ms, tick: 1ms"}
THICKNESS = next(line for line in STUDY.splitlines() if "thickness:" in line) + "\n"
NOISED = {
    "privacy: {noise: none}": "privacy: {noise: distributed, epsilon: 0.3, delta: 1.0e-6, accept_noise: true}",
    THICKNESS: "",
    "min_sites: 3": "min_sites: 5",
}
STEPS = ("ADVERT", "SHARES", "MASKED", "CONSISTENCY", "GATE_SHARES", "DATA_SHARES")
SHY = "\udcff"
"""A byte that is no UTF-8, as text that is written with ``surrogateescape``."""

BROKEN: Mapping[str, Change] = MappingProxyType(
    {
        "text where a number should be": lambda text, one: text.replace(f"{one.age}", CODES[1]),
        "an unknown level": lambda text, one: text.replace(f"{one.id},{one.dx}", f"{one.id},{CODES[0]}"),
        "a person twice": lambda text, one: text + row_of(text, one),
        "a column missing": lambda text, one: text.replace(",age,", ",years,", 1),
        "an infinite value": lambda text, one: text.replace(f"{one.age}", "inf"),
        "a value beyond any float": lambda text, one: text.replace(f"{one.age}", f"{one.age}e999"),
        "a decimal comma": lambda text, one: text.replace(f"{one.age}", f'"{one.age}"'.replace(".", ",")),
        "a ragged row": lambda text, one: text + f"{one.id},{one.dx},{one.age}\n",
        "a row with too many cells": lambda text, one: (
            text + row_of(text, one).strip() + f",{one.age},{CODES[1]}\n"
        ),
        "a quotation that never ends": lambda text, one: text + f'"{one.id},{one.dx},{one.age},{one.thick}\n',
        "bytes that are no text": lambda text, one: text.replace(one.id, one.id + SHY),
        "a person without an id": lambda text, one: text.replace(f"{one.id},", ","),
        "an empty table": lambda text, one: text.splitlines()[0] + "\n",
        "an id as the name of a column": lambda text, one: text.replace("person_id", one.id, 1),
        "nothing but free text": lambda text, one: f"{CODES[0]}\n{one.id} {one.age}\n",
    }
)
"""Tables that a site cannot use, three for each of five sites."""


def row_of(text: str, one: Person) -> str:
    return next(line for line in text.splitlines(keepends=True) if one.id in line)


class Story:
    """What happens to one town.

    Args:
        town: with its coordinator running.
        kept: what its commands show.
    """

    def __init__(self, town: WatchedTown, kept: Kept) -> None:
        self.town, self.kept = town, kept
        self.happened: dict[str, str] = {}
        self._settings = {
            index: (town.folder(index) / "policy.yaml").read_text() for index in range(town.count)
        }

    async def told(self) -> None:
        """Go through all paths, one after the other."""
        self._rule()
        self.town.start_nodes()
        await self._broken_tables()
        await self._refusals()
        for place in range(0, len(STEPS), 2):
            await self._dropouts({place: STEPS[place], (place + 1) % 5: STEPS[place + 1]})
        await self._abort()
        await self._restart()
        await self._faults()
        await self._people()
        await self._older_ledger()
        await self._strangers()
        await self._kill()
        await self._withdrawal()
        await self._screens()

    async def _submit(
        self, name: str, changes: Mapping[str, str] = IMPATIENT, version: int = 1
    ) -> FrozenStudy:
        return await self.town.submit(study_of(name, version, changes))

    async def _whole(self, study: FrozenStudy) -> str:
        """Let everybody approve, wait for the end, and return how it ended."""
        for index in range(self.town.count):
            self.town.decide(index, study)
        async with asyncio.timeout(LIMIT_S):
            outcome = await self.town.hub.ended(study.digest)
        await self.town.scrape()
        return "released" if outcome.document is not None else outcome.reason

    def _reason(self, index: int, study: FrozenStudy) -> str:
        line = self.town.line(index, study)
        assert line is not None
        return f"{line.here}: {line.reason}"

    def _rule(self) -> None:
        for index in (3, 4):
            path = self.town.folder(index) / "policy.yaml"
            path.write_text(self._settings[index] + "\nthresholds: {set_difference: 5}\n")

    async def _command(self, *arguments: str | Path) -> str:
        return await asyncio.to_thread(self.kept.command, *arguments)

    def _stays_out(self, index: int) -> int:
        """Return how often a site has logged that it stays out."""
        site = f'"site": "{self.town.names[index]}"'
        return sum(
            "study.stays_out" in line and site in line for line in self.kept.log.getvalue().splitlines()
        )

    async def _stayed_out(self, index: int, before: int | None = None) -> None:
        """Wait until a site has read its files anew, and stays out."""
        seen = self._stays_out(index) if before is None else before
        await self.town.until(lambda: self._stays_out(index) > seen + 1)

    async def _broken_tables(self) -> None:
        """Every site tries three broken tables, and one of them a wrong unit; then all is mended, and a first study runs."""
        study = await self._submit("broken", PLAIN | OPEN)
        names = list(BROKEN)
        for wave in range(0, len(names), self.town.count):
            await self._tried(study, dict(enumerate(names[wave : wave + self.town.count])))
        settings = self.town.folder(0) / "node.yaml"
        text = settings.read_text()
        settings.write_text(text.replace("variables: {}", "variables: {age: {unit: kg}}"))
        await self._stayed_out(0)
        self.town.write_table(0)
        await self.town.until(lambda: "unit" in self._reason(0, study))
        self.happened["a wrong unit"] = self._reason(0, study)
        await self._command(
            "node", "doctor", settings.parent, "--offline", "--study", self.town.home / "study.yaml"
        )
        settings.write_text(text)
        for index in range(self.town.count):
            self.town.write_table(index)
        self.happened["mended"] = await self._whole(await self._submit("grows", PLAIN | IMPATIENT))

    async def _tried(self, study: FrozenStudy, tables: Mapping[int, str]) -> None:
        """Let sites read broken tables, for their admins and for the study, and note why they stay out."""
        for index, name in tables.items():
            one = people(index)[0]
            self.town.write_table(index, partial(BROKEN[name], one=one))
        before = {index: self._stays_out(index) for index in tables}
        for index in tables:
            if not before[index]:
                self.town.decide(index, study)
            folder = self.town.folder(index)
            settings = (folder / "node.yaml").read_text()
            await self._command("node", "preview", folder, study.study)
            await self._command(
                "node", "doctor", folder, "--offline", "--study", self.town.home / "study.yaml"
            )
            await self._command("node", "snapshot", folder, "--epoch", "never")
            (folder / "node.yaml").write_text(settings)
        for index, name in tables.items():
            await self._stayed_out(index, before[index])
            self.happened[name] = self._reason(index, study)

    async def _refusals(self) -> None:
        """A policy that does not allow the study, one whose budget is used up, and an admin who declines."""
        study = await self._submit("refused")
        path = self.town.folder(0) / "policy.yaml"
        path.write_text(path.read_text() + "\nstatistics: [summary]\n")
        self.town.decide(0, study)
        self.town.decide(1, study, approved=False)
        await self.town.hears(0, study, "stays out")
        await self.town.hears(1, study, "declined")
        self.happened["a policy that does not allow it"] = self._reason(0, study)
        await self._command("node", "preview", self.town.folder(0), "refused")
        path.write_text(self._settings[0] + "\nbudget: {epsilon: 0.2, delta: 1.0e-6}\n")
        await asyncio.sleep(0.2)
        noised = await self._submit("noised", PLAIN | IMPATIENT | NOISED)
        self.town.decide(0, noised)
        await self.town.hears(0, noised, "stays out")
        self.happened["a budget that is used up"] = self._reason(0, noised)
        path.write_text(self._settings[0])
        self.happened["under noise"] = await self._whole(noised)

    async def _dropouts(self, leaving: Mapping[int, str]) -> None:
        """Two sites vanish from a study, each as soon as a message of its is in.

        On a busy machine a site may be late, and out, before its step has come: then everything is done once more.
        """
        name = "-".join(leaving.values()).lower().replace("_", "-")
        end = ""
        for trial in range(5):
            for index, what in leaving.items():
                self.town.leave_after(index, what)
            end = await self._whole(await self._submit(f"{name}-{trial}", HURRIED))
            await self._back(*leaving)
            if self.town.left:
                break
        self.happened |= {
            f"a site that leaves after {what}": end for what in leaving.values() if self.town.left
        }

    async def _back(self, *indices: int) -> None:
        """Start nodes again that have vanished; one that cannot be stopped is a fault."""
        async with asyncio.timeout(LIMIT_S):
            for index in indices:
                await self.town.stop_node(index)
        self.town.start_nodes(indices)

    async def _abort(self) -> None:
        """Too many vanish: no result."""
        study = await self._submit("aborted", HURRIED)
        for index in (0, 1, 2):
            self.town.leave_after(index, "SHARES")
        self.happened["too many leave"] = await self._whole(study)
        await self._back(0, 1, 2)

    async def _restart(self) -> None:
        """The coordinator stops with one masked vector in, and comes back."""
        study = await self._submit("restarted")
        before = len(self.kept.wire.packets("site3"))
        for index in range(self.town.count):
            self.town.decide(index, study)
        await self.town.until(
            lambda: "MASKED" in [what for what, _ in self.kept.wire.packets("site3")[before:]]
        )
        await self.town.stop_hub()
        await self.town.start_hub()
        self.happened["a coordinator that restarts"] = await self._whole(study)

    async def _faults(self) -> None:
        """A crash inside a statistic whose message quotes a row, and full disks on both sides."""
        one, study = people(1)[0], await self._submit("crash")
        crash = ValueError(f"could not convert string to float: '{one.age}' ({one.id}, {CODES[1]})")
        with failing(StudyPlan, "contribution", crash):
            self.happened["a crash inside a statistic"] = await self._whole(study)
        log = self.kept.log.getvalue()
        assert '"error": "ValueError"' in log
        study = await self._submit("spool")
        with failing(Upload, "add", OSError(28, "No space left on device", "spool/0.words")):
            self.happened["a coordinator's disk that is full"] = await self._whole(study)
        study = await self._submit("ledger")
        full = sqlite3.OperationalError(f"database or disk is full: INSERT ({one.id!r}, {one.age})")
        with failing(Ledger, "write", full):
            self.happened["a site's disk that is full"] = await self._whole(study)
        await self._back(*range(self.town.count))

    async def _people(self) -> None:
        """A new outcome whose people differ from answered ones by two."""
        study = await self._submit("grows", MORE | IMPATIENT, 2)
        self.happened["people who differ by a few"] = await self._whole(study)

    async def _older_ledger(self) -> None:
        """A site comes back with the ledger of an earlier day, halts, and recovers."""
        folder = self.town.folder(2)
        with (
            closing(sqlite3.connect(folder / "ledger.db")) as now,
            closing(sqlite3.connect(folder / "old.db")) as old,
        ):
            now.backup(old)
        await self._whole(await self._submit("today"))
        await self.town.stop_node(2)
        for left in folder.glob("ledger.db*"):
            left.unlink()
        shutil.copy(folder / "old.db", folder / "ledger.db")
        self.town.start_nodes((2,))
        study = await self._submit("after", OPEN | IMPATIENT)
        self.town.decide(2, study)
        await self.town.hears(2, study, "stays out")
        self.happened["an older copy of the ledger"] = self._reason(2, study)
        await self.town.stop_node(2)
        (folder / "state.json").unlink(missing_ok=True)
        await self._command("node", "recover", folder, "--patience", "10")
        self.town.start_nodes((2,))
        await self.town.hears(2, study, "takes part")
        self.happened["recovered"] = self._reason(2, study)

    async def _strangers(self) -> None:
        """A TLS key that nobody certified, and a site's own line with packets that quote what it must not say."""
        hub, now = self.town.hub.roll.now.coordinator, datetime.now(UTC)
        tls = certify(identity_key("stranger"), "site0", now, timedelta(days=1))
        held = grpc.ssl_channel_credentials(
            trust_anchor(hub.id, hub.key, now), tls.private_key, tls.certificate
        )
        options = [("grpc.ssl_target_name_override", hub.id)]
        async with grpc.aio.secure_channel(self.town.target, held, options=options) as channel:
            self.happened["a stranger's TLS key"] = await answer(
                service_pb2_grpc.ConsortiumStub(channel).GetStudy(
                    service_pb2.GetStudyRequest(digest=bytes(32))
                )
            )
        folder = self.town.folder(0)
        config, pin = load_node_config(folder / "node.yaml"), load_pin(folder)
        signer = Signer(pin.newest.identities[config.site], read_key(config.identity_key))
        one, wire = people(0)[0], self.kept.wire.received.copy()
        said = f"{one.id} {one.age} {CODES[0]}".encode()
        async with secure_channel(Line(config.coordinator, 10), signer, pin.newest) as channel:
            stub: Any = service_pb2_grpc.ConsortiumStub(channel)
            for name, packet in {
                "a packet of an unknown kind": round_pb2.Packet(
                    envelope=round_pb2.Envelope(context=bytes(32), kind=99, sender="site0", payload=said)
                ),
                "a payload that is no message": round_pb2.Packet(
                    envelope=round_pb2.Envelope(
                        context=bytes(32), kind=3, sender="site0", payload=said, signature=bytes(64)
                    ),
                    attachments=[said],
                ),
                "a sender who is a person": round_pb2.Packet(
                    envelope=round_pb2.Envelope(context=bytes(32), kind=3, sender=one.id, payload=said)
                ),
            }.items():
                self.happened[name] = await answer(stub.Submit(packet))
        for (
            entries
        ) in self.kept.wire.received.values():  # what the test itself said is no leak of the product's
            entries[:] = [entry for entry in entries if said not in entry[1]]
        assert wire.keys() == self.kept.wire.received.keys()

    async def _kill(self) -> None:
        """A node dies with its input masked, and the same folder is served again: by processes of their own."""
        study = await self._submit("killed", {"step: 20s": "gather: 30s, step: 500ms, step_max: 500ms"})
        await self.town.stop_node(1)
        folder = self.town.folder(1)
        dying = await self._process(1, {VARIABLE: "site.r2.before"})
        self.happened["without the killed node"] = await self._whole(study)
        self.happened["a node that is killed"] = str(await self._ended(dying))
        self.happened["private copies that it leaves"] = str(len([*folder.glob("cohortsum-*")]))
        again = await self._process(1, {})
        await self.town.until(lambda: not [*folder.glob("cohortsum-*")])
        again.terminate()
        self.happened["the killed node again"] = str(await self._ended(again))
        self.town.start_nodes((1,))

    async def _process(self, index: int, environment: Mapping[str, str]) -> asyncio.subprocess.Process:
        """Start a node as a process of its own."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cohortsum.node.serve", str(self.town.folder(index))),
            env={**os.environ, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def _ended(self, process: asyncio.subprocess.Process) -> int | None:
        """Wait for the end of a process, keep what it said, and return its exit code."""
        said, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
        self.kept.screens.append(said.decode())
        return process.returncode

    async def _withdrawal(self) -> None:
        """Somebody withdraws: the epoch is closed."""
        gone = self.town.home / "gone.txt"
        gone.write_text(people(3)[0].id + "\n")
        said = await self._command("node", "withdraw", self.town.folder(3), "--ids", gone)
        gone.unlink()
        self.happened["a withdrawal"] = said
        study = await self._submit("closed")
        self.town.decide(3, study)
        await self.town.hears(3, study, "stays out")
        self.happened["a closed epoch"] = self._reason(3, study)

    async def _screens(self) -> None:
        """What admins may ask for, once everything has happened."""
        for index in range(self.town.count):
            folder = self.town.folder(index)
            for words in (
                ("describe",),
                ("status",),
                ("studies",),
                ("budget",),
                ("audit", "show"),
                ("audit", "verify"),
            ):
                await self._command("node", *words, folder)
        await self._command("node", "doctor", self.town.folder(0))
        for words in (("status",), ("audit", "show"), ("audit", "verify")):
            await self._command("coordinator", *words, self.town.consortium)
        await self.town.scrape()


@contextmanager
def failing(owner: type, name: str, error: Exception) -> Generator[None]:
    """Let a method fail once."""
    real, left = getattr(owner, name), [error]

    def method(*arguments: Any, **named: Any) -> Any:
        if left:
            raise left.pop()
        return real(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, method)
        yield
    assert not left, f"{owner.__name__}.{name} was never called"


async def answer(call: Any) -> str:
    """Return the status and the sentence of a call."""
    try:
        await asyncio.wait_for(call, 10)
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {error.details()}"
    return "OK"
