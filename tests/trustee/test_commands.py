"""The trustee's commands as its admin types them, and the daemon as a process."""

import asyncio
import json
import os
import re
import signal
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cohortsum.crypto.certificates import TLS13_ONLY
from cohortsum.crypto.errors import ConfigurationError, LineError, RefusedError
from cohortsum.protocol.messages import Packet
from cohortsum.protocol.roster import Role
from cohortsum.trustee.config import TrusteeConfig, load_trustee_config
from cohortsum.trustee.roll import load_roll
from tests.admin.desk import contents, make_consortium, ok, refused, run, words_in
from tests.protocol.consortium import protection
from tests.trustee.edge import client, handshake
from tests.trustee.world import SITES, Office, Played, round_of, settled


def made(home: Path, consortium: Path) -> Path:
    folder = home / "trustee"
    ok(
        *("trustee", "init", folder, "--id", "keyholder", "--listen", "127.0.0.1:0"),
        *("--operator", consortium / "operator.pub", "--organisation", "Key Office"),
    )
    return folder


def admitted(home: Path) -> tuple[Path, Path]:
    """Return the operator's folder and that of a trustee that has pinned the roster it is in."""
    consortium = make_consortium(home)
    folder = made(home, consortium)
    ok("coordinator", "admit", consortium, folder / "request.yaml", "--role", "trustee")
    pinned(consortium, folder)
    return consortium, folder


def pinned(consortium: Path, folder: Path) -> str:
    screen = ok("trustee", "pin", folder, consortium / "consortium.yaml", consortium / "consortium.sig")
    assert words_in(screen) == words_in(ok("coordinator", "roster", consortium))
    return screen.said


def test_a_new_trustee_has_a_private_key_settings_and_a_request(tmp_path: Path) -> None:
    folder = made(tmp_path, make_consortium(tmp_path))
    assert stat.S_IMODE((folder / "identity.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    held = yaml.safe_load((folder / "trustee.yaml").read_text())
    assert held.keys() <= TrusteeConfig.model_fields.keys()
    config = load_trustee_config(folder)
    assert (config.identity, config.keys, config.keep_h, config.numbers) == ("keyholder", 64, 168, 4_000_000)
    shown = re.findall(r"^# (\w+):", (folder / "trustee.yaml").read_text(), re.M)
    assert set(shown) <= TrusteeConfig.model_fields.keys()


@pytest.mark.parametrize(
    ("option", "value"),
    [("--id", "a b"), ("--listen", "443"), ("--organisation", " x"), ("--operator", "ff")],
)
def test_a_trustee_that_cannot_be_leaves_no_key_behind(tmp_path: Path, option: str, value: str) -> None:
    consortium, folder = make_consortium(tmp_path), tmp_path / "trustee"
    options = {
        "--id": "keyholder",
        "--listen": "127.0.0.1:1",
        "--operator": str(consortium / "operator.pub"),
        "--organisation": "Office",
        option: value,
    }
    assert refused("trustee", "init", folder, *(word for pair in options.items() for word in pair))
    assert not folder.exists() or contents(folder) == {}


def test_the_operator_admits_a_trustee_and_it_pins_the_roster_it_is_in(tmp_path: Path) -> None:
    consortium, folder = admitted(tmp_path)
    held = load_roll(folder, bytes.fromhex(load_trustee_config(folder).operator_key))
    assert [entry.id for entry in held.now.of_role(Role.TRUSTEE)] == ["keyholder"]
    before = contents(folder)
    pinned(consortium, folder)
    assert contents(folder) == before
    screen = run("trustee", "status", folder)
    assert screen.code == 0
    assert "version 2; deny-list serial 0" in screen.out


def test_a_trustee_that_is_not_in_the_roster_is_told(tmp_path: Path) -> None:
    consortium = make_consortium(tmp_path)
    folder = made(tmp_path, consortium)
    assert "not yet: 'keyholder' is no trustee of roster version 1" in pinned(consortium, folder)
    assert run("trustee", "status", folder).code == 1
    assert "no roster is pinned" in refused("trustee", "status", made(tmp_path / "other", consortium))


def test_a_roster_of_another_operator_is_not_pinned(tmp_path: Path) -> None:
    _, folder = admitted(tmp_path)
    (tmp_path / "else").mkdir()
    other, before = make_consortium(tmp_path / "else"), contents(folder)
    files = (other / "consortium.yaml", other / "consortium.sig")
    assert "not as the operator signed it" in refused("trustee", "pin", folder, *files)
    assert contents(folder) == before


def test_a_revoked_trustee_is_told(tmp_path: Path) -> None:
    consortium, folder = admitted(tmp_path)
    ok("coordinator", "revoke", consortium, "keyholder", "--reason", "stolen")
    files = (consortium / "deny.yaml", consortium / "deny.sig")
    assert "keyholder" in ok("trustee", "deny", folder, *files).out
    screen = run("trustee", "status", folder, "--json")
    assert screen.code == 1
    assert "is denied" in json.loads(screen.out)["notes"][0]


def test_status_shows_what_was_decrypted_and_the_log_can_be_verified(tmp_path: Path) -> None:
    _, folder = admitted(tmp_path)
    office, played = Office(folder), round_of()
    office.offer(played)
    office.unlock(played)
    office.ledger.close()
    held = json.loads(run("trustee", "status", folder, "--json").out)["decryptions"]
    assert [row["survivors"] for row in held] == [list(played.survivors)]
    assert held[0]["context"] == played.context.hex()
    assert played.context.hex()[:8] in run("trustee", "status", folder).out
    assert "hold together" in run("trustee", "audit", "verify", folder).out
    assert "sum decrypted" in run("trustee", "audit", "show", folder, "--json").out
    log = folder / "audit.jsonl"
    log.write_bytes(log.read_bytes().replace(b"key offered", b"key_offered"))
    assert run("trustee", "audit", "verify", folder).code == 2
    assert run("trustee", "status", folder).code == 1
    assert run("trustee", "audit", "renew", folder).code == 0
    assert run("trustee", "audit", "verify", folder).code == 0


def daemon(folder: Path, **environment: str) -> "subprocess.Popen[str]":
    """Start the trustee as its admin does: nothing of this process's environment says how TLS is spoken."""
    held = {name: value for name, value in os.environ.items() if name != TLS13_ONLY[0]}
    return subprocess.Popen(  # noqa: S603  # this program
        [sys.executable, "-m", "cohortsum.cli.main", "trustee", "run", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**held, **environment},
    )


def listening(process: "subprocess.Popen[str]") -> int:
    """Return the port, once the trustee listens."""
    assert process.stdout is not None
    for line in process.stdout:
        held = json.loads(line)
        if held["event"] == "trustee.listening":
            return int(held["port"])
    raise AssertionError("it ended before it listened")


def test_the_daemon_serves_until_it_is_told_and_a_second_one_over_the_same_folder_does_not(
    tmp_path: Path,
) -> None:
    folder = settled(tmp_path / "trustee")
    with daemon(folder) as process:
        port = listening(process)
        assert asyncio.run(handshake(tmp_path, port, ssl.TLSVersion.TLSv1_3)) == "TLSv1.3"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            asyncio.run(handshake(tmp_path, port, ssl.TLSVersion.TLSv1_2))
        with daemon(folder) as second:
            assert second.stdout is not None
            assert "no other trustee runs here" in second.stdout.read()
            assert second.wait(timeout=60) == 2
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert "asked to" in process.stdout.read()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("identity:", "identify:", "identity: Field required"),
        ('listen: "127.0.0.1:0"', "listen: nowhere", "listen"),
        ("# keys: 64", "keys: 0", "keys"),
        ("# keep_h: 168", "keep_h: -1", "keep_h"),
    ],
)
def test_settings_that_do_not_hold_are_named(tmp_path: Path, before: str, after: str, why: str) -> None:
    folder = made(tmp_path, make_consortium(tmp_path))
    file = folder / "trustee.yaml"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    with pytest.raises(ConfigurationError, match=rf"^trustee\.yaml: .*{why}"):
        load_trustee_config(folder)


