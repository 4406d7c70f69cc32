"""The result document: typed, versioned, exact, and closed."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.report.document import (
    SCHEMA,
    Participation,
    TableBlock,
    from_json,
    json_schema,
    provenance,
    to_json,
)
from cohortsum.study.results import Absent, Cell, Status, Table
from tests.report.example import document, thickness_table

cells = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**80), 2**80),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.builds(Absent, st.text(st.characters(exclude_categories=["Cs"]), min_size=1)),
)
Path = tuple[str | int, ...]


def table_of(*rows: tuple[Cell, ...]) -> Table:
    return Table("age", "summary", ("variable", "mean", "status"), rows, ("A note.",))


def altered(path: Path, change: Callable[[Any, str | int], None]) -> bytes:
    """Return the JSON of a document in which ``change`` was applied to the last key of ``path``."""
    tree = json.loads(to_json(document(table_of(("age", 30.5, "ok")))))
    node = tree
    for key in path[:-1]:
        node = node[key]
    change(node, path[-1])
    return json.dumps(tree).encode()


def replaced(path: Path, value: object) -> bytes:
    return altered(path, lambda node, key: node.__setitem__(key, value))


@given(st.lists(st.tuples(cells, cells, st.sampled_from([status.value for status in Status])), max_size=6))
def test_json_reads_back_as_the_same_document(rows: list[tuple[Cell, ...]]) -> None:
    written = document(table_of(*rows))
    read = from_json(to_json(written))
    assert read == written
    table = read.tables[0].table()
    assert table == table_of(*rows)
    assert [[type(cell) for cell in row] for row in table.rows] == [
        [type(cell) for cell in row] for row in rows
    ]


def test_equal_documents_give_equal_bytes() -> None:
    once = to_json(document(thickness_table()))
    assert once == to_json(document(thickness_table()))
    assert once == to_json(from_json(once))
    assert once.endswith(b"}\n")
    assert b"\r" not in once


def test_absent_cells_carry_their_reason_and_no_number() -> None:
    data = to_json(document(table_of(("bmi", Absent(Status.TOO_FEW_SITES), Status.TOO_FEW_SITES))))
    (row,) = json.loads(data)["tables"][0]["rows"]
    assert row == ["bmi", {"absent": "too few sites"}, "too few sites"]
    assert b"null" not in data
    assert b"NaN" not in data


def test_the_document_says_what_it_answers_to() -> None:
    tree = json.loads(to_json(document()))
    assert tree["schema"] == SCHEMA
    assert tree["noise"] == "none"
    assert tree["waivers"] == []
    assert tree["release"] == {"state": "released", "checker": "no checker"}
    assert tree["sites"]["dropouts"] == ["kcl"]
    line = provenance(document())
    for words in ("asd-open", "k3f9-72c1", "open_data", "noise none", "no checker", "2026-11", "7d2c"):
        assert words in line


def test_sums_of_an_earlier_version_are_named() -> None:
    assert "unchanged sums" not in provenance(document())
    assert b"builds_on_version" not in to_json(document())
    data = replaced(("round", "builds_on_version"), 2)
    assert from_json(data).round.builds_on_version == 2
    assert "unchanged sums from version 2" in provenance(from_json(data))


@pytest.mark.parametrize(
    "path",
    [
        ("extra",),
        ("study", "extra"),
        ("roster", "extra"),
        ("round", "extra"),
        ("release", "extra"),
        ("sites", "extra"),
        ("thresholds", "extra"),
        ("tables", 0, "extra"),
    ],
)
def test_unknown_keys_are_refused_everywhere(path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"extra: Extra inputs are not permitted"):
        from_json(replaced(path, 1))


def test_unknown_keys_of_an_absent_cell_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"tables\.0\.rows\.0\.1"):
        from_json(replaced(("tables", 0, "rows", 0, 1), {"absent": "no data", "value": 31}))


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), True, [], {}, {"absent": ""}])
def test_a_cell_is_a_number_text_or_absent_with_a_reason(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"tables\.0\.rows\.0\.1"):
        from_json(replaced(("tables", 0, "rows", 0, 1), value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "cohortsum.result/2"),
        (("noise",), "distributed"),
        (("waivers",), ["complement_suppression"]),
        (("profile",), "anything_goes"),
        (("release", "state"), "queued"),
        (("study", "digest"), "0A" * 32),
        (("study", "version"), "1"),
        (("thresholds", "min_sites"), 0),
        (("sites", "survivors"), []),
        (("tables", 0, "rows", 0, 2), "fine"),
        (("tables", 0, "rows", 0), ["age", 30.5]),
        (("tables", 0, "columns"), ["variable", "mean", "mean"]),
    ],
)
def test_a_field_out_of_the_schema_is_refused_by_name(path: Path, value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"expected schema cohortsum\.result/1"):
        from_json(replaced(path, value))


@pytest.mark.parametrize("key", list(json.loads(to_json(document()))))
def test_no_field_may_be_missing(key: str) -> None:
    def remove(node: Any, name: str | int) -> None:
        del node[name]

    with pytest.raises(ConfigurationError, match="Field required"):
        from_json(altered((key,), remove))


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{", b"null"])
def test_bytes_that_are_no_document_are_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError, match="result document"):
        from_json(data)


def test_a_refusal_never_repeats_a_value() -> None:
    with pytest.raises(ConfigurationError) as caught:
        from_json(replaced(("tables", 0, "rows", 0, 1), [123456789]))
    assert "123456789" not in str(caught.value)


@pytest.mark.parametrize(
    ("took_part", "survivors", "dropouts"),
    [
        (("amc", "kcl"), ("amc",), ()),
        (("amc",), ("amc",), ("kcl",)),
        (("amc", "kcl"), ("amc", "kcl"), ("kcl",)),
        (("kcl", "amc"), ("kcl", "amc"), ()),
        (("amc", "amc"), ("amc", "amc"), ()),
    ],
)
def test_survivors_and_dropouts_partition_the_sites(
    took_part: tuple[str, ...], survivors: tuple[str, ...], dropouts: tuple[str, ...]
) -> None:
    with pytest.raises(ValidationError, match=r"took_part must be|sites must be sorted"):
        Participation(took_part=took_part, survivors=survivors, dropouts=dropouts)


def test_two_tables_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="every table must have its own name"):
        document(table_of(), table_of())


def test_a_table_without_status_is_refused() -> None:
    with pytest.raises(ValidationError, match="hold 'status'"):
        TableBlock.of(Table("age", "summary", ("variable",), ()))


def test_the_json_schema_is_closed_and_names_every_field() -> None:
    schema = json.loads(json_schema())
    objects = [schema, *schema["$defs"].values()]
    assert all(part["additionalProperties"] is False for part in objects)
    written = set(json.loads(to_json(document())))
    assert set(schema["properties"]) == written | {"privacy"}  # which only results with noise have
    assert set(schema["required"]) == written
    assert json_schema() == json_schema()
