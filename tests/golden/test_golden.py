"""What every version stored and sent is read by today's program, and means what it meant."""

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select

from cohortsum.coordinator.audit_log import AUDIT
from cohortsum.coordinator.config import load_coordinator_config
from cohortsum.coordinator.hub import Hub, Place
from cohortsum.coordinator.record import StudyRecord
from cohortsum.coordinator.roll import RollBook
from cohortsum.coordinator.store import RoundRow, Store
from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.coordinator_states import Aborted, Opened
from cohortsum.protocol.messages import Envelope, Kind
from cohortsum.protocol.proof import Transcript, read_transcript
from cohortsum.protocol.witness import witnessed
from cohortsum.report.document import to_json
from cohortsum.study.definition import parse_canonical
from cohortsum.study.release.archive import unpack
from tests.admin import desk
from tests.golden import rounds
from tests.golden.reading import CONSORTIUM, columns_of, found_in, rows_of, sha
from tests.protocol.consortium import Consortium, identity_key

HERE = Path(__file__).parent

FROZEN = {
    "0.1.0": "1cf6e63e7e8967dd89f69146d4cbb91819b1cf25655f32635708fab407f4153e",
}
"""Digest of the files of every version. A release adds its own; nothing else changes here."""
VERSIONS = tuple(FROZEN)
BUNDLED = ("checked", "fewer", "noised", "odds", "open")
ROUNDS = ("fitted-1", "fitted-2", "fitted-3", "lost", "opened", "retried")


def tree_digest(folder: Path) -> str:
    """Return a digest of the names and bytes of every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{path.relative_to(folder).as_posix()} {sha(path.read_bytes())}\n" for path in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> Path:
    """The files of a version; nothing may write there."""
    return HERE / str(request.param)


@pytest.fixture
def home(version: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of them, as an upgrade finds them."""
    shutil.copytree(version, tmp_path / "home")
    yield tmp_path / "home"
    assert tree_digest(version) == FROZEN[version.name], "a test wrote into the golden files"


def found(version: Path) -> dict[str, dict[str, object]]:
    held: dict[str, dict[str, object]] = json.loads((version / "found.json").read_text())
    return held


def fingerprint(version: Path) -> str:
    """Return the words of the roster that every study of the story names."""
    proven: dict[str, dict[str, str]] = found(version)["coordinator"]["rounds"]  # type: ignore[assignment]
    (words,) = {one["fingerprint"] for one in proven.values()}
    return words


