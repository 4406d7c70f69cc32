"""`cohortsum audit`: attacks on what a study would release or a site could tell, on invented people or on a site's own."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import Progress
from rich.table import Table

from cohortsum.cli import audit_reidentify
from cohortsum.cli.consoles import output
from cohortsum.cli.study import invented_roster, read_study
from cohortsum.crypto.errors import PolicyError
from cohortsum.study.audit.membership import BAR, POPULATION, attack
from cohortsum.study.definition import refuse_unbuilt
from cohortsum.study.planning import plan_study

app = typer.Typer(
    no_args_is_help=True, help="Attack what a study would release, or what vectors and sums of scans tell."
)
app.command("reidentify")(audit_reidentify.reidentify)


@app.callback()
def audit() -> None:
    """Attack what a study would release, or what vectors and sums of scans tell."""


@app.command()
def membership(
    file: Annotated[Path, typer.Argument(help="The study file.", metavar="STUDY")],
    sites: Annotated[
        int | None, typer.Option(help="For this many invited sites; min_sites by default.", min=1)
    ] = None,
    people: Annotated[
        int | None, typer.Option(help="Of the cohort; min_participants by default.", min=1)
    ] = None,
    targets: Annotated[int, typer.Option(help="People to attack, half of them in the cohort.", min=20)] = 400,
) -> None:
    """Print how well an attacker tells who was in the cohort from what the study opens, without and with its noise."""
    study = read_study(file)
    refuse_unbuilt(study)
    plan = plan_study(study, invented_roster(study, sites or study.protection.min_sites))
    console = output()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("attacking", total=targets // 2 * 2 + POPULATION)
        found = attack(
            plan,
            people or study.protection.min_participants,
            targets,
            np.random.default_rng(),
            lambda done: progress.update(task, completed=done),
        )
    table = Table(title="Was this person in the cohort?", title_justify="left")
    for heading in ("release", "attacker's AUC", f"bar {BAR:g}"):
        table.add_column(heading, justify="left" if heading == "release" else "right")
    table.add_row("exact sums", f"{found.without:.3f}", "below" if found.without < BAR else "ABOVE")
    if found.protected is not None:
        said = f"{study.privacy.noise} noise, epsilon {study.privacy.epsilon:g}"
        table.add_row(said, f"{found.protected:.3f}", "below" if found.protected < BAR else "ABOVE")
    console.print(table)
    console.print(
        f"{found.people:,} invented people in {found.sites} sites, {found.numbers:,} numbers, {found.targets} people attacked; an AUC "
        f"of one half has standard error {found.error:.3f}.\nInvented values are independent, which is the attacker's best case."
    )
    if found.verdict >= BAR:
        raise PolicyError(
            f"study {study.study}: the attacker's AUC on what would be released is {found.verdict:.3f}, not below {BAR:g}; ask for fewer "
            "numbers, more people or less epsilon"
        )
