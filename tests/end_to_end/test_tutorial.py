"""The tutorial, typed literally: every command of docs/tutorial.md, each party in a folder of its own.

Only what differs between machines is filled in: the site's id, the address, and the carrying of files from one to another.
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
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

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


def words_of(command: str, party: str, port: int, folder: Path) -> list[str]:
    words: list[str] = []
    for word in shlex.split(filled(command, party, port)):
        words += sorted(str(path) for path in folder.glob(word)) if "*" in word else [word]
    assert words[0] in ("cohortsum", "cp")
    return [sys.executable, "-m", "cohortsum.cli.main", *words[1:]] if words[0] == "cohortsum" else words


def filled(command: str, party: str, port: int) -> str:
    """Return a command with what differs between machines filled in."""
    here = command.replace("--site nyu", f"--site {party}")
    return here.replace("hub.example.org:8443", f"127.0.0.1:{port}").replace(
        "0.0.0.0:8443", f"127.0.0.1:{port}"
    )


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


class Town:
    """One folder per party, and the commands that run in them."""

    def __init__(self, place: Path) -> None:
        self.port = free_port()
        self.folders = {party: place / party for party in PARTIES}
        self.environments = {party: dict(os.environ) for party in PARTIES}
        for folder in self.folders.values():
            folder.mkdir()

    def type(self, party: str, command: str) -> str:
        folder = self.folders[party]
        if command.startswith("export "):
            pairs = shlex.split(filled(command, party, self.port))[1:]
            for name, _, value in (pair.partition("=") for pair in pairs):
                self.environments[party][name] = value
            return ""
        done = subprocess.run(  # noqa: S603
            words_of(command, party, self.port, folder),
            cwd=folder,
            env=self.environments[party],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert "Traceback" not in done.stderr
        assert done.returncode == 0, f"{party}: {command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    @contextmanager
    def started(self, party: str, command: str) -> Generator["subprocess.Popen[bytes]"]:
        folder = self.folders[party]
        with (folder / "log.jsonl").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603
                words_of(command, party, self.port, folder), cwd=folder, stdout=log, stderr=subprocess.STDOUT
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


@pytest.fixture
def town(tmp_path: Path) -> Town:
    town = Town(tmp_path)
    tables = tmp_path / "tables"
    tables.mkdir()
    write_demo_tables(tables)
    for site in SITES:
        shutil.copy(tables / f"{site}.csv", town.folders[site] / "people.csv")
    return town


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


def test_the_tutorial_works_as_it_is_typed(town: Town) -> None:
    steps = prepare(town, STUDY)
    with ExitStack() as stack:
        hub = stack.enter_context(town.started("operator", steps.run_hub))
        nodes = [stack.enter_context(town.started(site, steps.run_node)) for site in SITES]
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
        for process in (*nodes, hub):
            process.send_signal(signal.SIGTERM)
        assert [process.wait(timeout=30) for process in (*nodes, hub)] == [0] * 6, town.log("operator")
    document = read_document(town.folders["statistician"] / "asd-open-results")
    assert document.sites.survivors == SITES
    assert document.roster.version == 3
    kept = read_document(town.folders["operator"] / "consortium" / "results" / "asd-open" / "v1")
    assert kept == document


def test_a_revoked_site_is_taken_by_nobody(town: Town) -> None:
    """The deny-list counts at once: at the coordinator's door, and in every other site's eyes."""
    text = STUDY.replace("min_sites: 5 ", "min_sites: 4 ")
    text = text.replace("max_colluding_sites: 1 ", "max_colluding_sites: 0 ")
    text += "deadlines: {gather: 15s, step: 10s, step_max: 10s}\n"
    steps = prepare(town, text)
    with ExitStack() as stack:
        stack.enter_context(town.started("operator", steps.run_hub))
        for site in SITES:
            stack.enter_context(town.started(site, steps.run_node))
        until(lambda: "listening" in town.log("operator"), "the coordinator listens")
        for command in steps.submit:
            town.type("statistician", command)
        for site in SITES:
            until(lambda: "asd-open" in town.type(site, steps.decide[0]), f"{site} hears of the study")  # noqa: B023
        town.type("operator", "cohortsum coordinator revoke consortium oak --reason 'laptop stolen'")
        for file in ("deny.yaml", "deny.sig"):
            town.carry("operator", f"consortium/{file}", SITES)
        for site in SITES[:-1]:
            town.type(site, "cohortsum node deny site deny.yaml deny.sig")
        for site in SITES:
            town.type(site, steps.decide[-1])
        until(lambda: state_of(town) == "released", "the study is released")
    document = read_document(town.folders["operator"] / "consortium" / "results" / "asd-open" / "v1")
    assert document.sites.took_part == SITES[:-1]
