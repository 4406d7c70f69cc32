"""The commands as admins type them, in one process: what they print, what they return, what they leave on disk."""

from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from cohortsum.cli import main
from cohortsum.crypto.errors import CohortsumError

APP = main.app
RUNNER = CliRunner()
TABLE = "person_id,dx,age\np01,case,31\np02,control,47\n"


@dataclass(frozen=True, slots=True)
class Screen:
    """What a command showed: results, sentences for people, and the refusal if there was one."""

    code: int
    out: str
    said: str
    refusal: str


def run(*arguments: str | Path, given: str | None = None) -> Screen:
    """Run a command with ``given`` typed in; anything but success, an exit code or an error of ours is a bug and raised."""
    done = RUNNER.invoke(APP, [str(argument) for argument in arguments], input=given)
    error = done.exception
    if error is not None and not isinstance(error, CohortsumError | SystemExit):
        raise error
    return Screen(
        done.exit_code, done.stdout, done.stderr, error.message if isinstance(error, CohortsumError) else ""
    )


def ok(*arguments: str | Path) -> Screen:
    """Run a command that must succeed and say what comes next."""
    screen = run(*arguments)
    assert screen.code == 0, screen
    assert "next:" in screen.said or "then:" in screen.said or "nothing changes" in screen.said
    return screen


def refused(*arguments: str | Path) -> str:
    """Run a command that must be refused and return the sentence."""
    screen = run(*arguments)
    assert screen.code != 0
    assert screen.refusal, screen
    return screen.refusal


def words_in(screen: Screen) -> str:
    """Return the twelve words after `fingerprint`."""
    line = next(line for line in screen.out.splitlines() if line.startswith("fingerprint"))
    return line.removeprefix("fingerprint").replace("/", " ").strip()


def make_consortium(home: Path, listen: str = "127.0.0.1:5443") -> Path:
    folder = home / "consortium"
    ok("coordinator", "init", folder, "--consortium", "imaging", "--listen", listen, "--organisation", "RE")
    return folder


def make_site(home: Path, site: str, coordinator: str = "127.0.0.1:5443") -> Path:
    """Make a node with a table, its data declared public."""
    folder = home / site
    ok(
        *("node", "init", folder, "--site", site, "--coordinator", coordinator),
        *("--organisation", "Hospital", "--profile", "open_data"),
    )
    (folder / "people.csv").write_text(TABLE)
    return folder


def admit(consortium: Path, *sites: Path) -> Screen:
    return ok("coordinator", "admit", consortium, *(site / "request.yaml" for site in sites))


def pin(consortium: Path, site: Path) -> Screen:
    operator = ("--operator", consortium / "operator.pub")
    return ok("node", "pin", site, consortium / "consortium.yaml", consortium / "consortium.sig", *operator)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
