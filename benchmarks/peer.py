"""Flower SecAgg+ beside cohortsum: runs `flower.py` under an interpreter that has flwr, and sets the figures side by side."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Report, Row

SCRIPT = Path(__file__).with_name("flower.py")
NOT_INSTALLED = 3
GOAL_CLIENT, GOAL_MASK, GOAL_SERVER, GOAL_SERVER_MANY, MANY = 2.0, 5.0, 10.0, 500.0, 50
TITLE = "Flower SecAgg+ on the same grid"


def flower_rows(
    report: Report, python: Path, masks: list[Row], unmasks: list[Row], wholes: list[Row], most: int
) -> None:
    """Print Flower's client and server steps beside ours, or one line that says why not."""
    cells = [f"{row['sites']},{row['numbers']},{row['dropped']}" for row in masks]
    probe = subprocess.run([python, SCRIPT, "--probe"], capture_output=True, text=True, check=False)
    if probe.returncode == NOT_INSTALLED:
        print(
            f"\n{TITLE}: flwr is not installed under {python.name}; name an interpreter that has it with --flower"
        )
        report.tables[TITLE] = []
        return
    if probe.returncode:
        raise SystemExit(f"flower.py failed:\n{probe.stderr}")

    def rows() -> Iterator[Row]:
        command = [str(python), str(SCRIPT), "--most", str(most), *cells]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            for line, mask, unmask, whole in zip(running.stdout, masks, unmasks, wholes, strict=True):
                yield _row(json.loads(line), mask, unmask, whole)
        if running.returncode:
            raise SystemExit("flower.py failed; its message is above")

    held = report.table(
        f"{TITLE} ({probe.stdout.strip()})",
        rows(),
        "client = all four steps against our whole step; mask = its masking step against our mask row;\n"
        f"goals: client >= {GOAL_CLIENT:g}x (mask >= {GOAL_MASK:g}x), server >= {GOAL_SERVER:g}x, "
        f"from {MANY} sites on >= {GOAL_SERVER_MANY:g}x",
    )
    for name in ("server", "client"):
        cells = [
            f"{row['sites']} x {row['numbers']} ({row['dropped']} dropped)"
            for row in held
            if row[name] is None
        ]
        if cells:
            print(f"Flower's {name} skipped above {most} sites (--flower-most): " + "; ".join(cells))


def _row(flower: dict[str, float | None], mask: Row, unmask: Row, whole: Row) -> Row:
    row: Row = {name: mask[name] for name in ("sites", "numbers", "dropped")}
    many = flower["server"] is not None and int(str(mask["sites"])) >= MANY
    pairs = (
        ("client", flower["client"], whole["whole"], GOAL_CLIENT),
        ("mask", flower["mask"], mask["total"], GOAL_MASK),
        ("server", flower["server"], unmask["total"], GOAL_SERVER_MANY if many else GOAL_SERVER),
    )
    for name, theirs, ours, goal in pairs:
        assert isinstance(ours, float)
        row[name] = theirs
        row[f"ours {name}"] = ours
        row[f"{name} x"] = None if theirs is None else theirs / ours
        row[f"{name} goal"] = "-" if theirs is None else "PASS" if theirs / ours >= goal else "miss"
    return row
