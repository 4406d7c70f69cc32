"""What fuzzing found in the product, one test each: the error that it is now, and whom it tells what.

The inputs themselves are in the corpus; here stands what a person reads in their place.
"""

import hashlib
from pathlib import Path

import pytest

from cohortsum.coordinator.client import status_from_wire
from cohortsum.coordinator.config import load_coordinator_config
from cohortsum.crypto.certificates import certified_name
from cohortsum.crypto.errors import (
    AuthenticationError,
    ConfigurationError,
    DataError,
    RemoteProtocolError,
    StoreError,
    StudyFileError,
)
from cohortsum.node.config import load_node_config, load_policy_config
from cohortsum.node.ledger import stored_write
from cohortsum.node.snapshot import SNAPSHOTS, held_snapshot, with_epoch
from cohortsum.node.tables.bids import Sidecar
from cohortsum.node.tables.sniff import Layout
from cohortsum.report.document import from_json
from cohortsum.report.tables import from_csv
from cohortsum.study.definition import load_roster, load_study, parse_canonical
from cohortsum.study.definition.signing import signed_study_from_json
from cohortsum.study.sums import unpack
from cohortsum.wire.v1 import service_pb2
from tests.fuzz.target import CORPUS
from tests.fuzz.texts import DEEP, ENDS_OF_TIME, ENROLS, NOT_YAML, UNTIL
from tests.study.definitions import frozen, small

DEEP_JSON = (b"[" * DEEP, b'{"a":' * DEEP)
OUT_OF_RANGE = ("escape", "huge-directive")


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_yaml_that_its_own_parser_stumbles_over_names_the_file(name: str, tmp_path: Path) -> None:
    data = NOT_YAML[name]
    for load in (load_study, load_roster):
        with pytest.raises(StudyFileError, match=r"^a\.yaml:1: .*out of range"):
            load(data, "a.yaml")
    path = tmp_path / "a.yaml"
    path.write_bytes(data)
    for settings in (load_node_config, load_policy_config, load_coordinator_config):
        with pytest.raises(ConfigurationError, match=r"^a\.yaml:1: .*out of range"):
            settings(path)
    with pytest.raises(ConfigurationError, match="epoch"):
        with_epoch(data, "2026-12")


@pytest.mark.parametrize("name", ["deep-lists", "deep-keys", "many-marks"])
def test_settings_nested_beyond_the_stack_name_the_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"# one line\n" + NOT_YAML[name])
    for settings in (load_node_config, load_policy_config, load_coordinator_config):
        with pytest.raises(ConfigurationError, match=r"^a\.yaml:2: .*nested deeper than 16"):
            settings(path)


@pytest.mark.parametrize("pattern", ["a{99999999999}", "(" * 900 + ")" * 900])
def test_a_pattern_that_no_machine_compiles_is_a_fault_of_node_yaml(pattern: str, tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(f"tables: {{t: {{id: i, rename: [{{match: '{pattern}', to: b}}]}}}}\n")
    with pytest.raises(ConfigurationError, match="expected a regular expression"):
        load_node_config(path)


@pytest.mark.parametrize("data", DEEP_JSON)
def test_json_nested_beyond_the_stack_is_refused_everywhere(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(StudyFileError, match="not a signed study"):
        signed_study_from_json(data)
    with pytest.raises(ConfigurationError, match="result document"):
        from_json(b'{"schema": "cohortsum.result/1", "a": ' + data)
    with pytest.raises(DataError, match="expected a JSON object"):
        Sidecar("table t", tmp_path / "t.json").describe(Layout("\t", ("id",)), data)
    (tmp_path / SNAPSHOTS).mkdir()
    (tmp_path / SNAPSHOTS / "2026-11.json").write_bytes(data)
    with pytest.raises(ConfigurationError, match="not a snapshot"):
        held_snapshot(tmp_path, "2026-11")


@pytest.mark.parametrize("moment", ENDS_OF_TIME)
def test_a_moment_that_has_no_date_somewhere_on_earth_is_a_problem_of_the_study(moment: str) -> None:
    with pytest.raises(StudyFileError, match=r"enrol\.until: expected a moment in the years 1970 to 9998"):
        frozen(ENROLS.replace(UNTIL, moment))
    with pytest.raises(StudyFileError, match=r"enrol\.until: expected a moment"):
        parse_canonical(frozen(ENROLS).canonical.replace(b"2027-01-01T11:00:00Z", moment.encode()))


def test_a_wait_whose_end_has_no_date_is_a_problem_of_the_study() -> None:
    assert frozen(small() + "deadlines: {gather: 3660d}\n").deadlines_s.gather == 3660 * 86400
    for wait in ("3661d", "87841h", "999999999d"):
        with pytest.raises(StudyFileError, match=r"deadlines\.gather: expected a duration of at most 3660d"):
            frozen(small() + f"deadlines: {{gather: {wait}}}\n")


@pytest.mark.parametrize("moment", ["soon", "2026-11-30", "0000-01-01T00:00+00:00", *ENDS_OF_TIME])
def test_a_status_with_a_time_that_is_none_is_malformed(moment: str) -> None:
    with pytest.raises(RemoteProtocolError, match="M2"):
        status_from_wire(service_pb2.StudyStatus(enrolment_closes=moment))
    with pytest.raises(RemoteProtocolError, match="M2"):
        status_from_wire(service_pb2.StudyStatus(sites=[service_pb2.SiteStatus(last_seen=moment)]))


@pytest.mark.parametrize("name", ["found-subject", "found-bit-string"])
def test_a_certificate_without_a_name_to_read_is_not_genuine(name: str) -> None:
    with pytest.raises(AuthenticationError):
        certified_name((CORPUS / "certificate" / name).read_bytes())


@pytest.mark.parametrize(
    "head", [b"{}", b"[" * DEEP, b"[[1, 2]]", b'[["a", -1]]', b'[["a", 1e9]]', b"[null]"]
)
def test_sums_that_another_version_wrote_are_a_fault_of_the_store(head: bytes) -> None:
    held = len(head).to_bytes(8, "little") + head + bytes(8)
    with pytest.raises(StoreError, match="another version wrote them"):
        unpack(hashlib.sha256(held).digest() + held)


@pytest.mark.parametrize("people", ["[", "[" * DEEP, '{"people": "unknown"}', "1"])
def test_a_row_of_the_ledger_in_another_form_is_a_fault_of_the_store(people: str) -> None:
    key = bytes(32)
    with pytest.raises(StoreError, match="a row of the ledger"):
        stored_write((key, key, key, "[0]", "[0]", people, None, key, 1, 1, None, None, 0), {})


def test_a_number_of_thousands_of_digits_is_no_cell() -> None:
    with pytest.raises(ConfigurationError, match="row 1, column n: is not a finite number"):
        from_csv("variable,n,status\nage," + "9" * 5000 + ",ok\n", "ages", "summary")
