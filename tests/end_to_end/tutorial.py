"""The tutorial, typed literally: every command of docs/tutorial.md, each party in a folder of its own.

Only what differs between parties is filled in, and files are carried from one to another as people would send them. On which
machine a party's commands run is left to ``Town.at``: all of them here, or each on a host of its own.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from unittest.mock import patch

from typer.testing import CliRunner

from cohortsum.cli import main
from cohortsum.cli.demo_data import write_demo_tables
from cohortsum.cli.results import read_document

ROOT = Path(__file__).resolve().parents[2]
SITES = ("amc", "dov", "fen", "kcl", "oak")
STUDY = (ROOT / "examples" / "asd-open.yaml").read_text().replace("roster: 1 ", "roster: 3 ")
PARTIES = ("operator", "statistician", *SITES)


def blocks() -> list[tuple[str, list[str]]]:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    found = re.findall(r"^```sh (\w+)\n(.*?)^```", text, re.M | re.S)
    return [(party, commands.splitlines()) for party, commands in found]


class Town:
    """One folder per party, and the commands that run in them, typed as in the document except for the site's id."""

    def __init__(self, place: Path) -> None:
        self.folders = {party: place / party for party in PARTIES}
        self.environments = {party: self.environment() for party in PARTIES}
        for folder in self.folders.values():
            folder.mkdir()
        tables = place / "tables"
        tables.mkdir()
        write_demo_tables(tables)
        for site in SITES:
            shutil.copy(tables / f"{site}.csv", self.folders[site] / "people.csv")

    def environment(self) -> dict[str, str]:
        """Return the environment that a party begins with."""
        return dict(os.environ)

    def filled(self, party: str, command: str) -> str:
        """Return a command of the document as this party types it."""
        return command.replace("--site nyu", f"--site {party}")

    def at(self, party: str) -> list[str]:
        """Return the words before a command that make it run on the machine of ``party``, in its folder."""
        return []

    def look_around(self, running: Mapping[str, "subprocess.Popen[bytes]"]) -> None:
        """Look at the processes of all parties while the study's result is there and everything still runs."""

    def words_of(self, party: str, command: str) -> list[str]:
        words: list[str] = []
        for word in shlex.split(self.filled(party, command)):
            found = sorted(str(path) for path in self.folders[party].glob(word)) if "*" in word else [word]
            words += found
        assert words[0] in ("cohortsum", "cp")
        if words[0] == "cohortsum":
            words[:1] = [sys.executable, "-m", "cohortsum.cli.main"]
        return [*self.at(party), *words]

    def type(self, party: str, command: str) -> str:
        """Type a command that must succeed and return what it said."""
        if command.startswith("export "):
            for pair in shlex.split(self.filled(party, command))[1:]:
                name, _, value = pair.partition("=")
                self.environments[party][name] = value
            return ""
        done = subprocess.run(  # noqa: S603
            self.words_of(party, command),
            cwd=self.folders[party],
            env=self.environments[party],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == 0, f"{party}: {command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    @contextmanager
    def started(self, party: str, command: str) -> Generator["subprocess.Popen[bytes]"]:
        """Start a command that runs until it is stopped; it is killed at the end if it still runs."""
        folder = self.folders[party]
        with (folder / "log.jsonl").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603
                self.words_of(party, command),
                cwd=folder,
                env=self.environments[party],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()

    def log(self, party: str) -> str:
        """Return the end of what a started command of ``party`` said."""
        return (self.folders[party] / "log.jsonl").read_text()[-4000:]

    def carry(self, source: str, file: str, to: tuple[str, ...], name: str | None = None) -> None:
        for party in to:
            target = self.folders[party] / (name or Path(file).name)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(self.folders[source] / file, target)


class Loopback(Town):
    """Everybody on this machine: the coordinator's address is one of the loopback interface."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.port = free_port()

    def filled(self, party: str, command: str) -> str:
        here = f"127.0.0.1:{self.port}"
        typed = super().filled(party, command)
        return typed.replace("hub.example.org:8443", here).replace("0.0.0.0:8443", here)


class Desk(Loopback):
    """A loopback whose commands run in this process, to save starting Python for each; daemons are processes all the same."""

    def type(self, party: str, command: str) -> str:
        """Type a command that must succeed and return what it said."""
        words = [] if command.startswith("export ") else self.words_of(party, command)
        if words[:1] != [sys.executable]:
            return super().type(party, command)
        with chdir(self.folders[party]), patch.dict(os.environ, self.environments[party], clear=True):
            done = CliRunner().invoke(main.app, words[3:])
        assert done.exit_code == 0, f"{party}: {command}\n{done.stdout}\n{done.stderr}\n{done.exception!r}"
        return done.stdout + done.stderr


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


class Steps:
    """The commands of the tutorial, by step."""

    def __init__(self) -> None:
        held = blocks()
        assert [party for party, _ in held] == [
            "operator", "site", "statistician", "operator", "site", "operator", "site", "site",
            "statistician", "site", "statistician", "statistician",
        ]  # fmt: skip
        (
            self.found, self.node, self.key, self.admit, self.pin, (self.run_hub,), (self.run_node,),
            self.doctor, self.submit, self.decide, self.look, self.fetch,
        ) = (commands for _, commands in held)  # fmt: skip


def prepare(town: Town, study: str) -> Steps:
    """Do all steps until everybody has pinned the roster, and write the study for the statistician."""
    steps = Steps()
    for command in steps.found:
        town.type("operator", command)
    for site in SITES:
        for command in steps.node:
            town.type(site, command)
        town.carry(site, "site/request.yaml", ("operator",), f"requests/{site}.yaml")
    for command in steps.key:
        town.type("statistician", command)
    town.carry("statistician", "stat1.yaml", ("operator",))
    for command in steps.admit:
        town.type("operator", command)
    for file in ("consortium.yaml", "consortium.sig", "operator.pub"):
        town.carry("operator", f"consortium/{file}", (*SITES, "statistician"))
    for site in SITES:
        for command in steps.pin:
            assert "roster" in town.type(site, command)
    (town.folders["statistician"] / "asd-open.yaml").write_text(study)
    return steps


def until(ready: Callable[[], bool], what: str) -> None:
    """Wait for something that daemons do by themselves."""
    end = time.monotonic() + 90
    while not ready():
        assert time.monotonic() < end, what
        time.sleep(0.5)


def state_of(town: Town) -> str:
    shown = json.loads(town.type("statistician", "cohortsum study status asd-open --json"))
    return str(shown["state"])


def type_tutorial(town: Town) -> None:
    """Type the whole tutorial, from the first command to the results."""
    steps = prepare(town, STUDY)
    with ExitStack() as stack:
        running = {"operator": stack.enter_context(town.started("operator", steps.run_hub))}
        running |= {site: stack.enter_context(town.started(site, steps.run_node)) for site in SITES}
        until(lambda: "listening" in town.log("operator"), "the coordinator listens")
        for site in SITES:
            for command in steps.doctor:
                assert "all is well" in town.type(site, command)
        for command in steps.submit:
            town.type("statistician", command)
        for site in SITES:
            until(lambda: "asd-open" in town.type(site, steps.decide[0]), f"{site} hears of the study")  # noqa: B023
            shown = [town.type(site, command) for command in steps.decide]
            assert "before anyone checks" in shown[-1]
        for command in steps.look:
            assert "asd-open version 1" in town.type("statistician", command)
        until(lambda: state_of(town) == "released", "the study is released")
        shown = [town.type("statistician", command) for command in steps.fetch]
        assert "thickness" in shown[-1]
        town.look_around(running)
        for process in reversed(running.values()):
            process.send_signal(signal.SIGTERM)
        ends = {party: process.wait(timeout=30) for party, process in running.items()}
        assert ends == dict.fromkeys(running, 0), town.log("operator")
    document = read_document(town.folders["statistician"] / "asd-open-results")
    assert document.sites.survivors == SITES
    assert document.roster.version == 3
    kept = read_document(town.folders["operator"] / "consortium" / "results" / "asd-open" / "v1")
    assert kept == document
