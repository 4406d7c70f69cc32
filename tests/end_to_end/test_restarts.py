"""Daemons killed without warning and started again: between rounds nothing is lost, inside one a site is a dropout at most."""

import shutil
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

from cohortsum.cli.results import read_document
from cohortsum.report.document import ResultDocument
from tests.end_to_end.tutorial import SITES, STUDY, Desk, Steps, prepare, state_of, until

FEWER = STUDY.replace("min_sites: 5 ", "min_sites: 4 ").replace(
    "max_colluding_sites: 1 ", "max_colluding_sites: 0 "
)
Running = dict[str, "subprocess.Popen[bytes]"]


def start(town: Desk, steps: Steps, stack: ExitStack, *parties: str) -> Running:
    held = {
        party: stack.enter_context(
            town.started(party, steps.run_hub if party == "operator" else steps.run_node)
        )
        for party in parties
    }
    if "operator" in parties:
        until(lambda: "listening" in town.log("operator"), "the coordinator listens")
    return held


def kill(running: Running, *parties: str) -> None:
    """End processes as a power cut does."""
    for party in parties:
        running[party].send_signal(signal.SIGKILL)
        assert running[party].wait(timeout=10) == -signal.SIGKILL


def approve(town: Desk, steps: Steps, *sites: str) -> None:
    for site in sites:
        until(lambda: "asd-open" in town.type(site, steps.decide[0]), f"{site} hears of the study")  # noqa: B023
        town.type(site, steps.decide[-1])
        until(lambda: takes_part(town, site), f"{site} takes part")  # noqa: B023


def takes_part(town: Desk, site: str) -> bool:
    """Return whether a site said that it takes part; after the last approval the study may be over at once."""
    said = town.type(site, f"cohortsum node studies {'site'}")
    return "takes part" in said or "over" in said


def released(town: Desk) -> ResultDocument:
    until(lambda: state_of(town) == "released", "the study is released")
    return read_document(town.folders["operator"] / "consortium" / "results" / "asd-open" / "v1")


def people(document: ResultDocument) -> int:
    table = next(block.table() for block in document.tables if block.kind == "summary")
    columns = list(table.columns)
    rows = [row for row in table.rows if row[columns.index("variable")] == table.rows[0][0]]
    return sum(int(str(row[columns.index("n")])) for row in rows)


def rows_at(town: Desk, *sites: str) -> int:
    return sum(len((town.folders[site] / "people.csv").read_text().splitlines()) - 1 for site in sites)


def test_killed_between_rounds_nothing_is_lost(tmp_path: Path) -> None:
    """The coordinator and two nodes die while the study enrols; what was approved stays approved."""
    town = Desk(tmp_path)
    steps = prepare(town, STUDY)
    with ExitStack() as stack:
        running = start(town, steps, stack, "operator", *SITES)
        for command in steps.submit:
            town.type("statistician", command)
        approve(town, steps, *SITES[:3])
        kill(running, "operator", *SITES[:2])
        running |= start(town, steps, stack, "operator", *SITES[:2])
        approve(town, steps, *SITES[3:])
        document = released(town)
        assert document.sites.survivors == SITES
        assert people(document) == rows_at(town, *SITES)

        # the drill: stopped, copied, started from the copy, the result is there
        running["operator"].send_signal(signal.SIGTERM)
        assert running["operator"].wait(timeout=30) == 0
        home = town.folders["operator"]
        shutil.copytree(home / "consortium", tmp_path / "backup")
        shutil.rmtree(home / "consortium")
        shutil.copytree(tmp_path / "backup", home / "consortium")
        start(town, steps, stack, "operator")
        assert state_of(town) == "released"
        for command in steps.fetch:
            town.type("statistician", command)
        fetched = read_document(town.folders["statistician"] / "asd-open-results")
        assert fetched == document


def test_killed_inside_a_round_a_node_is_a_dropout_and_the_coordinator_resumes(tmp_path: Path) -> None:
    """One node dies before its masked input is written down, the coordinator while it waits for it; both come back.

    The coordinator goes on with the same attempt over the others, whose nodes send again what it lost. The node has lost its secrets
    and stays out of it.
    """
    town = Desk(tmp_path)
    steps = prepare(town, FEWER + "deadlines: {gather: 60s, step: 6s, step_max: 6s}\n")
    victim = SITES[1]
    town.environments[victim]["COHORTSUM_FAILPOINT"] = "site.r2.before"
    with ExitStack() as stack:
        running = start(town, steps, stack, "operator", *SITES)
        for command in steps.submit:
            town.type("statistician", command)
        approve(town, steps, *SITES)
        assert running[victim].wait(timeout=60) == -signal.SIGKILL
        until(lambda: '"R2 masked input"' in town.log("operator"), "the round is in R2")
        kill(running, "operator")
        del town.environments[victim]["COHORTSUM_FAILPOINT"]
        start(town, steps, stack, victim, "operator")
        document = released(town)
    assert set(document.sites.survivors) == set(SITES) - {victim}
    assert people(document) == rows_at(town, *document.sites.survivors)
    assert document.round.attempt == 1


def test_a_node_killed_inside_a_round_leaves_the_sum_of_the_others(tmp_path: Path) -> None:
    town = Desk(tmp_path)
    steps = prepare(town, FEWER + "deadlines: {gather: 60s, step: 5s, step_max: 5s}\n")
    victim = SITES[2]
    town.environments[victim]["COHORTSUM_FAILPOINT"] = "site.r1.sent"
    with ExitStack() as stack:
        start(town, steps, stack, "operator", *SITES)
        for command in steps.submit:
            town.type("statistician", command)
        approve(town, steps, *SITES)
        document = released(town)
    others = tuple(site for site in SITES if site != victim)
    assert document.sites.survivors == others
    assert people(document) == rows_at(town, *others)
