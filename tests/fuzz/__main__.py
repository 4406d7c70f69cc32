"""The fuzzer over every target, one after the other, and a table of what it did: ``python -m tests.fuzz``, or `make fuzz`.

Python's own bytecode is instrumented (atheris), so the fuzzer sees which branches of cohortsum an input takes and keeps what reaches
new ones. A target runs in a process of its own, forked once everything is loaded. It starts from the kept corpus and from what earlier
runs on this machine reached (``build/fuzz/TARGET``). A case is a finding if it raises, takes longer than `HANGS_S`, or makes the
process larger by more than `target.SPARE_BYTES` and so much per byte. A finding ends its target: input and traceback stay in that
folder, and the command fails once every target had its turn. ``--keep`` adds to the corpus the newest small inputs that earlier runs
reached.
"""

import argparse
import contextlib
import importlib
import io
import logging
import os
import re
import resource
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.fuzz.target import CORPUS, PER_BYTE, SPARE_BYTES, Target

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "fuzz"
HANGS_S = 20
MEMORY_MB = 4096
"""Of the whole process; libFuzzer ends one that is larger."""
KEPT, KEPT_BYTES = 4, 512
"""How many inputs of a run join the corpus at most, and how large they may be."""


class TooLargeError(Exception):
    """A case took more memory than its input may cost."""


@dataclass(frozen=True)
class Outcome:
    """What became of one target: cases and seconds, and the inputs that are findings."""

    cases: int
    seconds: int
    findings: tuple[Path, ...]
    failed: bool


def instrumented() -> Mapping[str, Target]:
    """Load the product and the targets so that the fuzzer sees which way a case takes."""
    atheris: Any = importlib.import_module("atheris")
    logging.disable()
    instrumenting = atheris.instrument_imports(include=["cohortsum"], enable_loader_override=False)
    with contextlib.redirect_stderr(io.StringIO()), instrumenting:  # it says a line per module
        from cohortsum.crypto.certificates import TLS13_ONLY

        os.environ[TLS13_ONLY[0]] = TLS13_ONLY[1]  # before anything imports grpc, as in the daemons
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        found: Mapping[str, Target] = importlib.import_module("tests.fuzz.registry").TARGETS
    return found


def fuzz(target: Target, runs: int, seconds: int) -> Outcome:
    """Run one target; 0 stands for no limit."""
    home = WORK / target.name
    reached = home / "reached"
    reached.mkdir(parents=True, exist_ok=True)
    options = [
        f"-artifact_prefix={home}/",
        f"-timeout={HANGS_S}",
        f"-rss_limit_mb={MEMORY_MB}",
        "-len_control=0",
    ]
    options += [f"-runs={runs}"] if runs else []
    options += [f"-max_total_time={seconds}"] if seconds else []
    options += ["-print_final_stats=1", f"-max_len={target.size}", str(reached), str(CORPUS / target.name)]
    log = home / "log"
    child = os.fork()
    if child == 0:
        _cases(target, options, log)
    _, status = os.waitpid(child, 0)
    text = log.read_text(errors="replace")
    cases = re.findall(r"stat::number_of_executed_units:\s*(\d+)", text)
    took = re.findall(r"Done \d+ runs in (\d+) second", text)
    found = tuple(path for path in sorted(home.glob("*-*")) if path.is_file())
    return Outcome(int(cases[-1]) if cases else 0, int(took[-1]) if took else 0, found, status != 0)


def _cases(target: Target, options: Sequence[str], log: Path) -> None:
    """Be the process of a target: run case after case until the fuzzer ends the process."""
    with log.open("wb") as out:
        for stream in (1, 2):
            os.dup2(out.fileno(), stream)
    try:
        for path in target.corpus():  # what is made once is made before anything is measured
            target.run(path.read_bytes())
        atheris: Any = importlib.import_module("atheris")

        def case(data: bytes) -> None:
            before = _most()
            target.run(data)
            grown = _most() - before
            if grown > SPARE_BYTES + PER_BYTE * len(data):
                raise TooLargeError(f"{grown} bytes for an input of {len(data)}")

        atheris.Setup([sys.argv[0], *options], case)
        atheris.Fuzz()
    finally:
        os._exit(1)


def _most() -> int:
    """Return the greatest size that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def keep(target: Target) -> int:
    """Add inputs of earlier runs to the corpus and return how many."""
    known = {path.read_bytes() for path in target.corpus()}
    reached = sorted((WORK / target.name / "reached").glob("*"), key=lambda path: path.stat().st_mtime)
    small = [path for path in reversed(reached) if path.stat().st_size <= KEPT_BYTES]
    chosen = [path for path in small if path.read_bytes() not in known][:KEPT]
    for path in chosen:
        shutil.copyfile(path, CORPUS / target.name / f"found-{path.name[:12]}")
    return len(chosen)


def main() -> int:
    """Fuzz the targets that are named, or all of them, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all by default")
    parser.add_argument("--runs", type=int, default=0, help="cases per target; 0: no limit")
    parser.add_argument("--seconds", type=int, default=0, help="seconds per target; 0: no limit")
    parser.add_argument("--keep", action="store_true", help="add what earlier runs reached to the corpus")
    asked = parser.parse_args()
    if find_spec("atheris") is None:
        parser.error("atheris is not installed; install the extra `fuzz`, as `make fuzz` does")
    if not (asked.keep or asked.runs or asked.seconds):
        parser.error("give --runs or --seconds")
    targets = instrumented()
    names: list[str] = asked.targets or list(targets)
    if unknown := sorted(set(names) - targets.keys()):
        parser.error(f"no target {unknown[0]}; there are {', '.join(targets)}")
    if asked.keep:
        for name in names:
            print(f"{name:24} {keep(targets[name]):4} inputs joined the corpus", flush=True)
        return 0
    failed = False
    print(f"{'target':24} {'cases':>10} {'seconds':>8}  findings", flush=True)
    for name in names:
        outcome = fuzz(targets[name], asked.runs, asked.seconds)
        said = ", ".join(str(path.relative_to(ROOT)) for path in outcome.findings)
        said = said or (f"see {(WORK / name / 'log').relative_to(ROOT)}" if outcome.failed else "none")
        print(f"{name:24} {outcome.cases:10} {outcome.seconds:8}  {said}", flush=True)
        failed |= outcome.failed or bool(outcome.findings)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
