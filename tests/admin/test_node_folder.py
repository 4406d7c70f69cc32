"""A node's folder: private, loadable as made, described without a value, and a snapshot that edits one word."""

import contextlib
import csv
import io
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError, PolicyError
from cohortsum.node.config import load_node_config, load_policy_config
from cohortsum.node.files import replace
from cohortsum.node.ledger import Ledger
from cohortsum.node.snapshot import held_snapshot, with_epoch
from cohortsum.node.tables.reader import content_digest
from cohortsum.study.definition.consortium import load_request
from tests.admin.desk import contents, make_site, ok, refused, run

OPTIONS = {"--site": "nyu", "--coordinator": "hub.example.org:443", "--organisation": "Hospital"}


def init(folder: Path, **changes: str) -> tuple[str | Path, ...]:
    options = OPTIONS | {f"--{name}": value for name, value in changes.items()}
    return ("node", "init", folder, *(part for pair in options.items() for part in pair))


def test_the_folder_is_private_and_its_files_load(tmp_path: Path) -> None:
    folder = tmp_path / "nyu"
    screen = ok(*init(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "identity.key").stat().st_mode) == 0o600
    config = load_node_config(folder / "node.yaml")
    assert (config.site, config.coordinator) == ("nyu", "hub.example.org:443")
    assert config.identity_key == folder / "identity.key"
    request = load_request((folder / "request.yaml").read_bytes(), "request.yaml")
    assert (request.id, request.role, request.organisation) == ("nyu", "site", "Hospital")
    assert request.key in screen.out
    assert (folder / "identity.key").read_text().strip() not in screen.out + screen.said
    for step in ("send", "request.yaml", "node.yaml", "cohortsum node pin"):
        assert step in screen.said


def test_data_are_declared_public_by_nobody_but_the_admin(tmp_path: Path) -> None:
    ok(*init(tmp_path / "a"))
    ok(*init(tmp_path / "b", profile="open_data"))
    assert load_policy_config(tmp_path / "a" / "policy.yaml").profile == "dpuk"
    assert load_policy_config(tmp_path / "b" / "policy.yaml").profile == "open_data"


@pytest.mark.parametrize(
    "changes",
    [{"site": "a b"}, {"site": "a.b"}, {"coordinator": "hub"}, {"organisation": 'a"b'}, {"table": "a\nb"}, {"person": ""}],
)  # fmt: skip
def test_a_node_that_cannot_be_leaves_no_file(tmp_path: Path, changes: dict[str, str]) -> None:
    refused(*init(tmp_path / "nyu", **changes))
    assert contents(tmp_path) == {}


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    folder = make_site(tmp_path, "nyu")
    before = contents(folder)
    assert "not empty" in refused(*init(folder))
    assert contents(folder) == before


def test_odd_names_of_tables_and_columns_survive(tmp_path: Path) -> None:
    folder = tmp_path / "nyu"
    ok(*init(folder, table="it's: a #table.csv", person="{id}"))
    table = load_node_config(folder / "node.yaml").tables["data"]
    assert (table.path, table.id) == (folder / "it's: a #table.csv", "{id}")


def test_replacing_a_file_leaves_no_other_behind(tmp_path: Path) -> None:
    path = tmp_path / "deny.yaml"
    for data in (b"one", b"two"):
        replace(path, data)
    assert contents(tmp_path) == {"deny.yaml": b"two"}
    with pytest.raises(ConfigurationError, match=r"cannot be written \(No such file"):
        replace(tmp_path / "none" / "deny.yaml", b"x")


MAPPED = """\
site: nyu
coordinator: hub:443
identity_key: identity.key
epoch: none-yet
tables:
  clinic:
    path: clinic.csv
    id: subject
    missing: ["-9999"]
    rows: {order: visit, choose: first}
    rename: [{match: 'L_(.+)', to: 'left_\\1'}]
  empty: {path: empty.csv, id: subject}
variables:
  sex: {from: clinic.SEX, codes: {"7001": male, "7002": female}, missing: ["7009"]}
  age: {from: clinic.months, unit: months}
  left_area: {unit: cm2}
  field: {constant: "8123", unit: tesla}
"""
CLINIC = (
    "subject,visit,SEX,months,L_area,a|b\n900001,8001,7001,8002,8003,8004\n900002,8001,7002,8005,8006,8007\n"
)


@pytest.fixture
def mapped(tmp_path: Path) -> Path:
    folder = make_site(tmp_path, "nyu")
    (folder / "node.yaml").write_text(MAPPED)
    (folder / "clinic.csv").write_text(CLINIC)
    (folder / "empty.csv").write_text("subject,x\n")
    return folder


