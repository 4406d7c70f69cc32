"""`cohortsum study init` and `diff`: a study file to begin with, and what changed since an admin last read one."""

import shlex
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from cohortsum.cli.consoles import output
from cohortsum.cli.keys import say
from cohortsum.node.files import read, write_new
from cohortsum.study.definition import FrozenStudy, freeze, load_study, parse_canonical
from cohortsum.study.definition.difference import Change, Weight, could_carry_over, difference
from cohortsum.study.definition.signing import signed_study_from_json
from cohortsum.study.definition.starter import EDIT, starter

STYLES = {
    Weight.OTHER: "bold red", Weight.PROTECTION: "red", Weight.COHORT: "magenta", Weight.NUMBERS: "yellow",
    Weight.RELEASE: "cyan", Weight.SCHEDULE: "blue", Weight.WORDING: "dim",
}  # fmt: skip

Version = Annotated[Path, typer.Argument(help="A study file, or a signed study (.json).")]


def init(
    file: Annotated[Path, typer.Argument(help="The study file to write; must not exist.", metavar="STUDY")],
    identity: Annotated[str, typer.Option("--id", help="The study's id: letters, digits, - and _.")],
) -> None:
    """Write a commented study file to begin with: one summary, one regression."""
    write_new(file, starter(identity).encode())
    say(
        f"wrote {file}\nnext: change the lines marked {EDIT}, then: cohortsum study check {shlex.quote(str(file))}"
    )


def diff(old: Version, new: Version) -> None:
    """Say what changes between two versions of a study; exit code 0 nothing, 1 something. Signatures are not checked."""
    before, after = read_version(old), read_version(new)
    changes = difference(before, after)
    print_difference(before, after, changes, output())
    raise typer.Exit(1 if changes else 0)


def read_version(path: Path) -> FrozenStudy:
    """Return the study in a file: as a statistician writes it, or signed as JSON; the signature is not checked."""
    data = read(path)
    if path.suffix == ".json":
        return parse_canonical(signed_study_from_json(data).canonical)
    return freeze(load_study(data, path.name))


def print_difference(
    old: FrozenStudy, new: FrozenStudy, changes: tuple[Change, ...], console: Console
) -> None:
    """Print the changes under what they touch, gravest first, and what they mean for an approval."""
    console.print(f"[bold]{escape(new.title)}[/bold]  (study {new.study})")
    for name, study in (("old", old), ("new", new)):
        console.print(f"{name}  version {study.version}, fingerprint {study.fingerprint}")
    for weight, group in groupby(changes, key=lambda change: change.weight):
        console.print(f"\n[{STYLES[weight]}]{weight.value}[/]")
        for change in group:
            console.print(f"  [{STYLES[weight]}]*[/] {escape(change.sentence)}")
    console.print(f"\n{_verdict(old, new, changes)}", markup=False)


def _verdict(old: FrozenStudy, new: FrozenStudy, changes: tuple[Change, ...]) -> str:
    """Return the sentence about approvals; versions that do not go up are said first."""
    if old.digest == new.digest:
        return "The two are one study, byte for byte: an approval of one is an approval of the other."
    if new.version < old.version:
        return "The new file is the older version: stricter and weaker are the wrong way round. Name the older one first."
    if new.version == old.version:
        return f"Both say version {new.version} and they differ: an approval cannot carry over. Ask for a higher version."
    if could_carry_over(changes):
        return (
            f"An approval of version {old.version} could carry over: the same numbers would leave, of the same people, "
            "under the same protection."
        )
    return f"An approval of version {old.version} cannot carry over: version {new.version} needs a decision of its own."
