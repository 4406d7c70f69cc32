"""Uploads of an open round on disk, added only once their digest is known.

Half an upload cannot be subtracted again, so every site's words go to a file of their own, encrypted under a key that
lives in memory only (AES-256-CTR; the digest the site signed is what authenticates them). The sum is formed chunk by
chunk: memory holds one accumulator and one chunk, however many sites there are. In two-key mode the words are ciphertexts, added frame by
frame.
"""

import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from cohortsum.crypto.bfv import EncryptionKey
from cohortsum.crypto.errors import CryptoError, RemoteProtocolError, StoreError
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.masking import Hasher, words_hasher

CHUNK_BYTES = 256 * 1024
WORD_BYTES = 8
LEAST_CHUNK_BYTES = 4096
SPARE_CHUNKS = 4096
"""Chunks of an upload, beside one for every `LEAST_CHUNK_BYTES`; every chunk costs a digest, however short it is."""


class Upload:
    """One site's upload while it comes in.

    Args:
        path: where it goes once it is kept; until then it has a name of its own.
        length: how many words it must have.
        key: the spool's key.
    """

    def __init__(self, path: Path, length: int, key: SecretBytes) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
        self._file = self._part.open("wb")
        self._key = key
        self._left = length * WORD_BYTES
        self._chunks = SPARE_CHUNKS + self._left // LEAST_CHUNK_BYTES
        self._hasher: Hasher = words_hasher(self._left)
        nonce = secrets.token_bytes(16)
        self._file.write(nonce)
        self._cipher = _stream(key, nonce)

    def add(self, words: bytes, running_digest: bytes) -> None:
        """Take in the next chunk.

        Raises RemoteProtocolError: U1 for more words than the plan's vector has, or so many chunks that they hold next to
        nothing, U3 if the digest of everything so far is not the sender's.
        """
        self._left -= len(words)
        self._chunks -= 1
        if self._chunks < 0:
            raise RemoteProtocolError("U1", "an upload in too many chunks")
        if self._left < 0:
            raise RemoteProtocolError("U1", "an upload longer than the plan's vector")
        self._hasher.update(words)
        if self._hasher.digest() != running_digest:
            raise RemoteProtocolError("U3", "a chunk was damaged on the way; send the upload again")
        self._file.write(self._cipher.update(words))

    def finish(self) -> bytes:
        """Return the digest of the whole upload; raises RemoteProtocolError (U1) if it is short."""
        if self._left:
            raise RemoteProtocolError("U1", "an upload shorter than the plan's vector")
        self._file.close()
        return self._hasher.digest()

    def check(self, key: EncryptionKey) -> None:
        """Raise RemoteProtocolError (U4) unless a finished upload holds ciphertexts that can be added up."""
        try:
            for frame in _pieces(self._part, self._key, key.parameters.frame_bytes):
                key.check(np.frombuffer(frame, dtype="<u8").astype(np.uint64, copy=False))
        except CryptoError as error:
            raise RemoteProtocolError("U4", f"an upload that cannot be added: {error.message}") from None

    def rename(self) -> None:
        """Give a finished upload its site's name."""
        self._part.rename(self._path)

    def drop(self) -> None:
        """Wipe what has come in, unless it was kept."""
        self._file.close()
        self._part.unlink(missing_ok=True)


class Spool:
    """The uploads of one round.

    Args:
        folder: made if need be; holds nothing else.
        length: data words per site.
    """

    def __init__(self, folder: Path, length: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.iterdir():  # of a process that has ended, and its key with it
            left.unlink()
        self._folder = folder
        self._length = length
        self._key = SecretBytes(secrets.token_bytes(32), "spool key")
        self._digests: dict[int, bytes] = {}

    def receive(self, site: int) -> Upload:
        """Begin the upload of a site, by roster index."""
        return Upload(self._path(site), self._length, self._key)

    def keep(self, site: int, upload: Upload, digest: bytes) -> None:
        """Make a finished upload with this digest the one that is added for ``site``."""
        upload.rename()
        self._digests[site] = digest

    def holds(self, sites: Collection[int]) -> bool:
        """Whether the words of all these sites are here."""
        return self._digests.keys() >= set(sites)

    def words(self, site: int) -> bytes:
        """Return the kept upload of a site; `sum` has found it whole."""
        return b"".join(self._chunks(site))

    def sum(self, sites: Sequence[int]) -> Vector:
        """Return the sum modulo 2**64 of the kept uploads of ``sites``; raises StoreError if one changed on disk."""
        total = np.zeros(self._length, dtype=np.uint64)
        for site in sites:
            start = 0
            hasher = words_hasher(self._length * WORD_BYTES)
            for chunk in self._chunks(site):
                hasher.update(chunk)
                words = np.frombuffer(chunk, dtype="<u8")
                total[start : start + len(words)] += words
                start += len(words)
            if hasher.digest() != self._digests.get(site):
                raise _changed(site)
        return total

    def encrypted_sum(self, sites: Sequence[int], key: EncryptionKey, length: int) -> Vector:
        """Return the framed ciphertexts of the sum of the kept uploads of ``sites``; raises StoreError if one changed on disk.

        Args:
            sites: roster indices.
            key: of the round; the uploads are ciphertexts under it (`Upload.check`).
            length: how many numbers they hold.
        """
        total = key.sum(length)
        for site in sites:
            hasher = words_hasher(self._length * WORD_BYTES)

            def frames(site: int = site, hasher: Hasher = hasher) -> Iterator[Vector]:
                for piece in _pieces(self._path(site), self._key, key.parameters.frame_bytes):
                    hasher.update(piece)
                    yield np.frombuffer(piece, dtype="<u8").astype(np.uint64, copy=False)

            try:
                total.add(frames())
            except CryptoError:
                raise _changed(site) from None
            if hasher.digest() != self._digests.get(site):
                raise _changed(site)
        return np.concatenate(list(total.framed()))

    def keep_only(self, sites: Sequence[int]) -> None:
        """Wipe the uploads of everyone else."""
        kept = {self._path(site) for site in sites}
        for path in self._folder.iterdir():
            if path not in kept:
                path.unlink()

    def wipe(self) -> None:
        """Wipe every upload and forget the key, without which nothing that is left on disk can be read."""
        self.keep_only(())
        self._folder.rmdir()
        self._key.wipe()

    def _path(self, site: int) -> Path:
        return self._folder / f"{site}.words"

    def _chunks(self, site: int) -> Iterator[bytes]:
        return _pieces(self._path(site), self._key, CHUNK_BYTES)


def kept_bytes(spool: Path, site: int) -> int:
    """Return how many bytes of kept uploads a site has below ``spool``, which has a folder per study and in it one per attempt."""
    total = 0
    for path in spool.glob(f"*/*/{site}.words"):
        with suppress(FileNotFoundError):  # its round has just ended
            total += path.stat().st_size
    return total


def _pieces(path: Path, key: SecretBytes, size: int) -> Iterator[bytes]:
    """Yield what lies in a spooled file, ``size`` bytes at a time."""
    with path.open("rb") as file:
        stream = _stream(key, file.read(16))
        while piece := file.read(size):
            yield stream.update(piece)


def _changed(site: int) -> StoreError:
    return StoreError(f"the spooled upload of site index {site} changed on disk; check the disk")


def _stream(key: SecretBytes, nonce: bytes) -> CipherContext:
    return Cipher(algorithms.AES(key.reveal()), modes.CTR(nonce)).encryptor()
