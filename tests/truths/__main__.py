"""``python -m tests.truths``: the accuracy table on the terminal; with ``--write FILE`` as a page of the documents too.

Exit codes: 0 everything is within its tolerance, 1 something is not, 2 a table of data is not beside the repository.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from tests.truths.every import every
from tests.truths.page import COLUMNS, lines, markdown
from tests.truths.registry import Runs


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
        shown = Table(*COLUMNS)
        for line in made:
            shown.add_row(*line.cells, style="" if line.passed else "bold red")
        Console().print(shown)
        if asked.write is not None:
            asked.write.write_text(markdown(made, runs), encoding="utf-8")
    return 0 if all(line.passed for line in made) else 1


if __name__ == "__main__":
    raise SystemExit(main())
