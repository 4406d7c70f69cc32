"""Every error that cohortsum raises on purpose, in one tree.

::

    CohortsumError                  never raised itself
    ├── ConfigurationError          a file a person wrote: names file, field, cure
    │   ├── StudyFileError          the study definition
    │   │   └── ExpressionError     a `derive`, `include` or `where` expression
    │   └── NotInThisVersionError   asked for by name, known, not built yet
    ├── CryptoError
    │   ├── AuthenticationError     a signature, seal, commitment or certificate is not genuine; never says which
    │   ├── PublicKeyError          a public key is malformed, not canonical or of low order
    │   └── ShareError              shares cannot be combined
    ├── ProtocolError               carries the name of the check, for example R2.4
    │   ├── LocalProtocolError      our own caller is wrong: fix it
    │   └── RemoteProtocolError     a peer is wrong: stop trusting what it sent
    ├── NotTakingPartError          this site stays out; the reason stays in its own log
    │   ├── DataError               a table, column or value at this site
    │   └── PolicyError             this site's policy does not allow it
    ├── StoreError                  a durable log or store refuses a write
    │   └── FencedError             another coordinator has taken over: this one may write nothing
    ├── RefusedError                what a caller asks for is refused; the sentence is written for that caller
    ├── LimitError                  a caller asks for more than its share; the sentence is written for that caller
    ├── LineError                   the other end did not answer for as long as one was ready to wait
    └── RoundFailedError            a round or study ended without a result

Local and remote faults are different classes: one means fix, the other means stop trusting. Messages name what happened,
to whom, what was expected and the cure; never a data value, key, share or seed.
"""

from typing import NoReturn


class CohortsumError(Exception):
    """Base of every error raised on purpose; refuses to be raised itself."""

    def __init__(self, message: str) -> None:
        if type(self) is CohortsumError:
            raise TypeError("raise one of CohortsumError's subclasses, not the base itself")
        super().__init__(message)
        self.message = message


class ConfigurationError(CohortsumError):
    """A file a person wrote cannot be used; the message names file, field, expectation and cure."""


class StudyFileError(ConfigurationError):
    """The study definition cannot be used."""


class ExpressionError(StudyFileError):
    """An expression lies outside the closed grammar or names something unknown."""


class NotInThisVersionError(ConfigurationError):
    """A known feature that this version does not have; refused by name, never ignored."""

    def __init__(self, feature: str, cure: str) -> None:
        super().__init__(f"{feature}: not in this version; {cure}")
        self.feature = feature


class CryptoError(CohortsumError):
    """A cryptographic operation failed."""


class AuthenticationError(CryptoError):
    """Something is not genuine. One class and one sentence for every cause, so that nothing is learned from it."""

    def __init__(self, message: str = "authentication failed") -> None:
        super().__init__(message)


class PublicKeyError(CryptoError):
    """A public key is malformed, not canonical, of low order, or repeated."""


class ShareError(CryptoError):
    """Shares cannot be combined into the secret they were cut from."""


class ProtocolError(CohortsumError):
    """A rule of the round is broken; ``check`` is its stable name, for tests and audit lines."""

    def __init__(self, check: str, message: str) -> None:
        if type(self) is ProtocolError:
            raise TypeError("raise LocalProtocolError or RemoteProtocolError")
        super().__init__(f"{check}: {message}")
        self.check = check


class LocalProtocolError(ProtocolError):
    """Our own caller broke the rule: a bug or a wrong order of calls."""


class RemoteProtocolError(ProtocolError):
    """A peer broke the rule: what it sent is refused and its site or the coordinator is no longer trusted.

    ``accused`` is the id of the site whose signed message proves it, where one does.
    """

    def __init__(self, check: str, message: str, accused: str = "") -> None:
        super().__init__(check, message)
        self.accused = accused


class NotTakingPartError(CohortsumError):
    """This site stays out of a study; only ``not taking part`` leaves it."""


class DataError(NotTakingPartError):
    """A table, column or value at this site cannot be used."""


class PolicyError(NotTakingPartError):
    """This site's policy does not allow what the study asks for."""


class StoreError(CohortsumError):
    """A durable log or store cannot take a write, or holds something that contradicts it."""


class FencedError(StoreError):
    """Another coordinator process has taken over the store: this one may write nothing any more."""


class RefusedError(CohortsumError):
    """What a caller asks for is refused. The sentence goes to the caller: nothing of this machine stands in it."""


class LimitError(CohortsumError):
    """A caller asks for more than its share of memory, disk or time. The sentence goes to the caller.

    Attributes:
        limit: which limit, one of a fixed few names.
        retry_after_s: seconds after which the same call may be taken; None where it never is.
    """

    def __init__(self, message: str, limit: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.limit, self.retry_after_s = limit, retry_after_s


class LineError(CohortsumError):
    """The other end did not answer for as long as one was ready to wait."""


class RoundFailedError(CohortsumError):
    """A round or study ended without a result; there is no partial output."""


def cannot_be_read(name: str, error: OSError) -> str:
    """Return the sentence about a file that the operating system does not hand out; its path beyond ``name`` stays here."""
    return f"{name}: cannot be read ({error.strerror}); check path and rights"


def refuse(feature: str, cure: str) -> NoReturn:
    """Refuse by name a known feature that this version does not have."""
    raise NotInThisVersionError(feature, cure)
