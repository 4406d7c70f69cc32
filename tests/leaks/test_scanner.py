"""The search finds what is planted on purpose, in every form and every kind of place, and nothing where nothing is."""

import base64
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.leaks.planted import CODES, needles_of, people, seed_needles
from tests.leaks.scan import found, places_in

SITE = 2
ONE = people(SITE)[0]
NEIGHBOUR = people(SITE)[1]
SEED = bytes(range(7, 39))
NEEDLES = [*needles_of([SITE]), *seed_needles("a seed", SEED)]
GRID = round((ONE.age - 50) / 50 * 2**45)


def in_a_file(folder: Path, data: bytes) -> None:
    (folder / "site0" / "deep").mkdir(parents=True)
    (folder / "site0" / "deep" / ".hidden").write_bytes(b"noise" * 1000 + data + b"\0" * 9)


def in_a_blob(folder: Path, data: bytes) -> None:
    with closing(sqlite3.connect(folder / "ledger.db")) as database:
        database.execute("CREATE TABLE deeds (place INTEGER, held BLOB)")
        database.execute("INSERT INTO deeds VALUES (1, ?)", (data,))
        database.commit()


def in_a_write_ahead_log(folder: Path, data: bytes) -> None:
    with closing(sqlite3.connect(folder / "live.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE deeds (held BLOB)")
        database.execute("INSERT INTO deeds VALUES (?)", (data,))
        database.commit()
        (folder / "copy.db-wal").write_bytes((folder / "live.db-wal").read_bytes())


FORMS: dict[str, bytes] = {
    "id": ONE.id.encode(),
    "id in a path": f"/data/{ONE.id}/T1w.nii.gz".encode(),
    "id in UTF-16": ONE.id.encode("utf-16-le"),
    "id in hex": ONE.id.encode().hex().encode(),
    "id in Base64": base64.b64encode(f"xy{ONE.id}z".encode()),
    "free text": f"'{CODES[0]}'".encode(),
    "repr": repr(ONE.age).encode(),
    "repr of numpy": repr(np.float64(ONE.age)).encode(),
    "two decimals": f"age={ONE.age:.2f},".encode(),
    "six decimals": f"[{ONE.age:.6f}]".encode(),
    "exponent": f"{ONE.age:.5e}".encode(),
    "negative": f"-{ONE.thick}".encode(),
    "float64, little endian": struct.pack("<d", ONE.age),
    "float64, big endian": struct.pack(">d", ONE.thick),
    "float32 of a row": np.array([ONE.age, ONE.thick], "<f4").tobytes(),
    "float32 of a column": np.array([ONE.age, NEIGHBOUR.age], ">f4").tobytes(),
    "int32 of a row": np.array([round(ONE.age * 1e5), round(ONE.thick * 1e5)], "<i4").tobytes(),
    "grid, little endian": struct.pack("<q", GRID),
    "grid, big endian": struct.pack(">q", GRID),
    "grid as text": f"sum {GRID}".encode(),
    "seed": SEED,
    "seed in hex": SEED.hex().encode(),
    "seed in capitals": SEED.hex().upper().encode(),
    "seed in Base64": base64.b64encode(SEED),
    "seed in the midst of Base64": base64.urlsafe_b64encode(b"k" + SEED),
    "seed as Python shows it": repr(SEED).encode(),
    "seed as a number": str(int.from_bytes(SEED, "little")).encode(),
}


@pytest.mark.parametrize("plant", [in_a_file, in_a_blob, in_a_write_ahead_log])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_planted_is_found(tmp_path: Path, form: str, plant: Callable[[Path, bytes], None]) -> None:
    plant(tmp_path, FORMS[form])
    assert found(places_in(tmp_path), NEEDLES)


@pytest.mark.parametrize("place", ["log", "standard error", "metrics", "screens", "what sites sent"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_said_is_found(form: str, place: str) -> None:
    assert found([(place, b'{"event": "x", "y": ' + FORMS[form] + b" }")], NEEDLES).keys() == {place}


def test_a_number_is_found_as_a_cell_of_its_own(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database:
        database.execute("CREATE TABLE deeds (held REAL, name TEXT)")
        database.execute("INSERT INTO deeds VALUES (?, ?)", (ONE.age, "x"))
        database.commit()
    assert "ledger.db, table deeds" in found(places_in(tmp_path), NEEDLES)


def test_the_name_of_a_file_is_searched_and_a_file_that_is_left_out_is_not(tmp_path: Path) -> None:
    path = tmp_path / f"{ONE.id}.csv"
    path.write_text(ONE.id)
    assert found(places_in(tmp_path), NEEDLES).keys() == {f"the name of {path.name}", path.name}
    assert found(places_in(tmp_path, [path]), NEEDLES) == {}


def test_nothing_is_found_where_nothing_is() -> None:
    near = [
        f"1{ONE.age:.2f}",
        f"{ONE.age:.2f}9",
        f"0.{ONE.age:.2f}",
        f"{ONE.age:.0f}",
        ONE.id[:-1].upper()[1:],
    ]
    assert found([("x", text.encode()) for text in near], NEEDLES) == {}
    assert found([("x", np.random.default_rng(1).bytes(1_000_000)), ("y", b""), ("z", b"ab")], NEEDLES) == {}
