"""Build the wheel, install it into an empty environment, and run the command as a user would.

A script rather than a test, because it needs its own environment: what an editable install hides shows here.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = [
    ["--help"],
    ["--version"],
    ["demo", "--help"],
    ["simulate", "--help"],
    ["results", "--help"],
    ["study", "--help"],
    ["study", "check", "--help"],
    ["study", "check", str(ROOT / "examples" / "asd-open.yaml")],
    ["study", "schema"],
    ["demo", "--in-process", "--out", "demo"],
]
STORE = "from cohortsum.coordinator.store import Store; Store('sqlite:///store.db').close()"
"""Its revisions are files that Alembic looks for in a folder."""


def main() -> None:
    """Raise CalledProcessError, with its output shown, at the first command that fails."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, str(ROOT)], place)
        (wheel,) = place.glob("cohortsum-*.whl")
        venv.create(place / "env", with_pip=True)
        python = str(place / "env" / "bin" / "python")
        lock = str(ROOT / "requirements-dev.lock")
        run([python, "-m", "pip", "install", "--quiet", "-c", lock, str(wheel)], place)
        run([python, "-c", STORE], place)
        for command in COMMANDS:
            run([str(place / "env" / "bin" / "cohortsum"), *command], place)
    print(f"wheel: {len(COMMANDS)} commands run")


def run(command: list[str], place: Path) -> None:
    """Run a command in ``place``; print what it said only if it fails."""
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
        done.check_returncode()


if __name__ == "__main__":
    main()
