"""A signed decision about one item of a release: one table, with the figures drawn from it.

The signature covers the digest of the item's content, so it is about these very numbers: whatever changes afterwards carries no
signature. Signed with Ed25519 under a label of its own, over length-prefixed fields (`crypto.signing`).
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from cohortsum.crypto.errors import AuthenticationError
from cohortsum.crypto.signing import IdentityKey, verify

DECISION = "cohortsum/v1/release-decision"


class Act(StrEnum):
    """What a checker decides."""

    RELEASE = "release"
    RETURN = "return"
    WITHHOLD = "withhold"
    RETRACT = "retract"


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody decided about an item.

    Attributes:
        study: digest of the study, 32 bytes.
        item: name of the item: the table's analysis.
        digest: SHA-256 of the item's content as it was shown, 32 bytes.
        act: what is decided.
        reason: in words; needed for everything but a release.
        remedy: for ``return``, what to compute instead, as canonical JSON; else empty.
        confirmed: ids of the checklist's questions that the checker answered with yes, sorted.
        by: id in the roster.
        at: when, RFC 3339, UTC.
        signature: 64 bytes; empty before signing.
    """

    study: bytes
    item: str
    digest: bytes
    act: Act
    reason: str
    remedy: str
    confirmed: tuple[str, ...]
    by: str
    at: str
    signature: bytes = field(default=b"", repr=False)

    def _parts(self) -> tuple[bytes, ...]:
        texts = (self.item, self.act.value, self.reason, self.remedy, *self.confirmed, self.by, self.at)
        count = str(len(self.confirmed)).encode()
        return (self.study, self.digest, count, *(text.encode() for text in texts))

    def sign(self, key: IdentityKey) -> "Decision":
        """Return the decision with its signature."""
        return replace(self, signature=key.sign(DECISION, *self._parts()))

    def check(self, public: bytes) -> None:
        """Raise AuthenticationError unless the holder of ``public`` (Ed25519, 32 bytes) signed exactly this."""
        try:
            verify(public, self.signature, DECISION, *self._parts())
        except AuthenticationError:
            raise AuthenticationError(
                f"the decision about {self.item} is not as {self.by} signed it"
            ) from None
