"""Survival with advanced lung cancer at 18 institutions of 2 to 36 people, one of them unknown of one person.

The same people at one site give the models without strata: that consortium has two more sites, each with two people who are in
no analysis.
"""

import csv
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.truths.dssurv import cox
from tests.truths.libraries import CONDITIONAL, LIFELINES, OPTIMISE, SURVIVAL, frame, truth
from tests.truths.registry import ITERATIVE, WITHIN_BOUND, compared
from tests.truths.running import DATA, DataSet, Finished
from tests.truths.tally import Tally, number
from tests.truths.text import study_text

FILE = "lung_ncctg.csv"
VARIABLES = """
days: {unit: days, range: [0, 1110]}
month: {unit: months, range: [0, 40]}
seen: {levels: [alive, dead]}
age: {unit: years, range: [30, 90]}
sex: {levels: [male, female]}
sex_number: {unit: "1", range: [1, 2]}
ecog: {unit: "1", range: [0, 4]}
institution: {unit: "1", range: [0, 100]}
"""
NODE = """
variables:
  days: {from: data.time}
  seen: {from: data.status, codes: {"0": alive, "1": dead}}
  sex: {codes: {"1": male, "2": female}}
  sex_number: {from: data.sex}
  ecog: {from: data.ph.ecog}
  institution: {from: data.inst}
"""
MONTH = 30
COX = "kind: cox, time: days, status: seen, terms: [age, sex_number, ecog]"


