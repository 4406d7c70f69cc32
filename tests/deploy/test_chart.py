"""The chart and its values fit together; where helm is there, it renders, and what it renders is confined.

Without helm nothing is rendered: then only names are compared.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "cohortsum-coordinator"
TEMPLATES = sorted((CHART / "templates").iterdir())
HELM = shutil.which("helm")
Tree = dict[str, Any]


def tree(name: str) -> Tree:
    return cast("Tree", yaml.safe_load((CHART / name).read_text(encoding="utf-8")))


def used() -> set[str]:
    """Return every path below ``.Values`` that a template names."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in TEMPLATES)
    return set(re.findall(r"\.Values\.([A-Za-z0-9_.]+)", text))


def paths(values: Tree, above: str = "") -> Iterator[tuple[str, object]]:
    """Yield every key of values.yaml with what it holds, also those that hold others."""
    for key, value in values.items():
        yield above + key, value
        if isinstance(value, dict):
            yield from paths(cast("Tree", value), f"{above}{key}.")


def render(*options: str) -> list[Tree]:
    if HELM is None:
        pytest.skip("helm is not on this machine: templates are not rendered")
    done = subprocess.run(  # noqa: S603 (a program of this machine, words from this file)
        [HELM, "template", "hub", str(CHART), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [cast("Tree", part) for part in yaml.safe_load_all(done.stdout) if part]


def test_the_chart_is_of_this_version() -> None:
    chart = tree("Chart.yaml")
    assert chart["apiVersion"] == "v2"
    assert chart["name"] == CHART.name
    project = (CHART.parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{chart["appVersion"]}"\n' in project


def test_every_value_used_is_there_and_every_value_there_is_used() -> None:
    names, known = used(), dict(paths(tree("values.yaml")))
    assert len(names) > 20
    assert names - set(known) == set()
    leaves = {name for name, value in known.items() if not isinstance(value, dict) or not value}
    reached = {leaf for leaf in leaves if any(leaf == name or leaf.startswith(f"{name}.") for name in names)}
    assert leaves - reached == set()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_block_of_a_template_is_closed(path: Path) -> None:
    words = re.findall(r"\{\{-?\s*(if|with|range|define|end)\b", path.read_text(encoding="utf-8"))
    assert words.count("end") == len(words) - words.count("end")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_helper_that_is_included_is_defined(path: Path) -> None:
    helpers = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    for name in re.findall(r'include "([^"]+)"', path.read_text(encoding="utf-8")):
        assert f'define "{name}"' in helpers


def test_no_key_comes_with_the_chart() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in TEMPLATES)
    assert "kind: Secret" not in text
    assert "operator.key" not in text


def test_the_pod_is_confined_and_is_asked_at_its_metrics_port() -> None:
    parts = render()
    (pod,) = [part["spec"]["template"]["spec"] for part in parts if part["kind"] == "StatefulSet"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/metrics", "port": "metrics"}
    (policy,) = [part["spec"] for part in parts if part["kind"] == "NetworkPolicy"]
    assert policy["egress"] == []
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": "grpc"}]}]


def test_every_option_renders() -> None:
    kinds = [
        part["kind"]
        for part in render(
            "--set", "serviceMonitor.enabled=true,serviceMonitor.labels.release=prometheus",
            "--set", "image.digest=sha256:ab,persistence.storageClass=fast,podAnnotations.a=b,nodeSelector.a=b",
            "--set-json", 'networkPolicy={"metrics":[{"podSelector":{}}],"sites":[{"ipBlock":{"cidr":"192.0.2.0/24"}}]}',
            "--set-json", 'extraVolumes=[{"name":"x","emptyDir":{}}]',
            "--set-json", 'extraVolumeMounts=[{"name":"x","mountPath":"/x"}]',
        )
    ]  # fmt: skip
    assert sorted(kinds) == [
        "NetworkPolicy", "PersistentVolumeClaim", "Service", "Service", "ServiceMonitor", "StatefulSet",
    ]  # fmt: skip
