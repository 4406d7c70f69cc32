"""What a trustee does when the coordinator asks: a key for an attempt, and the decryption of its sum, once.

Nothing that is handed in is believed. The study is the one that a statistician of a pinned roster signed, the opening the coordinator's own, the
context follows from both, and the rest are checks K1 to K4 (`protocol.unlocking`). The order at the end decides what a crash costs: the key
is taken off the ring before anything is decrypted under it, the decryption is in the ledger before anybody hears of it. A key is used up by
the first attempt to decrypt, also by one that fails: whether a crafted ciphertext decrypts says a bit about a key, so nobody asks twice.
"""

import hmac
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from cohortsum.crypto.bfv import DecryptionKey
from cohortsum.crypto.errors import (
    CohortsumError,
    CryptoError,
    LimitError,
    ProtocolError,
    RefusedError,
    RemoteProtocolError,
)
from cohortsum.crypto.failpoints import reach
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.signing import IdentityKey
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.masking import words_digest
from cohortsum.protocol.messages import Envelope, Packet, Unlocked
from cohortsum.protocol.proof import read_opening
from cohortsum.protocol.unlocking import UnlockRequest, offer_of, permit
from cohortsum.protocol.witness import WitnessedRound
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.trustee.keys import Answer, Draw, KeyRing
from cohortsum.trustee.ledger import Decryption, Ledger
from cohortsum.trustee.roll import Roll
from cohortsum.trustee.studies import Known, known_study

LOST = (
    "no key is held for this attempt: the trustee was started again since, or gave the key up; the attempt ends, and the next one gets a "
    "key of its own"
)
SPENT = (
    "a sum was decrypted in this attempt already; the attempt ends, and the next one gets a key of its own"
)
MOST_NOTED = 4096


@dataclass(frozen=True, slots=True)
class Permitted:
    """A request that passed every check that can be made before its sum is there.

    Attributes:
        known: the study.
        proven: the round.
        length: how many numbers the sum holds.
    """

    known: Known
    proven: WitnessedRound
    length: int

    @property
    def words(self) -> int:
        """How many words the framed ciphertexts of the sum have."""
        return self.known.parameters.words(self.length)


