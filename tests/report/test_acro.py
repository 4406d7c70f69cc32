"""The folder that the SACRO viewer opens: its layout, its statuses, and nothing in it that a rule hid."""

import csv
import hashlib
import importlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import RefusedError
from cohortsum.report.acro import DPUK, LAYOUT, Limits, acro_files
from cohortsum.report.document import ResultDocument, RuleBlock, SignatureBlock
from cohortsum.study.disclosure.audit import audit_pattern
from cohortsum.study.disclosure.rules import DEFAULT
from cohortsum.study.disclosure.suppression import Suppression, suppress
from cohortsum.study.disclosure.tables import Cell as Counted
from cohortsum.study.disclosure.tables import Tables
from cohortsum.study.disclosure.verdict import Outcome, RuleResult
from cohortsum.study.results import CROSSTAB_COLUMNS, Absent, Status, Table
from tests.report.example import document, thickness_table
from tests.report.hidden import HIDDEN, LEVELS, RULE, results, suppressed
from tests.report.kinds import KINDS, NASTY, SUMMARY

GOLDEN = Path(__file__).with_name("acro_folder.txt")
AT = "2026-11-30T18:00:00Z"
FIELDS = {
    "uid", "status", "type", "properties", "files", "outcome", "command", "summary", "timestamp", "comments", "exception", "fair",
}  # fmt: skip


def results_of(files: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, dict[str, Any]]] = json.loads(files["results.json"])
    return data["results"]


def released(tables: tuple[Table, ...], rules: tuple[RuleResult, ...], at: str) -> ResultDocument:
    """Return a document whose every item one checker released."""
    held = document(*tables)
    signed = (SignatureBlock(by="m.weber", role="checker", act="release", at=at, reason=""),)
    items = tuple(item.model_copy(update={"signatures": signed}) for item in held.release)
    return held.model_copy(update={"rules": tuple(map(RuleBlock.of, rules)), "release": items})


def written(*tables: Table, rules: tuple[RuleResult, ...] = (), at: str = AT) -> dict[str, bytes]:
    return dict(acro_files(released(tables, rules, at)))


def as_text(files: dict[str, bytes]) -> str:
    return "".join(f"=== {name}\n{content.decode()}\n" for name, content in files.items())


@pytest.fixture(scope="module")
def folder() -> dict[str, bytes]:
    return written(suppressed(), thickness_table(("lh_cuneus_thickness",)), rules=results())


def test_the_folder_is_as_it_was_laid_down(folder: dict[str, bytes]) -> None:
    assert as_text(folder) == GOLDEN.read_text(encoding="utf-8")


def test_every_result_has_the_fields_of_acro_and_every_file_its_checksum() -> None:
    files = written(*KINDS)
    data = json.loads(files["results.json"])
    assert data["version"] == LAYOUT
    assert set(data) == {"version", "tool", "results"}
    assert list(data["results"]) == [table.analysis for table in KINDS]
    for name, result in data["results"].items():
        assert set(result) == FIELDS
        assert result["uid"] == name
        assert result["status"] in {"pass", "review", "fail"}
        assert [file["name"] for file in result["files"]] == [f"{name}_0.csv"]
        assert result["files"][0]["name"] in files
    plain = {name for name in files if not name.startswith("checksums/")}
    assert {f"checksums/{name}.txt" for name in plain} == set(files) - plain
    for name in plain:
        assert files[f"checksums/{name}.txt"].decode() == hashlib.sha256(files[name]).hexdigest()


def test_only_one_json_file_looks_like_results_to_the_viewer(folder: dict[str, bytes]) -> None:
    held = [json.loads(content) for name, content in folder.items() if name.endswith(".json")]
    assert sum("version" in data and "results" in data for data in held) == 1


def test_positions_of_hidden_cells_are_those_that_the_viewer_marks(folder: dict[str, bytes]) -> None:
    (file,) = results_of(folder)["severity"]["files"]
    rows = list(csv.reader(io.StringIO(folder[file["name"]].decode())))
    cells: list[tuple[int, int]] = file["sdc"]["cells"][RULE]
    assert file["sdc"]["summary"] == {RULE: 12}
    assert len(cells) == 12
    names: set[tuple[str, str]] = set()
    for row, column in cells:
        line = rows[1:][row]  # below the header
        assert line[1:][column] == ""  # beside the index
        names.add((line[0], line[1]))
    assert names == HIDDEN
    outcome = results_of(folder)["severity"]["outcome"]
    assert list(outcome) == rows[0][1:]
    assert outcome["count"]["2"] == RULE
    assert outcome["count"]["0"] == "ok"


