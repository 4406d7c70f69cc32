"""CITATION.cff is valid by the rules of the Citation File Format 1.2.0, whatever a study is called."""

from typing import cast

import pytest
import yaml

from cohortsum.report.citation import citation_cff
from cohortsum.report.document import ResultDocument, RosterIdentity
from tests.report.example import document
from tests.report.kinds import NASTY

# The keys of the 1.2.0 schema that this file uses, with those that it requires.
TOP = {
    "cff-version",
    "message",
    "type",
    "title",
    "version",
    "authors",
    "identifiers",
    "keywords",
    "references",
}
REQUIRED = {"cff-version", "message", "title", "authors"}


def titled(title: str) -> ResultDocument:
    held = document()
    return held.model_copy(update={"study": held.study.model_copy(update={"title": title})})


def read(held: ResultDocument) -> dict[str, object]:
    return cast("dict[str, object]", yaml.safe_load(citation_cff(held)))


def test_it_has_the_required_keys_and_no_foreign_ones() -> None:
    found = read(document())
    assert set(found) >= REQUIRED
    assert set(found) <= TOP
    assert found["cff-version"] == "1.2.0"
    assert found["type"] == "dataset"
    identifiers = cast("list[dict[str, str]]", found["identifiers"])
    assert [set(identifier) for identifier in identifiers] == [{"type", "value", "description"}] * 2
    assert {identifier["type"] for identifier in identifiers} <= {"doi", "url", "swh", "other"}
    assert identifiers[0]["value"] == f"sha256:{'0a' * 32}"
    (software,) = cast("list[dict[str, object]]", found["references"])
    assert {"authors", "title", "type"} <= set(software)
    assert (software["title"], software["version"]) == ("cohortsum", "0.1.0")
    assert isinstance(software["version"], str)


def test_the_author_is_the_consortium_or_else_the_sites_in_the_sums() -> None:
    assert read(document())["authors"] == [{"name": "site amc"}, {"name": "site oak"}]
    roster = RosterIdentity(version=3, digest="5b" * 32, consortium="asd-imaging")
    named = document().model_copy(update={"roster": roster})
    assert read(named)["authors"] == [{"name": "asd-imaging"}]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        (NASTY, NASTY),
        ('a: "b"\n- c', 'a: "b" - c'),
        ("yes", "yes"),
        ("1.0", "1.0"),
        ("Größe 脳 🧠 \\ end", "Größe 脳 🧠 \\ end"),
        ("bell \x07 delete \x7f", "bell \x07 delete \ufffd"),
        ("", "asd-open"),
    ],
)
def test_no_title_changes_the_structure(title: str, expected: str) -> None:
    found = read(titled(title))
    assert found["title"] == expected
    assert set(found) <= TOP


def test_there_is_no_date_and_equal_documents_give_equal_text() -> None:
    text = citation_cff(document())
    assert "date" not in text
    assert text == citation_cff(document())
