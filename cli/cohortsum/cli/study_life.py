"""`cohortsum study submit | amend | list | status | withdraw` and `cohortsum results get`: a study at the coordinator.

A statistician proves who they are with the key that is in the roster; ``operator.pub`` and ``consortium.sig`` lie beside
``consortium.yaml``, so that no coordinator can pass off a roster of its own. Every option may stand in the environment.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from cohortsum.cli.consoles import output
from cohortsum.cli.keys import say
from cohortsum.cli.study_files import print_difference, read_version
from cohortsum.crypto.certificates import TLS13_ONLY
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.files import read, read_key, read_public, read_signature, write_new
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import Role, Roster
from cohortsum.study.definition import FrozenStudy, parse_canonical, refuse_unbuilt
from cohortsum.study.definition.consortium import open_roster
from cohortsum.study.definition.difference import difference
from cohortsum.study.definition.signing import (
    SignedStudy,
    open_study,
    sign_study,
    signed_study_from_json,
    signed_study_to_json,
)
from cohortsum.study.definition.withdrawal import withdraw as sign_withdrawal
from cohortsum.study.enrolment import local_time

if TYPE_CHECKING:
    from cohortsum.coordinator.client import Desk
    from cohortsum.coordinator.hub import StudyEntry
    from cohortsum.coordinator.status import StudyStatus

Coordinator = Annotated[
    str, typer.Option(envvar="COHORTSUM_COORDINATOR", help="The coordinator's host and port.")
]
RosterFile = Annotated[
    Path,
    typer.Option(
        "--roster", envvar="COHORTSUM_ROSTER", help="consortium.yaml; .sig and operator.pub beside it."
    ),
]
KeyFile = Annotated[Path, typer.Option("--key", envvar="COHORTSUM_KEY", help="Your private key.")]
Identity = Annotated[str, typer.Option("--id", envvar="COHORTSUM_ID", help="Your id in the roster.")]
Named = Annotated[
    str, typer.Argument(help="The study's id (its newest version), or ID@VERSION.", metavar="STUDY")
]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Person:
    """Who asks, and whom."""

    target: str
    roster: Roster
    signer: Signer

    def ask(self, work: "Callable[[Desk], Awaitable[R]]") -> R:
        """Return what ``work`` returns over a line to the coordinator."""
        os.environ[TLS13_ONLY[0]] = TLS13_ONLY[1]  # before grpc is imported, or TLS 1.2 stays possible
        from cohortsum.coordinator.client import open_desk

        async def asked() -> R:
            async with open_desk(self.target, self.signer, self.roster) as desk:
                return await work(desk)

        return asyncio.run(asked())


def submit(
    file: Annotated[Path, typer.Argument(help="The study file, or signed as JSON.", metavar="STUDY")],
    coordinator: Coordinator,
    roster: RosterFile,
    key: KeyFile,
    identity: Identity,
    out: Annotated[Path | None, typer.Option(help="Keep the signed study in this new file.")] = None,
) -> None:
    """Sign a study and hand it to the coordinator; its enrolment begins at once."""
    person = person_of(coordinator, roster, key, identity)
    signed = _signed(file, person)
    study = open_study(signed, person.roster)
    if out is not None:
        write_new(out, signed_study_to_json(signed))
    person.ask(lambda desk: desk.submit(signed))
    output().print(
        f"submitted  {study.study} version {study.version}\nfingerprint  [bold]{study.fingerprint}[/bold]"
    )
    say(
        "every site reads the fingerprint to you before it approves"
        f"\nnext: cohortsum study status {study.study}"
    )


def amend(
    file: Annotated[Path, typer.Argument(help="The new version of the study file.", metavar="STUDY")],
    coordinator: Coordinator,
    roster: RosterFile,
    key: KeyFile,
    identity: Identity,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; for scripts.")] = False,
) -> None:
    """Show what a new version changes, then sign it and hand it in; every site decides anew."""
    person = person_of(coordinator, roster, key, identity)
    signed = _signed(file, person)
    study = open_study(signed, person.roster)

    async def earlier(desk: "Desk") -> FrozenStudy:
        entry = find_study(await desk.studies(), study.study)
        return parse_canonical((await desk.study(entry.digest)).canonical)

    before = person.ask(earlier)
    if study.version <= before.version:
        raise ConfigurationError(
            f"{file.name}: version {study.version}, but version {before.version} is at the coordinator; write version "
            f"{before.version + 1}"
        )
    print_difference(before, study, difference(before, study), output())
    if not yes and not typer.confirm("Sign and submit this version?", err=True):
        say("not submitted")
        raise typer.Exit(1)
    person.ask(lambda desk: desk.submit(signed))
    say(f"submitted: {study.study} version {study.version}, fingerprint {study.fingerprint}")


def show_list(coordinator: Coordinator, roster: RosterFile, key: KeyFile, identity: Identity) -> None:
    """List the studies at the coordinator."""
    entries = person_of(coordinator, roster, key, identity).ask(lambda desk: desk.studies())
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("study", "version", "state", "digest"):
        table.add_column(heading, no_wrap=True)
    for entry in entries:
        table.add_row(entry.name, str(entry.version), entry.state, entry.digest.hex()[:16])
    output().print(table)


def status(
    name: Named,
    coordinator: Coordinator,
    roster: RosterFile,
    key: KeyFile,
    identity: Identity,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Show who has answered, who is present, what blocks, and what would be lost."""
    found = person_of(coordinator, roster, key, identity).ask(lambda desk: _status_of(desk, name))
    if as_json:
        typer.echo(json.dumps(asdict(found) | {"digest": found.digest.hex()}, indent=1, default=str))
        return
    print_status(found)


