"""What a wheel says about itself: name, version, licence, what it needs, and the oldest C library it runs on.

A wheel is a zip file with one ``METADATA`` file (core metadata, RFC 822 style) below ``*.dist-info/``; its file name ends in
tags ``python-abi-platform``, each possibly several joined by dots, any one of which suffices (PEP 427, 425, 600). The digest
is over the file as it lies on disk: it is what ``pip --require-hashes`` compares.
"""

import hashlib
import re
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from itertools import pairwise
from pathlib import Path

LEGACY = {"manylinux1": 5, "manylinux2010": 12, "manylinux2014": 17}
"""Minor version of glibc 2 behind the older names of platform tags (PEP 600)."""

SPDX = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache-2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd 3-clause license": "BSD-3-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit": "MIT",
    "mit license": "MIT",
}
"""SPDX identifiers of licence names that older metadata write and that mean one licence only."""


class BundleError(Exception):
    """The bundle cannot be made; the message says which file, and what was expected."""


@dataclass(frozen=True, slots=True)
class Licence:
    """A licence as the wheel's author states it.

    Attributes:
        text: an SPDX expression, or a name that stands for no single SPDX licence (``BSD License``).
        spdx: whether ``text`` is an SPDX expression.
    """

    text: str
    spdx: bool


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel file.

    Attributes:
        path: the file.
        name: the distribution's name, normalised (PEP 503).
        version: its version, as written.
        sha256: digest of the file, 64 hex digits.
        licence: what it may be used under.
        requires: normalised names of the distributions it needs without any extra, sorted; a name that its markers leave
            out on this platform is still listed.
        glibc: minor version of the oldest glibc 2 that it runs on, 0 if it holds no compiled code for Linux.
    """

    path: Path
    name: str
    version: str
    sha256: str
    licence: Licence
    requires: tuple[str, ...]
    glibc: int


def normalised(name: str) -> str:
    """Return a distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_wheel(path: Path) -> Wheel:
    """Return what a wheel says about itself.

    Raises:
        BundleError: no zip file, not one METADATA file, a file name that contradicts it, or no licence stated.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
            if len(inside) != 1:
                raise BundleError(
                    f"{path.name}: {len(inside)} METADATA files, expected one; download it again"
                )
            metadata = HeaderParser().parsestr(archive.read(inside[0]).decode("utf-8"))
    except zipfile.BadZipFile:
        raise BundleError(f"{path.name}: not a zip file; download it again") from None
    name, version = normalised(_text(metadata, "Name")), _text(metadata, "Version")
    parts = path.name.removesuffix(".whl").split("-")
    if len(parts) < 5 or (normalised(parts[0]), parts[1]) != (name, version):
        raise BundleError(f"{path.name}: its metadata say {name} {version}; download it again")
    return Wheel(
        path, name, version, sha256_of(path), _licence(path, metadata), _requires(metadata), _glibc(parts[-1])
    )


def read_wheels(folder: Path) -> list[Wheel]:
    """Return the wheels in a folder, by name; raises BundleError for two versions of one distribution."""
    wheels = sorted((read_wheel(path) for path in folder.glob("*.whl")), key=lambda wheel: wheel.name)
    for before, after in pairwise(wheels):
        if before.name == after.name:
            raise BundleError(f"two wheels of {after.name}: {before.path.name}, {after.path.name}; keep one")
    return wheels


def _text(metadata: Message, field: str) -> str:
    return str(metadata.get(field, "")).strip()


def _licence(path: Path, metadata: Message) -> Licence:
    """Return the expression; without one the licence's name, if it is a name and no text; else what is classified."""
    expression = _text(metadata, "License-Expression")
    if expression:
        return Licence(expression, spdx=True)
    marker = "License :: OSI Approved :: "
    classified = [str(line) for line in metadata.get_all("Classifier", [])]
    names = [line.removeprefix(marker) for line in classified if line.startswith(marker)]
    written = _text(metadata, "License")
    if written and "\n" not in written and len(written) <= 80:
        names.insert(0, written)
    if not names:
        raise BundleError(f"{path.name}: states no licence; find out under which it may be passed on")
    known = SPDX.get(names[0].lower())
    return Licence(known or names[0], spdx=known is not None)


def _requires(metadata: Message) -> tuple[str, ...]:
    lines = [str(line) for line in metadata.get_all("Requires-Dist", [])]
    wanted = [line for line in lines if not re.search(r"\bextra\s*==", line)]
    return tuple(sorted({normalised(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in wanted}))


def _glibc(platforms: str) -> int:
    """Return the lowest glibc minor version among joined platform tags; 0 where there is none."""
    found = [int(minor) for minor in re.findall(r"manylinux_2_(\d+)_", platforms)]
    found += [minor for name, minor in LEGACY.items() if f"{name}_" in platforms]
    return min(found, default=0)
