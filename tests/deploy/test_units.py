"""The systemd units are valid, confine what they start, and say the same about all daemons."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
SYSTEM = ["cohortsum-coordinator.service", "cohortsum-node.service", "cohortsum-trustee.service"]
USER = "cohortsum-node.user.service"
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not on this machine")


def settings(name: str) -> dict[str, list[str]]:
    """Return the values of each directive of a unit, in their order."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"(\w+)=(.*)", line):
            found.setdefault(match[1], []).append(match[2])
    return found


def analyze(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze on a unit whose program is one that every machine has."""
    assert ANALYZE is not None
    unit = folder / "cohortsum-test.service"
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", text), encoding="utf-8")
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "SYSTEMD_COLORS": "0"}
    return subprocess.run(  # noqa: S603 (a program of this machine, words from this file)
        [ANALYZE, *words, str(unit)], env=environment, capture_output=True, text=True, check=False
    )


@needs_systemd
@pytest.mark.parametrize("name", [*SYSTEM, USER])
def test_systemd_takes_the_unit_without_a_word(name: str, tmp_path: Path) -> None:
    text = (UNITS / name).read_text(encoding="utf-8")
    scope = ["--user"] if name == USER else []
    done = analyze(tmp_path, text, *scope, "verify", "--man=no")
    assert (done.returncode, done.stderr) == (0, "")
    misspelt = text.replace("NoNewPrivileges=", "NoNewPrivilege=")
    assert "NoNewPrivilege" in analyze(tmp_path, misspelt, *scope, "verify", "--man=no").stderr


@needs_systemd
@pytest.mark.parametrize("name", SYSTEM)
def test_exposure_stays_low(name: str, tmp_path: Path) -> None:
    text = (UNITS / name).read_text(encoding="utf-8")
    judge = ["security", "--offline=true", "--no-pager", "--threshold=15"]
    done = analyze(tmp_path, text, *judge)
    assert done.returncode == 0, done.stdout
    open_wide = re.sub(r"(?m)^(Protect|Private|SystemCallFilter|CapabilityBoundingSet).*\n", "", text)
    assert analyze(tmp_path, open_wide, *judge).returncode != 0


@pytest.mark.parametrize(
    ("name", "daemon"), [(SYSTEM[0], "coordinator"), (SYSTEM[1], "node"), (SYSTEM[2], "trustee")]
)
def test_a_service_writes_its_own_folder_and_runs_under_its_own_account(name: str, daemon: str) -> None:
    unit = settings(name)
    place = f"/var/lib/cohortsum/{daemon}"
    assert unit["ExecStart"] == [f"/opt/cohortsum/current/bin/cohortsum {daemon} run {place}"]
    assert unit["ReadWritePaths"] == [place]
    assert unit["StateDirectory"] == [f"cohortsum/{daemon}"]
    assert unit["StateDirectoryMode"] == ["0700"]
    assert unit["User"] == unit["Group"] == [f"cohortsum-{daemon}"]
    accounts = (UNITS / "cohortsum.sysusers").read_text(encoding="utf-8")
    assert re.search(rf"^u cohortsum-{daemon} ", accounts, re.M)


def test_figures_of_the_coordinator_find_a_place_for_fonts() -> None:
    unit = settings(SYSTEM[0])
    assert unit["Environment"] == [f"MPLCONFIGDIR=/var/cache/{unit['CacheDirectory'][0]}"]


@pytest.mark.parametrize("name", [*SYSTEM, USER])
def test_bad_settings_are_not_tried_again(name: str) -> None:
    unit = settings(name)
    assert unit["Restart"] == ["on-failure"]
    assert unit["RestartPreventExitStatus"] == ["2"]


def test_all_services_are_confined_alike() -> None:
    own = {
        "Description", "ExecStart", "User", "Group", "StateDirectory", "ReadWritePaths", "RestartSec",
        "EnvironmentFile", "StartLimitIntervalSec", "SocketBindDeny",
        "Environment", "CacheDirectory", "CacheDirectoryMode", "LimitNOFILE", "MemorySwapMax",
    }  # fmt: skip
    coordinator, node, trustee = (
        {k: v for k, v in settings(name).items() if k not in own} for name in SYSTEM
    )
    assert len(node) > 25
    assert coordinator == node == trustee
