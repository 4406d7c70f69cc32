"""The release ledger at this site: what it supplies, given whom it has answered for before.

Asked twice. When a study is considered, block by block: an outcome whose people set would leave too few people over is not
supplied, and if the cohort itself would, the site stays out. And when the masked input is written, about exactly what
travels, in the same transaction: whatever was answered meanwhile counts. The rule and its proof are `cohortsum.protocol.ledger`.

The people rule holds at a derivable site where policy.yaml sets ``thresholds.set_difference`` (k); without it the admin has declared
that the data may be public. A protected site (``site_totals: protected``) is opened once, and its people sets must overlap as
the public study says for everybody (`study.cells`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cohortsum.crypto.errors import PolicyError
from cohortsum.protocol.ledger import (
    AskedSet,
    History,
    Limits,
    PeopleSet,
    Refused,
    Request,
    may_answer,
)
from cohortsum.protocol.ledger.people import Allowed, NearDuplicate, PeopleOutcome, judge
from cohortsum.protocol.plan import PlannedBlock
from cohortsum.study.planning import PEOPLE, StudyPlan, analysis_item


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the rule lets a site supply.

    Attributes:
        supplied: supply items.
        left_out: why others are not supplied, by item; stays at the site.
    """

    supplied: frozenset[str]
    left_out: Mapping[str, str] = field(repr=False)


def allowance(
    plan: StudyPlan,
    people: Mapping[str, PeopleSet],
    supplied: frozenset[str],
    history: History,
    limits: Limits,
) -> Allowance:
    """Return what of ``supplied`` the rule allows; raises PolicyError where the cohort itself may not be answered for.

    Args:
        plan: of the study.
        people: the people sets that this site would send numbers about, by name.
        supplied: the items that the data allow.
        history: whom this site has answered for.
        limits: k and the bounds of the search.
    """
    left_out: dict[str, str] = {}
    while True:
        kept = supplied - left_out.keys()
        found = _first_refused(plan, people, kept, history, limits)
        if found is None:
            return Allowance(kept, left_out)
        block, outcome = found
        reason = _sentence(outcome, limits)
        if block.name == PEOPLE.name:
            raise PolicyError(f"study {plan.study.study}: the people of the cohort: {reason}")
        left_out |= dict.fromkeys(_items_of(plan, block), reason)


def asked_sets(
    plan: StudyPlan,
    people: Mapping[str, PeopleSet],
    blocks: Sequence[PlannedBlock],
    supplied: frozenset[str],
    minimum: int,
) -> tuple[AskedSet, ...]:
    """Return the people sets that this site sends numbers about in ``blocks``; empty ones are about nobody."""
    names = {name: None for block in blocks for name in _sets_of(plan, block, supplied)}
    return tuple(AskedSet(name, people[name], minimum) for name in names if name in people)


def check_write(history: History, request: Request, limits: Limits) -> None:
    """Raise PolicyError unless the masked input of ``request`` may be written now, given everything written so far.

    Under charged noise any people may be answered for, in as many attempts as the study has per round.
    """
    decision = may_answer(history, request, limits, lambda _named, _site, _signature: False)
    if isinstance(decision, Refused):
        raise PolicyError(f"the release ledger: {decision.reason}")


def _first_refused(
    plan: StudyPlan,
    people: Mapping[str, PeopleSet],
    supplied: frozenset[str],
    history: History,
    limits: Limits,
) -> tuple[PlannedBlock, PeopleOutcome] | None:
    recorded, accepted = history.recorded(), frozenset[PeopleSet]()
    for block in plan.round.blocks:
        for name in _sets_of(plan, block, supplied):
            held = people.get(name)
            if held is None or held in accepted:
                continue
            outcome = judge(recorded | accepted, held, limits)
            if not isinstance(outcome, Allowed):
                return block, outcome
            accepted |= {held}
    return None


def _sets_of(plan: StudyPlan, block: PlannedBlock, supplied: frozenset[str]) -> Iterator[str]:
    """Yield the people sets that a block is about, where this site supplies it."""
    if block.name == PEOPLE.name:
        yield PEOPLE.name
    elif not block.supply or block.supply[0] <= supplied:
        yield from plan.sets_of(block.name)


def _items_of(plan: StudyPlan, block: PlannedBlock) -> frozenset[str]:
    """Return the items without which a block is not supplied: its outcome, or else its whole analysis."""
    first = block.supply[0] & frozenset(plan.round.items)
    outcomes = first & plan.study.numbers.keys()
    analyses = {analysis_item(statistic.name) for statistic in plan.statistics}
    return frozenset(outcomes) or (first & analyses)


def _sentence(outcome: PeopleOutcome, limits: Limits) -> str:
    match outcome:
        case NearDuplicate():
            return (
                f"they differ from people answered for before by fewer than {limits.k}; wait until more have changed, or ask for "
                "exactly the same people"
            )
        case Allowed():
            return "allowed"
        case _:
            return str(outcome.reason)
