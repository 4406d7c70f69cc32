"""May this site answer? One pure function, asked three times per attempt.

* Before the advert (R0.6): the flags of its answer are what the advert says.
* In the transaction that writes the masked input (R2), with those flags: writes made since may have changed them, and then
  nothing is sent.
* On the survivor list (R3.4, R3.6), with the claims of U3: the site signs nothing unless it may.

The reason of a refusal is for the site's own log; everybody else reads `not taking part`. The function changes nothing: the
node stores `History.with_write` before it sends.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cohortsum.protocol.ledger.history import Closed, History, Named, Unresolved, Write
from cohortsum.protocol.ledger.people import Allowed, NearDuplicate, PeopleSet, StaysOut, atoms, judge
from cohortsum.protocol.ledger.rules import ALL, Limits, Reason, Rules
from cohortsum.protocol.ledger.sites import Claim, SignatureCheck, Status, Step, broken_site_rule

Cells = frozenset[frozenset[str]]
"""How a round's people sets overlap: the names of the sets that one cell of people is in, for every cell."""


class Flag(StrEnum):
    """What an advert says of one people set."""

    FIRST_TIME = "first-time"
    OLD = "old"
    REUSED = "reused"


@dataclass(frozen=True, slots=True)
class AskedSet:
    """A people set that enters a round: the cohort, a by-group of it, the cases of an outcome.

    Attributes:
        name: the same at every site and in every iteration of the study.
        people: whose rows they are, here.
        minimum: people that a single derivable site must have in it (`single-site minimum` of the profile).
    """

    name: str
    people: PeopleSet
    minimum: int


