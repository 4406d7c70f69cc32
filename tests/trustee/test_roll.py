"""Who counts at a trustee: what its folder holds, while it runs."""

import os
from pathlib import Path

import pytest

from cohortsum.crypto.errors import AuthenticationError, ConfigurationError, RefusedError
from cohortsum.protocol.denylist import DENY_LIST, DenyList
from cohortsum.protocol.roster import ROSTER
from cohortsum.study.definition.deny import write_deny_list
from cohortsum.trustee.pinning import deny, pin
from cohortsum.trustee.roll import RollBook, load_roll
from tests.edges.harness import HUB, STATISTICIAN, roster_yaml
from tests.protocol.consortium import identity_key
from tests.trustee.world import SITES, TRUSTEE, guest, roll, settled

OPERATOR = identity_key("operator")


def write(folder: Path, home: str, number: int, text: bytes, signature: bytes) -> None:
    (folder / home).mkdir(exist_ok=True)
    (folder / home / f"{number}.sig").write_text(signature.hex())
    (folder / home / f"{number}.yaml").write_bytes(text)


def newer(consortium: str = "loopback", version: int = 2, guests: int = 1) -> bytes:
    lines = [guest(TRUSTEE, "trustee"), *(guest(f"guest{number}", "auditor") for number in range(guests))]
    text = roster_yaml(SITES, lines).replace(b"roster: 1", b"roster: %d" % version, 1)
    return text.replace(b"consortium: loopback", f"consortium: {consortium}".encode(), 1)


def denied(name: str, serial: int = 1) -> bytes:
    held = roll(name).deny
    return write_deny_list(DenyList(held.consortium, serial, held.denied))


def test_a_roster_and_a_deny_list_are_taken_up_while_it_runs(tmp_path: Path) -> None:
    folder = settled(tmp_path / "trustee")
    book = RollBook(folder, OPERATOR.public)
    first = book.roll
    assert book.roll is first
    with pytest.raises(RefusedError, match=r"roster version 2.*it has 1.*cohortsum trustee pin"):
        first.whole(2)
    write(folder, "rosters", 2, newer(), OPERATOR.sign(ROSTER, newer()))
    assert book.roll.newest == 2
    assert book.roll.whole(1).version == 1
    text = denied(STATISTICIAN)
    write(folder, "denials", 1, text, OPERATOR.sign(DENY_LIST, text))
    assert STATISTICIAN not in book.roll.now.identities
    assert STATISTICIAN in book.roll.whole(2).identities
    text = denied(HUB, 2)
    write(folder, "denials", 2, text, OPERATOR.sign(DENY_LIST, text))
    with pytest.raises(AuthenticationError, match="'hub' is denied"):
        book.roll.counted(2)


def test_files_that_the_operator_did_not_sign_leave_the_last_good_state(tmp_path: Path) -> None:
    folder = settled(tmp_path / "trustee")
    book = RollBook(folder, OPERATOR.public)
    first = book.roll
    write(folder, "rosters", 2, newer(), identity_key("stranger").sign(ROSTER, newer()))
    assert book.roll is first
    with pytest.raises(AuthenticationError, match=r"rosters/2\.yaml: not as the operator signed it"):
        load_roll(folder, OPERATOR.public)
    write(folder, "rosters", 2, newer(), OPERATOR.sign(ROSTER, newer()))
    os.utime(folder / "rosters" / "2.yaml", ns=(1, 1))
    assert book.roll.newest == 2


def test_a_step_that_does_not_follow_is_refused(tmp_path: Path) -> None:
    folder = settled(tmp_path / "trustee")
    other = newer("another")
    with pytest.raises(ConfigurationError, match="a trustee serves one"):
        pin(folder, OPERATOR.public, other, OPERATOR.sign(ROSTER, other))
    forked = newer(version=1)
    with pytest.raises(ConfigurationError, match="another roster than the one pinned as version 1"):
        pin(folder, OPERATOR.public, forked, OPERATOR.sign(ROSTER, forked))
    text = denied(STATISTICIAN, 3)
    _, files = deny(folder, OPERATOR.public, text, OPERATOR.sign(DENY_LIST, text))
    assert list(files) == ["denials/3.sig", "denials/3.yaml"]
    write(folder, "denials", 3, text, OPERATOR.sign(DENY_LIST, text))
    for undone in (denied(HUB, 4), denied(STATISTICIAN, 2)):
        with pytest.raises(ConfigurationError, match="serial"):
            deny(folder, OPERATOR.public, undone, OPERATOR.sign(DENY_LIST, undone))
