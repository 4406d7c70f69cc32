"""What the soak's studies are about: small tables with known answers, studies over them, and what each must give.

Every site's rows come from a generator of its own, with ids and values that occur nowhere else, so that a row that leaks is
recognised. A released table is computed again from the rows of the sites that the document names, by plain numpy and scipy and
none of the product's statistics; a number that nobody computed again is a fault. Under noise the numbers must be near: within
`FAR` of the standard errors that the table itself states.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm, t

from cohortsum.report.document import ResultDocument

ID_WORD = "wombatine"
"""Every id begins with it, and nothing else holds it."""
REMARK = "vermilion bandicoot"
"""Free text of people in a column that no study asks for."""
EDGES = (60, 70, 80, 90, 100)
EPOCH = "soak"
KINDS = ("counts", "regression", "logistic", "noised")
WEIGHTS = (40, 25, 10, 25)
FAR = 8.0
"""Standard errors by which a mean under noise may be off."""
FAR_COUNT = 200
"""People by which a count under noise may be off; a mask that was not removed is off by thousands of billions."""
CLOSE = 1e-7
"""Greatest relative difference of an exact number; of a fit that converged, between two implementations."""

STUDY = """
study: {name}
title: Soak
version: 1
roster: {roster}
expires: 2099-12-31
person: person_id
variables:
  dx: {{levels: [control, case]}}
  sex: {{levels: [female, male]}}
  age: {{unit: years, range: [60, 100]}}
  thick: {{unit: mm, range: [1, 4]}}
cohort: {{epoch: {epoch}}}
analyses:
{analyses}
protection:
  min_sites: {least}
  min_participants: 20
  max_participants: 100000
  min_participants_per_site: 2
  max_colluding_sites: {colluding}
  max_attempts: 4
privacy: {privacy}
release: {{checkers: {{consortium: 0, sites: none}}}}
deadlines: {{gather: {gather}s, step: {step}s, step_max: {gather}s, rejoin: {gather}s, tick: 20ms}}
"""
ANALYSES = {
    "counts": """  ages: {kind: summary, variables: [age, thick], by: [dx]}
  bands: {kind: histogram, variables: [age], edges: [60, 70, 80, 90, 100]}
  cells: {kind: crosstab, factors: [dx, sex]}""",
    "regression": """  ages: {kind: summary, variables: [age, thick], by: [dx]}
  thickness: {kind: regression, outcomes: [thick], terms: [dx, age], site_effect: none}""",
    "logistic": "  odds: {kind: glm, family: binomial, outcomes: [dx], terms: [age, sex]}",
    "noised": "  ages: {kind: summary, variables: [age], by: [dx]}",
}
NOISED = "{noise: distributed, epsilon: 2, delta: 1.0e-6, accept_noise: true}"
Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]
Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Rows:
    """People: two factors as codes of their levels, and two numbers."""

    dx: Codes
    sex: Codes
    age: Numbers
    thick: Numbers

    @classmethod
    def of_site(cls, seed: int, site: int) -> "Rows":
        """Return the rows of one site."""
        draw = random.Random(f"rows/{seed}/{site}")  # noqa: S311  decides what a test is about
        number = draw.randrange(12, 60)
        dx = np.array([row % 2 for row in range(number)])
        sex = np.array([draw.randrange(2) for _ in range(number)])
        age = np.array([round(draw.uniform(61, 99), 9) for _ in range(number)])
        noise = np.array([draw.uniform(-0.4, 0.4) for _ in range(number)])
        thick = np.round(2.9 + 0.01 * site - 0.2 * dx - 0.008 * (age - 60) + noise, 9)
        return cls(dx, sex, age, thick)

    @classmethod
    def pooled(cls, held: Iterable["Rows"]) -> "Rows":
        """Return the rows of several sites below each other."""
        parts = list(held)
        return cls(
            np.concatenate([rows.dx for rows in parts]),
            np.concatenate([rows.sex for rows in parts]),
            np.concatenate([rows.age for rows in parts]),
            np.concatenate([rows.thick for rows in parts]),
        )

    def csv(self, site: int) -> str:
        """Return the table as a site has it."""
        lines = ["person_id,dx,sex,age,thick,remark"]
        for row, (dx, sex, age, thick) in enumerate(
            zip(self.dx, self.sex, self.age, self.thick, strict=True)
        ):
            level, of_sex = ("control", "case")[dx], ("female", "male")[sex]
            lines.append(f"{ID_WORD}{site:02d}{row:03d},{level},{of_sex},{age:.9f},{thick:.9f},{REMARK}")
        return "\n".join(lines) + "\n"


def study_text(name: str, kind: str, roster: int, sites: int, slow: int = 1) -> str:
    """Return a study of one of `KINDS`, for a consortium of so many sites; waits are ``slow`` times as long as need be."""
    return STUDY.format(
        name=name,
        roster=roster,
        epoch=EPOCH,
        analyses=ANALYSES[kind],
        least=max(3, 2 * sites // 3),
        colluding=1 if sites >= 7 else 0,
        privacy=NOISED if kind == "noised" else "{noise: none}",
        gather=20 * slow,
        step=4 * slow,
    )


def faults_in(document: ResultDocument, tables: Mapping[str, Rows]) -> list[str]:
    """Return what is wrong with the numbers of a document, given every site's rows by its id; empty if all are right."""
    survivors = document.sites.survivors
    everybody = Rows.pooled(tables[site] for site in survivors)
    gone = {site for left in document.round.left_out for site in left.sites}
    last = Rows.pooled(tables[site] for site in survivors if site not in gone)
    noised = document.privacy is not None
    wrong: list[str] = []
    for block in document.tables:
        table = block.table()
        rows: list[Row] = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        name = f"{block.analysis}/{block.kind}"
        if block.kind == "unfinished":  # a fit that lost too many sites on its way: there are no numbers
            wrong += _compared(name, rows[0], {})
            continue
        if noised:
            wrong += _near(name, rows, _summary(everybody))
            continue
        expected = _expected(block.analysis, block.kind, everybody, last, bool(gone))
        if len(rows) != len(expected):
            wrong.append(f"{name}: {len(rows)} rows, expected {len(expected)}")
            continue
        for number, (row, right) in enumerate(zip(rows, expected, strict=True)):
            wrong += _compared(f"{name}, row {number}", row, right)
    return wrong