def withdraw(
    name: Named, coordinator: Coordinator, roster: RosterFile, key: KeyFile, identity: Identity
) -> None:
    """Take a study back: open rounds end, released results stand."""
    person = person_of(coordinator, roster, key, identity)

    async def take_back(desk: "Desk") -> "StudyEntry":
        entry = find_study(await desk.studies(), name)
        await desk.withdraw(sign_withdrawal(entry.digest, identity, person.signer.key))
        return entry

    entry = person.ask(take_back)
    say(f"withdrawn: {entry.name} version {entry.version}; what was released stands")


def get(
    name: Named,
    out: Annotated[Path, typer.Option(help="The folder to write; must not exist.")],
    coordinator: Coordinator,
    roster: RosterFile,
    key: KeyFile,
    identity: Identity,
) -> None:
    """Fetch what is released of a study: result.json, a page, tables and figures."""
    if out.exists():
        raise ConfigurationError(f"--out {out}: exists already and is not overwritten; name another")
    person = person_of(coordinator, roster, key, identity)

    async def fetch(desk: "Desk") -> object:
        return await desk.result(find_study(await desk.studies(), name).digest)

    document = person.ask(fetch)
    from cohortsum.coordinator.publish import write_release  # loads the plotting library
    from cohortsum.report.document import ResultDocument

    assert isinstance(document, ResultDocument)  # noqa: S101 - what `fetch` returns
    write_release(out, document)
    say(f"results: {out}\nnext: cohortsum results show {out}; or open {out / 'report.html'}")


def print_status(found: "StudyStatus") -> None:
    """Print where a study stands."""
    console = output()
    console.print(f"[bold]{found.name}[/bold] version {found.version}: {found.state}  {escape(found.reason)}")
    if found.enrolment_closes is not None:
        tense = "closes" if found.state == "enrolling" else "closed"
        console.print(f"enrolment {tense} {local_time(found.enrolment_closes)}")
    if found.sites:
        table = Table(box=box.SIMPLE_HEAD)
        for heading in ("site", "answer", "present", "last seen"):
            table.add_column(heading, no_wrap=True)
        for site in found.sites:
            seen = "" if site.last_seen is None else local_time(site.last_seen)
            table.add_row(site.id, site.answer or "none yet", "yes" if site.present else "no", seen)
        console.print(table)
    for attempt in found.attempts:
        which = f"round {attempt.iteration}, attempt {attempt.attempt}"
        console.print(f"{which}: {attempt.state} {attempt.reason}".rstrip(), markup=False)
    for sentence in found.blocks:
        console.print(f"waits: {sentence}", markup=False)


async def _status_of(desk: "Desk", name: str) -> "StudyStatus":
    return await desk.status(find_study(await desk.studies(), name).digest)


def find_study(entries: "tuple[StudyEntry, ...]", name: str) -> "StudyEntry":
    """Return the newest version of a study by id, or exactly ``ID@VERSION``."""
    fitting = [entry for entry in entries if name in (entry.name, f"{entry.name}@{entry.version}")]
    if not fitting:
        known = ", ".join(f"{entry.name}@{entry.version}" for entry in entries) or "none"
        raise ConfigurationError(f"'{name}': no such study at the coordinator; there are: {known}")
    return max(fitting, key=lambda entry: entry.version)


def _signed(file: Path, person: Person) -> SignedStudy:
    if file.suffix == ".json":
        return signed_study_from_json(read(file))
    study = read_version(file)
    refuse_unbuilt(study)
    return sign_study(study, person.signer.identity.id, person.signer.key)


def person_of(
    coordinator: str, roster: Path, key: Path, identity: str, roles: Sequence[Role] = (Role.STATISTICIAN,)
) -> Person:
    """Return who asks; raises ConfigurationError unless the roster has the key's public half under this id, in one of ``roles``."""
    signature = read_signature(roster.with_suffix(".sig"))
    held = open_roster(read(roster), signature, read_public(roster.parent / "operator.pub"), roster.name)
    private = read_key(key)
    entry = held.identities.get(identity)
    if entry is None or entry.role not in roles or entry.key != private.public:
        raise ConfigurationError(
            f"'{identity}' with this key is no {' or '.join(roles)} of {roster.name} (version {held.version}); give the newest "
            "roster, or ask the operator to admit you"
        )
    return Person(coordinator, held, Signer(entry, private))
