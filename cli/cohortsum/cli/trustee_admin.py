"""`cohortsum trustee`: whoever holds the second key of two-key studies makes a trustee, pins rosters, runs it, looks at what it decrypted."""

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from cohortsum.cli.consoles import output
from cohortsum.cli.keys import say, show_key
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.crypto.fingerprint import phrase, roster_words
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.node.files import (
    PRIVATE,
    make_folder,
    make_key,
    read,
    read_key,
    read_public,
    read_signature,
    replace,
    write_new,
)
from cohortsum.protocol.roster import Roster
from cohortsum.study.definition.consortium import KEY_PREFIX, quoted, write_request
from cohortsum.trustee import pinning
from cohortsum.trustee.config import LEDGER, SETTINGS, SETTINGS_FILE, TrusteeConfig, load_trustee_config
from cohortsum.trustee.ledger import Decryption, Ledger
from cohortsum.trustee.roll import Roll, load_roll, own_place

app = typer.Typer(no_args_is_help=True, help="Make, run and look after the trustee of two-key studies.")

Folder = Annotated[Path, typer.Argument(help="The trustee's folder.", metavar="FOLDER")]
SHOWN = 8
"""Hexadecimal digits of a digest in the table; `--json` has all of them."""


@app.command("init")
def init(
    folder: Annotated[Path, typer.Argument(help="The folder to make.", metavar="FOLDER")],
    identity: Annotated[str, typer.Option("--id", help="The id wanted in the roster.")],
    listen: Annotated[str, typer.Option(help="Host and port to listen on, as in 0.0.0.0:8444.")],
    operator: Annotated[str, typer.Option(help="The operator's public key, or a file with it.")],
    organisation: Annotated[str, typer.Option(help="Who runs the trustee: never who runs the coordinator.")],
    name: Annotated[str, typer.Option(help="The trustee's name for people.")] = "Trustee",
) -> None:
    """Make a trustee: private folder, identity key, trustee.yaml, signed request to the operator."""
    key_of_operator = _operator_key(operator)
    make_folder(folder)
    try:
        key = make_key(folder / "identity.key")
        request = write_request(identity, "trustee", name, organisation, key)
        settings = SETTINGS.format(
            identity=quoted(identity), operator=quoted(key_of_operator.hex()), listen=quoted(listen)
        )
        write_new(folder / SETTINGS_FILE, settings.encode(), PRIVATE)
        write_new(folder / "request.yaml", request)
        load_trustee_config(folder)
    except ConfigurationError:
        for file in ("identity.key", SETTINGS_FILE, "request.yaml"):
            (folder / file).unlink(missing_ok=True)
        raise
    show_key(key.public)
    say(
        f"\n{folder / 'identity.key'} is secret: back it up, never send it. The machine and the account are the trustee's alone."
        f"\nnext: 1. send {folder / 'request.yaml'} to the operator and read them the fingerprint by phone; they run"
        "\n         cohortsum coordinator admit FOLDER request.yaml --role trustee"
        "\n      2. when they have sent consortium.yaml and consortium.sig:"
        f"\n         cohortsum trustee pin {folder} consortium.yaml consortium.sig"
    )


@app.command("pin")
def pin_roster(
    folder: Folder,
    roster: Annotated[Path, typer.Argument(help="The roster.", metavar="consortium.yaml")],
    signature: Annotated[Path, typer.Argument(help="Its signature.", metavar="consortium.sig")],
) -> None:
    """Verify a roster and pin it; a running trustee takes it up, and keeps earlier versions for the studies that name them."""
    config, operator = _settings(folder)
    held, files = pinning.pin(folder, operator, read(roster), read_signature(signature))
    _write(folder, files)
    console = output()
    console.print(f"pinned       {held.consortium}, roster version {held.version}", markup=False)
    console.print(f"fingerprint  {phrase(roster_words(operator, held.digest))}", markup=False)
    wrong = own_place(load_roll(folder, operator), config.identity, read_key(config.identity_key).public)
    if wrong is not None:
        say(f"\nnot yet: {wrong}")
    say(
        "\nnext: read these words to the operator by phone; if one differs, stop and do not run the trustee"
        f"\nthen: cohortsum trustee run {folder}"
    )


