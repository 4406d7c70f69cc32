"""Make the bundle: everything that a machine without a network needs to install cohortsum, and to check what it installs.

    python -m deploy.bundle.build --out dist

builds the project's wheel, downloads the wheel of every dependency in the version that ``requirements-dev.lock`` names, and
writes beside them ``requirements.txt`` with one SHA-256 per wheel, the bill of materials, ``platform.txt``, the installer, units
for systemd, documents, and ``SHA256SUMS`` over all of it; then the same as one ``.tar.gz``.

pip compares each download with the digest that the index states; from then on our own digests hold. They protect against
damage and against a swapped wheel. Against somebody who swaps the whole bundle only the digest of the archive protects, got
on another way: it is printed at the end. Nothing in the bundle depends on when or where it was made except through
``SOURCE_DATE_EPOCH``; the one thing that is not pinned is the version of hatchling, which stands in our wheel.

On Linux wheels are chosen for glibc 2.28 and newer (RHEL 8, Debian 10, Ubuntu 20.04), whatever the building machine has.
"""

import argparse
import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.bundle.sbom import bill_of_materials
from deploy.bundle.wheels import BundleError, Wheel, normalised, read_wheels, sha256_of

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PRODUCT = "cohortsum"
OLDEST_GLIBC = 28
"""Minor version of glibc 2 that wheels may ask for at most."""


def main() -> int:
    """Make the bundle as the command line says, and return the exit code."""
    parser = argparse.ArgumentParser(description="Make an offline bundle of cohortsum.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the bundle goes")
    arguments = parser.parse_args()
    try:
        archive = make_bundle(arguments.out, source_date(os.environ))
    except BundleError as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 2
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")
    print(f"sha256 {sha256_of(archive)}")
    return 0


def make_bundle(out: Path, made_at: int) -> Path:
    """Write folder and archive below ``out`` and return the archive; an older bundle of this version is replaced.

    Args:
        out: a folder; made if need be.
        made_at: time of every file in the archive, seconds since 1970, UTC.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=out) as scratch:
        place = Path(scratch) / "bundle"
        wheels = collect(place / "wheels", Path(scratch) / "built", made_at)
        check_locked(wheels, locked_versions((ROOT / "requirements-dev.lock").read_text(encoding="utf-8")))
        copy_companions(place)
        write_lists(place, wheels, made_at)
        version = next(wheel.version for wheel in wheels if wheel.name == PRODUCT)
        folder = out / f"{PRODUCT}-{version}-bundle"
        shutil.rmtree(folder, ignore_errors=True)
        place.rename(folder)
    return pack(folder, made_at)


def source_date(environment: Mapping[str, str]) -> int:
    """Return ``SOURCE_DATE_EPOCH``; raises BundleError where it is not set to whole seconds."""
    text = environment.get("SOURCE_DATE_EPOCH", "")
    if not re.fullmatch(r"[0-9]{1,12}", text):
        raise BundleError(
            "SOURCE_DATE_EPOCH: expected seconds since 1970; `make bundle` takes the last commit's"
        )
    return int(text)


def collect(wheels: Path, built: Path, made_at: int) -> list[Wheel]:
    """Build our wheel, download the others, and return them all."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "wheel", "--no-deps", "--wheel-dir", str(built), str(ROOT)], made_at)
    own = [str(path) for path in built.glob("*.whl")]
    lock = ["--constraint", str(ROOT / "requirements-dev.lock")]
    _run(
        [*pip, "download", "--only-binary", ":all:", *platforms(), *lock, "--dest", str(wheels), *own],
        made_at,
    )
    return read_wheels(wheels)


def platforms() -> list[str]:
    """Return pip's options for wheels that run on older Linux too; none where there is no glibc."""
    name, version = platform.libc_ver()
    if name != "glibc":
        return []
    newest = min(OLDEST_GLIBC, int(version.split(".")[1]))
    machine = platform.machine()
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, 16, -1)]
    return [word for tag in [*tags, f"manylinux2014_{machine}"] for word in ("--platform", tag)]


def locked_versions(text: str) -> dict[str, str]:
    """Return version by normalised name from lines ``name==version``."""
    pairs = (line.split("==") for line in text.splitlines() if "==" in line)
    return {normalised(name.strip()): version.strip() for name, version in pairs}


def check_locked(wheels: Sequence[Wheel], locked: Mapping[str, str]) -> None:
    """Raise BundleError if a dependency is not in exactly the version that was tested."""
    for wheel in wheels:
        if wheel.name != PRODUCT and locked.get(wheel.name) != wheel.version:
            expected = locked.get(wheel.name, "none")
            raise BundleError(
                f"{wheel.name} {wheel.version}: requirements-dev.lock has {expected}; bring the lock up to date"
            )


def copy_companions(place: Path) -> None:
    """Put installer, units, documents and licence beside the wheels."""
    shutil.copy(HERE / "install.sh", place / "install.sh")
    shutil.copytree(ROOT / "deploy" / "systemd", place / "systemd")
    for folder in ("docs", "examples"):
        shutil.copytree(ROOT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, place / name)


def write_lists(place: Path, wheels: Sequence[Wheel], made_at: int) -> None:
    """Write everything that is derived from the wheels, the sums last because they cover the rest."""
    (place / "requirements.txt").write_text(requirements(wheels), encoding="utf-8")
    (place / "sbom.cdx.json").write_text(bill_of_materials(wheels, PRODUCT, made_at), encoding="utf-8")
    (place / "platform.txt").write_text(platform_facts(wheels), encoding="utf-8")
    (place / "SHA256SUMS").write_text(sums(place), encoding="utf-8")


def requirements(wheels: Sequence[Wheel]) -> str:
    """Return one line per wheel that pins version and digest."""
    return "".join(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in wheels)


def platform_facts(wheels: Sequence[Wheel]) -> str:
    """Return what the installer compares: Python's version, system, machine and, on Linux, the oldest glibc."""
    lines = [
        f"python {sys.version_info.major}.{sys.version_info.minor}",
        f"system {platform.system()}",
        f"machine {platform.machine()}",
    ]
    oldest = max((wheel.glibc for wheel in wheels), default=0)
    lines += [f"glibc 2.{oldest}"] if oldest else []
    return "\n".join(lines) + "\n"


def sums(place: Path) -> str:
    """Return lines for ``sha256sum --check`` over every file below ``place`` except SHA256SUMS, by name."""
    files = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    return "".join(f"{sha256_of(place / name)}  {name}\n" for name in files if name != "SHA256SUMS")


def pack(folder: Path, made_at: int) -> Path:
    """Write ``FOLDER.tar.gz`` beside a folder and return it; names, order, rights, owners and times are fixed."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = made_at, 0, 0, "root", "root"
        entry.mode = 0o755 if entry.isdir() or entry.name.endswith(".sh") else 0o644
        return entry

    archive = folder.with_name(folder.name + ".tar.gz")
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=made_at) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.add(folder, folder.name, filter=plain)  # tarfile goes through folders by name
    return archive


def _run(command: list[str], made_at: int) -> None:
    """Run pip; raise BundleError if it fails, after its own words."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(made_at)}
    # this interpreter's own pip, with arguments made here
    if subprocess.run(command, env=environment, check=False).returncode:  # noqa: S603
        raise BundleError("pip failed; its message is above")


if __name__ == "__main__":
    sys.exit(main())
