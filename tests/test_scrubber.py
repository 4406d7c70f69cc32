"""What is written to a log, or to standard error, holds no id of a person, however it got there."""

import io
import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path

import numpy as np
import pytest
import structlog
from hypothesis import example, given
from hypothesis import strategies as st

from cohortsum.cli import main
from cohortsum.coordinator import serve as coordinator_serve
from cohortsum.crypto.errors import DataError
from cohortsum.crypto.scrubbing import ScrubbedText, scrub, scrub_text, scrubbed
from cohortsum.crypto.secret import SecretBytes
from cohortsum.node import serve as node_serve

LABELS = st.text("ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz0123456789", min_size=1, max_size=12)
NUMBERS = st.integers(10**6, 10**15).map(str)
IDS = st.one_of(
    LABELS.map(lambda label: f"sub-{label}"),
    st.integers(1, 9999).map(lambda number: f"sub-{number:04d}"),
    st.integers(1, 9999).map(lambda number: f"SUB_{number:03d}"),
    st.integers(1, 9999).map(lambda number: f"subject {number}"),
    st.integers(1, 9999).map(lambda number: f"patient-A{number}"),
    NUMBERS,
    NUMBERS.map(lambda number: f"NDARINV{number}"),
    NUMBERS.map(lambda number: f"00{number}"),
    st.from_regex(r"[0-9]{3}_S_[0-9]{4}", fullmatch=True),
    st.from_regex(r"[0-9]{3} [0-9]{3} [0-9]{4}", fullmatch=True),
    st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,8})?@[a-z]{1,8}\.(ac\.uk|org)", fullmatch=True),
    st.binary(min_size=8, max_size=32).map(bytes.hex),
)
KEYS = st.sampled_from(
    ["event", "reason", "sentence", "site", "study", "digest", "context", "head", "exception", "numbers", "x"]
)
BESIDE = st.sampled_from(["", " ", "/", ": ", "'", '"', "(", "=", ",", "\n", "\t"])


class Level(StrEnum):
    PERSON = "sub-001"


def wrap(identity: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    """Return values that hold an id somewhere: in text, paths, errors, keys, nested."""
    texts = st.tuples(BESIDE, identity, BESIDE).map(lambda pieces: f"site 'amc'{''.join(pieces)}")
    leaves = (
        texts
        | identity
        | identity.map(Path)
        | identity.map(ValueError)
        | identity.map(lambda one: one.encode())
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(identity | KEYS, inner, max_size=3)
            | inner.map(lambda value: OSError(2, "No such file", str(value)))
            | inner.map(lambda value: {"digest": [value]})
        ),
        max_leaves=4,
    )


def rendered(event: dict[str, object]) -> str:
    """Return an event as the daemons write it."""
    held = structlog.processors.format_exc_info(None, "info", dict(event))
    line = structlog.processors.JSONRenderer()(None, "info", scrub(None, "info", held))
    return str(line)


@given(st.data())
def test_a_planted_id_never_comes_out_of_any_field(data: st.DataObject) -> None:
    identity = data.draw(IDS)
    event = data.draw(st.dictionaries(KEYS, wrap(st.just(identity)), min_size=1, max_size=3))
    whole_digest = len(identity) >= 16 and any(letter in "abcdef" for letter in identity)
    if whole_digest and any(key in str(event) for key in ("digest", "context", "head")):
        return  # that is what these keys are for
    assert identity.lower() not in rendered(event).lower()


@given(st.integers(10**6, 10**18), KEYS)
def test_a_planted_number_never_comes_out_unless_it_counts_what_travels(number: int, key: str) -> None:
    for value in (number, -number, float(number), [number], {"x": number}, {number: 1}):
        if key != "numbers":
            assert str(number) not in rendered({key: value})
    assert json.loads(rendered({"numbers": number}))["numbers"] == number


@given(IDS)
def test_a_planted_id_never_comes_out_of_a_traceback(identity: str) -> None:
    try:
        try:
            raise ValueError(f"Could not convert '{identity}' to DOUBLE")
        except ValueError as error:
            raise KeyError(identity) from error
    except KeyError as error:
        line = rendered({"event": "study.failed", "exc_info": error})
    assert "test_scrubber.py" in line
    assert identity.lower() not in line.lower()


@pytest.mark.parametrize(
    "value",
    [
        np.arange(3),
        np.float64(48.73),
        np.int64(48),
        b"\x01secret",
        bytearray(b"secret"),
        memoryview(b"secret"),
        SecretBytes(b"secret", "mask seed"),
        object(),
        DataError,
        {"a": np.arange(3)},
        [(b"secret",)],
        ValueError(b"secret" * 9),
    ],
)
def test_arrays_bytes_and_secrets_are_named_and_not_shown(value: object) -> None:
    line = rendered({"event": "x", "value": value})
    if not isinstance(value, ValueError):
        assert "secret'" not in line
    assert "0, 1, 2" not in line
    assert "48" not in line
    assert "object at" not in line


@given(st.binary(min_size=16, max_size=64))
def test_a_seed_in_hex_never_comes_out(seed: bytes) -> None:
    for text in (seed.hex(), f"seed 0x{seed.hex()}", f"k{seed.hex()}", seed.hex().upper()):
        for key in ("seed", "event", "x"):
            assert seed.hex() not in rendered({key: text}).lower()