def _write(folder: Path, site: str, people: list[list[str]], header: list[str]) -> None:
    with (folder / f"{site}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["person", *header], *([str(n), *row] for n, row in enumerate(people))])


def _read() -> tuple[list[str], list[list[str]]]:
    """Return the header and all people, each with the month of the last day: months have ties."""
    with (DATA / FILE).open(newline="") as file:
        header, *people = csv.reader(file)
    days = header.index("time")
    return [*header, "month"], [[*row, str(ceil(int(row[days]) / MONTH))] for row in people]


def _by_institution(folder: Path) -> None:
    header, people = _read()
    for site in sorted({row[0] for row in people}):
        name = f"institution-{site.removesuffix('.0') or 'unknown'}"
        _write(folder, name, [row for row in people if row[0] == site], header)


def _at_one_site(folder: Path) -> None:
    header, people = _read()
    _write(folder, "everybody", people, header)
    # younger than anybody in the table, and known by that; both statuses, so that three sites supply them
    outside = [[*people[0][:2], status, "31", *people[0][4:]] for status in ("0", "1")]
    for site in ("other-1", "other-2"):
        _write(folder, site, outside, header)


LUNG = DataSet(
    "lung_ncctg",
    FILE,
    study_text(
        "lung",
        "person",
        VARIABLES,
        f"""
curve: {{kind: kaplan_meier, time: days, status: seen, grid: {{step: 1, to: 1110}}, censored: end}}
curve_30: {{kind: kaplan_meier, time: days, status: seen, grid: {{step: 30, to: 1110}}}}
by_sex: {{kind: kaplan_meier, time: days, status: seen, grid: {{step: 1, to: 1110}}, censored: end, by: [sex]}}
sexes: {{kind: logrank, time: days, status: seen, grid: {{step: 1, to: 1110}}, by: [sex]}}
breslow: {{{COX}, ties: breslow, where: institution > 0}}
exact: {{{COX.replace("time: days", "time: month")}, ties: exact, where: institution > 0}}
""",
    ),
    node=NODE,
    prepare=_by_institution,
)
LUNG_ONE = DataSet(
    "lung_ncctg, one site",
    FILE,
    study_text(
        "lung-one",
        "person",
        VARIABLES,
        f"""
efron: {{{COX}, ties: efron, where: age > 35}}
breslow: {{{COX}, ties: breslow, where: age > 35}}
""",
        colluding=0,
        people=3,  # a site's people count for no more towards the gate than an equal share of it
    ),
    node=NODE,
    prepare=_at_one_site,
)


def known(key: str) -> Any:
    """Return one of the recorded truths."""
    return truth("lung_ncctg")[key]


@cache
def people() -> Any:
    """Return all rows together."""
    return frame(FILE)


@compared(
    LUNG,
    "kaplan_meier",
    "curve",
    "survival and its interval at every event, median, days as they are",
    "`km_at`, `km_median`, lifelines `KaplanMeierFitter`",
)
def curve(run: Finished, tally: Tally) -> None:
    _curve(run, tally, "curve", people())
    for time, survival in known("km_at").items():
        tally.same(run.row("curve", time=float(time))["survival"], survival)
    tally.same(run.row("curve.median")["median"], known("km_median"))


@compared(
    LUNG,
    "kaplan_meier",
    "by_sex",
    "the same by sex",
    "`km_median_by_sex`, lifelines `KaplanMeierFitter`",
)
def by_sex(run: Finished, tally: Tally) -> None:
    for code, sex in (("1", "male"), ("2", "female")):
        _curve(run, tally, "by_sex", people()[people().sex == int(code)], sex=sex)
        tally.same(run.row("by_sex.median", sex=sex)["median"], known("km_median_by_sex")[code])


def _curve(run: Finished, tally: Tally, table: str, group: Any, **keys: str) -> None:
    fit = LIFELINES.KaplanMeierFitter().fit(group.time, group.status)
    ends = fit.confidence_interval_survival_function_
    rows = {row["time"]: row for row in run.rows(table, **keys)}
    times: list[float] = sorted(set(group.time[group.status == 1].astype(float)))
    for time in times:
        row, survival = rows[time], float(fit.predict(time))
        tally.same(row["survival"], survival)
        if 0.0 < survival < 1.0:
            place = int(np.searchsorted(ends.index.to_numpy(), time, side="right")) - 1
            for column, value in zip(("low", "high"), ends.iloc[place], strict=True):
                tally.same(row[column], value)


@compared(
    LUNG,
    "kaplan_meier",
    "curve_30",
    "survival on a grid of 30 days",
    "lifelines `KaplanMeierFitter`",
    WITHIN_BOUND,
)
def curve_30(run: Finished, tally: Tally) -> None:
    fit = LIFELINES.KaplanMeierFitter().fit(people().time, people().status)
    for row in run.rows("curve_30", status="ok"):
        if number(row["error_bound"]) > 0:
            tally.near(row["survival"], float(fit.predict(row["time"])), number(row["error_bound"]))


@compared(
    LUNG,
    "logrank",
    "sexes",
    "chi-square, p, expected events by sex",
    "`logrank_sex`, lifelines `logrank_test`",
)
def sexes(run: Finished, tally: Tally) -> None:
    row = run.row("sexes")
    tally.all_same((row["chi2"], row["p"]), (known("logrank_sex")["chi2"], known("logrank_sex")["p"]))
    tally.exact((row["n"], row["events"]), (228, 165))
    men, women = (people()[people().sex == code] for code in (1, 2))
    test = SURVIVAL.logrank_test(men.time, women.time, men.status, women.status)
    tally.same(row["chi2"], test.test_statistic)


@compared(
    LUNG,
    "cox",
    "breslow",
    "stratified by institution: b, se, log-likelihood (Breslow)",
    "`cox_breslow_stratified_inst` (statsmodels PHReg)",
    ITERATIVE,
)
def stratified(run: Finished, tally: Tally) -> None:
    cox(run, tally, "breslow", known("cox_breslow_stratified_inst"), {"sex": "sex_number"})


@compared(
    LUNG,
    "cox",
    "exact",
    "the same in months of 30 days, ties exactly: b, se, log-likelihood",
    "statsmodels `ConditionalLogit` over the people at risk",
    ITERATIVE,
)
def exact(run: Finished, tally: Tally) -> None:
    """Given how many die of those at risk, who they are is a conditional logistic regression (Cox 1972, section 6)."""
    columns = ["age", "sex", "ph_ecog"]
    known_people = people().dropna(subset=[*columns, "inst"])
    known_people = known_people.assign(month=np.ceil(known_people.time / MONTH))
    died: list[Any] = []
    values: list[Any] = []
    for _, site in known_people.groupby("inst"):
        for month in sorted(set(site.month[site.status == 1])):
            at_risk = site[site.month >= month]
            events = ((at_risk.month == month) & (at_risk.status == 1)).to_numpy()
            if not events.all():  # otherwise there is nothing to choose
                died.append(events.astype(float))
                values.append(at_risk[columns].to_numpy(float))
    sets = np.repeat(np.arange(len(died)), [len(one) for one in died])
    assert max(one.sum() for one in died) >= 4  # ties are common
    centre = known_people[columns].mean().to_numpy()
    model = CONDITIONAL(np.concatenate(died), np.vstack(values) - centre, groups=sets)
    beta: Any = OPTIMISE.root(model.score, np.zeros(3), tol=1e-12).x
    errors = np.sqrt(np.diag(np.linalg.inv(-_slopes(model.score, beta))))
    for place, term in enumerate(("age", "sex_number", "ecog")):
        row = run.row("exact", term=term)
        tally.all_same((row["b"], row["se"]), (float(beta[place]), float(errors[place])))
    (fit,) = run.rows("exact.fit")
    tally.exact((fit["n"], fit["events"]), (len(known_people), int(known_people.status.sum())))
    tally.same(fit["log_likelihood"], float(model.loglike(beta)))


def _slopes(score: Any, beta: Any, step: float = 1e-4) -> NDArray[np.float64]:
    """Return the derivative of a score by central differences of the fourth order."""
    columns: list[NDArray[np.float64]] = []
    for unit in np.eye(len(beta)) * step:
        one, two = (
            np.asarray(score(beta + far * unit)) - np.asarray(score(beta - far * unit)) for far in (1, 2)
        )
        columns.append((8.0 * one - two) / (12.0 * step))
    return np.column_stack(columns)


@compared(
    LUNG_ONE,
    "cox",
    "efron",
    "without strata: b, se, log-likelihood (Efron)",
    "`cox_efron` (statsmodels PHReg), lifelines `CoxPHFitter`",
    ITERATIVE,
)
def efron(run: Finished, tally: Tally) -> None:
    cox(run, tally, "efron", known("cox_efron"), {"sex": "sex_number"})
    columns = ["time", "status", "age", "sex", "ph_ecog"]
    # as it comes, lifelines stops about 4e-6 from the maximum
    fit = LIFELINES.CoxPHFitter().fit(
        people()[columns].dropna(), "time", "status", fit_options={"precision": 1e-12}
    )
    for theirs, ours in (("age", "age"), ("sex", "sex_number"), ("ph_ecog", "ecog")):
        tally.same(run.row("efron", term=ours)["b"], float(fit.params_[theirs]))


@compared(
    LUNG_ONE,
    "cox",
    "breslow",
    "the same (Breslow)",
    "`cox_breslow` (statsmodels PHReg)",
    ITERATIVE,
)
def breslow(run: Finished, tally: Tally) -> None:
    cox(run, tally, "breslow", known("cox_breslow"), {"sex": "sex_number"})
