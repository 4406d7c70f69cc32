"""The result document: typed, versioned, exact, and closed."""

import datetime
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
    ItemBlock,
    Participation,
    ResultDocument,
    SignatureBlock,
    TableBlock,
    WaiverBlock,
    from_json,
    json_schema,
    provenance,
    to_json,
)
from cohortsum.study.disclosure.verdict import Waiver
from cohortsum.study.release.item import item_digest
from cohortsum.study.release.states import State
from cohortsum.study.results import Absent, Cell, Status, Table
from tests.report.example import DIGEST, document, released, thickness_table

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
    assert tree["release"] == []
    assert tree["rules"] == []
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
        ("release", 0, "extra"),
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
        (("schema",), "cohortsum.result/3"),
        (("noise",), "distributed"),
        (("waivers",), ["complement_suppression"]),
        (("profile",), "anything_goes"),
        (("release", 0, "state"), "queued"),
        (("release", 0, "state"), "queue"),
        (("release", 0, "digest"), "00" * 32),
        (("release",), []),
        (("rules",), [{"rule": "group_10", "table": "age", "outcome": "fine", "what": ""}]),
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
    with pytest.raises(ConfigurationError, match=r"expected schema cohortsum\.result/2"):
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
    with pytest.raises(ValidationError, match="every item must have its own name"):
        document(table_of(), table_of())


def test_a_table_without_status_is_refused() -> None:
    with pytest.raises(ValidationError, match="hold 'status'"):
        TableBlock.of(Table("age", "summary", ("variable",), ()))


def test_the_json_schema_is_closed_and_names_every_field() -> None:
    schema = json.loads(json_schema())
    objects = [schema, *schema["$defs"].values()]
    assert all(part["additionalProperties"] is False for part in objects if part["type"] == "object")
    written = set(json.loads(to_json(document())))
    assert set(schema["properties"]) == written | {"privacy"}  # which only results with noise have
    assert set(schema["required"]) == written
    assert json_schema() == json_schema()


SIGNED = SignatureBlock(by="chk1", role="checker", act="release", at="2026-11-30T18:00:00+00:00", reason="")
RETRACTED = SignatureBlock(
    by="amc", role="site", act="retract", at="2026-12-01T08:00:00+00:00", reason="wrong epoch"
)


def with_release(*release: ItemBlock, tables: tuple[TableBlock, ...] = ()) -> ResultDocument:
    """Return a document with these items, checked as a reader checks it."""
    held = document().model_copy(update={"release": release, "tables": tables})
    return from_json(to_json(held))


def test_items_say_who_signed_and_the_provenance_repeats_it() -> None:
    block = TableBlock.of(table_of(("age", 30.5, "ok")))
    item = released(block).model_copy(update={"signatures": (SIGNED,)})
    assert provenance(with_release(item, tables=(block,))).endswith("released, signed by chk1")
    waiting, gone = (
        ItemBlock(item="bmi", state=State.QUEUE),
        released(block).model_copy(
            update={"item": "iq", "state": State.RETRACTED, "signatures": (RETRACTED,)}
        ),
    )
    said = provenance(with_release(item, waiting, gone, tables=(block,)))
    assert said.endswith("1 of 3 items released, signed by chk1; 1 in the queue, 1 retracted")


def test_a_table_of_an_item_that_is_not_released_is_refused() -> None:
    block = TableBlock.of(table_of(("age", 30.5, "ok")))
    for state in set(State) - {State.RELEASED}:
        digest = released(block).digest if state is State.RETRACTED else None
        with pytest.raises(ConfigurationError, match="tables must be those of the released items"):
            with_release(ItemBlock(item="age", state=state, digest=digest), tables=(block,))


def test_of_an_item_that_never_left_there_is_no_digest_and_no_signature() -> None:
    """The digest of a table of few small counts would tell them to whoever tries them all."""
    for state in set(State) - {State.RELEASED, State.RETRACTED}:
        for further in ({"digest": "00" * 32}, {"signatures": (SIGNED,)}):
            with pytest.raises(ValidationError, match="digest and signatures belong to items"):
                ItemBlock.model_validate({"item": "age", "state": state, **further})


def test_a_digest_binds_every_cell_and_the_study() -> None:
    block = TableBlock.of(table_of(("age", 30.5, "ok")))
    other = TableBlock.of(table_of(("age", 30.25, "ok")))
    with pytest.raises(ConfigurationError, match="the one that its item's digest names"):
        with_release(released(block), tables=(other,))
    assert item_digest(bytes(32), block.canonical()) != item_digest(DIGEST, block.canonical())


def test_waivers_are_named_with_site_end_and_reason() -> None:
    waiver = Waiver("group_10", "5", "a rare disease", "dr", datetime.date(2027, 1, 31), "amc")
    held = document().model_copy(update={"waivers": (WaiverBlock.of(waiver),)})
    read = from_json(to_json(held))
    assert read.waivers[0].waiver() == waiver
    assert "waived: group_10" in provenance(read)


def as_schema_1(table: Table) -> bytes:
    """Return a document as cohortsum wrote it before there was a release queue."""
    tree = json.loads(to_json(document(table)))
    del tree["rules"]
    tree |= {"schema": "cohortsum.result/1", "release": {"state": "released", "checker": "no checker"}}
    return json.dumps(tree, indent=1).encode() + b"\n"


def test_documents_of_schema_1_are_read_as_released_without_a_checker() -> None:
    table = thickness_table()
    assert from_json(as_schema_1(table)) == document(table)


def test_a_document_of_schema_1_is_held_to_what_schema_1_was() -> None:
    table = table_of(("age", 30.5, "ok"))
    for before, after in (
        (b"no checker", b"somebody"),
        (b'"waivers": []', b'"waivers": [1]'),
        (b"30.5", b"NaN"),
    ):
        assert before in as_schema_1(table)
        with pytest.raises(ConfigurationError, match="result document"):
            from_json(as_schema_1(table).replace(before, after))
    with pytest.raises(ConfigurationError, match="extra"):
        from_json(as_schema_1(table).replace(b'"study"', b'"extra": 1, "study"', 1))
