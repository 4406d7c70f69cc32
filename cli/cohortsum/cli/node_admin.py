"""`cohortsum node`: a site admin makes a node, pins the roster, and looks after it."""

import json
import os
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
from cohortsum.crypto.fingerprint import parse_words, phrase, qr_text
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.node.config import load_node_config
from cohortsum.node.describe import describe, to_csv, to_markdown
from cohortsum.node.doctor import Visit, examine
from cohortsum.node.files import read, read_key, read_public, read_signature, write_new
from cohortsum.node.findings import Finding, Severity, exit_code
from cohortsum.node.pinning import apply_deny_list, own_identity, pin
from cohortsum.node.setup import NewSite, Profile, make_node
from cohortsum.node.snapshot import take_snapshot
from cohortsum.study.definition import FrozenStudy, freeze, load_study, parse_canonical
from cohortsum.study.definition.consortium import KEY_PREFIX
from cohortsum.study.definition.signing import signed_study_from_json

app = typer.Typer(no_args_is_help=True, help="Make a node, pin the roster, check and look after the site.")

Folder = Annotated[Path, typer.Argument(help="The node's folder.", metavar="FOLDER")]
STYLES = {Severity.OK: "green", Severity.SKIPPED: "dim", Severity.WARNING: "yellow", Severity.FAILURE: "red"}


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="The folder to make.", metavar="FOLDER")],
    site: Annotated[str, typer.Option(help="The site's id: letters, digits, - and _.")],
    coordinator: Annotated[str, typer.Option(help="The coordinator's host and port.")],
    organisation: Annotated[str, typer.Option(help="Whose site it is.")],
    name: Annotated[str, typer.Option(help="The node's name for people.")] = "Node",
    table: Annotated[str, typer.Option(help="The first table, as node.yaml will say.")] = "people.csv",
    person: Annotated[str, typer.Option(help="Its column of person ids.")] = "person_id",
    profile: Annotated[
        Profile, typer.Option(help="open_data: you declare that every value in the tables may be public.")
    ] = "dpuk",
) -> None:
    """Make a node: private folder, identity key, commented settings, signed request to the operator."""
    public = make_node(folder, NewSite(site, coordinator, organisation, name, table, person, profile))
    show_key(public)
    say(
        f"\n{folder / 'identity.key'} is secret: back it up, never send it."
        f"\nnext: 1. send {folder / 'request.yaml'} to the operator and read them the fingerprint by phone"
        f"\n      2. say in {folder / 'node.yaml'} where the tables are, and in {folder / 'policy.yaml'} what is allowed"
        f"\n      3. when the operator has sent consortium.yaml, consortium.sig and operator.pub:"
        f"\n         cohortsum node pin {folder} consortium.yaml consortium.sig --operator operator.pub"
    )


@app.command("pin")
def pin_roster(
    folder: Folder,
    roster: Annotated[Path, typer.Argument(help="The roster.", metavar="consortium.yaml")],
    signature: Annotated[Path, typer.Argument(help="Its signature.", metavar="consortium.sig")],
    operator: Annotated[
        str | None, typer.Option(help="The operator's public key, or a file with it; needed once.")
    ] = None,
    words: Annotated[
        str | None, typer.Option(help="The words that the operator reads to you, in quotes.")
    ] = None,
    qr: Annotated[bool, typer.Option("--qr", help="Show the words as a QR code as well.")] = False,
) -> None:
    """Verify a roster and pin it; earlier versions are kept for the studies that name them."""
    text, signed = read(roster), read_signature(signature)
    said = None if words is None else parse_words(words)
    key = None if operator is None else _operator_key(operator)
    beside = roster.parent / "operator.pub"
    if key is None and said is not None and beside.exists():
        key = read_public(beside)
    held, changes = pin(folder, text, signed, key, said)
    console, newest = output(), held.newest
    console.print(f"pinned       {newest.consortium}, roster version {newest.version}", markup=False)
    console.print(f"fingerprint  {phrase(held.words)}", markup=False)
    for change in changes:
        console.print(f"changed      {change}", markup=False)
    if qr:
        console.print(
            qr_text(f"{newest.consortium} roster {newest.version}\n{' '.join(held.words)}"), markup=False
        )
    config = load_node_config(folder / "node.yaml")
    wrong = own_identity(newest, config.site, read_key(config.identity_key).public)
    if wrong is not None:
        say(f"\nnot yet: {wrong}")
    elif said is None:
        say("\nnext: read these words to the operator by phone; if one differs, stop and do not run the node")
    say(
        f"then: cohortsum node doctor {folder}"
        if wrong or said is None
        else f"next: cohortsum node doctor {folder}"
    )


