"""The admin guide is typed in as it stands, in its order, and every command works."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from cohortsum.node.doctor_line import LINE_CHECKS
from cohortsum.node.pinning import load_pin
from tests.admin.desk import TABLE, run

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "admin-guide.md"
MAIL = (
    "site/request.yaml",
    *(
        f"consortium/{name}"
        for name in ("consortium.yaml", "consortium.sig", "operator.pub", "deny.yaml", "deny.sig")
    ),
)


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]


def test_the_guide_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    typed = commands()
    assert len(typed) > 12
    for command in typed:
        if command[:2] == ["node", "doctor"]:
            command.append("--offline")  # no coordinator runs here
        screen = run(*command)
        assert screen.code == 0, (command, screen)
        if command[:2] == ["node", "init"]:
            (tmp_path / "site" / "people.csv").write_text(TABLE)
        for name in MAIL:  # what people send one another lies in the folder they work in
            if (tmp_path / name).exists():
                shutil.copy(tmp_path / name, tmp_path)
    shutil.copy(tmp_path / "new.key", tmp_path / "site" / "identity.key")
    screen = run("node", "pin", "site", "consortium.yaml", "consortium.sig")
    assert "nyu has another key" in screen.out
    assert run("node", "doctor", "site", "--offline").code == 0
    assert load_pin(tmp_path / "site").deny.serial == 1


def test_the_guide_lists_every_check_of_the_doctor() -> None:
    listed = set(re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\| (`[^|]+) \|", GUIDE.read_text(), re.M))))
    here = {"files", "folder", "rights", "key", "pin", "copies", "roster", "deny-list"}
    here |= {"policy", "tables", "mapping", "snapshot", "disk"}
    assert here | set(LINE_CHECKS) <= listed
