"""The node as a process: what a scheduler reads from its exit code, and an admin from its last line."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog

from cohortsum.crypto.errors import AuthenticationError, CohortsumError, LineError, StoreError
from cohortsum.node import serve


@pytest.fixture(autouse=True)
def logging_as_before() -> Generator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LineError("the coordinator does not answer"), 4),
        (StoreError("the ledger refuses a write"), 2),
        (AuthenticationError("not genuine"), 2),
    ],
)
def test_only_a_line_that_stays_down_is_worth_another_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: CohortsumError,
    code: int,
) -> None:
    async def stopped(_folder: Path, _patience_s: float, _once: bool) -> None:
        raise error

    monkeypatch.setattr(serve, "_serve", stopped)
    assert serve.run(tmp_path) == code
    line = json.loads(capsys.readouterr().out)
    assert (line["event"], line["error"], line["sentence"]) == (
        "node.stopped",
        type(error).__name__,
        error.message,
    )


def test_a_folder_without_settings_is_named_before_anything_is_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve.run(tmp_path) == 2
    assert "node.yaml: cannot be read" in json.loads(capsys.readouterr().out)["sentence"]
