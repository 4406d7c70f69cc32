"""From bytes to cells: the filter, the layout, numbers, levels and units, each against a slow oracle."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.filter import lines, normalise
from cohortsum.node.tables.levels import LevelColumn
from cohortsum.node.tables.numbers import MISSING, NumberColumn, parse_number
from cohortsum.node.tables.rows import Wanted, cells_beside, fields_of, write_rows
from cohortsum.node.tables.sniff import Layout, sniff, split
from cohortsum.node.tables.units import conversion


def cut(data: bytes, places: list[int]) -> Iterator[bytes]:
    """Yield ``data`` cut at ``places`` (taken modulo its length)."""
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    yield from (data[start:stop] for start, stop in pairwise(edges))


def slow_normalise(data: bytes) -> str:
    """Return what the filter should give, one character at a time over the whole file."""
    text = data.decode()
    text = text.removeprefix("\ufeff")
    out: list[str] = []
    for place, character in enumerate(text):
        if character == "\r":
            out.append("\n")
        elif character != "\n" or text[place - 1 : place] != "\r":
            out.append(character)
    return "".join(out)


content = st.text(st.sampled_from('\ufeffa,;\t "é€𝄞\r\n\u2028\x85'), max_size=40)


@given(content, st.lists(st.integers(0, 200), max_size=8), st.booleans())
def test_filter_equals_the_slow_oracle_however_chunks_are_cut(
    text: str, places: list[int], bom: bool
) -> None:
    data = b"\xef\xbb\xbf" * bom + text.encode()
    assert "".join(normalise(cut(data, places), "file")) == slow_normalise(data)


@given(content, st.lists(st.integers(0, 200), max_size=8))
def test_lines_do_not_depend_on_cuts_or_a_last_line_end(text: str, places: list[int]) -> None:
    expected = slow_normalise(text.encode()).split("\n")
    if not expected[-1]:
        expected.pop()
    assert list(lines(normalise(cut(text.encode(), places), "file"), "file")) == expected


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a\r\nb\rCANARY\xff\n", 3),
        (b"\xef\xbb\xbfa\nCANARY\0\n", 2),
        (b"CANARY\xc3", 1),
        (b"a\r\xe2\x82", 2),
        (b"a\n\nCANARY\x1f", 3),
        ("a\nb".encode("utf-16"), 1),
    ],
)
@given(st.lists(st.integers(0, 20), max_size=4))
def test_foreign_bytes_are_an_error_with_file_and_line(data: bytes, line: int, places: list[int]) -> None:
    with pytest.raises(
        DataError, match=rf"cov\.csv, line {line}: .*; save the table as plain UTF-8"
    ) as caught:
        list(normalise(cut(data, places), "cov.csv"))
    assert "CANARY" not in caught.value.message
    assert caught.value.__context__ is None  # a decoding error would carry the bytes


def test_an_endless_line_is_refused() -> None:
    with pytest.raises(DataError, match="line 2: longer than"):
        list(lines(["a\n", *["x" * 2**20] * 5], "cov.csv"))


@pytest.mark.parametrize(
    ("header", "delimiter", "names"),
    [
        ("a,b", ",", ("a", "b")),
        ("a\tb,c;d", "\t", ("a", "b,c;d")),
        ("a;b;c,d", ";", ("a", "b", "c,d")),
        ("  id   x \t".rstrip("\t"), " ", ("id", "x")),
        (",LAB_TSC ,LAB_HDL  ", ",", ("column_1", "LAB_TSC", "LAB_HDL")),
        ('"","a,b;c;d","e"', ",", ("column_1", "a,b;c;d", "e")),
        ("only", ",", ("only",)),
        ('"a ""b""",c', ",", ('a "b"', "c")),
    ],
)
def test_layout_comes_from_the_header_line(header: str, delimiter: str, names: tuple[str, ...]) -> None:
    layout = sniff(["", "  ", header, "1,2"], "file")
    assert (layout.delimiter, layout.names) == (delimiter, names)


@pytest.mark.parametrize("header", ["sub-CANARY,1.5,NA,.3", "CANARY 1 2 NaN"])
def test_a_headerless_table_is_refused_without_a_value(header: str) -> None:
    with pytest.raises(DataError, match="add a header line") as caught:
        sniff([header], "IDPs.txt")
    assert "CANARY" not in caught.value.message


def test_fields_honour_quotes_within_their_line() -> None:
    assert split('a,"b,""c""",d', ",") == ["a", 'b,"c"', "d"]
    assert split(' a  "b"\t c ', " ") == ["a", "b", "c"]
    assert split('a,"b,c', ",") is None
    assert split('a,"b"x,c', ",") is None
    assert split("5'3\",x", ",") == ["5'3\"", "x"]


def test_broken_rows_are_counted_and_never_shifted(tmp_path: Path) -> None:
    out = tmp_path / "t.rows"
    rows = ["a,1,2", "b,1", "c,1,2,3", 'd,"1,2', ",,", "", "e, 5 ,6"]
    fields = fields_of(enumerate(rows, start=2), Layout(",", ("id", "x", "y")))
    count = write_rows(fields, 3, Wanted(0, None, [2, 1]), out)
    assert (count.good, count.broken, count.first_broken) == (2, 3, ("3", "4", "5"))
    assert out.read_text() == '"a","","0","3"\n"e","","3","3"\n'
    assert cells_beside(out).read_text() == "2\x1f16\x1f5"


finite = st.floats(allow_nan=False, allow_infinity=False)
spellings = st.sampled_from(["{!r}", "{:.17e}", "{:.17E}", "+{!r}"])


