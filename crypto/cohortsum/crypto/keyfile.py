"""Keys, digests and signatures in files: hexadecimal text of a known length."""

from cohortsum.crypto.errors import ConfigurationError


def parse_hex(data: bytes, size: int, name: str) -> bytes:
    """Return the ``size`` bytes that a file holds as hexadecimal digits; raises ConfigurationError naming the file."""
    try:
        held = bytes.fromhex(data.decode("ascii").strip())
    except ValueError:
        held = b""
    if len(held) != size:
        raise ConfigurationError(f"{name}: expected {size} bytes as hexadecimal digits; make the file again")
    return held
