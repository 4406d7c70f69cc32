"""Hosts of their own on one machine, made of Linux namespaces; without the internet, without containers.

A host here is a network, a table of mounts and a host name of its own. Files and programs are the machine's, except for
``/etc/hosts`` and ``/etc/resolv.conf``: each host knows only the names it was told, and there is no name server. All hosts
hang on one switch, a bridge in a namespace of its own, as a star. One host is the centre. The others are isolated ports of
the bridge with one route, to the centre, which passes nothing on: they cannot reach one another, whatever they try.

Nothing gets a name on the machine, so runs beside each other never meet. A host lasts as long as a shell in it that waits for
the end of a pipe; the pipe ends with this process, however that ends. Sources: namespaces(7), veth(4), ip-link(8).
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROGRAMS = ("unshare", "nsenter", "setpriv", "mount", "hostname", "ip", "sh", "env")
NEW = ("unshare", "--net", "--mount", "--uts", "sh", "-euc")
TRIAL = """
ip link add name br0 type bridge
ip link add name port1 type veth peer name other
ip link set dev port1 master br0
ip link set dev port1 type bridge_slave isolated on
"""
SWITCH = """
ip link add name br0 type bridge
ip link set dev br0 up
echo ready
read -r over
"""
HOST = """
hostname "$1"
mount --bind "$2/hosts" /etc/hosts
mount --bind "$2/resolv.conf" /etc/resolv.conf
[ "$(cat /proc/sys/net/ipv4/ip_forward)" = 0 ] || echo 0 > /proc/sys/net/ipv4/ip_forward
ip link set dev lo up
echo ready
read -r over
"""
NETWORK = "192.0.2"
"""The first three bytes of every address: a network for documentation (RFC 5737)."""


@cache
def why_not() -> str:
    """Return why hosts cannot be made on this machine, or nothing."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"not on this machine: {', '.join(lacking)}"
    done = subprocess.run([*NEW, TRIAL], capture_output=True, text=True, check=False)  # noqa: S603
    return f"no namespaces or bridges here: {done.stderr.strip()}" if done.returncode else ""


@dataclass(frozen=True, slots=True)
class Host:
    """A host of a star.

    Attributes:
        name: its name, as those who know it resolve it.
        address: its IPv4 address.
        holder: process that holds its namespaces.
    """

    name: str
    address: str
    holder: int

    def enter(self, folder: Path) -> list[str]:
        """Return the words before a command that run it on this host, in ``folder``.

        The command takes the place of these words' process, so that a signal reaches it. It is killed with the thread that
        starts it.
        """
        target = [f"--target={self.holder}", "--net", "--mount", "--uts"]
        return ["setpriv", "--pdeathsig=KILL", "nsenter", *target, "env", f"--chdir={folder}"]

    def run(self, folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command on this host and return how it ended."""
        words = [*self.enter(folder), *command]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603

    def processes(self) -> set[int]:
        """Return the processes in this host's network, its holder too."""
        return processes_in(network_of(self.holder))


def network_of(process: int) -> str:
    """Return the kernel's name for the network of a process."""
    return os.readlink(f"/proc/{process}/ns/net")


def processes_in(network: str) -> set[int]:
    """Return the processes that are in a network."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has just ended
                if network_of(int(entry.name)) == network:
                    found.add(int(entry.name))
    return found


@contextmanager
def star(folder: Path, centre: str, *spokes: str) -> Generator[dict[str, Host]]:
    """Make a centre and the spokes that reach it and nobody else, and yield all of them by name.

    The centre knows every name, a spoke its own and the centre's. At the end every process on a host is killed.

    Args:
        folder: an empty folder for the hosts' files.
        centre: name of the centre.
        spokes: names of the others.
    """
    addresses = {name: f"{NETWORK}.{number}" for number, name in enumerate((centre, *spokes), start=1)}
    with ExitStack() as stack:
        switch = stack.enter_context(_held(SWITCH))
        hosts: dict[str, Host] = {}
        for name, address in addresses.items():
            known = addresses if name == centre else {name: address, centre: addresses[centre]}
            place = folder / name
            place.mkdir()
            (place / "hosts").write_text(
                "127.0.0.1 localhost\n"
                + "".join(f"{number} {known_name}\n" for known_name, number in known.items())
            )
            (place / "resolv.conf").write_text("")
            holder = stack.enter_context(_held(HOST, name, str(place)))
            hosts[name] = Host(name, address, holder)
            _plug(switch, hosts[name], None if name == centre else addresses[centre])
        yield hosts


@contextmanager
def _held(script: str, *arguments: str) -> Generator[int]:
    """Run a script that prints ``ready`` and waits, in new namespaces, and yield its process."""
    words = [*NEW, script, "sh", *arguments]
    holder = subprocess.Popen(  # noqa: S603
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != "ready\n":
            raise RuntimeError(f"a host did not start: {holder.stderr.read()}")
        network = network_of(holder.pid)
        try:
            yield holder.pid
        finally:
            for process in processes_in(network) - {holder.pid}:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            holder.stdin.close()
            holder.wait(timeout=30)


def _plug(switch: int, host: Host, only: str | None) -> None:
    """Join a host to the switch; with ``only``, as an isolated port with a route to that address alone."""
    port = f"port{host.holder}"
    _in(switch, f"ip link add name {port} type veth peer name eth0 netns {host.holder}")
    _in(switch, f"ip link set dev {port} master br0")
    if only is not None:
        _in(switch, f"ip link set dev {port} type bridge_slave isolated on")
    _in(switch, f"ip link set dev {port} up")
    _in(host.holder, f"ip address add {host.address}/{24 if only is None else 32} dev eth0")
    _in(host.holder, "ip link set dev eth0 up")
    if only is not None:
        _in(host.holder, f"ip route add {only}/32 dev eth0")


def _in(holder: int, command: str) -> None:
    """Run a command in the network of a holder; it must succeed."""
    words = ["nsenter", f"--target={holder}", "--net", *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")
