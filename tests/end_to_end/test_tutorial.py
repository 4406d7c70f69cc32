"""The tutorial, typed literally: every command of docs/tutorial.md, each party in a folder of its own.

Only what differs between machines is filled in: the site's id, the address, and the carrying of files from one to another.
"""

import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
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
    filled = command.replace("--site nyu", f"--site {party}")
    filled = filled.replace("hub.example.org:8443", f"127.0.0.1:{port}").replace(
        "0.0.0.0:8443", f"127.0.0.1:{port}"
    )
    words: list[str] = []
    for word in shlex.split(filled):
        words += sorted(str(path) for path in folder.glob(word)) if "*" in word else [word]
    assert words[0] in ("cohortsum", "cp")
    return [sys.executable, "-m", "cohortsum.cli.main", *words[1:]] if words[0] == "cohortsum" else words


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
        for folder in self.folders.values():
            folder.mkdir()

    def type(self, party: str, command: str) -> str:
        folder = self.folders[party]
        done = subprocess.run(  # noqa: S603
            words_of(command, party, self.port, folder),
            cwd=folder,
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
        return (self.folders[party] / "log.jsonl").read_text()[-2000:]

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


def prepare(town: Town, study: str) -> tuple[list[str], list[str], list[str]]:
    """Do all steps up to the signed study, with ``study`` as its text; return the commands of the last three."""
    steps = blocks()
    assert [party for party, _ in steps] == [
        "operator", "site", "statistician", "operator", "site", "statistician", "operator", "site", "operator",
    ]  # fmt: skip
    found, node, key, admit, pin, sign, start, join, show = (commands for _, commands in steps)
    for command in found:
        town.type("operator", command)
    for site in SITES:
        for command in node:
            town.type(site, command)
        town.carry(site, "site/request.yaml", ("operator",), f"requests/{site}.yaml")
    for command in key:
        town.type("statistician", command)
    town.carry("statistician", "stat1.yaml", ("operator",))
    for command in admit:
        town.type("operator", command)
    for file in ("consortium.yaml", "consortium.sig", "operator.pub"):
        town.carry("operator", f"consortium/{file}", (*SITES, "statistician"))
    for site in SITES:
        for command in pin:
            assert "roster" in town.type(site, command)
    (town.folders["statistician"] / "asd-open.yaml").write_text(study)
    for command in sign:
        town.type("statistician", command)
    town.carry("statistician", "study.json", ("operator", *SITES))
    return start, join, show


def test_the_tutorial_works_as_it_is_typed(town: Town) -> None:
    (run_hub,), (approve, run_node), show = prepare(town, STUDY)
    with ExitStack() as stack:
        hub = stack.enter_context(town.started("operator", run_hub))
        nodes: list[subprocess.Popen[bytes]] = []
        for site in SITES:
            assert "before anyone checks" in town.type(site, approve)
            nodes.append(stack.enter_context(town.started(site, run_node)))
        assert hub.wait(timeout=120) == 0, town.log("operator")
        assert {node.wait(timeout=60) for node in nodes} == {0}
    for command in show:
        assert "thickness" in town.type("operator", command)
    document = read_document(town.folders["operator"] / "consortium" / "results")
    assert document.sites.survivors == SITES
    assert document.roster.version == 3


def test_a_revoked_site_is_taken_by_nobody(town: Town) -> None:
    """The deny-list counts at once: at the coordinator's door, and in every other site's eyes."""
    text = STUDY.replace("min_sites: 5 ", "min_sites: 4 ")
    text = text.replace("max_colluding_sites: 1 ", "max_colluding_sites: 0 ")
    text += "deadlines: {gather: 15s, step: 10s, step_max: 10s}\n"
    (run_hub,), (approve, run_node), _ = prepare(town, text)
    town.type("operator", "cohortsum coordinator revoke consortium oak --reason 'laptop stolen'")
    for file in ("deny.yaml", "deny.sig"):
        town.carry("operator", f"consortium/{file}", SITES)
    for site in SITES[:-1]:
        town.type(site, "cohortsum node deny site deny.yaml deny.sig")
    with ExitStack() as stack:
        hub = stack.enter_context(town.started("operator", run_hub))
        for site in SITES:
            town.type(site, approve)
            stack.enter_context(town.started(site, f"{run_node} --patience 5"))
        assert hub.wait(timeout=120) == 0, town.log("operator")
    document = read_document(town.folders["operator"] / "consortium" / "results")
    assert document.sites.took_part == SITES[:-1]
