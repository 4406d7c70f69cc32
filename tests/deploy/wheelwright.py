"""Tiny wheels and bundles for tests: real files, a few hundred bytes."""

import platform
import sys
import zipfile
from pathlib import Path

from deploy.bundle.build import HERE, write_lists
from deploy.bundle.wheels import read_wheels

PROGRAM = 'def main() -> None:\n    print("cohortsum 0.0.1")\n'


def make_wheel(folder: Path, name: str, version: str, *fields: str, tags: str = "py3-none-any") -> Path:
    """Write a wheel with the given further metadata lines; ``cohortsum`` gets a module and its command."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-{tags}.whl"
    metadata = "\n".join(["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *fields, "", ""])
    held = {
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if name == "cohortsum":
        held["cohortsum_program.py"] = PROGRAM
        held[f"{info}/entry_points.txt"] = "[console_scripts]\ncohortsum = cohortsum_program:main\n"
    held[f"{info}/RECORD"] = "".join(f"{inside},,\n" for inside in [*held, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in held.items():
            archive.writestr(inside, text)
    return path


def make_small_bundle(place: Path) -> Path:
    """Write a bundle of two wheels for this machine, made by the same functions as the real one."""
    make_wheel(
        place / "wheels", "cohortsum", "0.0.1", "License-Expression: Apache-2.0", "Requires-Dist: tiny>=1"
    )
    make_wheel(place / "wheels", "tiny", "1.0", "License: MIT")
    (place / "install.sh").write_bytes((HERE / "install.sh").read_bytes())
    write_lists(place, read_wheels(place / "wheels"), 1_700_000_000)
    return place


def facts(**changed: str) -> str:
    """Return a platform.txt of this machine, with some facts changed."""
    held = {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "system": platform.system(),
        "machine": platform.machine(),
        **changed,
    }
    return "".join(f"{name} {value}\n" for name, value in held.items())
