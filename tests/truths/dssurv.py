"""Three simulated cohorts followed in intervals: rates, hazards by pieces, and proportional hazards with late entry.

A row is one interval of a person. Rows are taken for people, as the published analyses take them: the likelihoods of rates and
of proportional hazards are products over intervals. The level of a factor that one site alone has would be `too few sites`, so
studies are told apart by numbers.

The recorded truths take who comes at the time of an event for being at risk of it; here, as in R, it is who came before. Starts
that are a little earlier give the truth, and starts as they are what statsmodels says of starts that are a little later.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.truths.libraries import HAZARD, coefficients, frame, truth
from tests.truths.registry import ITERATIVE, compared
from tests.truths.running import DATA, DataSet, Finished
from tests.truths.tally import Tally
from tests.truths.text import study_text

FILES = ("dssurv_expand1.csv", "dssurv_expand2.csv", "dssurv_expand3.csv")
POISSON = {"Intercept": "intercept", "time_id": "period", "female": "female[1]"}
PIECES = {
    "Intercept": "intercept",
    "age_60": "age_60",
    "female": "female[1]",
    "bmi_26": "bmi_26",
    **{f"C(time_id)[T.{band}]": f"band[{band}]" for band in range(2, 7)},
    **{f"C(study)[T.{study}]": f"study_{study}" for study in (2, 3)},
}


def _tables(folder: Path) -> None:
    for name in FILES:
        (folder / name).write_bytes((DATA / name).read_bytes())


DSSURV = DataSet(
    "dssurv",
    FILES[0],
    study_text(
        "dssurv",
        "column_1",
        """
survtime: {unit: years, range: [0, 5]}
exposure: {unit: years, range: [0.0001, 5], out_of_range: exclude}
events: {unit: events, range: [0, 1]}
ended: {levels: [alive, dead]}
begin: {unit: years, range: [0, 20]}
end: {unit: years, range: [0, 20]}
period: {unit: "1", range: [1, 6]}
band: {levels: ["1", "2", "3", "4", "5", "6"]}
study: {unit: "1", range: [1, 3]}
study_level: {levels: ["1", "2", "3"]}
age_60: {unit: years, range: [-60, 60]}
bmi_26: {unit: kg/m2, range: [-26, 40]}
female: {levels: ["0", "1"]}
female_number: {unit: "1", range: [0, 1]}
""",
        """
by_study: {kind: crosstab, factors: [study_level]}
poisson: {kind: glm, family: poisson, outcomes: [survtime], terms: [period, female]}
pieces:
  kind: glm
  family: poisson
  outcomes: [events]
  terms: [band, age_60, female, bmi_26, study_2, study_3]
  exposure: exposure
breslow:
  kind: cox
  time: end
  start: begin_earlier
  status: ended
  terms: [age_60, female_number, bmi_26]
  ties: breslow
efron:
  kind: cox
  time: end
  start: begin_earlier
  status: ended
  terms: [age_60, female_number, bmi_26]
  ties: efron
as_they_are:
  kind: cox
  time: end
  start: begin
  status: ended
  terms: [age_60, female_number, bmi_26]
  ties: breslow
""",
        """
study_2: "(study - 1) * (3 - study)"
study_3: "(study - 1) * (study - 2) / 2"
begin_earlier: "begin - 0.0000001"
""",
        floor=20,
        colluding=0,
    ),
    node="""
variables:
  exposure: {from: data.survtime}
  events: {from: data.cens}
  ended: {from: data.cens, codes: {"0": alive, "1": dead}}
  begin: {from: data.starttime}
  end: {from: data.endtime}
  period: {from: data.time.id}
  band: {from: data.time.id}
  study: {from: data.study.id}
  study_level: {from: data.study.id}
  age_60: {from: data.age.60}
  bmi_26: {from: data.bmi.26}
  female_number: {from: data.female}
""",
    prepare=_tables,
)


def known(key: str) -> Any:
    """Return one of the recorded truths."""
    return truth("dssurv")[key]


@compared(
    DSSURV,
    "glm",
    "poisson",
    "Poisson: b, se, deviance, log-likelihood",
    "`poisson_survtime` (statsmodels GLM)",
    ITERATIVE,
)
def poisson(run: Finished, tally: Tally) -> None:
    one = known("poisson_survtime")
    coefficients(run, tally, "poisson", "survtime", POISSON, one)
    fit = run.row("poisson.fit")
    tally.all_same((fit["deviance"], fit["log_likelihood"]), (one["deviance"], one["loglik"]))


@compared(
    DSSURV,
    "glm",
    "pieces",
    "piecewise exponential hazards with study effects",
    "`piecewise_exponential` (statsmodels GLM)",
    ITERATIVE,
)
def pieces(run: Finished, tally: Tally) -> None:
    one = known("piecewise_exponential")
    coefficients(run, tally, "pieces", "events", PIECES, one)
    tally.same(run.row("pieces.fit")["deviance"], one["deviance"])


@compared(
    DSSURV,
    "cox",
    "breslow",
    "stratified by study, late entry: b, se, log-likelihood (Breslow)",
    "`cox_stratified_by_study_breslow` (statsmodels PHReg)",
    ITERATIVE,
)
def breslow(run: Finished, tally: Tally) -> None:
    cox(run, tally, "breslow", known("cox_stratified_by_study_breslow"), {"female": "female_number"})


@compared(
    DSSURV,
    "cox",
    "efron",
    "the same (Efron)",
    "`cox_stratified_by_study_efron` (statsmodels PHReg)",
    ITERATIVE,
)
def efron(run: Finished, tally: Tally) -> None:
    cox(run, tally, "efron", known("cox_stratified_by_study_efron"), {"female": "female_number"})


@compared(
    DSSURV,
    "cox",
    "as_they_are",
    "the same for who came before the event, as in R (Breslow)",
    "statsmodels `PHReg`, entry moved by 1e-7",
    ITERATIVE,
)
def as_they_are(run: Finished, tally: Tally) -> None:
    columns = ["age_60", "female", "bmi_26"]
    rows = frame(*FILES).dropna(subset=[*columns, "starttime", "endtime", "cens"])
    rows = rows[rows.endtime > rows.starttime]
    model = HAZARD.PHReg(
        rows.endtime,
        rows[columns],
        status=rows.cens,
        entry=rows.starttime + 1e-7,
        strata=rows.file,
        ties="breslow",
    ).fit()
    tally.same(run.row("as_they_are.fit")["log_likelihood"], model.llf)
    for place, term in enumerate(("age_60", "female_number", "bmi_26")):
        row = run.row("as_they_are", term=term)
        tally.all_same((row["b"], row["se"]), (model.params[place], model.bse[place]))


def cox(run: Finished, tally: Tally, table: str, one: Any, names: Mapping[str, str]) -> None:
    """Compare people, events, log-likelihood, b and se; ``names`` holds the terms that are called otherwise here."""
    (fit,) = run.rows(f"{table}.fit")
    tally.exact((fit["n"], fit["events"], fit["status"]), (one["n"], one["events"], "ok"))
    tally.same(fit["log_likelihood"], one["loglik"])
    coefs: dict[str, dict[str, float]] = one["coef"]
    for theirs, coefficient in coefs.items():
        row = run.row(table, term=names.get(theirs, theirs))
        tally.all_same((row["b"], row["se"]), (coefficient["b"], coefficient["se"]))
