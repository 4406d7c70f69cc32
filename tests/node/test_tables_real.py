"""The reader on real tables; right values are those of pandas or of the data's documentation."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cohortsum.crypto.errors import DataError
from cohortsum.node.config import TablesConfig
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import Tables, open_tables
from cohortsum.study.variables import Factor, Number, Variable

DATA = Path(__file__).resolve().parents[2] / "../shared/data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the larger real tables are not on this machine")


def numbers(*names: str) -> list[Variable]:
    return [Number(name, "any", -1e12, 1e12) for name in names]


def wants(required: list[Variable], suppliable: list[Variable]) -> Needs:
    return Needs(
        {variable.name: variable for variable in (*required, *suppliable)},
        frozenset(variable.name for variable in required),
        frozenset(variable.name for variable in suppliable),
    )


def one_file(name: str, person: str, wanted: Needs, missing: tuple[str, ...] = ()) -> Tables:
    shared = TablesConfig.model_validate({"tables": {"data": {"id": person, "missing": missing}}})
    return open_tables(shared.for_file(DATA / name, person), wanted)


def column(tables: Tables, name: str) -> NDArray[np.float64]:
    return np.concatenate([batch.numbers[name] for batch in tables.batches(500)])


def raw(name: str, person: str, wanted: str) -> NDArray[np.float64]:
    """Return a column in the order of ids, read by the csv module and float."""
    with (DATA / name).open(newline="") as handle:
        rows = sorted(csv.DictReader(handle), key=lambda row: row[person])
    return np.array([float(row[wanted]) if row[wanted] else np.nan for row in rows])


def test_impac_is_read_whole() -> None:
    with (DATA / "impac_asd.csv").open() as handle:
        thickness = [name for name in next(csv.reader(handle)) if name.endswith("_thickness")]
    covariates = [*numbers("age"), Factor("sex", ("F", "M")), Factor("asd", ("0", "1"))]
    with one_file("impac_asd.csv", "SubjID", wants(covariates, numbers(*thickness))) as tables:
        assert tables.people == 1150
        assert tables.supplied == set(thickness)
        for name in ("age", "lh_cuneus_thickness", "rh_insula_thickness"):
            np.testing.assert_array_equal(column(tables, name), raw("impac_asd.csv", "SubjID", name))


@pytest.mark.parametrize(("study", "people"), [(1, 2163), (2, 3088), (3, 4128)])
def test_cnsim_headers_with_blanks_and_an_unnamed_first_column(study: int, people: int) -> None:
    wanted = wants([Factor("GENDER", ("0", "1"))], numbers("LAB_TSC", "LAB_HDL"))
    with one_file(f"cnsim{study}.csv", "column_1", wanted) as tables:
        assert tables.people == people
        np.testing.assert_array_equal(column(tables, "LAB_HDL"), raw(f"cnsim{study}.csv", "", "LAB_HDL  "))


def test_abide_sentinels_are_missing_only_when_declared() -> None:
    wanted = wants(numbers("AGE_AT_SCAN"), numbers("FIQ", "BMI", "anat_snr"))
    with one_file("abide1_qc.csv", "SUB_ID", wanted) as tables:
        plain = column(tables, "FIQ")
    with one_file("abide1_qc.csv", "SUB_ID", wanted, ("-9999",)) as tables:
        assert tables.people == 1112
        declared = column(tables, "FIQ")
    assert np.count_nonzero(plain == -9999) > 0
    np.testing.assert_array_equal(declared, np.where(plain == -9999, np.nan, plain))
    np.testing.assert_array_equal(plain, raw("abide1_qc.csv", "SUB_ID", "FIQ"))


def test_enigma_tutorial_with_bare_cr_and_two_tables() -> None:
    folder = DATA / "enigma_format"
    config = TablesConfig.model_validate(
        {
            "tables": {
                "cov": {"path": folder / "tutorial_covariates.csv", "id": "SubjID"},
                "fa": {"path": folder / "tutorial_metr_FA.csv", "id": "SubjID"},
            }
        }
    )
    wanted = wants([*numbers("Age"), Factor("Dx", ("0", "1"))], numbers("AverageFA"))
    with open_tables(config, wanted) as tables:
        assert tables.people == 154
        fa = column(tables, "AverageFA")
    np.testing.assert_array_equal(fa, raw("enigma_format/tutorial_metr_FA.csv", "SubjID", "AverageFA"))


def test_enigma_toolbox_with_crlf_beside_lf_and_twin_columns() -> None:
    folder = DATA / "enigma_format"
    tables_of = {
        "cov": "toolbox_cov.csv",
        "vol": "toolbox_metr1_SubVol.csv",
        "ct": "toolbox_metr2_CortThick.csv",
    }
    settings = {"tables": {name: {"path": folder / file, "id": "SubjID"} for name, file in tables_of.items()}}
    wanted = wants(numbers("Age"), numbers("Lhippo", "L_bankssts_thickavg", "ICV"))
    with pytest.raises(DataError, match=r"column ICV stands in table cov .* and table vol .* and table ct"):
        open_tables(TablesConfig.model_validate(settings), wanted)
    named = TablesConfig.model_validate(settings | {"variables": {"ICV": {"from": "vol.ICV"}}})
    with open_tables(named, wanted) as tables:
        assert tables.people == 20
        np.testing.assert_array_equal(
            column(tables, "Lhippo"), raw("enigma_format/toolbox_metr1_SubVol.csv", "SubjID", "Lhippo")
        )


def test_openneuro_repeats_28_people() -> None:
    with pytest.raises(DataError, match=r"column sub_id: 28 ids repeat, 28 rows too many"):
        one_file("openneuro6_messy.csv", "sub_id", wants(numbers("age"), []))


@pytest.mark.parametrize(("choose", "pick"), [("first", min), ("last", max)])
def test_openneuro_counts_everybody_once_by_the_declared_visit(
    choose: str, pick: Callable[[list[float]], float]
) -> None:
    """546 rows, 518 people: the 28 who repeat count once, at the age that was declared to count."""
    config = TablesConfig.model_validate(
        {
            "tables": {
                "t": {
                    "path": DATA / "openneuro6_messy.csv",
                    "id": "sub_id",
                    "rows": {"order": "age", "choose": choose},
                }
            }
        }
    )
    ages: dict[str, list[float]] = {}
    with (DATA / "openneuro6_messy.csv").open(newline="") as handle:
        for row in csv.DictReader(handle):
            ages.setdefault(row["sub_id"], []).append(float(row["age"]))
    with open_tables(config, wants(numbers("age"), numbers("rh_G&S_frontomargin_thickness"))) as tables:
        assert tables.people == len(ages) == 518
        assert "table t (openneuro6_messy.csv): 28 rows of other visits were not used" in tables.report
        np.testing.assert_array_equal(column(tables, "age"), [pick(ages[person]) for person in sorted(ages)])


def test_dssurv_names_with_dots_and_quotes() -> None:
    with one_file("dssurv_expand1.csv", "column_1", wants(numbers("age.60"), [])) as tables:
        assert tables.people == 2060