@settings(deadline=None)
@given(
    st.lists(st.text("0123456789+-.eE_naNAifx,\u0663 ", max_size=6), max_size=12),
    st.sampled_from([(), ("-9999", "+1")]),
)
def test_a_column_is_read_as_its_texts_are_one_by_one(texts: list[str], declared: tuple[str, ...]) -> None:
    """The fast way through a whole column takes nothing that the grammar of one number refuses."""
    column = NumberColumn(declared=frozenset(declared))
    parsed = column.parse(texts)
    faults = 0
    for text, value in zip(texts, parsed.values, strict=True):
        told = None if text in MISSING or text in declared else parse_number(text)
        faults += told is None and text not in MISSING and text not in declared
        assert np.isnan(value) if told is None else value == told
    assert parsed.faults == faults


@given(st.lists(st.tuples(finite.map(abs), spellings, st.booleans()), max_size=20))
def test_numbers_equal_float(cases: list[tuple[float, str, bool]]) -> None:
    texts = [("-" if minus and "+" not in form else "") + form.format(value) for value, form, minus in cases]
    parsed = NumberColumn().parse(texts)
    assert parsed.faults == 0
    assert parsed.values.tolist() == [float(text) for text in texts]


@given(st.text(max_size=8) | st.text(st.sampled_from("0123456789.eE+-_ xinfa,"), max_size=8))
def test_every_text_is_missing_or_what_float_says_or_refused(text: str) -> None:
    parsed = NumberColumn().parse([text])
    if text in MISSING:
        assert (np.isnan(parsed.values[0]), parsed.faults) == (True, 0)
    elif parsed.faults == 0:
        assert parsed.values[0] == float(text)
        assert set(text) <= set("0123456789.eE+-")
    else:
        assert parsed.faults == 1
        assert np.isnan(parsed.values[0])


@pytest.mark.parametrize(
    "text", ["1_000", "0x1p3", "inf", "-Infinity", "1e999", "1,5", "1 000", "٣", "--1", "e5", " 1"]
)
def test_no_number_is_guessed(text: str) -> None:
    assert NumberColumn().parse([text]).faults == 1
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "value"), [(".0412", 0.0412), ("5.", 5.0), ("+1.5E-3", 0.0015), ("-0", 0.0)]
)
def test_spellings_of_programs_are_read(text: str, value: float) -> None:
    assert parse_number(text) == value


def test_decimal_commas_replace_points_altogether() -> None:
    parsed = NumberColumn().parse(["1,5", "-,25", "2", "3.5", "1,000,5", "NA"], decimal_comma=True)
    assert parsed.values[:3].tolist() == [1.5, -0.25, 2.0]
    assert parsed.faults == 2


def test_declared_codes_are_compared_as_text_and_other_spellings_are_noticed() -> None:
    parsed = NumberColumn(declared=frozenset({"-9999"})).parse(["-9999", "-9999.0", "-9.999e3", "1"])
    assert np.isnan(parsed.values[0])
    assert parsed.disguised == 2


def test_a_code_may_stand_for_a_number() -> None:
    parsed = NumberColumn(factor=0.5, codes={"89+": "89", "NA": "7"}).parse(["89+", "NA", "10"])
    assert parsed.values.tolist() == [44.5, 3.5, 5.0]


def test_a_unit_that_overflows_is_a_fault() -> None:
    assert NumberColumn(factor=1e6).parse(["1e305"]).faults == 1


def test_levels_are_matched_letter_by_letter() -> None:
    parsed = LevelColumn(("control", "autism")).parse(["autism", "Autism", "control", "NA", "1"])
    assert parsed.values.tolist() == [1, -1, 0, -1, -1]
    assert parsed.faults == 2


def test_codes_replace_level_names() -> None:
    column = LevelColumn(("a", "b"), frozenset({"-9", "a"}), {"1": "a", "NA": "b", "3": "of another study"})
    parsed = column.parse(["1", "NA", "-9", "a", "b", "3", "1.0", ""])
    assert parsed.values.tolist() == [0, 1, -1, -1, -1, -1, -1, -1]
    assert parsed.faults == 3


def test_a_declared_missing_code_wins_over_a_level_name() -> None:
    assert LevelColumn(("a", "b"), frozenset({"b"})).parse(["b", "a"]).values.tolist() == [-1, 0]


@pytest.mark.parametrize(
    ("column", "study", "factor"),
    [
        ("cm", "mm", 10),
        ("mm", "m", 0.001),
        ("cm2", "mm2", 100),
        ("ml", "mm3", 1000),
        ("l", "cm3", 1000),
        ("months", "years", 1 / 12),
        ("weeks", "years", 7 / 365.25),
        ("days", "years", 1 / 365.25),
        ("years", "months", 12),
        ("um2/ms", "mm2/s", 1e-3),
        ("g", "kg", 1e-3),
        ("percent", "fraction", 0.01),
        ("tesla", "tesla", 1),
        ("tesla", "gauss", None),
        ("mm", "mm2", None),
        ("voxels", "mm3", None),
        ("points", "years", None),
    ],
)
def test_units_convert_by_the_closed_table(column: str, study: str, factor: float | None) -> None:
    assert conversion(column, study) == factor


def test_voxels_need_their_volume() -> None:
    assert conversion("voxels", "mm3", 1.05) == 1.05
    assert conversion("voxels", "ml", 1.05) == pytest.approx(1.05e-3, rel=1e-15)
    assert conversion("voxels", "mm", 1.05) is None
