"""The audit log of a node, a coordinator or a trustee: one line per deed, each holding the hash of the line before it.

**What stands in it.** Who did what, when, in which study and attempt, and the hash of the signed message in question. There is no
field for free text: no value, count of people, id of a person or reason fits in.

**The chain.** A line is one JSON object in canonical form. ``previous`` is the SHA-256 of the whole line before it, line end
included: ``sed -n 7p audit.jsonl | sha256sum`` gives what line 8 must hold. The first line holds zeros.

**The head.** Number, hash and end of the newest line stand in the owner's database as well (a site's ledger, the
coordinator's store), written in the transaction that makes the deed itself durable. A log that was cut at its end is therefore
shorter than its owner remembers. Lines are on disk before that transaction commits, and nothing leaves before it has: whoever
cannot write the log sends nothing, as with the ledger. A log that may be skipped proves nothing about what it does not say.

**Crashes.** The file may be ahead of the head, by what one transaction wrote, and its last line may be torn. `settle` keeps whole
lines that follow, cuts the torn one, and makes the next line say so (``log repaired``): the lines before that one may speak of
deeds that did not happen. The file is never behind the head unless somebody cut it.

**Who may write what.**

======================  ==========================================================================================================
the file                alters, drops, swaps or cuts lines: `examine` names the first. May add lines that follow: they stay marked
                        as unconfirmed, by the ``log repaired`` after them. May make the owner stop: it sends nothing any more.
file and database       rewrites the whole story, unnoticed on this machine. That is whoever has the daemon's account; a signature
                        under the identity key would not change it, since the key lies beside the file. What is left then: the
                        other ends hold the same messages with their signatures (`proof`), the coordinator's log their hashes, and a
                        head that was written down elsewhere is in the chain or is not (`Examined.holds`).
======================  ==========================================================================================================

Times are the owner's clock and prove nothing by themselves. Pure: the owner brings file, clock and database.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from cohortsum.crypto.errors import StoreError

ZERO = bytes(32)
MAX_LINE = 1024
"""No line is longer, in bytes."""
PLAIN = re.compile(r"[^A-Za-z0-9 ._@+-]")


class DeedKind(StrEnum):
    """What was done. Never change a word: lines are kept for years."""

    LOG_BEGUN = "log begun"
    LOG_REPAIRED = "log repaired"
    LOG_RENEWED = "log renewed"
    STARTED = "started"
    # at a node
    ROSTER_PINNED = "roster pinned"
    DENY_LIST = "deny-list in force"
    STUDY_HEARD = "study heard"
    STUDY_APPROVED = "study approved"
    STUDY_DECLINED = "study declined"
    APPROVAL_REVOKED = "approval revoked"
    APPROVAL_SIGNED = "approval signed"
    STAYED_OUT = "not taking part signed"
    ROUND_JOINED = "round joined"
    INPUT_MASKED = "input masked"
    SHARES_DEALT = "shares dealt"
    SURVIVORS_SIGNED = "survivors signed"
    SHARES_ANSWERED = "shares answered"
    ATTEMPT_CLOSED = "attempt closed"
    BUDGET_RESERVED = "budget reserved"
    BUDGET_CHARGED = "budget charged"
    BUDGET_REFUNDED = "budget refunded"
    BUDGET_RELEASED = "budget released"
    EPOCH_CLOSED = "epoch closed"
    LEDGER_OLDER = "ledger found older"
    LEDGER_REBUILT = "ledger rebuilt"
    # at both
    EVIDENCE_KEPT = "evidence kept"
    SURVIVORS_NAMED = "survivors named"
    SUM_OPENED = "sum opened"
    STUDY_OVER = "study over"
    # at the coordinator
    STUDY_SUBMITTED = "study submitted"
    STUDY_WITHDRAWN = "study withdrawn"
    APPROVAL_TAKEN = "approval taken"
    STAY_OUT_TAKEN = "not taking part taken"
    ATTEMPT_OPENED = "attempt opened"
    ATTEMPT_ABORTED = "attempt aborted"
    COMMITTEE_ANSWERED = "committee answered"
    MESSAGE_TAKEN = "message taken"
    MESSAGE_REFUSED = "message refused"
    RESULT_RELEASED = "result released"
    RESULT_READ = "result read"
    ITEM_QUEUED = "item queued"
    ITEM_READ = "item read"
    ITEM_DECIDED = "item decided"
    ITEM_RELEASED = "item released"
    ITEM_RETURNED = "item returned"
    ITEM_WITHHELD = "item withheld"
    ITEM_RETRACTED = "item retracted"
    # at the trustee
    KEY_OFFERED = "key offered"
    SUM_DECRYPTED = "sum decrypted"
    DECRYPTION_REFUSED = "decryption refused"


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that was done.

    Attributes:
        kind: what.
        study: its digest, 32 bytes; empty where it is about no study.
        context: of the attempt, 32 bytes, or empty.
        digest: of the signed message or file in question, 32 bytes, or empty.
        by: who: an id of the roster, an admin's account, a rule of the policy.
        detail: one word of this program or of the study: a state, a part, a check, the kind of a message, a version, an analysis.
    """

    kind: DeedKind
    study: bytes = b""
    context: bytes = b""
    digest: bytes = b""
    by: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log; ``previous`` is the hash of the line before it."""

    number: int
    at: datetime
    deed: Deed
    previous: bytes

    def to_bytes(self) -> bytes:
        """Return the line in its one canonical form, line end included."""
        deed = self.deed
        fields = {
            "number": self.number,
            "at": self.at.isoformat(timespec="microseconds"),
            "deed": deed.kind.value,
            "study": deed.study.hex(),
            "context": deed.context.hex(),
            "digest": deed.digest.hex(),
            "by": _plain(deed.by),
            "detail": _plain(deed.detail),
            "previous": self.previous.hex(),
        }
        held = {name: value for name, value in fields.items() if value != ""}
        return json.dumps(held, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> "Line | None":
        """Return the line that these bytes are the canonical form of, or None."""
        if len(data) > MAX_LINE:
            return None
        try:
            held = json.loads(data)
            deed = Deed(
                DeedKind(held["deed"]),
                study=bytes.fromhex(held.get("study", "")),
                context=bytes.fromhex(held.get("context", "")),
                digest=bytes.fromhex(held.get("digest", "")),
                by=held.get("by", ""),
                detail=held.get("detail", ""),
            )
            moment = datetime.fromisoformat(held["at"])
            line = cls(held["number"], moment, deed, bytes.fromhex(held["previous"]))
            same = type(line.number) is int and moment.utcoffset() is not None and line.to_bytes() == data
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return line if same else None


@dataclass(frozen=True, slots=True)
class Head:
    """Where a log ends, as its owner's database remembers it.

    Attributes:
        number: of the newest line; 0 where there is none.
        digest: SHA-256 of that line.
        size: of the file that ends with it, in bytes; 0 where the next line begins a new file.
        first: number of that file's first line.
    """

    number: int = 0
    digest: bytes = ZERO
    size: int = 0
    first: int = 1

    def to_text(self) -> str:
        """Return the head as a database keeps it."""
        return f"{self.number} {self.digest.hex()} {self.size} {self.first}"

    @classmethod
    def from_text(cls, text: str | None) -> "Head":
        """Return the head that a database keeps; None is that of a log not begun. Raises StoreError."""
        if text is None:
            return cls()
        try:
            number, digest, size, first = text.split(" ")
            return cls(int(number), bytes.fromhex(digest), int(size), int(first))
        except ValueError:
            raise StoreError("the head of the audit log cannot be read; restore the database") from None

    def after(self, line: bytes) -> "Head":
        """Return the head once ``line`` stands in the file."""
        return replace(self, number=self.number + 1, digest=line_digest(line), size=self.size + len(line))

    def renewed(self) -> "Head":
        """Return the head for a new file that goes on with the chain."""
        return replace(self, size=0, first=self.number + 1)


@dataclass(frozen=True, slots=True)
class Settled:
    """Where the next line goes: whatever stands behind ``head.size`` is cut; ``notes`` come first."""

    head: Head
    notes: tuple[Deed, ...]


def line_digest(line: bytes) -> bytes:
    """Return the hash by which the next line names this one."""
    return hashlib.sha256(line).digest()


def follow(head: Head, deeds: Iterable[Deed], at: datetime) -> tuple[bytes, Head]:
    """Return the lines of ``deeds`` and the head after them; ``at`` is the time, UTC."""
    lines: list[bytes] = []
    for deed in deeds:
        line = Line(head.number + 1, at.astimezone(UTC), deed, head.digest).to_bytes()
        lines.append(line)
        head = head.after(line)
    return b"".join(lines), head


def settle(head: Head, size: int, read: Callable[[int, int], bytes]) -> Settled:
    """Return where the next line goes, after whatever a crash left behind the head.

    Args:
        head: as the database remembers it.
        size: of the file, in bytes.
        read: returns so many bytes from a place in the file.

    Raises:
        StoreError: the file does not end as the database remembers: it was cut, altered or replaced.
    """
    start = max(0, head.size - MAX_LINE)
    end = read(start, head.size - start)
    if size < head.size or len(end) < head.size - start:
        raise _foreign(f"it ends before line {head.number}")
    if head.size and line_digest(end[end.rfind(b"\n", 0, -1) + 1 :]) != head.digest:
        raise _foreign(f"line {head.number} is another one")
    *kept, torn = read(head.size, size - head.size).split(b"\n")
    settled = head
    for text in kept:
        data = text + b"\n"
        line = Line.from_bytes(data)
        if line is not None and settled.number == 0 and line.deed.kind is DeedKind.LOG_RENEWED:
            settled = Head(line.number - 1, line.previous, 0, line.number)  # the database was lost
        if line is None or (line.number, line.previous) != (settled.number + 1, settled.digest):
            raise _foreign(f"what stands behind line {settled.number} does not follow it")
        settled = settled.after(data)
    notes: list[Deed] = []
    if settled.size == 0:
        notes.append(Deed(DeedKind.LOG_RENEWED if settled.number else DeedKind.LOG_BEGUN))
    if kept or torn:
        said = f"{len(kept)} unconfirmed lines kept {len(torn)} bytes cut"
        notes.append(Deed(DeedKind.LOG_REPAIRED, detail=said))
    return Settled(settled, tuple(notes))


def _plain(text: str) -> str:
    """Return what a line may hold of a text from outside."""
    return PLAIN.sub("_", text)[:64]


def _foreign(what: str) -> StoreError:
    return StoreError(
        f"the audit log was tampered with: {what}; nothing is sent. Look at it with `audit verify`, keep the file, and begin a "
        "new one with `audit renew`"
    )
