"""`cohortsum release list | show | sign | return | withhold | retract | export`: what happens between computed and released.

A checker decides under the key that is in the roster, a site under its node's identity key. What is signed is the digest of the
table as it was shown: it is computed here, from the table that came, before anything is signed.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table as RichTable

from cohortsum.cli.consoles import output
from cohortsum.cli.keys import say
from cohortsum.cli.release_text import print_item
from cohortsum.cli.study_life import (
    Coordinator,
    Identity,
    KeyFile,
    Named,
    Person,
    RosterFile,
    find_study,
    person_of,
)
from cohortsum.crypto.errors import ConfigurationError, RefusedError
from cohortsum.crypto.fingerprint import short_form
from cohortsum.node.files import read, write_new
from cohortsum.protocol.roster import Role
from cohortsum.report.document import ResultDocument
from cohortsum.report.exports import Format, export_files
from cohortsum.report.item_file import ItemFile, queue_item
from cohortsum.report.queue_page import queue_page
from cohortsum.study.release.checklist import CHECKLIST, HUMAN
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.release.remedy import describe, remedy_from_json, remedy_to_json

if TYPE_CHECKING:
    from cohortsum.coordinator.client import Desk
    from cohortsum.coordinator.release_wire import ReleaseList

app = typer.Typer(
    no_args_is_help=True, help="Look at tables that wait for a signature, and decide about them."
)

ANYBODY = (Role.STATISTICIAN, Role.CHECKER, Role.SITE, Role.AUDITOR)
READERS = (Role.CHECKER, Role.SITE, Role.AUDITOR)
DECIDERS = (Role.CHECKER, Role.SITE)
Item = Annotated[str, typer.Argument(help="The table, as `release list` names it.")]
Digest = Annotated[
    str | None, typer.Option(help="The digest you looked at, whole or short; another one is refused.")
]
Reason = Annotated[str, typer.Option(help="Why, in words; everybody who decides reads it.")]


@app.command("list")
def show_list(
    study: Named, coordinator: Coordinator, roster: RosterFile, key: KeyFile, identity: Identity
) -> None:
    """Show where every table of a study stands."""
    person = person_of(coordinator, roster, key, identity, ANYBODY)
    found = person.ask(lambda desk: _releases(desk, study))
    table = RichTable(box=box.SIMPLE_HEAD)
    for heading in ("item", "state", "digest", "still needs"):
        table.add_column(heading, overflow="fold")
    for one in found.items:
        short = short_form(one.digest) if one.digest else ""
        table.add_row(one.item, one.state, short, " and ".join(one.missing))
    output().print(table)
    say(f"{study} is {found.state}")


@app.command("show")
def show(
    study: Named,
    item: Item,
    coordinator: Coordinator,
    roster: RosterFile,
    key: KeyFile,
    identity: Identity,
    html: Annotated[Path | None, typer.Option(help="Write a page with all of it to this new file.")] = None,
    rows: Annotated[int, typer.Option(help="Rows of the table; 0 for all.", min=0)] = 0,
) -> None:
    """Show a table with what every rule found, the checklist, and what differs from earlier contents."""
    file = _item(person_of(coordinator, roster, key, identity, READERS), study, item)
    held = queue_item(file)
    print_item(held, file.missing, rows or None, output())
    if html is not None:
        write_new(html, queue_page(held).encode())
        say(f"page: {html}; it holds values that have not left: keep it where you keep such")


@app.command("sign")
def sign(
    study: Named,
    item: Item,
    coordinator: Coordinator,
    roster: RosterFile,
    key: KeyFile,
    identity: Identity,
    digest: Digest = None,
    confirm: Annotated[
        list[str] | None,
        typer.Option(help="A question of the checklist that you answer with yes; repeat it."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Answer every question with yes; for scripts.")] = False,
    reason: Annotated[str, typer.Option(help="A remark, in words.")] = "",
) -> None:
    """Sign that a table may leave; it does with the last signature that the study asks for."""
    person = person_of(coordinator, roster, key, identity, DECIDERS)
    file = _looked_at(person, study, item, digest)
    say(f"{item}: state {file.state}, digest {short_form(bytes.fromhex(file.digest))}")
    confirmed = _confirmed(confirm or [], yes)
    _decide(person, file, Act.RELEASE, reason, confirmed=confirmed)
    left = _item(person, study, item)
    say(f"signed: {item} is {left.state}" + "".join(f"; it still needs {words}" for words in left.missing))


@app.command("return")
def give_back(
    study: Named,
    item: Item,
    remedy: Annotated[Path, typer.Option(help="What to compute instead, as JSON.")],
    reason: Reason,
    coordinator: Coordinator,
    roster: RosterFile,
    key: KeyFile,
    identity: Identity,
    digest: Digest = None,
) -> None:
    """Send a table back: it is computed again from the stored sums in another form, and waits anew."""
    person = person_of(coordinator, roster, key, identity, DECIDERS)
    file = _looked_at(person, study, item, digest)
    wanted = remedy_from_json(read(remedy).decode(), remedy.name)
    _decide(person, file, Act.RETURN, reason, remedy=remedy_to_json(wanted))
    say(f"returned: {item}; {describe(wanted)}\nnext: cohortsum release list {study}")


@app.command("withhold")
def withhold(
    study: Named,
    item: Item,
    reason: Reason,
    coordinator: Coordinator,
    roster: RosterFile,
    key: KeyFile,
    identity: Identity,
    digest: Digest = None,
) -> None:
    """Take a table out of the queue for good."""
    person = person_of(coordinator, roster, key, identity, DECIDERS)
    _decide(person, _looked_at(person, study, item, digest), Act.WITHHOLD, reason)
    say(f"withheld: {item}")


@app.command("retract")
def retract(
    study: Named,
    item: Item,
    reason: Reason,
    coordinator: Coordinator,
    roster: RosterFile,
    key: KeyFile,
    identity: Identity,
    digest: Digest = None,
) -> None:
    """Take back a table that was released; whoever fetched it before still has it."""
    person = person_of(coordinator, roster, key, identity, DECIDERS)
    _decide(person, _looked_at(person, study, item, digest), Act.RETRACT, reason)
    say(f"retracted: {item}; ask everybody who fetched it to remove it")


@app.command("export")
def export(
    study: Named,
    coordinator: Coordinator,
    roster: RosterFile,
    key: KeyFile,
    identity: Identity,
    out: Annotated[Path | None, typer.Option(help="The folder to write; must not exist.")] = None,
    form: Annotated[Format, typer.Option("--format", help="For which programs.")] = Format.CSV,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Write the proof bundle to this new .zip file; see `cohortsum verify`."),
    ] = None,
) -> None:
    """Write the released tables of a study for other programs, or the bundle that proves them."""
    if out is None and bundle is None:
        raise ConfigurationError("name a folder with --out, a file with --bundle, or both")
    if out is not None and out.exists():
        raise ConfigurationError(f"--out {out}: exists already and is not overwritten; name another")
    person = person_of(coordinator, roster, key, identity, ANYBODY)
    if bundle is not None:
        write_new(bundle, person.ask(lambda desk: _bundle(desk, study)))
        say(f"proof bundle: {bundle}\nnext: cohortsum verify {bundle} --roster-fingerprint WORDS")
    if out is None:
        return

    async def fetch(desk: "Desk") -> ResultDocument:
        return await desk.result(find_study(await desk.studies(), study).digest)

    document = person.ask(fetch)
    files = list(export_files(document, form))
    for name, content in files:
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    say(f"exported: {out} ({len(files)} files)")


async def _bundle(desk: "Desk", study: str) -> bytes:
    return await desk.bundle(find_study(await desk.studies(), study).digest)


async def _releases(desk: "Desk", study: str) -> "ReleaseList":
    return await desk.releases(find_study(await desk.studies(), study).digest)


def _item(person: Person, study: str, name: str) -> ItemFile:
    """Return an item as it stands, its digest computed from its table."""

    async def fetch(desk: "Desk") -> ItemFile:
        return await desk.item(find_study(await desk.studies(), study).digest, name)

    return person.ask(fetch)


def _looked_at(person: Person, study: str, name: str, digest: str | None) -> ItemFile:
    """Return an item; raises RefusedError if its digest is another one than what was looked at."""
    file = _item(person, study, name)
    if digest is not None and digest not in (file.digest, short_form(bytes.fromhex(file.digest))):
        raise RefusedError(
            f"{name}: its digest is {short_form(bytes.fromhex(file.digest))}, not the one you gave; look at it again with "
            f"`cohortsum release show {study} {name}`"
        )
    return file


def _confirmed(given: list[str], yes: bool) -> tuple[str, ...]:
    """Return the questions that are answered with yes, asking for those that were not given; exits where one is not."""
    asked = [one for one in CHECKLIST if not one.machine]
    if unknown := sorted(set(given) - set(HUMAN)):
        raise ConfigurationError(
            f"--confirm {', '.join(unknown)}: no such question; there are: {', '.join(HUMAN)}"
        )
    for one in asked:
        if yes or one.id in given:
            continue
        if not typer.confirm(f"{one.id}: {one.text}?", err=True):
            say(f"not signed: {one.id} is not confirmed")
            raise typer.Exit(1)
    return HUMAN


def _decide(
    person: Person, file: ItemFile, act: Act, reason: str, remedy: str = "", confirmed: tuple[str, ...] = ()
) -> None:
    """Sign a decision about an item as it was shown, and hand it in."""
    decision = Decision(
        bytes.fromhex(file.study.digest),
        file.item,
        bytes.fromhex(file.digest),
        act,
        reason,
        remedy,
        confirmed,
        person.signer.identity.id,
        datetime.now(UTC).isoformat(timespec="seconds"),
    ).sign(person.signer.key)
    person.ask(lambda desk: desk.decide(decision))