def _compared(where: str, row: Row, right: Row) -> list[str]:
    """Return the columns of a row that are not what they must be; every number must be known."""
    wrong: list[str] = []
    for column, cell in row.items():
        if column in right:
            held, width = right[column], right.get("se", 0.0)
            if isinstance(held, float) and isinstance(cell, int | float) and isinstance(width, float):
                # an end of an interval near zero is a difference of larger numbers, and as exact as these
                size = max(abs(held), 1e-3, width if column in ("low", "high") else 0.0)
                far = abs(cell - held) > CLOSE * size
            else:
                far = held is not ANY and cell != held
            if far:
                wrong.append(f"{where}: {column} is another number than that of the pooled rows")
        elif isinstance(cell, int | float):
            wrong.append(f"{where}: nobody computed {column} again")
    return wrong


ANY = object()
"""In the place of a number that depends on how a fit was reached."""


def _expected(analysis: str, kind: str, rows: Rows, last: Rows, fewer: bool) -> list[Row]:
    match analysis, kind:
        case "ages", _:
            return _summary(rows)
        case "bands", _:
            counts, _ = np.histogram(rows.age, EDGES)
            return [
                {"variable": "age", "low": float(low), "high": float(high), "count": int(count), "missing": 0}
                for low, high, count in zip(EDGES, EDGES[1:], counts, strict=False)
            ]
        case "cells.association", _:
            return [_association(_cells(rows))]
        case "cells", _:
            cells = _cells(rows)
            return [
                {
                    "count": int(cells[dx, sex]),
                    "row_percent": float(100 * cells[dx, sex] / cells[dx].sum()),
                    "column_percent": float(100 * cells[dx, sex] / cells[:, sex].sum()),
                }
                for dx in range(2)
                for sex in range(2)
            ]
        case "thickness", _:
            return _least_squares(rows)
        case "odds.fit", _:
            return [_logistic(rows, last, fewer)[1]]
        case "odds", _:
            return _logistic(rows, last, fewer)[0]
        case _:
            return []


def _summary(rows: Rows) -> list[Row]:
    found: list[Row] = []
    for name, values in (("age", rows.age), ("thick", rows.thick)):
        for code, level in enumerate(("control", "case")):
            group = values[rows.dx == code]
            found.append(
                {
                    "variable": name,
                    "dx": level,
                    "n": len(group),
                    "missing": 0,
                    "mean": float(group.mean()),
                    "sd": float(group.std(ddof=1)),
                    "variance": float(group.var(ddof=1)),
                }
            )
    return found


