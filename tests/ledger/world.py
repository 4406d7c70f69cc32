"""Sites with ledgers and a coordinator that makes every choice, without cryptography.

A signature is a fact the world remembers; liars sign anything. An attempt opens when t members of U3 sign, because that
many can answer. What opens without noise is kept for the oracle, honest sites' people only: liars' are known anyway.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from cohortsum.protocol.bounds import Protection, broken_bound, threshold
from cohortsum.protocol.ledger.decision import Answer, AskedSet, Cells, Flags, Request, may_answer
from cohortsum.protocol.ledger.history import Closed, History, Named, Write
from cohortsum.protocol.ledger.people import PeopleSet
from cohortsum.protocol.ledger.rules import ALL, Limits, Rules
from cohortsum.protocol.ledger.sites import Claim, NamedRound, Status, Step
from cohortsum.protocol.ledger.tombstones import Answered, Tombstone
from tests.ledger.oracle import Total, fewest_people, fewest_sites

Sites = frozenset[int]
Choice = Callable[[Sites], Sites]
DERIVABLE, PROTECTED = Status.DERIVABLE, Status.PROTECTED


def code(site: int, person: int) -> bytes:
    """Return the code of a person of a site."""
    return sha256(b"%d %d" % (site, person)).digest()[:16]


def people(site: int, *persons: int) -> PeopleSet:
    """Return a set of people of a site."""
    return PeopleSet(frozenset(code(site, person) for person in persons))


def everybody(sites: Sites) -> Sites:
    """Nobody drops out."""
    return sites


@dataclass(frozen=True)
class Ask:
    """One attempt as the study and the coordinator pose it.

    ``sets`` holds the people sets of every site by name, as far as the site supplies them; ``cells`` what the plan says.
    """

    step: Step
    sets: Mapping[int, Mapping[str, PeopleSet]]
    cells: Cells
    noised: bool = False
    reuse: bool = False


@dataclass(frozen=True)
class Moves:
    """Who does what: each choice takes the sites that could and returns those that do."""

    masked: Choice = everybody
    survivors: Choice = everybody
    signing: Choice = everybody
    answering: Choice = everybody
    told: Choice = everybody


@dataclass(frozen=True)
class Played:
    """What became of an attempt: U1, who wrote, the round if t signed it, and whether its data opened."""

    context: bytes
    advertisers: Sites
    wrote: Sites
    named: NamedRound | None
    opened: bool


@dataclass
class World:
    """See the module."""

    statuses: dict[int, Status]
    limits: Limits
    rules: Rules = ALL
    liars: Sites = frozenset()
    min_sites: int = 3
    minimum: int = 1
    rechecks: bool = True
    histories: dict[int, History] = field(default_factory=dict[int, History])
    signed: set[tuple[NamedRound, int]] = field(default_factory=set[tuple[NamedRound, int]])
    opened: list[Total] = field(default_factory=list[Total])
    attempts: int = 0

    def __post_init__(self) -> None:
        self.histories = {site: History(site) for site in self.statuses}
        self.ever_protected: set[int] = set()  # wrote as such at least once
        self.protection = Protection(
            min_sites=self.min_sites,
            min_participants=1,
            max_participants=10**6,
            min_participants_per_site=1,
            max_colluding_sites=self.limits.colluding,
            min_honest_inputs=self.limits.honest_minimum,
            max_attempts=2,
        )

    # ------------------------------------------------------------------ what the oracle says
    def leaks(self) -> list[str]:
        """Return what follows from everything opened that no rule allows; empty if nothing does."""
        honest = self.statuses.keys() - self.liars
        found: list[str] = []
        few = fewest_sites(self.opened, sorted(self.ever_protected - self.liars), self.limits.honest_minimum)
        if few is not None:
            found.append(f"{few} protected sites")
        for site in sorted(honest - self.ever_protected):
            persons = fewest_people(self.opened, site, self.limits.k)
            if persons is not None:
                found.append(f"{persons} people of site {site}")
        return found

    # ------------------------------------------------------------------ one attempt
    def request(self, site: int, ask: Ask, context: bytes) -> Request:
        """Return what an attempt asks of a site."""
        return Request(
            context=context,
            step=ask.step,
            status=self.statuses[site],
            sets=tuple(AskedSet(name, held, self.minimum) for name, held in ask.sets[site].items()),
            cells=ask.cells,
            noised=ask.noised,
            reuse=ask.reuse,
        )

    def decide(self, site: int, request: Request) -> Answer | None:
        """Return a site's answer, or None if it stays out."""
        decision = may_answer(self.histories[site], request, self.limits, self.valid, self.rules)
        return decision if isinstance(decision, Answer) else None

    def valid(self, named: NamedRound, site: int, signature: bytes) -> bool:
        """Whether a site signed: honest ones what they did sign, liars anything."""
        del signature
        return site in self.liars or (named, site) in self.signed

    def adverts(self, ask: Ask, invited: Sites) -> tuple[bytes, dict[int, Flags]]:
        """R0: return a fresh context and the flags of every honest site that advertises."""
        self.attempts += 1
        context = sha256(b"context %d" % self.attempts).digest()
        answers = {
            site: self.decide(site, self.request(site, ask, context)) for site in sorted(invited - self.liars)
        }
        return context, {site: answer.flags for site, answer in answers.items() if answer is not None}

    def attempt(self, ask: Ask, invited: Sites, moves: Moves = Moves()) -> Played:
        """Play one attempt from adverts to opening."""
        context, flags = self.adverts(ask, invited)
        return self.finish(ask, context, flags, invited, moves)

    def finish(
        self, ask: Ask, context: bytes, flags: dict[int, Flags], invited: Sites, moves: Moves
    ) -> Played:
        """Play an attempt on from its adverts."""
        advertisers = frozenset(flags) | (invited & self.liars)
        nothing = Played(context, advertisers, frozenset(), None, opened=False)
        if broken_bound(len(advertisers), self.protection) is not None:
            return nothing
        needed = threshold(len(advertisers))
        h1 = sha256(b"h1" + context).digest()
        h2 = sha256(b"h2" + context).digest()
        wrote: Sites = advertisers & self.liars
        sent: dict[int, tuple[tuple[str, PeopleSet], ...]] = {}
        for site in sorted(moves.masked(advertisers) - self.liars):
            request = self.request(site, ask, context)
            answer = self.decide(site, replace(request, advertised=flags[site]) if self.rechecks else request)
            if answer is None and self.rechecks:
                continue
            sent[site] = answer.people if answer else tuple((one.name, one.people) for one in request.sets)
            write = Write(context, ask.step, h1, h2, advertisers, advertisers, sent[site], ask.noised)
            self.histories[site] = self.histories[site].with_write(write, self.statuses[site])
            wrote |= {site}
            self.ever_protected |= {site} if self.statuses[site] is PROTECTED else set()
        survivors = moves.survivors(wrote)
        if len(survivors) < max(needed, self.min_sites):
            return replace(nothing, wrote=wrote)
        claims = self.claims(ask, flags, survivors)
        protected = frozenset(
            site for site, claim in claims.items() if claim.status is PROTECTED
        ) | frozenset(site for site, flag in flags.items() if flag.status is PROTECTED)
        named = NamedRound(context, ask.step, h1, h2, advertisers, protected, survivors, ())
        signers = survivors & self.liars
        for site in sorted(moves.signing(survivors) - self.liars):
            if self.decide(site, replace(self.request(site, ask, context), claims=claims)) is not None:
                self.signed.add((named, site))
                signers |= {site}
        if len(signers) < needed:
            return replace(nothing, wrote=wrote)
        named = replace(named, signatures=tuple((site, b"") for site in sorted(signers)))
        opened = len(moves.answering(signers) | (survivors & self.liars)) >= needed
        if opened and not ask.noised:
            names = {name for held in sent.values() for name, _ in held}
            for name in sorted(names):
                self.opened.append(
                    {
                        site: dict(sent[site])[name].codes
                        for site in survivors & sent.keys()
                        if name in dict(sent[site])
                    }
                )
        if opened:
            for site in sorted(moves.told(wrote) - self.liars):
                self.tell(site, named)
        return Played(context, advertisers, wrote, named, opened)

    def claims(self, ask: Ask, flags: dict[int, Flags], survivors: Sites) -> dict[int, Claim]:
        """Return what survivors advertised; liars claim whatever lets the round pass."""
        claims: dict[int, Claim] = {}
        for site in sorted(survivors - self.liars):
            used = flags[site].used
            claims[site] = Claim(
                flags[site].status,
                None if used is None else self.named(site, used),
                frozenset(ask.sets[site]),
            )
        honest = [claim for claim in claims.values() if claim.status is PROTECTED]
        for liar in sorted(survivors & self.liars):
            fitting = honest and (honest[0].used is None or liar in honest[0].used.opened_protected)
            claims[liar] = honest[0] if fitting else Claim(DERIVABLE, None, frozenset())
        return claims

    def named(self, site: int, context: bytes) -> NamedRound | None:
        """Return the round that a site's record names in a context."""
        write = self.histories[site].find(context)
        return write.fate.round if write is not None and isinstance(write.fate, Named) else None

    # ------------------------------------------------------------------ afterwards
    def tell(self, site: int, named: NamedRound) -> None:
        """Show a site the t signatures that name the survivors of what it wrote."""
        self.histories[site] = self.histories[site].with_named(named, self.valid, self.rules)

    def bury(self, played: Played, signing: Sites, told: Sites) -> bool:
        """Show ``told`` the tombstones of ``signing`` sites, answered none; return whether one of them holds it closed."""
        stones = [Tombstone(played.context, site, Answered.NONE, None, b"") for site in sorted(signing)]
        for site in sorted(told & played.wrote - self.liars):
            self.histories[site] = self.histories[site].with_tombstones(
                played.context, stones, self.limits, lambda _: True, self.valid, self.rules
            )
        written = [self.histories[site].find(played.context) for site in told & played.wrote - self.liars]
        return any(write is not None and isinstance(write.fate, Closed) for write in written)


def one_set(sets: Mapping[int, PeopleSet], study: bytes, iteration: int = 1, attempt: int = 1) -> Ask:
    """Return an attempt with one people set per site."""
    return Ask(
        Step(study, iteration, attempt), {site: {"all": held} for site, held in sets.items()}, cells=CELL
    )


CELL: Cells = frozenset({frozenset({"all"})})
