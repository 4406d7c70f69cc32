"""From files to batches: the join, the choice of rows, and every kind of bad input with its message."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from cohortsum.crypto.errors import ConfigurationError, DataError
from cohortsum.node.config import TablesConfig
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import content_digest, open_tables
from cohortsum.node.tables.store import Store
from cohortsum.study.variables import Factor, Number, Variable

CANARY = "7351946"

AGE = Number("age", "years", 5, 65)
THICK = Number("thick", "mm", 0, 5)
DX = Factor("dx", ("control", "autism"))


def needs(*variables: Variable, required: str = "age dx") -> Needs:
    named = {variable.name: variable for variable in variables}
    wanted = frozenset(required.split()) & named.keys()
    return Needs(named, wanted, frozenset(named) - wanted)


def site(folder: Path, files: Mapping[str, str | bytes], **settings: object) -> TablesConfig:
    """Write ``files`` by table name and return the settings that name them; ``table_options`` adds keys."""
    options = settings.pop("options", {})
    assert isinstance(options, dict)
    tables: dict[str, object] = {}
    for name, content in files.items():
        path = folder / f"{name}.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        tables[name] = {"path": path, "id": "id", **options.get(name, {})}  # pyright: ignore[reportUnknownMemberType]
    return TablesConfig.model_validate({"tables": tables, **settings})


def values(config: TablesConfig, wanted: Needs, size: int = 2) -> dict[str, list[float]]:
    with open_tables(config, wanted) as tables:
        batches = list(tables.batches(size))
        assert sum(batch.people for batch in batches) == tables.people
    names = [*batches[0].numbers, *batches[0].levels]
    return {
        name: np.concatenate(
            [batch.numbers[name] if name in batch.numbers else batch.levels[name] for batch in batches]
        ).tolist()
        for name in names
    }


def refusal(config: TablesConfig, wanted: Needs) -> str:
    with pytest.raises(DataError) as caught:
        open_tables(config, wanted)
    assert CANARY not in caught.value.message
    return caught.value.message


NAN = pytest.approx(np.nan, nan_ok=True)
GOOD = "id,age,dx,thick\n001,30,autism,2.5\n1,40,control,\n002,50,NA,.5\n"


def test_people_come_in_the_order_of_their_ids_with_ids_as_text(tmp_path: Path) -> None:
    read = values(site(tmp_path, {"cov": GOOD}), needs(AGE, DX, THICK))
    assert read == {"age": [30, 50, 40], "dx": [1, -1, 0], "thick": [2.5, 0.5, NAN]}


def test_the_order_of_rows_changes_nothing_but_the_digest(tmp_path: Path) -> None:
    header, *rows = GOOD.splitlines()
    shuffled = "\n".join([header, *reversed(rows)])
    assert values(site(tmp_path, {"a": GOOD}), needs(AGE, DX)) == values(
        site(tmp_path, {"b": shuffled}), needs(AGE, DX)
    )


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_batch_size_does_not_matter(tmp_path: Path, size: int) -> None:
    assert values(site(tmp_path, {"cov": GOOD}), needs(AGE, DX), size)["age"] == [30, 50, 40]


@pytest.mark.parametrize(
    "content",
    [
        GOOD.replace("\n", "\r"),
        GOOD.replace("\n", "\r\n").rstrip(),
        GOOD.replace("\n", "\r\n", 2).replace("002", "002") + "\n\r\n",
        b"\xef\xbb\xbf" + GOOD.encode(),
        GOOD.replace(",", ";"),
        GOOD.replace(",", "\t"),
        "\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in GOOD.splitlines()),
        "  id  age dx   thick \n 001 30  autism 2.5\n1\t40 control NA  \n\n002 50 n/a .5",
        GOOD.replace("age", " age  ").replace("30", " 30 "),
        GOOD.replace(",", ";").replace(".", ","),
        GOOD.replace(",", "\t").replace(".", ",").encode(),
    ],
)
def test_the_same_table_in_many_spellings(tmp_path: Path, content: str | bytes) -> None:
    read = values(site(tmp_path, {"cov": content}), needs(AGE, DX, THICK))
    assert read == {"age": [30, 50, 40], "dx": [1, -1, 0], "thick": [2.5, 0.5, NAN]}


def test_decimal_commas_are_not_read_where_the_column_has_a_point_or_the_delimiter_is_a_comma(
    tmp_path: Path,
) -> None:
    mixed = "id;age\na;7351946,5\nb;2.5\nc;3\n"
    assert "table cov (cov.csv), column age: 1 of 3 rows hold text" in refusal(
        site(tmp_path, {"cov": mixed}), needs(AGE)
    )
    quoted = 'id,age\na,"7351946,5"\nb,2\n'
    assert "1 of 2 rows hold text" in refusal(site(tmp_path, {"cov": quoted}), needs(AGE))


BAD: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "text in numbers": (
        f"id,age,dx\na,{CANARY}x,autism\nb,3,autism\nc,y{CANARY},autism\n",
        ("column age", "2 of 3 rows", "declare them under missing or codes"),
    ),
    "infinities": (
        f"id,age,dx\n{CANARY},inf,autism\nb,-Infinity,autism\nc,1e999,\n",
        ("column age", "3 of 3 rows", "repair"),
    ),
    "unknown levels": (
        f"id,age,dx\na,1,{CANARY}\nb,2,Autism\n",
        ("column dx", "2 of 2 rows", "map them under codes"),
    ),
    "ragged rows": (
        f"id,age,dx\na,1,autism\nb,{CANARY}\nc,{CANARY},autism,4\n",
        ("2 of 3 rows are broken", "expected 3 fields", "line 3, 4", "broken_rows: reject"),
    ),
    "an unclosed quote": (f'id,age,dx\na,1,"{CANARY}\nb,2,"autism"\n', ("1 of 2 rows are broken", "line 2")),
    "row names without a name": (
        f"age,dx,id\n1,{CANARY},autism,a\n2,2,autism,b\n",
        ("2 of 2 rows", "lacks a name for the first column"),
    ),
    "no rows": ("id,age,dx\n\n,,\n", ("0 rows below the header", "supply the rows")),
    "an empty file": ("\n \n", ("the table is empty", "expected a header line")),
    "duplicated ids": (
        f"id,age,dx\n{CANARY},1,autism\n{CANARY},2,autism\nb,3,autism\n",
        ("column id", "1 ids repeat, 1 rows too many", "rows: {order"),
    ),
    "missing ids": (
        f"id,age,dx\n,{CANARY},autism\n NA,2,autism\nb,3,autism\n",
        ("column id", "2 rows have no id", "fill it in"),
    ),
    "a missing id column": (f"person,age,dx\n{CANARY},1,autism\n", ("no column id", "node.yaml")),
    "a missing covariate": (
        f"id,dx\n{CANARY},autism\n",
        ("variable age", "no column age in table cov", "name its column"),
    ),
    "a doubled column": (
        f"id,age,dx,age\n{CANARY},1,autism,2\n",
        ("column age stands at positions 2 and 4", "rename"),
    ),
    "NUL": (f"id,age,dx\n{CANARY},1,\0autism\n", ("line 2", "save the table as plain UTF-8")),
    "latin-1": (f"id,age,dx\n{CANARY},1,é\n".encode("latin-1"), ("line 2", "not UTF-8")),
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_input_names_table_count_and_cure_and_no_value(tmp_path: Path, fault: str) -> None:
    content, parts = BAD[fault]
    message = refusal(site(tmp_path, {"cov": content}), needs(AGE, DX))
    for part in ("cov.csv", *parts):
        assert part in message


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    config = TablesConfig().for_file(tmp_path / "gone.csv", "id")
    assert "table data (gone.csv): cannot be read" in refusal(config, needs(AGE))


def test_several_faults_come_together(tmp_path: Path) -> None:
    bad = f"id,age,dx\na,{CANARY}x,{CANARY}\n"
    message = refusal(site(tmp_path, {"cov": bad}), needs(AGE, DX))
    assert len(message.splitlines()) == 2


def test_broken_rows_can_be_rejected_and_are_counted(tmp_path: Path) -> None:
    config = site(tmp_path, {"cov": GOOD + "x,1\n"}, options={"cov": {"broken_rows": "reject"}})
    with open_tables(config, needs(AGE)) as tables:
        assert tables.people == 3
        assert "table cov (cov.csv): 1 broken rows were rejected" in tables.report


def test_columns_nobody_asks_for_may_repeat_or_hold_anything(tmp_path: Path) -> None:
    assert values(site(tmp_path, {"cov": "id,age,x,x,\na,1,?,inf,\n"}), needs(AGE))["age"] == [1]


def test_codes_missing_codes_units_and_constants(tmp_path: Path) -> None:
    config = site(
        tmp_path,
        {"cov": "id,m,D.X,t\na,120,1,-1\nb,-9999,2,0.25\nc,66,-9999,1\n"},
        options={"cov": {"missing": ["-9999"]}},
        variables={
            "age": {"from": "cov.m", "unit": "months"},
            "dx": {"from": "cov.D.X", "codes": {"1": "autism", "2": "control"}},
            "thick": {"from": "cov.t", "unit": "cm", "missing": ["-1"]},
            "field": {"constant": "3", "unit": "tesla"},
            "sex": {"constant": "male"},
        },
    )
    read = values(
        config,
        needs(AGE, DX, THICK, Number("field", "tesla", 0, 7), Factor("sex", ("female", "male"))),
    )
    assert read == {
        "age": [10, NAN, 5.5],
        "dx": [1, 0, -1],
        "thick": [NAN, 2.5, 10],
        "field": [3, 3, 3],
        "sex": [1, 1, 1],
    }


def test_a_declared_code_in_another_spelling_is_an_error(tmp_path: Path) -> None:
    config = site(
        tmp_path, {"cov": f"id,age\na,-{CANARY}.0\nb,3\n"}, options={"cov": {"missing": [f"-{CANARY}"]}}
    )
    assert "column age: 1 of 2 rows hold a declared missing code in another spelling" in refusal(
        config, needs(AGE)
    )


@pytest.mark.parametrize(
    "unit", [{"unit": "mm3"}, {"unit": "voxels", "voxel_mm3": "2"}, {"unit": "furlongs"}]
)
def test_a_unit_that_does_not_convert(tmp_path: Path, unit: dict[str, str]) -> None:
    config = site(tmp_path, {"cov": GOOD}, variables={"thick": unit})
    with open_tables(config, needs(AGE, THICK)) as tables:
        assert tables.supplied == frozenset()
        assert "does not convert to the study's mm" in tables.missing_variables["thick"]
        assert all("thick" not in batch.numbers for batch in tables.batches())
    message = refusal(config, needs(AGE, THICK, required="age thick"))
    assert "variable thick: unit" in message
    assert "correct the unit" in message


def test_voxels_become_a_volume_by_the_declared_voxel(tmp_path: Path) -> None:
    config = site(tmp_path, {"cov": GOOD}, variables={"age": {"unit": "voxels", "voxel_mm3": "2"}})
    assert values(config, needs(Number("age", "mm3", 0, 100)))["age"] == [60, 100, 80]


def test_an_absent_outcome_makes_a_non_supplier(tmp_path: Path) -> None:
    with open_tables(
        site(tmp_path, {"cov": GOOD}), needs(AGE, DX, THICK, Number("bmi", "kg/m2", 10, 60))
    ) as tables:
        assert tables.supplied == {"thick"}
        assert set(tables.missing_variables) == {"bmi"}


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"dx": {"unit": "mm"}}, "remove unit"),
        ({"dx": {"constant": "maybe"}}, "not a level of the study"),
        ({"age": {"constant": "inf"}}, "its constant is not a number"),
    ],
)
def test_a_mapping_that_contradicts_the_study(tmp_path: Path, variables: object, sentence: str) -> None:
    assert sentence in refusal(site(tmp_path, {"cov": GOOD}, variables=variables), needs(AGE, DX))


THICKNESS = "id,thick\n001,2.5\n003,3\n1,2\n"


def test_people_are_those_in_every_table_with_a_required_variable(tmp_path: Path) -> None:
    config = site(tmp_path, {"cov": "id,age\n001,30\n1,40\n002,50\n", "t": THICKNESS})
    assert values(config, needs(AGE, THICK)) == {"age": [30, 50, 40], "thick": [2.5, NAN, 2]}
    assert values(config, needs(AGE, THICK, required="age thick")) == {"age": [30, 40], "thick": [2.5, 2]}


def test_unmatched_ids_and_near_misses_are_reported_as_counts(tmp_path: Path) -> None:
    config = site(
        tmp_path,
        {"cov": "id,age\na1,30\nsub-b,40\n007,50\nsame,60\n", "t": "id,thick\nA1,1\nb,2\n7,3\nsame,4\nz,5\n"},
    )
    with open_tables(config, needs(AGE, THICK)) as tables:
        report = "\n".join(tables.report)
    assert "3 people of table cov (cov.csv) are not in table t (t.csv)" in report
    assert "4 people of table t (t.csv) are not in table cov (cov.csv)" in report
    assert "letter case: 1, a sub- prefix: 1, zero padding: 1, any of these: 3; none was joined" in report
    assert "007" not in report


def test_nobody_in_common_is_an_error_with_the_near_misses(tmp_path: Path) -> None:
    config = site(tmp_path, {"cov": f"id,age\nFS_{CANARY},30\n", "t": f"id,thick\n{CANARY},1\n"})
    message = refusal(config, needs(AGE, THICK, required="age thick"))
    assert "0 people are left in table cov (cov.csv), table t (t.csv)" in message
    assert "an FS_ prefix: 1" in message


def test_twin_columns_must_be_named(tmp_path: Path) -> None:
    files = {"cov": "id,age,eTIV\na,1,5\n", "t": "id,thick,eTIV\na,1,6\n"}
    wanted = needs(AGE, THICK, Number("eTIV", "mm3", 0, 1e7))
    message = refusal(site(tmp_path, files), wanted)
    assert "column eTIV stands in table cov (cov.csv) and table t (t.csv); name one with from" in message
    assert values(site(tmp_path, files, variables={"eTIV": {"from": "t.eTIV"}}), wanted)["eTIV"] == [6]


VISITS = "id,visit,age\na,10,30\na,9,20\nb,baseline,40\n"


def choice(choose: object) -> dict[str, object]:
    return {"cov": {"rows": {"order": "visit", "choose": choose}}}


@pytest.mark.parametrize(
    ("choose", "ages"), [("first", [20, 40]), ("last", [30, 40]), ({"named": "9"}, [20])]
)
def test_a_repeated_person_counts_once_by_the_declared_visit(
    tmp_path: Path, choose: object, ages: list[float]
) -> None:
    assert values(site(tmp_path, {"cov": VISITS}, options=choice(choose)), needs(AGE))["age"] == ages


def test_visits_may_be_dates(tmp_path: Path) -> None:
    dated = VISITS.replace("10", "2026-11-30").replace("9,", "2025-12-31,")
    assert values(site(tmp_path, {"cov": dated}, options=choice("first")), needs(AGE))["age"] == [20, 40]


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (VISITS.replace("10", "03/11/2026"), "1 hold a number and 0 a date"),
        (VISITS.replace("10", "9.0"), "column visit does not tell them apart"),
        (VISITS.replace("10", ""), "expected all of one kind"),
    ],
)
def test_an_uncertain_order_of_visits_is_an_error(tmp_path: Path, table: str, sentence: str) -> None:
    assert sentence in refusal(site(tmp_path, {"cov": table}, options=choice("first")), needs(AGE))


def test_withdrawn_people_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "withdrawn.txt").write_bytes(b"\xef\xbb\xbf001\r\n\r\nnobody-here\r\n")
    config = site(tmp_path, {"cov": GOOD}, exclude=tmp_path / "withdrawn.txt")
    with open_tables(config, needs(AGE)) as tables:
        assert tables.people == 2
        assert "exclude (withdrawn.txt): 1 ids were left out, 1 are in no table" in tables.report
        assert tables.digest == content_digest(config)


def test_a_withdrawal_is_not_missed_for_a_spelling(tmp_path: Path) -> None:
    (tmp_path / "withdrawn.txt").write_text(f"sub-{CANARY}\n")
    config = site(tmp_path, {"cov": f"id,age\n{CANARY},3\n"}, exclude=tmp_path / "withdrawn.txt")
    assert "a sub- prefix: 1" in refusal(config, needs(AGE))


def test_renamed_columns_are_found(tmp_path: Path) -> None:
    table = "id,age,lh_G_and_S_thickness\na,1,2.5\n"
    options = {"cov": {"rename": [{"match": "lh_(.+)_and_(.+)", "to": r"lh_\1&\2"}]}}
    variable = Number("lh_G&S_thickness", "mm", 0, 5)
    assert values(site(tmp_path, {"cov": table}, options=options), needs(AGE, variable))[variable.name] == [
        2.5
    ]


def test_the_digest_names_bytes_of_all_tables_used_or_not(tmp_path: Path) -> None:
    files = {"cov": GOOD, "other": "id,x\na,1\n"}
    config = site(tmp_path, files)
    with open_tables(config, needs(AGE)) as tables:
        before = tables.digest
    assert before == content_digest(config)
    assert content_digest(site(tmp_path, files | {"other": "id,x\na,2\n"})) != before


def test_values_outside_the_range_are_reported_and_kept(tmp_path: Path) -> None:
    with open_tables(site(tmp_path, {"cov": "id,age\na,-9999\nb,3\nc,30\n"}), needs(AGE)) as tables:
        assert any("2 of 3 people lie outside the study's range" in line for line in tables.report)
        assert next(tables.batches()).numbers["age"].tolist() == [-9999, 3, 30]


def test_people_by_level_and_zeros_among_sizes_are_reported(tmp_path: Path) -> None:
    table = "id,age,dx,thick\na,0,1,0\nb,0,1,0.0\nc,30,2,2.5\nd,30,NA,-0\n"
    config = site(tmp_path, {"cov": table}, variables={"dx": {"codes": {"1": "autism", "2": "control"}}})
    with open_tables(config, needs(AGE, DX, THICK)) as tables:
        report = "\n".join(tables.report)
    assert "column thick: 3 of 4 people have exactly 0; if nothing was measured there, declare 0" in report
    assert "column age: 2 of 4 people have exactly 0" not in report
    assert (
        "column dx: people by level, to be compared with what the site knows: control 1, autism 2" in report
    )


def test_nothing_shows_data_or_stays_behind(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    config = site(tmp_path, {"cov": f"id,age\n{CANARY},{CANARY}\n"})
    with open_tables(config, needs(AGE), scratch) as tables:
        (batch,) = tables.batches()
        assert CANARY not in repr(tables) + repr(batch) + "".join(tables.report)
        (private,) = scratch.iterdir()
        assert private.stat().st_mode & 0o077 == 0
    assert not list(scratch.iterdir())
    refusal(site(tmp_path, {"cov": f"id,age\n{CANARY},x\n"}), needs(AGE))
    assert not list(scratch.iterdir())


def test_an_error_of_the_database_says_only_its_kind(tmp_path: Path) -> None:
    with Store(tmp_path) as store, pytest.raises(DataError, match=r"the join stopped \(\w+\)") as caught:
        store.count("SELECT CAST(? AS INTEGER)", [f"x{CANARY}"])
    assert CANARY not in caught.value.message
    assert caught.value.__context__ is None


def test_a_table_without_a_path_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"tables\.cov\.path"):
        open_tables(TablesConfig.model_validate({"tables": {"cov": {"id": "id"}}}), needs(AGE))
