"""Make the project's own vectors, and check the official ones against a second implementation.

Run from the root of the repository::

    python -m tests.vectors.make_own            write own_*.json again
    python -m tests.vectors.make_own --check    compare what would be written with what is there

Inputs are fixed: small numbers, or SHA-512 of a label. Results come from ``tests/slow_crypto.py`` alone. The
checks use the ``cryptography`` package; where it and the slow code differ, nothing is written.
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tests import slow_crypto

HERE = Path(__file__).parent
Texts = dict[str, str]


def load(file: str, group: str) -> list[Texts]:
    """Return one group of vectors of a file, each a flat record of texts."""
    content = json.loads((HERE / file).read_text(encoding="utf-8"))
    return cast(list[Texts], content[group])


def octets(vector: Texts, *names: str) -> tuple[bytes, ...]:
    """Return fields of a vector that are written in hex."""
    return tuple(bytes.fromhex(vector[name]) for name in names)


def _from_label(label: str) -> bytes:
    return hashlib.sha512(f"cohortsum/tests/{label}".encode()).digest()


def _number(label: str) -> int:
    return int.from_bytes(_from_label(label), "little") % slow_crypto.P


def _hex(number: int) -> str:
    """Write an element of the field as 32 big-endian bytes in hex."""
    return number.to_bytes(32, "big").hex()


# The second implementation


def _library_ctr(key: bytes, counter: bytes, text: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor().update(text)


def _library_refuses(public: bytes) -> bool:
    """Return whether the library finds the point to be of low order."""
    try:
        X25519PrivateKey.from_private_bytes(_from_label("x25519")[:32]).exchange(
            X25519PublicKey.from_public_bytes(public)
        )
    except ValueError:
        return True
    return False


def _library_verifies(public: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def check_official() -> None:
    """Raise AssertionError where an official vector and the ``cryptography`` package differ."""
    for v in load("rfc7748_x25519.json", "multiply"):
        scalar, u, result = octets(v, "scalar", "u", "result")
        library = X25519PrivateKey.from_private_bytes(scalar).exchange(X25519PublicKey.from_public_bytes(u))
        assert library == result, v
    for v in load("rfc7748_x25519.json", "iterate"):
        k = u = (9).to_bytes(32, "little")
        for _ in range(int(v["times"])):
            library = X25519PrivateKey.from_private_bytes(k).exchange(X25519PublicKey.from_public_bytes(u))
            k, u = library, k
        assert k.hex() == v["result"], v
    for v in load("rfc7748_x25519.json", "agree"):
        a, public_a, b, public_b, shared = octets(
            v, "private_a", "public_a", "private_b", "public_b", "shared"
        )
        for own, own_public, peer in ((a, public_a, public_b), (b, public_b, public_a)):
            private = X25519PrivateKey.from_private_bytes(own)
            assert private.public_key().public_bytes_raw() == own_public, v
            assert private.exchange(X25519PublicKey.from_public_bytes(peer)) == shared, v
    for v in load("rfc5869_hkdf.json", "vectors"):
        secret, salt, info, extracted, result = octets(v, "secret", "salt", "info", "extracted", "result")
        length = int(v["length"])
        assert HKDF(SHA256(), length, salt, info).derive(secret) == result, v
        assert HKDF.extract(SHA256(), salt or None, secret) == extracted, v
    for v in load("rfc8439_aead.json", "vectors"):
        key, nonce, associated, plain = octets(v, "key", "nonce", "associated", "plaintext")
        sealed = ChaCha20Poly1305(key).encrypt(nonce, plain, associated)
        assert sealed.hex() == v["ciphertext"] + v["tag"], v
    for v in load("rfc8032_ed25519.json", "vectors"):
        secret, public, message, signature = octets(v, "secret", "public", "message", "signature")
        signer = Ed25519PrivateKey.from_private_bytes(secret)
        assert signer.public_key().public_bytes_raw() == public, v
        assert signer.sign(message) == signature, v
    for v in load("nist_aes256.json", "ctr"):
        key, counter, plain = octets(v, "key", "counter", "plaintext")
        assert _library_ctr(key, counter, plain).hex() == v["ciphertext"], v
    for v in load("nist_aes256.json", "block"):
        key, plain = octets(v, "key", "plaintext")
        assert _library_ctr(key, plain, bytes(16)).hex() == v["ciphertext"], v
    for v in load("x25519_rejected.json", "not_canonical"):
        assert _library_refuses(*octets(v, "u")) == (v["low_order"] == "yes"), v
    for v in load("x25519_rejected.json", "low_order"):
        assert _library_refuses(*octets(v, "u")), v


# Own vectors


def masks(words: int = 100_000) -> dict[str, Any]:
    """Mask expansion: the first words and the sum of the first ``words`` of them."""
    vectors: list[Texts] = []
    for name, key in (
        ("all zero", bytes(32)),
        ("0, 1, .. 31", bytes(range(32))),
        ("label masks/2", _from_label("masks/2")[:32]),
    ):
        mask = slow_crypto.mask_words(key, words)
        stream = b"".join(word.to_bytes(8, "little") for word in mask)
        assert _library_ctr(key, bytes(16), bytes(8 * words)) == stream, name
        vectors.append(
            {
                "name": name,
                "key": key.hex(),
                "first_words": " ".join(map(str, mask[:8])),
                "words": str(words),
                "last_word": str(mask[-1]),
                "sum_mod_2_64": str(sum(mask) % 2**64),
            }
        )
    return {
        "origin": "make_own.py from tests/slow_crypto.py, checked against the cryptography package",
        "note": "AES-256-CTR key stream from 16 zero bytes as little-endian uint64; keys hex, words decimal.",
        "vectors": vectors,
    }


def _shamir(name: str, coefficients: Sequence[int], points: Sequence[int]) -> dict[str, Any]:
    """One polynomial: its shares, two sets of t points that give the secret, one of t - 1 that does not."""
    threshold = len(coefficients)
    shares = slow_crypto.shamir_split(coefficients, points)
    for subset in (points[:threshold], points[-threshold:]):
        assert slow_crypto.shamir_combine({x: shares[x] for x in subset}) == coefficients[0], name
    too_few = points[: threshold - 1]
    wrong = slow_crypto.shamir_combine({x: shares[x] for x in too_few})
    assert wrong != coefficients[0], name
    return {
        "name": name,
        "threshold": threshold,
        "coefficients": [_hex(a) for a in coefficients],
        "shares": {str(x): _hex(y) for x, y in shares.items()},
        "combine": [list(points[:threshold]), list(points[-threshold:])],
        "too_few": {"points": list(too_few), "naive_result": _hex(wrong)},
    }


def shamir() -> dict[str, Any]:
    """Sharing over 2^255 - 19, and sets of shares that must be refused."""

    def coefficients(secret: int, threshold: int) -> list[int]:
        return [secret, *(_number(f"shamir/{threshold}/{power}") for power in range(1, threshold))]

    last = slow_crypto.P - 1
    one, two = _hex(_number("shamir/share/1")), _hex(_number("shamir/share/2"))
    return {
        "origin": "make_own.py from tests/slow_crypto.py (Lagrange's formula on Python integers)",
        "note": "Modulo 2^255 - 19; coefficients[0] is the secret; 32 big-endian bytes in hex.",
        "vectors": [
            _shamir("smallest numbers", [1, 2, 3], [1, 2, 3, 4]),
            _shamir("secret 0", coefficients(0, 3), [1, 2, 3, 4]),
            _shamir("secret p - 1, coefficients p - 1", [last] * 4, [1, 2, 3, 4, 5]),
            _shamir("5 of 7", coefficients(_number("shamir/5"), 5), range(1, 8)),
            _shamir(
                "5 of 7, points of a larger roster",
                coefficients(_number("shamir/5"), 5),
                [3, 8, 20, 77, 131, 200, 256],
            ),
            _shamir("14 of 20", coefficients(_number("shamir/14"), 14), range(1, 21)),
        ],
        "rejected": [
            {"name": "fewer shares than the threshold", "threshold": 3, "shares": [[1, one], [2, two]]},
            {"name": "one point twice, same share", "threshold": 2, "shares": [[1, one], [1, one]]},
            {"name": "one point twice, other share", "threshold": 2, "shares": [[1, one], [1, two]]},
            {"name": "point 0, which would be the secret", "threshold": 2, "shares": [[0, one], [1, two]]},
            {"name": "share p, not reduced", "threshold": 2, "shares": [[1, one], [2, _hex(last + 1)]]},
            {
                "name": "share 2^256 - 1, not reduced",
                "threshold": 2,
                "shares": [[1, one], [2, _hex(2**256 - 1)]],
            },
        ],
    }


def ed25519_rejected() -> dict[str, Any]:
    """Changes to RFC 8032 TEST 3 that must not verify."""
    public, message, signature = octets(
        load("rfc8032_ed25519.json", "vectors")[2], "public", "message", "signature"
    )
    order = 2**252 + 27742317777372353535851937790883648493
    other = load("rfc8032_ed25519.json", "vectors")[1]
    s = int.from_bytes(signature[32:], "little")
    longer_s = (s + order).to_bytes(32, "little")
    flipped = bytes([signature[0] ^ 1]) + signature[1:]
    cases = [
        ("another message", public, message + b"\0", signature),
        ("another signer", bytes.fromhex(other["public"]), message, signature),
        ("first bit of R flipped", public, message, flipped),
        ("S + L, the same signature modulo the order", public, message, signature[:32] + longer_s),
        ("S = 0", public, message, signature[:32] + bytes(32)),
        ("all zero", public, message, bytes(64)),
    ]
    for case in cases:
        assert not slow_crypto.ed25519_verify(*case[1:]), case[0]
        assert not _library_verifies(*case[1:]), case[0]
    return {
        "origin": "make_own.py from RFC 8032 section 7.1 TEST 3; refused by tests/slow_crypto.py too",
        "vectors": [
            {"name": name, "public": key.hex(), "message": text.hex(), "signature": sig.hex()}
            for name, key, text, sig in cases
        ],
    }


def own() -> dict[str, str]:
    """Return the own files and their contents."""
    made = {
        "own_masks.json": masks(),
        "own_shamir.json": shamir(),
        "own_ed25519_rejected.json": ed25519_rejected(),
    }
    return {name: json.dumps(content, indent=2) + "\n" for name, content in made.items()}


def main(arguments: Sequence[str]) -> int:
    """Write or check the files; return the exit code."""
    check_official()
    stale: list[str] = []
    for name, content in own().items():
        path = HERE / name
        if "--check" not in arguments:
            path.write_text(content, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != content:
            stale.append(name)
    if stale:
        sys.stderr.write(f"stale: {', '.join(stale)}; run python -m tests.vectors.make_own\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
