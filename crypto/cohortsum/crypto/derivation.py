"""Keys from secrets: HKDF-SHA256 (RFC 5869) with the whole context in salt and info.

The salt is the round's context hash, which covers roster, study, round, iteration, attempt, epoch and public inputs; the
info names the purpose and everybody concerned. Two parties that were told different stories derive different keys.
"""

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from cohortsum.crypto.encoding import encode
from cohortsum.crypto.secret import SecretBytes

CHANNEL = "cohortsum/v1/chan"
MASK_KEY = "cohortsum/v1/mask/key"
PAIR_MASK = {"gate": "cohortsum/v1/mask/gate", "data": "cohortsum/v1/mask/data"}
SELF_MASK = {"gate": "cohortsum/v1/self/gate", "data": "cohortsum/v1/self/data"}
AUDIT = {
    "key": "cohortsum/v1/audit/key",
    "words": "cohortsum/v1/audit/words",
    "seeds": "cohortsum/v1/audit/seeds",
}
COMMITTEE = {
    "key": "cohortsum/v1/committee/key",
    "deal": "cohortsum/v1/committee/deal",
    "frame": "cohortsum/v1/committee/frame",
}


def derive(secret: SecretBytes, context: bytes, label: str, *info: bytes, size: int = 32) -> SecretBytes:
    """Return ``size`` bytes derived from ``secret`` for one purpose.

    Args:
        secret: input keying material; uniform or a Diffie-Hellman output.
        context: the salt, 32 bytes.
        label: the purpose, one of this module's.
        info: everything else the key must depend on, length-prefixed.
        size: 32 for a key, 44 for a ChaCha20-Poly1305 key and nonce.
    """
    hkdf = HKDF(hashes.SHA256(), size, context, encode(label.encode("ascii"), *info))
    return SecretBytes(hkdf.derive(secret.reveal()), label)
