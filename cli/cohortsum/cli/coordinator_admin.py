"""`cohortsum coordinator`: the operator founds a consortium, admits and revokes, and shows the roster."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from cohortsum.cli.consoles import output
from cohortsum.cli.keys import say, show_key
from cohortsum.coordinator.admission import Consortium, admit, found, load_consortium, revoke
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.crypto.fingerprint import key_words, phrase, qr_svg, qr_text, roster_words
from cohortsum.node.files import make_folder, make_key, read, read_key, replace, write_new
from cohortsum.study.definition.consortium import (
    IdentityEntry,
    RoleName,
    format_key,
    load_request,
    parse_key,
    write_request,
)
from cohortsum.study.enrolment import local_time

app = typer.Typer(no_args_is_help=True, help="Found a consortium, admit and revoke, run the coordinator.")

Folder = Annotated[Path, typer.Argument(help="The consortium's folder.", metavar="FOLDER")]


@app.command("init")
def init(
    folder: Annotated[Path, typer.Argument(help="The folder to make.", metavar="FOLDER")],
    consortium: Annotated[str, typer.Option(help="The consortium's id: letters, digits, - and _.")],
    listen: Annotated[str, typer.Option(help="Host and port to listen on, as in 0.0.0.0:443.")],
    organisation: Annotated[str, typer.Option(help="Who runs the coordinator.")],
    identity: Annotated[
        str, typer.Option("--id", help="The coordinator's id in the roster.")
    ] = "coordinator",
    name: Annotated[str, typer.Option(help="The coordinator's name for people.")] = "Consortium service",
) -> None:
    """Found a consortium: operator key, coordinator key, roster version 1 without sites, coordinator.yaml."""
    _check_address(listen)
    make_folder(folder)
    written = ["operator.key", "identity.key"]
    try:
        operator, key = (make_key(folder / file) for file in written)
        write_request(identity, "coordinator", name, organisation, key)  # raises for what no roster can carry
        entry = IdentityEntry(
            id=identity, role="coordinator", name=name, organisation=organisation, key=format_key(key.public)
        )
        files = found(consortium, entry, listen, operator)
    except ConfigurationError:
        for file in written:
            (folder / file).unlink(missing_ok=True)
        raise
    _write(folder, files)
    show_key(operator.public)
    say(
        f"\nthis is the operator's key. {folder / 'operator.key'} signs the roster: move it off this machine between uses,"
        f"\nor guard it like the machine itself; back up the whole folder."
        f"\nnext: every site runs `cohortsum node init` and sends its request.yaml; then"
        f"\n  cohortsum coordinator admit {folder} request.yaml"
    )


@app.command("admit")
def admit_requests(
    folder: Folder,
    requests: Annotated[list[Path], typer.Argument(help="Signed requests.", metavar="REQUEST...")],
    role: Annotated[RoleName, typer.Option(help="The role that they ask for and you allow.")] = "site",
    replace_key: Annotated[
        bool, typer.Option("--replace", help="Let a new key follow one that you have revoked.")
    ] = False,
) -> None:
    """Admit or renew identities in one new roster version; nobody else's files change."""
    held = load_consortium(folder)
    asked = [load_request(read(path), path.name) for path in requests]
    for request in asked:
        if request.role != role:
            raise ConfigurationError(
                f"'{request.id}' asks to be {request.role}; if that is right, say --role {request.role}"
            )
    if len({request.id for request in asked}) < len(asked):
        raise ConfigurationError("two requests have one id; admit the right one alone")
    files = admit(held, asked, read_key(folder / "operator.key"), replace=replace_key)
    for request in asked:
        output().print(f"{request.id}  {phrase(key_words(parse_key(request.key)))}", markup=False)
    if not files:
        _write(folder, _copies(held, folder))
        say(f"\nnothing changes: roster version {held.version} says all of this already")
        return
    _write(folder, files)
    say(
        f"\nroster version {held.version + 1} is signed. Compare each fingerprint above with its owner by phone; if one "
        f"differs,\n  cohortsum coordinator revoke {folder} ID --reason TEXT"
        f"\nnext: send consortium.yaml, consortium.sig and operator.pub to every site; they run `cohortsum node pin`, and "
        f"you read\nthem the words of\n  cohortsum coordinator roster {folder}"
    )