class Desk:
    """Answers the coordinator; for several threads, one request at a time where a key is concerned.

    Args:
        identity: this trustee's id in the roster.
        key: its identity key.
        roll: returns who counts now.
        ring: holds the keys.
        ledger: what was decrypted before.
        numbers: greatest length of a sum.
        draw: draws a key.
        now: the time, UTC.
    """

    def __init__(
        self,
        identity: str,
        key: IdentityKey,
        roll: Callable[[], Roll],
        ring: KeyRing,
        ledger: Ledger,
        numbers: int,
        draw: Draw = DecryptionKey.draw,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._identity, self._key, self._roll = identity, key, roll
        self._ring, self._ledger, self._numbers, self._draw, self._now = ring, ledger, numbers, draw, now
        self._lock = threading.Lock()
        self._noted: set[tuple[bytes, str]] = set()

    def offer(self, signed: SignedStudy, envelope: Envelope) -> Packet:
        """Return a signed offer of a key for the attempt that ``envelope`` opens, with the public key attached.

        The same opening gets the same bytes for as long as the key is held.

        Raises:
            RefusedError: a study or trustee that does not fit, or an attempt in which a sum was decrypted.
            RemoteProtocolError: M1 to M4, R0.1: the opening is not the coordinator's, or not of this study; K1: too few sites approved.
            LimitError: no room for a further key.
            StoreError: the audit log refuses a line; nothing is offered.
        """
        known = self._known(signed)
        opening, approvals = read_opening(envelope, known.plan.round, known.counted)
        least = known.plan.round.protection.min_sites
        if len(approvals) < least:
            raise RemoteProtocolError("K1", f"{len(approvals)} sites approved, {least} are required")
        context, study = envelope.context, known.plan.study.digest
        with self._lock:
            if self._ledger.of_context(context) is not None:
                raise RefusedError(SPENT)
            held = self._ring.held(context)
            if held is not None:
                return held.offer
            self._ring.make_room(study, opening.key)
            key = self._draw(known.parameters)
            message = known.signer.sign(context, offer_of(known.parameters, key.public))
            packet = Packet(message, (key.public,))
            coordinator = known.whole.coordinator.id
            self._ledger.note(Deed(DeedKind.KEY_OFFERED, study, context, message.digest, coordinator))
            self._ring.put(context, study, opening.key, packet, key)
            return packet

    def permitted(self, signed: SignedStudy, request: UnlockRequest, length: int) -> Permitted:
        """Return a request that passed K1, K2 and K4 and, as far as it can be seen without the sum, K3.

        Raises:
            RefusedError: as `offer`, or no key is held for the attempt.
            RemoteProtocolError: of the check that failed.
            LimitError: a longer sum than this trustee decrypts.
        """
        context = request.transcript.opening.context
        try:
            known = self._known(signed)
            proven = permit(request, known.plan.round, known.whole, self._survivors(known))
            self._check_length(known, proven, length)
            with self._lock:
                self._check_held(context)
        except CohortsumError as error:
            self._note_refusal(context, error)
            raise
        return Permitted(known, proven, length)

    def unlock(self, permitted: Permitted, words: Vector) -> Answer:
        """Decrypt a sum, once, and return the signed answer; the same request again gets the same answer while it is remembered.

        Raises:
            RemoteProtocolError: K3, K4.
            RefusedError: no key is held for the attempt, or what was handed in cannot be decrypted under it.
            StoreError: the ledger refuses a write; nothing is answered.
        """
        context = permitted.proven.context
        try:
            with self._lock:
                return self._answer(permitted, words)
        except CohortsumError as error:
            self._note_refusal(context, error)
            raise

    def sweep(self) -> None:
        """Give up every key that is too old."""
        with self._lock:
            self._ring.sweep()

    def close(self) -> None:
        """Let go of every key and answer."""
        with self._lock:
            self._ring.clear()

    def _answer(self, permitted: Permitted, words: Vector) -> Answer:
        known, proven = permitted.known, permitted.proven
        context, study, ciphertext = proven.context, known.plan.study.digest, words_digest(words)
        before = self._ledger.of_context(context)
        if before is not None:
            answer = self._ring.answered(context)
            same = hmac.compare_digest(before.ciphertext_digest, ciphertext)
            if answer is None or not same or before.statement != proven.statement:
                raise RemoteProtocolError("K3", SPENT)
            return answer
        if any(survivors != proven.survivors for survivors in self._survivors(known)):
            raise RemoteProtocolError("K4", "a sum of this study over other sites was decrypted before")
        held = self._ring.spend(context)
        if held is None:
            raise RefusedError(LOST)
        try:
            masked = held.key.decrypt(words, permitted.length)
        except CryptoError as error:
            raise RefusedError(
                "the sum cannot be decrypted under the key of this attempt; the key is gone, the attempt ends, and the next one gets a "
                "key of its own"
            ) from error
        finally:
            held.key.wipe()
        message = Unlocked(proven.statement, ciphertext, words_digest(masked))
        envelope = known.signer.sign(context, message)
        row = Decryption(
            context,
            study,
            proven.survivors,
            proven.statement,
            ciphertext,
            message.masked_digest,
            self._now(),
        )
        reach("trustee.unlock.before")
        self._ledger.record(
            row,
            Deed(DeedKind.SUM_DECRYPTED, study, context, envelope.digest, known.whole.coordinator.id),
        )
        reach("trustee.unlock.recorded")
        answer = Answer(envelope, masked)
        self._ring.remember(context, answer)
        return answer

    def _survivors(self, known: Known) -> tuple[tuple[int, ...], ...]:
        return tuple(row.survivors for row in self._ledger.of_study(known.plan.study.digest))

    def _known(self, signed: SignedStudy) -> Known:
        return known_study(signed, self._roll(), self._identity, self._key, self._now().date())

    def _check_length(self, known: Known, proven: WitnessedRound, length: int) -> None:
        """Hold the length that is named against the plan, where this round alone decides it, and against what is decrypted at all."""
        if proven.key.iteration == 1 and not proven.earlier:
            blocks = known.plan.round.travelling(proven.supplies, frozenset())
            planned = sum(block.size for block in blocks)
            if length != planned:
                raise RemoteProtocolError("K3", f"a sum of this attempt holds {planned} numbers")
        if not 0 < length <= self._numbers:
            raise LimitError(
                f"a sum of {length} numbers; this trustee decrypts at most {self._numbers}: raise `numbers` in its trustee.yaml",
                "numbers",
            )

    def _check_held(self, context: bytes) -> None:
        """K3, before the sum is there: an answer is remembered, or nothing was decrypted and a key is held."""
        if self._ring.answered(context) is not None:
            return
        if self._ledger.of_context(context) is not None:
            raise RemoteProtocolError("K3", SPENT)
        if self._ring.held(context) is None:
            raise RefusedError(LOST)

    def _note_refusal(self, context: bytes, error: CohortsumError) -> None:
        """Write the first refusal of each kind about an attempt of ours down: others could be made up without end."""
        what = error.check if isinstance(error, ProtocolError) else type(error).__name__
        with self._lock:
            held = self._ring.held(context) or self._ledger.of_context(context)
            if held is None or (context, what) in self._noted:
                return
            if len(self._noted) >= MOST_NOTED:
                self._noted.clear()
            self._noted.add((context, what))
            self._ledger.note(Deed(DeedKind.DECRYPTION_REFUSED, held.study, context, detail=what))
