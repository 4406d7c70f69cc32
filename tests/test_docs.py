"""The documents name what the code has, and nothing else; their links lead somewhere."""

import re
import tomllib
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from cohortsum.node.config import load_policy_config
from cohortsum.protocol.messages import Kind
from cohortsum.study.catalogue import FAMILIES
from cohortsum.study.definition import study_schema
from cohortsum.study.disclosure.own_rules import OWN_RULES
from cohortsum.study.results import Absent, Status
from tests.study.disclosure.release_of import column, of, played
from tests.study.disclosure.test_gate_counts import of_counts, study

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

# As a string of its own in code ("R4.8"), and as the first cell of a row in protocol.md.
CHECK = r"(?:[AMOUW]\d|R\d(?:\.\d+)?)"
IN_CODE = re.compile(rf'"({CHECK})"')
IN_TABLE = re.compile(rf"^\| `({CHECK})` \|", re.M)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def checks_in(*rooms: str) -> set[str]:
    paths = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    return {name for path in paths for name in IN_CODE.findall(path.read_text(encoding="utf-8"))}


def property_names(schema: object) -> set[str]:
    """Return the names of all properties anywhere in a JSON Schema."""
    names: set[str] = set()
    if isinstance(schema, dict):
        for key, value in cast("dict[str, object]", schema).items():
            if key == "properties":
                names |= set(cast("dict[str, object]", value))
            names |= property_names(value)
    elif isinstance(schema, list):
        for item in cast("list[object]", schema):
            names |= property_names(item)
    return names


def anchors(text: str) -> set[str]:
    """Return the anchors that a page's headings get."""
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_check_is_in_the_table_and_every_row_is_in_the_code() -> None:
    rows = IN_TABLE.findall(page("protocol.md"))
    assert len(rows) == len(set(rows)), "a check has two rows"
    used = checks_in("protocol", "coordinator", "node")
    assert len(used) > 40
    assert set(rows) == used


def test_every_message_kind_of_the_round_is_described() -> None:
    text = page("protocol.md")
    standing = {Kind.APPROVAL, Kind.NOT_TAKING_PART}  # bound to a study, described in words
    assert [kind.name for kind in Kind if kind not in standing and f"`{kind.name}`" not in text] == []


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    names = {
        re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]
        for line in project["dependencies"] + optional["dev"]
    }
    extras = {
        (extra, re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0])
        for extra, lines in optional.items()
        if extra != "dev"
        for line in lines
    }
    text = page("dependencies.md")
    on_request = re.search(r"^## On request$.*?(?=^## )", text, re.M | re.S)
    assert on_request is not None
    assert set(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", on_request.group(), re.M)) == extras
    assert set(re.findall(r"^\| `([^`]+)` \|", text.replace(on_request.group(), ""), re.M)) == names


def test_every_key_of_the_study_file_is_described() -> None:
    text = page("study-file.md")
    keys = property_names(study_schema())
    assert len(keys) > 50
    written = {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code)}
    assert keys - written == set()


def test_every_catalogue_family_is_described() -> None:
    text = page("study-file.md")
    assert [name for name in FAMILIES if f"`{name}`" not in text] == []


def test_every_status_is_described() -> None:
    rows = set(re.findall(r"^\| `([^`]+)` \|", page("statistics.md"), re.M))
    assert {status.value for status in Status} - rows == set()


def test_every_rule_of_the_gates_has_its_row() -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \|", page("disclosure.md").partition("## The gates' own rules")[2], re.M
    )
    assert rows == list(OWN_RULES)


def test_waivers_are_written_as_the_page_shows_them(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```", page("disclosure.md"), re.M | re.S)
    (tmp_path / "policy.yaml").write_text(block, encoding="utf-8")
    policy = load_policy_config(tmp_path / "policy.yaml")
    assert (policy.profile, [waiver.rule for waiver in policy.waivers]) == (
        "dpuk",
        ["count_rounding", "roi_noise"],
    )


def test_seven_of_eighty_is_what_the_gate_makes_of_it() -> None:
    rows = re.findall(
        r"^\| (?:women|men) \| (\d+) \| (\d+) \| (\S+) \| (\S+) \|", page("disclosure.md"), re.M
    )
    opened = np.array([row[:2] for row in rows], np.int64)
    text = study(
        {"sex": "{levels: [women, men]}", "treated": "{levels: [no, yes]}"},
        {"both": "{kind: crosstab, factors: [sex, treated]}"},
    )
    table = of(played(text, [of_counts(opened, ("sex", "treated"))]).gated(), "both")
    printed = ["`hidden`" if isinstance(cell, Absent) else str(cell) for cell in column(table, "count")]
    assert printed == [cell for row in rows for cell in row[2:]]
    assert opened.sum() == 200


def test_the_index_lists_every_page() -> None:
    linked = set(LINK.findall(page("README.md")))
    assert {path.name for path in DOCS.glob("*.md")} - {"README.md"} <= linked


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve_and_pages_speak_of_the_product_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), target
        assert linked.is_relative_to(ROOT), target
        if anchor:
            assert anchor in anchors(linked.read_text(encoding="utf-8")), target
    for foreign in ("../shared", "/work/", "issue #", "/home/"):
        assert foreign not in text, foreign
