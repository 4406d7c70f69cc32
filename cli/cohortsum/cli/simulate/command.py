"""`cohortsum simulate`: run a study over files on this machine, as a consortium would over its sites."""

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cohortsum.cli.consoles import messages, output
from cohortsum.cli.results import read_document, show_table
from cohortsum.cli.simulate.consortium import Consortium, found
from cohortsum.cli.simulate.inputs import SiteTables, site_tables
from cohortsum.cli.simulate.processes import local_reasons, run_processes
from cohortsum.cli.simulate.progress import JsonProgress, LiveProgress, PlainProgress, Progress
from cohortsum.cli.study import read_study
from cohortsum.coordinator.items import waits_for
from cohortsum.crypto.errors import ConfigurationError, RoundFailedError
from cohortsum.report.document import provenance
from cohortsum.study.definition import FrozenStudy, refuse_unbuilt

ROWS_SHOWN = 12
MOST_LACKING = 20
"""Lines about what sites do not supply."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a simulation left behind: its folder, and why sites stayed out or lack something (known here only).

    ``lacking`` names the sites by item and reason.
    """

    folder: Path
    reasons: dict[str, str]
    lacking: dict[tuple[str, str], list[str]]


def simulate(
    file: Annotated[Path, typer.Argument(help="The study file.", metavar="STUDY")],
    data: Annotated[Path, typer.Option(help="A folder with one table per site, or one table.")],
    out: Annotated[Path, typer.Option(help="Folder for the results; made, and must be empty.")],
    split_by: Annotated[str | None, typer.Option(help="Column of the one table that names the site.")] = None,
    node: Annotated[
        Path | None, typer.Option(help="A node.yaml for all sites: tables, variables, codes, missing.")
    ] = None,
    profile: Annotated[str, typer.Option(help="Policy profile of every site: dpuk or open_data.")] = "dpuk",
    policy: Annotated[
        Path | None, typer.Option(help="A policy.yaml for all sites, in the place of --profile.")
    ] = None,
    in_process: Annotated[
        bool, typer.Option(help="One process, no sockets: faster, exercises less.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Every event as a JSON line on standard output.")
    ] = False,
) -> None:
    """Run a study over files on this machine: a throw-away consortium, real gRPC and TLS, one process per site."""
    console = messages()
    study = read_study(file)
    run = run_simulation(study, data, out, split_by, node, profile, in_process, console, json, policy=policy)
    report(run, study, output(), quiet=json)


def run_simulation(
    study: FrozenStudy,
    data: Path,
    out: Path,
    split_by: str | None,
    node: Path | None,
    profile: str,
    in_process: bool,
    console: Console,
    json: bool = False,
    failpoints: dict[str, str] | None = None,
    policy: Path | None = None,
) -> Run:
    """Run a study over files; results lie in ``out`` afterwards.

    Raises:
        ConfigurationError: something given is wrong; nothing has run.
        RoundFailedError: no result; the reasons that only a simulation knows are printed.
    """
    refuse_unbuilt(study)
    if in_process and study.protection.mode == "two_key":
        raise ConfigurationError(
            "--in-process: in two-key mode the trustee is a process of its own; simulate without --in-process"
        )
    if in_process and study.protection.mode == "committee":
        raise ConfigurationError(
            "--in-process: the members of a committee compute in processes of their own; simulate without --in-process"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigurationError(
            f"--out {out} is not an empty folder; name another, so that nothing is overwritten"
        )
    work = out / "consortium"
    work.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="cohortsum-split-") as scratch:
        try:
            tables = site_tables(data, split_by, Path(scratch))
            consortium = found(study, tables.files, profile, node, work, policy)
        except BaseException:
            shutil.rmtree(out)
            raise
        _announce(console, study, tables)
        try:
            with _progress(console, len(tables.files), json) as progress:
                if in_process:
                    from cohortsum.cli.simulate.in_process import run_in_process  # loads node and coordinator

                    reason, local = run_in_process(consortium, out / "release", progress)
                else:
                    reason = run_processes(consortium, out / "release", progress, failpoints)
                    local = local_reasons(consortium)
        finally:
            _wipe_secrets(consortium)
    for site, why in sorted(local.reasons.items()):
        console.print(f"site {site} stayed out (local, a simulation may say why): {why}", markup=False)
    for (item, why), sites in sorted(local.lacking.items())[:MOST_LACKING]:
        said = f"{len(sites)} of the sites do not supply {item} (local, a simulation may say why): {why}"
        console.print(said, markup=False)
    if len(local.lacking) > MOST_LACKING:
        console.print(f"and {len(local.lacking) - MOST_LACKING} items more that some sites do not supply")
    if reason:
        raise RoundFailedError(f"{reason} (logs: {work / 'logs'})" if not in_process else reason)
    _unpack(out, study)
    return Run(out, local.reasons, local.lacking)


def report(run: Run, study: FrozenStudy, console: Console, quiet: bool) -> None:
    """Print the tables of a run and where they lie."""
    document = read_document(run.folder)
    if not quiet:
        for block in document.tables:
            show_table(console, block.table(), ROWS_SHOWN)
        if waits := waits_for(study, document):
            console.print(f"{waits}; of these only names and states are written", markup=False)
        sites = document.sites
        console.print(f"{len(sites.survivors)} of {len(sites.took_part)} sites are in the sums")
        console.print(provenance(document), style="dim")
        console.print(f"results: {run.folder}", soft_wrap=True)


def _announce(console: Console, study: FrozenStudy, tables: SiteTables) -> None:
    console.print(
        f"study {study.study}, fingerprint {study.fingerprint}: {len(tables.files)} sites, keys made for this run only"
    )
    console.print(
        "simulated: enrol and gather are ignored; the epoch is taken as the label of this input", style="dim"
    )
    for note in tables.notes:
        console.print(f"note: {note}", markup=False)


def _progress(console: Console, sites: int, json: bool) -> Progress:
    if json:
        return JsonProgress()
    if console.is_terminal:
        return LiveProgress(console, sites)
    return PlainProgress(lambda line: print(line, file=sys.stderr, flush=True), sites)


def _wipe_secrets(consortium: Consortium) -> None:
    """Throw the run's keys away, whatever became of it."""
    for path in consortium.folder.rglob("identity.key"):
        path.write_bytes(bytes(path.stat().st_size))
        path.unlink()


def _unpack(out: Path, study: FrozenStudy) -> None:
    """Move the release's content up, beside the folder that holds the run's logs and stores."""
    from cohortsum.coordinator.publish import release_folder  # loads the coordinator

    for path in sorted(release_folder(out / "release", study).iterdir()):
        path.rename(out / path.name)
    shutil.rmtree(out / "release")
