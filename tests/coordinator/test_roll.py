"""Who counts now: the folder as the operator's commands leave it, or half of it, while the coordinator runs."""

import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cohortsum.coordinator.config import load_coordinator_config
from cohortsum.coordinator.roll import RollBook
from cohortsum.crypto.errors import AuthenticationError, ConfigurationError
from tests.admin import desk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A consortium with site0 in roster version 2; site1 and site2 have asked."""
    folder = desk.make_consortium(tmp_path)
    for name in ("site0", "site1", "site2"):
        desk.make_site(tmp_path, name)
    desk.admit(folder, tmp_path / "site0")
    return folder


def opened(folder: Path) -> RollBook:
    return RollBook(load_coordinator_config(folder / "coordinator.yaml"), folder)


def sites(book: RollBook) -> set[str]:
    return set(map(str, book.roll.now.sites))


def admitted_elsewhere(folder: Path, *names: str) -> Path:
    """Return a copy of the consortium with more sites, as another machine would make it."""
    other = folder.with_name("elsewhere")
    if not other.exists():
        shutil.copytree(folder, other)
    for name in names:
        desk.admit(other, folder.parent / name)
    return other


def arrive(other: Path, folder: Path, *names: str) -> None:
    for name in names:
        shutil.copy(other / name, folder / name)


def test_a_roster_that_is_admitted_counts_without_a_restart(folder: Path) -> None:
    book = opened(folder)
    assert sites(book) == {"site0"}
    desk.admit(folder, folder.parent / "site1")
    assert sites(book) == {"site0", "site1"}
    assert set(map(str, book.roll.whole(2).sites)) == {"site0"}  # studies name earlier versions


def test_a_revocation_counts_without_a_restart(folder: Path) -> None:
    book = opened(folder)
    desk.ok("coordinator", "revoke", folder, "site0", "--reason", "stolen")
    assert sites(book) == set()
    assert set(map(str, book.roll.whole(2).sites)) == {"site0"}
    assert not book.roll.counted(2).sites


def test_as_long_as_nothing_changes_the_roll_is_the_same(folder: Path) -> None:
    book = opened(folder)
    assert book.roll is book.roll


@pytest.mark.parametrize(
    ("cut", "more"),
    [(0, b"identities: ["), (-20, b""), (None, b"# a word more\n"), (0, b"\xff")],
    ids=["not YAML", "cut", "another signature", "not UTF-8"],
)
def test_a_broken_roster_leaves_the_last_good_roll_and_is_reported_once(
    folder: Path, cut: int | None, more: bytes
) -> None:
    book, other = opened(folder), admitted_elsewhere(folder, "site1")
    before = book.roll
    path = other / "rosters" / "3.yaml"
    path.write_bytes(path.read_bytes()[:cut] + more)
    arrive(other, folder, "rosters/3.sig", "rosters/3.yaml")
    with capture_logs() as logs:
        assert book.roll is before
        assert book.roll is before
    assert [(line["event"], line["log_level"]) for line in logs] == [("roll.unreadable", "error")]
    assert "3.yaml" in str(logs[0]["sentence"])
    assert sites(book) == {"site0"}


def test_after_a_broken_roster_the_next_whole_folder_counts(folder: Path) -> None:
    book, other = opened(folder), admitted_elsewhere(folder, "site1", "site2")
    (folder / "rosters" / "3.yaml").write_text("identities: [")
    arrive(other, folder, "rosters/3.sig")
    assert sites(book) == {"site0"}
    arrive(other, folder, "rosters/3.yaml", "rosters/4.sig", "rosters/4.yaml")
    assert sites(book) == {"site0", "site1", "site2"}


def test_a_signature_that_arrives_after_its_roster_is_picked_up(folder: Path) -> None:
    book, other = opened(folder), admitted_elsewhere(folder, "site1")
    arrive(other, folder, "rosters/3.yaml")
    with capture_logs() as logs:
        assert sites(book) == {"site0"}
    assert [line["event"] for line in logs] == ["roll.unreadable"]
    arrive(other, folder, "rosters/3.sig")
    with capture_logs() as logs:
        assert sites(book) == {"site0", "site1"}
    assert [(line["event"], line["roster"]) for line in logs] == [("roll.read", 3)]


def test_a_folder_that_is_broken_at_the_start_is_refused(folder: Path) -> None:
    (folder / "rosters" / "2.sig").write_text("00" * 64)
    with pytest.raises(AuthenticationError, match=r"rosters/2\.yaml"):
        opened(folder)


def test_without_a_series_the_one_file_of_the_settings_counts(folder: Path) -> None:
    shutil.rmtree(folder / "rosters")
    book = opened(folder)
    assert sites(book) == {"site0"}
    assert set(book.roll.rosters) == {2}
    assert book.roll.deny.serial == 0


def test_a_version_that_is_not_here_is_named_with_those_that_are(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"roster version 7.*it has 1, 2"):
        opened(folder).roll.whole(7)
