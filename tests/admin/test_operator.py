"""The operator's commands: founding, admitting, renewing, revoking. Old versions stay; nobody else's entry moves."""

import shutil
import stat
from pathlib import Path

import pytest
import yaml

from cohortsum.coordinator.admission import load_consortium
from cohortsum.coordinator.config import CoordinatorConfig
from cohortsum.crypto.fingerprint import key_words, phrase
from cohortsum.node.files import read_key
from cohortsum.protocol.roster import ROSTER, Role
from cohortsum.study.definition.consortium import write_roster
from tests.admin.desk import admit, contents, make_consortium, make_site, ok, refused, run, words_in


def request(home: Path, name: str, role: str, identity: str | None = None) -> Path:
    """Return a signed request with a key of its own."""
    key, out = home / f"{name}.key", home / f"{name}.yaml"
    ok("key", "new", key)
    who = ("--id", identity or name, "--role", role, "--name", name, "--organisation", "Office")
    ok("key", "request", key, *who, "--out", out)
    return out


def test_a_new_key_is_private_and_shown_by_its_public_half_only(tmp_path: Path) -> None:
    file, public = tmp_path / "me.key", tmp_path / "me.pub"
    screen = ok("key", "new", file, "--public", public)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().strip() not in screen.out + screen.said
    shown = bytes.fromhex(public.read_text().strip())
    assert f"ed25519:{shown.hex()}" in screen.out
    assert phrase(key_words(shown)) in screen.out


def test_a_key_file_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "me.key"
    ok("key", "new", file)
    before = file.read_bytes()
    assert "exists already and is not overwritten" in refused("key", "new", file)
    assert file.read_bytes() == before


def test_a_new_consortium_has_version_1_and_no_sites(tmp_path: Path) -> None:
    folder = make_consortium(tmp_path)
    held = load_consortium(folder)
    assert (held.version, dict(held.rosters[1].sites)) == (1, {})
    assert held.rosters[1].coordinator.id == "coordinator"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for key in ("operator.key", "identity.key"):
        assert stat.S_IMODE((folder / key).stat().st_mode) == 0o600


def test_the_settings_of_a_new_consortium_are_those_of_the_coordinator(tmp_path: Path) -> None:
    folder = make_consortium(tmp_path)
    settings = yaml.safe_load((folder / "coordinator.yaml").read_text())
    assert settings.keys() <= CoordinatorConfig.model_fields.keys()
    fields = CoordinatorConfig.model_fields
    asked = {name for name, field in fields.items() if field.is_required()}
    assert asked - settings.keys() <= {"study"}
    assert settings["operator_key"] == (folder / "operator.pub").read_text().strip()


def test_a_second_consortium_does_not_overwrite_the_first(tmp_path: Path) -> None:
    folder = make_consortium(tmp_path)
    before = contents(folder)
    options = ("--consortium", "b", "--listen", "127.0.0.1:1", "--organisation", "RE")
    assert "not empty" in refused("coordinator", "init", folder, *options)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [("--listen", "443", "host:port"), ("--listen", "a b:1", "host:port"), ("--consortium", "a b", "consortium"),
     ("--id", "a.b", "id"), ("--organisation", " x", "organisation")],
)  # fmt: skip
def test_a_consortium_that_cannot_be_leaves_no_key_behind(
    tmp_path: Path, option: str, value: str, why: str
) -> None:
    options = {"--consortium": "imaging", "--listen": "127.0.0.1:1", "--organisation": "RE", option: value}
    arguments = [part for pair in options.items() for part in pair]
    assert why in refused("coordinator", "init", tmp_path / "c", *arguments)
    assert contents(tmp_path) == {}


def test_admitted_sites_get_the_next_index_in_one_version_and_keep_it(tmp_path: Path) -> None:
    folder = make_consortium(tmp_path)
    sites = [make_site(tmp_path, name) for name in ("nyu", "sbl", "amc")]
    admit(folder, *sites[:2])
    first = contents(folder)
    admit(folder, sites[2])
    held = load_consortium(folder)
    assert dict(held.rosters[2].sites) == {"nyu": 0, "sbl": 1}
    assert dict(held.rosters[3].sites) == {"nyu": 0, "sbl": 1, "amc": 2}
    kept = {name: data for name, data in first.items() if name.startswith("rosters/")}
    assert kept.items() <= contents(folder).items()
    assert (folder / "consortium.yaml").read_bytes() == (folder / "rosters" / "3.yaml").read_bytes()


def test_admitting_one_site_leaves_every_other_line_and_every_site_folder_alone(tmp_path: Path) -> None:
    folder = make_consortium(tmp_path)
    nyu, sbl = (make_site(tmp_path, name) for name in ("nyu", "sbl"))
    admit(folder, nyu)
    before, home = (folder / "consortium.yaml").read_text().splitlines(), contents(nyu)
    admit(folder, sbl)
    after = (folder / "consortium.yaml").read_text().splitlines()
    assert after[2:-1] == before[2:]
    assert contents(nyu) == home


