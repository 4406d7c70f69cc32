"""A TLS client of one version: how far does a server let it?

    python -m tests.hosts.knock HOST PORT 1.2|1.3 [NODE]

prints the version if the handshake succeeds, and in the next line ``answered`` if the server then speaks HTTP/2, or ``closed``.
A handshake that fails prints why. With NODE, a node's folder, the client has that node's certificate and shows it to a server that
asks for one; without, it has none. The server's certificate is not verified: who answers is not the question here.
"""

import socket
import ssl
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from cohortsum.node.config import load_node_config
from cohortsum.node.files import read_key
from cohortsum.node.probe import PREFACE, looking, show_own

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def main(host: str, port: int, version: str, node: Path | None) -> None:
    """Knock once and print what came of it."""
    context = looking(VERSIONS[version], VERSIONS[version])
    if node is not None:
        config = load_node_config(node / "node.yaml")
        with tempfile.TemporaryDirectory() as scratch:
            show_own(context, config.site, read_key(config.identity_key), datetime.now(UTC), Path(scratch))
    with socket.create_connection((host, port), timeout=10) as line:
        try:
            safe = context.wrap_socket(line, server_hostname="coordinator")
        except ssl.SSLError as error:
            print(error.reason or type(error).__name__)  # a server that takes its leave gives no reason
            return
        with safe:
            print(safe.version(), flush=True)
            try:
                safe.sendall(PREFACE)
                # an HTTP/2 frame: three bytes of length, then its type, 4 for settings (RFC 9113, 4.1 and 6.5)
                print("answered" if safe.recv(9)[3:4] == b"\x04" else "closed")
            except (ssl.SSLError, ConnectionError):
                print("closed")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]) if len(sys.argv) > 4 else None)
