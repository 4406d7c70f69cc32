"""`cohortsum demo`: nine invented sites, one study, one masked round, and the pooled answer beside the federated one."""

import shutil
import tempfile
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table as RichTable

from cohortsum.cli.consoles import messages, output
from cohortsum.cli.demo_data import OUTCOMES, write_demo_tables
from cohortsum.cli.pooled import fit_demo
from cohortsum.cli.results import read_document, show_table
from cohortsum.cli.simulate.command import run_simulation
from cohortsum.report.document import provenance
from cohortsum.report.effects import read_effects
from cohortsum.study.definition import freeze, load_study

STUDY = "asd-open.yaml"
TABLES = "tables"
EFFECT = "dx[autism]"
SHOWN = 10


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Folder for data and results; a new one by default.")
    ] = None,
    in_process: Annotated[bool, typer.Option(help="One process, no sockets.")] = False,
) -> None:
    """Run a nine-site masked study on synthetic data and compare it with the pooled fit."""
    console, errors = output(), messages()
    folder = out or Path("cohortsum-out") / f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    study = freeze(load_study((files("cohortsum.cli") / "data" / STUDY).read_bytes(), STUDY))
    with tempfile.TemporaryDirectory(prefix="cohortsum-demo-") as scratch:
        made = Path(scratch)
        write_demo_tables(made)
        run_simulation(study, made, folder, None, None, "open_data", in_process, errors)
        shutil.copytree(made, folder / TABLES)  # only now: a run wants its folder empty
    answers = fit_demo({path.stem: path for path in sorted((folder / TABLES).glob("*.csv"))}, OUTCOMES)
    document = read_document(folder)
    by_name = {block.analysis: block.table() for block in document.tables}
    show_table(console, by_name["demographics"], None)
    table = by_name["thickness"]
    show_table(console, table, SHOWN)

    name, term, b = (table.columns.index(column) for column in ("outcome", "term", "b"))
    federated = {
        str(row[name]): value
        for row in table.rows
        if row[term] == EFFECT and isinstance(value := row[b], float)
    }
    strongest = sorted(
        read_effects(table, EFFECT).rows, key=lambda row: row.p if isinstance(row.p, float) else 2.0
    )
    beside = RichTable(
        title=escape(f"The same coefficient of {EFFECT} in mm, three ways"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    beside.add_column("outcome", overflow="fold")
    for heading in ("federated", "all rows", "mean of site fits"):
        beside.add_column(heading, justify="right", no_wrap=True)
    for effect in strongest[:SHOWN]:
        outcome = effect.outcome
        answer = answers[outcome]
        beside.add_row(outcome, f"{federated[outcome]:.9f}", f"{answer.pooled:.9f}", f"{answer.averaged:.9f}")
    console.print(beside)
    worst = max(abs(federated[outcome] / answers[outcome].pooled - 1) for outcome in OUTCOMES)
    console.print(
        f"Over all {len(OUTCOMES)} regions the federated and the pooled coefficient differ by at most {worst:.1e} of their value."
    )
    console.print(
        "The mean of site fits is what systems that average local models give; it estimates something else."
    )
    console.print("[bold]This demo runs without noise[/bold]: the sums are exact, and the data are invented.")
    console.print(provenance(document), style="dim")
    console.print(f"page:        {folder / 'report.html'}")
    console.print(f"forest plot: {folder / 'figures' / 'thickness.svg'} (and .png)")
    console.print(f"results:     {folder}")
    console.print(f"data:        {folder / TABLES} (one table per site, for a study of your own)")
