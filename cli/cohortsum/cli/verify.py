"""`cohortsum verify`: what a proof bundle or a file of evidence shows, offline, with the fingerprint of the consortium's roster."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from cohortsum.cli.consoles import messages, output
from cohortsum.cli.keys import say
from cohortsum.crypto.errors import ConfigurationError, CryptoError, cannot_be_read
from cohortsum.crypto.fingerprint import Words, parse_words
from cohortsum.node.files import read_sealing_key
from cohortsum.study.release.archive import MAX_ARCHIVE_BYTES

if TYPE_CHECKING:
    from cohortsum.report.bundle_check import Failure, Passed


def verify(
    bundle: Annotated[
        Path, typer.Argument(help="A proof bundle (.zip), or a file of evidence (.evidence).", metavar="FILE")
    ],
    fingerprint: Annotated[
        str | None,
        typer.Option(
            "--roster-fingerprint",
            help="The twelve words of the consortium's roster, or the text of its QR code. Get them from the operator or a site, "
            "not with the file.",
            metavar="WORDS-OR-CODE",
        ),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="An auditor's private sealing key: also add the sums up again.")
    ] = None,
    identity: Annotated[str | None, typer.Option("--id", help="The auditor's id in the roster.")] = None,
) -> None:
    """Verify a proof bundle or a file of evidence; exit code 0 everything holds, 1 something is wrong, 2 it cannot be read."""
    from cohortsum.report.bundle_check import check_bundle  # loads the statistics
    from cohortsum.study.release.evidence_file import is_evidence

    words = _words(fingerprint)
    if (key is None) != (identity is None):
        raise ConfigurationError("--key and --id belong together: the key, and whose it is")
    data = _read(bundle)
    if is_evidence(data):
        if key is not None:
            raise ConfigurationError("--key is for proof bundles: nothing in a file of evidence is sealed")
        _evidence(data, bundle.name, words)
        return
    verdict = check_bundle(data, bundle.name, words)
    _print(verdict.passed, verdict.failure)
    if verdict.failure is not None or verdict.proven is None:
        raise typer.Exit(1 if verdict.readable else 2)
    if key is not None and identity is not None:
        from cohortsum.report.bundle_audit import audit

        try:
            found = audit(verdict.proven, identity, read_sealing_key(key))
        except CryptoError as error:
            messages().print(f"the sealed part is wrong: {error.message}", markup=False)
            raise typer.Exit(1) from None
        output().print(
            f"{found.rounds} sums added up again from what {len(verdict.proven.rounds[-1].survivors)} sites signed; "
            f"{found.people} people",
            markup=False,
        )
        for names, words_ in (
            (found.same, "follow from the sums"),
            (found.other, "do NOT follow from them directly"),
        ):
            if names:
                output().print(f"tables that {words_}: {', '.join(names)}", markup=False)
        if found.unknown:
            output().print(found.unknown, markup=False)
        if found.other:
            say(
                "an item that was returned is computed again by its remedy, which a bundle does not hold: ask its checkers; if it "
                "was not returned, do not use it"
            )
            raise typer.Exit(1)
    say(
        "everything in the bundle holds. Whether the numbers are the sums of what the sites sent, only auditors and the sites see: "
        "docs/proof-bundle.md"
    )


def _evidence(data: bytes, source: str, words: Words) -> None:
    """Print who did what by a file of evidence, or the first thing that is wrong with it."""
    from cohortsum.report.evidence_verdict import check_evidence_file

    verdict = check_evidence_file(data, source, words)
    _print(verdict.passed, verdict.failure)
    if verdict.proof is None:
        raise typer.Exit(1 if verdict.readable else 2)
    for sentence in verdict.proof.sentences:
        output().print(sentence, markup=False)
    say("what this proves, and what to do with it: docs/evidence.md")


def _print(passed: "Sequence[Passed]", failure: "Failure | None") -> None:
    """Print the checks that held, and the first that did not."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "check", "found"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "check")
    for one in passed:
        table.add_row("✓", one.check, escape(one.found))
    if failure is not None:
        table.add_row("✗", failure.check, escape(failure.sentence))
    output().print(table)


def _words(fingerprint: str | None) -> Words:
    if fingerprint is None or not fingerprint.strip():
        raise ConfigurationError(
            "--roster-fingerprint is missing: without it nothing in a file is trusted. Ask the operator or a site for the twelve "
            "words (`cohortsum coordinator roster` prints them), not whoever sent the file"
        )
    lines = [line for line in fingerprint.strip().splitlines() if line.strip()]
    return parse_words(lines[-1] if len(lines) == 2 and "roster" in lines[0] else fingerprint)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_ARCHIVE_BYTES:
            raise ConfigurationError(
                f"{path.name}: more than {MAX_ARCHIVE_BYTES} bytes; no bundle is that large"
            )
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(cannot_be_read(path.name, error)) from None
