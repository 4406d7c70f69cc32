"""From the bundle to a green doctor in the guide's six commands, on a host whose one way out is a proxy.

The host has a route to the proxy and to nobody else, and knows the proxy's name and no other. The proxy reaches the coordinator,
which is the real process. Where the proxy opens TLS to read along instead, the doctor says who it is.
"""

import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cohortsum.node.doctor_line import LINE_CHECKS
from deploy.bundle.build import make_bundle
from deploy.bundle.wheels import BundleError
from tests.admin.desk import TABLE
from tests.end_to_end.tutorial import Steps, until
from tests.hosts.hosts import Host, star
from tests.hosts.lines import established, listeners

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "admin-guide.md").read_text(encoding="utf-8")
HUB, SITE, PROXY = "hub.example.org", "site.example.org", "proxy.example.org"
CA = "Example Hospital Web Gateway CA"
CHECKS = (
    "files", "folder", "rights", "key", "pin", "copies", "roster", "deny-list", *LINE_CHECKS,
    "policy", "tables", "mapping", "snapshot", "disk",
)  # fmt: skip
ROW = re.compile(rf"^ +({'|'.join(map(re.escape, CHECKS))}) +(ok|warning|failure|skipped) ", re.M)
REFUSALS = ("UNEXPECTED_EOF_WHILE_READING", "TLSV1_ALERT_PROTOCOL_VERSION", "SSLZeroReturnError")
"""How a server refuses a version: it hangs up, says why, or takes its leave (close_notify); a client that could not offer it would say something else."""
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)"


def section(title: str) -> str:
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", GUIDE, re.M | re.S)
    return str(text)


def typed_by(party: str, title: str) -> list[str]:
    """Return the commands of a section; those of no named party are the operator's."""
    blocks = re.findall(rf"^```sh{party}\n(.*?)^```", section(title), re.M | re.S)
    return [command for block in blocks for command in block.splitlines()]


SIX = typed_by(" site", "From the bundle to a green doctor")


