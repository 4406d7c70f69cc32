"""Where a study stands in its rounds, as the coordinator knows it: what has opened, what comes next, what was dealt ahead."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cohortsum.coordinator.record import OpenedIteration
from cohortsum.protocol.coordinator_states import DealtAhead
from cohortsum.study.planning import Integers, Sites, StudyPlan

MOST_AHEAD = 10
"""Secrets dealt in one exchange: what most fits need. One costs a site a key pair, and three shares for every other site."""


@dataclass(slots=True)
class Course:
    """The rounds of one study.

    Attributes:
        plan: of the next round, or of the last one.
        opened: what has opened, in order.
        over: whether no round follows.
        dealt: secrets dealt ahead that no attempt has spent, or None.
        slot: the first of them that is not spent.
        protected: whether one of its sites is protected; then none may be missing.
        earlier: sums of an earlier version that the first round did not open anew.
    """

    plan: StudyPlan
    opened: list[OpenedIteration] = field(default_factory=list[OpenedIteration])
    over: bool = False
    dealt: DealtAhead | None = None
    slot: int = 1
    protected: bool = False
    earlier: Mapping[str, Integers] = field(default_factory=dict[str, Integers])

    @property
    def iteration(self) -> int:
        """The number of the round that comes next."""
        return self.plan.round.iteration

    @property
    def cohort(self) -> tuple[int, ...]:
        """The sites that the next round may have; empty before the first."""
        return self.opened[-1].survivors if self.opened else ()

    @property
    def sums(self) -> Mapping[str, Integers]:
        """The sums of the last round that opened."""
        return {**self.earlier, **self.opened[-1].sums}

    @property
    def sites(self) -> Sites:
        """How many sites took part in the last round that opened, and are in its sum."""
        return Sites(len(self.opened[-1].advertised), len(self.opened[-1].survivors))

    def take(self, opened: OpenedIteration) -> None:
        """Go on from a round that opened."""
        self.opened.append(opened)
        following = self.plan.advance(self.sums)
        if following is None:
            self.over = True
        else:
            self.plan, self.earlier = following, {}

    def usable(self, members: tuple[int, ...]) -> DealtAhead | None:
        """Return secrets dealt ahead by exactly these sites, if there are any left."""
        dealt = self.dealt
        return dealt if dealt is not None and dealt.members == members and self.slot <= dealt.slots else None

    def ahead(self) -> int:
        """Return for how many further rounds the next one is to deal, if it deals."""
        return min(MOST_AHEAD, self.plan.most_rounds - 1) if self.iteration > 1 else 0
