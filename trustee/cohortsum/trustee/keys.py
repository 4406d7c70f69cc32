"""The keys that a trustee holds, in memory and nowhere else, and what it answered under them.

A key belongs to one attempt. It ends when a sum is decrypted under it, when a later attempt of the same round gets a key, when it is older
than it may be, and when the process ends. An answer stays, so that the same request gets the same bytes when a line broke, until its place
is needed. Whatever is lost costs an attempt and nothing else: the next one gets a key of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from cohortsum.crypto.bfv import DecryptionKey, Parameters
from cohortsum.crypto.errors import LimitError
from cohortsum.crypto.masks import Vector
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.messages import Envelope, Packet

MOST_ANSWER_BYTES = 256 * 1024 * 1024
"""Of masked sums that are kept for requests that come again."""

Draw = Callable[[Parameters], DecryptionKey]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a trustee answered: its signed word about a sum, and the masked words."""

    envelope: Envelope
    words: Vector = field(repr=False)


@dataclass(frozen=True, slots=True)
class Held:
    """What is held about one attempt.

    Attributes:
        study: digest of the study.
        round: which attempt.
        since_s: when the key was drawn, in seconds of the ring's clock.
        offer: the signed offer with the public key.
        key: the key; it can be used once.
    """

    study: bytes
    round: RoundKey
    since_s: float
    offer: Packet
    key: DecryptionKey = field(repr=False)


class KeyRing:
    """Holds keys by context. Not for several threads at once.

    Args:
        most: how many are held.
        keep_s: for how many seconds.
        clock: seconds that only grow.
    """

    def __init__(self, most: int, keep_s: float, clock: Callable[[], float]) -> None:
        self._most, self._keep_s, self._clock = most, keep_s, clock
        self._held: dict[bytes, Held] = {}
        self._answers: dict[bytes, Answer] = {}

    def __len__(self) -> int:
        return len(self._held)

    def held(self, context: bytes) -> Held | None:
        """Return what is held about a context whose key can still be used."""
        self.sweep()
        return self._held.get(context)

    def make_room(self, study: bytes, attempt: RoundKey) -> None:
        """Make room for the key of an attempt: earlier attempts of its round are over. Raises LimitError where all places are taken."""
        self.sweep()
        for context, one in list(self._held.items()):
            same = (one.study, one.round.round_id, one.round.iteration) == (
                study,
                attempt.round_id,
                attempt.iteration,
            )
            if same and one.round.attempt < attempt.attempt:
                self._drop(context)
        if len(self._held) >= self._most:
            raise LimitError(
                f"this trustee holds {self._most} keys and has room for no further one; end rounds that wait, or raise `keys` in "
                "its trustee.yaml",
                "keys",
            )

    def put(self, context: bytes, study: bytes, attempt: RoundKey, offer: Packet, key: DecryptionKey) -> None:
        """Hold a key for a context, from now on."""
        self._held[context] = Held(study, attempt, self._clock(), offer, key)

    def spend(self, context: bytes) -> Held | None:
        """Return what is held about a context and hold it no longer: its key is used once, whatever comes of it."""
        return self._held.pop(context, None)

    def answered(self, context: bytes) -> Answer | None:
        """Return what was answered in a context, while it is remembered."""
        return self._answers.get(context)

    def remember(self, context: bytes, answer: Answer) -> None:
        """Keep an answer, in the place of the oldest ones where they hold too much."""
        self._answers[context] = answer
        while (
            len(self._answers) > self._most
            or sum(one.words.nbytes for one in self._answers.values()) > MOST_ANSWER_BYTES
        ) and len(self._answers) > 1:
            del self._answers[next(iter(self._answers))]

    def clear(self) -> None:
        """Let go of every key and answer."""
        for context in list(self._held):
            self._drop(context)
        self._answers.clear()

    def sweep(self) -> None:
        """Give up every key that is too old."""
        now_s = self._clock()
        for context, one in list(self._held.items()):
            if now_s - one.since_s >= self._keep_s:
                self._drop(context)

    def _drop(self, context: bytes) -> None:
        self._held.pop(context).key.wipe()
