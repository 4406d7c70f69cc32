"""The round as the rank search sees it: what honest sites do when asked anything, and what follows from it.

The adversary writes one ``View`` per honest site and attempt: the U2, h2 and U3 it shows that site and how
far it asks the site to go. ``obey`` cuts each request down to what the rules let the site do; ``play`` turns
the answers into known seeds, the masked vectors into equations, and asks for what is determined. Sets of
sites are bit masks.

Each rule is a field of ``Rules``, so that the search can be run without it and must then find a leak.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, IntEnum

from tests.rank_search.algebra import PRIME, Input, Row, Total, determined, isolates, spans

H_MIN = 3
"""Least number of honest inputs in anything that is opened."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the round that the search can switch off; all on is the round as it is.

    The last three concern iterations, and only these (``iterations``).
    """

    b1: bool = True
    """2t > n + c."""
    b2: bool = True
    """t - c >= h_min."""
    one_kind: bool = True
    """A site answers self seeds of peers in its U3, mask seeds of peers outside, never both (R4.9, R4.10)."""
    quorum: bool = True
    """A site answers only after t signatures over the h1, h2 and U3 that it signed itself (R4.1-R4.4)."""
    self_seed_per_part: bool = True
    """Gate and data have separate self seeds."""
    mask_label_per_part: bool = True
    """Gate and data have separate pairwise mask labels."""
    same_survivors: bool = True
    """A site that signed a U3 signs in a retry only that one."""
    fresh_self_seeds: bool = True
    """Every attempt has its own self seeds."""
    fresh_mask_seeds: bool = True
    """Every attempt has its own mask seeds."""
    masks_bound_to_h2: bool = True
    """h1 and h2 are in the pairwise mask key. A second line: no leak without it."""
    slot_once: bool = True
    """A slot of secrets dealt ahead serves one attempt of its site, and slots only go forward (R0.16)."""
    masks_bound_to_context: bool = True
    """The context, and so iteration and parameters, is in the mask keys; off: they are keyed by slot alone."""
    parameters_recomputed: bool = True
    """A site computes only at the parameters that follow from the sum it added up itself (R5.0, R5.2)."""


class Step(IntEnum):
    """How far a site goes in an attempt; each step includes those before it."""

    MASKED = 1
    SIGNED = 2
    GATE = 3
    DATA = 4


@dataclass(frozen=True, slots=True)
class View:
    """What the adversary shows one honest site, and the step it asks that site to go to."""

    u2: int
    u3: int
    step: Step
    h2: int = 0
    """Which of several h2 over the same U2: other ciphertexts, or another L1, were shown."""

    @property
    def signed(self) -> tuple[int, int, int]:
        """What an R3 signature covers."""
        return self.u2, self.h2, self.u3


@dataclass(frozen=True, slots=True)
class Attempt:
    """One context: its quorum of honest sites and the view of each (None: it sent no masked vector)."""

    quorum: int
    views: tuple[View | None, ...]

    def masked(self) -> Iterator[tuple[int, View]]:
        """Yield the sites that sent a masked vector, with their views."""
        return ((site, view) for site, view in enumerate(self.views) if view is not None)


Case = tuple[Attempt, ...]
"""Attempts over the same inputs, in order."""


class Leak(Enum):
    """What is wrong with what is determined."""

    NOT_OPENED = "more than the totals that a quorum opened"
    TOO_FEW = "a combination about fewer than h_min honest sites"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Totals that a quorum opened, and all that is determined."""

    opened: list[Total]
    determined: list[Total]

    def leaks(self, h_min: int = H_MIN) -> frozenset[Leak]:
        """Return what is wrong; empty if all that is determined was opened and is about enough sites."""
        if not self.determined:
            return frozenset()
        wrong = {
            Leak.NOT_OPENED: not spans(self.opened, self.determined),
            Leak.TOO_FEW: isolates(self.determined, h_min),
        }
        return frozenset(leak for leak, is_so in wrong.items() if is_so)


def members(sites: int) -> Iterator[int]:
    """Yield the sites of a bit mask."""
    return (site for site in range(sites.bit_length()) if sites >> site & 1)


def _may_sign(site: int, view: View, quorum: int) -> bool:
    """R3.1-R3.3: U3 lies within U2, holds the site itself and is large enough."""
    return not view.u3 & ~view.u2 and bool(view.u3 >> site & 1) and view.u3.bit_count() >= quorum


