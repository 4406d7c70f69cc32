"""What fuzzing found in the product, one test each: the error that it is now, and whom it tells what.

The inputs themselves are in the corpus; here stands what a person reads in their place.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cohortsum.coordinator.client import status_from_wire
from cohortsum.coordinator.config import load_coordinator_config
from cohortsum.crypto.certificates import certified_name
from cohortsum.crypto.errors import (
    AuthenticationError,
    ConfigurationError,
    DataError,
    RefusedError,
    RemoteProtocolError,
    StoreError,
    StudyFileError,
)
from cohortsum.node.config import load_node_config, load_policy_config
from cohortsum.node.ledger import stored_write
from cohortsum.node.snapshot import SNAPSHOTS, held_snapshot, with_epoch
from cohortsum.node.tables.bids import Sidecar
from cohortsum.node.tables.sniff import Layout
from cohortsum.protocol import codec
from cohortsum.protocol.messages import Abort, Advert, Complaint, Kind
from cohortsum.protocol.roster import Identity, Role
from cohortsum.report.document import from_json
from cohortsum.report.tables import from_csv
from cohortsum.study.definition import load_roster, load_study, parse_canonical
from cohortsum.study.definition.freezing import roster_named
from cohortsum.study.definition.models import Checkers
from cohortsum.study.definition.problems import MOST
from cohortsum.study.definition.signing import signed_study_from_json
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.release.item import Item, decided
from cohortsum.study.release.panel import Panel
from cohortsum.study.release.states import State
from cohortsum.study.sums import unpack
from cohortsum.wire.v1 import service_pb2
from tests.fuzz.target import CORPUS
from tests.fuzz.texts import DEEP, ENDS_OF_TIME, ENROLS, NOT_YAML, UNTIL
from tests.protocol.consortium import Consortium, identity_key
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


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "two\nlines", "\u202eback", "nul\0"])
def test_a_text_that_a_terminal_would_obey_is_malformed(text: str, tmp_path: Path) -> None:
    for message in (Abort(text), Complaint("R2.7", text), Complaint(text, "site1")):
        with pytest.raises(RemoteProtocolError, match=r"M2.*one printable line"):
            codec.decode(*codec.encode(message))
    path = tmp_path / "policy.yaml"
    written = json.dumps(text)
    path.write_text(
        f"waivers: [{{rule: count_rounding, value: off, reason: {written}, by: ann, until: 2099-01-01}}]\n"
    )
    with pytest.raises(ConfigurationError, match=r"waivers\.0\.reason: expected one line"):
        load_policy_config(path)


def test_a_counter_that_no_ledger_can_keep_costs_its_site_and_nobody_else() -> None:
    """Every other site's ledger used to stumble over it, after the coordinator had taken the advert in."""
    consortium = Consortium(4)
    consortium.run()
    payload = next(
        packet.envelope.payload for _, _, packet in consortium.log if packet.envelope.kind is Kind.ADVERT
    )
    advert = codec.decode(Kind.ADVERT, payload)
    assert isinstance(advert, Advert)
    assert codec.decode(*codec.encode(replace(advert, counter=2**48))) == replace(advert, counter=2**48)
    for counter in (2**48 + 1, 2**63 - 1, 2**63, 2**64 - 1):
        with pytest.raises(RemoteProtocolError, match="M2"):
            codec.decode(*codec.encode(replace(advert, counter=counter)))


@pytest.mark.parametrize("reason", ["too fine\0", "\x1b[2Jnothing to see", "\u202etoo fine", "\x9b31m"])
def test_a_reason_that_a_terminal_or_a_database_would_obey_is_refused(reason: str) -> None:
    key = identity_key("chk1")
    checker = Identity("chk1", Role.CHECKER, None, key.public)
    panel = Panel(bytes(32), Checkers(consortium=1, sites="none"), {"chk1": checker}, frozenset())
    item = Item("ages", bytes(32), State.QUEUE)
    at = "2026-11-30T18:00:00+00:00"
    for written in (reason, "too fine:\n\tmerge the bands"):
        decision = Decision(bytes(32), "ages", bytes(32), Act.WITHHOLD, written, "", (), "chk1", at).sign(key)
        if written == reason:
            with pytest.raises(RefusedError, match="characters that cannot be seen"):
                decided(item, decision, panel)
        else:
            assert decided(item, decision, panel).state is State.WITHHELD


def _of_many(names: int, asked: str) -> bytes:
    """Return a canonical study of so many variables, asking for as many that may not be there."""
    tree = json.loads(frozen(small()).canonical)
    entry = {"out_of_range": "clamp", "range": [0.0, 1.0], "unit": "years"}
    tree["variables"] = {f"v{place}": entry for place in range(names)}
    tree["derive"] = {}
    tree["analyses"]["a"]["variables"] = [f"{asked}{place}" for place in range(names)]
    return json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()


def test_a_study_with_thousands_of_mistakes_lists_a_hundred_and_costs_no_more() -> None:
    """Each used to be compared with every name: minutes for 150 kB, and before anybody looked at the signature."""
    with pytest.raises(StudyFileError) as caught:
        parse_canonical(_of_many(3000, "w"))
    lines = caught.value.message.splitlines()
    assert len(lines) == MOST + 1
    assert lines[0].startswith("canonical study: analyses.a.variables[0]: the study has no variable 'w0'")
    assert lines[-1] == "canonical study: and perhaps more; correct these first"


def test_a_name_with_a_star_is_no_part_of_canonical_bytes() -> None:
    with pytest.raises(StudyFileError, match="a name with"):
        parse_canonical(_of_many(3, "v*"))
    tree = json.loads(_of_many(3, "v"))
    tree["variables"] = {"v*": {"catalogue": "aseg"}}
    with pytest.raises(StudyFileError, match="a name with"):
        parse_canonical(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode())


def test_too_many_variables_are_refused_before_anything_is_read_of_them() -> None:
    with pytest.raises(StudyFileError, match="more than 20000 variables"):
        parse_canonical(_of_many(20_001, "v"))
    tree = json.loads(_of_many(3, "v"))
    tree["derive"] = {f"d{place}": "v0+1" for place in range(20_001)}
    with pytest.raises(StudyFileError, match="derive: more than 20000 variables"):
        parse_canonical(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode())


def test_a_chain_of_derived_variables_is_read_once_each() -> None:
    chain = {f"d{place:04}": "v0 + 1" if place == 0 else f"d{place - 1:04} + 1" for place in range(3000)}
    study = json.loads(_of_many(3, "v"))
    study["derive"] = chain
    text = json.dumps(study, sort_keys=True, separators=(",", ":")).encode()
    assert len(parse_canonical(text).derived) == 3000


def test_a_node_reads_no_more_of_a_study_than_its_roster_before_it_knows_whose_it_is() -> None:
    assert roster_named(_of_many(3, "w")) == 1
    for other in (b"{}", b"[]", b'{"roster": "1"}', b'{"roster": null}', b"x"):
        with pytest.raises(StudyFileError, match="canonical study"):
            roster_named(other)
