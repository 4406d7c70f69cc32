"""docs/accuracy.md: the table of all comparisons, and the published numbers of DataSHIELD's example cohorts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.truths.cnsim import BINOMIAL, CNSIM, GAUSSIAN, PROBABILITIES
from tests.truths.dssurv import DSSURV, PIECES, POISSON
from tests.truths.libraries import truth
from tests.truths.registry import WITHIN_BOUND, Comparison, Runs
from tests.truths.running import Finished
from tests.truths.tally import Tally, number

COLUMNS = (
    *("kind", "statistic", "data", "reference", "largest error", "tolerance"),
    *("numbers compared", "rounds", "numbers per site"),
)
HEAD = """\
# Accuracy

Every kind of analysis, run over real tables through the whole protocol (sessions, masks, gates, as many rounds as it takes, without noise) and compared with another library that sees the same rows together. `make truths` runs all of it again and writes this page; `python -m pytest tests/truths` holds every line to its tolerance. The tables are larger than this repository and under licences of their own, so both need them beside it.

**How to read it.** The error is the largest over *all* numbers of the comparison: |found - known| / |known|, and absolute where the known value is 0. Ends of intervals and estimates that may lie near 0 are judged against their standard error, shifts of ComBat against the pooled SD, z-scores and loadings against 1, tau2 against the sampling variance of an average site; where counts differ the error is infinite. Values that are read off a public grid stand with a bound of their own: there the error is divided by the bound, and 1 is the most that is allowed. Names in backticks without a library's name are keys of recorded values, which other libraries made of all rows together. *Rounds* and *numbers per site* are those of the analysis alone, over all its rounds; the analyses of a study share their rounds.
"""
DATA_SETS = """\
## Data

| data | what | sites |
|---|---|---|
| impac_asd | autism and control, FreeSurfer thickness and volumes | 34 of 11 to 106 people; two with cases only |
| abide1_qc | ABIDE I, phenotypes and image quality | 20 of 27 to 184; five of one sex |
| fcon1000 | 1000 Functional Connectomes, FreeSurfer, healthy | 23 of 3 to 198 |
| cnsim1-3, dssurv | DataSHIELD's simulated cohorts | 3 |
| lung_ncctg | NCCTG advanced lung cancer, by institution | 18 of 2 to 36, and one person of unknown institution; then all at one site |
| enigma tutorial, toolbox | ENIGMA's examples, dealt out to three sites | 3 |
"""
SOURCES = """\
## Sources

