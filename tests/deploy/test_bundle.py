"""What the bundle's lists say about its wheels, and that equal wheels give equal bytes."""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from deploy.bundle.build import (
    check_locked,
    locked_versions,
    pack,
    platform_facts,
    requirements,
    source_date,
    sums,
)
from deploy.bundle.sbom import bill_of_materials, purl
from deploy.bundle.wheels import BundleError, read_wheel, read_wheels
from tests.deploy.wheelwright import make_small_bundle, make_wheel

MIT = "License-Expression: MIT"
WHEN = 1_700_000_000  # 2023-11-14T22:13:20Z


def test_a_line_pins_version_and_digest_of_every_wheel(tmp_path: Path) -> None:
    first = make_wheel(tmp_path, "Typing_Extensions", "4.1", MIT)
    make_wheel(tmp_path, "abc", "2.0", MIT)
    lines = requirements(read_wheels(tmp_path)).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["abc==2.0", "typing-extensions==4.1"]
    assert lines[1].endswith(f" --hash=sha256:{hashlib.sha256(first.read_bytes()).hexdigest()}")


@pytest.mark.parametrize(
    ("fields", "text", "spdx"),
    [
        (["License-Expression: BSD-3-Clause AND MIT", "License: other"], "BSD-3-Clause AND MIT", True),
        (["License: MIT"], "MIT", True),
        (["License: 3-Clause BSD License"], "BSD-3-Clause", True),
        (["Classifier: License :: OSI Approved :: ISC License (ISCL)"], "ISC", True),
        (["Classifier: License :: OSI Approved :: BSD License"], "BSD License", False),
        (
            ["License: Copyright (c) 2001\n  and more", "Classifier: License :: OSI Approved :: BSD License"],
            "BSD License",
            False,
        ),
    ],
)
def test_a_licence_is_an_expression_or_the_authors_own_name_for_it(
    fields: list[str], text: str, spdx: bool, tmp_path: Path
) -> None:
    licence = read_wheel(make_wheel(tmp_path, "abc", "1", *fields)).licence
    assert (licence.text, licence.spdx) == (text, spdx)


def test_a_wheel_without_a_licence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"abc-1-.*states no licence"):
        read_wheel(make_wheel(tmp_path, "abc", "1"))


def test_a_wheel_under_another_name_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "abc", "1", MIT)
    with pytest.raises(BundleError, match="metadata say abc 1"):
        read_wheel(path.rename(tmp_path / "abc-2-py3-none-any.whl"))
    broken = tmp_path / "xyz-1-py3-none-any.whl"
    broken.write_bytes(b"no zip")
    with pytest.raises(BundleError, match="not a zip file"):
        read_wheel(broken)


def test_two_versions_of_one_distribution_are_refused(tmp_path: Path) -> None:
    make_wheel(tmp_path, "abc", "1", MIT)
    make_wheel(tmp_path, "abc", "2", MIT)
    with pytest.raises(BundleError, match="two wheels of abc"):
        read_wheels(tmp_path)


def test_the_oldest_glibc_is_the_greatest_that_any_wheel_needs(tmp_path: Path) -> None:
    make_wheel(tmp_path, "abc", "1", MIT, tags="cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64")
    assert platform_facts(read_wheels(tmp_path)).endswith("\nglibc 2.17\n")
    make_wheel(tmp_path, "xyz", "1", MIT, tags="cp311-abi3-manylinux_2_34_x86_64.manylinux_2_28_x86_64")
    assert platform_facts(read_wheels(tmp_path)).endswith("\nglibc 2.28\n")


def test_wheels_without_compiled_code_need_no_glibc(tmp_path: Path) -> None:
    make_wheel(tmp_path, "abc", "1", MIT)
    assert "glibc" not in platform_facts(read_wheels(tmp_path))


def test_a_dependency_in_another_version_than_the_tested_one_is_refused(tmp_path: Path) -> None:
    make_wheel(tmp_path, "cohortsum", "9", MIT)
    make_wheel(tmp_path, "PyYAML", "6.0", MIT)
    wheels = read_wheels(tmp_path)
    check_locked(wheels, locked_versions("abc==1\nPyYAML==6.0\n"))
    with pytest.raises(BundleError, match=r"pyyaml 6\.0: requirements-dev\.lock has 6\.1"):
        check_locked(wheels, locked_versions("PyYAML==6.1\n"))
    with pytest.raises(BundleError, match="has none"):
        check_locked(wheels, {})


