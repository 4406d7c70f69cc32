"""Files that survive a power cut, and keys that nobody else can read.

A new file is made exclusively, so nothing is ever overwritten by accident; a replaced one is written beside its target,
synchronised and renamed, so a reader sees the old bytes or the new ones.
"""

import os
import secrets
from pathlib import Path

from cohortsum.crypto.agreement import AgreementKey
from cohortsum.crypto.errors import ConfigurationError, cannot_be_read
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import PUBLIC_BYTES, SIGNATURE_BYTES, IdentityKey

PRIVATE = 0o600
SHARED = 0o644


def make_key(path: Path) -> IdentityKey:
    """Make an Ed25519 identity key from the system's randomness, written as hex to a new file of mode 0600.

    Raises ConfigurationError if the file exists: a key that is overwritten cannot be had back.
    """
    seed = SecretBytes(secrets.token_bytes(32), "identity seed")
    write_new(path, seed.reveal().hex().encode() + b"\n", PRIVATE)
    return IdentityKey(seed)


def read_key(path: Path) -> IdentityKey:
    """Return the identity key in a file."""
    return IdentityKey(SecretBytes(parse_hex(read(path), 32, path.name), "identity seed"))


def make_sealing_key(path: Path) -> AgreementKey:
    """Make an auditor's X25519 sealing key, written as `make_key` does."""
    seed = SecretBytes(secrets.token_bytes(32), "sealing seed")
    write_new(path, seed.reveal().hex().encode() + b"\n", PRIVATE)
    return AgreementKey(seed)


def read_sealing_key(path: Path) -> AgreementKey:
    """Return the sealing key in a file."""
    return AgreementKey(SecretBytes(parse_hex(read(path), 32, path.name), "sealing seed"))


def read_public(path: Path) -> bytes:
    """Return the public key in a file."""
    return parse_hex(read(path), PUBLIC_BYTES, path.name)


def read_signature(path: Path) -> bytes:
    """Return the detached signature in a file."""
    return parse_hex(read(path), SIGNATURE_BYTES, path.name)


def read(path: Path) -> bytes:
    """Return a file's bytes; raises ConfigurationError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(cannot_be_read(path.name, error)) from None


def make_folder(path: Path) -> None:
    """Make a folder that only its owner enters, or take an existing empty one; raises ConfigurationError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise ConfigurationError(
                f"{path}: the folder is not empty; name a new one, nothing is overwritten"
            )
        path.chmod(0o700)
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be made ({error.strerror}); check path and rights"
        ) from None


def write_new(path: Path, data: bytes, mode: int = SHARED) -> None:
    """Write a file that does not exist yet; raises ConfigurationError if it does."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise ConfigurationError(
            f"{path}: exists already and is not overwritten; name another file"
        ) from None
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        _sync_folder(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from None


def replace(path: Path, data: bytes, mode: int = SHARED) -> None:
    """Put new bytes in the place of a file's old ones, all or nothing."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    write_new(beside, data, mode)
    try:
        beside.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{path}: cannot be written ({error.strerror}); check rights and free space of its folder"
    )
