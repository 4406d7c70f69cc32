"""What cohortsum uses of TenSEAL, with types: the one place that imports it.

TenSEAL ships no type information, and not every Python has a wheel of it. It is imported when two_key mode first needs it, so
that everything else runs without, and it is seen through the protocols below, which name the few calls that are made.

TenSEAL wraps Microsoft SEAL. SEAL draws keys and noise itself, from a generator that the operating system seeds; there is
no seam for randomness.
"""

import importlib
import sys
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import ConfigurationError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIBRARY_ERRORS = (ValueError, RuntimeError, IndexError, OverflowError, MemoryError)
"""What the exceptions of C++ become that TenSEAL raises for bytes it does not take."""

WINDOW_BITS = 20
"""Of what is unfolded: SEAL's own objects have below a megabyte."""


class Named(Protocol):
    """A member of one of the library's enumerations."""

    @property
    def name(self) -> str: ...  # noqa: D102


class Modulus(Protocol):
    """A modulus of SEAL's parameters."""

    def value(self) -> int: ...  # noqa: D102


class SealParameters(Protocol):
    """Encryption parameters as SEAL holds them."""

    def scheme(self) -> Named: ...  # noqa: D102
    def poly_modulus_degree(self) -> int: ...  # noqa: D102
    def plain_modulus(self) -> Modulus: ...  # noqa: D102


class ContextData(Protocol):
    """Parameters at one level of the chain of moduli."""

    def parms(self) -> SealParameters: ...  # noqa: D102


class SealContext(Protocol):
    """Parameters that SEAL has checked; an id is a digest of all of them at one level."""

    def first_parms_id(self) -> list[int]: ...  # noqa: D102
    def key_parms_id(self) -> list[int]: ...  # noqa: D102
    def key_context_data(self) -> ContextData: ...  # noqa: D102


class Ciphertext(Protocol):
    """One ciphertext of SEAL."""

    def size(self) -> int: ...  # noqa: D102
    def is_transparent(self) -> bool: ...  # noqa: D102


class SealDecryptor(Protocol):
    """SEAL's decryptor, for the one thing that TenSEAL does not wrap."""

    def invariant_noise_budget(self, ciphertext: Ciphertext) -> int: ...  # noqa: D102


class HoldsContext(Protocol):
    """TenSEAL's wrapper of a context."""

    @property
    def data(self) -> SealContext: ...  # noqa: D102


class HoldsDecryptor(Protocol):
    """TenSEAL's wrapper of a decryptor."""

    @property
    def data(self) -> SealDecryptor: ...  # noqa: D102


class Context(Protocol):
    """Parameters and the keys that belong to them."""

    def serialize(  # noqa: D102
        self, save_public_key: bool, save_secret_key: bool, save_galois_keys: bool, save_relin_keys: bool
    ) -> bytes: ...
    def has_public_key(self) -> bool: ...  # noqa: D102
    def has_secret_key(self) -> bool: ...  # noqa: D102
    def has_galois_keys(self) -> bool: ...  # noqa: D102
    def has_relin_keys(self) -> bool: ...  # noqa: D102
    def seal_context(self) -> HoldsContext: ...  # noqa: D102
    def decryptor(self) -> HoldsDecryptor: ...  # noqa: D102


class EncryptedVector(Protocol):
    """A vector of TenSEAL: here always one ciphertext."""

    def serialize(self) -> bytes: ...  # noqa: D102
    def size(self) -> int: ...  # noqa: D102
    def ciphertext(self) -> list[Ciphertext]: ...  # noqa: D102
    def add_(self, other: "EncryptedVector") -> "EncryptedVector": ...  # noqa: D102
    def decrypt(self) -> list[int]: ...  # noqa: D102


class PlainTensor(Protocol):
    """Numbers on their way into a vector."""


class SchemeTypes(Protocol):
    """The schemes that TenSEAL has."""

    @property
    def BFV(self) -> Named: ...  # noqa: D102, N802  # the library's name


class Library(Protocol):
    """The module ``tenseal``."""

    @property
    def SCHEME_TYPE(self) -> SchemeTypes: ...  # noqa: D102, N802  # the library's name
    def context(  # noqa: D102
        self,
        scheme: Named,
        poly_modulus_degree: int,
        plain_modulus: int,
        coeff_mod_bit_sizes: list[int],
        *,
        n_threads: int,
    ) -> Context: ...
    def context_from(self, data: bytes, n_threads: int) -> Context: ...  # noqa: D102
    def plain_tensor(self, tensor: NDArray[np.int64], *, dtype: str) -> PlainTensor: ...  # noqa: D102
    def bfv_vector(self, context: Context, vector: PlainTensor | list[int]) -> EncryptedVector: ...  # noqa: D102
    def bfv_vector_from(self, context: Context, data: bytes) -> EncryptedVector: ...  # noqa: D102


def library() -> Library:
    """Return TenSEAL; raises ConfigurationError where it is not installed."""
    try:
        importlib.import_module("tenseal.sealapi")  # knows the types of SEAL that contexts are asked for
        return cast(Library, importlib.import_module("tenseal"))
    except ImportError:
        raise ConfigurationError(
            "protection.mode two_key: needs the package tenseal, which this Python does not have; "
            "run `pip install tenseal` with a Python that has wheels of it (3.11 to 3.14), or write mode: masking"
        ) from None


def decompressed(data: bytes, size: int) -> bytes | None:
    """Return the ``size`` bytes that zstd unfolds ``data`` to; None if they unfold to another number, or to none.

    No more than one byte beyond ``size`` is unfolded, and a window of more than 2**`WINDOW_BITS` bytes is refused.
    """
    unfolding = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_BITS})
    try:
        held = unfolding.decompress(data, size + 1)
    except zstd.ZstdError:
        return None
    whole = unfolding.eof and not unfolding.unused_data
    return held if whole and len(held) == size else None