@app.command("deny")
def apply_deny_list(
    folder: Folder,
    file: Annotated[Path, typer.Argument(help="The deny-list.", metavar="deny.yaml")],
    signature: Annotated[Path, typer.Argument(help="Its signature.", metavar="deny.sig")],
) -> None:
    """Make a newer deny-list effective: keys on it no longer count. A running trustee takes it up."""
    _, operator = _settings(folder)
    held, files = pinning.deny(folder, operator, read(file), read_signature(signature))
    _write(folder, files)
    for entry in held.denied:
        output().print(f"{entry.id}  since {entry.since.date()}  {entry.reason}", markup=False)
    say(f"deny-list serial {held.serial} is in force\nnext: cohortsum trustee status {folder}")


@app.command("run")
def run_trustee(folder: Folder) -> None:
    """Serve the coordinator until SIGTERM; one JSON line per event on standard output. Keys live as long as this process."""
    from cohortsum.trustee.serve import run

    raise typer.Exit(run(folder))


@app.command("status")
def show_status(
    folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="For monitoring.")] = False
) -> None:
    """Show who this trustee is and what it decrypted, also while it runs; exit code 1 if something needs a look."""
    config, operator = _settings(folder)
    roll = load_roll(folder, operator)
    wrong = own_place(roll, config.identity, read_key(config.identity_key).public)
    with closing(Ledger(folder / LEDGER)) as ledger:
        rows, fault = ledger.every(), ledger.audit().fault
    notes = [
        note
        for note in (wrong, None if fault is None else f"the audit log was tampered with: {fault}")
        if note
    ]
    if as_json:
        typer.echo(json.dumps(_report(config, roll, rows, notes), indent=1))
    else:
        console = output()
        console.print(f"trustee      {config.identity}", markup=False)
        console.print(
            f"roster       version {roll.newest}; deny-list serial {roll.deny.serial}", markup=False
        )
        console.print(_table(roll.rosters[roll.newest], rows))
        for note in notes:
            say(f"needs a look: {note}")
    raise typer.Exit(1 if notes else 0)


def _report(
    config: TrusteeConfig, roll: Roll, rows: tuple[Decryption, ...], notes: list[str]
) -> dict[str, object]:
    decryptions = [
        {
            "study": row.study.hex(),
            "context": row.context.hex(),
            "survivors": row.survivors,
            "statement": row.statement.hex(),
            "ciphertext_digest": row.ciphertext_digest.hex(),
            "masked_digest": row.masked_digest.hex(),
            "at": row.at.isoformat(),
        }
        for row in rows
    ]
    return {
        "identity": config.identity,
        "roster": roll.newest,
        "deny": roll.deny.serial,
        "notes": notes,
        "decryptions": decryptions,
    }


def _table(roster: Roster, rows: tuple[Decryption, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="sums decrypted", title_justify="left")
    for heading in ("time (UTC)", "study", "attempt", "sites in the sum"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "time (UTC)")
    names = {index: site for site, index in roster.sites.items()}
    for row in rows:
        sites = ", ".join(names.get(index, f"index {index}") for index in row.survivors)
        study, attempt = row.study.hex()[:SHOWN], row.context.hex()[:SHOWN]
        table.add_row(f"{row.at:%Y-%m-%d %H:%M:%S}", study, attempt, escape(sites))
    return table


def _settings(folder: Path) -> tuple[TrusteeConfig, bytes]:
    config = load_trustee_config(folder)
    return config, bytes.fromhex(config.operator_key)


def _operator_key(text: str) -> bytes:
    """Return the key that an option holds or names."""
    path = Path(text)
    if path.exists():
        return read_public(path)
    return parse_hex(text.removeprefix(KEY_PREFIX).encode(), 32, "--operator")


def _write(folder: Path, files: pinning.Files) -> None:
    for name, data in files.items():
        path = folder / name
        if not path.parent.exists():
            make_folder(path.parent)
        replace(path, data)