@dataclass(frozen=True, slots=True)
class Flags:
    """What the advert says; compared when the masked input is written.

    Attributes:
        status: for the whole site.
        used: context of the round a protected site was opened in, or None.
        sets: one flag per people set, by name.
    """

    status: Status
    used: bytes | None
    sets: tuple[tuple[str, Flag], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What a round asks of this site.

    Attributes:
        context: of the attempt.
        step: where it stands in its study.
        status: what this site's policy says it is.
        sets: every people set this site would supply, by-groups included.
        cells: how these sets overlap at every protected site, from the plan.
        noised: whether charged noise covers the round.
        people_rule: False under profile `open_data`.
        reuse: the study says `near_duplicate: reuse`.
        max_attempts: charged attempts per iteration.
        advertised: the flags of the advert, when asked in the R2 transaction.
        claims: the survivors' claims (U3), when asked on the survivor list.
    """

    context: bytes
    step: Step
    status: Status
    sets: tuple[AskedSet, ...]
    cells: Cells
    noised: bool = False
    people_rule: bool = True
    reuse: bool = False
    max_attempts: int = 2
    advertised: Flags | None = None
    claims: Mapping[int, Claim] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The site may answer, with ``people`` per set: those asked for, or an earlier snapshot's where the flag is `reused`."""

    flags: Flags
    people: tuple[tuple[str, PeopleSet], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The site stays out."""

    reason: Reason


Decision = Answer | Refused


def may_answer(
    history: History, request: Request, limits: Limits, check: SignatureCheck, rules: Rules = ALL
) -> Decision:
    """Return whether the site with this ``history`` may take the next step of ``request``'s round.

    Args:
        history: the site's record.
        request: what is asked, and at which of the three moments.
        limits: k, c and h_min.
        check: of the signatures in proofs that survivors name.
        rules: all of them, but in tests.
    """
    refusal = _standing(history, request, rules)
    if refusal is not None:
        return Refused(refusal)
    used: bytes | None = None
    if request.noised:
        answer = _noised(history, request)
    elif request.status is Status.DERIVABLE:
        answer = _derivable(history, request, limits, rules)
    else:
        opened = _opened(history, request.context, rules)
        used = None if opened is None else opened.context
        answer = _protected(history, request, opened, rules)
    if isinstance(answer, Reason):
        return Refused(answer)
    sets = tuple((name, flag) for name, flag, _ in answer)
    flags = Flags(request.status, used, sets)
    if request.advertised is not None and request.advertised != flags:
        return Refused(Reason.CHANGED)
    if request.claims is not None and not request.noised:
        refusal = _survivors(history, request, request.claims, used, limits, check, rules)
        if refusal is not None:
            return Refused(refusal)
    return Answer(flags, tuple((name, people) for name, _, people in answer))


_Chosen = list[tuple[str, Flag, PeopleSet]]


def _standing(history: History, request: Request, rules: Rules) -> Reason | None:
    """What holds for every round, noised or not."""
    if rules.restored_stays_out and history.restored:
        return Reason.RESTORED
    written = history.find(request.context) is not None
    if written is not (request.claims is not None):
        return Reason.SPENT if written else Reason.NOT_WRITTEN
    if rules.status_fixed and history.status not in (None, request.status):
        return Reason.STATUS
    if any(asked.people.codes & history.withdrawn for asked in request.sets):
        return Reason.WITHDRAWN
    return None


def _as_asked(history: History, request: Request) -> _Chosen:
    recorded = history.recorded(besides=request.context)
    return [
        (asked.name, Flag.OLD if asked.people in recorded else Flag.FIRST_TIME, asked.people)
        for asked in request.sets
    ]


def _noised(history: History, request: Request) -> _Chosen | Reason:
    """Fresh, charged noise covers any set; the charge is per attempt, closed ones are refunded."""
    charged = sum(
        write.noised
        and (write.step.study, write.step.iteration) == (request.step.study, request.step.iteration)
        and not isinstance(write.fate, Closed)
        and write.context != request.context
        for write in history.writes
    )
    return Reason.ATTEMPTS if charged >= request.max_attempts else _as_asked(history, request)


def _derivable(history: History, request: Request, limits: Limits, rules: Rules) -> _Chosen | Reason:
    """The people rule, over all recorded sets and the sets of this round together."""
    if any(len(asked.people) < asked.minimum for asked in request.sets):
        return Reason.TOO_FEW_FOR_DERIVABLE
    if not request.people_rule:
        return _as_asked(history, request)
    recorded = history.recorded(besides=request.context)
    chosen: _Chosen = []
    accepted: frozenset[PeopleSet] = frozenset()
    for asked in request.sets:
        match judge(recorded | accepted, asked.people, limits, rules):
            case Allowed():
                flag = Flag.OLD if asked.people in recorded else Flag.FIRST_TIME
                chosen.append((asked.name, flag, asked.people))
            case NearDuplicate(of):
                usable = [old for old in of if old in recorded and not old.codes & history.withdrawn]
                if not (request.reuse and usable):
                    return Reason.NEAR_DUPLICATE
                if len(usable[0]) < asked.minimum:
                    return Reason.TOO_FEW_FOR_DERIVABLE
                chosen.append((asked.name, Flag.REUSED, usable[0]))
            case StaysOut(reason):
                return reason
        accepted |= {chosen[-1][2]}
    return chosen


def _opened(history: History, context: bytes, rules: Rules) -> Write | None:
    """Return the first write without noise, but that of ``context``, over which t signatures name this site a survivor."""
    for write in history.exact(besides=context):
        if rules.opened_once and isinstance(write.fate, Named) and history.site in write.fate.round.survivors:
            return write
    return None


def _protected(history: History, request: Request, opened: Write | None, rules: Rules) -> _Chosen | Reason:
    """Opened once; later only the same people in a retry or iteration of that round."""
    unresolved = any(isinstance(write.fate, Unresolved) for write in history.exact(besides=request.context))
    if rules.possibly_opened and unresolved:
        return Reason.UNRESOLVED
    names = [asked.name for asked in request.sets]
    overlaps = atoms([asked.people for asked in request.sets])
    cells = frozenset(
        frozenset(name for name, bit in zip(names, cell, strict=True) if bit) for cell in overlaps
    )
    if rules.shared_cells and cells != request.cells:
        return Reason.OTHER_CELLS
    if opened is not None:
        if not request.step.continues(opened.step):
            return Reason.OPENED_ONCE
        known = dict(opened.people)
        if rules.same_people and any(known.get(asked.name) != asked.people for asked in request.sets):
            return Reason.OTHER_PEOPLE
    return _as_asked(history, request)


def _survivors(
    history: History,
    request: Request,
    claims: Mapping[int, Claim],
    used: bytes | None,
    limits: Limits,
    check: SignatureCheck,
    rules: Rules,
) -> Reason | None:
    """The claims of U3: this site's own as it advertised, the protected ones as `broken_site_rule` wants them."""
    own = claims.get(history.site)
    named = None if own is None or own.used is None else own.used.context
    if own is None or own.status is not request.status or named != used:
        return Reason.NOT_A_SURVIVOR
    return broken_site_rule(claims, request.step, limits, check, rules)
