"""What cohortsum uses of TenSEAL, with types: the one place that imports it.

TenSEAL ships no type information, and not every Python has a wheel of it. It is imported when two_key mode first needs it, so
that everything else runs without, and it is seen through the protocols below, which name the few calls that are made.

TenSEAL wraps Microsoft SEAL. SEAL draws keys and noise itself, from a generator that the operating system seeds; there is
no seam for randomness.
"""

import ctypes
import importlib
import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import ConfigurationError

LIBRARY_ERRORS = (ValueError, RuntimeError, IndexError, OverflowError, MemoryError)
"""What the exceptions of C++ become that TenSEAL raises for bytes it does not take."""


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
    def parms_id(self) -> list[int]: ...  # noqa: D102
    def is_ntt_form(self) -> bool: ...  # noqa: D102
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

    Python has no zstd before 3.14. SEAL's own is used, which TenSEAL's extension module holds: it writes into a buffer of
    ``size`` bytes and never beyond.

    Raises:
        ConfigurationError: where TenSEAL is not installed, or is a build that keeps its zstd to itself.
    """
    buffer = (ctypes.c_char * size)()
    return buffer.raw if _zstd()(buffer, size, data, len(data)) == size else None


@cache
def _zstd() -> Callable[[ctypes.Array[ctypes.c_char], int, bytes, int], int]:
    library()
    for name in ("_tenseal_cpp", "tenseal._tenseal_cpp"):
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            continue
        function = getattr(ctypes.CDLL(found.origin), "ZSTD_decompress", None)
        if function is not None:
            function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
            function.restype = ctypes.c_size_t
            return cast(Callable[[ctypes.Array[ctypes.c_char], int, bytes, int], int], function)
    raise ConfigurationError(
        "protection.mode two_key: this build of tenseal does not offer the zstd in it; install the wheel of PyPI, "
        "or write mode: masking"
    )
