"""`cohortsum node studies | preview | approve | decline | revoke`: an admin and the studies that reached the site."""

import datetime
import getpass
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from cohortsum.cli.consoles import output
from cohortsum.cli.keys import say
from cohortsum.cli.node_admin import Folder, findings_table
from cohortsum.cli.study import print_plan
from cohortsum.cli.study_files import print_difference
from cohortsum.crypto.errors import ConfigurationError, PolicyError
from cohortsum.node import inbox
from cohortsum.node.board import StudyLine, read_board
from cohortsum.node.budget_view import forecast_budget
from cohortsum.node.daemon import FINAL
from cohortsum.node.decisions import Asked, Decision, decide, read_asked, read_decisions
from cohortsum.node.files import PRIVATE, write_new
from cohortsum.node.findings import Severity, exit_code
from cohortsum.node.preview import WORD_BYTES, Leaving, Preview, preview
from cohortsum.study.definition import FrozenStudy, parse_canonical, refuse_unbuilt
from cohortsum.study.definition.difference import difference
from cohortsum.study.enrolment import local_time, too_late

Named = Annotated[
    str,
    typer.Argument(help="A study by id, ID@VERSION, start of its digest, or signed file.", metavar="STUDY"),
]


def studies(folder: Folder) -> None:
    """List the studies that reached this site: what waits for you, what runs, what is over."""
    board, decisions = read_board(folder), read_decisions(folder)
    lines = {} if board is None else {line.digest: line for line in board.studies}
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("study", "version", "fingerprint", "enrolment closes", "decision", "state"):
        table.add_column(heading, no_wrap=heading != "state", overflow="fold")
    waiting: list[str] = []
    for digest, signed in inbox.held(folder).items():
        study, decision = parse_canonical(signed.canonical), decisions.get(digest)
        said = (
            "" if decision is None else f"{'approved' if decision.approved else 'declined'} ({decision.by})"
        )
        until = "" if study.enrol.until is None else local_time(study.enrol.until)
        line = lines.get(digest.hex())
        if decision is None and (line is None or line.state == "enrolling"):
            waiting.append(study.study)
        cells = (study.study, str(study.version), study.fingerprint, until, said or "none yet", _state(line))
        table.add_row(*map(escape, cells))
    output().print(table)
    if waiting:
        say(f"next: cohortsum node preview {folder} {waiting[0]}, then approve or decline it")


def show_preview(
    folder: Folder,
    name: Named,
    blocks: Annotated[bool, typer.Option("--blocks", help="One line per block, not per analysis.")] = False,
    values: Annotated[
        Path | None, typer.Option(help="Write every integer before masking to this new file (mode 0600).")
    ] = None,
) -> None:
    """Dry run on the real data: every rule with its outcome, what would leave, who will see what. Sends nothing."""
    held = preview(folder, inbox.find(folder, name))
    console = output()
    print_plan(held.plan, console)
    console.print("\n[bold]Rules at this site[/bold]")
    console.print(findings_table(held.findings))
    if held.leaving:
        console.print(_leaving_table(held, blocks))
        for variable, reason in sorted(held.lacking.items()):
            console.print(f"not supplied: {variable}: {reason}", markup=False)
        say(
            "counts of people above stay here; what leaves is masked and opened only as the sum over all sites"
        )
    if values is not None and held.leaving:
        write_new(values, held.to_csv(), PRIVATE)
        say(f"{values} holds this site's own sums, unmasked: look at it, then remove it")
    raise typer.Exit(2 if exit_code(held.findings) == 2 else 0)


