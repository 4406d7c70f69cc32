"""One large round over gRPC with mutual TLS: ``python benchmarks/scale.py [--sites N] [--numbers D] [--processes P] [--json FILE]``.

The coordinator is its own process (``python -m cohortsum.coordinator.serve``), whose memory is read from the system step by step. The
sites are the daemons of nodes, many to a process (`scale_sites`): 200 processes of a node would need some 30 GB. The opened sum is
compared, number by number, with the sum of what the sites added; one that differs ends the run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Report, Row, median
from benchmarks.resident import process_mib, reset_process
from cohortsum.cli.simulate.consortium import (
    Consortium,
    found,
    write_coordinator_file,
    write_node_file,
)
from cohortsum.coordinator.store import ResultRow, Store, sqlite_url
from cohortsum.protocol.bounds import threshold
from cohortsum.study.definition import freeze, load_study
from cohortsum.study.planning import by_block
from cohortsum.study.sums import unpack

PEOPLE = 24
COVARIATES = 20
PER_OUTCOME = 302
"""Numbers of one outcome on two factors, age and the covariates: their products, its own with each, people, sites, squares."""
GATHER_S = 3600.0
MIB = 2**20

STUDY = """
study: scale
title: Many outcomes at many sites
version: 1
roster: 1
expires: 2099-12-31
person: subject_id
variables:
  dx: {{levels: [control, case]}}
  sex: {{levels: [female, male]}}
  age: {{unit: years, range: [6, 64]}}
{variables}
cohort: {{epoch: scale}}
analyses:
  many:
    kind: regression
    outcomes: [{names}]
    terms: [dx, age, sex, {covariates}]
    site_effect: within
    missing: per_outcome
    report: {{effect: dx}}
protection:
  min_sites: 3
  min_participants: 60
  max_participants: 100000
  min_participants_per_site: 10
  max_colluding_sites: 1
  min_honest_inputs: 3
privacy: {{noise: none}}
release: {{checkers: {{consortium: 0, sites: none}}}}
deadlines: {{step: 60m}}
"""


@dataclass
class Course:
    """When each step of the round began, and the coordinator's greatest memory in it."""

    began: dict[str, float] = field(default_factory=dict[str, float])
    most_mib: dict[str, float | None] = field(default_factory=dict[str, float | None])

    def enter(self, step: str, at: float, process: int) -> None:
        """Note that a step began, and what the one before it needed."""
        if self.began:
            self.most_mib[next(reversed(self.began))] = process_mib(process, "VmHWM")
        self.began[step] = at
        reset_process(process)


