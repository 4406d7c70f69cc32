"""Uploads on disk: unreadable there, counted whole or not at all, added in the memory of one vector."""

import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.coordinator.spool import CHUNK_BYTES, Spool, Upload
from cohortsum.crypto.errors import CohortsumError, RemoteProtocolError
from cohortsum.crypto.masks import Vector
from cohortsum.protocol.masking import words_digest, words_hasher


def words_of(site: int, length: int) -> Vector:
    return np.random.default_rng(site).integers(0, 2**64, length, dtype=np.uint64)


def receive(
    spool: Spool, site: int, words: Vector, size: int = 64 * 1024, length: int | None = None
) -> Upload:
    """Spool words in chunks of ``size`` bytes, as the edge does; ``length`` words are announced, by default all."""
    upload = spool.receive(site)
    data = words.astype("<u8").tobytes()
    hasher = words_hasher(8 * (len(words) if length is None else length))
    for start in range(0, len(data), size):
        chunk = data[start : start + size]
        hasher.update(chunk)
        upload.add(chunk, hasher.digest())
    return upload


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def keep(spool: Spool, sites: Iterable[int], length: int) -> None:
    for site in sites:
        upload = receive(spool, site, words_of(site, length))
        spool.keep(site, upload, upload.finish())


@settings(max_examples=25, deadline=None)
@given(length=st.integers(1, 300), size=st.integers(1, 999), sites=st.sets(st.integers(0, 9), min_size=1))
def test_the_sum_is_that_of_the_words_modulo_two_to_the_64_however_they_are_cut(
    tmp_path_factory: pytest.TempPathFactory, length: int, size: int, sites: set[int]
) -> None:
    spool = Spool(tmp_path_factory.mktemp("spool"), length)
    for site in range(10):
        upload = receive(spool, site, words_of(site, length), size)
        digest = upload.finish()
        assert digest == words_digest(words_of(site, length))
        spool.keep(site, upload, digest)
    total = [sum(int(words_of(site, length)[at]) for site in sites) % 2**64 for at in range(length)]
    assert spool.sum(sorted(sites)).tolist() == total


def test_a_sum_over_more_than_one_chunk_on_disk_is_right(tmp_path: Path) -> None:
    length = CHUNK_BYTES // 8 * 2 + 3
    spool = Spool(tmp_path / "spool", length)
    keep(spool, (0, 1), length)
    assert np.array_equal(spool.sum([0, 1]), words_of(0, length) + words_of(1, length))


def peak_of_sum(folder: Path, sites: int, length: int) -> int:
    spool = Spool(folder / str(sites), length)
    keep(spool, range(sites), length)
    tracemalloc.start()
    spool.sum(range(sites))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_the_memory_of_a_sum_is_one_vector_whatever_the_number_of_sites(tmp_path: Path) -> None:
    length = 200_000
    few, many = peak_of_sum(tmp_path, 2, length), peak_of_sum(tmp_path, 12, length)
    assert many <= few + CHUNK_BYTES // 4
    assert many < 8 * length + 4 * CHUNK_BYTES


def test_words_cannot_be_read_from_disk(tmp_path: Path) -> None:
    words = words_of(3, 1000)
    spool = Spool(tmp_path / "spool", 1000)
    upload = receive(spool, 3, words)
    spool.keep(3, upload, upload.finish())
    (path,) = (tmp_path / "spool").iterdir()
    held = path.read_bytes()
    assert len(held) == 16 + words.nbytes
    assert not any(words[at : at + 1].tobytes() in held for at in range(1000))


def test_the_same_words_twice_give_different_files(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 100)
    for site in (0, 1):
        upload = receive(spool, site, words_of(7, 100))
        spool.keep(site, upload, upload.finish())
    first, second = sorted((tmp_path / "spool").iterdir())
    assert first.read_bytes()[16:] != second.read_bytes()[16:]


def test_an_upload_that_is_dropped_leaves_no_file_and_is_not_in_a_sum(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 100)
    upload = receive(spool, 0, words_of(0, 50), length=100)
    upload.drop()
    assert files(tmp_path / "spool") == set()
    with pytest.raises(OSError, match=r"0\.words"):
        spool.sum([0])


def test_an_upload_that_was_kept_survives_drop_and_a_broken_second_one(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 100)
    upload = receive(spool, 0, words_of(0, 100))
    spool.keep(0, upload, upload.finish())
    upload.drop()
    receive(spool, 0, words_of(1, 60), length=100).drop()
    assert np.array_equal(spool.sum([0]), words_of(0, 100))


def test_a_second_whole_upload_replaces_the_first(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 10)
    for seed in (1, 2):
        upload = receive(spool, 0, words_of(seed, 10))
        spool.keep(0, upload, upload.finish())
    assert np.array_equal(spool.sum([0]), words_of(2, 10))


def test_a_short_upload_is_refused_at_its_end(tmp_path: Path) -> None:
    upload = receive(Spool(tmp_path / "spool", 100), 0, words_of(0, 99), length=100)
    with pytest.raises(RemoteProtocolError, match="shorter") as caught:
        upload.finish()
    assert caught.value.check == "U1"
    upload.drop()


@pytest.mark.parametrize("extra", [1, 8])
def test_a_byte_too_many_is_refused_at_once(tmp_path: Path, extra: int) -> None:
    upload = receive(Spool(tmp_path / "spool", 10), 0, words_of(0, 10))
    with pytest.raises(RemoteProtocolError, match="longer") as caught:
        upload.add(bytes(extra), bytes(32))
    assert caught.value.check == "U1"
    upload.drop()


def test_a_damaged_chunk_is_refused(tmp_path: Path) -> None:
    upload = Spool(tmp_path / "spool", 10).receive(0)
    hasher = words_hasher(80)
    hasher.update(bytes(8))
    with pytest.raises(RemoteProtocolError, match="damaged") as caught:
        upload.add(b"\1" + bytes(7), hasher.digest())
    assert caught.value.check == "U3"
    upload.drop()


def test_words_that_changed_on_disk_are_not_added(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 10)
    keep(spool, (0,), 10)
    path = tmp_path / "spool" / "0.words"
    held = bytearray(path.read_bytes())
    held[20] ^= 1
    path.write_bytes(held)
    with pytest.raises(CohortsumError):
        spool.sum([0])


def test_keep_only_wipes_everybody_else(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 10)
    keep(spool, range(4), 10)
    spool.keep_only([1, 3])
    assert files(tmp_path / "spool") == {"1.words", "3.words"}


def test_wiping_removes_the_folder_and_the_key(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 10)
    keep(spool, range(3), 10)
    broken_off = receive(spool, 3, words_of(3, 5), length=10)
    spool.wipe()
    assert not (tmp_path / "spool").exists()
    broken_off.drop()
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "0.words").write_bytes(bytes(96))
    with pytest.raises(ValueError, match="spool key has been wiped"):
        spool.sum([0])
