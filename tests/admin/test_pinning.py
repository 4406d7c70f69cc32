"""What a site pins: the operator once, rosters that only grow, deny-lists that only grow. Tampering is named."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cohortsum.coordinator.admission import load_consortium
from cohortsum.crypto.errors import AuthenticationError, ConfigurationError
from cohortsum.crypto.fingerprint import phrase, roster_words
from cohortsum.node.files import read_key
from cohortsum.node.pinning import apply_deny_list, load_pin, pin
from cohortsum.protocol.denylist import DENY_LIST, Denied, DenyList
from cohortsum.protocol.roster import ROSTER
from cohortsum.study.definition.consortium import write_roster
from cohortsum.study.definition.deny import write_deny_list
from tests.admin.desk import admit, contents, make_consortium, make_site, ok, refused, words_in
from tests.admin.desk import pin as pin_by_command


@pytest.fixture
def town(tmp_path: Path) -> tuple[Path, Path]:
    """A consortium with one admitted site that has pinned nothing yet."""
    consortium, site = make_consortium(tmp_path), make_site(tmp_path, "nyu")
    admit(consortium, site)
    return consortium, site


def handed_over(consortium: Path, to: Path) -> Path:
    """Return a folder with what an operator sends."""
    to.mkdir()
    for name in ("consortium.yaml", "consortium.sig", "operator.pub"):
        shutil.copy(consortium / name, to / name)
    return to


def signed(consortium: Path, text: bytes) -> bytes:
    return read_key(consortium / "operator.key").sign(ROSTER, text)


def operator_of(consortium: Path) -> bytes:
    return load_consortium(consortium).operator


def test_words_shown_to_operator_and_site_are_the_same(town: tuple[Path, Path]) -> None:
    consortium, site = town
    pinned = pin_by_command(consortium, site)
    assert words_in(pinned) == words_in(ok("coordinator", "roster", consortium))
    held = load_pin(site)
    assert phrase(held.words) == phrase(roster_words(operator_of(consortium), held.newest.digest))
    assert (held.newest.version, held.deny.serial) == (2, 0)


def test_pinned_files_are_byte_for_byte_the_operators(town: tuple[Path, Path]) -> None:
    consortium, site = town
    pin_by_command(consortium, site)
    for name in ("consortium.yaml", "consortium.sig", "operator.pub", "rosters/2.yaml", "rosters/2.sig"):
        assert (site / name).read_bytes() == (consortium / name).read_bytes()


def test_the_words_read_by_phone_pin_operator_and_roster_at_once(
    town: tuple[Path, Path], tmp_path: Path
) -> None:
    consortium, site = town
    words = words_in(ok("coordinator", "roster", consortium))
    mail = handed_over(consortium, tmp_path / "mail")
    screen = ok("node", "pin", site, mail / "consortium.yaml", mail / "consortium.sig", "--words", words)
    assert "by phone" not in screen.said
    assert load_pin(site).operator == operator_of(consortium)


def test_files_of_an_impostor_do_not_pass_the_words(town: tuple[Path, Path], tmp_path: Path) -> None:
    consortium, site = town
    words = words_in(ok("coordinator", "roster", consortium))
    other = tmp_path / "other"
    other.mkdir()
    mail = handed_over(make_consortium(other), tmp_path / "mail")
    before = contents(site)
    sentence = refused(
        "node", "pin", site, mail / "consortium.yaml", mail / "consortium.sig", "--words", words
    )
    assert "the words do not fit" in sentence
    assert contents(site) == before


def test_without_operator_key_nothing_is_pinned(town: tuple[Path, Path]) -> None:
    consortium, site = town
    files = (consortium / "consortium.yaml", consortium / "consortium.sig")
    assert "no operator key is pinned yet" in refused("node", "pin", site, *files)
    assert not (site / "consortium.yaml").exists()


def test_the_operator_key_may_be_typed_and_a_wrong_one_is_refused(town: tuple[Path, Path]) -> None:
    consortium, site = town
    files = (consortium / "consortium.yaml", consortium / "consortium.sig")
    for key in ("ab" * 32, "ab" * 31, "no key"):
        assert "operator" in refused("node", "pin", site, *files, "--operator", key)
    ok("node", "pin", site, *files, "--operator", f"ed25519:{operator_of(consortium).hex()}")
    assert "another operator key" in refused("node", "pin", site, *files, "--operator", "ab" * 32)


@pytest.mark.parametrize("name", ["consortium.yaml", "consortium.sig"])
def test_a_tampered_roster_or_signature_is_refused(
    town: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    consortium, site = town
    mail = handed_over(consortium, tmp_path / "mail")
    text = (mail / name).read_text()
    flipped = "01"[text[0] == "0"] + text[1:]
    (mail / name).write_text(text.replace("Hospital", "Hospitel") if name.endswith("yaml") else flipped)
    sentence = refused(
        *("node", "pin", site, mail / "consortium.yaml", mail / "consortium.sig"),
        *("--operator", mail / "operator.pub"),
    )
    assert "consortium.yaml: not as the operator signed it" in sentence
    assert not (site / "rosters").exists()


def test_a_newer_roster_is_pinned_without_the_operator_key_and_its_changes_are_shown(
    town: tuple[Path, Path], tmp_path: Path
) -> None:
    consortium, site = town
    pin_by_command(consortium, site)
    admit(consortium, make_site(tmp_path, "sbl"))
    screen = ok("node", "pin", site, consortium / "consortium.yaml", consortium / "consortium.sig")
    assert "sbl is new, as site" in screen.out
    assert sorted(load_pin(site).rosters) == [2, 3]
    assert load_pin(site).of_version(2).digest == load_consortium(consortium).rosters[2].digest
    with pytest.raises(ConfigurationError, match=r"version 7 is not pinned here \(pinned: 2, 3\)"):
        load_pin(site).of_version(7)


def test_a_changed_key_is_shown(town: tuple[Path, Path], tmp_path: Path) -> None:
    consortium, site = town
    admit(consortium, make_site(tmp_path, "sbl"))
    pin_by_command(consortium, site)
    ok("coordinator", "revoke", consortium, "sbl", "--reason", "lost")
    key, request = tmp_path / "new.key", tmp_path / "new.yaml"
    ok("key", "new", key)
    who = ("--id", "sbl", "--role", "site", "--name", "N", "--organisation", "O")
    ok("key", "request", key, *who, "--out", request)
    ok("coordinator", "admit", consortium, request, "--replace")
    assert "sbl has another key" in pin_by_command(consortium, site).out


def test_an_older_roster_is_refused(town: tuple[Path, Path], tmp_path: Path) -> None:
    consortium, site = town
    old = handed_over(consortium, tmp_path / "old")
    admit(consortium, make_site(tmp_path, "sbl"))
    pin_by_command(consortium, site)
    before = contents(site)
    sentence = refused("node", "pin", site, old / "consortium.yaml", old / "consortium.sig")
    assert "version 2 is older than version 3" in sentence
    assert contents(site) == before


def test_a_second_roster_under_one_version_is_evidence_and_refused(town: tuple[Path, Path]) -> None:
    consortium, site = town
    pin_by_command(consortium, site)
    held = load_consortium(consortium)
    text = write_roster("imaging", 2, held.files[1].identities)
    with pytest.raises(ConfigurationError, match="another roster than the one pinned as version 2"):
        pin(site, text, signed(consortium, text), None)


def test_a_roster_of_another_consortium_or_at_anothers_index_is_refused(town: tuple[Path, Path]) -> None:
    consortium, site = town
    pin_by_command(consortium, site)
    coordinator, nyu = load_consortium(consortium).newest.identities
    renamed = write_roster("other", 3, (coordinator, nyu))
    with pytest.raises(ConfigurationError, match="it is for consortium other"):
        pin(site, renamed, signed(consortium, renamed), None)
    moved = write_roster("imaging", 3, (coordinator, nyu.model_copy(update={"id": "sbl"})))
    with pytest.raises(ConfigurationError, match="sbl has the index of another site"):
        pin(site, moved, signed(consortium, moved), None)


def test_an_interrupted_pin_leaves_the_old_state_and_is_repaired_by_the_next(
    town: tuple[Path, Path], tmp_path: Path
) -> None:
    consortium, site = town
    pin_by_command(consortium, site)
    admit(consortium, make_site(tmp_path, "sbl"))
    # power failed after the signature was written
    shutil.copy(consortium / "rosters" / "3.sig", site / "rosters" / "3.sig")
    assert load_pin(site).newest.version == 2
    # and again after the roster was
    shutil.copy(consortium / "rosters" / "3.yaml", site / "rosters" / "3.yaml")
    assert load_pin(site).newest.version == 3
    pin_by_command(consortium, site)
    assert (site / "consortium.yaml").read_bytes() == (consortium / "consortium.yaml").read_bytes()


@pytest.mark.parametrize("name", ["rosters/2.yaml", "rosters/2.sig", "denials/1.yaml", "denials/1.sig"])
def test_what_is_pinned_is_verified_again_whenever_it_is_read(town: tuple[Path, Path], name: str) -> None:
    consortium, site = town
    pin_by_command(consortium, site)
    ok("coordinator", "revoke", consortium, "coordinator", "--reason", "drill")
    ok("node", "deny", site, consortium / "deny.yaml", consortium / "deny.sig")
    data = (site / name).read_bytes()
    (site / name).write_bytes(data.replace(b"imaging", b"imagine") if name.endswith("yaml") else b"0" * 128)
    with pytest.raises(AuthenticationError, match=name.partition(".")[0]):
        load_pin(site)


def test_a_pinned_file_under_another_number_is_refused(town: tuple[Path, Path]) -> None:
    consortium, site = town
    pin_by_command(consortium, site)
    for suffix in ("yaml", "sig"):
        shutil.copy(site / "rosters" / f"2.{suffix}", site / "rosters" / f"9.{suffix}")
    with pytest.raises(ConfigurationError, match=r"rosters/9\.yaml: holds version 2"):
        load_pin(site)


def test_a_site_that_is_not_in_the_roster_hears_so_and_pins_all_the_same(tmp_path: Path) -> None:
    consortium, site = make_consortium(tmp_path), make_site(tmp_path, "nyu")
    screen = pin_by_command(consortium, site)
    assert "not yet: 'nyu' is no site of roster version 1" in screen.said


def test_a_deny_list_takes_effect_and_an_older_one_does_not(town: tuple[Path, Path], tmp_path: Path) -> None:
    consortium, site = town
    admit(consortium, make_site(tmp_path, "sbl"), make_site(tmp_path, "amc"))
    pin_by_command(consortium, site)
    ok("coordinator", "revoke", consortium, "sbl", "--reason", "lost")
    first = [(consortium / f"deny.{suffix}").read_bytes() for suffix in ("yaml", "sig")]
    ok("coordinator", "revoke", consortium, "amc", "--reason", "left")
    screen = ok("node", "deny", site, consortium / "deny.yaml", consortium / "deny.sig")
    assert "serial 2 is in force" in screen.said
    assert "sbl" in screen.out
    ok("node", "deny", site, consortium / "deny.yaml", consortium / "deny.sig")
    held = load_pin(site)
    assert {entry.id for entry in held.deny.denied} == {"sbl", "amc"}
    old, signature = tmp_path / "old.yaml", tmp_path / "old.sig"
    old.write_bytes(first[0])
    signature.write_bytes(first[1])
    before = contents(site)
    assert "serial 1, but serial 2 is held" in refused("node", "deny", site, old, signature)
    assert contents(site) == before


def test_a_deny_list_of_another_operator_or_tampered_with_is_refused(
    town: tuple[Path, Path], tmp_path: Path
) -> None:
    consortium, site = town
    pin_by_command(consortium, site)
    other = tmp_path / "other"
    other.mkdir()
    theirs = make_consortium(other)
    ok("coordinator", "revoke", theirs, "coordinator", "--reason", "x")
    why = "deny.yaml: not as the operator signed it"
    assert why in refused("node", "deny", site, theirs / "deny.yaml", theirs / "deny.sig")
    ok("coordinator", "revoke", consortium, "nyu", "--reason", "lost")
    text = (consortium / "deny.yaml").read_text()
    (consortium / "deny.yaml").write_text(text.replace("lost", "last"))
    assert why in refused("node", "deny", site, consortium / "deny.yaml", consortium / "deny.sig")
    assert load_pin(site).deny.serial == 0


def test_a_deny_list_for_another_consortium_is_refused_even_from_the_same_operator(
    town: tuple[Path, Path],
) -> None:
    consortium, site = town
    pin_by_command(consortium, site)
    held = load_consortium(consortium)
    nyu = held.rosters[2].identities["nyu"]
    entry = Denied("nyu", nyu.key, datetime.now(UTC), "x")
    text = write_deny_list(DenyList("other", 1, (entry,)))
    with pytest.raises(ConfigurationError, match="for consortium other"):
        apply_deny_list(site, text, read_key(consortium / "operator.key").sign(DENY_LIST, text))


def test_a_deny_list_without_a_pinned_roster_is_refused(town: tuple[Path, Path]) -> None:
    consortium, site = town
    ok("coordinator", "revoke", consortium, "nyu", "--reason", "lost")
    assert "no roster is pinned" in refused(
        "node", "deny", site, consortium / "deny.yaml", consortium / "deny.sig"
    )
