"""The doctor's whole visit: from a consortium's first command to a green screen, and every local fault with its cure."""

import json
import os
import shutil
from pathlib import Path

import pytest

from cohortsum.coordinator.admission import load_consortium
from cohortsum.node.files import read_key
from cohortsum.study.definition import freeze, load_study
from cohortsum.study.definition.signing import sign_study, signed_study_to_json
from tests.admin.desk import admit, make_consortium, make_site, ok, pin, run
from tests.admin.servers import grpc_coordinator
from tests.protocol.consortium import identity_key

PROXIES = (
    "grpc_proxy",
    "https_proxy",
    "http_proxy",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "no_proxy",
    "no_grpc_proxy",
)
STUDY = """\
study: small
title: A small study
version: 1
roster: 2
expires: 2099-01-01
person: person_id
variables:
  dx: {levels: [control, case]}
  age: {unit: years, range: [0, 100]}
  thick: {unit: mm, range: [0, 5]}
cohort: {epoch: e1}
analyses:
  people: {kind: summary, variables: [age, thick], by: [dx]}
protection: {min_sites: 5, min_participants: 100, max_participants: 1000, min_participants_per_site: 2,
  max_colluding_sites: 1, min_honest_inputs: 3}
privacy: {noise: none}
release: {checkers: {consortium: 0, sites: none}}
"""


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site that is admitted, has pinned the roster and made a snapshot."""
    consortium, folder = make_consortium(tmp_path), make_site(tmp_path, "nyu")
    admit(consortium, folder)
    pin(consortium, folder)
    ok("node", "snapshot", folder, "--epoch", "e1")
    return folder


def visit(folder: Path, *options: str | Path, code: int = 2) -> dict[str, dict[str, str]]:
    """Return the checks of an offline visit by name, as monitoring gets them."""
    screen = run("node", "doctor", folder, "--json", "--offline", *options)
    assert screen.code == code, screen
    held = json.loads(screen.out)
    assert held["code"] == code
    return {check["name"]: check for check in held["checks"]}


def bad(found: dict[str, dict[str, str]]) -> dict[str, str]:
    return {
        name: check["status"] for name, check in found.items() if check["status"] in ("warning", "failure")
    }


def test_init_admit_pin_snapshot_doctor_is_green(tmp_path: Path) -> None:
    consortium, first = make_consortium(tmp_path), make_site(tmp_path, "nyu")
    admit(consortium, first)
    held = load_consortium(consortium)
    with grpc_coordinator(read_key(consortium / "identity.key"), held.rosters[2]) as port:
        node = first / "node.yaml"
        node.write_text(node.read_text().replace(":5443", f":{port}"))
        pin(consortium, first)
        ok("node", "snapshot", first, "--epoch", "e1")
        screen = ok("node", "doctor", first)
        assert "all is well" in screen.said
        assert "cohortsum node run" in screen.said
        shown = json.loads(ok_json(first))
    assert {check["status"] for check in shown["checks"]} == {"ok"}
    assert set(shown["checks"][0]) == {"name", "status", "sentence", "cure"}


def ok_json(folder: Path) -> str:
    screen = run("node", "doctor", folder, "--json")
    assert screen.code == 0
    return screen.out


def test_an_offline_visit_of_a_good_site_finds_nothing(site: Path) -> None:
    assert bad(visit(site, code=0)) == {}


def test_the_screen_shows_every_check_with_its_cure(site: Path) -> None:
    (site / "policy.yaml").write_text("egress: {checkers: [ann]}\n")
    screen = run("node", "doctor", site, "--offline")
    assert screen.code == 2
    for text in ("files", "rights", "pin", "policy", "failure", "-> remove these keys", "skipped"):
        assert text in screen.out
    assert "follow the cures" in screen.said


@pytest.mark.parametrize(
    ("path", "mode", "check", "cure"),
    [
        (".", 0o755, "folder", "chmod 700"),
        ("identity.key", 0o640, "rights", "chmod 600 identity.key"),
        ("policy.yaml", 0o666, "rights", "chmod go-w policy.yaml"),
        ("operator.pub", 0o664, "rights", "chmod go-w operator.pub"),
    ],
)
def test_rights_that_are_too_wide_are_named_with_the_command_that_narrows_them(
    site: Path, path: str, mode: int, check: str, cure: str
) -> None:
    (site / path).chmod(mode)
    found = visit(site)
    assert found[check]["status"] == "failure"
    assert cure in found[check]["cure"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_key_that_cannot_be_read_is_named(site: Path) -> None:
    (site / "identity.key").chmod(0)
    assert visit(site)["key"]["status"] == "failure"


def test_a_lost_or_broken_key_is_named(site: Path) -> None:
    (site / "identity.key").write_text("not a key")
    found = visit(site)
    assert "expected 32 bytes" in found["key"]["sentence"]
    (site / "identity.key").unlink()
    found = visit(site)
    assert "identity.key: cannot be read" in found["key"]["sentence"]
    assert "restore it from backup" in found["key"]["cure"]


def test_a_key_that_is_not_the_rosters_is_named(site: Path) -> None:
    (site / "identity.key").unlink()
    ok("key", "new", site / "identity.key")
    found = visit(site)
    assert bad(found) == {"roster": "failure"}
    assert "another key for 'nyu'" in found["roster"]["sentence"]


def test_a_site_without_a_pinned_roster_is_told_what_to_do(tmp_path: Path) -> None:
    found = visit(make_site(tmp_path, "nyu"))
    assert bad(found) == {"pin": "failure", "snapshot": "warning"}
    assert "cohortsum node pin" in found["pin"]["cure"]
    assert found["roster"]["status"] == "skipped"


@pytest.mark.parametrize("name", ["rosters/2.yaml", "rosters/2.sig", "operator.pub"])
def test_tampering_with_what_is_pinned_is_found(site: Path, name: str) -> None:
    text = (site / name).read_text()
    (site / name).write_text(
        text.replace("Hospital", "Hospitel") if "yaml" in name else "ab" * (len(text) // 2)
    )
    found = visit(site)
    assert found["pin"]["status"] == "failure"
    assert "not as the operator signed it" in found["pin"]["sentence"]


@pytest.mark.parametrize("name", ["consortium.yaml", "consortium.sig"])
def test_a_copy_that_is_not_the_pinned_one_is_found(site: Path, name: str) -> None:
    (site / name).write_bytes((site / name).read_bytes() + b"\n")
    found = visit(site)
    assert bad(found) == {"copies": "failure"}
    assert f"{name} is not what was pinned" in found["copies"]["sentence"]


@pytest.mark.parametrize(
    ("who", "whose"), [("nyu", "this site's key"), ("coordinator", "the coordinator's key")]
)
def test_a_revoked_key_is_named_with_date_and_reason(site: Path, who: str, whose: str) -> None:
    consortium = site.parent / "consortium"
    ok("coordinator", "revoke", consortium, who, "--reason", "lost laptop")
    ok("node", "deny", site, consortium / "deny.yaml", consortium / "deny.sig")
    found = visit(site)
    assert bad(found) == {"deny-list": "failure"}
    assert whose in found["deny-list"]["sentence"]
    assert "lost laptop" in found["deny-list"]["sentence"]


def test_a_broken_node_file_shows_its_fault_and_what_else_can_be_checked(site: Path) -> None:
    (site / "node.yaml").write_text("site: nyu\nsight: 3\n")
    found = visit(site)
    assert "node.yaml:2: sight: unknown key" in found["files"]["sentence"]
    assert found["pin"]["status"] == found["policy"]["status"] == found["disk"]["status"] == "ok"
    assert {found[name]["status"] for name in ("key", "tables", "mapping", "snapshot")} == {"skipped"}


def test_a_folder_that_is_none_is_one_failure(tmp_path: Path) -> None:
    assert list(visit(tmp_path / "none")) == ["files"]


def test_a_policy_that_this_version_cannot_honour_is_a_failure(site: Path) -> None:
    (site / "policy.yaml").write_text("egress: {checkers: [ann]}\n")
    assert "egress" in visit(site)["policy"]["sentence"]
    (site / "policy.yaml").write_text("profil: open_data\n")
    assert "policy.yaml:1: profil: unknown key" in visit(site)["policy"]["sentence"]


def test_tables_and_columns_that_are_not_there_are_named(site: Path) -> None:
    node = (site / "node.yaml").read_text()
    (site / "node.yaml").write_text(node.replace("variables: {}", "variables: {sex: {from: data.GENDER}}"))
    found = visit(site)
    assert "no column GENDER in table data" in found["mapping"]["sentence"]
    (site / "node.yaml").write_text(node.replace("person_id", "id"))
    assert "no column id" in visit(site)["tables"]["sentence"]
    (site / "people.csv").unlink()
    found = visit(site)
    assert "people.csv" in found["tables"]["sentence"]
    assert (found["mapping"]["status"], found["snapshot"]["status"]) == ("skipped", "failure")


def test_tables_that_changed_after_the_snapshot_are_found(site: Path) -> None:
    table = site / "people.csv"
    table.write_text(table.read_text() + "p03,case,30\n")
    found = visit(site)
    assert bad(found) == {"snapshot": "failure"}
    assert "cohortsum node snapshot" in found["snapshot"]["cure"]


def test_an_epoch_written_by_hand_is_a_warning(site: Path) -> None:
    node = site / "node.yaml"
    node.write_text(node.read_text().replace("epoch: e1", "epoch: by-hand"))
    assert bad(visit(site, code=1)) == {"snapshot": "warning"}


def study_file(folder: Path, text: str = STUDY) -> Path:
    path = folder.parent / "study.yaml"
    path.write_text(text)
    return path


def test_a_study_is_read_as_a_round_would_read_it(site: Path) -> None:
    study = study_file(site)
    found = visit(site, "--study", study, code=1)
    assert bad(found) == {"mapping": "warning"}
    assert "without 1 of its outcomes (thick:" in found["mapping"]["sentence"]
    (site / "people.csv").write_text("person_id,dx,age,thick\np01,case,31,2.5\np02,control,47,2.6\n")
    ok("node", "snapshot", site, "--epoch", "e2")
    study_file(site, STUDY.replace("epoch: e1", "epoch: e2"))
    assert bad(visit(site, "--study", study, code=0)) == {}
    assert list(site.glob("cohortsum-*")) == [], "no private copy is left behind"


def test_a_signed_study_is_read_as_well(site: Path) -> None:
    path = site.parent / "study.json"
    signed = sign_study(freeze(load_study(STUDY.encode(), "study.yaml")), "stat1", identity_key("stat1"))
    path.write_bytes(signed_study_to_json(signed))
    assert bad(visit(site, "--study", path, code=1)) == {"mapping": "warning"}


@pytest.mark.parametrize(
    ("old", "new", "check", "sentence"),
    [
        ("epoch: e1", "epoch: e9", "snapshot", "is about epoch e9; this site's is e1"),
        ("levels: [control, case]", "levels: [control, patient]", "mapping", "dx"),
        ("noise: none", "noise: none", "policy", "noise does not list none"),
    ],
)
def test_what_keeps_a_site_out_of_a_study_is_said_before(
    site: Path, old: str, new: str, check: str, sentence: str
) -> None:
    if check == "policy":
        (site / "policy.yaml").write_text("profile: open_data\nnoise: [local]\n")
    found = visit(site, "--study", study_file(site, STUDY.replace(old, new)))
    assert found[check]["status"] == "failure"
    assert sentence in found[check]["sentence"]


def test_no_visit_shows_a_value_or_an_id(site: Path) -> None:
    secrets = ("p770001", "p770002", "66.125", "psychosis-x")
    (site / "people.csv").write_text("person_id,dx,age\np770001,psychosis-x,66.125\np770002,control,6x6\n")
    for options in ((), ("--study", study_file(site))):
        for style in ((), ("--json",)):
            screen = run("node", "doctor", site, "--offline", *options, *style)
            assert not any(secret in screen.out + screen.said for secret in secrets)


def test_a_disk_that_takes_no_write_is_a_failure(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    found = visit(site)
    assert "No space left on device" in found["disk"]["sentence"]


@pytest.mark.parametrize(("free", "code"), [(10 * 2**20, 2), (2**30, 1), (10 * 2**30, 0)])
def test_little_room_is_a_warning_and_next_to_none_a_failure(
    site: Path, monkeypatch: pytest.MonkeyPatch, free: int, code: int
) -> None:
    usage = shutil.disk_usage(site)

    def measured(_: Path) -> object:
        return type(usage)(usage.total, usage.used, free)

    monkeypatch.setattr(shutil, "disk_usage", measured)
    found = visit(site, code=code)
    assert found["disk"]["status"] == ("ok", "warning", "failure")[code]
