"""Which TCP lines there are in the network of a process, read from ``/proc/PID/net`` (source: proc(5))."""

import socket
import sys
from ipaddress import IPv6Address
from pathlib import Path

ESTABLISHED, LISTENING = "01", "0A"
Line = tuple[str, int]
"""An address and a port."""


def listeners(process: int) -> set[Line]:
    """Return where somebody listens in the network of ``process``."""
    return {here for here, _, state in _lines(process) if state == LISTENING}


def established(process: int) -> set[Line]:
    """Return the far ends of lines that stand in the network of ``process``."""
    return {there for _, there, state in _lines(process) if state == ESTABLISHED}


def _lines(process: int) -> list[tuple[Line, Line, str]]:
    rows = [
        row.split()[1:4]
        for name in ("tcp", "tcp6")
        for row in Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]
    ]
    return [(_line(here), _line(there), state) for here, there, state in rows]


def _line(text: str) -> Line:
    """Read one end; addresses stand there as hexadecimal words of 32 bits in the machine's byte order."""
    address, _, port = text.partition(":")
    words = [bytes.fromhex(address[start : start + 8]) for start in range(0, len(address), 8)]
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    if len(packed) == 4:
        return socket.inet_ntoa(packed), int(port, 16)
    long = IPv6Address(packed)
    return str(long.ipv4_mapped or long), int(port, 16)