@app.command()
def deny(
    folder: Folder,
    file: Annotated[Path, typer.Argument(help="The deny-list.", metavar="deny.yaml")],
    signature: Annotated[Path, typer.Argument(help="Its signature.", metavar="deny.sig")],
) -> None:
    """Make a newer deny-list effective: keys on it no longer count."""
    held = apply_deny_list(folder, read(file), read_signature(signature))
    for entry in held.denied:
        output().print(f"{entry.id}  since {entry.since.date()}  {entry.reason}", markup=False)
    say(f"deny-list serial {held.serial} is in force\nnext: cohortsum node doctor {folder}")


@app.command()
def doctor(
    folder: Folder,
    study: Annotated[Path | None, typer.Option(help="Read the tables for this study as well.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Leave the network alone.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For monitoring.")] = False,
) -> None:
    """Check everything a node needs; exit code 0 all well, 1 warnings, 2 failures."""
    wanted = None if study is None else _read_study(study)
    findings = examine(Visit(folder, os.environ, datetime.now(UTC), wanted, offline))
    code = exit_code(findings)
    if as_json:
        typer.echo(json.dumps({"code": code, "checks": [asdict(finding) for finding in findings]}, indent=1))
    else:
        output().print(findings_table(findings))
        if code:
            say("next: follow the cures from the top, then run doctor again")
        else:
            say(f"next: all is well; the node can run: cohortsum node run {folder}")
    raise typer.Exit(code)


@app.command("describe")
def describe_tables(
    folder: Folder,
    style: Annotated[
        Literal["markdown", "csv"], typer.Option("--format", help="How to write it.")
    ] = "markdown",
    out: Annotated[Path | None, typer.Option(help="Write to this new file.")] = None,
) -> None:
    """Write a data dictionary without any value: columns, mapped variables, units, declared codes."""
    entries = describe(load_node_config(folder / "node.yaml"))
    text = to_csv(entries) if style == "csv" else to_markdown(entries)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_new(out, text.encode())
    say("next: read it before you pass it on; names of columns and codes come from your tables and node.yaml")


@app.command()
def snapshot(
    folder: Folder,
    epoch: Annotated[str, typer.Option(help="The label that studies will name, for example 2026-11.")],
) -> None:
    """Tie a label to the tables as they are now, and write it into node.yaml."""
    made = take_snapshot(folder, epoch)
    console = output()
    console.print(f"epoch   {made.epoch}\ndigest  {made.digest.hex()}", markup=False)
    for name, rows in made.rows.items():
        console.print(f"rows    {rows} in table {name} (stays here)", markup=False)
    say(
        "next: tell the statistician the label, never the counts. Do not change the tables: "
        "new data\nneed a new label"
    )


def findings_table(findings: tuple[Finding, ...]) -> Table:
    """Return what was found as a table for a terminal."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("check", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("what was found, and what to do", overflow="fold")
    for finding in findings:
        cure = f"\n-> {finding.cure}" if finding.cure else ""
        status = f"[{STYLES[finding.status]}]{finding.status}[/]"
        table.add_row(finding.name, status, escape(finding.sentence + cure))
    return table


def _operator_key(text: str) -> bytes:
    """Return the key that an option holds or names."""
    path = Path(text)
    if path.exists():
        return read_public(path)
    return parse_hex(text.removeprefix(KEY_PREFIX).encode(), 32, "--operator")


def _read_study(path: Path) -> FrozenStudy:
    """Return the study in a file: as a statistician writes it, or signed as JSON."""
    data = read(path)
    if path.suffix == ".json":
        return parse_canonical(signed_study_from_json(data).canonical)
    return freeze(load_study(data, path.name))
