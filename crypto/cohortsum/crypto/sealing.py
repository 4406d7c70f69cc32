"""ChaCha20-Poly1305 (RFC 8439) with a derived key and nonce.

Key and nonce are 44 bytes from HKDF over (context, sender, receiver, purpose). Most are used for exactly one plaintext: then the nonce
needs no counter and no randomness; a retry resends the kept ciphertext. For a sequence of plaintexts the number of each is added to the
nonce bit by bit (as TLS 1.3 does, RFC 8446 section 5.3): no number may be used for a second plaintext.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from cohortsum.crypto.errors import AuthenticationError
from cohortsum.crypto.secret import SecretBytes

KEY_AND_NONCE_BYTES = 44
OVERHEAD_BYTES = 16


def seal(key_and_nonce: SecretBytes, plaintext: bytes, associated: bytes, number: int = 0) -> bytes:
    """Return the ciphertext, 16 bytes longer than ``plaintext``; ``associated`` is authenticated, not hidden."""
    key, nonce = _parts(key_and_nonce, number)
    return key.encrypt(nonce, plaintext, associated)


def unseal(key_and_nonce: SecretBytes, ciphertext: bytes, associated: bytes, number: int = 0) -> bytes:
    """Return the plaintext; raises AuthenticationError whatever is wrong."""
    key, nonce = _parts(key_and_nonce, number)
    try:
        return key.decrypt(nonce, ciphertext, associated)
    except InvalidTag as error:
        raise AuthenticationError from error


def _parts(key_and_nonce: SecretBytes, number: int) -> tuple[ChaCha20Poly1305, bytes]:
    raw = key_and_nonce.reveal()
    if len(raw) != KEY_AND_NONCE_BYTES:
        raise ValueError(f"sealing needs {KEY_AND_NONCE_BYTES} derived bytes, got {len(raw)}")
    if not 0 <= number < 2**64:
        raise ValueError("the number of a sealed message lies outside 64 bits")
    nonce = int.from_bytes(raw[32:], "big") ^ number
    return ChaCha20Poly1305(raw[:32]), nonce.to_bytes(KEY_AND_NONCE_BYTES - 32, "big")