def _near(where: str, rows: list[Row], exact: list[Row]) -> list[str]:
    """Return the means of a noised summary that are too far from the pooled rows' for the error that it states, and counts."""
    right = {(row["variable"], row["dx"]): row for row in exact}
    wrong: list[str] = []
    for row in rows:
        of_rows, error, mean = right[row["variable"], row["dx"]], row["mean_noise_se"], row["mean"]
        count, people = row["n"], of_rows["n"]
        if isinstance(count, int) and isinstance(people, int) and abs(count - people) > FAR_COUNT:
            wrong.append(f"{where}: a count is farther from the pooled rows' than noise explains")
        if isinstance(mean, float) and isinstance(error, float):
            held = of_rows["mean"]
            if not isinstance(held, float) or abs(mean - held) > FAR * error:
                wrong.append(f"{where}: a mean is farther from the pooled rows' than its noise explains")
    return wrong


def _cells(rows: Rows) -> Codes:
    cells = np.zeros((2, 2), dtype=np.int64)
    np.add.at(cells, (rows.dx, rows.sex), 1)
    return cells


def _association(cells: Codes) -> Row:
    (a, b), (c, d) = cells.astype(float)
    n = a + b + c + d
    expected = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / n
    statistic = float(((cells - expected) ** 2 / expected).sum())
    z = float(norm.ppf(0.975))
    odds, of_odds = a * d / (b * c), z * sqrt(1 / a + 1 / b + 1 / c + 1 / d)
    # the risk of the second level of the columns in the second row, against the first
    risk = (d / (c + d)) / (b / (a + b))
    of_risk = z * sqrt(1 / d - 1 / (c + d) + 1 / b - 1 / (a + b))
    return {
        "n": int(n),
        "chi2": statistic,
        "df": 1,
        "p": float(chi2.sf(statistic, 1)),
        "least_expected": float(expected.min()),
        "odds_ratio": odds,
        "odds_low": float(np.exp(log(odds) - of_odds)),
        "odds_high": float(np.exp(log(odds) + of_odds)),
        "risk_ratio": risk,
        "risk_low": float(np.exp(log(risk) - of_risk)),
        "risk_high": float(np.exp(log(risk) + of_risk)),
    }


def _least_squares(rows: Rows) -> list[Row]:
    design = np.column_stack((np.ones(len(rows.age)), rows.dx, rows.age))
    b, squares, rank, _ = np.linalg.lstsq(design, rows.thick, rcond=None)
    df = len(rows.age) - int(rank)
    se = np.sqrt(squares[0] / df * np.diag(np.linalg.inv(design.T @ design)))
    width = float(t.ppf(0.975, df))
    return [
        {
            "term": term,
            "b": float(b[place]),
            "se": float(se[place]),
            "statistic": float(b[place] / se[place]),
            "p": float(2 * t.sf(abs(b[place] / se[place]), df)),
            "low": float(b[place] - width * se[place]),
            "high": float(b[place] + width * se[place]),
            "n": len(rows.age),
            "df": df,
        }
        for place, term in enumerate(("intercept", "dx[case]", "age"))
    ]


def _logistic(rows: Rows, last: Rows, fewer: bool) -> tuple[list[Row], Row]:
    """Return the coefficients and the fit; a fit that lost sites on the way ends at the estimate of those that stayed."""
    design = np.column_stack((np.ones(len(last.age)), last.age - 80, last.sex))
    beta = np.zeros(3)
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ beta))
        information = design.T @ (design * (p * (1 - p))[:, None])
        step = np.linalg.solve(information, design.T @ (last.dx - p))
        beta += step
    spread = np.array([[1.0, -80.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])  # back from age - 80
    beta, covariance = spread @ beta, spread @ np.linalg.inv(information) @ spread.T
    n, events, z = len(last.age), int(last.dx.sum()), float(norm.ppf(0.975))
    likelihood = float(np.sum(last.dx * np.log(p) + (1 - last.dx) * np.log(1 - p)))
    share = events / n
    null = -2 * (events * log(share) + (n - events) * log(1 - share))
    terms: list[Row] = []
    for place, term in enumerate(("intercept", "age", "sex[male]")):
        b, se = float(beta[place]), float(np.sqrt(covariance[place, place]))
        ends = {"": b, "low": b - z * se, "high": b + z * se}
        terms.append(
            {
                "term": term,
                "b": b,
                "se": se,
                "statistic": b / se,
                "p": float(2 * norm.sf(abs(b / se))),
                "low": ends["low"],
                "high": ends["high"],
                "n": n,
                "df": n - 3,
                "odds_ratio": float(np.exp(b)),
                "odds_low": float(np.exp(ends["low"])),
                "odds_high": float(np.exp(ends["high"])),
            }
        )
    fit: Row = {
        "n": n,
        "events": events,
        "df": n - 3,
        "deviance": -2 * likelihood,
        "null_deviance": ANY if fewer else null,
        "log_likelihood": likelihood,
        "aic": 6 - 2 * likelihood,
        "iterations": ANY,
    }
    return terms, fit
