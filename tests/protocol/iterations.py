"""A fit in memory: iterations over one cohort, each with parameters that every party derives from the sum before.

The *parameter* of an iteration is the opened sum of data words of the one before; a site's values in it are its powers of two
times that, so that a wrong parameter shows in the next sum. Iteration 2 deals ahead for those after it.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.masks import add_masks
from cohortsum.protocol.ahead import Ahead
from cohortsum.protocol.approvals import ApprovalBook
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import CoordinatorSetup, DealtAhead, Opened
from cohortsum.protocol.effects import (
    Combine,
    CoordinatorEffect,
    SiteEffect,
    SumSeen,
    SurvivorsNamed,
)
from cohortsum.protocol.effects import DealtAhead as DealtAheadHere
from cohortsum.protocol.masking import add_words, words_to_bytes
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.site import SiteRound
from tests.protocol.consortium import Consortium, protection

N = 5
EVERYBODY = tuple(range(N))


def plan_at(base: RoundPlan, iteration: int, parameter: int) -> RoundPlan:
    """Return the plan of an iteration, the parameter hashed into it."""
    said = hashlib.sha256(str(parameter).encode()).digest() if iteration > 1 else b""
    return replace(base, seen=True, iteration=iteration, parameters=said)


@dataclass
class Attempted(Consortium):
    """One attempt at one iteration; ``seen`` is what each site recomputed."""

    iteration: int = 1
    parameters: Mapping[int, int] = field(default_factory=dict[int, int])
    previous: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    held: Mapping[int, Ahead] = field(default_factory=dict[int, Ahead])
    ahead: int = 0
    dealt: DealtAhead | None = None
    slot: int = 0
    told: Callable[[int], int] = lambda parameter: parameter
    disclose: Callable[[Mapping[int, bytes]], Mapping[int, bytes]] = lambda words: words

    def __post_init__(self) -> None:
        self.seen_sums: dict[int, NDArray[np.int64]] = {}
        self.now_held: dict[int, Ahead] = {}
        self.named: dict[int, tuple[int, ...]] = {}
        super().__post_init__()
        base = self.coordinator.setup
        truth = next(iter(self.parameters.values()), 0)
        plan = plan_at(self.plan, self.iteration, self.told(truth))
        self.coordinator_key = RoundKey(
            hashlib.sha256(b"fit").digest()[:16], self.iteration, self.coordinator_key.attempt
        )
        self.coordinator = CoordinatorRound(
            CoordinatorSetup(
                base.signer,
                base.roster,
                plan,
                base.approvals,
                self.coordinator_bound,
                ahead=self.ahead,
                dealt=self.dealt,
                slot=self.slot,
            ),
            self.coordinator_key,
        )

    def site(self, index: int, **changes: object) -> SiteRound:
        plan = plan_at(self.plan, self.iteration, self.parameters.get(index, 0))
        fields = {
            "plan": plan,
            "approvals": ApprovalBook(plan, self.roster),
            "previous": self.previous.get(index),
            "ahead": self.held.get(index),
        }
        return super().site(index, **fields | changes)

    def values(self, index: int, length: int) -> NDArray[np.int64]:
        values = super().values(index, length)
        values[1:] *= 1 + self.parameters.get(index, 0)
        return values

    def from_site(self, index: int, effects: tuple[SiteEffect, ...]) -> None:
        for effect in effects:
            match effect:
                case SumSeen():
                    self.seen_sums[index] = effect.values
                case DealtAheadHere():
                    self.now_held[index] = effect.secrets
                case SurvivorsNamed():
                    self.named[index] = effect.survivors
                case _:
                    pass
        super().from_site(index, effects)

    def from_coordinator(self, effects: tuple[CoordinatorEffect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Combine):
                total = add_words((self.uploads[s] for s in effect.survivors), self.coordinator.length)
                add_masks(total, effect.keys.plus, effect.keys.minus)
                words = {site: words_to_bytes(self.uploads[site]) for site in effect.survivors}
                super().from_coordinator(
                    self.coordinator.combined(total, lambda _, held=words: self.disclose(held))  # type: ignore[misc]
                )
            else:
                super().from_coordinator((effect,))


def parameter_of(values: NDArray[np.int64]) -> int:
    """Return what the next iteration depends on."""
    return int(values[1]) % 5


def after(attempt: Attempted, **changes: object) -> Attempted:
    """Return the next iteration: each site goes by the sum it saw, the coordinator by the one it opened."""
    state = attempt.coordinator.state
    assert isinstance(state, Opened)
    held = attempt.now_held or attempt.held
    dealt = attempt.coordinator.dealt_ahead or attempt.dealt
    fields: dict[str, object] = {
        "sites": attempt.sites,
        "protection": attempt.protection,
        "members": state.survivors,
        "coordinator_bound": state.survivors,
        "iteration": attempt.iteration + 1,
        "parameters": {index: parameter_of(values) for index, values in attempt.seen_sums.items()},
        "previous": dict.fromkeys(state.survivors, state.survivors),
        "held": held,
        "dealt": dealt,
        "slot": attempt.slot + 1 if dealt is not None else 0,
        "seed": f"round {attempt.iteration + 1}",
    }
    return Attempted(**{**fields, **changes})  # type: ignore[arg-type]


def first(**changes: object) -> Attempted:
    """Return iteration 1."""
    fields: dict[str, object] = {"sites": N, "protection": protection()}
    return Attempted(**{**fields, **changes})  # type: ignore[arg-type]
