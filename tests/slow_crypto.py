"""Slow cryptography that is obviously right: each primitive read off its standard, on Python integers.

These are oracles for tests, made without looking at the product and sharing no code with it. They take
secret-dependent time and keep nothing secret. Nothing but tests may import them. Arguments have the lengths
the standards name; a wrong length fails an assertion, a wrong tag or signature gives None or False.

* X25519 (RFC 7748 section 5), HKDF-SHA256 (RFC 5869 section 2), ChaCha20-Poly1305 (RFC 8439 section 2)
* AES-256 (FIPS 197 section 5) in counter mode (SP 800-38A section 6.5), Ed25519 (RFC 8032 section 5.1)
* Shamir sharing over 2^255 - 19 by Lagrange's formula, and mask expansion
"""

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice

P = 2**255 - 19
"""The prime of Curve25519, and the field of shares."""

# X25519


def x25519(scalar: bytes, u: bytes) -> bytes:
    """RFC 7748 section 5: the Montgomery ladder on 32-byte strings; the top bit of ``u`` is ignored."""
    assert len(scalar) == len(u) == 32
    k = int.from_bytes(scalar, "little")
    k = k & ~7 & ~(1 << 255) | 1 << 254
    x1 = int.from_bytes(u, "little") % 2**255 % P
    x2, z2, x3, z3 = 1, 0, x1, 1
    for bit in reversed(range(255)):
        swap = k >> bit & 1
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a % P, c * b % P
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        e = aa - bb
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def x25519_public(scalar: bytes) -> bytes:
    """The public key of ``scalar``: times the base point u = 9."""
    return x25519(scalar, (9).to_bytes(32, "little"))


# HKDF-SHA256


def hkdf_extract(salt: bytes, secret: bytes) -> bytes:
    """RFC 5869 section 2.2; an empty salt is 32 zero bytes."""
    return hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()


def hkdf_expand(key: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 section 2.3."""
    assert length <= 255 * 32
    output, block = b"", b""
    for number in range(1, -(-length // 32) + 1):
        block = hmac.new(key, block + info + bytes([number]), hashlib.sha256).digest()
        output += block
    return output[:length]


def hkdf(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869: extract, then expand."""
    return hkdf_expand(hkdf_extract(salt, secret), info, length)


# ChaCha20-Poly1305


def _rotate32(value: int, left: int) -> int:
    return (value << left | value >> (32 - left)) & 0xFFFFFFFF


def _quarter_round(state: list[int], a: int, b: int, c: int, d: int) -> None:
    for target, other, mixed, left in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[target] = (state[target] + state[other]) & 0xFFFFFFFF
        state[mixed] = _rotate32(state[mixed] ^ state[target], left)


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """RFC 8439 section 2.3: 64 bytes of key stream."""
    assert (len(key), len(nonce)) == (32, 12)
    text = b"expand 32-byte k" + key + counter.to_bytes(4, "little") + nonce
    start = [int.from_bytes(text[at : at + 4], "little") for at in range(0, 64, 4)]
    state = list(start)
    for _ in range(10):
        for column in range(4):
            _quarter_round(state, column, 4 + column, 8 + column, 12 + column)
        for diagonal in range(4):
            _quarter_round(
                state, diagonal, 4 + (diagonal + 1) % 4, 8 + (diagonal + 2) % 4, 12 + (diagonal + 3) % 4
            )
    return b"".join(((x + y) & 0xFFFFFFFF).to_bytes(4, "little") for x, y in zip(state, start, strict=True))


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(left, right, strict=False))


