"""What a newer version made is refused by the name of its format, and left as it is: never read as far as it goes.

The store's revisions are in `tests.coordinator.test_migrations`; the wire version, over a real line, in `tests.edges.test_refusals`.
"""

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cohortsum.coordinator.service import check_version
from cohortsum.crypto.errors import (
    AuthenticationError,
    ConfigurationError,
    RemoteProtocolError,
    StoreError,
    StudyFileError,
)
from cohortsum.node.ledger import Ledger
from cohortsum.node.ledger_file import LEDGER_SCHEMA, SCHEMA
from cohortsum.protocol.codec import WIRE_VERSION
from cohortsum.report.document import from_json
from cohortsum.report.item_file import item_from_json
from cohortsum.study.definition import parse_canonical
from cohortsum.study.release.archive import pack, unpack
from cohortsum.study.release.bundle import BUNDLE, Manifest, read_json
from tests.admin import desk
from tests.golden.test_golden import HERE, VERSIONS, fingerprint

FOLDER = HERE / VERSIONS[0]
RESULT = FOLDER / "consortium" / "results" / "open" / "v1" / "result.json"
BUNDLE_FILE = FOLDER / "consortium" / "results" / "open" / "v1.bundle.zip"

LEDGERS = {
    1: "b435840e823d3e8c53f55e3a0f50876dc2fcc584833688948ad0dc6340a65a4d",
}
"""SHA-256 of the ledger's tables by number; a released one is never changed."""


@pytest.mark.parametrize("version", [0, WIRE_VERSION + 1, 2**31])
def test_another_wire_version_is_refused_with_both(version: int) -> None:
    check_version(WIRE_VERSION)
    with pytest.raises(RemoteProtocolError) as caught:
        check_version(version)
    assert caught.value.check == "W1"
    assert f"wire version {version}; this coordinator speaks {WIRE_VERSION}" in caught.value.message


def changed(data: bytes, **fields: object) -> bytes:
    return json.dumps(json.loads(data) | fields).encode()


def test_a_result_of_a_newer_schema_is_refused_by_name() -> None:
    document = RESULT.read_bytes()
    assert from_json(document).study.id == "open"
    with pytest.raises(ConfigurationError) as caught:
        from_json(changed(document, schema="cohortsum.result/3", release="of a form that is not known yet"))
    assert caught.value.message == (
        "result document: schema cohortsum.result/3; expected schema cohortsum.result/2: open it with the cohortsum version that"
        " wrote it"
    )


def test_an_item_of_a_newer_schema_is_refused_by_name() -> None:
    with pytest.raises(
        ConfigurationError, match=r"schema cohortsum\.item/2; expected schema cohortsum\.item/1"
    ):
        item_from_json(b'{"schema": "cohortsum.item/2", "values": []}', bytes(32), "ages")


def test_a_bundle_of_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    files = dict(unpack(BUNDLE_FILE.read_bytes(), "bundle"))
    files["manifest.json"] = changed(files["manifest.json"], bundle="cohortsum.bundle/2", more={})
    with pytest.raises(
        ConfigurationError,
        match=r"bundle cohortsum\.bundle/2; expected a file of cohortsum\.bundle/1: verify",
    ):
        read_json(Manifest, files["manifest.json"], "manifest.json")
    (tmp_path / "b.zip").write_bytes(pack(files))
    screen = desk.run("verify", tmp_path / "b.zip", "--roster-fingerprint", fingerprint(FOLDER))
    assert screen.code == 1
    assert "bundle cohortsum.bundle/2" in " ".join(screen.out.split())
    assert BUNDLE in " ".join(screen.out.split())


def canonical() -> bytes:
    path = sorted((FOLDER / "site0" / "studies").iterdir())[0]
    return str(json.loads(path.read_bytes())["canonical"]).encode()


def test_a_study_of_a_newer_format_is_refused_by_name() -> None:
    assert parse_canonical(canonical()).canonical == canonical()
    newer = changed(canonical(), format="cohortsum.study/2", cohort="of a form that is not known yet")
    with pytest.raises(StudyFileError) as caught:
        parse_canonical(newer)
    assert caught.value.message.startswith(
        "canonical study: format cohortsum.study/2; expected cohortsum.study/1"
    )


@pytest.mark.parametrize(
    "name", ["cohortsum.study/1", "cohortsum.result/2", "canary 7351946", "cohortsum.study/x", 2, None]
)
def test_a_name_that_is_no_format_of_ours_is_not_shown(name: object) -> None:
    with pytest.raises(StudyFileError) as caught:
        parse_canonical(changed(canonical(), format=name))
    assert "expected cohortsum.study/1" not in caught.value.message
    assert "7351946" not in caught.value.message
    if name != "cohortsum.result/2":
        with pytest.raises((ConfigurationError, AuthenticationError)) as caught_:
            from_json(changed(RESULT.read_bytes(), schema=name))
        assert "7351946" not in caught_.value.message


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    shutil.copytree(FOLDER / "site0", tmp_path / "site0")
    return tmp_path / "site0" / "ledger.db"


def number_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_a_ledger_without_a_number_is_that_of_the_first_version(ledger: Path) -> None:
    assert number_of(ledger) == 0
    Ledger(ledger).close()
    assert number_of(ledger) == LEDGER_SCHEMA
    Ledger(ledger).close()


def test_a_ledger_of_a_newer_version_is_refused_by_name_and_left_as_it_is(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute(f"PRAGMA user_version = {LEDGER_SCHEMA + 1}")
    before = desk.contents(ledger.parent)
    with pytest.raises(StoreError) as caught:
        Ledger(ledger)
    assert (
        f"the ledger has schema {LEDGER_SCHEMA + 1}, and this version knows {LEDGER_SCHEMA}"
        in caught.value.message
    )
    assert "install that version again" in caught.value.message
    assert desk.contents(ledger.parent) == before


def test_tables_of_a_ledger_are_never_changed_under_their_number() -> None:
    assert list(LEDGERS) == list(range(1, LEDGER_SCHEMA + 1))
    held = hashlib.sha256(SCHEMA.encode()).hexdigest()
    assert held == LEDGERS[LEDGER_SCHEMA], (
        "the ledger's tables changed: an older program would overlook what is new and might answer twice; raise LEDGER_SCHEMA"
    )
