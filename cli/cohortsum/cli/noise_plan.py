"""The noise of a study on the screen: what it promises, what it costs, and how it stands beside the sampling error."""

from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cohortsum.protocol.bounds import allowed_sizes
from cohortsum.study.claim import claim_of, sentences
from cohortsum.study.forecasting import NONSENSE, USEFUL, Line, advice
from cohortsum.study.planning import Sites, StudyPlan
from cohortsum.study.spending import spending_of

MOST_LINES = 12
"""Of one analysis on the screen, the worst first; the rest is counted."""


def print_noise(plan: StudyPlan, lines: tuple[Line, ...], people: int, console: Console) -> None:
    """Print what the noise of a study does and promises; nothing without noise.

    Args:
        plan: of the study.
        lines: its forecasts.
        people: that they are for.
        console: to print on.
    """
    spending, noise = spending_of(plan), plan.round.noise
    if spending is None or noise is None:
        return
    protection = plan.round.protection
    most = max(allowed_sizes(plan.round.sites_invited, protection))
    table = Table(
        title=f"Noise beside sampling error, {people:,} people in {most} sites (standard errors)",
        title_justify="left",
    )
    for heading in ("analysis", "number"):
        table.add_column(heading)
    for heading in ("noise", "sampling", "ratio", "counts as"):
        table.add_column(heading, justify="right")
    for analysis, held in groupby(lines, key=lambda line: line.analysis):
        listed = sorted(held, key=lambda line: -line.forecast.ratio)
        for line in listed[:MOST_LINES]:
            found = line.forecast
            style = "red" if found.ratio > NONSENSE else "yellow" if found.ratio > USEFUL else ""
            table.add_row(
                escape(analysis),
                escape(found.what),
                f"{found.noise_se:.3g} {escape(found.unit)}",
                f"{found.sampling_se:.3g}",
                f"{found.ratio:.2f}",
                f"{people / (1 + found.ratio**2):,.0f} people",
                style=style,
            )
        if len(listed) > MOST_LINES:
            table.add_row("", f"and {len(listed) - MOST_LINES:,} more, none worse", "", "", "", "")
    console.print(table)
    worst = max(lines, key=lambda line: line.forecast.ratio)
    if worst.cure is not None:
        console.print(f"{worst.analysis}, {worst.forecast.what}: {advice(worst.cure)}.", markup=False)
    console.print(
        "Sampling errors assume that a public range spans four standard deviations each way, and groups of one size."
    )
    parted = [name for name, spec in plan.study.analyses.items() if spec.where is not None]
    if parted:
        console.print(
            f"How many people a `where` leaves is not known here: {', '.join(parted)} will do worse than shown; give --people of the "
            "smallest subgroup.",
            markup=False,
        )
    console.print()
    claim = claim_of(plan, Sites(most, most), plan.most_rounds)
    if claim is not None:
        console.print("[bold]What the noise promises[/bold]")
        for sentence in sentences(claim):
            console.print(sentence, markup=False)
    attempts = spending.attempts
    console.print(
        f"Every site sets aside epsilon {spending.epsilon:.3g} of its lifetime budget: {attempts} charged "
        f"{'attempt' if attempts == 1 else 'attempts'} at most; what is not needed is given back.\n",
        markup=False,
    )
