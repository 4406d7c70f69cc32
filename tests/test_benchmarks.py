"""The benchmarks run, print what their tables promise, and are exact; no time is asserted.

They run in processes of their own, as they are meant to: round.py must set an environment variable before grpc is
imported, and memory is measured in a fresh interpreter.
"""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from benchmarks.soak_books import reckon
from benchmarks.soak_studies import ID_WORD, Rows, faults_in
from cohortsum.cli.results import read_document

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"

Tables = dict[str, list[dict[str, object]]]

CELLS = [(10, 1_000, 0), (10, 1_000, 1), (10, 20_000, 0), (10, 20_000, 1)]


def run(program: str, folder: Path) -> tuple[str, Tables]:
    """Return what a benchmark printed, and its tables; a sum that is not exact makes it fail."""
    kept = folder / "tables.json"
    command = [sys.executable, str(BENCHMARKS / program), "--quick", "--json", str(kept)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(kept.read_text())


@pytest.fixture(scope="module")
def masking(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Tables]:
    return run("masking.py", tmp_path_factory.mktemp("masking"))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Tables]:
    return run("tables.py", tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Tables]:
    return run("round.py", tmp_path_factory.mktemp("round"))


def test_a_committee_is_right_and_has_a_row_for_every_program(tmp_path: Path) -> None:
    _, tables = run("committee.py", tmp_path)
    rows = table(tables, "Committee")
    assert [row["program"] for row in rows] == ["threshold", "4 cells", "5 percentiles"]
    assert [row["exchanges"] for row in rows] == sorted(cast("int", row["exchanges"]) for row in rows)


def table(tables: Tables, start: str) -> list[dict[str, object]]:
    return next(rows for title, rows in tables.items() if title.startswith(start))


@pytest.mark.parametrize(
    "start", ["Site: mask step", "Coordinator: unmask step", "Site: whole step with", "Site: whole step, by"]
)
def test_every_cell_of_the_grid_has_a_row(masking: tuple[str, Tables], start: str) -> None:
    rows = table(masking[1], start)
    assert [(row["sites"], row["numbers"], row["dropped"]) for row in rows] == CELLS


@pytest.mark.parametrize("start", ["Site: mask step", "Coordinator: unmask step"])
def test_masking_rows_are_exact_and_stand_beside_the_bound(masking: tuple[str, Tables], start: str) -> None:
    for row in table(masking[1], start):
        assert row["exact"] == "yes"
        assert isinstance(row["of bound"], float)
        assert row["of bound"] > 0


def test_a_site_verifies_every_peer_in_every_step(masking: tuple[str, Tables]) -> None:
    sites = 10
    for row in table(masking[1], "Site: whole step with"):
        signed, dropped = row["signed/n"], row["dropped"]
        assert isinstance(signed, float)
        assert isinstance(dropped, int)
        own = (
            5  # advert, shares, masked input, consistency and two answers, less one that may be metered apart
        )
        peers = 3 * sites + 2 * (
            sites - dropped
        )  # approvals, adverts, shares; inputs and signatures of survivors
        assert peers + own <= signed * sites <= peers + own + 10


def test_the_memory_of_adding_uploads_does_not_grow_with_the_sites(masking: tuple[str, Tables]) -> None:
    few, many = table(masking[1], "Coordinator: memory")
    assert (few["sites"], many["sites"]) == (4, 16)
    assert many["verdict"] == "PASS"


def test_flower_is_measured_or_named_as_missing(masking: tuple[str, Tables]) -> None:
    printed, tables = masking
    rows = table(tables, "Flower")
    assert len(rows) == len(CELLS) or (not rows and "flwr is not installed" in printed)


def test_threads_and_verdicts_are_printed(masking: tuple[str, Tables]) -> None:
    printed, tables = masking
    assert [row["sites"] for row in table(tables, "Two threads")] == [10]
    for title in tables:
        assert title in printed


def test_a_round_on_loopback_is_exact_and_its_time_is_split(loopback: tuple[str, Tables]) -> None:
    printed, tables = loopback
    (row,) = table(tables, "A round on loopback")
    (steps,) = table(tables, "Protocol time by step")
    assert (row["sites"], row["numbers"], row["exact"]) == (5, 37, "yes")
    whole, own, protocol = row["round"], row["own"], row["protocol"]
    assert isinstance(whole, float)
    assert isinstance(own, float)
    assert isinstance(protocol, float)
    assert own + protocol == pytest.approx(whole)
    assert sum(time for time in steps.values() if isinstance(time, float)) == pytest.approx(protocol, abs=0.2)
    assert [name for name in steps if name.startswith("R")] == [
        "R0 advertise",
        "R1 share keys",
        "R2 masked input",
        "R3 consistency",
        "R4a open gate",
        "R4b open data",
    ]
    assert "protocol" in printed


def test_a_wide_table_is_read_exactly_and_its_time_is_split(wide: tuple[str, Tables]) -> None:
    printed, tables = wide
    few, many = table(tables, "A site's tables: seconds")
    assert (few["people"], many["people"], few["columns"], many["columns"]) == (600, 6000, 868, 868)
    for row in (few, many):
        assert row["exact"] == "yes"
        assert all(isinstance(row[part], float) for part in ("read", "supply", "add up"))
    assert "exact" in printed


def test_ten_times_the_people_do_not_need_ten_times_the_memory(wide: tuple[str, Tables]) -> None:
    """Ten times the cells would need 300 MiB more, if all their texts were held at once."""
    few, many = table(wide[1], "A site's tables: growth")
    for part in ("read", "supply", "add up"):
        before, after = few[part], many[part]
        if before is None:
            pytest.skip("this system does not tell the peak of resident memory")
        assert isinstance(before, float)
        assert isinstance(after, float)
        assert after < before + 200


