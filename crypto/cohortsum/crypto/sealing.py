"""ChaCha20-Poly1305 (RFC 8439) with a derived key and nonce, used for exactly one plaintext.

Key and nonce are 44 bytes from HKDF over (context, sender, receiver, purpose). Because they are never used for a second
plaintext, the nonce needs no counter and no randomness; a retry resends the kept ciphertext.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from cohortsum.crypto.errors import AuthenticationError
from cohortsum.crypto.secret import SecretBytes

KEY_AND_NONCE_BYTES = 44
OVERHEAD_BYTES = 16


def seal(key_and_nonce: SecretBytes, plaintext: bytes, associated: bytes) -> bytes:
    """Return the ciphertext, 16 bytes longer than ``plaintext``; ``associated`` is authenticated, not hidden."""
    key, nonce = _parts(key_and_nonce)
    return key.encrypt(nonce, plaintext, associated)


def unseal(key_and_nonce: SecretBytes, ciphertext: bytes, associated: bytes) -> bytes:
    """Return the plaintext; raises AuthenticationError whatever is wrong."""
    key, nonce = _parts(key_and_nonce)
    try:
        return key.decrypt(nonce, ciphertext, associated)
    except InvalidTag as error:
        raise AuthenticationError from error


def _parts(key_and_nonce: SecretBytes) -> tuple[ChaCha20Poly1305, bytes]:
    raw = key_and_nonce.reveal()
    if len(raw) != KEY_AND_NONCE_BYTES:
        raise ValueError(f"sealing needs {KEY_AND_NONCE_BYTES} derived bytes, got {len(raw)}")
    return ChaCha20Poly1305(raw[:32]), raw[32:]
