"""Write the golden files of a version: ``python -m tests.golden.make VERSION``, once, with that version's program.

They are never written again: what a version stored is what its databases hold out there. `tests.golden.test_golden` has their digest.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

import structlog

from cohortsum.crypto.certificates import TLS13_ONLY
from tests.golden import rounds, story
from tests.golden.reading import found_in

GOLDEN = Path(__file__).parent
LEFT_OUT = ("*.key", "spool", "figures", "*.html", "*.R", "*.cff", "METHODS.md", "*.csv")
"""What is not kept: private keys, and what nobody reads again."""
KEPT_SITES = (0, 3)


def main(version: str) -> None:
    """Raise FileExistsError where the version has its files already."""
    place = GOLDEN / version
    place.mkdir()
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        home = Path(folder)
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        os.environ[TLS13_ONLY[0]] = TLS13_ONLY[1]
        story.told(home)
        for name in ("consortium", *(f"site{index}" for index in KEPT_SITES)):
            shutil.copytree(home / name, place / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:  # looking writes
        shutil.copytree(place, folder, dirs_exist_ok=True)
        (place / "found.json").write_text(json.dumps(found_in(Path(folder)), indent=1, sort_keys=True) + "\n")
    (place / "rounds").mkdir()
    for name, calls in rounds.tapes().items():
        (place / "rounds" / f"{name}.jsonl").write_bytes(rounds.written(calls))
    print(f"{place}: {sum(1 for path in place.rglob('*') if path.is_file())} files")


if __name__ == "__main__":
    main(*sys.argv[1:])