def tables(folder: Path, sites: int, outcomes: int) -> dict[str, Path]:
    """Write a table for every site from a generator of its own; return them by site."""
    columns = [*(f"c{number}" for number in range(COVARIATES)), *(f"y{number}" for number in range(outcomes))]
    names = ",".join(["subject_id", "dx", "sex", "age", *columns])
    found: dict[str, Path] = {}
    for site in range(sites):
        draw = np.random.default_rng(site)
        lines = [names]
        for person in range(PEOPLE + site % 5):
            dx, sex = ("control", "case")[person % 2], ("female", "male")[person // 2 % 2]
            values: list[int] = draw.integers(1, 500, len(columns)).tolist()
            lines.append(
                f"p{site}-{person},{dx},{sex},{draw.integers(6, 64)},"
                + ",".join([f"{value / 100:.2f}" for value in values])
            )
        path = folder / f"site{site:03d}.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        found[f"site{site:03d}"] = path
    return found


def consortium_of(folder: Path, sites: int, numbers: int) -> Consortium:
    """Make keys, roster, study and folders for a round with about so many numbers."""
    outcomes = -(-numbers // PER_OUTCOME)
    covariates, names = (
        [f"c{number}" for number in range(COVARIATES)],
        [f"y{number}" for number in range(outcomes)],
    )
    text = STUDY.format(
        variables="\n".join(f"  {name}: {{unit: mm, range: [0, 5]}}" for name in (*covariates, *names)),
        covariates=", ".join(covariates),
        names=", ".join(names),
    )
    data = folder / "tables"
    data.mkdir()
    study = freeze(load_study(text.encode(), "study.yaml"))
    return found(study, tables(data, sites, outcomes), "open_data", None, folder)


def run(consortium: Consortium, processes: int) -> Course:
    """Run the round and return its course."""
    folder, sites = consortium.folder, len(consortium.members)
    config = write_coordinator_file(consortium, folder / "results", GATHER_S)
    study = folder / "coordinator" / "study.json"
    course, running = Course(), list["subprocess.Popen[bytes]"]()
    hub = subprocess.Popen(
        [sys.executable, "-m", "cohortsum.coordinator.serve", str(config), "--study", str(study)],
        stdout=subprocess.PIPE,
        stderr=(folder / "coordinator.stderr").open("wb"),
    )
    assert hub.stdout is not None
    try:
        with (folder / "coordinator.jsonl").open("wb") as log:
            for line in hub.stdout:
                log.write(line)
                event = json.loads(line)
                at = datetime.fromisoformat(event["timestamp"]).timestamp()
                match event["event"]:
                    case "coordinator.listening":
                        course.enter("answers", at, hub.pid)
                        for member in consortium.members:
                            write_node_file(consortium, member, f"{event['host']}:{event['port']}")
                        running += _sites(folder, sites, processes)
                    case "round.step":
                        course.enter(str(event["step"]), at, hub.pid)
                    case "round.opened":
                        course.enter("tables", at, hub.pid)
                    case "study.ended":
                        course.enter("end", at, hub.pid)
                        assert event["released"], event["reason"]
        assert hub.wait(timeout=60) == 0, "the coordinator ended without a result"
        assert all(process.wait(timeout=600) == 0 for process in running), "a process of sites failed"
    finally:
        for process in (hub, *running):
            process.kill()
            process.wait()
    return course


def _sites(folder: Path, sites: int, processes: int) -> Iterator["subprocess.Popen[bytes]"]:
    program = str(Path(__file__).with_name("scale_sites.py"))
    ends = [round(sites * part / processes) for part in range(processes + 1)]
    for first, beyond in pairwise(ends):
        yield subprocess.Popen(
            [sys.executable, program, str(folder), str(first), str(beyond)],
            stdout=(folder / f"sites-{first}.jsonl").open("wb"),
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )


def check(consortium: Consortium) -> int:
    """Compare what was opened with what the sites added, and return how many numbers there were."""
    parts = [np.load(path) for path in sorted(consortium.folder.glob("sum-*.npy"))]
    expected = by_block(consortium.plan.round.blocks, np.sum(parts, axis=0))
    store = Store(sqlite_url(consortium.folder / "coordinator" / "coordinator.db"))
    with store.transaction() as session:
        opened = unpack(session.get_one(ResultRow, consortium.plan.study.digest.hex()).sums)
    store.close()
    assert opened.keys() == expected.keys(), "other blocks were opened than sites added"
    exact = all(np.array_equal(opened[name], expected[name]) for name in expected)
    assert exact, "the opened sum is not the sum of the sites' values"
    return sum(map(len, expected.values()))


def sizes_of(folder: Path) -> tuple[dict[tuple[str, str], list[int]], Mapping[str, int]]:
    """Return the bytes of every site by direction and message, and those of one site's line as TLS carried them."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    wire: Mapping[str, int] = {}
    for path in sorted(folder.glob("sites-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            held = json.loads(line)
            wire = held.get("wire", wire)
            for way, kind, size in held.get("sizes", ()):
                found[way, kind].append(size)
    return found, wire


def reckoned(sites: int, numbers: int, items: int) -> dict[tuple[str, str], int]:
    """Return what docs/protocol.md says each message holds for one site, framing left out.

    A signed envelope adds its context, signature and sender; a share message has four digests per holder, and the delivery holds
    the share messages of everybody, which is the one quadratic term; everybody signs and nobody drops out.
    """
    envelope, t = 32 + 64 + 7, threshold(sites)
    approval = envelope + 2 * 32 + items // 8
    advert, masked, consistency = envelope + 4 * 32, envelope + 4 * 32, envelope + 32
    shares, ciphertext = envelope + 32 + 4 * 32 * sites, 32 + 3 * 32 + 16
    return {
        ("up", "APPROVAL"): approval,
        ("up", "ADVERT"): advert,
        ("up", "SHARES"): shares + ciphertext * sites,
        ("up", "MASKED"): masked + 8,
        ("up", "UPLOAD"): 8 * numbers,
        ("up", "CONSISTENCY"): consistency,
        ("up", "GATE_SHARES"): envelope + 32 + 32 * sites,
        ("up", "DATA_SHARES"): envelope + 32 + 32 * sites,
        ("down", "OPENING"): envelope + approval * sites,
        ("down", "ADVERTS"): envelope + advert * sites,
        ("down", "DELIVERY"): envelope + (shares + ciphertext) * sites,
        ("down", "SURVIVORS"): envelope + masked * sites,
        ("down", "QUORUM"): envelope + consistency * t,
        ("down", "GATE_OPENING"): envelope + (8 + 32) * sites,
        ("down", "CLOSING"): envelope + 2 * 32,
    }


def _traffic(folder: Path, sites: int, numbers: int, items: int) -> Iterator[Row]:
    measured, wire = sizes_of(folder)
    right = reckoned(sites, numbers, items)
    for way in ("up", "down"):
        for kind in (*(kind for held, kind in right if held == way), "other"):
            if kind == "other":
                rest = [
                    held for (to, name), held in measured.items() if to == way and (to, name) not in right
                ]
                size = sum(median(list(map(float, held))) for held in rest)
            else:
                size = median(list(map(float, measured[way, kind])))
            expected = right.get((way, kind))
            yield {"way": way, "bytes": int(size), "reckoned": expected, "message": kind}
        whole = sum(median(list(map(float, held))) for (to, _), held in measured.items() if to == way)
        all_of_it = sum(size for (to, _), size in right.items() if to == way)
        yield {"way": way, "bytes": int(whole), "reckoned": all_of_it, "message": "all"}
        yield {"way": way, "bytes": wire[way], "reckoned": None, "message": "on the wire, of one site"}


def _steps(course: Course) -> Iterator[Row]:
    names = list(course.began)
    for name, after in pairwise(names):
        seconds = course.began[after] - course.began[name]
        yield {"seconds": seconds, "coordinator MiB": course.most_mib.get(name), "step": name}
    first = next(name for name in names if name.startswith("R"))
    held = [mib for name, mib in course.most_mib.items() if name.startswith("R") and mib is not None]
    whole = course.began["tables"] - course.began[first]
    yield {"seconds": whole, "coordinator MiB": max(held, default=None), "step": "the round"}


def main(arguments: list[str] | None = None) -> Report:
    """Parse the command line, measure, print, and return the tables."""
    parser = argparse.ArgumentParser(description="Measure one large round.")
    parser.add_argument("--sites", type=int, default=200)
    parser.add_argument("--numbers", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=2, help="that the sites share")
    parser.add_argument("--quick", action="store_true", help="a small round: does it run, and is it right")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables here as well")
    parser.add_argument("--folder", type=Path, help="keep everything in this new folder")
    asked = parser.parse_args(arguments)
    sites, numbers, processes = (5, 300, 1) if asked.quick else (asked.sites, asked.numbers, asked.processes)
    report = Report()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if asked.folder is None else asked.folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        consortium = consortium_of(folder, sites, numbers)
        course = run(consortium, processes)
        opened = check(consortium)
        items = len(consortium.plan.round.items)
        report.table(
            f"{sites} sites, {opened} numbers, {os.cpu_count()} cores, sites in {processes} processes",
            _steps(course),
            "seconds of wall time; the coordinator's greatest resident memory in each step;\n"
            "answers = until everybody has considered the study; tables = results and their files",
        )
        report.table(
            "Bytes per site, median", _traffic(folder, sites, opened, items), "reckoned: docs/protocol.md"
        )
    print("\nexact: the opened sum is the sum of the sites' values")
    report.write(asked.json)
    return report


if __name__ == "__main__":
    main()
