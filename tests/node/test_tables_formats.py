"""Every format at once: what an admin's commands say of it, and how settings that do not fit a format are refused."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.config import NodeConfig, load_node_config
from cohortsum.node.describe import describe, to_csv
from cohortsum.node.doctor_data import check_snapshot, check_tables
from cohortsum.node.findings import Severity
from cohortsum.node.snapshot import take_snapshot
from tests.node.reading import AGE, SEX, number, values, wants

HEAD = """\
site: nyu
coordinator: aggregator.example.org:443
identity_key: nyu.identity
epoch: none-yet
tables:
"""

CANARY = "7351946"


def _text(folder: Path) -> str:
    (folder / "cov.csv").write_text(f"id,age\n{CANARY},30\n")
    return "  cov: {path: cov.csv, id: id}\n"


def _brc(folder: Path) -> str:
    (folder / "IDPs.txt").write_text(" ".join([CANARY, *["1.5"] * 867]) + "\n")
    return "  idps: {path: IDPs.txt, format: brc}\n"


def _freesurfer(folder: Path) -> str:
    (folder / "lh.txt").write_text(f"lh.aparc.area\tlh_cuneus_area\n{CANARY}\t1500\n")
    return "  lh: {path: lh.txt, format: freesurfer, id: lh.aparc.area}\n"


def _enigma(folder: Path) -> str:
    (folder / "vol.csv").write_bytes(f"SubjID,Lhippo,ICV\r{CANARY},4000,1500000".encode())
    return "  vol: {path: vol.csv, format: enigma}\n"


def _bids(folder: Path) -> str:
    (folder / "participants.tsv").write_text(f"participant_id\tsex\n{CANARY}\tM\n")
    (folder / "participants.json").write_text(json.dumps({"sex": {"Levels": {"M": "male"}}}))
    return "  people: {path: participants.tsv, format: bids}\n"


def _bids_sessions(folder: Path) -> str:
    home = folder / "bids/sub-1"
    home.mkdir(parents=True)
    (home / "sub-1_sessions.tsv").write_text("session_id\tweight\nses-1\t70\n")
    return "  sessions: {path: bids, format: bids_sessions}\n"


def _parquet(folder: Path) -> str:
    with duckdb.connect() as connection:
        table = connection.sql("SELECT 'CANARY' AS id, 1.5 AS score".replace("CANARY", CANARY))
        table.write_parquet(str(folder / "t.parquet"))
    return "  scores: {path: t.parquet, format: parquet, id: id}\n"


def _duckdb(folder: Path) -> str:
    with duckdb.connect(str(folder / "site.duckdb")) as connection:
        connection.execute("CREATE TABLE bmi AS SELECT ? AS id, 22.5 AS bmi", [CANARY])
    return "  bmi: {path: site.duckdb, format: duckdb, table: bmi, id: id}\n"


def _sql(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "clinical.db")) as connection, connection:
        connection.execute("CREATE TABLE visits (id TEXT, iq REAL)")
        connection.execute("INSERT INTO visits VALUES (?, 100)", [CANARY])
    return '  visits: {format: sql, database: {url: "sqlite:///clinical.db"}, table: visits, id: id}\n'


FORMATS: dict[str, tuple[Callable[[Path], str], str, str]] = {
    "text": (_text, "cov", "age"),
    "brc": (_brc, "idps", "T2_FLAIR_WMH_volume"),
    "freesurfer": (_freesurfer, "lh", "lh_cuneus_area"),
    "enigma": (_enigma, "vol", "Lhippo"),
    "bids": (_bids, "people", "sex"),
    "bids_sessions": (_bids_sessions, "sessions", "weight"),
    "parquet": (_parquet, "scores", "score"),
    "duckdb": (_duckdb, "bmi", "bmi"),
    "sql": (_sql, "visits", "iq"),
}


@pytest.fixture
def everything(tmp_path: Path) -> NodeConfig:
    text = HEAD + "".join(write(tmp_path) for write, _, _ in FORMATS.values())
    (tmp_path / "node.yaml").write_text(text)
    return load_node_config(tmp_path / "node.yaml")


def test_the_dictionary_lists_columns_of_every_format_and_no_value(everything: NodeConfig) -> None:
    entries = {(entry.table, entry.column): entry for entry in describe(everything)}
    for _, table, column in FORMATS.values():
        assert entries[table, column].rows == "at least 1"
    assert entries["idps", "SubjectID"].role == "person id"
    assert entries["idps", "T2_FLAIR_WMH_volume"].unit == "voxels"
    assert entries["lh", "lh_cuneus_area"].unit == "mm2"
    assert entries["vol", "ICV"].unit == "mm3"
    assert entries["people", "sex"].codes == "M = male"
    assert CANARY not in to_csv(tuple(entries.values()))


def test_the_doctor_reads_the_headers_of_every_format(everything: NodeConfig, tmp_path: Path) -> None:
    tables, mapping = check_tables(everything, None, tmp_path)
    assert (tables.status, mapping.status) == (Severity.OK, Severity.OK)
    assert tables.sentence.startswith(
        "9 can be read: cov, idps, lh, vol, people, sessions, scores, bmi, visits"
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_the_doctor_names_a_table_that_is_not_there(
    everything: NodeConfig, tmp_path: Path, kind: str
) -> None:
    _, table, _ = FORMATS[kind]
    gone = {
        "cov": "cov.csv",
        "idps": "IDPs.txt",
        "lh": "lh.txt",
        "vol": "vol.csv",
        "people": "participants.tsv",
    }
    gone |= {
        "sessions": "bids/sub-1/sub-1_sessions.tsv",
        "scores": "t.parquet",
        "bmi": "site.duckdb",
        "visits": "clinical.db",
    }
    (tmp_path / gone[table]).unlink()
    finding, _ = check_tables(everything, None, tmp_path)
    assert finding.status is Severity.FAILURE
    assert f"table {table} (" in finding.sentence
    assert CANARY not in finding.sentence


def test_a_snapshot_holds_every_format_and_follows_their_content(
    everything: NodeConfig, tmp_path: Path
) -> None:
    snapshot = take_snapshot(tmp_path, "2026-11")
    assert snapshot.rows == {table: 1 for _, table, _ in FORMATS.values()}
    config = load_node_config(tmp_path / "node.yaml")
    assert check_snapshot(tmp_path, config, None).status is Severity.OK
    with closing(sqlite3.connect(tmp_path / "clinical.db")) as connection, connection:
        connection.execute("UPDATE visits SET iq = 101")
    assert check_snapshot(tmp_path, config, None).status is Severity.FAILURE


def test_formats_join_by_the_persons_id(everything: NodeConfig) -> None:
    wanted = wants(
        AGE,
        SEX,
        number("T1_inverse_SNR"),
        number("score"),
        number("bmi"),
        number("iq"),
        number("Lhippo", "mm3"),
    )
    assert values(everything, wanted) == {
        "age": [30],
        "sex": [1],
        "T1_inverse_SNR": [1.5],
        "score": [1.5],
        "bmi": [22.5],
        "iq": [100],
        "Lhippo": [4000],
    }


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("{path: a.csv, format: excel, id: id}", "tables.t.format: expected 'text', 'brc'"),
        (
            "{path: a.csv, id: id, sidecar: a.json}",
            "expected sidecar only with format bids, bids_sessions; it is text",
        ),
        ("{path: a.csv, id: id, table: x}", "expected table only with format duckdb, sql; it is text"),
        ("{path: a.csv, id: id, columns: [id]}", "expected columns only with format duckdb, sql"),
        ("{path: a.db, format: duckdb, id: id}", "expected table with format duckdb"),
        ("{format: sql, table: x, id: id}", "expected database with format sql"),
        (
            '{path: a.db, format: sql, table: x, id: id, database: {url: "sqlite:///a.db"}}',
            "expected path only with format bids,",
        ),
        (
            "{path: a.db, format: duckdb, table: x, id: id, columns: [age]}",
            "expected the id column id among columns",
        ),
        ("{path: a.csv, format: freesurfer}", "tables.t.id: required key is absent"),
        ("{format: brc}", "table t: expected a path"),
    ],
)
def test_keys_that_do_not_fit_a_format_are_refused(tmp_path: Path, table: str, sentence: str) -> None:
    (tmp_path / "node.yaml").write_text(HEAD + f"  t: {table}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_node_config(tmp_path / "node.yaml")
    assert sentence in caught.value.message


@pytest.mark.parametrize(
    ("table_format", "person"), [("brc", "SubjectID"), ("enigma", "SubjID"), ("bids", "participant_id")]
)
def test_the_id_column_that_a_format_fixes_may_be_said_otherwise(
    tmp_path: Path, table_format: str, person: str
) -> None:
    for given, expected in (("", person), (", id: other", "other")):
        (tmp_path / "node.yaml").write_text(HEAD + f"  t: {{path: a, format: {table_format}{given}}}\n")
        assert load_node_config(tmp_path / "node.yaml").tables["t"].id == expected
