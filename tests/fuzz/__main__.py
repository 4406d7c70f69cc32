"""The fuzzer over every target, one after the other, and a table of what it did: ``python -m tests.fuzz``, or `make fuzz`.

Each target starts from the kept corpus and from what earlier runs on this machine reached (``build/fuzz/TARGET``). A finding ends its
target: input and traceback stay in that folder, and the command fails once every target had its turn. ``--keep`` adds to the corpus,
for every target, a few small inputs of earlier runs that reach what nothing in it reaches.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.registry import TARGETS
from tests.fuzz.target import CORPUS

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "fuzz"
HANGS_S = 20
"""A case that takes longer is a finding."""
MEMORY_MB = 4096
KEPT, KEPT_BYTES = 12, 1024
"""How many inputs of a run join the corpus at most, and how large they may be."""


@dataclass(frozen=True)
class Outcome:
    """What became of one target: cases and seconds, and the inputs that are findings."""

    name: str
    cases: int
    seconds: int
    findings: tuple[Path, ...]
    failed: bool


def fuzz(name: str, runs: int, seconds: int) -> Outcome:
    """Run one target; 0 stands for no limit."""
    home = WORK / name
    reached = home / "reached"
    reached.mkdir(parents=True, exist_ok=True)
    options = [f"-artifact_prefix={home}/", f"-timeout={HANGS_S}", f"-rss_limit_mb={MEMORY_MB}"]
    options += [f"-runs={runs}"] if runs else []
    options += [f"-max_total_time={seconds}"] if seconds else []
    log = home / "log"
    done = _one(name, [*options, "-print_final_stats=1", str(reached), str(CORPUS / name)], log)
    text = log.read_text(errors="replace")
    cases = re.findall(r"stat::number_of_executed_units:\s*(\d+)", text)
    took = re.findall(r"Done \d+ runs in (\d+) second", text)
    found = tuple(path for path in sorted(home.glob("*-*")) if path.is_file())
    return Outcome(name, int(cases[-1]) if cases else 0, int(took[-1]) if took else 0, found, done != 0)


def keep(name: str) -> int:
    """Add inputs of earlier runs to the corpus and return how many."""
    reached = WORK / name / "reached"
    if not reached.is_dir():
        return 0
    with tempfile.TemporaryDirectory() as folder:
        merged = Path(folder) / "merged"
        shutil.copytree(CORPUS / name, merged)
        known = {path.name for path in merged.iterdir()}
        _one(name, ["-merge=1", f"-timeout={HANGS_S}", str(merged), str(reached)], WORK / name / "log-merge")
        new = sorted(
            (path for path in merged.iterdir() if path.name not in known),
            key=lambda path: path.stat().st_size,
        )
        chosen = [path for path in new if path.stat().st_size <= KEPT_BYTES][:KEPT]
        for path in chosen:
            shutil.copyfile(path, CORPUS / name / f"found-{path.name[:12]}")
    return len(chosen)


def _one(name: str, options: Sequence[str], log: Path) -> int:
    """Run a target in a process of its own and return its exit code."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.fuzz.one", name, *options]
    with log.open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=out, cwd=ROOT, env=environment, check=False)  # noqa: S603 - our own module
    return done.returncode


def main() -> int:
    """Fuzz the targets that are named, or all of them, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all by default")
    parser.add_argument("--runs", type=int, default=0, help="cases per target; 0: no limit")
    parser.add_argument("--seconds", type=int, default=0, help="seconds per target; 0: no limit")
    parser.add_argument("--keep", action="store_true", help="add what earlier runs reached to the corpus")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.targets) - TARGETS.keys()):
        parser.error(f"no target {unknown[0]}; there are {', '.join(TARGETS)}")
    if find_spec("atheris") is None:
        parser.error("atheris is not installed; install the extra `fuzz`, as `make fuzz` does")
    if not (asked.keep or asked.runs or asked.seconds):
        parser.error("give --runs or --seconds")
    names: list[str] = asked.targets or list(TARGETS)
    if asked.keep:
        for name in names:
            print(f"{name:28} {keep(name):4} inputs joined the corpus", flush=True)
        return 0
    failed = False
    print(f"{'target':28} {'cases':>10} {'seconds':>8}  findings", flush=True)
    for name in names:
        outcome = fuzz(name, asked.runs, asked.seconds)
        said = ", ".join(str(path.relative_to(ROOT)) for path in outcome.findings)
        said = said or (f"see {(WORK / name / 'log').relative_to(ROOT)}" if outcome.failed else "none")
        print(f"{name:28} {outcome.cases:10} {outcome.seconds:8}  {said}", flush=True)
        failed |= outcome.failed or bool(outcome.findings)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