def test_the_bill_names_every_wheel_and_who_needs_whom(tmp_path: Path) -> None:
    wanted = ["Requires-Dist: num_py>=2", "Requires-Dist: abc; extra == 'dev'", "Requires-Dist: not-here"]
    make_wheel(tmp_path, "cohortsum", "0.1", "License-Expression: Apache-2.0", *wanted)
    path = make_wheel(tmp_path, "num.py", "2.0+cpu", "Classifier: License :: OSI Approved :: BSD License")
    make_wheel(tmp_path, "abc", "1", MIT)
    bill: dict[str, Any] = json.loads(bill_of_materials(read_wheels(tmp_path), "cohortsum", WHEN))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/cohortsum@0.1"
    assert bill["metadata"]["component"]["licenses"] == [{"expression": "Apache-2.0"}]
    assert [part["name"] for part in bill["components"]] == ["abc", "num-py"]
    assert bill["components"][1] == {
        "type": "library",
        "bom-ref": "pkg:pypi/num-py@2.0%2Bcpu",
        "name": "num-py",
        "version": "2.0+cpu",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "licenses": [{"license": {"name": "BSD License"}}],
        "purl": "pkg:pypi/num-py@2.0%2Bcpu",
    }
    needs = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
    assert needs["pkg:pypi/cohortsum@0.1"] == ["pkg:pypi/num-py@2.0%2Bcpu"]
    assert set(needs) == {purl(wheel) for wheel in read_wheels(tmp_path)}


def test_equal_wheels_give_an_equal_bill_and_other_wheels_another_serial_number(tmp_path: Path) -> None:
    make_wheel(tmp_path, "cohortsum", "1", MIT)
    once, again = (bill_of_materials(read_wheels(tmp_path), "cohortsum", WHEN) for _ in range(2))
    assert once == again
    make_wheel(tmp_path, "abc", "1", MIT)
    more = bill_of_materials(read_wheels(tmp_path), "cohortsum", WHEN)
    assert json.loads(more)["serialNumber"] != json.loads(once)["serialNumber"]


def test_a_bill_without_the_product_is_refused(tmp_path: Path) -> None:
    make_wheel(tmp_path, "abc", "1", MIT)
    with pytest.raises(BundleError, match="no wheel of cohortsum"):
        bill_of_materials(read_wheels(tmp_path), "cohortsum", WHEN)


def test_sums_cover_every_file_but_themselves(tmp_path: Path) -> None:
    bundle = make_small_bundle(tmp_path / "bundle")
    lines = (bundle / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    listed = {line.split("  ")[1]: line.split("  ")[0] for line in lines}
    files = {str(path.relative_to(bundle)): path for path in bundle.rglob("*") if path.is_file()}
    assert set(listed) == set(files) - {"SHA256SUMS"}
    assert len(listed) == 6
    assert all(listed[name] == hashlib.sha256(files[name].read_bytes()).hexdigest() for name in listed)
    assert sums(bundle) == "\n".join(lines) + "\n"


def test_an_archive_depends_on_content_and_date_alone(tmp_path: Path) -> None:
    bundle = make_small_bundle(tmp_path / "bundle")
    first = pack(bundle, WHEN).read_bytes()
    (bundle / "LICENCE").write_text("x", encoding="utf-8")
    (bundle / "LICENCE").unlink()
    (bundle / "requirements.txt").chmod(0o600)
    (bundle / "requirements.txt").touch()
    archive = pack(bundle, WHEN)
    assert archive.read_bytes() == first
    with tarfile.open(archive) as tar:
        entries = {entry.name: entry for entry in tar}
    assert {entry.mtime for entry in entries.values()} == {WHEN}
    assert {(entry.uid, entry.gid, entry.uname) for entry in entries.values()} == {(0, 0, "root")}
    assert entries["bundle/install.sh"].mode == 0o755
    assert entries["bundle/requirements.txt"].mode == 0o644
    assert pack(bundle, WHEN + 1).read_bytes() != first


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "1.5"])
def test_a_date_that_is_none_is_refused(text: str) -> None:
    assert source_date({"SOURCE_DATE_EPOCH": str(WHEN)}) == WHEN
    with pytest.raises(BundleError, match="SOURCE_DATE_EPOCH"):
        source_date({"SOURCE_DATE_EPOCH": text})