def test_golden_files_are_never_changed() -> None:
    held = {path.name for path in HERE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert held == set(FROZEN), "a version is added with `python -m tests.golden.make VERSION` and its digest"
    for name, digest in FROZEN.items():
        assert tree_digest(HERE / name) == digest, (
            f"the golden files of {name} are what that version wrote; databases out there do not change with them:"
            " get them back, and mend the program"
        )


def test_what_a_version_stored_is_found_as_it_was(version: Path, home: Path) -> None:
    assert json.loads(json.dumps(found_in(home))) == found(version)
    assert json.loads(json.dumps(found_in(home))) == found(version)  # and again, now that it was brought up


@pytest.mark.parametrize("name", ["consortium/coordinator.db", "site0/ledger.db", "site3/ledger.db"])
def test_no_row_of_a_database_changes_when_it_is_brought_up(version: Path, home: Path, name: str) -> None:
    """Column by column, as bytes; read without a line of the product."""
    columns = columns_of(home / name)
    columns.pop("alembic_version", None)
    before = rows_of(home / name, columns)
    assert sum(map(len, before.values())) > 20
    found_in(home)
    assert rows_of(home / name, columns) == before


@pytest.mark.parametrize("study", BUNDLED)
def test_a_bundle_still_verifies_and_holds_the_stored_result(version: Path, home: Path, study: str) -> None:
    folder = home / CONSORTIUM
    bundle = folder / "results" / study / "v1.bundle.zip"
    screen = desk.run("verify", bundle, "--roster-fingerprint", fingerprint(version))
    assert screen.code == 0, screen
    assert "everything in the bundle holds" in screen.said
    names: dict[str, str] = found(version)["coordinator"]["studies"]  # type: ignore[assignment]
    document = unpack(bundle.read_bytes(), "bundle")["result.json"]
    with closing(Store(load_coordinator_config(folder / "coordinator.yaml").store)) as store:
        assert store.result(names[f"{study}@1"]) == document
    assert (folder / "results" / study / "v1" / "result.json").read_bytes() == document


def test_a_coordinator_goes_on_with_what_a_version_left(version: Path, home: Path) -> None:
    """It lists the studies, and knows of every table where it stands and whose signature is missing."""
    folder = home / CONSORTIUM
    config = load_coordinator_config(folder / "coordinator.yaml")
    book = RollBook(config, folder)
    studies: dict[str, str] = found(version)["coordinator"]["studies"]  # type: ignore[assignment]
    with closing(Store(config.store, folder / AUDIT)) as store, ThreadPoolExecutor(1) as pool:
        assert store.audit().fault is None
        hub = Hub(lambda: book.roll, identity_key("hub"), Place(store, config.spool, config.results, pool))
        assert sorted(f"{entry.name}@{entry.version}" for entry in hub.entries()) == sorted(studies)
        for study in BUNDLED:
            digest = bytes.fromhex(studies[f"{study}@1"])
            standing = hub.review.standing(digest)
            assert to_json(standing.document) == store.result(digest.hex())
        waiting = hub.review.standing(bytes.fromhex(studies["checked@1"])).item("thickness")
        assert (waiting.item.state.value, waiting.item.signatures) == ("queue", ())


def test_an_attempt_that_the_first_version_left_open_is_over(tmp_path: Path) -> None:
    """That version kept no inputs of an attempt: without them it must not go on, and what it named still binds the next."""
    shutil.copytree(HERE / "0.1.0" / CONSORTIUM, tmp_path / CONSORTIUM)
    config = load_coordinator_config(tmp_path / CONSORTIUM / "coordinator.yaml")
    with closing(sqlite3.connect(tmp_path / CONSORTIUM / "coordinator.db")) as connection, connection:
        (canonical,) = connection.execute("SELECT canonical FROM studies WHERE name = 'open'").fetchone()
        study = parse_canonical(canonical)
        connection.execute(
            "UPDATE rounds SET state = 'open', ended = NULL WHERE study = ?", (study.digest.hex(),)
        )
    book = RollBook(config, tmp_path / CONSORTIUM)
    with closing(Store(config.store, tmp_path / CONSORTIUM / AUDIT)) as store:
        record = StudyRecord(store, study, book.roll.whole(study.roster))
        assert record.open_attempt(1) is None
        assert record.attempts(1) == (1, ("site0", "site1", "site2", "site3"))
        with store.transaction() as session:
            states = session.scalars(select(RoundRow.state).where(RoundRow.study == study.digest.hex())).all()
        assert states == ["aborted"]
        assert store.audit().fault is None


@pytest.fixture(scope="module")
def today() -> dict[str, list[rounds.Call]]:
    """The rounds as today's program plays them."""
    return rounds.tapes()


def tape(version: Path, name: str) -> list[rounds.Call]:
    return rounds.read((version / "rounds" / f"{name}.jsonl").read_bytes())


def test_every_round_is_there(version: Path) -> None:
    assert sorted(path.stem for path in (version / "rounds").iterdir()) == sorted(ROUNDS)


@pytest.mark.parametrize("name", ROUNDS)
def test_a_round_is_played_byte_for_byte_as_then(
    version: Path, today: dict[str, list[rounds.Call]], name: str
) -> None:
    """Both sides, every envelope as sent and every masked word: old and new parties may sit in one round."""
    then = tape(version, name)
    assert len(then) == len(today[name])
    for place, (old, new) in enumerate(zip(then, today[name], strict=True)):
        assert json.loads(json.dumps(new)) == old, (name, place, old["at"], old["call"])


def consortium_of(name: str) -> Consortium:
    """Return the machines of a round, nothing received yet."""
    match name:
        case "opened":
            return rounds.opened()
        case "lost":
            return rounds.lost()
        case _:
            return rounds.retried((0, 1, 2, 3))


def answered(call: Callable[..., rounds.Effects], given: Iterable[object]) -> tuple[str, rounds.Effects]:
    """Return the check that refused a call, or nothing, and what it did."""
    try:
        return "", call(*given)
    except RemoteProtocolError as error:
        return error.check, ()


@pytest.mark.parametrize("name", ["opened", "lost", "retried"])
def test_every_party_takes_what_it_was_sent_then_and_answers_the_same(version: Path, name: str) -> None:
    """One party of today among peers of then: it is given their bytes, whatever today's peers would send."""
    calls = tape(version, name)
    for party in sorted({call["at"] for call in calls}):
        consortium = consortium_of(name)
        machine = consortium.coordinator if party == rounds.HUB else consortium.machines[int(party[4:])]
        for call in calls:
            if call["at"] == party:
                given = [
                    read(one) for read, one in zip(rounds.GIVEN[call["call"]], call["given"], strict=True)
                ]
                check, effects = answered(getattr(machine, call["call"]), given)
                assert check == call.get("refused", "")
                held = [text for effect in effects if (text := rounds.gave(effect)) is not None]
                assert held == call.get("gave", [])
        state = consortium.coordinator.state
        if party == rounds.HUB and name == "lost":
            assert isinstance(state, Aborted)
            assert state.survivors == (0, 1, 2, 3)
        elif party == rounds.HUB:
            assert isinstance(state, Opened)
            assert state.survivors == {"opened": (0, 1, 2, 4), "retried": (0, 1, 2, 3)}[name]
            assert state.values.tolist() == consortium.expected(state.survivors)


def test_a_transcript_of_then_proves_what_it_proved(version: Path) -> None:
    consortium, calls = rounds.opened(), tape(version, "opened")
    survivors = (0, 1, 2, 4)

    def of(kind: Kind) -> tuple[Envelope, ...]:
        return tuple(packet.envelope for _, packet in sorted(rounds.packets(calls, kind).items()))

    opening = next(call for call in calls if call["call"] == "open")["gave"][0][2]
    transcript = Transcript(
        rounds.GIVEN["receive"][0](opening).envelope,  # type: ignore[attr-defined]
        of(Kind.ADVERT),
        of(Kind.SHARES),
        of(Kind.MASKED),
        survivors,
        of(Kind.CONSISTENCY),
    )
    seen = witnessed(transcript, consortium.plan, consortium.roster)
    assert (seen.survivors, seen.signers, sorted(seen.delivered)) == (survivors, survivors, [0, 1, 2, 3, 4])
    for index in survivors:
        own = read_transcript(transcript, index, consortium.plan, consortium.roster)
        assert (own.survivors, own.context, own.h1, own.h2) == (survivors, seen.context, seen.h1, seen.h2)


def test_a_masked_word_of_then_is_the_value_and_its_masks(version: Path) -> None:
    """The tapes are no empty ones: every vector that was uploaded is masked, and their sum opened to the values."""
    calls = tape(version, "opened")
    consortium = rounds.opened()
    words = {
        int(call["at"][4:]): np.frombuffer(bytes.fromhex(one[2]), dtype="<u8")
        for call in calls
        for one in call.get("gave", ())
        if one[0] == "send" and one[2]
    }
    assert sorted(words) == [0, 1, 2, 3, 4]
    (combined,) = [call["given"][0] for call in calls if call["call"] == "combined"]
    total = np.frombuffer(bytes.fromhex(combined), dtype="<u8").astype(np.int64)
    assert total.tolist() == consortium.expected((0, 1, 2, 4))
    for index, held in words.items():
        assert not np.any(held.astype(np.int64) == consortium.values(index, len(held)))
