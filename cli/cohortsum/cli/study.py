"""`cohortsum study`: what a study file means, before anything runs."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cohortsum.cli.consoles import output
from cohortsum.cli.noise_plan import print_noise
from cohortsum.cli.protection_plan import print_committee, print_modes
from cohortsum.cli.rules_plan import print_rules
from cohortsum.crypto.errors import ConfigurationError, cannot_be_read
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import IdentityKey
from cohortsum.node.files import read_key, write_new
from cohortsum.protocol.bounds import allowed_sizes, dropouts_survived, threshold
from cohortsum.protocol.roster import Roster
from cohortsum.study.definition import (
    FrozenStudy,
    freeze,
    load_roster,
    load_study,
    refuse_unbuilt,
    study_schema,
)
from cohortsum.study.definition.consortium import IdentityEntry, RoleName, format_key, write_roster
from cohortsum.study.definition.signing import sign_study, signed_study_to_json
from cohortsum.study.forecasting import forecasts, refuse_nonsense
from cohortsum.study.planning import StudyPlan, plan_study, protection_of
from cohortsum.study.release.panel import asked, nobody_signs

app = typer.Typer(no_args_is_help=True, help="Write, check, sign and submit a study, and follow it.")

WORD_BYTES = 8


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The study file.", metavar="STUDY")],
    sites: Annotated[
        int | None, typer.Option(help="Plan for this many invited sites; min_sites by default.", min=1)
    ] = None,
    roster: Annotated[Path | None, typer.Option(help="Plan for the sites of this consortium.yaml.")] = None,
    people: Annotated[
        int | None,
        typer.Option(help="Forecast the noise for so many people; min_participants by default.", min=1),
    ] = None,
) -> None:
    """Check a study file and print the plan: what travels, what must hold, who sees what, what noise does."""
    study = read_study(file)
    refuse_unbuilt(study)
    held = (
        invented_roster(study, sites or study.protection.min_sites)
        if roster is None
        else _read_roster(roster)
    )
    plan = plan_study(study, held)
    print_plan(plan, output(), people)
    refuse_nonsense(plan, people)


@app.command()
def sign(
    file: Annotated[Path, typer.Argument(help="The study file.", metavar="STUDY")],
    key: Annotated[Path, typer.Option(help="The statistician's private key, from `cohortsum key new`.")],
    identity: Annotated[str, typer.Option("--id", help="The statistician's id in the roster.")],
    out: Annotated[Path, typer.Option(help="The signed study; must not exist.")],
) -> None:
    """Freeze a study, with every name written out, and sign exactly these bytes."""
    study = read_study(file)
    refuse_unbuilt(study)
    if study.privacy.noise != "none":
        refuse_nonsense(plan_study(study, invented_roster(study, _fewest_sites(study))))
    write_new(out, signed_study_to_json(sign_study(study, identity, read_key(key))))
    console = output()
    console.print(f"study {study.study}, version {study.version}, for roster version {study.roster}")
    console.print(
        f"fingerprint  [bold]{study.fingerprint}[/bold]   every site reads it to you before it approves"
    )
    console.print(f"next: cohortsum study submit {out}", markup=False)


@app.command()
def schema() -> None:
    """Print the JSON Schema of study files, for editors that complete and check them."""
    typer.echo(json.dumps(study_schema(), indent=2))


def read_study(file: Path) -> FrozenStudy:
    """Return the frozen study in a file; raises StudyFileError with every problem."""
    try:
        text = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(cannot_be_read(str(file), error)) from None
    return freeze(load_study(text, file.name))


def print_plan(plan: StudyPlan, console: Console, people: int | None = None) -> None:
    """Print what a study will do, without having seen any data; noise for ``people`` people, or the least that it opens for."""
    study, protection = plan.study, plan.round.protection
    console.print(f"[bold]{study.title}[/bold]  (study {study.study}, version {study.version})")
    console.print(
        f"fingerprint  [bold]{study.fingerprint}[/bold]   the same at every site, to compare by phone"
    )
    console.print(f"cohort       epoch {study.epoch}, expires {study.expires}\n")

    roster = invented_roster(study, plan.round.sites_invited)  # costs depend on its size alone
    if study.protection.mode == "committee":
        print_committee(plan, roster, console)
        print_modes(plan, roster, console)
        print_rules(study, console)
        return
    encrypted = plan.round.encryption is not None
    travels = Table(
        title=f"What each site sends, masked{' and encrypted' if encrypted else ''}", title_justify="left"
    )
    travels.add_column("analysis")
    travels.add_column("kind")
    travels.add_column("rounds", justify="right")
    travels.add_column("numbers", justify="right")
    travels.add_column("bytes", justify="right")
    for statistic in plan.statistics:
        numbers = sum(block.size for block in statistic.layout())
        rounds = "1" if statistic.most_rounds == 1 else f"up to {statistic.most_rounds}"
        kind = study.analyses[statistic.name].kind
        travels.add_row(statistic.name, kind, rounds, f"{numbers:,}", f"{numbers * WORD_BYTES:,}")
    travels.add_section()
    length, words = plan.round.length, plan.round.upload_words(plan.round.blocks)
    travels.add_row("first round, all in one", "", "", f"{length:,}", f"{words * WORD_BYTES:,}")
    console.print(travels)
    console.print("Outcomes and levels that too few sites supply leave the plan when the round opens.\n")

    holds = Table(title="What must hold before anything opens", title_justify="left")
    for heading in ("sites that advertise", "needed to open", "dropouts survived", "honest inputs at least"):
        holds.add_column(heading, justify="right")
    sizes = allowed_sizes(plan.round.sites_invited, protection)
    for n in sizes if len(sizes) <= 8 else (*sizes[:4], *sizes[-4:]):
        t = threshold(n)
        survived = dropouts_survived(n, protection.min_sites)
        holds.add_row(
            str(n), str(max(t, protection.min_sites)), str(survived), str(t - protection.max_colluding_sites)
        )
    console.print(holds)
    console.print(
        f"people       at least {protection.min_participants} in all: the gate must reach {protection.gate_minimum} in "
        f"counts capped at {protection.gate_cap} per site\n"
        f"             ({protection.min_participants} + {protection.max_colluding_sites} colluding x {protection.gate_cap}); "
        f"at least {protection.min_participants_per_site} at a site; at most {protection.max_participants} in all\n"
        f"outcomes     at least {protection.suppliers_minimum} sites must supply one\n"
    )

    noised = plan.round.noise is not None
    if noised:
        print_noise(plan, forecasts(plan, people), people or protection.min_participants, console)

    sees = Table(title="Who sees what", title_justify="left")
    sees.add_column("what")
    sees.add_column("who")
    sees.add_row("rows, ids, values", "nobody outside the site")
    sees.add_row(
        "one site's sums",
        "nobody: noised, and masked until added" if noised else "nobody: masked until added",
    )
    sees.add_row("number of people, capped and added", "every site and the coordinator")
    sees.add_row("which outcomes and levels a site has (yes or no)", "every site and the coordinator")
    opened = "the opened sums with their noise" if noised else "the opened sums, small cells included"
    sees.add_row(opened, "the coordinator, before anyone checks them")
    if plan.seen_by_sites:
        sees.add_row(
            f"the sums of {', '.join(plan.seen_by_sites)}, from which further rounds or values at the sites follow, and all "
            "others opened with them",
            "every site too, before anyone checks them",
        )
    checkers = study.release.checkers
    leave = (
        "released at once: no checker"
        if nobody_signs(checkers)
        else f"a table once {asked(checkers)} signed it"
    )
    sees.add_row("results", leave)
    console.print(sees)
    if not noised:
        console.print("The sums are exact: no noise is added.")
    print_modes(plan, roster, console)
    print_rules(study, console)


def _read_roster(path: Path) -> Roster:
    try:
        return load_roster(path.read_bytes(), path.name)
    except OSError as error:
        raise ConfigurationError(cannot_be_read(str(path), error)) from None


def _fewest_sites(study: FrozenStudy) -> int:
    """Return the fewest invited sites with which a round of the study can run; min_sites where none below 1000 are enough."""
    protection, least = protection_of(study), study.protection.min_sites
    return next((count for count in range(least, 1000) if allowed_sizes(count, protection)), least)


def invented_roster(study: FrozenStudy, sites: int) -> Roster:
    """Return a roster of as many sites as are planned for; a plan depends on their number only."""

    def entry(name: str, role: RoleName, number: int, index: int | None = None) -> IdentityEntry:
        key = IdentityKey(SecretBytes(number.to_bytes(32, "big"), "planning key")).public
        return IdentityEntry(
            id=name, role=role, index=index, name=name, organisation="planned", key=format_key(key)
        )

    named = study.protection.committee or ()
    names = [*named, *(f"site-{index}" for index in range(len(named), sites))][: max(sites, len(named))]
    entries = [entry(name, "site", index, index) for index, name in enumerate(names)]
    entries.append(entry("coordinator-service", "coordinator", len(names)))
    if study.protection.mode == "two_key":
        entries.append(entry("keyholder", "trustee", len(names) + 1))
    return load_roster(write_roster("planned", study.roster, entries), "planned roster")
