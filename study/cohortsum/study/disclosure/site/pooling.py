"""Pattern pooling: outcomes whose people at a site differ by a few are brought to the same people.

The sums of one model over two outcomes' people are opened side by side. Where the sets differ by 1 to k-1 people, the difference of the
two is about those people alone: of ``X'X`` it is their covariates. So they are dropped from both, for those outcomes at this site.

Dropping moves sets toward others, so this goes in levels. A set of 1 to k-1 people is emptied. Then, while two sets differ by fewer
than k: at the least such distance, sets that are linked at exactly this distance (A to B, B to C: a chain) all become their
intersection. The nearest first keeps a chain from pulling in what a step has moved beyond k already; all of one level at once makes
the outcome a property of the sets, whatever the order of people and of outcomes. Every level leaves fewer distinct sets, so it ends,
and then any two are equal or k people apart: nothing is left to pool in a second run. It drops few people, not provably the fewest.

**Anchors** are sets that lose nobody: those whose sums are opened whatever becomes of the outcomes. They are not compared with each
other: the people rule judges them. An outcome equal to one stays as it is and tells nothing more; the others are pooled among themselves, and one that is then 1 to k-1 people from an anchor is *left out*: nothing of it is supplied.
What is an anchor, and what of the cohort?

- The cohort's number of people alone (the gate, the first block) is no reason: beside an outcome's n it tells how many people lack the
  outcome, as a column of missing counts does, and nothing else of them.
- The cohort is an anchor if a sum over all its people of anything but 1 is opened: a mean of age over everybody, beside the sum of age
  over an outcome's people, leaves the ages of the few who lack it. So is the set of any by-group or model that stays as it is.
- Leaving out an outcome for one missing value is much. The other cure is to give the cohort (and every such set) as a further column:
  it is pooled like an outcome, and whoever leaves it takes part nowhere in the study, in the gate's count neither.

What holds afterwards is about two sets at a time. Combinations of three, and sets of other rounds, are the people rule's
(`protocol.ledger`); it is asked about the pooled sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.disclosure.site.finding import Finding, SiteRule

Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]

DEFAULT_K = 5


@dataclass(frozen=True, slots=True)
class Pooled:
    """Who counts for which outcome. It never leaves the site.

    Attributes:
        has_value: (people, outcomes); a part of what was given.
        left_out: (outcomes,) which ones had people and have none now: near an anchor, or about fewer than k people.
        changed: (outcomes,) which ones lost people.
    """

    has_value: Bools = field(repr=False)
    left_out: Bools = field(repr=False)
    changed: Bools = field(repr=False)

    def findings(self, outcomes: Sequence[str]) -> tuple[Finding, ...]:
        """Return one finding per outcome that is left out, in the order of ``outcomes``, their names."""
        sentence = "its people are too few, or differ by too few from people whose sums are opened anyway"
        return tuple(
            Finding(SiteRule.PATTERN_DIFFERENCE, name, sentence)
            for name, out in zip(outcomes, self.left_out, strict=True)
            if out
        )


def pool_patterns(has_value: Bools, k: int = DEFAULT_K, anchors: Bools | None = None) -> Pooled:
    """Return the people of every outcome such that any two sets are equal or at least k people apart, unless both are anchors'.

    It depends on the sets alone: people in another order give the same people, outcomes in another order the same sets, and what
    was pooled stays as it is. 1000 outcomes of 10,000 people take about a second.

    Args:
        has_value: (people of the cohort, outcomes), True where a person counts for an outcome.
        k: ``pattern_difference``, at least 1, which changes nothing.
        anchors: (people of the cohort, anchors), sets that lose nobody; None for none.

    Raises:
        ValueError: k below 1, or arrays of other shapes.
    """
    people = len(has_value)
    fixed = np.zeros((people, 0), np.bool_) if anchors is None else anchors
    if k < 1 or has_value.ndim != 2 or fixed.ndim != 2 or len(fixed) != people:
        raise ValueError("k is at least 1, has_value (people, outcomes), anchors (people, anchors)")
    sets, held = _packed(has_value), _packed(fixed)
    free = _nearest(sets, held) > 0
    pooled = sets.copy()
    pooled[free] = _settled(sets[free], k)
    nearest = _nearest(pooled, held)
    pooled[(nearest > 0) & (nearest < k)] = 0
    after, before = np.bitwise_count(pooled).sum(axis=1), np.bitwise_count(sets).sum(axis=1)
    return Pooled(_unpacked(pooled, people), (after == 0) & (before > 0), after < before)


def _settled(sets: Words, k: int) -> Words:
    """Return every set after pooling, (sets, words): the levels of the module's docstring."""
    distinct, owner = np.unique(sets, axis=0, return_inverse=True)
    distinct = _without_few(distinct, k)
    near = _distances(distinct, distinct, k)
    np.fill_diagonal(near, k)
    while len(distinct) > 1 and (least := int(near.min())) < k:
        label = _linked(near == least)
        number = int(label.max()) + 1
        sizes = np.bincount(label, minlength=number)
        alone = np.flatnonzero(sizes[label] == 1)
        joint = np.array(
            [np.bitwise_and.reduce(distinct[label == one]) for one in np.flatnonzero(sizes > 1)], np.uint64
        )
        joint = _without_few(joint, k)
        place = np.empty(number, np.intp)
        place[label[alone]] = np.arange(len(alone))
        place[sizes > 1] = len(alone) + np.arange(len(joint))
        owner = place[label[owner]]
        distinct = np.concatenate((distinct[alone], joint))
        across = _distances(joint, distinct, k)
        across[np.arange(len(joint)), len(alone) + np.arange(len(joint))] = k
        near = np.concatenate(
            (np.concatenate((near[np.ix_(alone, alone)], across[:, : len(alone)].T), axis=1), across)
        )
    return distinct[owner]