def chacha20(key: bytes, counter: int, nonce: bytes, text: bytes) -> bytes:
    """RFC 8439 section 2.4: encrypt or decrypt."""
    blocks = -(-len(text) // 64)
    return _xor(text, b"".join(chacha20_block(key, counter + i, nonce) for i in range(blocks)))


def poly1305(key: bytes, message: bytes) -> bytes:
    """RFC 8439 section 2.5: a one-time tag of 16 bytes."""
    assert len(key) == 32
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(message), 16):
        total = (total + int.from_bytes(message[at : at + 16] + b"\1", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


def _aead_tag(key: bytes, nonce: bytes, ciphertext: bytes, associated: bytes) -> bytes:
    padded = b"".join(part + bytes(-len(part) % 16) for part in (associated, ciphertext))
    lengths = len(associated).to_bytes(8, "little") + len(ciphertext).to_bytes(8, "little")
    return poly1305(chacha20_block(key, 0, nonce)[:32], padded + lengths)


def chacha20_poly1305_seal(key: bytes, nonce: bytes, plaintext: bytes, associated: bytes) -> bytes:
    """RFC 8439 section 2.8: ciphertext, then the tag of 16 bytes."""
    ciphertext = chacha20(key, 1, nonce, plaintext)
    return ciphertext + _aead_tag(key, nonce, ciphertext, associated)


def chacha20_poly1305_open(key: bytes, nonce: bytes, sealed: bytes, associated: bytes) -> bytes | None:
    """RFC 8439 section 2.8: the plaintext, or None if the tag is wrong."""
    ciphertext, tag = sealed[:-16], sealed[-16:]
    if _aead_tag(key, nonce, ciphertext, associated) != tag:
        return None
    return chacha20(key, 1, nonce, ciphertext)


# AES-256 in counter mode


def _times(x: int, y: int) -> int:
    """FIPS 197 section 4.2: multiply in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1."""
    product = 0
    while y:
        product ^= x if y & 1 else 0
        x = x << 1 ^ (0x11B if x & 0x80 else 0)
        y >>= 1
    return product


def _substitute(x: int) -> int:
    """FIPS 197 section 5.1.1: the inverse (0 for 0), then the affine map."""
    inverse = next((y for y in range(256) if _times(x, y) == 1), 0)
    result = 0x63
    for turn in range(5):
        result ^= (inverse << turn | inverse >> (8 - turn)) & 0xFF
    return result


_S_BOX = [_substitute(x) for x in range(256)]
_MIX = {factor: [_times(factor, x) for x in range(256)] for factor in (1, 2, 3)}


def _aes256_round_keys(key: bytes) -> list[bytes]:
    """FIPS 197 section 5.2 with Nk = 8: fifteen round keys."""
    assert len(key) == 32
    words = [key[at : at + 4] for at in range(0, 32, 4)]
    constant = 1
    for i in range(8, 60):
        word = words[i - 1]
        if i % 8 == 0:
            word = _xor(bytes(_S_BOX[b] for b in word[1:] + word[:1]), bytes([constant, 0, 0, 0]))
            constant = _times(constant, 2)
        elif i % 8 == 4:
            word = bytes(_S_BOX[b] for b in word)
        words.append(_xor(words[i - 8], word))
    return [b"".join(words[at : at + 4]) for at in range(0, 60, 4)]


def _aes_block(round_keys: Sequence[bytes], block: bytes) -> bytes:
    """FIPS 197 section 5.1; the state is held column by column, byte ``4 * column + row``."""
    state = _xor(block, round_keys[0])
    for number in range(1, len(round_keys)):
        state = bytes(_S_BOX[b] for b in state)
        state = bytes(state[4 * ((c + r) % 4) + r] for c in range(4) for r in range(4))
        if number < len(round_keys) - 1:
            columns = [state[at : at + 4] for at in range(0, 16, 4)]
            state = bytes(
                _MIX[2][s[r]] ^ _MIX[3][s[(r + 1) % 4]] ^ s[(r + 2) % 4] ^ s[(r + 3) % 4]
                for s in columns
                for r in range(4)
            )
        state = _xor(state, round_keys[number])
    return state


def aes256(key: bytes, block: bytes) -> bytes:
    """FIPS 197: encrypt one block of 16 bytes."""
    assert len(block) == 16
    return _aes_block(_aes256_round_keys(key), block)


def _counter_blocks(key: bytes, first: bytes) -> Iterator[bytes]:
    """SP 800-38A appendix B.1: the whole block is a big-endian counter modulo 2^128."""
    assert len(first) == 16
    round_keys = _aes256_round_keys(key)
    start = int.from_bytes(first, "big")
    for number in count():
        yield _aes_block(round_keys, ((start + number) % 2**128).to_bytes(16, "big"))


def aes256_ctr(key: bytes, first: bytes, text: bytes) -> bytes:
    """SP 800-38A section 6.5: encrypt or decrypt from the initial counter block ``first``."""
    blocks = islice(_counter_blocks(key, first), -(-len(text) // 16))
    return _xor(text, b"".join(blocks))


# Ed25519

_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, P) % P
_Point = tuple[int, int]


def _add(left: _Point, right: _Point) -> _Point:
    """RFC 8032 section 5.1: addition on -x^2 + y^2 = 1 + d x^2 y^2, in affine coordinates."""
    (x1, y1), (x2, y2) = left, right
    cross = _D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + cross, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - cross, -1, P) % P
    return x, y


def _multiply(scalar: int, point: _Point) -> _Point:
    result = (0, 1)
    for bit in bin(scalar)[2:]:
        result = _add(result, result)
        if bit == "1":
            result = _add(result, point)
    return result


def _encode(point: _Point) -> bytes:
    """RFC 8032 section 5.1.2: y, with the lowest bit of x on top."""
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _decode(text: bytes) -> _Point | None:
    """RFC 8032 section 5.1.3; None where decoding fails."""
    number = int.from_bytes(text, "little")
    y, sign = number % 2**255, number >> 255
    if y >= P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    return (x if x & 1 == sign else P - x), y


_BASE_Y = 4 * pow(5, -1, P) % P
_BASE = _decode(_BASE_Y.to_bytes(32, "little")) or (0, 1)


def _sha512(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def _ed25519_expand(secret: bytes) -> tuple[int, bytes]:
    assert len(secret) == 32
    digest = hashlib.sha512(secret).digest()
    scalar = int.from_bytes(digest[:32], "little")
    return scalar & ~7 & ~(1 << 255) | 1 << 254, digest[32:]


def ed25519_public(secret: bytes) -> bytes:
    """RFC 8032 section 5.1.5."""
    return _encode(_multiply(_ed25519_expand(secret)[0], _BASE))


def ed25519_sign(secret: bytes, message: bytes) -> bytes:
    """RFC 8032 section 5.1.6."""
    scalar, prefix = _ed25519_expand(secret)
    r = _sha512(prefix, message) % _L
    commitment = _encode(_multiply(r, _BASE))
    k = _sha512(commitment, ed25519_public(secret), message) % _L
    return commitment + ((r + k * scalar) % _L).to_bytes(32, "little")


def ed25519_verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """RFC 8032 section 5.1.7, the equation without the cofactor."""
    if (len(public), len(signature)) != (32, 64):
        return False
    key, commitment, s = _decode(public), _decode(signature[:32]), int.from_bytes(signature[32:], "little")
    if key is None or commitment is None or s >= _L:
        return False
    k = _sha512(signature[:32], public, message) % _L
    return _multiply(s, _BASE) == _add(commitment, _multiply(k, key))


# Shares


def shamir_split(coefficients: Sequence[int], points: Sequence[int]) -> dict[int, int]:
    """Return the shares of ``coefficients[0]``: the value of the polynomial at every point, modulo P."""
    return {x: sum(a * x**power for power, a in enumerate(coefficients)) % P for x in points}


def shamir_combine(shares: Mapping[int, int]) -> int:
    """Return the value at 0 of the polynomial of least degree through the shares, by Lagrange's formula."""
    total = 0
    for x, y in shares.items():
        above = below = 1
        for other in shares:
            if other != x:
                above *= other
                below *= other - x
        total += y * above * pow(below, -1, P)
    return total % P


# Masks


def mask_words(key: bytes, words: int) -> list[int]:
    """Return a mask: the AES-256-CTR key stream from a zero counter block as little-endian uint64."""
    stream = b"".join(islice(_counter_blocks(key, bytes(16)), -(-words // 2)))
    return [int.from_bytes(stream[8 * i : 8 * i + 8], "little") for i in range(words)]
