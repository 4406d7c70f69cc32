"""Files in one .zip, written in exactly one way and read only in that way.

An archive that comes from elsewhere may be hostile: a small one that unpacks to terabytes, two entries of one name that two programs
read differently, names that lead out of a folder, bytes between entries that nobody looks at. Here entries are stored, never
compressed, sorted by name, with one fixed time and no extra field; the directory at the end follows from the entries. A reader goes
through the bytes once, takes nothing that this writer would have written otherwise, and holds never more than the archive itself. Any zip
program opens it (PKWARE APPNOTE 6.3.10, sections 4.3.6 to 4.3.16).
"""

import re
import struct
import zlib
from collections.abc import Iterator, Mapping

from cohortsum.crypto.errors import ConfigurationError

MAX_BYTES = 1024**3
"""Of everything in an archive."""
MAX_FILES = 10_000
MAX_NAME = 120
MAX_ARCHIVE_BYTES = MAX_BYTES + MAX_FILES * 512
"""Of an archive: its headers are smaller."""
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*")
"""Lower-case path segments that begin with a letter or digit: none leads upwards, to a root or to another spelling of a file."""

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_VERSION, _UNIX, _STORED = 20, 3 << 8 | 20, 0
_DATE = 1 << 5 | 1
"""1 January 1980, the first day that the format knows."""
_MODE = 0o100644 << 16


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files by name; equal files give equal bytes. Raises ConfigurationError beyond the limits."""
    parts: list[bytes] = []
    entries: list[tuple[bytes, int, int, int]] = []
    place = 0
    if len(files) > MAX_FILES:
        raise ConfigurationError(f"archive: {len(files)} files, at most {MAX_FILES} go into one")
    for name, content in sorted(files.items()):
        raw = _name(name.encode(), "archive")
        if place + len(content) > MAX_BYTES:
            raise ConfigurationError(f"archive: more than {MAX_BYTES} bytes; leave something out")
        checksum = zlib.crc32(content)
        parts += [_local(raw, checksum, len(content)), content]
        entries.append((raw, checksum, len(content), place))
        place += _LOCAL.size + len(raw) + len(content)
    return b"".join((*parts, _directory(entries, place)))


def unpack(archive: bytes, source: str) -> Mapping[str, bytes]:
    """Return the files of an archive that `pack` wrote, by name.

    Args:
        archive: its bytes; views of them are not kept.
        source: its name in messages.

    Raises:
        ConfigurationError: anything else, naming the file in it where one can be named.
    """
    if len(archive) > MAX_ARCHIVE_BYTES:
        raise ConfigurationError(f"{source}: {len(archive)} bytes, at most {MAX_ARCHIVE_BYTES} are read")
    files: dict[str, bytes] = {}
    entries: list[tuple[bytes, int, int, int]] = []
    end = 0
    for raw, checksum, start, size in _entries(archive, source):
        name = raw.decode("ascii")
        entries.append((raw, checksum, size, end))
        end = start + size
        content = archive[start:end]
        if zlib.crc32(content) != checksum:
            raise ConfigurationError(
                f"{source}: {name} was changed after it was packed; get the archive again from where it was made"
            )
        files[name] = content
    if archive[end:] != _directory(entries, end):
        raise ConfigurationError(
            f"{source}: its directory does not follow from its entries; it is damaged or another program wrote it: get it again"
        )
    return files


def _entries(archive: bytes, source: str) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield name, checksum, start and size of every entry, each checked against the only header that it may have."""
    place, before, count = 0, b"", 0
    while archive[place : place + 4] == b"PK\x03\x04":
        count += 1
        if count > MAX_FILES:
            raise ConfigurationError(f"{source}: more than {MAX_FILES} files; no more are read")
        header = archive[place : place + _LOCAL.size]
        if len(header) < _LOCAL.size:
            raise ConfigurationError(f"{source}: ends within an entry; get it again")
        *_, checksum, size, _, name_size, _ = _LOCAL.unpack(header)
        start = place + _LOCAL.size + name_size
        raw = _name(archive[place + _LOCAL.size : start], source)
        if len(raw) != name_size or header != _local(raw, checksum, size)[: _LOCAL.size]:
            raise ConfigurationError(
                f"{source}: entry {raw.decode('ascii')} is compressed, encrypted or written otherwise than cohortsum does; get "
                "the archive as it was made"
            )
        if raw <= before:
            raise ConfigurationError(f"{source}: entry {raw.decode('ascii')} is there twice or out of order")
        if start + size > len(archive):
            raise ConfigurationError(f"{source}: ends within {raw.decode('ascii')}; get it again")
        yield raw, checksum, start, size
        place, before = start + size, raw
    if not count:
        raise ConfigurationError(f"{source}: not an archive that cohortsum wrote; expected a .zip file")


def _name(raw: bytes, source: str) -> bytes:
    if len(raw) > MAX_NAME or not NAME.fullmatch(raw.decode("latin-1")):
        raise ConfigurationError(
            f"{source}: an entry has a name that is not allowed; expected lower-case letters, digits and . _ - between slashes"
        )
    return raw


def _local(raw: bytes, checksum: int, size: int) -> bytes:
    sizes = (checksum, size, size, len(raw), 0)
    return _LOCAL.pack(b"PK\x03\x04", _VERSION, 0, _STORED, 0, _DATE, *sizes) + raw


def _directory(entries: list[tuple[bytes, int, int, int]], place: int) -> bytes:
    """Return the directory of entries (name, checksum, size, place) that begins at ``place``, and the end record."""
    listed = b"".join(
        _CENTRAL.pack(
            *(b"PK\x01\x02", _UNIX, _VERSION, 0, _STORED, 0, _DATE, checksum, size, size, len(raw)),
            *(0, 0, 0, 0, _MODE, where),
        )
        + raw
        for raw, checksum, size, where in entries
    )
    return listed + _END.pack(b"PK\x05\x06", 0, 0, len(entries), len(entries), len(listed), place, 0)
