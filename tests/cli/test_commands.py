"""The command as people meet it: what it prints, where, and with which exit code. No traceback reaches a user."""

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from cohortsum.cli.demo_data import write_demo_tables
from cohortsum.report.document import from_json
from tests.study.committee_studies import study_of

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "examples" / "asd-open.yaml"


def cohortsum(*arguments: str | Path, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "cohortsum.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=120)  # noqa: S603
    assert "Traceback" not in done.stderr + done.stdout
    return done


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_demo_tables(folder)
    return folder


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory, tables: Path) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    done = cohortsum(
        "simulate", STUDY, "--data", tables, "--profile", "open_data", "--in-process", "--out", out
    )
    assert done.returncode == 0, done.stderr
    return out


def test_the_packaged_demo_study_is_the_example() -> None:
    assert (files("cohortsum.cli") / "data" / "asd-open.yaml").read_bytes() == STUDY.read_bytes()


def test_check_prints_the_plan() -> None:
    done = cohortsum("study", "check", STUDY, "--sites", "9")
    assert done.returncode == 0
    for text in (
        "1,059",
        "dropouts survived",
        "the gate must reach 400",
        "before anyone checks",
        "fingerprint",
    ):
        assert text in done.stdout


def test_check_prints_what_a_committee_opens_and_costs(tmp_path: Path) -> None:
    study = tmp_path / "closed.yaml"
    study.write_text(
        study_of(
            [
                "kind: crosstab, factors: [dx]",
                "kind: quantiles, variables: [age], step: 0.1, probabilities: [0.5]",
            ]
        )
    )
    done = cohortsum("study", "check", study, "--sites", "7")
    assert done.returncode == 0, done.stderr
    for text in (
        "site0, site1, site2; each of its 3 members",
        "told as one bit before anything else",
        "below 10 stay closed, and large ones beside",
        "(this study)",
        "up to 4 runs",
        "of m members",
    ):
        assert text in " ".join(done.stdout.split())


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_what_is_not_built_is_refused_by_name(command: str, tmp_path: Path) -> None:
    file = ROOT / "examples" / "asd-thickness.yaml"
    if command == "check":
        done = cohortsum("study", "check", file)
    else:
        done = cohortsum(
            "simulate", file, "--data", tmp_path, "--profile", "open_data", "--out", tmp_path / "out"
        )
    assert done.returncode == 2
    for name in ("near_duplicate reuse", "not in this version"):
        assert name in done.stderr


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_known_one(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(STUDY.read_text().replace("min_sites: 5", "min_site: 5"))
    done = cohortsum("study", "check", file)
    assert done.returncode == 2
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "min_site: 5" in text)
    assert f"study.yaml:{line}: protection.min_site" in done.stderr
    assert "min_sites" in done.stderr


def test_the_schema_is_json() -> None:
    done = cohortsum("study", "schema")
    assert done.returncode == 0
    assert "protection" in json.loads(done.stdout)["properties"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data", "nowhere"], "no such file or folder"),
        (["--data", str(STUDY)], "--split-by"),
        (["--data", "."], "no .csv"),
    ],
)
def test_bad_input_to_simulate_says_what_is_wrong_and_leaves_nothing(
    arguments: list[str], sentence: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = cohortsum("simulate", STUDY, *arguments, "--profile", "open_data", "--out", out, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("variables:\n  age: {form: data.age}\n", "node.yaml:2: variables.age.form: unknown key"),
        ("tables: {a: {id: x}, b: {id: y}}\n", "2 tables, expected one"),
        ("- age\n", "node.yaml:1: file: expected a valid dictionary"),
        ("exclude: [\n", "not YAML"),
    ],
)
def test_a_node_file_that_cannot_be_shared_is_refused_before_anything_runs(
    tables: Path, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "node.yaml").write_text(text)
    out = tmp_path / "out"
    done = cohortsum(
        *("simulate", STUDY, "--data", tables, "--profile", "open_data"),
        *("--node", tmp_path / "node.yaml", "--out", out),
    )
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not out.exists()