- DataSHIELD: the tests of `ds.mean`, `ds.glm` and `ds.quantileMean` in [dsBaseClient](https://github.com/datashield/dsBaseClient), folder `tests/testthat` (`test-smk-ds.mean.R`, `test-smk-ds.quantileMean.R` and the tests of `ds.glm`); data sets CNSIM and SURVIVAL/EXPAND_MISSING of the same folder.
- statsmodels (Seabold, S. and Perktold, J. 2010), scipy, numpy, pandas; lifelines (Davidson-Pilon, C. 2019, *Journal of Open Source Software* 4, 1317); neuroCombat (Fortin, J.-P. et al. 2018).
- Formulas and their sources: [statistics](statistics.md#sources).
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison that has been made."""

    comparison: Comparison
    tally: Tally
    rounds: int
    numbers: int

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.tally.largest <= self.comparison.tolerance

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the texts of one row, in the order of `COLUMNS`."""
        one, bounded = self.comparison, self.comparison.tolerance == WITHIN_BOUND
        error = (
            f"{self.tally.largest:.2f} of its bound"
            if bounded
            else f"{self.tally.largest:.1e}".replace("e-0", "e-")
        )
        return (
            f"`{one.kind}`",
            one.statistic,
            one.data.name,
            one.reference,
            "equal" if self.tally.largest == 0 else error,
            "its bound" if bounded else f"{one.tolerance:.0e}".replace("e-0", "e-"),
            str(self.tally.count),
            str(self.rounds),
            str(self.numbers),
        )


def lines(comparisons: Iterable[Comparison], runs: Runs) -> list[Line]:
    """Make every comparison."""
    made: list[Line] = []
    for one in comparisons:
        run = runs[one.data]
        made.append(Line(one, one.error(run), *one.cost(run)))
    return made


def markdown(made: Sequence[Line], runs: Runs) -> str:
    """Return the page."""
    parts = [
        HEAD,
        _table(COLUMNS, (line.cells for line in made)),
        DATA_SETS,
        _datashield(runs[CNSIM], runs[DSSURV]),
        SOURCES,
    ]
    return "\n".join(parts)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    ruled = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in ruled)


def _datashield(cnsim: Finished, dssurv: Finished) -> str:
    return f"""\
## DataSHIELD's published numbers

DataSHIELD tests itself against numbers of its simulated cohorts. Those that are exact for all rows together come out here as well:

{_table(("number", "published", "here"), _published(cnsim, dssurv))}
The means of single studies, which those tests print too, are not opened here: a level that one site alone has is `too few sites`.

Counts and coefficients of the same analyses, against a fit of all rows together:

{_table(("analysis", "term", "all rows together", "here"), _coefficients(cnsim, dssurv))}
**Quantiles are not exact there.** `ds.quantileMean` gives the mean of the sites' quantiles, weighted by their people, and says nothing of its error. HDL cholesterol in CNSIM (mmol/l):

{_table(("probability", "one round, bins of 0.1", "its bound", "refined", "its bound", "`ds.quantileMean`", "all rows together"), _quantiles(cnsim))}"""


def _published(cnsim: Finished, dssurv: Finished) -> list[tuple[str, str, str]]:
    mean, glm = "ds.mean LAB_TSC pooled", "ds.glm"
    said: Any = truth("cnsim")["published_in_dsBaseClient_tests"]
    rates: Any = truth("dssurv")["published_in_dsBaseClient_tests"]
    row = cnsim.row("labs", variable="LAB_TSC")
    gaussian = cnsim.row("gaussian", term="LAB_TRIG")
    linear, logistic = (
        said[f"{glm} gaussian LAB_TSC~LAB_TRIG"],
        said[f"{glm} binomial DIS_DIAB~GENDER*PM_BMI_CONTINUOUS+LAB_HDL"],
    )
    (poisson,) = rates.values()
    found = [
        ("mean of LAB_TSC", said[mean][0], row["mean"]),
        ("people of LAB_TSC: valid", 7825, row["n"]),
        ("people of LAB_TSC: missing", 1554, row["missing"]),
        ("LAB_TSC ~ LAB_TRIG: people", linear["Nvalid"], gaussian["n"]),
        ("LAB_TSC ~ LAB_TRIG: df", linear["df"], gaussian["df"]),
    ]
    for name, published, fit in (
        ("DIS_DIAB ~ GENDER * PM_BMI_CONTINUOUS + LAB_HDL", logistic, cnsim.row("binomial.fit")),
        ("survtime ~ 1 + time.id + female", poisson, dssurv.row("poisson.fit")),
    ):
        found += [
            (f"{name}: people", published["Nvalid"], fit["n"]),
            (f"{name}: df", published["df"], fit["df"]),
            (f"{name}: deviance", published["deviance"], f"{number(fit['deviance']):.6f}"),
        ]
    return [(name, str(published), str(here)) for name, published, here in found]


def _coefficients(cnsim: Finished, dssurv: Finished) -> list[tuple[str, str, str, str]]:
    found = [
        ("table(GENDER, DIS_DIAB)", cell, str(count), str(_count(cnsim, cell)))
        for cell, count in truth("cnsim")["table_GENDER_DIS_DIAB"].items()
    ]
    for name, run, table, names, known in (
        ("gaussian", cnsim, "gaussian", GAUSSIAN, truth("cnsim")["gaussian"]),
        ("binomial", cnsim, "binomial", BINOMIAL, truth("cnsim")["binomial"]),
        ("Poisson", dssurv, "poisson", POISSON, truth("dssurv")["poisson_survtime"]),
        ("piecewise exponential", dssurv, "pieces", PIECES, truth("dssurv")["piecewise_exponential"]),
    ):
        found += [
            (
                name,
                ours,
                f"{known['coef'][theirs]['b']:.10g}",
                f"{number(run.row(table, term=ours)['b']):.10g}",
            )
            for theirs, ours in names.items()
        ]
    return found


def _count(run: Finished, cell: str) -> Any:
    gender, level = cell.split("/")
    return run.row("diabetes", GENDER=gender, DIS_DIAB=level)["count"]


def _quantiles(run: Finished) -> list[tuple[str, ...]]:
    known = truth("cnsim")["LAB_HDL_quantileMean"]
    published: Any = truth("cnsim")["published_in_dsBaseClient_tests"]["ds.quantileMean LAB_HDL"]
    rows: list[tuple[str, ...]] = []
    for probability, theirs, exact in zip(PROBABILITIES, published, known["exact_pooled"], strict=True):
        once, refined = (run.row(table, probability=probability) for table in ("hdl", "hdl_refined"))
        values = (*(number(row[key]) for row in (once, refined) for key in ("value", "error_bound")), theirs)
        rows.append((str(probability), *(f"{value:.4f}" for value in values), f"{exact:.4f}"))
    return rows
