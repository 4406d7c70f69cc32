"""What a site's admin sees of the privacy budget: what is spent, what is set aside, and what one more study would leave."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cohortsum.node.budget import Account, Limit, costs_of
from cohortsum.node.config import load_policy_config
from cohortsum.node.findings import Finding, failure, ok
from cohortsum.node.ledger import Ledger
from cohortsum.node.policy import budget_of
from cohortsum.study.planning import StudyPlan
from cohortsum.study.privacy.lifetime import lifetime_epsilon, within
from cohortsum.study.spending import spending_of


@dataclass(frozen=True, slots=True)
class BudgetView:
    """The budget of a site's data over all studies.

    Attributes:
        limit: as policy.yaml or the default says.
        accounts: every study with noise that was joined, in order of time.
        spent: epsilon of everything charged, at the limit's delta, for one person's values replaced.
        counted: the same with what is still set aside.
    """

    limit: Limit
    accounts: tuple[Account, ...]
    spent: float
    counted: float


def budget_view(folder: Path) -> BudgetView:
    """Return the budget of the node in ``folder``."""
    limit = budget_of(load_policy_config(folder / "policy.yaml"))
    with closing(Ledger(folder / "ledger.db")) as ledger:
        accounts = ledger.budget.accounts()
    charged = tuple({held.cost: held.charged} for held in accounts if held.charged)
    return BudgetView(
        limit,
        accounts,
        lifetime_epsilon(charged, limit.delta),
        lifetime_epsilon(costs_of(accounts), limit.delta),
    )


def forecast_budget(folder: Path, plan: StudyPlan) -> Finding:
    """Return what a study would leave of the budget here."""
    spending = spending_of(plan)
    if spending is None:
        return ok(
            "budget",
            "no noise: nothing of the privacy budget is spent, and nothing protects but the thresholds",
        )
    view = budget_view(folder)
    others = costs_of([held for held in view.accounts if held.study != plan.study.digest])
    limit, asked = view.limit, {spending.cost: spending.attempts}
    before, after = lifetime_epsilon(others, limit.delta), lifetime_epsilon((*others, asked), limit.delta)
    said = (
        f"it may cost epsilon {spending.epsilon:.3g}; spent or set aside goes from {before:.3g} to at most {after:.3g} of "
        f"{limit.epsilon:g} (delta {limit.delta:g})"
    )
    if not within((*others, asked), limit.epsilon, limit.delta):
        return failure(
            "budget", said, "decline; or raise budget in policy.yaml, which is for the data's whole lifetime"
        )
    return ok("budget", said)
