"""Keys and ciphertexts of two-key mode, which TenSEAL parses: of a small ring, so that inputs are small."""

from functools import cache

import numpy as np

from cohortsum.crypto.bfv import DecryptionKey, EncryptionKey, Parameters
from cohortsum.crypto.tenseal_seam import Context, Named, library
from tests.fuzz.target import Target, decoder

SMALL = Parameters(2048, 12289, (27, 27))


@cache
def trustee() -> DecryptionKey:
    """Return a key whose ciphertexts have the form that every key's have."""
    return DecryptionKey.draw(SMALL)


def _key(data: bytes) -> EncryptionKey:
    return EncryptionKey.from_bytes(data, SMALL)


def _ciphertext(data: bytes) -> None:
    """Check a frame that begins with a case, then add it to itself and decrypt it."""
    key = _key(trustee().public)
    words = np.frombuffer(data[: SMALL.frame_bytes].ljust(SMALL.frame_bytes, b"\0"), dtype=np.uint64)
    key.check(words)
    total = key.sum(SMALL.ring_degree)
    total.add([words])
    total.add([words])
    for summed in total.framed():
        trustee().decrypt(summed, SMALL.ring_degree)


def _encrypts(_data: bytes, key: EncryptionKey) -> None:
    """Look at a key that was taken: what it encrypts has the size of every frame."""
    assert key.encrypt(np.arange(3, dtype=np.uint64)).nbytes == SMALL.frame_bytes


def _context(scheme: str) -> Context:
    named: Named = getattr(library().SCHEME_TYPE, scheme)
    return library().context(named, SMALL.ring_degree, SMALL.modulus, [27, 27], n_threads=1)


def seeds() -> dict[str, dict[str, bytes]]:
    """Return fresh inputs by target and name: a good one, and what other parameters and schemes make."""
    key = trustee()
    frame = EncryptionKey.from_bytes(key.public, SMALL).encrypt(np.arange(9, dtype=np.uint64)).tobytes()
    bfv, ckks = (_context(scheme) for scheme in ("BFV", "CKKS"))
    alone, secret = (True, False, False, False), (False, True, False, False)
    return {
        "encryption-key": {
            "valid": key.public,
            "ckks": ckks.serialize(*alone),
            "secret": bfv.serialize(*secret),
            "parameters": key.public[:90],
        },
        "ciphertext": {
            "valid": frame,
            "transparent": frame[: SMALL.frame_bytes // 2],
            "beyond": b"\xff" * 8 + frame[8:200],
        },
    }


TARGETS = (
    Target("encryption-key", decoder(_key, _encrypts), size=40_000, examples=30),
    Target("ciphertext", decoder(_ciphertext), size=32_768, examples=30),
)