def test_a_shared_node_file_holds_at_every_site(tables: Path, tmp_path: Path) -> None:
    """Columns under other names and codes, and an exclusion list relative to the node file."""
    folder = tmp_path / "renamed"
    folder.mkdir()
    for path in tables.glob("*.csv"):
        header, *lines = path.read_text().splitlines()
        names = ["Years" if name == "age" else name for name in header.split(",")]
        place = names.index("dx")
        rows = [line.split(",") for line in lines]
        for row in rows:
            row[place] = {"autism": "1", "control": "no"}[row[place]]
        (folder / path.name).write_text("\n".join(map(",".join, [names, *rows])) + "\n")
    first = (tables / "amc.csv").read_text().splitlines()[1].partition(",")[0]
    (tmp_path / "withdrawn.txt").write_text(f"{first}\n")
    (tmp_path / "node.yaml").write_text(
        "site: ignored\nexclude: withdrawn.txt\ntables: {data: {id: subject_id, missing: ['-9']}}\n"
        "variables:\n  age: {from: data.Years}\n  dx: {codes: {1: autism, no: control}}\n"
    )
    done = cohortsum(
        *("simulate", STUDY, "--data", folder, "--profile", "open_data", "--in-process"),
        *("--node", tmp_path / "node.yaml", "--out", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    everybody = sum(len(path.read_text().splitlines()) - 1 for path in tables.glob("*.csv"))
    document = from_json((tmp_path / "out" / "result.json").read_bytes())
    (table,) = (block.table() for block in document.tables if block.analysis == "demographics")
    counted = [row for row in table.rows if row[0] == "age"]
    places = [table.columns.index("n"), table.columns.index("missing")]
    assert sum(int(str(row[place])) for row in counted for place in places) == everybody - 1


def test_without_a_profile_the_sites_hold_to_dpuk(tables: Path, tmp_path: Path) -> None:
    done = cohortsum("simulate", STUDY, "--data", tables, "--in-process", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "result.json").read_bytes())["profile"] == "dpuk"


def test_a_folder_with_something_in_it_is_not_written_to(tables: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    done = cohortsum("simulate", STUDY, "--data", tables, "--profile", "open_data", "--out", tmp_path)
    assert done.returncode == 2
    assert "not an empty folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_too_few_sites_end_without_a_result_and_exit_code_3(tables: Path, tmp_path: Path) -> None:
    folder = tmp_path / "few"
    folder.mkdir()
    for name in ("amc", "bru", "dov", "elm", "fen"):
        text = (tables / f"{name}.csv").read_text()
        (folder / f"{name}.csv").write_text(text if name != "amc" else text.replace("age", "years", 1))
    arguments = ("--data", folder, "--profile", "open_data", "--in-process", "--out", tmp_path / "out")
    done = cohortsum("simulate", STUDY, *arguments)
    assert done.returncode == 3
    assert "no result: 4 sites take part, 5 are required" in done.stderr
    assert "amc stayed out" in done.stderr
    assert not (tmp_path / "out" / "result.json").exists()


def test_results_are_shown_again_from_their_folder(run_folder: Path) -> None:
    done = cohortsum("results", "show", run_folder, "thickness", "--rows", "3")
    assert done.returncode == 0
    assert "rh_superiorfrontal_thickness" in done.stdout
    assert "dx[autism]" in done.stdout
    assert "no checker" in done.stdout
    missing = cohortsum("results", "show", run_folder, "nothing")
    assert missing.returncode == 2
    assert "demographics" in missing.stderr
    assert cohortsum("results", "show", run_folder / "figures").returncode == 2


def test_a_run_leaves_tables_figures_and_no_key(run_folder: Path) -> None:
    names = {str(path.relative_to(run_folder)) for path in run_folder.rglob("*") if path.is_file()}
    assert {"result.json", "results/thickness.csv", "figures/thickness.svg", "figures/thickness.png"} <= names
    assert not [name for name in names if name.endswith(("identity.key", ".words", ".part"))]


def test_json_progress_is_lines_of_json_on_standard_output(tables: Path, tmp_path: Path) -> None:
    arguments = (
        "--data",
        tables,
        "--profile",
        "open_data",
        "--in-process",
        "--json",
        "--out",
        tmp_path / "out",
    )
    done = cohortsum("simulate", STUDY, *arguments)
    assert done.returncode == 0
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(event["event"] == "study.answer" for event in events) == 9
    assert events[-1]["event"] == "round.opened"


def test_the_same_study_gives_the_same_numbers_in_every_run(
    run_folder: Path, tables: Path, tmp_path: Path
) -> None:
    arguments = ("--data", tables, "--profile", "open_data", "--in-process", "--out", tmp_path / "out")
    assert cohortsum("simulate", STUDY, *arguments).returncode == 0
    for name in ("thickness", "demographics", "ages"):
        one = (run_folder / "results" / f"{name}.csv").read_bytes()
        assert one == (tmp_path / "out" / "results" / f"{name}.csv").read_bytes()


def test_one_file_is_split_by_a_column_and_rows_without_a_site_are_counted(
    tables: Path, tmp_path: Path
) -> None:
    header = ""
    lines: list[str] = []
    for path in sorted(tables.glob("*.csv")):
        header, *rows = path.read_text().splitlines()
        lines += [f"{row},{path.stem}" for row in rows]
    lines[0] = lines[0].rsplit(",", 1)[0] + ","
    one = tmp_path / "all.csv"
    one.write_text("\n".join([header + ",centre", *lines]) + "\n")
    arguments = ("--data", one, "--split-by", "centre", "--profile", "open_data", "--in-process")
    done = cohortsum("simulate", STUDY, *arguments, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "1 rows without a value in 'centre'" in done.stderr
    wrong = cohortsum(
        "simulate", STUDY, "--data", one, "--split-by", "center", "--profile", "open_data", "--out", "x"
    )
    assert wrong.returncode == 2
    assert "--split-by" in wrong.stderr