@app.command("roster")
def show_roster(
    folder: Folder,
    version: Annotated[int | None, typer.Option(help="An older version.", min=1)] = None,
    qr: Annotated[bool, typer.Option("--qr", help="Show the words as a QR code as well.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Write the QR code to this new SVG file.")] = None,
) -> None:
    """Show who is in the roster, and the words to compare by phone."""
    held = load_consortium(folder)
    number = version or held.version
    if number not in held.rosters:
        raise ConfigurationError(f"there is no roster version {number}; the newest is {held.version}")
    words = roster_words(held.operator, held.rosters[number].digest)
    console = output()
    console.print(_table(held, number))
    console.print(f"fingerprint  {phrase(words)}", markup=False)
    if held.deny.serial:
        console.print(f"deny-list    serial {held.deny.serial}, {len(held.deny.denied)} keys", markup=False)
    content = f"{held.newest.consortium} roster {number}\n{' '.join(words)}"
    if qr:
        console.print(qr_text(content), markup=False)
    if svg is not None:
        write_new(svg, qr_svg(content))
    say(
        "next: a site admin who pins this version reads the words to you; every word must agree"
        if number == held.version
        else f"next: this version is only for studies that name it; the newest is {held.version}"
    )


@app.command("revoke")
def revoke_identity(
    folder: Folder,
    identity: Annotated[str, typer.Argument(help="Whose key is to count no longer.", metavar="ID")],
    reason: Annotated[str, typer.Option(help="Why, in one line; every site reads it.")],
) -> None:
    """Put a key on the signed deny-list, effective at once and for good."""
    held = load_consortium(folder)
    files = revoke(held, identity, reason, datetime.now(UTC), read_key(folder / "operator.key"))
    _write(folder, files)
    say(
        f"the key of {identity} is revoked; deny-list serial {held.deny.serial + 1} is signed"
        f"\nnext: send deny.yaml and deny.sig to every site; they run `cohortsum node deny FOLDER deny.yaml deny.sig`."
        f"\nif {identity} shall take part under a new key, they send a new request, and you run"
        f"\n  cohortsum coordinator admit {folder} request.yaml --replace"
    )


def _table(held: Consortium, version: int) -> Table:
    file, roster = held.files[version], held.rosters[version]
    table = Table(
        title=escape(f"{file.consortium}, roster version {version}"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("id", "role", "index", "name", "organisation", "key", "state"):
        justify: Literal["left", "right"] = "right" if heading == "index" else "left"
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=heading in ("key", "state"))
    for entry in file.identities:
        denied = held.deny.entry_for(roster.identities[entry.id])
        state = "" if denied is None else f"revoked {denied.since.date()}"
        index = "" if entry.index is None else str(entry.index)
        cells = (entry.id, entry.role, index, entry.name, entry.organisation, entry.key[8:24], state)
        table.add_row(*map(escape, cells))
    return table


def _copies(held: Consortium, folder: Path) -> Mapping[str, bytes]:
    """Return the newest roster's files again, so that a repeated step repairs an interrupted one."""
    home = folder / "rosters"
    return {f"consortium.{end}": read(home / f"{held.version}.{end}") for end in ("sig", "yaml")}


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        if not path.parent.exists():
            make_folder(path.parent)
        replace(path, data)


def _check_address(listen: str) -> None:
    host, _, port = listen.rpartition(":")
    if not host or ":" in host or any(map(str.isspace, listen)) or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError("--listen: expected host:port with a port up to 65535; correct it")


@app.command("run")
def run_coordinator(folder: Folder) -> None:
    """Serve the consortium until SIGTERM; one JSON line per event on standard output."""
    from cohortsum.coordinator.serve import run

    raise typer.Exit(run(folder / "coordinator.yaml"))


@app.command("status")
def show_status(
    folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="For monitoring.")] = False
) -> None:
    """Show the studies in the store and where they stand, also while the coordinator runs; exit code 1 if one needs a look."""
    from cohortsum.coordinator.config import load_coordinator_config
    from cohortsum.coordinator.overview import overview  # loads SQLAlchemy

    lines = overview(load_coordinator_config(folder / "coordinator.yaml"), datetime.now(UTC))
    if as_json:
        typer.echo(json.dumps([asdict(line) for line in lines], indent=1, default=str))
    else:
        table = Table(box=box.SIMPLE_HEAD)
        for heading in (
            "study",
            "version",
            "state",
            "enrolment",
            "approved",
            "heard of lately",
            "attempts",
            "note",
        ):
            table.add_column(heading, overflow="fold")
        for line in lines:
            enrolment = "" if line.closes is None else local_time(line.closes)
            cells = (line.name, str(line.version), line.state, enrolment, ", ".join(line.approved))
            table.add_row(*map(escape, (*cells, ", ".join(line.lately), str(line.attempts), line.note)))
        output().print(table)
    raise typer.Exit(1 if any(line.needs_a_look for line in lines) else 0)
