"""A hospital's proxy as a process of its own: it passes CONNECT on, or opens TLS to read along.

    python -m tests.hosts.door PORT [ISSUER]

With ISSUER it shows every client a certificate of that authority, made on the spot, in TLS 1.2 or 1.3. It prints ``ready``, and
then the first line of every request that it gets.
"""

import contextlib
import socketserver
import ssl
import sys
import tempfile
from pathlib import Path

from tests.admin.servers import LIMIT_S, ConnectProxy, inspecting_ca, server_context


class Said(list[str]):
    """Requests; the first line of each is printed when it comes."""

    def append(self, request: str) -> None:
        print(request.splitlines()[0], flush=True)
        super().append(request)


def main(port: int, issuer: str | None) -> None:
    """Serve on every address until the process is stopped."""
    context: ssl.SSLContext | None = None
    if issuer is not None:
        with tempfile.TemporaryDirectory() as folder:
            versions = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
            context = server_context(Path(folder), inspecting_ca(issuer, "coordinator"), versions)

    class Line(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(LIMIT_S)
            with contextlib.suppress(OSError):
                ConnectProxy(inspector=context, asked=Said()).handle(self.request)

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer(("", port), Line) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