def obey(case: Case, rules: Rules) -> Case:
    """Return the case with every request cut down to what the site does under the rules."""
    signed_before: dict[int, int] = {}
    done: list[Attempt] = []
    for attempt in case:
        quorum = attempt.quorum
        asked = {
            site: view
            for site, view in attempt.masked()
            if view.u2 >> site & 1 and view.u2.bit_count() >= quorum  # R2.2, R2.3
        }
        steps = {site: view.step for site, view in asked.items()}
        for site, view in asked.items():
            another = rules.same_survivors and signed_before.get(site, view.u3) != view.u3
            if another or not _may_sign(site, view, quorum):
                steps[site] = Step.MASKED
        # A quorum of signatures stands behind a gate answer, a quorum of those behind a data answer.
        for step in (Step.SIGNED, Step.GATE) if rules.quorum else (Step.GATE,):
            reached = Counter(view.signed for site, view in asked.items() if steps[site] >= step)
            for site, view in asked.items():
                if steps[site] > step and reached[view.signed] < quorum:
                    steps[site] = step
        signed_before |= {site: asked[site].u3 for site in asked if steps[site] >= Step.SIGNED}
        views = (
            view if view.step == steps[site] else replace(view, step=steps[site])
            for site, view in asked.items()
        )
        by_site = dict(zip(asked, views, strict=True))
        done.append(Attempt(quorum, tuple(by_site.get(site) for site in range(len(attempt.views)))))
    return tuple(done)


def _known_seeds(case: Case, rules: Rules) -> set[tuple[str, int, int]]:
    """Return the seeds (kind, first attempt it is used in, site) that a quorum of sites gave shares of."""
    givers: dict[tuple[str, int, int], int] = {}
    known: set[tuple[str, int, int]] = set()
    for number, attempt in enumerate(case):
        self_from = number if rules.fresh_self_seeds else 0
        mask_from = number if rules.fresh_mask_seeds else 0
        for site, view in attempt.masked():
            if view.step < Step.GATE:
                continue
            for peer in members(view.u2):
                survives = bool(view.u3 >> peer & 1)
                kinds: list[tuple[str, int]] = []
                if survives or not rules.one_kind:
                    kinds.append(("gate", self_from))
                    if view.step >= Step.DATA:
                        kinds.append(("data", self_from))
                if not survives or not rules.one_kind:
                    kinds.append(("mask", mask_from))
                for kind, since in kinds:
                    seed = kind, since, peer
                    givers[seed] = givers.get(seed, 0) | 1 << site
                    if givers[seed].bit_count() >= attempt.quorum:
                        known.add(seed)
    return known


def equations(case: Case, rules: Rules) -> Iterator[Row]:
    """Yield the masked vectors of every attempt, without the masks whose seeds are known."""
    known = _known_seeds(case, rules)
    for number, attempt in enumerate(case):
        self_from = number if rules.fresh_self_seeds else 0
        mask_from = number if rules.fresh_mask_seeds else 0
        lost = {site for kind, since, site in known if kind == "mask" and since == mask_from}
        for site, view in attempt.masked():
            transcript = (view.u2, view.h2) if rules.masks_bound_to_h2 else ()
            partners = [] if site in lost else [j for j in members(view.u2) if j != site and j not in lost]
            for part in ("gate", "data"):
                seeds = (part,) if rules.self_seed_per_part else ("gate", "data")
                masks: dict[Hashable, int] = {}
                if not any((seed, self_from, site) in known for seed in seeds):
                    masks["self", part, number, site] = 1
                label = part if rules.mask_label_per_part else "both"
                for peer in partners:
                    pair = (site, peer) if site < peer else (peer, site)
                    masks["pair", label, number, transcript, pair] = 1 if site < peer else PRIME - 1
                yield Row({(part, site): 1}, masks)


def _opened(case: Case) -> Iterator[Total]:
    """Yield the totals that a quorum of one h1, h2 and U3 agreed to open."""
    for attempt in case:
        for part, step in (("gate", Step.GATE), ("data", Step.DATA)):
            answered = Counter(view.signed for _, view in attempt.masked() if view.step >= step)
            for (_, _, u3), sites in answered.items():
                if sites >= attempt.quorum:
                    total: dict[Input, int] = {(part, site): 1 for site in members(u3)}
                    yield total


def play(case: Case, rules: Rules) -> Outcome:
    """Return what a quorum opened and all that the adversary determines, when it asks for ``case``."""
    done = obey(case, rules)
    return Outcome(list(_opened(done)), determined(equations(done, rules)))