def test_the_index_of_a_site_that_an_operator_wrote_out_is_not_used_again(tmp_path: Path) -> None:
    folder, nyu, sbl = make_consortium(tmp_path), make_site(tmp_path, "nyu"), make_site(tmp_path, "sbl")
    admit(folder, nyu)
    held = load_consortium(folder)
    without = write_roster("imaging", 3, held.files[1].identities)
    key = read_key(folder / "operator.key")
    (folder / "rosters" / "3.sig").write_text(key.sign(ROSTER, without).hex())
    (folder / "rosters" / "3.yaml").write_bytes(without)
    admit(folder, sbl)
    assert dict(load_consortium(folder).rosters[4].sites) == {"sbl": 1}


def test_admitting_twice_makes_no_version(tmp_path: Path) -> None:
    folder, site = make_consortium(tmp_path), make_site(tmp_path, "nyu")
    admit(folder, site)
    before = contents(folder)
    assert "nothing changes: roster version 2" in admit(folder, site).said
    assert contents(folder) == before


def test_admitting_again_repairs_an_interrupted_step(tmp_path: Path) -> None:
    folder, site = make_consortium(tmp_path), make_site(tmp_path, "nyu")
    old = (folder / "consortium.yaml").read_bytes()
    admit(folder, site)
    whole = contents(folder)
    (folder / "consortium.yaml").write_bytes(old)
    admit(folder, site)
    assert contents(folder) == whole


def test_a_site_renews_its_names_under_its_key(tmp_path: Path) -> None:
    folder, site = make_consortium(tmp_path), make_site(tmp_path, "nyu")
    admit(folder, site)
    renewed = tmp_path / "renewed.yaml"
    who = ("--id", "nyu", "--role", "site", "--name", "New name", "--organisation", "Hospital")
    ok("key", "request", site / "identity.key", *who, "--out", renewed)
    ok("coordinator", "admit", folder, renewed)
    held = load_consortium(folder)
    assert held.newest.identities[-1].name == "New name"
    assert held.rosters[3].identities["nyu"] == held.rosters[2].identities["nyu"]


def test_a_new_key_follows_an_old_one_only_after_its_revocation(tmp_path: Path) -> None:
    folder, site = make_consortium(tmp_path), make_site(tmp_path, "nyu")
    admit(folder, site, make_site(tmp_path, "sbl"))
    new = request(tmp_path, "fresh", "site", "nyu")
    for options in ((), ("--replace",)):
        assert "has another key in roster version 2" in refused("coordinator", "admit", folder, new, *options)
    ok("coordinator", "revoke", folder, "nyu", "--reason", "lost laptop")
    assert "has another key" in refused("coordinator", "admit", folder, new)
    ok("coordinator", "admit", folder, new, "--replace")
    held = load_consortium(folder)
    assert dict(held.rosters[3].sites) == {"nyu": 0, "sbl": 1}
    assert held.deny.entry_for(held.rosters[2].identities["nyu"]) is not None
    assert held.deny.entry_for(held.rosters[3].identities["nyu"]) is None
    # the old key never comes back
    old = site / "request.yaml"
    assert "this key is revoked" in refused("coordinator", "admit", folder, old, "--replace")


def test_a_role_is_given_by_the_operator_and_not_by_the_request(tmp_path: Path) -> None:
    folder = make_consortium(tmp_path)
    asked = request(tmp_path, "stat1", "statistician")
    assert "asks to be statistician" in refused("coordinator", "admit", folder, asked)
    ok("coordinator", "admit", folder, asked, "--role", "statistician")
    for role in ("checker", "auditor", "trustee"):
        ok("coordinator", "admit", folder, request(tmp_path, f"{role}1", role), "--role", role)
    roster = load_consortium(folder).rosters[5]
    assert [identity.id for identity in roster.of_role(Role.STATISTICIAN)] == ["stat1"]
    assert not roster.sites


def test_one_bad_request_keeps_the_others_out(tmp_path: Path) -> None:
    folder, site = make_consortium(tmp_path), make_site(tmp_path, "nyu")
    bad = tmp_path / "bad.yaml"
    bad.write_text((site / "request.yaml").read_text().replace("nyu", "sbl"))
    before = contents(folder)
    assert "bad.yaml: its signature" in refused("coordinator", "admit", folder, site / "request.yaml", bad)
    assert contents(folder) == before


