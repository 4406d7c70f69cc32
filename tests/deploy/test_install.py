"""The installer installs a good bundle without a network, and refuses everything else before or without leaving anything behind."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.bundle.build import sums
from tests.deploy.wheelwright import facts, make_small_bundle

SH = shutil.which("sh")
pytestmark = pytest.mark.skipif(SH is None or os.name != "posix", reason="the installer is for POSIX shells")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return make_small_bundle(tmp_path / "bundle")


def install(bundle: Path, target: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    assert SH is not None
    command = [SH, str(bundle / "install.sh"), str(target), python]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


def refused(bundle: Path, target: Path, words: str, python: str = sys.executable) -> None:
    """Assert that nothing is installed, with exit code 2 and these words."""
    done = install(bundle, target, python)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr
    assert not target.exists()


def reseal(bundle: Path) -> None:
    """Write sums that fit what lies there, as somebody would who changes a bundle on its way."""
    (bundle / "SHA256SUMS").write_text(sums(bundle), encoding="utf-8")


def test_a_bundle_becomes_an_environment_whose_command_runs(bundle: Path, tmp_path: Path) -> None:
    target = tmp_path / "env"
    done = install(bundle, target)
    assert done.returncode == 0, done.stderr
    assert f"cohortsum 0.0.1 is installed in {target}" in done.stdout
    assert f"Next: {target}/bin/cohortsum demo" in done.stdout
    assert (target / "bin" / "cohortsum").exists()
    assert "exists already" in install(bundle, target).stderr


def test_a_tampered_wheel_is_refused(bundle: Path, tmp_path: Path) -> None:
    wheel = bundle / "wheels" / "tiny-1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    refused(bundle, tmp_path / "env", "wheels/tiny-1.0-py3-none-any.whl: FAILED")


def test_a_missing_file_is_refused(bundle: Path, tmp_path: Path) -> None:
    (bundle / "requirements.txt").unlink()
    refused(bundle, tmp_path / "env", "files differ from SHA256SUMS")


def test_a_wheel_swapped_together_with_its_sum_is_refused_by_pip(bundle: Path, tmp_path: Path) -> None:
    wheel = bundle / "wheels" / "tiny-1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    reseal(bundle)
    refused(bundle, tmp_path / "env", "DO NOT MATCH THE HASHES")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"python": "3.1"}, "this bundle is for cpython 3.1"),
        ({"system": "Plan9"}, "this bundle is for Plan9"),
        ({"machine": "vax"}, "this bundle is for vax"),
        ({"glibc": "2.999"}, "this bundle needs glibc 2.999 or newer"),
    ],
)
def test_another_platform_is_refused(
    changed: dict[str, str], words: str, bundle: Path, tmp_path: Path
) -> None:
    if "glibc" in changed and not sys.platform.startswith("linux"):
        pytest.skip("glibc is compared on Linux")
    (bundle / "platform.txt").write_text(facts(**changed), encoding="utf-8")
    reseal(bundle)
    refused(bundle, tmp_path / "env", words)


def test_an_interpreter_that_does_not_run_is_refused(bundle: Path, tmp_path: Path) -> None:
    refused(bundle, tmp_path / "env", "does not run", python="no-such-python")


def test_a_call_without_a_target_is_refused(bundle: Path) -> None:
    assert SH is not None
    done = subprocess.run(  # noqa: S603
        [SH, str(bundle / "install.sh")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "usage: sh install.sh TARGET [PYTHON]" in done.stderr
