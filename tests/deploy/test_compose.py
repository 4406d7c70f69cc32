"""Six containers, all of them confined, and sites that reach nothing but the coordinator."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SITES = [f"site{number}" for number in range(1, 6)]
Tree = dict[str, Any]


@pytest.fixture(scope="module")
def compose() -> Tree:
    return cast("Tree", yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8")))


def test_there_are_a_coordinator_and_five_sites(compose: Tree) -> None:
    assert list(compose["services"]) == ["coordinator", *SITES]


@pytest.mark.parametrize("name", ["coordinator", *SITES])
def test_every_container_is_confined(compose: Tree, name: str) -> None:
    service = compose["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] == "65532:65532"
    assert service["ulimits"] == {"core": 0}
    assert not {"privileged", "cap_add", "devices", "network_mode", "pid", "ipc"} & set(service)


@pytest.mark.parametrize("name", SITES)
def test_a_site_has_its_own_volume_its_own_data_and_one_way(compose: Tree, name: str) -> None:
    service = compose["services"][name]
    assert service["command"] == ["node", "run", "/var/lib/cohortsum/node"]
    assert service["volumes"] == [f"{name}:/var/lib/cohortsum/node", f"./data/{name}:/data:ro"]
    assert service["networks"] == [name]
    assert "ports" not in service
    assert compose["networks"][name] == {"internal": True}
    sharers = [other for other, held in compose["services"].items() if name in held["networks"]]
    assert sharers == ["coordinator", name]


def test_the_coordinator_is_asked_at_its_metrics_port_and_publishes_only_the_other(compose: Tree) -> None:
    service = compose["services"]["coordinator"]
    assert service["command"] == ["coordinator", "run", "/var/lib/cohortsum/coordinator"]
    assert "http://127.0.0.1:9464/metrics" in service["healthcheck"]["test"][-1]
    compile(service["healthcheck"]["test"][-1], "healthcheck", "exec")
    assert service["ports"] == ["127.0.0.1:8443:8443"]


def test_every_volume_and_network_is_declared(compose: Tree) -> None:
    services = compose["services"].values()
    mounted = {mount.split(":")[0] for service in services for mount in service["volumes"]}
    assert {name for name in mounted if not name.startswith(".")} == set(compose["volumes"])
    assert {name for service in services for name in service["networks"]} == set(compose["networks"])


def test_compose_itself_takes_the_file() -> None:
    docker = shutil.which("docker")
    asked = [docker or "", "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--format", "json"]
    probe = [docker or "", "compose", "version"]
    if docker is None or subprocess.run(probe, capture_output=True, check=False).returncode:  # noqa: S603
        pytest.skip("docker compose is not on this machine")
    done = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["services"]) == 6


def test_the_image_runs_without_root_and_installs_from_the_bundle_alone() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    steps = re.findall(r"(?m)^([A-Z]+) (.*)$", text)
    last = text[text.rindex("FROM ") :]
    assert [words for step, words in steps if step == "USER"] == ["65532:65532"]
    assert "USER 65532:65532" in last
    assert re.search(r"^ARG PYTHON=3\.\d+\.\d+-slim-\w+$", text, re.M)
    sources = [words.split()[0] for step, words in steps if step == "COPY" and "--from" not in words]
    assert sources == ["dist/cohortsum-*-bundle/"]
    assert not re.search(r"pip install|apt-get|curl|wget|ADD ", text)


def test_docker_is_sent_the_bundle_and_nothing_else() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "*", "!dist", "dist/*", "!dist/cohortsum-*-bundle",
    ]  # fmt: skip
