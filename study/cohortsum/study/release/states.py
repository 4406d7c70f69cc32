"""Where an item of a release stands, and which steps lead where: one table, and nothing beside it.

::

    computed -> checks -> queue -> released -> retracted
                   |        |
                   |        +----> returned -> computed (with other content)
                   +--------+----> withheld

The checks are the gate's: what it withholds never reaches the queue. Values leave in the state ``released`` and in no other.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from cohortsum.crypto.errors import RefusedError


class State(StrEnum):
    """Where an item stands."""

    COMPUTED = "computed"
    CHECKS = "checks"
    QUEUE = "queue"
    RELEASED = "released"
    RETURNED = "returned"
    WITHHELD = "withheld"
    RETRACTED = "retracted"


class Step(StrEnum):
    """What moves an item; `REFUSE` is the gate's, and no decision of anybody's."""

    CHECK = "check"
    REFUSE = "refuse"
    PASS = "pass"  # noqa: S105 - no password
    RELEASE = "release"
    RETURN = "return"
    WITHHOLD = "withhold"
    COMPUTE = "compute"
    RETRACT = "retract"


TRANSITIONS: Mapping[tuple[State, Step], State] = MappingProxyType(
    {
        (State.COMPUTED, Step.CHECK): State.CHECKS,
        (State.CHECKS, Step.PASS): State.QUEUE,
        (State.CHECKS, Step.REFUSE): State.WITHHELD,
        (State.QUEUE, Step.RELEASE): State.RELEASED,
        (State.QUEUE, Step.RETURN): State.RETURNED,
        (State.QUEUE, Step.WITHHOLD): State.WITHHELD,
        (State.RETURNED, Step.COMPUTE): State.COMPUTED,
        (State.RELEASED, Step.RETRACT): State.RETRACTED,
    }
)
"""Every legal step."""


def after(state: State, step: Step, item: str) -> State:
    """Return the state that a step leads to; raises RefusedError where it leads nowhere."""
    following = TRANSITIONS.get((state, step))
    if following is None:
        fitting = sorted(start for start, one in TRANSITIONS if one is step)
        raise RefusedError(f"{item} is {_said(state)}; {step} is for an item that is {_listed(fitting)}")
    return following


def _said(state: State) -> str:
    return "in the queue" if state is State.QUEUE else "in its checks" if state is State.CHECKS else state


def _listed(states: list[State]) -> str:
    return " or ".join(map(_said, states))