def approve(
    folder: Folder,
    name: Named,
    analysis: Annotated[
        list[str] | None, typer.Option(help="Approve this analysis only; may be given several times.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Last day of the approval, as 2027-06-30.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; for scripts.")] = False,
) -> None:
    """Show what a study will do with this site's data, and say yes to it, or to some of its analyses, until a day."""
    signed = inbox.find(folder, name)
    asked = inbox.keep(folder, signed)
    study = asked.plan.study
    refuse_unbuilt(study)
    chosen = None if not analysis else frozenset(analysis)
    unknown = sorted((chosen or frozenset()) - set(study.analyses))
    if unknown:
        raise ConfigurationError(
            f"study {study.study}: no analysis {', '.join(unknown)}; there are {', '.join(study.analyses)}"
        )
    closes, now = study.enrol.until, datetime.datetime.now(datetime.UTC)
    if closes is not None and closes < now:
        raise ConfigurationError(too_late(study, closes))
    board = read_board(folder)
    state = next(
        (line.state for line in (board.studies if board else ()) if line.digest == study.digest.hex()), ""
    )
    if state in FINAL:
        raise ConfigurationError(
            f"study {study.study} version {study.version} is {state}; an approval would have no effect"
        )
    _show_change(folder, asked)
    print_plan(asked.plan, output())
    worth = forecast_budget(folder, asked.plan)
    output().print(f"budget here  {worth.sentence}", markup=False)
    if worth.status is Severity.FAILURE:
        raise PolicyError(f"study {study.study}: {worth.sentence}; {worth.cure}")
    say(
        f"\nsigned by statistician '{asked.statistician}'. Ask them to read the fingerprint: {study.fingerprint}"
    )
    if chosen is not None:
        say(f"narrowed to: {', '.join(sorted(chosen))}; for the others this site sends zeros and says so")
    if not yes and not typer.confirm("Approve it, under these rules and no others?", err=True):
        say("not approved; nothing was written")
        raise typer.Exit(1)
    decide(
        folder, Decision(study.digest, study.study, study.version, True, chosen, _day(until), _admin(), now)
    )
    say(
        f"approved: {study.study}\nnext: a running node says so within seconds; start one with: cohortsum node run {folder}"
    )


def decline(folder: Folder, name: Named) -> None:
    """Say no to a study; the coordinator hears `not taking part` and no reason."""
    _say_no(folder, read_asked(folder, inbox.find(folder, name)).plan.study)


def revoke(folder: Folder, name: Named) -> None:
    """Take an approval back: an open round ends here. What has been sent cannot be taken back."""
    study = read_asked(folder, inbox.find(folder, name)).plan.study
    held = read_decisions(folder).get(study.digest)
    if held is None or not held.approved:
        raise ConfigurationError(
            f"study {study.study} version {study.version} is not approved here; nothing is left to do"
        )
    _say_no(folder, study)


def _say_no(folder: Path, study: FrozenStudy) -> None:
    now = datetime.datetime.now(datetime.UTC)
    decide(folder, Decision(study.digest, study.study, study.version, False, None, None, _admin(), now))
    say(f"not approved: {study.study}; the coordinator will hear `not taking part` and no reason")


def _show_change(folder: Path, asked: Asked) -> None:
    """Print what changed since the newest earlier version that was decided about here."""
    study, decisions = asked.plan.study, read_decisions(folder)
    earlier = [
        held
        for digest, signed in inbox.held(folder).items()
        if digest in decisions
        and (held := parse_canonical(signed.canonical)).study == study.study
        and held.version < study.version
    ]
    if earlier:
        print_difference(earlier[-1], study, difference(earlier[-1], study), output())


def _state(line: StudyLine | None) -> str:
    if line is None:
        return "not heard of by a running node"
    return f"{line.here} ({line.state})" + (f": {line.reason}" if line.reason else "")


def _leaving_table(held: Preview, by_block: bool) -> Table:
    table = Table(title="What would leave, masked", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("block" if by_block else "analysis", overflow="fold")
    for heading in ("numbers", "bytes", "supplied", "people, smallest set"):
        table.add_column(heading, justify="right")
    groups: dict[str, list[Leaving]] = {}
    for block in held.leaving:
        groups.setdefault(block.name if by_block else block.analysis or block.name, []).append(block)
    for name, group in groups.items():
        numbers = sum(len(block.values) for block in group)
        given = sum(block.supplied for block in group)
        people = min((block.people for block in group if block.people is not None), default=None)
        supplied = "yes" if given == len(group) else "no" if not given else f"{given} of {len(group)} blocks"
        cells = (f"{numbers:,}", f"{numbers * WORD_BYTES:,}", supplied, "" if people is None else str(people))
        table.add_row(escape(name), *cells)
    return table


def _day(text: str | None) -> datetime.date | None:
    if text is None:
        return None
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        raise ConfigurationError("--until: expected a day as 2027-06-30; correct it") from None
    if day < datetime.datetime.now(datetime.UTC).date():
        raise ConfigurationError(f"--until {day}: lies in the past; name a later day")
    return day


def _admin() -> str:
    """Return who decides, for the record at the site."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        return "admin"
