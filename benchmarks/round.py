"""A round over gRPC on loopback: ``python benchmarks/round.py [--quick] [--json FILE]``.

Real coordinator edge, real nodes, mutual TLS, durable ledgers and store. Wall time is split into the sites' own computing
(reading tables when the study is considered; values and masks in the round; keys, shares and checks) and the rest: what the
coordinator, the wire and waiting take between the opening of the round and the opened sum.
"""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import structlog

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Report, Row, median, verdict
from benchmarks.timed import Clock
from cohortsum.crypto.certificates import TLS13_ONLY

GOAL_S, GOAL_SITES = 2.0, 50
OUTCOMES = 834  # with three terms, 12 numbers each: 10,009 with the number of people
CELLS, QUICK = ((10, OUTCOMES), (50, OUTCOMES)), ((5, 3),)


def measure(sites: int, outcomes: int) -> tuple[Row, Row]:
    """Run one round and return the split of its wall time, and of the protocol by step."""
    os.environ.setdefault(*TLS13_ONLY)  # before grpc is imported, or TLS 1.2 stays possible
    from benchmarks import deployed

    with tempfile.TemporaryDirectory() as folder:
        consortium = deployed.found(Path(folder), sites, outcomes)
        clock, runner, contributed = asyncio.run(deployed.run(consortium))
    assert len(contributed) == sites, "a site left before the end"
    assert np.array_equal(runner.opened, np.sum(contributed, axis=0)), (
        "the opened sum is not the sum of the sites' values"
    )
    return _row(clock, sites, len(runner.opened)), _steps(clock, sites)


def _row(clock: Clock, sites: int, numbers: int) -> Row:
    round_s, own_s = clock.between("open", "opened"), clock.between("contribute", "contributed")
    protocol_s, checks_s = round_s - own_s, sum(clock.checks_s)
    # All cores could at best have shared the sites' checks, so at least this much of the wall time was theirs.
    rest_s = protocol_s - checks_s / (os.cpu_count() or 1)
    judged = sites == GOAL_SITES
    return {
        "sites": sites,
        "numbers": numbers,
        "answers": clock.between("begin", "open"),
        "round": round_s,
        "own": own_s,
        "protocol": protocol_s,
        "checks cpu": checks_s,
        "without checks": rest_s,
        "publish": clock.between("opened", "end"),
        "consider, site": median(clock.consider_s),
        "contribute, site": median(clock.contribute_s),
        "goal": GOAL_S if judged else None,
        "verdict": verdict(rest_s < GOAL_S if judged else None),
        "exact": "yes",
    }


def _steps(clock: Clock, sites: int) -> Row:
    row: Row = {"sites": sites}
    own_s = clock.between("contribute", "contributed")
    ends = [*clock.steps, ("", clock.moments["opened"])]
    for (step, start), (_, end) in pairwise(ends):
        within = start <= clock.moments["contribute"] < end
        row[step] = end - start - (own_s if within else 0.0)
    return row


def main(arguments: list[str] | None = None) -> Report:
    """Parse the command line, measure, print, and return the tables."""
    parser = argparse.ArgumentParser(description="Measure a round over gRPC on loopback.")
    parser.add_argument("--quick", action="store_true", help="a small round: does it run, and is it right")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables here as well")
    asked = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    report, steps = Report(), list[Row]()

    def rows() -> Iterator[Row]:
        for sites, outcomes in QUICK if asked.quick else CELLS:
            row, by_step = measure(sites, outcomes)
            steps.append(by_step)
            yield row

    report.table(
        f"A round on loopback, {os.cpu_count()} cores; seconds of wall time",
        rows(),
        "answers = until every site has considered the study; round = own + protocol;\n"
        "checks cpu = what all sites compute for the protocol, which each would do on a machine of its own;\n"
        "without checks = protocol less the least wall time of those checks here: what the goal is about;\n"
        "publish = tables and files",
    )
    report.table("Protocol time by step, the sites' own computing left out of R2", iter(steps))
    report.write(asked.json)
    return report


if __name__ == "__main__":
    main()
