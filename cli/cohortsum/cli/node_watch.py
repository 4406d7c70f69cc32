"""`cohortsum node status | withdraw | run`: a node at work, and people who withdraw their consent."""

import json
import math
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cohortsum.cli.consoles import output
from cohortsum.cli.keys import say
from cohortsum.cli.node_admin import Folder, findings_table
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.board import read_board
from cohortsum.node.consent import withdraw_consent
from cohortsum.node.files import read
from cohortsum.node.findings import exit_code
from cohortsum.node.status import node_findings


def status(
    folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="For monitoring.")] = False
) -> None:
    """Show whether the node runs, reaches the coordinator, and waits for you; exit code 0 well, 1 look, 2 broken."""
    findings = node_findings(folder, datetime.now(UTC))
    code = exit_code(findings)
    if as_json:
        typer.echo(json.dumps({"code": code, "checks": [asdict(finding) for finding in findings]}, indent=1))
    else:
        output().print(findings_table(findings))
    raise typer.Exit(code)


def withdraw(
    folder: Folder,
    ids: Annotated[
        Path | None, typer.Option(help="A file with one person id per line; without it, standard input.")
    ] = None,
) -> None:
    """People withdrew their consent: leave them out of every cohort and close the epoch, at once."""
    text = sys.stdin.buffer.read() if ids is None else read(ids)
    try:
        lines = text.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ConfigurationError("the person ids: expected UTF-8 text; save the file as such") from None
    epoch, new = withdraw_consent(folder, lines)
    say(
        f"{new} ids joined the exclusion list; epoch {epoch} is closed. Open rounds end here, released results stand."
        f"\nnext: cohortsum node snapshot {folder} --epoch NEW-LABEL, and tell the statistician that label"
    )


def recover(
    folder: Folder,
    patience: Annotated[float, typer.Option(help="Seconds without the coordinator before giving up.")] = 60.0,
) -> None:
    """After a restore or a lost ledger: rebuild it from signed transcripts, never below what this site has done."""
    from cohortsum.node.serve import recover as rebuild  # loads gRPC

    board = read_board(folder)
    if board is not None and board.is_running(datetime.now(UTC)):
        raise ConfigurationError(
            "the node runs, or did so two minutes ago; stop it, wait that long, and try again"
        )
    done = rebuild(folder, patience)
    say(f"{done.rounds} rounds of this site are proven, {done.forgotten} of them had been forgotten")
    for epoch in done.closed:
        say(
            f"epoch {epoch} is closed: it is not known any more which data it stood for; make a snapshot with a new label"
        )
    say(
        f"the ledger is rebuilt (incarnation {done.incarnation})"
        f"\nnext: cohortsum node doctor {folder}, then cohortsum node run {folder}"
    )


def compare(
    folder: Folder,
    record: Annotated[
        Path, typer.Argument(help="Another site's record of an attempt (.told).", metavar="RECORD")
    ],
) -> None:
    """Compare what another site was told with what this one was told; exit code 0 the same, 1 evidence was kept."""
    from cohortsum.node.evidence import compare as compare_records  # loads the statistics

    kept = compare_records(folder, read(record), record.name)
    for path in kept:
        output().print(str(path), markup=False)
    if kept:
        say("the two records contradict each other; docs/evidence.md says what to do")
        raise typer.Exit(1)
    say(
        "nothing new: both sites were told the same, as far as the records go, or the evidence is on file already"
    )


def run_node(
    folder: Folder,
    patience: Annotated[
        float, typer.Option(help="Seconds without the coordinator before giving up; never by default.")
    ] = math.inf,
) -> None:
    """Serve until SIGTERM: one JSON line per event on standard output, which stays here."""
    from cohortsum.node.serve import run

    raise typer.Exit(run(folder, patience))
