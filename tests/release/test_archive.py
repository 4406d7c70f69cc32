"""An archive is read only as it was written: whatever else somebody sends is refused with a sentence, and without unpacking it."""

import io
import struct
import tracemalloc
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.study.release.archive import MAX_FILES, pack, unpack

FILES = {"a.json": b"{}\n", "b/0001.packet": bytes(range(256)) * 3, "b/empty.sig": b"", "z.txt": b"last"}
SEGMENT = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,8}", fullmatch=True)
NAMES = st.lists(SEGMENT, min_size=1, max_size=3).map("/".join)


def refused(archive: bytes) -> str:
    with pytest.raises(ConfigurationError) as caught:
        unpack(archive, "x.zip")
    assert caught.value.message.startswith("x.zip: ")
    return caught.value.message


def foreign(*entries: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return what another zip program writes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, method)
    return out.getvalue()


@given(st.dictionaries(NAMES, st.binary(max_size=200), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_zip_program_reads_it_and_equal_files_give_equal_bytes(files: dict[str, bytes]) -> None:
    archive = pack(files)
    assert unpack(archive, "x.zip") == files
    assert pack(dict(reversed(files.items()))) == archive
    with zipfile.ZipFile(io.BytesIO(archive)) as held:
        assert held.testzip() is None
        assert {name: held.read(name) for name in held.namelist()} == files
        assert held.namelist() == sorted(files)


def test_every_flipped_bit_is_refused() -> None:
    archive = pack(FILES)
    for place in range(len(archive)):
        for bit in (0, 7):
            changed = bytearray(archive)
            changed[place] ^= 1 << bit
            refused(bytes(changed))


def test_a_flipped_bit_in_a_file_names_the_file() -> None:
    archive = pack(FILES)
    start = archive.index(FILES["b/0001.packet"])
    for place in range(start, start + 768, 31):
        changed = bytearray(archive)
        changed[place] ^= 16
        assert "b/0001.packet was changed after it was packed" in refused(bytes(changed))


def test_every_truncation_and_extension_is_refused() -> None:
    archive = pack(FILES)
    for end in range(len(archive)):
        refused(archive[:end])
    for more in (b"\0", b"PK\x05\x06", archive):
        refused(archive + more)
        refused(more + archive)


@pytest.mark.parametrize(
    "name",
    [
        *("../up", "a/../../up", "/etc/passwd", "a//b", "./a", "a/", "", "A.json", "a\\b", "c:a", "a b"),
        *("a\0b", "ä", "a" * 121, "-a", ".hidden", "a/.b"),
    ],
)
def test_names_that_lead_elsewhere_are_refused_in_both_directions(name: str) -> None:
    with pytest.raises(ConfigurationError, match="name that is not allowed"):
        pack({name: b""})
    # the same bytes as ours, but for the name
    raw = name.encode()
    local = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 33, 0, 0, 0, len(raw), 0) + raw
    central = struct.pack(
        *(
            "<4s6H3I5H2I",
            b"PK\x01\x02",
            788,
            20,
            0,
            0,
            0,
            33,
            0,
            0,
            0,
            len(raw),
            0,
            0,
            0,
            0,
            0o100644 << 16,
            0,
        )
    )
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, len(central + raw), len(local), 0)
    assert "name that is not allowed" in refused(local + central + raw + end)


def test_a_name_that_is_there_twice_is_refused() -> None:
    one, two = foreign(("a", b"1")), foreign(("a", b"2"))
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = foreign(("a", b"1"), ("a", b"2"))
    assert unpack(pack({"a": b"1"}), "x.zip") == {"a": b"1"}
    body = pack({"a": b"1"})[:32] + pack({"a": b"2"})[:32]
    for archive in (twice, body, one + two):
        refused(archive)
    assert "twice or out of order" in refused(body)
    assert "twice or out of order" in refused(pack({"b": b""})[:31] + pack({"a": b""})[:31])


def test_a_bomb_is_refused_without_unpacking_it() -> None:
    bomb = foreign(("a.json", bytes(64 * 1024 * 1024)), method=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    tracemalloc.start()
    try:
        assert "compressed" in refused(bomb)
        assert tracemalloc.get_traced_memory()[1] < 2 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_size_that_is_not_there_is_refused_without_asking_for_the_memory() -> None:
    header = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 33, 0, 2**32 - 1, 2**32 - 1, 1, 0) + b"a"
    tracemalloc.start()
    try:
        assert "ends within a" in refused(header)
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()


def test_too_many_files_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=f"at most {MAX_FILES}"):
        pack({f"{place:05}": b"" for place in range(MAX_FILES + 1)})
    entry = pack({"00000": b""})[:35]
    many = b"".join(entry[:30] + f"{place:05}".encode() for place in range(MAX_FILES + 1))
    assert f"more than {MAX_FILES} files" in refused(many)


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_arbitrary_bytes_are_refused_with_a_sentence(data: bytes) -> None:
    refused(data)
    refused(b"PK\x03\x04" + data)


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=8), st.integers(0, 8))
@settings(max_examples=200, deadline=None)
def test_bytes_put_into_an_archive_are_refused(place: int, put: bytes, taken: int) -> None:
    archive = pack(FILES)
    start = place % len(archive)
    changed = archive[:start] + put + archive[start + taken :]
    if changed != archive:
        refused(changed)
