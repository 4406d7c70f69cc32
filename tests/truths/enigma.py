"""The covariates and FA values of the ENIGMA regression tutorial, and the volumes of the ENIGMA Toolbox's example.

Each is the table of one site. They are dealt out to three, so that one intercept gives the model of the tutorial.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.truths.libraries import coefficients, moments, quantiles, truth
from tests.truths.registry import WITHIN_BOUND, compared
from tests.truths.running import DATA, DataSet, Finished
from tests.truths.tally import Tally
from tests.truths.text import study_text

REGIONS = ("AverageFA", "GCC", "FX", "CST_L", "UNC_R")
VOLUMES = ("Age", "Lhippo", "Rhippo", "ICV")


def _joined(covariates: str, measures: str) -> list[dict[str, str]]:
    """Return the rows of two tables by id; the covariates win where both have a column."""
    read: list[dict[str, dict[str, str]]] = []
    for name in (covariates, measures):
        text = (DATA / "enigma_format" / name).read_text()  # universal line ends: bare CR, CRLF, LF
        read.append({row["SubjID"]: row for row in csv.DictReader(text.splitlines())})
    first, second = read
    return [second[person] | row for person, row in first.items()]


def _dealt(covariates: str, measures: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        rows = _joined(covariates, measures)
        for place in range(3):
            with (folder / f"part{place + 1}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows[place::3])

    return write


TUTORIAL = DataSet(
    "enigma tutorial",
    "enigma_format/tutorial_metr_FA.csv",
    study_text(
        "enigma-tutorial",
        "SubjID",
        f"""
Dx: {{levels: ["0", "1"]}}
Age: {{unit: years, range: [0, 100]}}
Sex: {{unit: "1", range: [1, 2]}}
{chr(10).join(f"{region}: {{unit: '1', range: [0, 1]}}" for region in REGIONS)}
""",
        f"""
effects:
  kind: regression
  outcomes: [{", ".join(REGIONS)}]
  terms: [Dx, Age, Sex]
  site_effect: none
  report: {{effect: Dx}}
""",
        colluding=0,
    ),
    prepare=_dealt("tutorial_covariates.csv", "tutorial_metr_FA.csv"),
)
TOOLBOX = DataSet(
    "enigma toolbox",
    "enigma_format/toolbox_cov.csv",
    study_text(
        "enigma-toolbox",
        "SubjID",
        """
Dx: {levels: ["0", "1"]}
Age: {unit: years, range: [0, 100]}
Lhippo: {unit: mm3, range: [0, 9000]}
Rhippo: {unit: mm3, range: [0, 9000]}
ICV: {unit: mm3, range: [500000, 2500000]}
""",
        """
describe: {kind: summary, variables: [Age, Lhippo, Rhippo, ICV]}
people: {kind: crosstab, factors: [Dx]}
percentiles:
  kind: quantiles
  variables: [Lhippo, Rhippo]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {from: 0, to: 9000, count: 900}
""",
        colluding=0,
        people=6,
    ),
    prepare=_dealt("toolbox_cov.csv", "toolbox_metr1_SubVol.csv"),
)


def known(key: str) -> Any:
    """Return one of the recorded truths."""
    return truth("enigma_format/enigma")[key]


@compared(
    TUTORIAL,
    "regression",
    "effects",
    "5 regions: b, se, t, p and Cohen's d by ENIGMA's recipe",
    "`models` (statsmodels OLS)",
)
def effects(run: Finished, tally: Tally) -> None:
    names = {"Intercept": "intercept", "Dx": "Dx[1]", "Age": "Age", "Sex": "Sex"}
    for region in REGIONS:
        one = known("models")[region]
        coefficients(run, tally, "effects", region, names, one)
        row, effect = run.row("effects", outcome=region, term="Dx[1]"), one["cohen_d"]
        tally.all_same(
            (row[column] for column in ("d", "d_se", "d_low", "d_high")),
            (effect[key] for key in ("d", "se", "lo", "hi")),
        )
        tally.exact((row["n_reference"], row["n_level"]), (effect["n_ctl"], effect["n_pat"]))


@compared(
    TOOLBOX, "summary", "describe people", "n, mean, variance, sums; people per arm", "`toolbox` (pandas)"
)
def describe(run: Finished, tally: Tally) -> None:
    for variable in VOLUMES:
        moments(run, tally, "describe", variable, known("toolbox")["describe"][variable])
    for level, count in known("toolbox")["dx"].items():
        tally.exact(run.row("people", Dx=level)["count"], count)


@compared(
    TOOLBOX, "quantiles", "percentiles", "5 quantiles of the hippocampi", "`toolbox` (pandas)", WITHIN_BOUND
)
def percentiles(run: Finished, tally: Tally) -> None:
    for variable in VOLUMES[1:3]:
        quantiles(run, tally, "percentiles", variable, known("toolbox")["describe"][variable])
