"""Iterations with secrets dealt ahead, as the rank search sees them.

One exchange deals, per slot, the three seeds of every site. What is about the exchange holds for all its slots:
the quorum, and the h2 that each site saw; U2 is everybody, since slots serve exactly the sites that dealt them.
An attempt at an iteration uses one slot: shares are those of the slot, masks are keyed by the context of the
attempt. The adversary asks any site for any attempt in any order, with any slot, parameters and U3; ``obey``
cuts this down to what the rules let the site do, ``play`` asks for what is determined.

What a site puts into the data part depends on iteration and parameters, and is an unknown of its own for each.
Its gate count does not: it is the number of the same people every time. Two gates that were opened over different
survivors therefore differ by the number of people at the sites that left; this follows from the opened totals
alone, whatever the masks, and ``leaks`` leaves it out.

The opening of a gate, and R5.0 for the data, tell every site the masked vectors and self seeds of the survivors and
the mask seeds of the dropped. The adversary holds all of it already; ``bystanders`` is what corrupt sites, fewer
than t, determine from it without the coordinator.

The adversary may do more here than against the product: R3.7 is not modelled, as in ``model``; a site enters an
iteration although it did not see the one before (R0.13); and slots serve on after somebody dropped out (R0.14,
R0.16). Not modelled is what equal or chosen parameters give away: a site's data in two iterations are unrelated
unknowns, although near the end of a fit they are almost the same numbers.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.rank_search.algebra import PRIME, Input, Row, Total, determined, isolates, spans
from tests.rank_search.model import H_MIN, Leak, Outcome, Rules, Step, members

Seed = tuple[str, int, int]
"""(kind of share, slot, owner)."""
PARTS = (("gate", Step.GATE), ("data", Step.DATA))
"""Each part with the answer that opens it."""


class Context(NamedTuple):
    """What an attempt is opened with; every part of it changes the context hash."""

    iteration: int
    slot: int
    attempt: int = 1
    parameter: int = 0
    """Which parameters are shown; 0 are those that follow from the sum before."""

    def unknown(self, part: str, site: int) -> Input:
        """Return what a site puts into one part of this attempt."""
        return (part if part == "gate" else f"data {self.iteration}.{self.parameter}", site)


@dataclass(frozen=True, slots=True)
class Request:
    """What the adversary shows one honest site in one attempt, and the step it asks that site to go to."""

    site: int
    context: Context
    u3: int
    step: Step


@dataclass(frozen=True, slots=True)
class Fit:
    """Attempts on the slots of one exchange.

    Attributes:
        quorum: honest sites that make a quorum, in every attempt on these slots.
        h2: which of several h2 each honest site saw in the exchange, one label per site.
        requests: in the order in which they reach their sites.
    """

    quorum: int
    h2: tuple[int, ...]
    requests: tuple[Request, ...]

    def statement(self, request: Request) -> tuple[Context, int, int]:
        """Return what an R3 signature covers."""
        return request.context, self.h2[request.site], request.u3

    def agreed(self, step: Step) -> Iterator[tuple[Context, int]]:
        """Yield context and U3 of the statements that a quorum went ``step`` with."""
        reached = Counter(self.statement(request) for request in self.requests if request.step >= step)
        return ((context, u3) for (context, _, u3), sites in reached.items() if sites >= self.quorum)


def obey(fit: Fit, rules: Rules) -> Fit:
    """Return the fit with every request cut down to what the site does under the rules."""
    spent: dict[int, int] = {}
    seen: set[tuple[int, Context]] = set()
    signed: dict[tuple[int, int], int] = {}
    done: list[Request] = []
    steps: list[Step] = []
    for request in fit.requests:
        site, context, u3 = request.site, request.context, request.u3
        if (site, context) in seen:  # R0.3
            continue
        if rules.parameters_recomputed and context.parameter:
            continue
        if rules.slot_once and context.slot <= spent.get(site, 0):
            continue
        seen.add((site, context))
        spent[site] = max(context.slot, spent.get(site, 0))
        another = rules.same_survivors and signed.get((site, context.iteration), u3) != u3
        may_sign = u3 >> site & 1 and u3.bit_count() >= fit.quorum and not another  # R3.2, R3.3
        done.append(request)
        steps.append(request.step if may_sign else Step.MASKED)
        if steps[-1] >= Step.SIGNED:
            signed[site, context.iteration] = u3
    statements = [fit.statement(request) for request in done]
    # A quorum of signatures stands behind a gate answer, a quorum of those behind a data answer.
    for least in (Step.SIGNED, Step.GATE) if rules.quorum else (Step.GATE,):
        reached = Counter(said for said, step in zip(statements, steps, strict=True) if step >= least)
        steps = [
            min(step, least) if reached[said] < fit.quorum else step
            for said, step in zip(statements, steps, strict=True)
        ]
    cut = (
        request if request.step is step else replace(request, step=step)
        for request, step in zip(done, steps, strict=True)
    )
    return replace(fit, requests=tuple(cut))


def _seed(kind: str, slot: int, owner: int, rules: Rules) -> Seed:
    fresh = rules.fresh_mask_seeds if kind == "mask" else rules.fresh_self_seeds
    return kind, slot if fresh else 0, owner


def known_seeds(fit: Fit, rules: Rules) -> set[Seed]:
    """Return the seeds that a quorum of sites gave shares of, whichever attempt each of them answered in."""
    givers: dict[Seed, int] = {}
    for request in fit.requests:
        if request.step < Step.GATE:
            continue
        self_kinds = ("gate", "data") if request.step >= Step.DATA else ("gate",)
        for peer in range(len(fit.h2)):
            survives = request.u3 >> peer & 1
            kinds = (
                *(self_kinds if survives or not rules.one_kind else ()),
                *(("mask",) if not survives or not rules.one_kind else ()),
            )
            for kind in kinds:
                seed = _seed(kind, request.context.slot, peer, rules)
                givers[seed] = givers.get(seed, 0) | 1 << request.site
    return {seed for seed, sites in givers.items() if sites.bit_count() >= fit.quorum}


def told_seeds(fit: Fit, rules: Rules) -> set[Seed]:
    """Return the seeds that every site is told: self seeds of the survivors, mask seeds of the dropped."""
    return {
        _seed(part if u3 >> owner & 1 else "mask", context.slot, owner, rules)
        for part, step in PARTS
        for context, u3 in fit.agreed(step)
        for owner in range(len(fit.h2))
    }


def equations(
    fit: Fit, vectors: Iterable[tuple[str, Request]], known: set[Seed], rules: Rules
) -> Iterator[Row]:
    """Yield masked vectors, each a part of what a request brought, without the masks whose seeds are known."""
    lost = {(slot, owner) for kind, slot, owner in known if kind == "mask"}
    for part, request in vectors:
        site, context = request.site, request.context
        bound: Hashable = context if rules.masks_bound_to_context else context.slot
        transcript = fit.h2[site] if rules.masks_bound_to_h2 else 0
        masks: dict[Hashable, int] = {}
        seeds = (part,) if rules.self_seed_per_part else ("gate", "data")
        if not any(_seed(seed, context.slot, site, rules) in known for seed in seeds):
            masks["self", part, bound, site] = 1
        mask_slot = context.slot if rules.fresh_mask_seeds else 0
        label = part if rules.mask_label_per_part else "both"
        for peer in () if (mask_slot, site) in lost else range(len(fit.h2)):
            if peer != site and (mask_slot, peer) not in lost:
                pair = (site, peer) if site < peer else (peer, site)
                masks["pair", label, bound, transcript, pair] = 1 if site < peer else PRIME - 1
        yield Row({context.unknown(part, site): 1}, masks)


def opened(fit: Fit) -> list[Total]:
    """Return the totals that a quorum of one context, h2 and U3 agreed to open."""
    return [
        {context.unknown(part, site): 1 for site in members(u3)}
        for part, step in PARTS
        for context, u3 in fit.agreed(step)
    ]


def play(fit: Fit, rules: Rules) -> Outcome:
    """Return what a quorum opened and all that the adversary determines, when it asks for ``fit``."""
    done = obey(fit, rules)
    vectors = ((part, request) for part, _ in PARTS for request in done.requests)
    known = known_seeds(done, rules) | told_seeds(done, rules)
    return Outcome(opened(done), determined(equations(done, vectors, known, rules)))


def bystanders(fit: Fit, rules: Rules) -> Outcome:
    """Return what a quorum opened and all that follows from what every site is told, without the coordinator."""
    done = obey(fit, rules)
    vectors = (
        (part, request)
        for part, step in PARTS
        for context, u3 in set(done.agreed(step))
        for request in done.requests
        if request.context == context and u3 >> request.site & 1
    )
    return Outcome(opened(done), determined(equations(done, vectors, told_seeds(done, rules), rules)))


def leaks(outcome: Outcome) -> frozenset[Leak]:
    """Return what is wrong, as ``Outcome.leaks`` does, gates of different survivors aside.

    Everything that is determined must follow from the opened totals; what is determined about data must be about
    enough sites.
    """
    if not outcome.determined:
        return frozenset()
    data: list[Total] = [
        {unknown: x for unknown, x in total.items() if unknown[0] != "gate"} for total in outcome.determined
    ]
    wrong = {
        Leak.NOT_OPENED: not spans(outcome.opened, outcome.determined),
        Leak.TOO_FEW: isolates(data, H_MIN),
    }
    return frozenset(leak for leak, is_so in wrong.items() if is_so)