def test_sums_stand_beside_plain_products_and_a_round_is_right(tmp_path: Path) -> None:
    printed, tables = run("accumulate.py", tmp_path)
    rows = table(tables, "Accumulate")
    assert [row["site_effect"] for row in rows] == ["within", "within", "within", "none"]
    for row in rows:
        assert isinstance(row["to columns"], float)
        assert row["to columns"] > 0
    few, many = table(tables, "Memory of accumulate")
    assert (few["people"], many["people"]) == (500, 5000)
    (round_row,) = table(tables, "One round")
    assert (round_row["sites"], round_row["numbers"]) == (5, 20 * (1 + 1 + 6 + 4))
    assert "goal" in printed


def test_noise_stands_beside_opendps_or_it_is_named_as_missing(tmp_path: Path) -> None:
    printed, tables = run("noise.py", tmp_path)
    rows = table(tables, "Discrete Gaussian")
    assert [row["sigma"] for row in rows] == [1, 300]
    for row in rows:
        assert isinstance(row["ours/s"], float)
        assert isinstance(row["ratio"], float) or (
            row["ratio"] is None and "opendp is not installed" in printed
        )


def test_two_key_mode_stands_beside_masking_and_tenseal_and_is_exact(tmp_path: Path) -> None:
    printed, tables = run("two_key.py", tmp_path)
    assert [row["keys"] for row in table(tables, "Masks of a site")] == [2, 20]
    rows = table(tables, "Encryption against")
    assert [row["step"] for row in rows] == ["encrypt", "add", "decrypt", "3 sites", "10 sites", "50 sites"]
    for row in rows:
        ours, theirs = row["two_key"], row["TenSEAL"]
        assert isinstance(ours, float)
        assert isinstance(theirs, float)
        assert row["ratio"] == pytest.approx(ours / theirs)
        assert row["goal"] == (1.2 if "sites" in str(row["step"]) else None)
    assert "goal" in printed


def test_a_large_round_is_exact_and_every_message_stands_beside_what_it_should_hold(tmp_path: Path) -> None:
    printed, tables = run("scale.py", tmp_path)
    steps = table(tables, "5 sites, ")
    assert [row["step"] for row in steps[1:7]] == [
        "R0 advertise",
        "R1 share keys",
        "R2 masked input",
        "R3 consistency",
        "R4a open gate",
        "R4b open data",
    ]
    sizes = {(row["way"], row["message"]): row for row in table(tables, "Bytes per site")}
    for key in (
        ("up", "UPLOAD"),
        ("up", "SHARES"),
        ("down", "DELIVERY"),
        ("down", "OPENING"),
        ("down", "QUORUM"),
    ):
        held, reckoned = sizes[key]["bytes"], sizes[key]["reckoned"]
        assert isinstance(held, int)
        assert isinstance(reckoned, int)
        assert reckoned < held < 1.4 * reckoned
    assert "exact" in printed


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tables]:
    """Some seconds of a soak, with everything kept."""
    out = tmp_path_factory.mktemp("soak")
    asked = ["--minutes", "0.08", "--sites", "3", "--per-minute", "60", "--out", str(out), "--keep"]
    command = [sys.executable, str(BENCHMARKS / "soak.py"), *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is wrong" in done.stdout
    return out, json.loads((out / "soak.json").read_text())


def rows_of_soak() -> dict[str, Rows]:
    return {f"site{place}": Rows.of_site(1, place) for place in range(3)}


def test_a_soak_counts_what_happened_and_draws_it(soaked: tuple[Path, Tables]) -> None:
    out, tables = soaked
    (whole,), (wrong,) = table(tables, "Soak"), table(tables, "What is wrong")
    assert (whole["sites"], whole["studies"]) == (3, whole["released"])
    opened, checked = whole["rounds opened"], wrong["results checked"]
    assert isinstance(opened, int)
    assert isinstance(checked, int)
    assert opened >= checked > 0  # a fit opens several rounds
    assert (
        sum(value for name, value in wrong.items() if name != "results checked" and isinstance(value, int))
        == 0
    )
    assert (out / "soak.png").read_bytes().startswith(b"\x89PNG")


def test_the_oracle_of_the_soak_finds_a_site_that_is_missing_or_has_other_rows(
    soaked: tuple[Path, Tables],
) -> None:
    paths = sorted((soaked[0] / "consortium").glob("consortium/results/soak-*/v1"))
    documents = [read_document(path) for path in paths]
    exact = [document for document in documents if document.privacy is None]
    assert exact
    right = rows_of_soak()
    for document in exact:
        assert faults_in(document, right) == []
        assert faults_in(document, right | {"site1": right["site0"]})


def test_the_reckoning_of_the_soak_finds_lost_deeds_and_leaks(soaked: tuple[Path, Tables]) -> None:
    home = soaked[0] / "consortium"
    assert not any(reckon(home, rows_of_soak()).wrong.values())
    with closing(sqlite3.connect(home / "site1" / "ledger.db")) as ledger, ledger:
        ledger.execute("DELETE FROM deeds WHERE deed = 'answered gate'")
    (home / "logs" / "site2.jsonl").write_text(f"{ID_WORD}02003\n")
    wrong = reckon(home, rows_of_soak()).wrong
    assert wrong["deeds once, in order"]
    assert wrong["a message that was taken is in its site's ledger"]
    assert [said.partition(":")[0] for said in wrong["ids, values and keys nowhere"]] == ["logs/site2.jsonl"]
