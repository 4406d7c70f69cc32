"""BFV encryption of masked vectors, by TenSEAL: sums are computed on ciphertexts and opened by whoever holds the key.

Numbers modulo the plaintext prime p are packed into the slots of ring elements, as many as the ring's degree N. Ciphertexts add
slot by slot modulo p, exactly, so modular masks of the plaintexts cancel in the sum. CKKS, TenSEAL's other scheme, is
approximate: masks would not cancel, and its decryptions give away the key (Li and Micciancio, ePrint 2020/1533). Exact
schemes have the same weakness where a decryption may fail (Cheon, Hong and Kim, ePrint 2024/127). So a plaintext leaves a
`DecryptionKey` only where it is certain to be exact, and nothing else about a ciphertext does, no noise and no phase.

**Parameters.** N = 8192, p of 60 bits with p = 1 mod 2 N, which slots need, and three coefficient moduli of 54 bits, the last of
which SEAL keeps for keys: q has 108 bits in ciphertexts. 162 bits are well within the 218 that the Homomorphic Encryption
Standard (2018) allows for 128-bit security at this degree. 60 bits are the most that SEAL takes for p: the grid of the sums is then
hardly coarser than modulo 2**64.

**Noise.** A ciphertext decrypts exactly while its invariant noise v, as the SEAL 2.3.1 manual defines it, is below 1/2: p / q times
the ciphertext's phase is the plaintext plus v, modulo p. Phases add, so noises add: n ciphertexts have at most n times the noise of
one. A fresh one has at most p / q times these terms: the errors of key and encryption, each coefficient within 21, times
ternary polynomials, 21 (2 N + 1) in all, which the switch from 162 to 108 bits divides by 2**54; that switch's rounding, (N + 1) / 2;
the rounding of the scaled plaintext, 1/2. Together less than 4098 p / q < 2**-35.9. A sum of 65,535 stays below 2**-19.9, with
certainty, not only with high probability: 18 bits are left.

**Wrong keys.** SEAL decrypts a ciphertext of another key to garbage without an error. Garbage has no noise budget left, and what
somebody altered hardly any: `DecryptionKey.decrypt` refuses whatever has less than all sums of 65,535 fresh inputs have.

**Bytes.** A ciphertext travels as its coefficients alone (`cohortsum.crypto.bfv_bytes`), so its size tells nothing and it has one encoding.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NoReturn, Self

import numpy as np

from cohortsum.crypto.bfv_bytes import (
    METADATA_BYTES,
    ciphertext_in,
    context_of,
    public_key_in,
    seal_content,
    seal_object,
    vector_of,
)
from cohortsum.crypto.encoding import encode, number
from cohortsum.crypto.errors import CryptoError, PublicKeyError
from cohortsum.crypto.masks import WORD_BYTES, Vector
from cohortsum.crypto.tenseal_seam import LIBRARY_ERRORS, Context, EncryptedVector, library

PRIME = 1_152_921_504_606_830_593
"""The plaintext prime of two-key mode: the greatest below 2**60 that is 1 modulo 16384."""

MOST_INPUTS = 65_535
"""Inputs of a sum that decrypts with certainty."""

SECURE_BITS = {1024: 27, 2048: 54, 4096: 109, 8192: 218, 16384: 438, 32768: 881}
"""Greatest size of all coefficient moduli for 128-bit security, by ring degree (Homomorphic Encryption Standard, table 1)."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of the encryption; the same at every site, the coordinator and the trustee.

    Attributes:
        ring_degree: numbers per ciphertext.
        modulus: the prime p that plaintexts are residues of.
        coefficient_bits: sizes of the coefficient moduli; the last is for keys alone.

    Raises:
        ValueError: if they are not secure, or have no slots.
    """

    ring_degree: int
    modulus: int
    coefficient_bits: tuple[int, ...]

    def __post_init__(self) -> None:
        if (
            sum(self.coefficient_bits) > SECURE_BITS.get(self.ring_degree, 0)
            or len(self.coefficient_bits) < 2
        ):
            raise ValueError(
                "two or more coefficient moduli, within what 128-bit security allows at the degree"
            )
        if self.modulus % (2 * self.ring_degree) != 1:
            raise ValueError("slots need a prime modulus that is 1 modulo twice the ring degree")

    @property
    def frame_bytes(self) -> int:
        """Size of one framed ciphertext: two polynomials over all coefficient moduli but the last, a word per coefficient."""
        return 2 * (len(self.coefficient_bits) - 1) * self.ring_degree * WORD_BYTES

    @property
    def key_bytes(self) -> int:
        """Size of a public key's coefficients: two polynomials over all coefficient moduli."""
        return 2 * len(self.coefficient_bits) * self.ring_degree * WORD_BYTES

    @property
    def most_key_bytes(self) -> int:
        """Greatest size of a public key with its parameters: zstd makes n bytes no longer than n + n / 256 and 64 more."""
        return self.key_bytes + self.key_bytes // 256 + 1024

    @property
    def least_budget(self) -> int:
        """Bits of noise budget that every sum of up to 65,535 fresh ciphertexts has left, by the bound in this module's text."""
        fresh = self.modulus.bit_length() + (self.ring_degree // 2 + 2).bit_length()
        return max(1, sum(self.coefficient_bits[:-1]) - 2 - fresh - MOST_INPUTS.bit_length())

    def ciphertexts(self, length: int) -> int:
        """Return how many ciphertexts hold ``length`` numbers."""
        return -(-length // self.ring_degree)

    def words(self, length: int) -> int:
        """Return how many uint64 words the framed ciphertexts of ``length`` numbers have."""
        return self.ciphertexts(length) * self.frame_bytes // WORD_BYTES

    def frames(self, words: Vector) -> Iterator[Vector]:
        """Yield the framed ciphertexts of an input, as views; the last may be cut short."""
        size = self.frame_bytes // WORD_BYTES
        for begin in range(0, len(words), size):
            yield words[begin : begin + size]

    def encode(self) -> bytes:
        """Return the parameters as canonical bytes, for digests."""
        return encode(
            b"cohortsum/v1/bfv",
            number(self.ring_degree),
            number(self.modulus),
            *(number(bits) for bits in self.coefficient_bits),
        )


STANDARD = Parameters(8192, PRIME, (54, 54, 54))
"""The parameters of two-key mode."""


@dataclass(frozen=True, slots=True, eq=False)
class EncryptionKey:
    """The public key of one round, checked: encrypts, and adds up what was encrypted under it."""

    parameters: Parameters
    _context: Context = field(repr=False)

    @classmethod
    def from_bytes(cls, data: bytes, parameters: Parameters) -> Self:
        """Return the key that a trustee sent.

        Raises:
            PublicKeyError: if it is malformed, has other parameters or another scheme, or carries a secret, Galois or
                relinearisation key. Bytes are bounded before they are parsed.
            ConfigurationError: where TenSEAL is not installed.
        """
        if len(data) > parameters.most_key_bytes:
            raise PublicKeyError(
                f"the trustee's key: at most {parameters.most_key_bytes} bytes, got {len(data)}; a public key is shared "
                "without secret, Galois and relinearisation keys"
            )
        written, public_key = public_key_in(data)
        try:
            _check_parameters(library().context_from(context_of(written), n_threads=1), parameters)
            form = _form(parameters)
            content = seal_content(public_key, METADATA_BYTES + parameters.key_bytes)
            if content is None or content[:METADATA_BYTES] != form.of_key:
                raise PublicKeyError("the trustee's key: expected a public key of these parameters")
            whole = context_of(written, seal_object(form.version, content))
            context = library().context_from(whole, n_threads=1)
            alone = context.has_public_key() and not (
                context.has_secret_key() or context.has_galois_keys() or context.has_relin_keys()
            )
        except LIBRARY_ERRORS:
            raise PublicKeyError("the trustee's key: TenSEAL cannot read it; make it anew") from None
        if not alone:
            raise PublicKeyError("the trustee's key: expected a public key alone")
        return cls(parameters, context)

    def encrypt(self, residues: Vector) -> Vector:
        """Return the framed ciphertexts of residues modulo p.

        Args:
            residues: (length,) uint64, each below p. BFV would reduce others silently.

        Returns:
            (``parameters.words(length)``,) uint64.

        Raises:
            ValueError: for another dtype or shape, or a number that is no residue.
        """
        if residues.dtype != np.uint64 or residues.ndim != 1:
            raise ValueError("a one-dimensional uint64 vector is encrypted")
        if len(residues) and residues.max() >= self.parameters.modulus:
            raise ValueError("residues are encrypted: every word is less than the plaintext modulus")
        tenseal, degree = library(), self.parameters.ring_degree
        frames: list[bytes] = []
        for place in range(self.parameters.ciphertexts(len(residues))):
            slots = np.zeros(degree, dtype=np.int64)  # full, or TenSEAL would fill up with repetitions
            part = residues[place * degree : (place + 1) * degree]
            slots[: len(part)] = part
            slots[slots > self.parameters.modulus // 2] -= self.parameters.modulus
            plain = tenseal.plain_tensor(slots, dtype="int")
            frames.append(_frame(tenseal.bfv_vector(self._context, plain), self.parameters))
        return _words(b"".join(frames))

    def check(self, frame: Vector, what: str = "a ciphertext") -> None:
        """Check one framed ciphertext, as it arrives; raises CryptoError if it could not be added to a sum."""
        _load(self._context, self.parameters, frame, what)

    def sum(self, length: int) -> "CiphertextSum":
        """Return an empty sum of encrypted vectors of ``length`` numbers."""
        return CiphertextSum(self._context, self.parameters, length)


class CiphertextSum:
    """A sum of encrypted vectors that grows input by input; holds one accumulated vector of ciphertexts."""

    __slots__ = ("_context", "_inputs", "_parameters", "_places", "_sums")

    def __init__(self, context: Context, parameters: Parameters, length: int) -> None:
        self._context, self._parameters = context, parameters
        self._places = parameters.ciphertexts(length)
        self._sums: list[EncryptedVector] = []
        self._inputs: int | None = 0

    def add(self, frames: Iterable[Vector]) -> None:
        """Add one input, given as its framed ciphertexts in their order, which may come one by one from disk.

        Raises:
            CryptoError: if the input has another number of ciphertexts or one is malformed. Its first ciphertexts are then
                in the sum already, so the sum is spoilt: it takes and gives nothing more. Inputs are checked on arrival
                (`EncryptionKey.check`).
            ValueError: if the sum is spoilt.
        """
        inputs, self._inputs = self._taking(), None
        place = -1
        for place, frame in enumerate(frames):
            what = f"ciphertext {place} of an input"
            if place >= self._places:
                raise CryptoError(f"{what}: an input has {self._places} ciphertexts")
            loaded = _load(self._context, self._parameters, frame, what)
            if inputs == 0:
                self._sums.append(loaded)
                continue
            try:
                self._sums[place].add_(loaded)
            except LIBRARY_ERRORS:
                raise CryptoError(f"{what}: cannot be added to those of the other inputs") from None
        if place + 1 != self._places:
            raise CryptoError(f"an input has {self._places} ciphertexts, got {place + 1}")
        self._inputs = inputs + 1

    def framed(self) -> Iterator[Vector]:
        """Yield the framed ciphertexts of the sum; raises ValueError without inputs or if the sum is spoilt."""
        if not self._taking():
            raise ValueError("a sum needs at least one input")
        for total in self._sums:
            yield _words(_frame(total, self._parameters))

    def _taking(self) -> int:
        if self._inputs is None:
            raise ValueError("this sum is spoilt: an input was refused halfway; start again without it")
        return self._inputs


class DecryptionKey:
    """The secret key of one round, which only a trustee holds. It is never pickled, and its repr shows nothing.

    `wipe` lets go of it. SEAL keeps secret keys in memory of its own that it overwrites when the last reference goes, which
    TenSEAL does not hold back; Python can neither check that, nor erase copies that the system made (swap, core dumps).
    """

    __slots__ = ("_context", "parameters", "public")

    def __init__(self, context: Context, parameters: Parameters, public: bytes) -> None:
        self._context: Context | None = context
        self.parameters, self.public = parameters, public

    @classmethod
    def draw(cls, parameters: Parameters) -> Self:
        """Return a fresh key. Its ``public`` part, for `EncryptionKey.from_bytes`, has been read back.

        Raises:
            ConfigurationError: where TenSEAL is not installed.
        """
        context = _context(parameters)
        public = _public(context)
        EncryptionKey.from_bytes(public, parameters)
        return cls(context, parameters, public)

    def decrypt(self, words: Vector, length: int) -> Vector:
        """Return the ``length`` residues in [0, p) that framed ciphertexts hold, exactly.

        Raises:
            CryptoError: for another number of ciphertexts than ``length`` numbers need, a malformed one, or one that does not
                decrypt with certainty: of another key, or with more noise than sums of fresh ones have.
            ValueError: once wiped.
        """
        if self._context is None:
            raise ValueError("this decryption key has been wiped")
        if len(words) != self.parameters.words(length):
            raise CryptoError(
                f"a sum of {length} numbers has {self.parameters.words(length)} words, got {len(words)}"
            )
        degree, decryptor = self.parameters.ring_degree, self._context.decryptor().data
        slots = np.empty(self.parameters.ciphertexts(length) * degree, dtype=np.int64)
        for place, frame in enumerate(self.parameters.frames(words)):
            what = f"ciphertext {place} of the sum"
            loaded = _load(self._context, self.parameters, frame, what)
            if decryptor.invariant_noise_budget(loaded.ciphertext()[0]) < self.parameters.least_budget:
                raise CryptoError(f"{what}: made under another key, or no sum of freshly encrypted inputs")
            slots[place * degree : (place + 1) * degree] = np.fromiter(loaded.decrypt(), np.int64, degree)
        slots[slots < 0] += self.parameters.modulus
        return slots[:length].astype(np.uint64)

    def wipe(self) -> None:
        """Let go of the secret key; the public part stays."""
        self._context = None

    def __repr__(self) -> str:
        return f"<decryption key of one round{', wiped' if self._context is None else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a decryption key is never pickled or copied")


def _context(parameters: Parameters) -> Context:
    tenseal = library()
    bits = list(parameters.coefficient_bits)
    return tenseal.context(
        tenseal.SCHEME_TYPE.BFV, parameters.ring_degree, parameters.modulus, bits, n_threads=1
    )


@dataclass(frozen=True, slots=True)
class _Form:
    """What SEAL writes around coefficients, the same for all ciphertexts and keys of the same parameters.

    Attributes:
        ids: SEAL's digests of all parameters, for ciphertexts and for keys.
        version: the header of an object.
        of_ciphertext: metadata before the coefficients of a ciphertext.
        of_key: metadata before those of a public key.
    """

    ids: tuple[list[int], list[int]]
    version: bytes
    of_ciphertext: bytes
    of_key: bytes


@cache
def _form(parameters: Parameters) -> _Form:
    """Return the form, read off a key and a ciphertext made here for the purpose; raises CryptoError for another TenSEAL's."""
    context = _context(parameters)
    zeros = library().plain_tensor(np.zeros(parameters.ring_degree, dtype=np.int64), dtype="int")
    vector = library().bfv_vector(context, zeros).serialize()
    ciphertext = ciphertext_in(vector, parameters.ring_degree) or b""
    _, public_key = public_key_in(_public(context))
    made = seal_content(ciphertext, METADATA_BYTES + parameters.frame_bytes)
    key = seal_content(public_key, METADATA_BYTES + parameters.key_bytes)
    if made is None or key is None:
        raise CryptoError(
            "this version of TenSEAL writes ciphertexts in another form; install the version tested"
        )
    return _Form(_ids(context), ciphertext[:8], made[:METADATA_BYTES], key[:METADATA_BYTES])


def _ids(context: Context) -> tuple[list[int], list[int]]:
    seal = context.seal_context().data
    return seal.first_parms_id(), seal.key_parms_id()


def _public(context: Context) -> bytes:
    return context.serialize(
        save_public_key=True, save_secret_key=False, save_galois_keys=False, save_relin_keys=False
    )


def _check_parameters(context: Context, parameters: Parameters) -> None:
    """Raise PublicKeyError for a context of other parameters, with the first that differs."""
    seal = context.seal_context().data
    held = seal.key_context_data().parms()
    scheme, degree, modulus = held.scheme().name, held.poly_modulus_degree(), held.plain_modulus().value()
    if scheme == "CKKS":
        raise PublicKeyError(
            "the trustee's key: scheme CKKS is approximate, so masks modulo p would not cancel; expected BFV"
        )
    if scheme != "BFV":
        raise PublicKeyError("the trustee's key: expected scheme BFV")
    if degree != parameters.ring_degree:
        raise PublicKeyError(
            f"the trustee's key: expected ring degree {parameters.ring_degree}, got {degree}"
        )
    if modulus != parameters.modulus:
        raise PublicKeyError(f"the trustee's key: expected plain modulus {parameters.modulus}, got {modulus}")
    if _ids(context) != _form(parameters).ids:
        raise PublicKeyError(
            f"the trustee's key: expected coefficient moduli of {list(parameters.coefficient_bits)} bits, as TenSEAL chooses them"
        )


def _frame(vector: EncryptedVector, parameters: Parameters) -> bytes:
    """Return the coefficients of a ciphertext made here; raises CryptoError if TenSEAL wrote it in another form."""
    seal = ciphertext_in(vector.serialize(), parameters.ring_degree)
    content = None if seal is None else seal_content(seal, METADATA_BYTES + parameters.frame_bytes)
    if content is None or content[:METADATA_BYTES] != _form(parameters).of_ciphertext:
        raise CryptoError("a ciphertext made here: TenSEAL wrote it in another form than others expect")
    return content[METADATA_BYTES:]


def _words(frames: bytes) -> Vector:
    return np.frombuffer(frames, dtype="<u8").astype(np.uint64)


def _load(context: Context, parameters: Parameters, frame: Vector, what: str) -> EncryptedVector:
    """Return the ciphertext with these coefficients; raises CryptoError unless encryption or addition could have made it."""
    if frame.dtype != np.uint64 or frame.ndim != 1 or frame.nbytes != parameters.frame_bytes:
        raise CryptoError(f"{what}: expected a frame of {parameters.frame_bytes // WORD_BYTES} words")
    form = _form(parameters)
    seal = seal_object(form.version, form.of_ciphertext, frame.astype("<u8", copy=False).tobytes())
    try:
        loaded = library().bfv_vector_from(context, vector_of(seal, parameters.ring_degree))
        transparent = loaded.ciphertext()[0].is_transparent()
    except LIBRARY_ERRORS:
        raise CryptoError(f"{what}: its coefficients are not those of a ciphertext of the round") from None
    if transparent:
        raise CryptoError(f"{what}: its second polynomial is zero, so everybody could read it")
    return loaded
