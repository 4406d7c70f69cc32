"""One operating-system process per site, one for the coordinator and one for a trustee, talking gRPC with mutual TLS over loopback."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from cohortsum.cli.simulate.consortium import (
    TRUSTEE,
    Consortium,
    Local,
    write_coordinator_file,
    write_node_file,
)
from cohortsum.cli.simulate.progress import Event, Progress
from cohortsum.crypto.errors import RoundFailedError

GATHER_BASE_S = 60.0
GATHER_PER_SITE_S = 3.0
PATIENCE_S = 30.0


def run_processes(
    consortium: Consortium, results: Path, progress: Progress, failpoints: dict[str, str] | None = None
) -> str:
    """Run the study in processes and return the public reason if there is no result, else an empty text.

    Args:
        consortium: made by `found`.
        results: where the coordinator writes the release.
        progress: shows the coordinator's events.
        failpoints: by site or trustee, the point at which its process kills itself; for tests.

    Raises:
        RoundFailedError: the coordinator could not start, or died.
    """
    gather_s = GATHER_BASE_S + GATHER_PER_SITE_S * len(consortium.members)
    logs = consortium.folder / "logs"
    logs.mkdir()
    with contextlib.ExitStack() as stack:
        failing = failpoints or {}
        trustee = None
        if consortium.plan.round.encryption is not None:
            trustee = _trustee(consortium, logs, stack, failing)
        config = write_coordinator_file(consortium, results, gather_s, trustee)
        hub = subprocess.Popen(
            [
                *(sys.executable, "-m", "cohortsum.coordinator.serve", str(config)),
                *("--study", str(consortium.folder / "coordinator" / "study.json")),
            ],
            stdout=subprocess.PIPE,
            stderr=stack.enter_context((logs / "coordinator.stderr").open("wb")),
        )
        stack.callback(_stop, hub)
        if hub.stdout is None:
            raise AssertionError("the coordinator's output is a pipe")
        events = _events(hub.stdout, logs / "coordinator.jsonl")
        address = _address(events, "coordinator", logs)
        for member in consortium.members:
            write_node_file(consortium, member, address)
            node = subprocess.Popen(
                [
                    *(sys.executable, "-m", "cohortsum.node.serve", str(member.folder)),
                    *("--once", "--patience", str(PATIENCE_S)),
                ],
                stdout=stack.enter_context((logs / f"{member.site}.jsonl").open("wb")),
                stderr=stack.enter_context((logs / f"{member.site}.stderr").open("wb")),
                env=_environment(member.site, failing),
            )
            stack.callback(_stop, node)
        for event in events:
            progress.take(event)
            if event.get("event") == "study.ended":
                hub.wait(timeout=60)
                return "" if event["released"] or event["in_review"] else str(event["reason"])
        raise RoundFailedError(f"the coordinator stopped early; its log is {logs / 'coordinator.jsonl'}")


def local_reasons(consortium: Consortium) -> Local:
    """Return why sites stayed out or lack something, from their own logs: what only a simulation may show."""
    said = Local()
    for member in consortium.members:
        path = consortium.folder / "logs" / f"{member.site}.jsonl"
        for event in _lines(path.read_bytes() if path.exists() else b""):
            said.hear({"site": member.site, **event})
            if event.get("event") == "node.stopped":
                said.reasons.setdefault(member.site, str(event["sentence"]))
    return said


def _environment(name: str, failing: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **({"COHORTSUM_FAILPOINT": failing[name]} if name in failing else {})}


def _trustee(
    consortium: Consortium, logs: Path, stack: contextlib.ExitStack, failing: Mapping[str, str]
) -> str:
    """Start the trustee, and return its address; it ends with the stack."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cohortsum.trustee.serve", str(consortium.folder / "trustee")],
        stdout=stack.enter_context((logs / "trustee.jsonl").open("wb")),
        stderr=stack.enter_context((logs / "trustee.stderr").open("wb")),
        env=_environment(TRUSTEE, failing),
    )
    stack.callback(_stop, process)
    return _address(_followed(logs / "trustee.jsonl", process), "trustee", logs)


def _followed(path: Path, process: "subprocess.Popen[bytes]") -> Iterator[Event]:
    """Yield the events of a process that writes into a file, until it has ended."""
    seen = 0
    while True:
        ended = process.poll() is not None
        events = list(_lines(path.read_bytes()))
        yield from events[seen:]
        seen = len(events)
        if ended:
            return
        time.sleep(0.05)


def _address(events: Iterator[Event], who: str, logs: Path) -> str:
    for event in events:
        if event.get("event") == f"{who}.listening":
            return f"{event['host']}:{event['port']}"
        if event.get("event") == f"{who}.stopped":
            raise RoundFailedError(f"the {who} could not start: {event['sentence']}")
    raise RoundFailedError(f"the {who} could not start; see {logs / f'{who}.stderr'}")


def _events(stream: IO[bytes], copy: Path) -> Iterator[Event]:
    with copy.open("wb") as file:
        for line in stream:
            file.write(line)
            file.flush()
            yield from _lines(line)


def _lines(data: bytes) -> Iterator[Event]:
    for line in data.splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # a foreign library may write a line of its own
            event = json.loads(line)
            if isinstance(event, dict):
                yield event


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()
