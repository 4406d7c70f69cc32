"""One site's own record of what it has answered, and what may have been opened of it.

A masked input (R2) is a *write*: from then on t others can open the sum without this site. Until the site knows better it
counts every U3 within U2 as possibly opened. It knows better when t signatures under its own h1 and h2 name the only U3
that can open, whether it signed that one or not, or when the tombstone quorum closes the attempt. A closed write counts as not
made.

The record only grows, and its counter with it: peers that have seen a higher one show a site that it was restored from an
older copy. A restored record is marked, and answers nothing until it is rebuilt from signed transcripts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cohortsum.crypto.errors import RemoteProtocolError, StoreError
from cohortsum.protocol.ledger.people import PeopleSet
from cohortsum.protocol.ledger.rules import ALL, Limits, Rules
from cohortsum.protocol.ledger.sites import NamedRound, SignatureCheck, Status, Step, proven
from cohortsum.protocol.ledger.tombstones import Tombstone, TombstoneCheck, buried, tombstone_quorum


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Any U3 within U2 may have been opened."""


@dataclass(frozen=True, slots=True)
class Named:
    """``round`` is the only one that can have been opened; ``gate_only``: a quorum showed that its data are not."""

    round: NamedRound
    gate_only: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing was opened, or will be."""


Fate = Unresolved | Named | Closed


@dataclass(frozen=True, slots=True)
class Write:
    """One masked input.

    Attributes:
        context: the attempt it was sent in.
        step: where the attempt stands in its study.
        h1: hash of the adverts (L1) this site was shown.
        h2: hash of the U2 it was shown.
        advertisers: U1.
        delivered: U2.
        people: the people sets that entered its blocks, by name.
        noised: whether charged noise covers it.
        fate: what is known of its opening.
    """

    context: bytes
    step: Step
    h1: bytes
    h2: bytes
    advertisers: frozenset[int]
    delivered: frozenset[int]
    people: tuple[tuple[str, PeopleSet], ...] = field(repr=False)
    noised: bool
    fate: Fate = field(default_factory=Unresolved)

    def __post_init__(self) -> None:
        if len({name for name, _ in self.people}) < len(self.people):
            raise StoreError(
                "two people sets of one masked input have the same name; the plan must tell them apart"
            )

    def may_have_opened(self, survivors: frozenset[int]) -> bool:
        """Whether the sum over ``survivors`` may have been opened in this attempt, as far as this site knows."""
        match self.fate:
            case Unresolved():
                return survivors <= self.delivered
            case Named(named):
                return survivors == named.survivors
            case Closed():
                return False

    def attests(self, named: NamedRound) -> bool:
        """Whether ``named`` is this attempt as this site was shown it."""
        return (named.context, named.step, named.h1, named.h2, named.advertisers) == (
            self.context,
            self.step,
            self.h1,
            self.h2,
            self.advertisers,
        ) and named.survivors <= self.delivered


@dataclass(frozen=True, slots=True)
class History:
    """All a site's ledger knows.

    Attributes:
        site: its roster index.
        status: derivable or protected; None before the first write.
        writes: every masked input, oldest first.
        withdrawn: codes of people who withdrew consent.
        counter: of changes; signed in every advert.
        restored: the record may lack writes; it answers nothing.
    """

    site: int
    status: Status | None = None
    writes: tuple[Write, ...] = ()
    withdrawn: frozenset[bytes] = field(default=frozenset(), repr=False)
    counter: int = 0
    restored: bool = False

    def recorded(self, besides: bytes = b"") -> frozenset[PeopleSet]:
        """Return the people sets answered for without noise, in attempts that are not closed, but ``besides``."""
        return frozenset(people for write in self.exact(besides) for _, people in write.people)

    def exact(self, besides: bytes = b"") -> tuple[Write, ...]:
        """Return the writes without noise that are not closed, but that of the context ``besides``."""
        return tuple(
            write
            for write in self.writes
            if not write.noised and not isinstance(write.fate, Closed) and write.context != besides
        )

    def find(self, context: bytes) -> Write | None:
        """Return the write of a context, or None."""
        return next((write for write in self.writes if write.context == context), None)

    def with_write(self, write: Write, status: Status) -> "History":
        """Return the record after a masked input, to be stored before it is sent; the first one fixes the status.

        Raises StoreError for a context that was written before.
        """
        if self.find(write.context) is not None:
            raise StoreError(
                "the ledger holds a masked input of this context already; a context is spent once"
            )
        return self._changed(writes=(*self.writes, write), status=self.status or status)

    def with_named(
        self, named: NamedRound, check: SignatureCheck, rules: Rules = ALL, gate_only: bool = False
    ) -> "History":
        """Return the record after t signatures named the survivors of a write.

        Raises:
            RemoteProtocolError: the proof is not of this attempt as the site was shown it, or has too few valid signatures.
            StoreError: the site made no such write, or other survivors were named: more than c sites collude.
        """
        write = self._made(named.context)
        if not write.attests(named) or not proven(named, check, rules):
            raise RemoteProtocolError(
                "ledger.named", "a survivor set is named without t valid signatures; get the transcript again"
            )
        match write.fate:
            case Closed():
                return self  # signatures of an attempt that nobody can open any more change nothing
            case Named(earlier) if earlier != named:
                raise StoreError(
                    "t signatures name two survivor sets of one attempt; stop and tell the operator"
                )
            case Named(_, known):
                return self._resolved(write, Named(named, gate_only or known))
            case Unresolved():
                return self._resolved(write, Named(named, gate_only))

    def with_tombstones(
        self,
        context: bytes,
        tombstones: Iterable[Tombstone],
        limits: Limits,
        genuine: TombstoneCheck,
        check: SignatureCheck,
        rules: Rules = ALL,
    ) -> "History":
        """Return the record after tombstones of an attempt; unchanged while they are no quorum.

        Raises StoreError if the site made no such write.
        """
        write = self._made(context)
        stones = buried(tombstones, context, write.advertisers, genuine)
        quorum = tombstone_quorum(len(write.advertisers), limits.colluding, rules)
        if len(stones.none) >= quorum:
            return self._resolved(write, Closed())
        named = next((r for r in stones.gate.values() if write.attests(r) and proven(r, check, rules)), None)
        if named is None or len(stones.none) + len(stones.gate) < quorum:
            return self
        return self.with_named(named, check, rules, gate_only=True)

    def with_withdrawn(self, codes: frozenset[bytes]) -> "History":
        """Return the record after these people withdrew consent."""
        return self._changed(withdrawn=self.withdrawn | codes)

    def seen_by_peers(self, counter: int) -> "History":
        """Return the record after a peer showed the highest counter it has of this site; a higher one marks a restore."""
        return self if counter <= self.counter else replace(self, restored=True)

    def rebuilt(self, writes: Iterable[Write], status: Status | None, counter: int) -> "History":
        """Return the record with everything that signed transcripts show this site has written: never below the truth.

        Args:
            writes: from transcripts, with people sets recomputed from the epochs' snapshots; unresolved unless proven.
            status: as its own adverts show; None if none is known.
            counter: the highest that a peer has seen.

        Raises StoreError if the adverts show another status than this record.
        """
        if self.status is not None and status is not None and self.status is not status:
            raise StoreError(
                "the transcripts show another status of this site; ask the operator which roster they are of"
            )
        held = {write.context for write in self.writes}
        missing = tuple(write for write in writes if write.context not in held)
        return replace(
            self,
            status=self.status or status,
            writes=(*self.writes, *missing),
            counter=max(self.counter, counter) + 1,
            restored=False,
        )

    def _made(self, context: bytes) -> Write:
        write = self.find(context)
        if write is None:
            raise StoreError(
                "the ledger holds no masked input of this context; run node recover if there was one"
            )
        return write

    def _resolved(self, write: Write, fate: Fate) -> "History":
        if write.fate == fate:
            return self
        known = tuple(replace(write, fate=fate) if one is write else one for one in self.writes)
        return self._changed(writes=known)

    def _changed(
        self,
        *,
        writes: tuple[Write, ...] | None = None,
        status: Status | None = None,
        withdrawn: frozenset[bytes] | None = None,
    ) -> "History":
        return replace(
            self,
            writes=self.writes if writes is None else writes,
            status=self.status if status is None else status,
            withdrawn=self.withdrawn if withdrawn is None else withdrawn,
            counter=self.counter + 1,
        )