def test_public_digests_pass_under_their_keys_alone() -> None:
    digest = bytes(range(200, 232)).hex()
    event = {"context": digest[:16], "digest": digest, "nested": {"head": digest}, "other": digest}
    assert scrub(None, "info", event) == {**event, "other": "[hex]"}
    assert scrubbed("1234567890123456", "digest") == "[hex]"  # digits alone may be a person's


ORDINARY: list[dict[str, object]] = [
    {"event": "study.heard", "study": "asd-thickness", "version": 3, "fingerprint": "7KQ-M2X-0TA-9FD-W3C"},
    {"event": "round.open", "iteration": 1, "attempt": 2, "sites": 34, "numbers": 12_345_678},
    {"event": "coordinator.listening", "host": "127.0.0.1", "port": 54321},
    {"event": "line.down", "site": "amc", "status": "UNAVAILABLE", "next_try_s": 0.4},
    {
        "event": "study.enrolling",
        "closes": "2026-12-03T16:17:33.532369+00:00",
        "timestamp": "2026-11-30T16:17:33.5Z",
    },
    {
        "event": "round.refused",
        "check": "R2.4",
        "sender": "site3",
        "sentence": "R2.4: site 'amc' sent 3 shares for round 4",
    },
    {
        "event": "data.report",
        "line": "table data (people.csv), column lh_bankssts_thickness: people by level: control 16, case 16",
    },
    {
        "event": "study.stays_out",
        "reason": "fewer people of the cohort than min_participants_per_site 12; subset2, subscale",
    },
    {
        "event": "x",
        "none": None,
        "flag": True,
        "list": ["a", 1, 2.5],
        "sentence": "name the folder: sub-LABEL/sub-LABEL_sessions.tsv",
    },
]


@pytest.mark.parametrize("event", ORDINARY, ids=lambda event: str(event["event"]))
def test_ordinary_events_are_not_changed(event: dict[str, object]) -> None:
    assert scrub(None, "info", event) == event


def test_values_are_shown_by_their_type() -> None:
    assert scrubbed(date(2026, 11, 30)) == "2026-11-30"
    assert scrubbed(datetime(2026, 11, 30, tzinfo=UTC)) == "2026-11-30 00:00:00+00:00"
    assert scrubbed(Path("/data/sub-001/anat/T1w.nii.gz")) == "/data/[id]"
    assert scrubbed(Level.PERSON) == "[id]"
    assert scrubbed(SecretBytes(b"secret", "mask seed")) == "<mask seed, 6 secret bytes>"
    endless: list[object] = []
    endless.append(endless)
    assert "[nested]" in str(scrubbed(endless))


@given(st.text(max_size=300))
@example("sub-" * 60)
def test_scrubbing_twice_changes_nothing_more(text: str) -> None:
    once = scrub_text(text)
    assert scrub_text(once) == once


@given(IDS)
def test_a_planted_id_never_comes_out_of_standard_error(identity: str) -> None:
    under = io.StringIO()
    stream = ScrubbedText(under)
    print(f"UserWarning: cannot read /data/{identity}", file=stream, flush=True)
    handler = logging.StreamHandler(stream)
    handler.emit(logging.LogRecord("asyncio", 40, "x.py", 1, "Task failed: %r", (identity,), None))
    assert identity.lower() not in under.getvalue().lower()
    assert under.getvalue().count("\n") >= 2


PLANTED = "sub-0042 of jane.roe@hospital.org, NHS 943 476 5919"


@pytest.mark.parametrize(
    ("module", "run", "event"),
    [
        (node_serve, node_serve.run, "node.failed"),
        (coordinator_serve, coordinator_serve.run, "coordinator.failed"),
    ],
    ids=["node", "coordinator"],
)
def test_a_daemon_that_fails_shows_its_traceback_without_the_person(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: object,
    run: Callable[[Path], int],
    event: str,
) -> None:
    async def fail(*_: object) -> None:
        print(PLANTED, file=sys.stderr)
        logging.getLogger("asyncio").error("never retrieved: %s", PLANTED)
        raise ZeroDivisionError(PLANTED)

    monkeypatch.setattr(module, "_serve", fail)
    monkeypatch.setattr(coordinator_serve, "load_coordinator_config", str)
    try:
        assert run(tmp_path) == 1
    finally:
        structlog.reset_defaults()
    held = capsys.readouterr()
    line = json.loads(held.out)
    assert (line["event"], line["error"]) == (event, "ZeroDivisionError")
    assert "ZeroDivisionError: [id] of [e-mail], NHS [id]" in line["exception"]
    for part in ("0042", "jane", "5919"):
        assert part not in held.out
        assert part not in held.err
    assert "[e-mail]" in held.err


@pytest.mark.parametrize("debug", [False, True])
def test_a_command_that_fails_names_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], debug: bool
) -> None:
    for error, code in ((DataError(f"table data: {PLANTED}"), 2), (ZeroDivisionError(PLANTED), 1)):

        def fail(error: Exception = error, **_: object) -> None:
            raise error

        monkeypatch.setattr(main, "app", fail)
        monkeypatch.setenv("COHORTSUM_DEBUG", "1" if debug else "")
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert ended.value.code == code
        said = capsys.readouterr().err
        assert ("Traceback" in said) == (debug and code == 1)
        assert not [part for part in ("0042", "jane", "5919") if part in said]


def test_scrubbing_takes_time_in_proportion_to_the_text() -> None:
    began = time.process_time()
    for piece in ("a", "a.", "subject_", "1 ", "ab12", "sub-", "f", "@", "a@b."):
        scrub_text(piece * (100_000 // len(piece)))
    assert time.process_time() - began < 10
