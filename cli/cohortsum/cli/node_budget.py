"""`cohortsum node budget`: what this site has spent of its people's privacy, study by study."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from cohortsum.cli.consoles import output
from cohortsum.cli.node_admin import Folder
from cohortsum.node.budget import Account
from cohortsum.node.budget_view import BudgetView, budget_view
from cohortsum.study.privacy.lifetime import lifetime_epsilon

WIDTH = 40


def budget(
    folder: Folder,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Show the privacy budget of this site's data: spent, set aside, left, and by which study."""
    view = budget_view(folder)
    if as_json:
        typer.echo(json.dumps(_plain(view), indent=1))
        return
    console, limit = output(), view.limit
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("study", "version", "neighbours"):
        table.add_column(heading, overflow="fold")
    for heading in ("epsilon an attempt", "set aside", "charged", "refunded", "state"):
        table.add_column(heading, justify="right")
    for held in view.accounts:
        table.add_row(
            escape(held.name),
            str(held.version),
            held.cost.adjacency.replace("_", " "),
            f"{_worth(view, held):.3g}",
            str(held.counted - held.charged),
            str(held.charged),
            str(held.refunded),
            "open" if held.open else "over",
        )
    if view.accounts:
        console.print(table)
    else:
        console.print("No study with noise has been joined here.\n")
    console.print(
        f"spent          epsilon {view.spent:.3g} of {limit.epsilon:g} (delta {limit.delta:g}), one person's values replaced\n"
        f"with set aside epsilon {view.counted:.3g}",
        highlight=False,
    )
    console.print(
        ProgressBar(total=limit.epsilon, completed=min(view.counted, limit.epsilon), width=WIDTH), ""
    )
    console.print(
        "Epsilons do not add up: two attempts together cost less than twice one.\nStudies without noise are not in this list."
    )


def _worth(view: BudgetView, held: Account) -> float:
    return lifetime_epsilon(({held.cost: 1},), view.limit.delta)


def _plain(view: BudgetView) -> dict[str, object]:
    accounts = [
        {
            "study": held.name,
            "version": held.version,
            "digest": held.study.hex(),
            "cost": asdict(held.cost),
            "reserved": held.reserved,
            "charged": held.charged,
            "refunded": held.refunded,
            "open": held.open,
        }
        for held in view.accounts
    ]
    return {
        "epsilon": view.limit.epsilon,
        "delta": view.limit.delta,
        "spent": view.spent,
        "with_reserves": view.counted,
        "studies": accounts,
    }
