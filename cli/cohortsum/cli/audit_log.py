"""`cohortsum node audit`, and the same of coordinator and trustee: what was done, line by line, and whether the lines hold together."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from cohortsum.cli.consoles import output
from cohortsum.cli.keys import say
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.node import inbox
from cohortsum.node.config import load_node_config
from cohortsum.node.ledger import Ledger
from cohortsum.protocol.audit import Line, line_digest
from cohortsum.protocol.audit_check import Examined
from cohortsum.study.definition import parse_canonical
from cohortsum.trustee.config import LEDGER, load_trustee_config
from cohortsum.trustee.ledger import Ledger as TrusteeLedger

HELP = "Read and verify the audit log: one line per deed, each with the hash of the line before it."
SHOWN = 8
"""Hexadecimal digits of a digest in the table; `--json` has all of them."""

node = typer.Typer(no_args_is_help=True, help=HELP)
coordinator = typer.Typer(no_args_is_help=True, help=HELP)
trustee = typer.Typer(no_args_is_help=True, help=HELP)

Folder = Annotated[Path, typer.Argument(help="The node's folder.", metavar="FOLDER")]
Home = Annotated[Path, typer.Argument(help="The consortium's folder.", metavar="FOLDER")]
Held = Annotated[Path, typer.Argument(help="The trustee's folder.", metavar="FOLDER")]
Known = Annotated[
    str | None, typer.Option("--head", help="A head that was written down earlier: is it in the log?")
]
Named = Annotated[
    str | None, typer.Option("--study", help="Only this study: its id, ID@VERSION, or start of its digest.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line, digests in full.")]


@node.command("verify")
def verify_node(folder: Folder, head: Known = None) -> None:
    """Verify the chain; exit code 0 whole, 1 the ledger does not confirm its last lines, 2 tampered with."""
    _verify(_of_node(folder), head, f"cohortsum node audit renew {folder}")


@node.command("show")
def show_node(folder: Folder, study: Named = None, as_json: AsJson = False) -> None:
    """Show what this node did; exit code 2 where the log was tampered with."""
    studies = map(parse_canonical, (signed.canonical for signed in inbox.held(folder).values()))
    names = {study.digest: f"{study.study}@{study.version}" for study in studies}
    _show(_of_node(folder), names, study, as_json)


@node.command("renew")
def renew_node(folder: Folder) -> None:
    """Set a log that was tampered with aside, and begin a new file that goes on with the chain."""
    if _may_renew(_of_node(folder)):
        with closing(Ledger(folder / "ledger.db")) as ledger:
            _say_renewed(ledger.renew_audit(), f"cohortsum node run {folder}")


@coordinator.command("verify")
def verify_coordinator(folder: Home, head: Known = None) -> None:
    """Verify the chain; exit code 0 whole, 1 the store does not confirm its last lines, 2 tampered with."""
    _verify(_of_coordinator(folder)[0], head, f"cohortsum coordinator audit renew {folder}")


@coordinator.command("show")
def show_coordinator(folder: Home, study: Named = None, as_json: AsJson = False) -> None:
    """Show what the coordinator did; exit code 2 where the log was tampered with."""
    _show(*_of_coordinator(folder), study, as_json)


@coordinator.command("renew")
def renew_coordinator(folder: Home) -> None:
    """Set a log that was tampered with aside, and begin a new file that goes on with the chain."""
    from cohortsum.coordinator.audit_log import AUDIT
    from cohortsum.coordinator.config import load_coordinator_config
    from cohortsum.coordinator.store import Store

    if _may_renew(_of_coordinator(folder)[0]):
        config = load_coordinator_config(folder / "coordinator.yaml")
        with closing(Store(config.store, folder / AUDIT, config.process)) as store:
            _say_renewed(store.renew_audit(), f"cohortsum coordinator run {folder}")


@trustee.command("verify")
def verify_trustee(folder: Held, head: Known = None) -> None:
    """Verify the chain; exit code 0 whole, 1 the ledger does not confirm its last lines, 2 tampered with."""
    _verify(_of_trustee(folder), head, f"cohortsum trustee audit renew {folder}")


@trustee.command("show")
def show_trustee(folder: Held, study: Named = None, as_json: AsJson = False) -> None:
    """Show what this trustee did, studies by their digests; exit code 2 where the log was tampered with."""
    _show(_of_trustee(folder), {}, study, as_json)


@trustee.command("renew")
def renew_trustee(folder: Held) -> None:
    """Set a log that was tampered with aside, and begin a new file that goes on with the chain."""
    if _may_renew(_of_trustee(folder)):
        with closing(TrusteeLedger(folder / LEDGER)) as ledger:
            _say_renewed(ledger.renew_audit(), f"cohortsum trustee run {folder}")


def _of_trustee(folder: Path) -> Examined:
    load_trustee_config(folder)  # in a wrong folder no ledger is made
    with closing(TrusteeLedger(folder / LEDGER)) as ledger:
        return ledger.audit()


def _of_node(folder: Path) -> Examined:
    load_node_config(folder / "node.yaml")  # in a wrong folder no ledger is made
    with closing(Ledger(folder / "ledger.db")) as ledger:
        return ledger.audit()


def _of_coordinator(folder: Path) -> tuple[Examined, Mapping[bytes, str]]:
    """Return the log of the coordinator in a folder, and the names of its studies by digest."""
    from cohortsum.coordinator.overview import audit_of  # loads SQLAlchemy

    return audit_of(folder)


def _verify(found: Examined, known: str | None, renew: str) -> None:
    if found.fault is not None:
        say(
            f"the audit log was tampered with: {found.fault}\nnext: keep audit.jsonl as it is for whoever investigates; then "
            f"{renew}"
        )
        raise typer.Exit(2)
    console = output()
    if found.lines:
        first, last = found.lines[0].number, found.lines[-1].number
        console.print(f"audit log  {len(found.lines)} lines hold together, {first} to {last}", markup=False)
        console.print(f"head       {found.digests[-1].hex()}", markup=False)
    else:
        console.print("audit log  no line yet", markup=False)
    if known is not None and not found.holds(parse_hex(known.encode(), 32, "--head")):
        say(
            "the head that was written down is not in this log: the log was rewritten since, or it is another one"
        )
        raise typer.Exit(2)
    if found.unconfirmed or found.torn:
        say(
            f"the database does not confirm the last {found.unconfirmed} lines, and {found.torn} bytes are no whole line: a crash "
            "or a restored database leaves this, and so does somebody who adds lines.\nnext: the next line will say so by itself"
        )
        raise typer.Exit(1)
    say("next: write the head down where this account cannot change it; --head finds it again later")


def _show(found: Examined, names: Mapping[bytes, str], study: str | None, as_json: bool) -> None:
    lines = [line for line in found.lines if study is None or _fits(line, names, study)]
    if as_json:
        for line in lines:
            held = json.loads(line.to_bytes())
            named = {"name": names[line.deed.study]} if line.deed.study in names else {}
            typer.echo(json.dumps({**held, **named, "hash": line_digest(line.to_bytes()).hex()}))
    else:
        output().print(_table(lines, names))
    if found.fault is not None:
        say(f"the audit log was tampered with: {found.fault}; what is shown may be wrong from there on")
        raise typer.Exit(2)


def _table(lines: list[Line], names: Mapping[bytes, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("line", justify="right")
    for heading in ("time (UTC)", "deed", "study", "by", "detail", "attempt", "message"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("time (UTC)", "deed"))
    for line in lines:
        deed = line.deed
        name = names.get(deed.study, deed.study.hex()[:SHOWN])
        cells = (f"{line.at:%Y-%m-%d %H:%M:%S}", deed.kind.value, name, deed.by, deed.detail)
        table.add_row(
            str(line.number), *map(escape, cells), deed.context.hex()[:SHOWN], deed.digest.hex()[:SHOWN]
        )
    return table


def _fits(line: Line, names: Mapping[bytes, str], study: str) -> bool:
    digest, name = line.deed.study, names.get(line.deed.study, "")
    begins = len(study) >= 8 and digest.hex().startswith(study)
    return begins or (name != "" and study in (name, name.rpartition("@")[0]))


def _may_renew(found: Examined) -> bool:
    if found.fault is None:
        say("the audit log holds together; nothing changes")
    return found.fault is not None


def _say_renewed(name: str, run: str) -> None:
    say(
        f"the old log is {name} now: keep it. A new audit.jsonl goes on with the chain.\nnext: find out what happened; then {run}"
    )
