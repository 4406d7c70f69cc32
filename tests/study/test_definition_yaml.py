"""Reading YAML: 1.2 scalars, a line for every field, and no tricks."""

import pytest

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.definition.tree import MAX_BYTES, read_yaml


def test_scalars_follow_yaml_1_2() -> None:
    tree, _ = read_yaml(
        b"a: [no, yes, on, null, ~, true, 1e-6, 1.0e-6, -3, 0x10, 1_000, 10:30, 2026-11, 2027-06-30, .5, '5']",
        "f",
    )
    assert tree == {
        "a": ["no", "yes", "on", None, None, True, 1e-6, 1e-6, -3, "0x10", "1_000", "10:30", "2026-11", "2027-06-30",
              0.5, "5"]
    }  # fmt: skip


def test_every_field_has_its_line_also_after_a_byte_order_mark_and_crlf() -> None:
    tree, place = read_yaml(b"\xef\xbb\xbfa:\r\n  b: 1\r\n  c:\r\n    - x\r\n    - {d: 2}\r\n", "f.yaml")
    assert tree == {"a": {"b": 1, "c": ["x", {"d": 2}]}}
    assert place.of(("a", "c", 1, "d")) == "f.yaml:5: a.c[1].d"
    assert place.of(("a", "missing")) == "f.yaml:1: a.missing"


@pytest.mark.parametrize(
    ("text", "line", "cure"),
    [
        (b"a: 1\nb: 2\na: 3", 1, "again in line 3"),
        (b"a: &x 1\nb: *x", 1, "anchors and aliases"),
        (b"b: *x", 1, "anchors and aliases"),
        (b"a: 1\nb: !!python/object/apply:os.system [x]", 2, "tags are refused"),
        (b"a: !!int '3'", 1, "tags are refused"),
        (b"a: " + b"[" * 100_000, 1, "nested deeper"),
        (b"a: 1\n---\nb: 2", 2, "expected a single document"),
        (b"a: 1\n? [x]\n: 2", 2, "one printable line"),
        (b"a: 1\nb: [", 2, "expected the node content"),
        (b"a: 1\nb: \xff", 2, "UTF-8"),
        (b"a: 1\nb: \x00", 2, "control character"),
        (b'a: 1\nb: "x\\u202ey"', 2, "cannot be seen"),
        (b'a: 1\nb: "\\ud800"', 2, "cannot be seen"),
        (b"a: 1\nb: |\n  x\n  y\n", 2, "one plain line"),
        (b"a: 1\nb: 1e400", 2, "too large"),
    ],
)
def test_tricks_are_refused_with_their_line(text: bytes, line: int, cure: str) -> None:
    with pytest.raises(StudyFileError) as caught:
        read_yaml(text, "f.yaml")
    assert caught.value.message.startswith(f"f.yaml:{line}: ")
    assert cure in caught.value.message


def test_a_huge_file_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(StudyFileError, match="larger than"):
        read_yaml(b"#" * (MAX_BYTES + 1), "f.yaml")


def test_a_merge_key_is_a_key_like_any_other() -> None:
    tree, _ = read_yaml(b"<<: {a: 1}", "f.yaml")
    assert tree == {"<<": {"a": 1}}
