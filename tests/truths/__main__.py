"""``python -m tests.truths``: the accuracy table on the terminal; with ``--write FILE`` as a page of the documents too.

Exit codes: 0 everything is within its tolerance, 1 something is not, 2 a table of data is not beside the repository.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from tests.truths.every import every
from tests.truths.page import COLUMNS, Line, lines, markdown
from tests.truths.registry import Runs

WIDTH = 180
"""Characters of the table where it goes into a file or a pipe."""


def show(made: Sequence[Line], console: Console) -> None:
    """Print the table; lines beyond their tolerance are red."""
    shown = Table(box=SIMPLE)
    for name in COLUMNS:
        shown.add_column(name, no_wrap=name == "kind", overflow="fold")
    for line in made:
        cells = (cell.replace("`", "") for cell in line.cells)
        shown.add_row(*cells, style="" if line.passed else "bold red")
    console.print(shown)


def main() -> int:
    """Play every data set, compare, show, and write if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.truths", description="The accuracy table.")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write it as Markdown")
    asked = parser.parse_args()
    absent = sorted({one.data.file for one in every() if not one.data.present})
    if absent:
        print(f"not beside this repository: {', '.join(absent)}", file=sys.stderr)
        return 2
    with TemporaryDirectory(prefix="cohortsum-truths-") as folder:
        runs = Runs(Path(folder))
        made = lines(every(), runs)
        show(made, Console() if sys.stdout.isatty() else Console(width=WIDTH))
        if asked.write is not None:
            asked.write.write_text(markdown(made, runs), encoding="utf-8")
    return 0 if all(line.passed for line in made) else 1


if __name__ == "__main__":
    raise SystemExit(main())