def test_clashing_requests_are_refused(tmp_path: Path) -> None:
    folder, site = make_consortium(tmp_path), make_site(tmp_path, "nyu")
    twin, other_id = request(tmp_path, "twin", "site", "nyu"), tmp_path / "other.yaml"
    who = ("--id", "sbl", "--role", "site", "--name", "N", "--organisation", "O")
    ok("key", "request", site / "identity.key", *who, "--out", other_id)
    assert "two requests have one id" in refused("coordinator", "admit", folder, site / "request.yaml", twin)
    assert "'nyu' has this key already" in refused(
        "coordinator", "admit", folder, site / "request.yaml", other_id
    )
    hub = request(tmp_path, "hub2", "coordinator")
    assert "exactly one coordinator" in refused("coordinator", "admit", folder, hub, "--role", "coordinator")
    same_id = request(tmp_path, "nyu-stat", "statistician", "nyu")
    admit(folder, site)
    assert "a role needs an id of its own" in refused(
        "coordinator", "admit", folder, same_id, "--role", "statistician"
    )


def test_revocations_are_numbered_and_each_list_holds_the_earlier_ones(tmp_path: Path) -> None:
    folder = make_consortium(tmp_path)
    admit(folder, *(make_site(tmp_path, name) for name in ("nyu", "sbl")))
    rosters = contents(folder / "rosters")
    ok("coordinator", "revoke", folder, "nyu", "--reason", "lost laptop")
    first = contents(folder / "denials")
    ok("coordinator", "revoke", folder, "sbl", "--reason", "left")
    deny = load_consortium(folder).deny
    assert (deny.serial, [entry.id for entry in deny.denied]) == (2, ["nyu", "sbl"])
    assert first.items() <= contents(folder / "denials").items()
    assert contents(folder / "rosters") == rosters
    assert "was revoked on" in refused("coordinator", "revoke", folder, "nyu", "--reason", "again")
    assert "is not in roster version" in refused("coordinator", "revoke", folder, "who", "--reason", "x")
    assert "reason" in refused("coordinator", "revoke", folder, "coordinator", "--reason", "two\nlines")


@pytest.mark.parametrize("name", ["rosters/2.yaml", "rosters/2.sig", "rosters/1.yaml", "denials/1.yaml"])
def test_a_tampered_file_is_named(tmp_path: Path, name: str) -> None:
    folder = make_consortium(tmp_path)
    admit(folder, make_site(tmp_path, "nyu"))
    ok("coordinator", "revoke", folder, "nyu", "--reason", "lost")
    path = folder / name
    text = path.read_text()
    path.write_text(text.replace("imaging", "imagine") if name.endswith("yaml") else "00" * 64)
    source = name.replace(".sig", ".yaml")
    assert f"{source}: not as the operator signed it" in refused("coordinator", "roster", folder)


@pytest.mark.parametrize(("home", "what"), [("rosters", "holds version 1"), ("denials", "holds serial 1")])
def test_a_signed_file_under_another_number_is_refused(tmp_path: Path, home: str, what: str) -> None:
    """The operator's own older file in the place of the newest would undo an admission or a revocation."""
    folder = make_consortium(tmp_path)
    admit(folder, make_site(tmp_path, "nyu"))
    for site in ("nyu", "coordinator"):
        ok("coordinator", "revoke", folder, site, "--reason", "lost")
    for end in ("yaml", "sig"):
        shutil.copy(folder / home / f"1.{end}", folder / home / f"2.{end}")
    assert f"{home}/2.yaml: {what}" in refused("coordinator", "roster", folder)


def test_another_operator_key_signs_nothing(tmp_path: Path) -> None:
    folder, site = make_consortium(tmp_path), make_site(tmp_path, "nyu")
    (folder / "operator.key").unlink()
    ok("key", "new", folder / "operator.key")
    assert "not the key that signed this consortium" in refused(
        "coordinator", "admit", folder, site / "request.yaml"
    )
    assert load_consortium(folder).version == 1


def test_the_roster_screen_shows_who_what_and_the_words(tmp_path: Path) -> None:
    folder = make_consortium(tmp_path)
    admit(folder, make_site(tmp_path, "nyu"))
    ok("coordinator", "revoke", folder, "nyu", "--reason", "lost")
    svg = tmp_path / "words.svg"
    screen = ok("coordinator", "roster", folder, "--qr", "--svg", svg)
    for text in (
        "imaging, roster version 2",
        "nyu",
        "coordinator",
        "Hospital",
        "revoked 20",
        "serial 1",
        "█",
    ):
        assert text in screen.out
    assert svg.read_bytes().startswith(b"<?xml")
    older = ok("coordinator", "roster", folder, "--version", "1")
    assert "nyu" not in older.out
    assert words_in(older) != words_in(screen)
    assert "no roster version 9" in refused("coordinator", "roster", folder, "--version", "9")


def test_a_folder_that_is_none_is_refused_without_a_traceback(tmp_path: Path) -> None:
    assert "operator.pub: cannot be read" in refused("coordinator", "roster", tmp_path / "nowhere")
    assert run("coordinator", "roster").code == 2
