"""coordinator.yaml: paths relative to the file, unknown keys refused, every fault named without its value."""

from pathlib import Path

import pytest

from cohortsum.coordinator.config import load_coordinator_config
from cohortsum.coordinator.store import Store
from cohortsum.crypto.errors import ConfigurationError

GOOD = f"""
roster: consortium.yaml
roster_signature: consortium.sig
operator_key: "{"ab" * 32}"
identity: hub
identity_key: keys/hub.identity
listen: 127.0.0.1:0
store: sqlite:///hub.db
spool: spool
results: /srv/results
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "coordinator.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_coordinator_config(written(folder, text))
    return caught.value.message


def test_paths_are_relative_to_the_file_and_absolute_ones_stay(tmp_path: Path) -> None:
    config = load_coordinator_config(written(tmp_path, GOOD))
    assert config.roster == tmp_path / "consortium.yaml"
    assert config.roster_signature == tmp_path / "consortium.sig"
    assert config.identity_key == tmp_path / "keys" / "hub.identity"
    assert config.spool == tmp_path / "spool"
    assert config.results == Path("/srv/results")


def test_waits_are_the_study_s_unless_they_are_set(tmp_path: Path) -> None:
    config = load_coordinator_config(written(tmp_path, GOOD))
    assert (config.enrol_s, config.gather_s, config.step_max_s, config.grace_s) == (None, None, None, 5.0)
    config = load_coordinator_config(
        written(tmp_path, GOOD + "enrol_s: 9\ngather_s: 3\nstep_max_s: 0.5\ngrace_s: 0\n")
    )
    assert (config.enrol_s, config.gather_s, config.step_max_s, config.grace_s) == (9.0, 3.0, 0.5, 0.0)


@pytest.mark.parametrize("key", ["roster", "operator_key", "identity_key", "listen", "store", "results"])
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    text = "\n".join(line for line in GOOD.splitlines() if not line.startswith(f"{key}:"))
    assert f"coordinator.yaml: {key}: " in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("operator_key", "7351946canary"),
        ("operator_key", "AB" * 32),
        ("listen", "7351946canary"),
        ("listen", "127.0.0.1:port7351946canary"),
        ("gather_s", "0"),
        ("step_max_s", "-1"),
        ("grace_s", "-7351946"),
        ("gather_s", "7351946canary"),
        ("identity", "[7351946]"),
    ],
)
def test_a_bad_value_is_refused_by_key_and_not_repeated(tmp_path: Path, key: str, value: str) -> None:
    kept = [line for line in GOOD.splitlines() if not line.startswith(f"{key}:")]
    message = refusal(tmp_path, "\n".join([*kept, f"{key}: {value}"]))
    assert f"{key}: " in message
    assert "7351946" not in message


def test_an_unknown_key_is_named(tmp_path: Path) -> None:
    assert "listens" in refusal(tmp_path, GOOD + "listens: 127.0.0.1:1\n")


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    message = refusal(tmp_path, GOOD.replace("127.0.0.1:0", "here") + "grace_s: -1\nmore: 1\n")
    assert all(key in message for key in ("listen: ", "grace_s: ", "more: "))


@pytest.mark.parametrize("text", ["", "- a list\n", "a: b: c\n", "just words\n", "roster: [\n"])
def test_what_is_no_settings_file_is_refused(tmp_path: Path, text: str) -> None:
    assert refusal(tmp_path, text).startswith("coordinator.yaml:")


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "coordinator.yaml"
    path.write_bytes(GOOD.replace("hub", "h\u00fcb").encode("latin-1"))
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load_coordinator_config(path)


def test_a_file_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"coordinator\.yaml: cannot be read"):
        load_coordinator_config(tmp_path / "coordinator.yaml")


def test_metrics_and_notices_are_off_unless_they_are_set(tmp_path: Path) -> None:
    config = load_coordinator_config(written(tmp_path, GOOD))
    assert (config.metrics, config.notices) == (None, None)
    config = load_coordinator_config(written(tmp_path, GOOD + "metrics: 127.0.0.1:9464\n"))
    assert config.metrics == "127.0.0.1:9464"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metrics", "9464"),
        ("metrics", "localhost:metrics7351946"),
        ("metrics", "http://localhost:7351946"),
        ("metrics", "here there:7351"),
        ("enrol_s", "0"),
        ("enrol_s", "-7351946"),
        ("enrol_s", "soon7351946"),
    ],
)
def test_a_bad_address_or_window_is_refused_by_key_and_not_repeated(
    tmp_path: Path, key: str, value: str
) -> None:
    message = refusal(tmp_path, GOOD + f"{key}: {value}\n")
    assert message.startswith(f"coordinator.yaml: {key}: ")
    assert "7351946" not in message


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("sqlite:///hub.db", "sqlite:///{folder}/hub.db"),
        ("sqlite:///data/hub.db", "sqlite:///{folder}/data/hub.db"),
        ("sqlite:////srv/cohortsum/hub.db", "sqlite:////srv/cohortsum/hub.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("postgresql://hub@database/cohortsum", "postgresql://hub@database/cohortsum"),
    ],
)
def test_a_relative_database_lies_beside_the_settings_and_everything_else_stays(
    tmp_path: Path, given: str, meant: str
) -> None:
    config = load_coordinator_config(written(tmp_path, GOOD.replace("sqlite:///hub.db", f'"{given}"')))
    assert config.store == meant.format(folder=tmp_path)


def test_a_relative_database_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    config = load_coordinator_config(written(tmp_path, GOOD))
    monkeypatch.chdir(elsewhere)
    Store(config.store).close()
    assert (tmp_path / "hub.db").exists()
    assert list(elsewhere.iterdir()) == []