def test_a_number_that_is_not_there_for_another_reason_is_not_marked() -> None:
    (result,) = results_of(written(thickness_table())).values()
    assert result["files"][0]["sdc"] == {"summary": {}, "cells": {}}
    assert result["outcome"] == {}


def test_a_rule_that_is_in_no_catalogue_is_known_from_its_result() -> None:
    own = Absent("means_from_rounded_counts")
    table = Table("t", "crosstab", ("a", "count", "status"), (("x", own, "ok"), ("y", Absent("else"), "ok")))
    said = RuleResult(own.reason, "t", Outcome.CHANGED, "recomputed")
    (result,) = results_of(written(table, rules=(said,))).values()
    assert result["files"][0]["sdc"]["cells"] == {own.reason: [[0, 0]]}


@pytest.mark.parametrize(
    ("outcomes", "status", "summary"),
    [
        ((), "review", "not checked"),
        ((Outcome.PASSED,), "pass", "pass; 1 rule"),
        ((Outcome.PASSED, Outcome.PASSED), "pass", "pass; 2 rules"),
        ((Outcome.PASSED, Outcome.CHANGED), "review", "changed by rules; rule1: changed the table"),
        ((Outcome.WAIVED, Outcome.PASSED), "review", "rules waived; rule0: waived"),
        ((Outcome.WAIVED, Outcome.CHANGED), "review", "changed by rules; rule1: changed the table; rule0: waived"),
    ],
)  # fmt: skip
def test_the_status_follows_from_the_rules(outcomes: tuple[Outcome, ...], status: str, summary: str) -> None:
    table = replace(SUMMARY, rows=SUMMARY.rows[:2])
    rules = tuple(
        RuleResult(f"rule{place}", table.analysis, outcome, "w") for place, outcome in enumerate(outcomes)
    )
    others = (RuleResult("elsewhere", "another", Outcome.CHANGED, "w"),)
    (result,) = results_of(written(table, rules=rules + others)).values()
    assert result["status"] == status
    assert result["summary"].startswith(summary)
    assert bool(result["exception"]) == (status == "review" and bool(outcomes))
    assert set(result["fair"]["check_status"]) == {rule.rule for rule in rules}


def test_hidden_cells_ask_for_a_look_even_if_every_rule_passed() -> None:
    rules = (RuleResult("r", SUMMARY.analysis, Outcome.PASSED, "w"),)
    (result,) = results_of(written(SUMMARY, rules=rules)).values()
    assert result["status"] == "review"
    assert result["files"][0]["sdc"]["summary"] == {Status.BELOW_THRESHOLD.value: 3}


def test_a_withheld_table_is_refused() -> None:
    rules = (RuleResult("group_10", "severity", Outcome.WITHHELD, "too few"),)
    with pytest.raises(RefusedError, match="withheld by group_10"):
        written(suppressed(), rules=rules)


def test_what_the_viewer_takes_for_html_is_escaped(folder: dict[str, bytes]) -> None:
    rules = (RuleResult(NASTY, SUMMARY.analysis, Outcome.CHANGED, NASTY),)
    for result in results_of(written(SUMMARY, rules=rules)).values():
        for text in (result["summary"], result["exception"], *result["comments"]):
            assert "<" not in text
        assert any("&lt;script&gt;" in comment for comment in result["comments"])


def test_the_time_is_that_of_the_signature_and_equal_arguments_give_equal_bytes(
    folder: dict[str, bytes],
) -> None:
    again = written(suppressed(), thickness_table(("lh_cuneus_thickness",)), rules=results())
    assert again == folder
    assert {result["timestamp"] for result in results_of(folder).values()} == {AT}
    assert {result["timestamp"] for result in results_of(dict(acro_files(document(SUMMARY)))).values()} == {
        ""
    }


