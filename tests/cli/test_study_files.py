"""`init` and `diff` as people meet them: what is written, what is printed, and the exit code."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from cohortsum.cli.study_files import diff, init
from cohortsum.crypto.errors import ConfigurationError, StudyFileError
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import IdentityKey
from cohortsum.study.definition import freeze, load_study
from cohortsum.study.definition.signing import sign_study, signed_study_to_json
from cohortsum.study.definition.starter import starter

app = typer.Typer(rich_markup_mode=None)
app.command()(init)
app.command()(diff)


def run(*arguments: str | Path) -> Result:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.yaml"
    path.write_text(starter("mine"))
    return path


def newer(old: Path, *edits: tuple[str, str], version: int = 2) -> Path:
    text = old.read_text()
    for before, after in (("version: 1 ", f"version: {version} "), *edits):
        assert text.count(before) == 1
        text = text.replace(before, after)
    path = old.with_name("new.yaml")
    path.write_text(text)
    return path


def test_init_writes_a_study_that_loads_and_says_what_is_next(tmp_path: Path) -> None:
    file = tmp_path / "my study.yaml"
    done = run("init", file, "--id", "mine")
    assert done.exit_code == 0
    assert freeze(load_study(file.read_bytes(), file.name)).study == "mine"
    assert f"cohortsum study check '{file}'" in done.stderr


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("mine")
    with pytest.raises(ConfigurationError, match="exists already"):
        run("init", file, "--id", "mine")
    assert file.read_text() == "mine"


def test_init_writes_no_file_for_a_wrong_id(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    with pytest.raises(StudyFileError, match="no id of a study"):
        run("init", file, "--id", "my study")
    assert not file.exists()


def test_one_study_twice_is_no_difference(old: Path) -> None:
    done = run("diff", old, old)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].startswith("The two are one study, byte for byte")


def test_changes_stand_under_what_they_touch_and_the_last_line_is_about_approvals(old: Path) -> None:
    new = newer(
        old,
        ("min_participants: 300", "min_participants: 200"),
        ("[age], by: [dx, sex]", "[age], by: [dx]"),
        ("title: Thickness", "title: The [b]thickness"),
    )
    done = run("diff", old, new)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[3:] == [
        "",
        "what must hold before anything opens",
        "  * protection: min_participants is now 200, was 300; weaker",
        "",
        "which numbers leave",
        "  * analyses.people: grouping factor sex is gone",
        "",
        "wording",
        '  * title is now "The [b]thickness of the temporal cortex", was "Thickness of the temporal cortex"',
        "",
        "An approval of version 1 cannot carry over: version 2 needs a decision of its own.",
    ]
    assert lines[0] == "The [b]thickness of the temporal cortex  (study mine)"
    assert lines[1].startswith("old  version 1, fingerprint ")


@pytest.mark.parametrize(
    ("edits", "version", "code", "sentence"),
    [
        ((), 2, 0, "An approval of version 1 could carry over: the same numbers"),
        ((("expires: 2099", "expires: 2100"),), 2, 1, "An approval of version 1 could carry over: the same numbers"),
        ((("roster: 1", "roster: 2"),), 2, 1, "An approval of version 1 cannot carry over"),
        ((("epoch: 2026", "epoch: 2027"),), 1, 1, "Both say version 1 and they differ: an approval cannot carry over"),
    ],
)  # fmt: skip
def test_the_verdict(
    old: Path, edits: tuple[tuple[str, str], ...], version: int, code: int, sentence: str
) -> None:
    done = run("diff", old, newer(old, *edits, version=version))
    assert done.exit_code == code
    assert done.stdout.splitlines()[-1].startswith(sentence)


def test_versions_the_wrong_way_round_are_said(old: Path) -> None:
    new = newer(old, ("min_participants: 300", "min_participants: 400"))
    done = run("diff", new, old)
    assert done.exit_code == 1
    assert "is now 300, was 400; weaker" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("The new file is the older version")


def test_a_signed_study_and_a_file_are_compared_alike(old: Path) -> None:
    study = freeze(load_study(old.read_bytes(), old.name))
    signed = old.with_name("old.json")
    key = IdentityKey(SecretBytes(bytes(32), "test key"))
    signed.write_bytes(signed_study_to_json(sign_study(study, "statistician", key)))
    assert run("diff", signed, old).exit_code == 0
    new = newer(old, ("roster: 1", "roster: 2"))
    assert run("diff", signed, new).stdout == run("diff", old, new).stdout


def test_two_studies_are_refused(old: Path) -> None:
    new = newer(old, ('study: "mine"', 'study: "other"'))
    with pytest.raises(StudyFileError, match="'mine' and 'other' are different studies"):
        run("diff", old, new)


def test_a_file_that_is_not_there_is_named(old: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone\.yaml"):
        run("diff", old, old.with_name("gone.yaml"))
