"""Which way leads to the coordinator: straight, or through a CONNECT proxy, chosen exactly as gRPC does.

gRPC reads the lower-case variables ``grpc_proxy``, ``https_proxy``, ``http_proxy`` in this order, speaks plain HTTP to the
proxy, and leaves out hosts of ``no_grpc_proxy`` or ``no_proxy`` (ends of names, or address blocks). The proxy resolves the
coordinator's name; TLS runs inside the tunnel, from end to end. Source: gRPC core, http_proxy_mapper.
"""

import base64
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

from cohortsum.crypto.errors import ConfigurationError

VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")
EXCEPTIONS = ("no_grpc_proxy", "no_proxy")
DEFAULT_PORT = 80
LONGEST_ANSWER = 65_536


@dataclass(frozen=True, slots=True)
class Proxy:
    """A CONNECT proxy.

    Attributes:
        host: its name.
        port: its port.
        variable: the environment variable that names it.
        credentials: user and password for Basic authentication, or nothing.
    """

    host: str
    port: int
    variable: str
    credentials: str = field(default="", repr=False)


class TunnelError(Exception):
    """A proxy does not open a tunnel; ``status`` is its HTTP status, 0 where it does not speak HTTP."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def proxy_for(host: str, environment: Mapping[str, str]) -> Proxy | None:
    """Return the proxy that gRPC will use for ``host``, or None; raises ConfigurationError for one it cannot use."""
    variable = next((name for name in VARIABLES if environment.get(name)), None)
    if variable is None or _excepted(host, environment):
        return None
    try:
        address = urlsplit(environment[variable])
        name, port = address.hostname, address.port or DEFAULT_PORT
    except ValueError:
        name, port, address = None, 0, None
    if address is None or address.scheme != "http" or not name:
        raise ConfigurationError(
            f"{variable}: expected http://host:port, the only kind of proxy that gRPC speaks to; correct the variable"
        )
    credentials = ""
    if address.username is not None:
        credentials = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return Proxy(name, port, variable, credentials)


def ignored_variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return proxy variables that are set in upper case only, which gRPC does not read."""
    return tuple(
        name.upper()
        for name in ("https_proxy", "http_proxy")
        if environment.get(name.upper()) and not environment.get(name)
    )


def tunnel(line: socket.socket, proxy: Proxy, target: str) -> None:
    """Ask the proxy for a tunnel to ``target`` (host:port) on an open connection.

    Raises TunnelError where it refuses, and OSError where the connection breaks.
    """
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.credentials:
        lines.append("Proxy-Authorization: Basic " + base64.b64encode(proxy.credentials.encode()).decode())
    line.sendall("\r\n".join([*lines, "", ""]).encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        # one byte at a time: what follows the answer belongs to TLS
        byte = line.recv(1)
        if not byte or len(answer) > LONGEST_ANSWER:
            raise TunnelError(0)
        answer += byte
    words = answer.split(b"\r\n", 1)[0].split()
    spoken = len(words) > 1 and words[0].startswith(b"HTTP/") and re.fullmatch(rb"[0-9]{3}", words[1])
    status = int(words[1]) if spoken else 0
    if not 200 <= status < 300:
        raise TunnelError(status)


def _excepted(host: str, environment: Mapping[str, str]) -> bool:
    listed = next((environment[name] for name in EXCEPTIONS if environment.get(name)), "")
    return any(_matches(host, entry.strip()) for entry in listed.split(",") if entry.strip())


def _matches(host: str, entry: str) -> bool:
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        return host.lower().endswith(entry.lower())
