"""The hosts themselves: who reaches whom, who knows which name, and that nothing is left."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.hosts import hosts as harness
from tests.hosts.hosts import Host, network_of, processes_in, star, why_not

ROOT = Path(__file__).resolve().parents[2]
PORT = 8443
LISTEN = f"""
import socket
with socket.create_server(("", {PORT})) as door:
    print("up", flush=True)
    while True:
        door.accept()[0].close()
"""
CONNECT = f"""
import socket, sys
try:
    socket.create_connection((sys.argv[1], {PORT}), timeout=1).close()
except TimeoutError:
    sys.exit({errno.ETIMEDOUT})
except socket.gaierror:
    sys.exit({errno.ENOENT})
except OSError as error:
    sys.exit(error.errno)
"""
HUB, ONE, TWO = "hub.example.org", "one.example.org", "two.example.org"


def start_listening(host: Host, folder: Path) -> "subprocess.Popen[str]":
    """Start a process that listens on every address of a host, and return it once it does."""
    words = [*host.enter(folder), sys.executable, "-c", LISTEN]
    listener = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert listener.stdout is not None
    assert listener.stdout.readline() == "up\n"
    return listener


@contextmanager
def listening(host: Host, folder: Path) -> Generator[None]:
    with start_listening(host, folder) as listener:
        try:
            yield
        finally:
            listener.kill()


def running(networks: list[str]) -> set[int]:
    return set[int]().union(*map(processes_in, networks))


def connect(host: Host, folder: Path, target: str) -> int:
    """Connect from a host and return 0, or the number of the error."""
    return host.run(folder, sys.executable, "-c", CONNECT, target).returncode


def test_a_spoke_reaches_the_centre_and_no_other_spoke(tmp_path: Path) -> None:
    with star(tmp_path, HUB, ONE, TWO) as hosts:
        hub, one, two = hosts[HUB], hosts[ONE], hosts[TWO]
        with listening(hub, tmp_path), listening(two, tmp_path):
            assert connect(one, tmp_path, HUB) == 0
            assert connect(hub, tmp_path, TWO) == 0, "the other spoke does listen"
            assert connect(two, tmp_path, TWO) == 0
            assert connect(one, tmp_path, TWO) == errno.ENOENT, "its name is not known"
            assert connect(one, tmp_path, two.address) == errno.ENETUNREACH


@pytest.mark.parametrize("way", ["dev eth0", "via {centre}"], ids=["wire", "centre"])
def test_a_spoke_that_gives_itself_routes_reaches_no_other_spoke(tmp_path: Path, way: str) -> None:
    with star(tmp_path, HUB, ONE, TWO) as hosts:
        hub, one, two = hosts[HUB], hosts[ONE], hosts[TWO]
        for host in (one, two):
            other = two if host is one else one
            route = f"ip route add {other.address}/32 {way.format(centre=hub.address)}"
            assert host.run(tmp_path, *route.split()).returncode == 0
        with listening(two, tmp_path):
            assert connect(hub, tmp_path, TWO) == 0
            assert connect(one, tmp_path, two.address) in (errno.ETIMEDOUT, errno.EHOSTUNREACH)


def test_two_stars_beside_each_other_do_not_meet(tmp_path: Path) -> None:
    """Equal names and addresses in both; what listens in the one is not there in the other."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        star(tmp_path / "a", HUB, ONE) as first,
        star(tmp_path / "b", HUB, ONE) as second,
        listening(first[HUB], tmp_path),
    ):
        assert connect(first[ONE], tmp_path, HUB) == 0
        assert connect(second[ONE], tmp_path, HUB) == errno.ECONNREFUSED


def test_a_host_has_its_own_name_and_this_machine_keeps_its_own(tmp_path: Path) -> None:
    before = os.uname().nodename, Path("/etc/hosts").read_bytes(), Path("/etc/resolv.conf").read_bytes()
    with star(tmp_path, HUB, ONE) as hosts:
        assert hosts[ONE].run(tmp_path, "hostname").stdout == f"{ONE}\n"
        assert (
            os.uname().nodename,
            Path("/etc/hosts").read_bytes(),
            Path("/etc/resolv.conf").read_bytes(),
        ) == before


@pytest.mark.parametrize("fault", [None, RuntimeError("in a test")], ids=["well", "fault"])
def test_nothing_is_left_at_the_end_even_after_a_fault(tmp_path: Path, fault: Exception | None) -> None:
    before, networks = set[int](), list[str]()
    with ExitStack() as stack:
        if fault is not None:
            stack.enter_context(pytest.raises(RuntimeError, match="in a test"))
        hosts = stack.enter_context(star(tmp_path, HUB, ONE))
        networks += [network_of(host.holder) for host in hosts.values()]
        left = start_listening(hosts[ONE], tmp_path)
        before = running(networks)
        if fault is not None:
            raise fault
    with left:
        try:
            assert left.wait(timeout=5) == -signal.SIGKILL
        finally:
            left.kill()
    assert len(before) == 3
    assert before & running(networks) == set()


def test_hosts_end_with_the_process_that_made_them(tmp_path: Path) -> None:
    """Also when it is killed and cleans up nothing."""
    words = [sys.executable, "-m", "tests.hosts.linger", str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as maker:  # noqa: S603
        assert maker.stdout is not None
        networks = maker.stdout.readline().split()
        before = running(networks)
        assert len(before) == 3
        maker.kill()
    end = time.monotonic() + 5
    while before & running(networks):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("user", "paths", "trial", "reason"),
    [
        (1000, None, None, "only root makes network namespaces"),
        (0, "/nowhere", None, "not on this machine: unshare, nsenter, setpriv, mount, hostname, ip, sh, env"),
        (0, None, "echo Not permitted >&2; exit 1", "no namespaces or bridges here: Not permitted"),
        (0, None, None, ""),
    ],
    ids=["user", "programs", "kernel", "good"],
)
def test_a_machine_that_cannot_is_told_why(
    monkeypatch: pytest.MonkeyPatch, user: int, paths: str | None, trial: str | None, reason: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    if paths is not None:
        monkeypatch.setenv("PATH", paths)
    if trial is not None:
        monkeypatch.setattr(harness, "TRIAL", trial)
    assert why_not.__wrapped__() == reason
