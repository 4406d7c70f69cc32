"""The tutorial on hosts of their own: five sites, the coordinator and the statistician, each command exactly as printed.

Names and ports are those of the document. A site has no way to anybody but the coordinator.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.end_to_end.tutorial import PARTIES, SITES, Town, type_tutorial
from tests.hosts.hosts import Host, star
from tests.hosts.lines import established, listeners

HUB = "hub.example.org"
NAMES = {party: HUB if party == "operator" else f"{party}.example.org" for party in PARTIES}
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 8443), timeout=5).close()
except OSError as error:
    sys.exit(error.errno)
"""


class HostedTown(Town):
    """A town whose parties have hosts of their own."""

    def __init__(self, place: Path, hosts: Mapping[str, Host]) -> None:
        super().__init__(place)
        self.hosts = {party: hosts[name] for party, name in NAMES.items()}
        self.looked = 0

    def environment(self) -> dict[str, str]:
        """Return the environment without this machine's proxies."""
        return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}

    def at(self, party: str) -> list[str]:
        return self.hosts[party].enter(self.folders[party])

    def look_around(self, running: Mapping[str, "subprocess.Popen[bytes]"]) -> None:
        """The coordinator alone listens; a node holds connections to it and to nobody else."""
        hub = self.hosts["operator"].address
        assert {port for _, port in listeners(running["operator"].pid)} == {8443}
        peers = {peer for peer, _ in established(running["operator"].pid)}
        assert peers == {self.hosts[site].address for site in SITES}
        for site in SITES:
            assert listeners(running[site].pid) == set(), "a node listens on nothing"
            assert established(running[site].pid) == {(hub, 8443)}
            self.looked += 1
        self.no_site_reaches_another()

    def no_site_reaches_another(self) -> None:
        for site in SITES:
            for other in {"operator", *SITES} - {site}:
                expected = 0 if other == "operator" else errno.ENETUNREACH
                words = [*self.at(site), sys.executable, "-c", CONNECT, self.hosts[other].address]
                assert subprocess.run(words, check=False).returncode == expected, (site, other)  # noqa: S603


def test_the_tutorial_works_between_hosts_exactly_as_it_is_typed(tmp_path: Path) -> None:
    (tmp_path / "hosts").mkdir()
    with star(tmp_path / "hosts", *(NAMES[party] for party in PARTIES)) as hosts:
        town = HostedTown(tmp_path, hosts)
        for party in PARTIES:
            typed = "--listen 0.0.0.0:8443 --coordinator hub.example.org:8443"
            assert town.filled(party, typed) == typed
        type_tutorial(town)
    assert town.looked == len(SITES)