def test_a_trustee_that_is_killed_before_it_answers_remembers_what_it_decrypted(tmp_path: Path) -> None:
    folder = settled(tmp_path / "trustee")
    played = Played(SITES, protection(), seed="killed")
    asked = (played.by_statistician, played.opening)

    async def offered(port: int) -> Packet:
        return await client(port).offer(*asked, 60.0)

    async def unlocked(port: int) -> None:
        sums = (played.ciphertexts(), played.length)
        await client(port).unlock(played.by_statistician, played.request, *sums, 1.0)

    with daemon(folder, COHORTSUM_FAILPOINT="trustee.unlock.recorded") as process:
        port = listening(process)
        played.play(asyncio.run(offered(port)))
        with pytest.raises(LineError):
            asyncio.run(unlocked(port))
        assert process.wait(timeout=60) == -signal.SIGKILL
    with daemon(folder) as process:
        port = listening(process)
        with pytest.raises(RefusedError, match="K3: a sum was decrypted in this attempt already"):
            asyncio.run(unlocked(port))
        with pytest.raises(RefusedError, match="a sum was decrypted in this attempt already"):
            asyncio.run(offered(port))
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        process.stdout.read()
        assert process.wait(timeout=60) == 0
    held = json.loads(run("trustee", "status", folder, "--json").out)
    assert [row["survivors"] for row in held["decryptions"]] == [list(played.survivors)]
    assert held["notes"] == []


def test_no_command_imports_grpc_before_it_is_said_that_tls_1_2_is_not_spoken() -> None:
    program = (
        "import os, sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'grpc': print(os.environ.get({TLS13_ONLY[0]!r}))\n"
        "sys.meta_path.insert(0, Watch())\n"
        "import cohortsum.cli.main\n"
    )
    held = {name: value for name, value in os.environ.items() if name != TLS13_ONLY[0]}
    done = subprocess.run(  # noqa: S603  # this program
        [sys.executable, "-c", program], env=held, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [TLS13_ONLY[1]]
