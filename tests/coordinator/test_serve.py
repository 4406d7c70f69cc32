"""The coordinator as a process ends when it is told to, also while its one study still waits for people."""

import signal
import subprocess
import sys
from pathlib import Path

from cohortsum.cli.simulate.consortium import found, write_coordinator_file
from tests.edges.harness import signed_study


def test_a_coordinator_of_one_study_ends_when_told_and_leaves_no_result(tmp_path: Path) -> None:
    study, _ = signed_study()
    tables = {f"site{index}": tmp_path / f"{index}.csv" for index in range(3)}
    consortium = found(study, tables, "open_data", None, tmp_path / "made")
    settings = write_coordinator_file(consortium, tmp_path / "results", gather_s=30.0)
    command = [sys.executable, "-m", "cohortsum.coordinator.serve", str(settings)]
    with subprocess.Popen(  # noqa: S603
        [*command, "--study", str(settings.with_name("study.json"))], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any("study.enrolling" in line for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(timeout=30) == 3
    assert '"reason": "asked to"' in rest
    assert not (tmp_path / "results").exists()
