"""`cohortsum audit reidentify`: how well scans identify people, alone, added up, and under masks."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from cohortsum.cli.audit_reidentify_files import LEAST_FEATURES, LEAST_PEOPLE, Columns, read_cohort
from cohortsum.cli.consoles import messages, output
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.study.audit.connectome_model import Cohort, ConnectomeModel
from cohortsum.study.audit.reidentify import Reidentification, Settings, Told, attack

ALARM = 0.5
"""Share of a site's people found by their own second scan above which the command warns."""
OF_MODEL = ("people", "edges", "directions", "tasks")
"""Options that a site's own files leave no room for."""


def reidentify(
    context: typer.Context,
    first: Annotated[
        Path | None, typer.Option(help="A site's own scans: .csv, .tsv, .txt or .npy; rows are people.")
    ] = None,
    second: Annotated[Path | None, typer.Option(help="A second scan of the same people.")] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column of the person's id; without it rows are in one order.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of --first with a label to be told.")] = None,
    score: Annotated[str | None, typer.Option(help="Column of --first with a number to be told.")] = None,
    people: Annotated[int, typer.Option(help="Invented people.", min=LEAST_PEOPLE)] = 100,
    edges: Annotated[int, typer.Option(help="Features of an invented scan.", min=LEAST_FEATURES)] = 2500,
    directions: Annotated[int, typer.Option(help="In which invented people differ (r).", min=1)] = 40,
    tasks: Annotated[int, typer.Option(help="Tasks of invented people.", min=2)] = 8,
    top: Annotated[int, typer.Option(help="Features of highest leverage that are kept.", min=3)] = 100,
    noise: Annotated[
        list[float] | None,
        typer.Option(help="Noise of a second scanner (v), repeated; 0, 0.1, 0.2, 0.3 by default.", min=0),
    ] = None,
    noise_scale: Annotated[
        float, typer.Option(help="A feature's noise has this times v times its own variance (c).", min=0)
    ] = 2.5,
    site_size: Annotated[
        list[int] | None,
        typer.Option(help="People in a site's sum, repeated; 1, 2, 5, 10, 20, 50 by default.", min=1),
    ] = None,
    starts: Annotated[int, typer.Option(help="Cohorts, or draws of noise and sites.", min=1)] = 4,
    seed: Annotated[
        int | None, typer.Option(help="Of invented people, noise and sites; masks are always fresh.", min=0)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Print how well scans identify people, alone, in a site's sum, and in what the coordinator sees.

    Without files people are invented after a model of connectomes. A site's own files stay where they are: nothing is sent or written,
    and only rates over people are printed.
    """
    settings = Settings(
        top, tuple(noise or Settings().noises), noise_scale, tuple(site_size or Settings().site_sizes)
    )
    generator = np.random.default_rng(seed)
    own = _own(context, first, second, Columns(id_column, label, score))
    model = ConnectomeModel(people, edges, directions, tasks)
    cohorts = (model.invent(generator) if own is None else own[0] for _ in range(starts))
    found = attack(_shown(cohorts, starts), settings, generator)
    if as_json:
        source = "model" if own is None else "files"
        parameters = asdict(model) if own is None else {"rows_without_partner": own[1]}
        typer.echo(
            json.dumps({"source": source, **parameters, **asdict(settings), "found": asdict(found)}, indent=1)
        )
        return
    console = output()
    _print_singles(console, found, settings, "invented people" if own is None else "people of yours")
    _print_sums(console, found)
    _print_predictions(console, found)
    _print_verdict(console, found, own)


def _own(
    context: typer.Context, first: Path | None, second: Path | None, columns: Columns
) -> tuple[Cohort, int] | None:
    """Return the site's own people and how many rows had no partner; None if people are to be invented."""
    if first is None and second is None:
        if columns.named:
            raise ConfigurationError(
                "--id, --label and --score name columns of files; add --first and --second"
            )
        return None
    if first is None or second is None:
        raise ConfigurationError(
            "--first and --second are two scans of the same people; add the one that is missing"
        )
    sources = {name: context.get_parameter_source(name) for name in OF_MODEL}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        listed = ", ".join(f"--{name}" for name in given)
        raise ConfigurationError(
            f"{listed}: for invented people only; leave it out with --first and --second"
        )
    return read_cohort(first, second, columns)


def _shown(cohorts: Iterable[Cohort], starts: int) -> Iterator[Cohort]:
    return iter(track(cohorts, "attacking", total=starts, console=messages(), transient=True))


def _print_singles(console: Console, found: Reidentification, settings: Settings, whose: str) -> None:
    table = _table(
        f"Whose scan is it? {found.people:,} {whose}, {found.features:,} features, {found.starts} starts",
        ("noise v", "features", "identified", "standard error", "within", "between"),
        left=(1,),
    )
    for one in found.identified:
        table.add_row(
            f"{one.noise:g}",
            escape(one.matching),
            _percent(one.accuracy),
            f"{100 * one.error:.1f}",
            f"{one.within:z.2f}",
            f"{one.between:z.2f}",
            end_section=one.matching == settings.matchings[-1].name,
        )
    console.print(table)
    console.print(
        f"A guess identifies {_percent(1 / found.people)}. Both directions, averaged; within and between: mean correlation of two scans"
        " of one person and of two.\n"
        f"Noise falls on the features of the second scan, {settings.noise_scale:g} v times a feature's own variance. Noise on the"
        " series behind correlations\nwould shrink all of them alike, which matching does not notice.\n"
    )
    if found.features <= found.people:
        console.print(
            "No more features than people: leverage tells nothing, for every feature may have the same.\n"
        )


def _print_sums(console: Console, found: Reidentification) -> None:
    table = _table(
        "Who is in it? Sums of a site, unmasked, and what the coordinator sees: the last two",
        ("vector", "features", "certain one", "chance", "anyone", "chance", "AUC"),
        left=(0, 1),
    )
    size = len(found.masked)
    for start in range(0, len(found.sites), size):
        group = found.sites[start : start + size]
        _add_view(table, f"site of {group[0].people}", group)
    _add_view(table, "one, MASKED", found.masked)
    _add_view(table, f"sum of all {found.people}", found.opened)
    console.print(table)
    console.print(
        "Certain one: the best match is one certain person of the vector; anyone: it is somebody of it. AUC: somebody in it matches better\n"
        "than somebody who is not. The upper rows are what masks withhold from everybody. An AUC above one half is what exact sums tell\n"
        "about insiders; `cohortsum audit membership` measures it for what a study opens, with its noise.\n"
    )


def _add_view(table: Table, name: str, view: tuple[Told, ...]) -> None:
    for place, one in enumerate(view):
        table.add_row(
            name if place == 0 else "",
            escape(one.matching),
            _percent(one.named),
            _percent(one.named_by_chance),
            _percent(one.inside),
            _percent(one.inside_by_chance),
            "-" if one.auc is None else f"{one.auc:.3f}",
            end_section=one is view[-1],
        )


def _print_predictions(console: Console, found: Reidentification) -> None:
    if found.labels:
        table = _table(
            "Which task, or other label? That of the nearest scan of another person",
            ("features", "told", "from a masked vector", "chance"),
        )
        for one in found.labels:
            table.add_row(
                escape(one.matching), _percent(one.told), _percent(one.masked), _percent(one.by_chance)
            )
        console.print(table)
    if found.scores:
        table = _table(
            "Which score? Ridge regression on everybody else",
            ("features", "correlation", "error (mean = 1)", "from a masked vector", "chance"),
        )
        for other in found.scores:
            table.add_row(
                escape(other.matching),
                f"{other.correlation:.2f}",
                f"{other.error:.2f}",
                f"{other.masked:z.2f}",
                f"0 ± {other.by_chance:.2f}",
            )
        console.print(table)


def _print_verdict(console: Console, found: Reidentification, own: tuple[Cohort, int] | None) -> None:
    hidden = max(one.named for one in found.masked)
    console.print(
        f"From a masked vector of one person the attacker names its owner in at most {_percent(hidden)} of cases, by three ways of"
        f" matching;\na guess does in {_percent(1 / found.people)}.",
    )
    if own is None:
        console.print(
            "The model is made so that a few features identify. In real connectomes all features did better than the top ones: test your"
            " own\nwith --first and --second. Its tasks and scores are inventions that show the method, not how real ones can be told."
        )
        return
    if own[1]:
        console.print(f"{own[1]:,} rows without a partner in the other file were left out.")
    best = max(one.accuracy for one in found.identified)
    if best > ALARM:
        console.print(
            f"WARNING: these features identify {_percent(best)} of your people. Whoever has another scan of them finds them in any copy"
            " without\nnames: no rows and no sums of few people of them may leave.",
            style="bold yellow",
        )


def _table(title: str, headings: tuple[str, ...], left: tuple[int, ...] = (0,)) -> Table:
    table = Table(title=title, title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place in left else "right")
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
