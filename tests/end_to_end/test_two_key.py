"""Two-key mode over real processes, on real tables: masking's bits, and no result without the trustee."""

import csv
import json
from pathlib import Path

import pytest

from cohortsum.cli.results import read_document
from cohortsum.cli.simulate import processes
from cohortsum.cli.simulate.consortium import TRUSTEE
from cohortsum.crypto.errors import RoundFailedError
from cohortsum.study import building
from tests.end_to_end.studies import CNSIM, DATA, IMPAC_NODE
from tests.end_to_end.test_real_data import assert_equals_pooled, cnsim_folder, impac, simulate

pytestmark = pytest.mark.skipif(
    not (DATA / "impac_asd.csv").exists(), reason="the real tables are not beside this repository"
)
TABLE = DATA / "impac_asd.csv"


def locked(study: str) -> str:
    """Return a study in two-key mode."""
    return study.replace("protection:\n", "protection:\n  mode: two_key\n", 1)


def tables(folder: Path) -> dict[str, list[list[str]]]:
    """Return every table of a run."""
    found: dict[str, list[list[str]]] = {}
    for path in sorted((folder / "results").glob("*.csv")):
        with path.open(newline="") as file:
            found[path.name] = list(csv.reader(file))
    return found


def test_regression_over_34_sites_equals_masking_bit_for_bit_on_the_same_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("locked", "masked"):
        (tmp_path / folder).mkdir()
    run = simulate(tmp_path / "locked", locked(impac()), TABLE, split_by="site", node=IMPAC_NODE)
    assert len(read_document(run.folder).sites.survivors) == 34
    monkeypatch.setattr(building, "MASKED_BITS", building.ENCRYPTED_BITS)
    masked = simulate(tmp_path / "masked", impac(), TABLE, split_by="site", node=IMPAC_NODE, in_process=True)
    held, expected = tables(run.folder), tables(masked.folder)
    assert held == expected
    assert len(held["thickness.csv"]) > 3 * 60
    events = [
        json.loads(line)
        for line in (run.folder / "consortium" / "logs" / "trustee.jsonl").read_text().splitlines()
    ]
    assert {event["event"] for event in events} >= {"trustee.listening"}


@pytest.mark.faults
def test_the_sum_of_the_survivors_opens_when_sites_die(tmp_path: Path) -> None:
    """As under masking: 3 die before they send, 5 after; the 5 count."""
    before, after = ["3", "14", "31"], ["0", "7", "12", "22", "33"]
    dying = dict.fromkeys(before, "site.r2.before") | dict.fromkeys(after, "site.r2.sent")
    study = locked(impac(min_sites=23, step="10s"))
    run = simulate(tmp_path, study, TABLE, split_by="site", node=IMPAC_NODE, failpoints=dying)
    survivors = set(read_document(run.folder).sites.survivors)
    assert len(survivors) == 31
    assert survivors & {*before, *after} == set(after)
    assert_equals_pooled(run.folder, survivors, ("lh_fusiform_thickness", "rh_insula_thickness"))


@pytest.mark.parametrize("point", ["trustee.unlock.before", "trustee.unlock.recorded"])
def test_a_trustee_that_dies_ends_the_study_without_a_result(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "GATHER_BASE_S", 12.0)
    study = locked(CNSIM.replace("20s", "2s"))
    with pytest.raises(RoundFailedError, match="trustee"):
        simulate(tmp_path, study, cnsim_folder(tmp_path), failpoints={TRUSTEE: point})
    assert not list((tmp_path / "out").rglob("result.json"))