def test_the_limits_are_those_in_force_under_the_names_of_acro() -> None:
    open_data = json.loads(written()["config.json"])
    assert {value for key, value in open_data.items() if key.startswith("safe_")} == {None}
    held = dict(acro_files(document(), limits=DPUK))
    config = json.loads(held["config.json"])
    assert config["safe_threshold"] == config["safe_dof_threshold"] == 10
    assert (config["safe_nk_n"], config["safe_nk_k"], config["safe_pratio_p"]) == (2, 0.9, 0.1)
    assert config["zeros_are_disclosive"] is DEFAULT.zeros_are_disclosive
    assert set(open_data) == set(config) == {
        *Limits.__dataclass_fields__, "federated", "blocked_extensions",
    }  # fmt: skip


COUNTS = st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), min_size=2, max_size=3)


def counted(counts: list[list[int]]) -> tuple[Tables, dict[str, tuple[str, str]]]:
    """Return a cross table with its margins as sets of people, and what its inner cells are called."""
    cells: list[Counted] = []
    names: dict[str, tuple[str, str]] = {}
    rows = [f"r{place}" for place in range(len(counts))]
    for row, line in zip(rows, counts, strict=True):
        for level, count in zip(LEVELS, line, strict=True):
            names[f"{row}/{level}"] = (row, level)
            cells.append(Counted(f"{row}/{level}", frozenset({(row, level)}), count))
        cells.append(Counted(row, frozenset((row, level) for level in LEVELS), sum(line)))
    for place, level in enumerate(LEVELS):
        people = sum(line[place] for line in counts)
        cells.append(Counted(level, frozenset((row, level) for row in rows), people))
    return Tables(tuple(cells)), names


def numbers(files: dict[str, bytes]) -> list[str]:
    """Return every number in the results, but for positions of cells and counts of them."""
    held = results_of(files)
    for result in held.values():
        for file in result["files"]:
            del file["sdc"]
    seen: list[str] = []
    json.loads(json.dumps(held), parse_int=seen.append, parse_float=seen.append)
    return seen


@settings(max_examples=30, deadline=None)
@given(COUNTS)
def test_no_hidden_count_and_none_below_ten_is_in_the_folder(counts: list[list[int]]) -> None:
    tables, names = counted(counts)
    found = suppress(tables, DEFAULT)
    assume(isinstance(found, Suppression))  # a table that nothing protects is withheld as a whole
    assert isinstance(found, Suppression)
    hidden = set(found.hidden)
    assert not audit_pattern(tables, hidden, DEFAULT).flagged
    lost = Absent(RULE)
    rows = tuple(
        (*pair, *((lost,) * 3 if name in hidden else (counts[int(pair[0][1])][LEVELS.index(pair[1])], 50.0, 50.0)), "ok")
        for name, pair in names.items()
    )  # fmt: skip
    table = Table("severity", "crosstab", ("arm", "severity", *CROSSTAB_COLUMNS), rows)
    files = written(table, rules=results())
    lines = list(csv.DictReader(io.StringIO(files["severity_0.csv"].decode())))
    shown = {(line["arm"], line["severity"]): line["count"] for line in lines if line["count"]}
    assert set(shown) == {pair for name, pair in names.items() if name not in hidden}
    assert not any(0 < int(count) < 10 for count in shown.values())
    assert numbers(files) == []
    assert results_of(files)["severity"]["files"][0]["sdc"]["summary"] == (
        {RULE: 3 * sum(name in names for name in hidden)} if hidden & set(names) else {}
    )


def test_acros_own_reader_takes_the_folder(tmp_path: Path, folder: dict[str, bytes]) -> None:
    try:
        record = importlib.import_module("acro.record")
        version = importlib.import_module("acro.version").__version__
    except ImportError:
        pytest.skip("ACRO is not installed; pip install acro==1.0.2 in an environment of its own")
    if version != LAYOUT:
        pytest.skip(f"ACRO {version} reads its own version alone, not {LAYOUT}")
    for name, content in folder.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    records = record.load_records(str(tmp_path))
    first = records.get("severity")
    assert (first.status, first.output_type, first.timestamp) == ("review", "table", AT)
    (frame,) = first.output
    assert list(frame.columns) == ["arm", "severity", *CROSSTAB_COLUMNS]
    assert int(frame["count"].isna().sum()) == len(HIDDEN)
    assert list(first.outcome.columns) == list(frame.columns)[1:]
    assert records.get("thickness").output_type == "regression"