def _linked(edges: Bools) -> NDArray[np.intp]:
    """Return the number of every node's component, (nodes,) from 0 by first node; ``edges`` is symmetric."""
    label = np.full(len(edges), -1, np.intp)
    number = 0
    for start in range(len(edges)):
        if label[start] >= 0:
            continue
        front = np.array([start])
        while len(front):
            label[front] = number
            front = np.flatnonzero(edges[front].any(axis=0) & (label < 0))
        number += 1
    return label


def _without_few(sets: Words, k: int) -> Words:
    """Return the sets with those of fewer than k people emptied."""
    few = np.bitwise_count(sets).sum(axis=1) < k
    return np.where(few[:, None], np.uint64(0), sets)


def _distances(sets: Words, others: Words, most: int) -> NDArray[np.int32]:
    """Return in how many people sets differ, (sets, others), at most ``most``."""
    found = np.empty((len(sets), len(others)), np.int32)
    for row, one in enumerate(sets):
        np.minimum(np.bitwise_count(others ^ one).sum(axis=1, dtype=np.int32), most, out=found[row])
    return found


def _nearest(sets: Words, anchors: Words) -> NDArray[np.int64]:
    """Return how far the nearest anchor is from every set, (sets,); far beyond any number of people if there is none."""
    nearest = np.full(len(sets), np.iinfo(np.int64).max)
    for anchor in anchors:
        np.minimum(nearest, np.bitwise_count(sets ^ anchor).sum(axis=1, dtype=np.int64), out=nearest)
    return nearest


def _packed(columns: Bools) -> Words:
    """Return the columns as bits, (columns, words), at least one word each, the last one filled up with zeros."""
    people, number = columns.shape
    filled = np.zeros((number, max(1, -(-people // 64)) * 64), np.bool_)
    filled[:, :people] = columns.T
    return np.packbits(filled, axis=1).view(np.uint64)


def _unpacked(sets: Words, people: int) -> Bools:
    """Return the columns behind bits, (people, columns)."""
    return np.unpackbits(sets.view(np.uint8), axis=1, count=people).astype(np.bool_).T