def test_the_dictionary_names_columns_variables_units_and_declared_codes(mapped: Path) -> None:
    out = mapped.parent / "dictionary.csv"
    ok("node", "describe", mapped, "--format", "csv", "--out", out)
    rows = {
        (row["table"], row["column"], row["variable"]): row
        for row in csv.DictReader(io.StringIO(out.read_text()))
    }
    assert [key[1] for key in rows] == [
        "subject",
        "visit",
        "SEX",
        "months",
        "left_area",
        "a|b",
        "subject",
        "x",
        "",
    ]
    assert rows["clinic", "subject", ""]["role"] == "person id"
    assert rows["clinic", "visit", ""]["role"] == "visit order"
    assert rows["clinic", "SEX", "sex"]["codes"] == "7001 = male; 7002 = female"
    assert rows["clinic", "SEX", "sex"]["missing"] == "-9999; 7009"
    assert rows["clinic", "months", "age"]["unit"] == "months"
    assert rows["clinic", "left_area", "left_area"]["unit"] == "cm2"
    assert rows["", "", "field"] | {"role": "constant", "unit": "tesla"} == rows["", "", "field"]
    assert {row["rows"] for row in rows.values() if row["table"] == "clinic"} == {"at least 1"}
    assert {row["rows"] for row in rows.values() if row["table"] == "empty"} == {"none"}


@pytest.mark.parametrize("style", ["csv", "markdown"])
def test_the_dictionary_holds_no_value_no_id_and_no_count(mapped: Path, style: str) -> None:
    screen = ok("node", "describe", mapped, "--format", style)
    for value in ("900001", "900002", *(f"800{digit}" for digit in range(1, 8)), "8123"):
        assert value not in screen.out + screen.said
    (mapped / "clinic.csv").write_text(CLINIC + "".join(f"9{n:05d},1,7001,1,1,1\n" for n in range(500)))
    assert ok("node", "describe", mapped, "--format", style).out == screen.out


def test_the_markdown_table_has_one_cell_per_column(mapped: Path) -> None:
    lines = ok("node", "describe", mapped).out.splitlines()
    assert {line.replace("\\|", "").count("|") for line in lines} == {9}


def test_a_table_that_cannot_be_read_is_named(mapped: Path) -> None:
    (mapped / "clinic.csv").unlink()
    assert "table clinic (clinic.csv): cannot be read" in refused("node", "describe", mapped)


def test_a_snapshot_changes_one_word_of_node_yaml(mapped: Path) -> None:
    (mapped / "empty.csv").write_text("subject,x\n900001,1\n")
    path = mapped / "node.yaml"
    commented = MAPPED.replace("epoch: none-yet", "epoch: none-yet   # by hand  ").replace("\n", "\r\n")
    path.write_bytes(commented.encode())
    screen = ok("node", "snapshot", mapped, "--epoch", "2026-11")
    assert path.read_bytes() == commented.replace("none-yet", "2026-11").encode()
    config = load_node_config(path)
    assert held_snapshot(mapped, "2026-11") == content_digest(config)
    assert "rows    2 in table clinic (stays here)" in screen.out
    ledger = Ledger(mapped / "ledger.db")
    try:
        ledger.epochs.bind("2026-11", content_digest(config))
        with pytest.raises(PolicyError, match="epoch 2026-11"):
            ledger.epochs.bind("2026-11", bytes(32))
    finally:
        ledger.close()


def test_a_label_is_never_tied_to_other_content(tmp_path: Path) -> None:
    folder = make_site(tmp_path, "nyu")
    ok("node", "snapshot", folder, "--epoch", "a")
    ok("node", "snapshot", folder, "--epoch", "a")
    table = folder / "people.csv"
    table.write_text(table.read_text() + "p03,case,30\n")
    before = contents(folder)
    assert "not those that epoch a was first used with" in refused("node", "snapshot", folder, "--epoch", "a")
    kept = {name for name in before if not name.startswith("ledger.db")}
    after = contents(folder)
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    ok("node", "snapshot", folder, "--epoch", "b")


@pytest.mark.parametrize("label", ["", "../x", "a b", "none-yet", "-x", "a" * 65, "a: b"])
def test_a_label_that_is_no_file_name_is_refused(tmp_path: Path, label: str) -> None:
    folder = make_site(tmp_path, "nyu")
    before = contents(folder)
    assert "epoch: expected" in refused("node", "snapshot", folder, f"--epoch={label}")
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("epoch: 'a b' # x\nsite: s\n", "epoch: new # x\nsite: s\n"),
        ("\ufeffsite: é\nepoch: old", "\ufeffsite: é\nepoch: new"),
        ("{site: s, epoch: old, tables: {}}", "{site: s, epoch: new, tables: {}}"),
        ("# epoch: no\ntables:\n  epoch: {path: x}\nepoch: old\n", "# epoch: no\ntables:\n  epoch: {path: x}\nepoch: new\n"),
    ],
)  # fmt: skip
def test_only_the_value_of_epoch_is_edited(text: str, epoch: str) -> None:
    assert with_epoch(text.encode(), "new").decode() == epoch


@given(st.binary(max_size=60))
def test_editing_any_bytes_raises_only_our_error(text: bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        edited = with_epoch(text, "new")
        assert b"new" in edited


def test_help_of_every_command_names_its_purpose() -> None:
    for group, commands in {
        "key": ("new", "request"),
        "coordinator": ("init", "admit", "roster", "revoke"),
        "node": ("init", "pin", "deny", "doctor", "describe", "snapshot"),
    }.items():
        shown = run(group, "--help").out
        assert all(command in shown for command in commands)