@dataclass(frozen=True, slots=True)
class Hospital:
    """A site behind its proxy, with the bundle installed, admitted, and the roster pinned: one command before the end.

    Attributes:
        hosts: the three hosts by name.
        site: the folder in which the site's admin types.
        hub: the coordinator's process.
    """

    hosts: Mapping[str, Host]
    site: Path
    hub: int

    def type(self, command: str) -> "subprocess.CompletedProcess[str]":
        return type_at(self.hosts[SITE], self.site, command)

    def connect(self, source: str, target: str, port: int) -> str:
        """Connect between hosts and return the last line of what went wrong, or nothing."""
        done = self.hosts[source].run(self.site, sys.executable, "-c", CONNECT, target, str(port))
        return done.stderr.rpartition("\n")[0].rpartition("\n")[2]

    def knock(self, version: str, *node: str) -> list[str]:
        """Knock at the coordinator's door from the proxy's host, with the certificate of ``node`` if any."""
        folders = [str(self.site / name) for name in node]
        words = [sys.executable, "-m", "tests.hosts.knock", HUB, "443", version, *folders]
        done = self.hosts[PROXY].run(ROOT, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    @contextmanager
    def proxy(self, *issuer: str) -> Generator[Path]:
        """Run the proxy, with ``issuer`` one that opens TLS, and yield the file with the requests it gets."""
        said = self.site.parent / "proxy.log"
        words = [*self.hosts[PROXY].enter(ROOT), sys.executable, "-m", "tests.hosts.door", "3128", *issuer]
        with running(words, ROOT, said) as _:
            until(lambda: said.read_text().startswith("ready\n"), "the proxy is ready")
            yield said


def environment() -> dict[str, str]:
    """Return what a shell has: this machine's environment without proxies and settings of pip and Python.

    The Python that the bundle is for is the one that runs these tests; here it may lie off the path.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith(("PIP_", "PYTHON", "VIRTUAL_ENV"))
    }
    base = Path(sys.base_prefix) / "bin"
    return {**kept, "PATH": f"{base}{os.pathsep}{os.environ['PATH']}"}


def type_at(host: Host, folder: Path, command: str) -> "subprocess.CompletedProcess[str]":
    """Type a line into a shell on a host."""
    return subprocess.run(  # noqa: S603
        [*host.enter(folder), "sh", "-c", command],
        env=environment(), capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip


@contextmanager
def running(words: list[str], folder: Path, log: Path) -> Generator["subprocess.Popen[bytes]"]:
    """Run a program until the end of the block; what it says goes into ``log``."""
    with log.open("wb") as file, subprocess.Popen(  # noqa: S603
        words, cwd=folder, env=environment(), stdout=file, stderr=subprocess.STDOUT
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """The archive as `make bundle` writes it; removed at the end, because pytest keeps folders and this one is large."""
    place = tmp_path_factory.mktemp("bundle")
    try:
        archive = make_bundle(place, 1_700_000_000)
    except BundleError:
        words = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            str(place),
            "hatchling",
        ]
        if subprocess.run(words, check=False).returncode:  # noqa: S603
            pytest.skip("the package index cannot be reached: no bundle")
        raise
    yield archive
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def hospital(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Hospital]:
    place = tmp_path_factory.mktemp("hospital")
    site, operator, files = (place / name for name in ("site", "operator", "hosts"))
    for folder in (site, operator, files):
        folder.mkdir()
    shutil.copy(bundle, site)
    (site / "people.csv").write_text(TABLE)

    with ExitStack() as stack:
        hosts = stack.enter_context(star(files, PROXY, SITE, HUB))

        def of_operator(command: str) -> list[str]:
            words = [sys.executable, "-m", "cohortsum.cli.main", *shlex.split(command)[1:]]
            return [*hosts[HUB].enter(operator), *words]

        def must(command: str) -> None:
            done = type_at(hosts[SITE], site, command)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"

        for command in SIX[:4]:
            must(command)
        shutil.copy(site / "site" / "request.yaml", operator)
        for title in ("The operator founds the consortium", "The operator admits the site"):
            subprocess.run(of_operator(typed_by("", title)[0]), check=True, capture_output=True)  # noqa: S603
        for name in ("consortium.yaml", "consortium.sig", "operator.pub"):
            shutil.copy(operator / "consortium" / name, site)
        must(SIX[4])
        log = place / "hub.log"
        hub = stack.enter_context(running(of_operator(Steps().run_hub), operator, log))
        until(lambda: "listening" in log.read_text(), "the coordinator listens")
        yield Hospital(hosts, site, hub.pid)
    for large in (bundle.name.removesuffix(".tar.gz"), "cohortsum"):
        shutil.rmtree(site / large)
    (site / bundle.name).unlink()


def test_the_guide_needs_six_commands() -> None:
    programs = [re.sub(r"^https_proxy=\S+ ", "", command).split()[:3] for command in SIX]
    cohortsum = "cohortsum/bin/cohortsum"
    assert [words[-1] if words[0] == cohortsum else words[0] for words in programs] == [
        "tar", "sh", "init", "snapshot", "pin", "doctor",
    ]  # fmt: skip


def test_the_proxy_is_the_only_way_out(hospital: Hospital) -> None:
    address = hospital.hosts[HUB].address
    with hospital.proxy():
        assert hospital.connect(SITE, PROXY, 3128) == ""
        assert hospital.connect(PROXY, HUB, 443) == "", "the coordinator is there"
        assert f"[Errno {errno.ENETUNREACH}]" in hospital.connect(SITE, address, 443)
        assert "gaierror" in hospital.connect(SITE, HUB, 443)
    assert {port for _, port in listeners(hospital.hub)} == {443}


def test_the_sixth_command_finds_everything_well(hospital: Hospital) -> None:
    with hospital.proxy() as requests:
        done = hospital.type(SIX[5])
        asked = requests.read_text().splitlines()[1:]
    assert done.returncode == 0, done.stdout + done.stderr
    assert ROW.findall(done.stdout) == [(name, "ok") for name in CHECKS]
    assert "all is well" in done.stdout + done.stderr
    assert set(asked) == {f"CONNECT {HUB}:443 HTTP/1.1"}


def test_without_the_proxy_the_doctor_says_what_is_missing(hospital: Hospital) -> None:
    done = hospital.type(SIX[5].partition(" ")[2])
    assert done.returncode == 2
    assert [name for name, status in ROW.findall(done.stdout) if status == "failure"] == ["resolution"]


def test_a_proxy_that_opens_tls_is_named_by_its_issuer(hospital: Hospital) -> None:
    with hospital.proxy(CA):
        done = hospital.type(SIX[5])
    assert done.returncode == 2
    after = LINE_CHECKS[LINE_CHECKS.index("identity") + 1 :]
    expected = dict.fromkeys(CHECKS, "ok") | {"identity": "failure"} | dict.fromkeys(after, "skipped")
    assert dict(ROW.findall(done.stdout)) == expected
    said = " ".join(done.stdout.split())
    assert f"it was issued by CN={CA}; a TLS-inspecting proxy sits in between" in said
    assert f"ask IT to exempt {HUB}:443 from TLS inspection" in said


def test_the_node_goes_the_way_that_the_doctor_tried(hospital: Hospital) -> None:
    """Through CONNECT to the coordinator; a proxy that opens TLS gets nothing out of it."""
    before, _, doctor = SIX[5].partition(" ")
    program = doctor.split()[0]
    host, log = hospital.hosts[SITE], hospital.site / "node.log"
    words = [*host.enter(hospital.site), before, program, "node", "run", "site"]
    with hospital.proxy(), running(words, hospital.site, log) as node:
        proxy = hospital.hosts[PROXY].address
        until(
            lambda: proxy in {peer for peer, _ in established(hospital.hub)},
            "the node is at the coordinator's",
        )
        assert established(node.pid) == {(proxy, 3128)}
        assert listeners(node.pid) == set()
        node.send_signal(signal.SIGTERM)
        assert node.wait(timeout=30) == 0, log.read_text()
        assert "line.down" not in log.read_text()
    with hospital.proxy(CA), running(words, hospital.site, log) as node:
        until(lambda: "line.down" in log.read_text(), "the node refuses who is not the coordinator")
        assert established(hospital.hub) == set()


def test_the_coordinator_takes_tls_1_3_alone_and_then_demands_a_certificate(hospital: Hospital) -> None:
    """One client; nothing differs but the version, and whether it has a certificate to show."""
    assert hospital.knock("1.3", "site") == ["TLSv1.3", "answered"]
    assert hospital.knock("1.3") == ["TLSv1.3", "closed"]
    for node in ([], ["site"]):
        (said,) = hospital.knock("1.2", *node)
        assert said in REFUSALS
