"""What SEAL 4.3 and TenSEAL write around the coefficients of a ciphertext, written down for tests, without the product's code."""

from cohortsum.crypto.bfv import STANDARD, Parameters
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.tenseal_seam import Context, EncryptedVector, library

MAGIC = bytes.fromhex("5ea1100403000000")
"""Magic, size of a header, version, no compression, and two bytes that nothing uses."""
ONE = bytes.fromhex("000000000000f03f")
"""The scale of BFV's ciphertexts, 1.0."""


def words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def saved(content: bytes) -> bytes:
    """Return an object of SEAL."""
    return MAGIC + words(16 + len(content)) + content


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def ciphertext(context: Context, coefficients: Vector, size: int, parameters: Parameters = STANDARD) -> bytes:
    """Return SEAL's ciphertext that says it has ``size`` polynomials, with any array of coefficients."""
    moduli = len(parameters.coefficient_bits) - 1
    ids = context.seal_context().data.first_parms_id()
    head = words(*ids) + b"\x00" + words(size, parameters.ring_degree, moduli) + ONE + words(1)
    return saved(head + saved(words(len(coefficients)) + coefficients.astype("<u8").tobytes()))


def message(seal: bytes, slots: int = STANDARD.ring_degree) -> bytes:
    """Return TenSEAL's message of a vector in one ciphertext."""
    sizes = varint(slots)
    return b"\x0a" + varint(len(sizes)) + sizes + b"\x12" + varint(len(seal)) + seal


def vector_of_frame(context: Context, frame: Vector, parameters: Parameters = STANDARD) -> EncryptedVector:
    """Return a framed ciphertext as TenSEAL's vector, linked with a context of any keys."""
    whole = message(ciphertext(context, frame, 2, parameters), parameters.ring_degree)
    return library().bfv_vector_from(context, whole)
