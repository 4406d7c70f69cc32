"""What is refused in a study file: every problem with its line, field and cure."""

import re

import pytest

from cohortsum.crypto.errors import ExpressionError, NotInThisVersionError, StudyFileError
from cohortsum.study.definition import loading
from cohortsum.study.definition.kinds import KINDS
from tests.study.definitions import (
    frozen,
    small,
    with_analysis,
)


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "cure"),
    [
        ("title: A", "titel: A", 2, "titel", "did you mean 'title'?"),
        ("unit: years", "units: years", 10, "variables.age.units", "did you mean 'unit'?"),
        ("version: 1", "version: 1.5", 3, "version", "expected a whole number"),
        ("version: 1", 'version: "1"', 3, "version", "without quotes"),
        ("version: 1", "version: 0", 3, "version", "greater than or equal to 1"),
        ("expires: 2027-06-30", "expires: soon", 5, "expires", "2027-06-30"),
        ("[5, 65]", "[65, 5]", 10, "variables.age.range", "lower below upper"),
        ("[5, 65]", "[5, .inf]", 10, "variables.age.range[1]", "expected a number"),
        ("[5, 65]", "[5, 1e999]", 10, "variables.age.range[1]", "too large"),
        ("[female, male]", "[female]", 9, "variables.sex.levels", "at least 2"),
        ("[female, male]", "[male, male]", 9, "variables.sex", "listed twice"),
        ("[female, male]", "[1, 2]", 9, "variables.sex.levels[0]", "put it in quotes"),
        ("out_of_range: exclude", "out_of_range: drop", 11, "variables.iq.out_of_range", "'exclude'"),
        ("epoch: 2026-11", "epoch: 2026", 14, "cohort.epoch", "put it in quotes"),
        ("kind: summary", "kind: sumary", 16, "analyses.a", ", ".join(KINDS)),
        ("kind: summary, ", "", 16, "analyses.a", "kind is missing"),
        ("max_participants: 1000", "max_participants: 10", 17, "protection", "at least min_participants"),
        ("max_participants: 1000", "min_honest_inputs: 2", 17, "protection.max_participants", "is missing"),
        (
            "protection: {",
            "protection: {min_honest_inputs: 2, ",
            17,
            "protection.min_honest_inputs",
            "equal to 3",
        ),
        ("protection: {", "protection: {mode: committee, ", 17, "protection", "committee: [...]"),
        ("protection: {", "protection: {mode: committee, committee: [a, b], ", 17, "protection", "3, 5 or 7"),
        ("noise: none", "noise: none, epsilon: 1.0", 18, "privacy", "remove the other keys"),
        ("noise: none", "noise: local", 18, "privacy", "needs epsilon"),
        ("privacy:", "deadlines: {step: 10}\nprivacy:", 18, "deadlines.step", "such as 100ms"),
        ("privacy:", "deadlines: {step: 0s}\nprivacy:", 18, "deadlines.step", "above 0"),
        ("privacy:", "deadlines: {step: 25h}\nprivacy:", 18, "deadlines", "step <= step_max"),
        ("privacy:", "enrol: {start: at_deadline}\nprivacy:", 18, "enrol", "needs until"),
        ("privacy:", 'enrol: {until: "2026-01-01T10:00"}\nprivacy:', 18, "enrol.until", "time zone"),
        ("privacy:", 'enrol: {until: "2028-01-01T10:00Z"}\nprivacy:', 18, "enrol.until", "after expires"),
        ("person: id", "person: id\nperson: id", 6, "person", "again in line 7"),
        ("person: id", "person: age", 6, "person", "cannot be a variable"),
        ("age: {unit", '"a:b": {unit', 10, "variables.a:b", "rename the column"),
        ("age: {unit", '"a*": {unit', 10, "variables.a*", "catalogue: family"),
        ("study: small", "study: ../x", 1, "study", "letters, digits"),
        ("  a: {kind", "  A: {kind: summary, variables: [iq]}\n  a: {kind", 17, "analyses.a", "in case only"),
        ("age ^ 2", "aeg ^ 2", 13, "derive.age2", "did you mean 'age'?"),
        ("age ^ 2", "age2 + 1", 13, "derive.age2", "break the circle"),
        ("age ^ 2", "1 / (age - 5)", 13, "derive.age2", "divisor may be 0"),
        ("age ^ 2", "age - age + dx", 13, "derive.age2", "is a factor"),
        ("age ^ 2", "2 * 3", 13, "derive.age2", "same value for everybody"),
        ('age2: "age ^ 2"', 'iq: "age ^ 2"', 13, "derive.iq", "choose another"),
        ("epoch: 2026-11", 'epoch: x, include: "age2 > 36"', 14, "cohort.include", "no number 'age2'"),
        ("epoch: 2026-11", "epoch: x, include: age + 1", 14, "cohort.include", "expected a condition"),
    ],
)
def test_a_problem_names_line_field_and_cure(old: str, new: str, line: int, field: str, cure: str) -> None:
    with pytest.raises(StudyFileError) as caught:
        frozen(small(old, new))
    assert f"study.yaml:{line}: {field}: " in caught.value.message
    assert cure in caught.value.message


@pytest.mark.parametrize(
    ("entry", "field", "cure"),
    [
        ("{kind: summary, variables: [aeg]}", "variables[0]", "did you mean 'age'?"),
        ("{kind: summary, variables: [dx]}", "variables[0]", "is a factor"),
        ('{kind: summary, variables: ["x*"]}', "variables[0]", "matches no number"),
        ("{kind: summary, variables: []}", "variables", "at least 1"),
        ("{kind: summary, variables: [iq], by: [age]}", "by[0]", "made by factors"),
        ("{kind: summary, variables: [iq], by: [dx, dx]}", "by[1]", "twice"),
        ("{kind: summary, variables: [iq], where: dx == patient}", "where", "control, autism, other"),
        ("{kind: summary, variables: [iq], moments: 3}", "moments", "2 or 4"),
        ("{kind: histogram, variables: [iq]}", "", "either edges"),
        ("{kind: histogram, variables: [iq], edges: [1, 3, 2]}", "", "increase"),
        ("{kind: histogram, variables: [iq], bins: {from: 2, to: 1, count: 3}}", "", "increase"),
        ("{kind: histogram, variables: [iq], bins: {frm: 2, to: 1, count: 3}}", "bins.frm", "'from'"),
        ("{kind: crosstab, factors: []}", "factors", "at least 1"),
        ("{kind: crosstab, factors: [dx, dx, dx, dx]}", "factors", "at most 3"),
        ("{kind: crosstab, factors: [dx, age]}", "factors[1]", "made by factors"),
        ("{kind: crosstab, factors: [dx, dx]}", "factors[1]", "twice"),
        ("{kind: proportion, variables: [iq]}", "", "belong together"),
        ("{kind: proportion, by: [dx]}", "", "or factors"),
        ("{kind: proportion, variables: [iq], thresholds: [100, 100]}", "", "twice"),
        ("{kind: proportion, variables: [iq], thresholds: [100, 160]}", "thresholds[1]", "less than 160.0"),
        ("{kind: proportion, variables: [iq], thresholds: [39.5]}", "thresholds[0]", "at least 40.0"),
        ("{kind: proportion, factors: [iq]}", "factors[0]", "made by factors"),
        ("{kind: proportion, factors: [dx], by: [dx]}", "factors[0]", "from one of the two"),
        ("{kind: quantiles, variables: [iq], probabilities: [0.5]}", "", "either edges"),
        (
            "{kind: quantiles, variables: [iq], probabilities: [0, 0.5], edges: [40, 160]}",
            "probabilities[0]",
            "minimum",
        ),
        (
            "{kind: quantiles, variables: [iq], probabilities: [1.5], edges: [40, 160]}",
            "probabilities[0]",
            "below 1",
        ),
        ("{kind: quantiles, variables: [iq], probabilities: [0.5, 0.5], edges: [40, 160]}", "", "twice"),
        (
            "{kind: quantiles, variables: [iq], probabilities: [0.5], edges: [40, 160], min_bin: 5}",
            "",
            "refine",
        ),
        (
            "{kind: quantiles, variables: [iq], probabilities: [0.5], edges: [40, 160], refine: 0.1}",
            "refine",
            "1200 pieces; at most 1000",
        ),
        (
            "{kind: quantiles, variables: [iq], probabilities: [0.5], edges: [40, 160], refine: 120}",
            "refine",
            "no bin",
        ),
        (
            "{kind: quantiles, variables: [iq], probabilities: [0.5], edges: [60, 60.0000001, 160], refine: 1e-8}",
            "refine",
            "lost in the digits",
        ),
        (
            "{kind: quantiles, variables: [iq], probabilities: [0.5], edges: [40, 160], bands: {age: [5, 20]}}",
            "bands.age",
            "inside the range",
        ),
        (
            "{kind: quantiles, variables: [iq], probabilities: [0.5], edges: [40, 160], bands: {age: [30, 20]}}",
            "bands.age",
            "increase",
        ),
        (
            "{kind: quantiles, variables: [iq], probabilities: [0.5], edges: [40, 160], bands: {dx: [30]}}",
            "bands.dx",
            "is a factor",
        ),
        ("{kind: test, outcomes: [iq], factor: age, tests: [welch]}", "factor", "made by factors"),
        (
            "{kind: test, outcomes: [iq], factor: dx, tests: [wilcoxon]}",
            "tests[0]",
            "'student', 'welch' or 'anova'",
        ),
        ("{kind: test, outcomes: [iq], factor: dx, tests: [welch, welch]}", "", "twice"),
        ("{kind: test, outcomes: [iq], factor: dx, tests: []}", "tests", "at least 1"),
        (
            "{kind: correlation, variables: [iq]}",
            "variables",
            "expected 2 to 1000 different numbers, there are 1",
        ),
        ("{kind: correlation, variables: [iq, age], given: [iq]}", "given[0]", "one of the two"),
        ("{kind: correlation, variables: [iq, age], given: [dx, dx]}", "given[1]", "twice"),
        ("{kind: correlation, variables: [iq, age], given: [dxx]}", "given[0]", "did you mean 'dx'?"),
        ("{kind: covariance, variables: [iq, dx]}", "variables[1]", "is a factor"),
        ("{kind: covariance, variables: [iq, age], shrinkage: 1}", "shrinkage", "less than 1"),
        ("{kind: pca, variables: [iq, age]}", "components", "is missing"),
        ("{kind: pca, variables: [iq, age], components: 3}", "components", "no more than 2"),
        ("{kind: regression, outcomes: [iq], terms: [agee]}", "terms[0]", "did you mean 'age'?"),
        ("{kind: regression, outcomes: [iq], terms: [age, iq]}", "outcomes", "in a term"),
        ("{kind: regression, outcomes: [iq], terms: [age, age]}", "terms[1]", "twice"),
        ("{kind: regression, outcomes: [iq], terms: ['dx:age', 'age:dx']}", "terms[1]", "twice"),
        ("{kind: regression, outcomes: [iq], terms: ['age:age']}", "terms[0]", "derive its square"),
        ("{kind: regression, outcomes: [iq], terms: ['age*dx']}", "terms[0]", "a:b"),
        (
            "{kind: regression, outcomes: [iq], terms: [age], report: {effect: dx}}",
            "report.effect",
            "terms: age",
        ),
        (
            "{kind: regression, outcomes: [iq], terms: [age], report: {efect: age}}",
            "report.efect",
            "'effect'",
        ),
        (
            "{kind: regression, outcomes: [iq], terms: [dx], contrasts: {c: {dx: 1}}}",
            "contrasts.c.dx",
            "dx[other]",
        ),
        (
            "{kind: regression, outcomes: [iq], terms: [sex], contrasts: {c: {sex: 0}}}",
            "contrasts.c",
            "other than 0",
        ),
        (
            "{kind: regression, outcomes: [iq], terms: [sex], contrasts: {c: {sex: 1, 'sex[male]': 1}}}",
            "contrasts.c.sex[male]",
            "two weights",
        ),
        (
            "{kind: regression, outcomes: [iq], terms: [sex], contrasts: {c: {intercept: 1}}}",
            "contrasts.c",
            "sex",
        ),
        (
            "{kind: regression, outcomes: [iq], terms: [dx], tests: {t: [age]}}",
            "tests.t[0]",
            "regression: dx",
        ),
        ("{kind: regression, outcomes: [iq], terms: [dx], tests: {t: [dx, dx]}}", "tests.t[1]", "twice"),
        ("{kind: regression, outcomes: [iq], terms: [dx], missing: drop}", "missing", "'complete'"),
        ("{kind: mixed, outcomes: [iq], terms: [dx, iq]}", "outcomes", "in a term"),
        ("{kind: mixed, outcomes: [iq], terms: [dx], ratios: 30}", "", "odd number"),
        ("{kind: mixed, outcomes: [iq], terms: [dx], ratios: 3}", "ratios", "greater than or equal to 5"),
        ("{kind: mixed, outcomes: [iq], terms: [dx], max_ratio: 0}", "max_ratio", "greater than 0"),
        ("{kind: regression, outcomes: [iq], terms: [dx], ridge: 0}", "ridge", "greater than 0"),
        (
            "{kind: regression, outcomes: [iq], terms: [dx], ridge: 0.1, tests: {t: [dx]}}",
            "tests",
            "or ridge",
        ),
        (
            "{kind: regression, outcomes: [iq], terms: [dx], ridge: 0.1, covariance: HC0}",
            "covariance",
            "no standard errors",
        ),
        ("{kind: regression, outcomes: [iq], terms: [dx], covariance: HC3}", "covariance", "'HC1'"),
        (
            "{kind: regression, outcomes: [iq], terms: [dx], covariance: HC1, test_site: true}",
            "test_site",
            "equal variances",
        ),
        (
            "{kind: regression, outcomes: [iq], terms: [dx], site_effect: none, test_site: true}",
            "test_site",
            "site_effect: within",
        ),
        ("{kind: regression, outcomes: [iq], terms: [dx], vif: false}", "vif", "True"),
        ("{kind: regression, outcomes: [iq], terms: [dx], weights: sex}", "weights", "is a factor"),
        ("{kind: regression, outcomes: [iq], terms: [dx], weights: iq}", "weights", "is an outcome too"),
        ("{kind: regression, outcomes: [iq], terms: [dx], weights: wt}", "weights", "no variable 'wt'"),
        (
            "{kind: regression, outcomes: [iq, age2], terms: [dx], "
            "multivariate: {m: {outcomes: [iq, age2], terms: [dx]}}}",
            "multivariate",
            "missing: complete",
        ),
        (
            "{kind: regression, outcomes: [iq], terms: [dx], missing: complete, "
            "multivariate: {m: {outcomes: [iq, age2], terms: [dx]}}}",
            "multivariate.m.outcomes",
            "no outcome of the regression",
        ),
        (
            "{kind: regression, outcomes: [iq], terms: [dx], missing: complete, "
            "multivariate: {m: {outcomes: [iq], terms: [dx]}}}",
            "multivariate.m.outcomes",
            "2 to 20",
        ),
        (
            "{kind: regression, outcomes: [iq, age], terms: [dx], missing: complete, "
            "multivariate: {m: {outcomes: [iq, age], terms: [sex]}}}",
            "multivariate.m.terms[0]",
            "terms of the regression: dx",
        ),
        ("{kind: kaplan_meier, time: age, status: sex}", "", "either grid"),
        ("{kind: kaplan_meier, time: age, status: sex, times: [0, 1]}", "", "above 0"),
        ("{kind: kaplan_meier, time: age, status: sex, times: [2, 1]}", "", "increase"),
        ("{kind: kaplan_meier, time: age, status: sex, grid: {step: 1, to: 9999}}", "", "longer step"),
        (
            "{kind: kaplan_meier, time: age, status: sex, grid: {step: 0, to: 9}}",
            "grid.step",
            "greater than 0",
        ),
        ("{kind: kaplan_meier, time: age2, status: sex, times: [1]}", "time", "begins at 0"),
        ("{kind: kaplan_meier, time: dx, status: sex, times: [1]}", "time", "is a factor"),
        ("{kind: kaplan_meier, time: age, status: iq, times: [1]}", "status", "is a number"),
        ("{kind: kaplan_meier, time: age, status: dx, times: [1]}", "status", "control, autism, other"),
        ("{kind: kaplan_meier, time: age, status: sex, times: [1], by: [sex]}", "by", "other factors"),
        (
            "{kind: kaplan_meier, time: age, status: sex, times: [1], censored: no}",
            "censored",
            "'half' or 'end'",
        ),
        ("{kind: logrank, time: age, status: sex, times: [1]}", "by", "is missing"),
        ("{kind: logrank, time: age, status: sex, times: [1], by: []}", "by", "at least 1"),
        ("{kind: cox, time: age, status: sex, terms: [age]}", "terms", "in a term"),
        ("{kind: cox, time: age, status: sex, terms: [sex]}", "terms", "in a term"),
        ("{kind: cox, time: age, start: age, status: sex, terms: [iq]}", "start", "name another"),
        ("{kind: cox, time: age, start: dx, status: sex, terms: [iq]}", "start", "is a factor"),
        ("{kind: cox, time: age2, status: sex, terms: [iq]}", "time", "begins at 0"),
        ("{kind: cox, time: age, status: dx, terms: [iq]}", "status", "control, autism, other"),
        ("{kind: cox, time: age, status: sex, terms: [iq], ties: none}", "ties", "'exact'"),
        ("{kind: cox, time: age, status: sex, terms: [iq], min_events: 0}", "min_events", "equal to 1"),
        ("{kind: combat, outcomes: [iq]}", "outcomes", "empirical_bayes: false"),
        ("{kind: combat, outcomes: [iq, age2], keep: [iq]}", "outcomes", "in a term"),
        ("{kind: combat, outcomes: [iq, age], keep: [sx]}", "keep[0]", "did you mean 'sex'?"),
        ("{kind: combat, outcomes: [iq, age], fit_on: dx == healthy}", "fit_on", "control, autism, other"),
        ("{kind: combat, outcomes: [iq, age], min_per_site: 1}", "min_per_site", "equal to 2"),
        ("{kind: meta, outcomes: [iq], terms: [age], effect: dx}", "effect", "one of the terms: age"),
        ("{kind: meta, outcomes: [iq], terms: [age], effect: age}", "effect", "write measure: b"),
        ("{kind: meta, outcomes: [iq], terms: [dx, iq], effect: dx}", "outcomes", "in a term"),
        ("{kind: meta, outcomes: [iq], terms: [dx], effect: dx, models: [dl, dl]}", "models", "twice"),
        ("{kind: meta, outcomes: [iq], terms: [dx], effect: dx, models: [random]}", "models[0]", "'dl'"),
        (
            "{kind: meta, outcomes: [iq], terms: [dx], effect: dx, min_per_arm: 1}",
            "min_per_arm",
            "equal to 2",
        ),
        ("{kind: glm, outcomes: [sex], terms: [age]}", "family", "is missing"),
        ("{kind: glm, family: binomial, outcomes: [age], terms: [iq]}", "outcomes[0]", "made by factors"),
        (
            "{kind: glm, family: binomial, outcomes: [dx], terms: [age]}",
            "outcomes[0]",
            "control, autism, other",
        ),
        (
            "{kind: glm, family: binomial, outcomes: [dx], event: ill, terms: [age]}",
            "outcomes[0]",
            "no level 'ill'",
        ),
        ("{kind: glm, family: binomial, outcomes: [sex], terms: [sex]}", "outcomes", "in a term"),
        ("{kind: glm, family: binomial, outcomes: [sex], terms: [age], offset: iq}", "", "family: poisson"),
        (
            "{kind: glm, family: binomial, outcomes: [sex], terms: [age], site_effect: within}",
            "site_effect",
            "'none'",
        ),
        ("{kind: glm, family: poisson, outcomes: [sex], terms: [age]}", "outcomes[0]", "is a factor"),
        ("{kind: glm, family: poisson, outcomes: [age2], terms: [age]}", "outcomes", "at or above 0"),
        ("{kind: glm, family: poisson, outcomes: [iq], terms: [dx], event: other}", "", "family: binomial"),
        (
            "{kind: glm, family: poisson, outcomes: [iq], terms: [dx], offset: age, exposure: age}",
            "",
            "not both",
        ),
        ("{kind: glm, family: poisson, outcomes: [iq], terms: [dx], exposure: age2}", "exposure", "above 0"),
        ("{kind: glm, family: poisson, outcomes: [iq], terms: [dx], offset: iq}", "offset", "is an outcome"),
        (
            "{kind: glm, family: poisson, outcomes: [iq], terms: [dx], max_iterations: 0}",
            "max_iterations",
            "equal to 1",
        ),
    ],
)
def test_a_problem_in_an_analysis_names_field_and_cure(entry: str, field: str, cure: str) -> None:
    text = with_analysis(entry)
    if "age2" in entry:  # a number that may be below 0
        text = text.replace("age ^ 2", "age - 40")
    with pytest.raises(StudyFileError) as caught:
        frozen(text)
    assert f"study.yaml:16: analyses.a.{field}".rstrip(".") in caught.value.message
    assert cure in caught.value.message


@pytest.mark.parametrize(
    ("entry", "cure"),
    [
        ('"lh_*_area": {catalogue: freesurfer.thickness}', "matches no variable"),
        ("lh_insla_thickness: {catalogue: freesurfer.thickness}", "did you mean 'lh_insula_thickness'?"),
        ('"lh_*": {catalogue: freesurfer.thicknes}', "did you mean 'freesurfer.thickness'?"),
        ('"lh_*": {catalogue: freesurfer.thickness, unit: cm}', "the catalogue has mm"),
        (
            '"lh_*": {catalogue: freesurfer.area}\n  "*_area": {catalogue: freesurfer.area}',
            "narrow one of the two",
        ),
    ],
)
def test_a_problem_with_the_catalogue_names_the_cure(entry: str, cure: str) -> None:
    with pytest.raises(StudyFileError, match=re.escape(cure)):
        frozen(small("  sex:", f"  {entry}\n  sex:"))


def test_a_time_that_may_be_0_has_no_logarithm() -> None:
    text = with_analysis("{kind: cox, time: age, status: sex, terms: [iq], proportionality: log_time}")
    with pytest.raises(StudyFileError, match=r"analyses\.a\.proportionality: the range of 'age' begins at 0"):
        frozen(text.replace("[5, 65]", "[0, 65]"))


def test_all_problems_come_at_once() -> None:
    text = small("title: A", "titel: A").replace("[5, 65]", "[65, 5]").replace("noise: none", "noise: loud")
    with pytest.raises(StudyFileError) as caught:
        frozen(text)
    assert len(caught.value.message.splitlines()) == 4  # titel is unknown, and title is missing


def test_a_file_whose_only_problems_are_expressions_raises_an_expression_error_with_a_caret() -> None:
    with pytest.raises(ExpressionError) as caught:
        frozen(small("age ^ 2", "age ^ x"))
    assert caught.value.message.splitlines() == [
        "study.yaml:13: derive.age2: column 7: expected a whole exponent from 0 to 8; for roots use sqrt",
        "    age ^ x",
        "          ^",
    ]


@pytest.mark.parametrize(
    ("analyses", "cure"),
    [
        ("a: {kind: summary, variables: [iq], needs: h}", "no analysis 'h'; name an analysis of kind combat"),
        (
            "a: {kind: summary, variables: [iq], needs: a}",
            "'a' is a summary; name an analysis of kind combat",
        ),
        (
            "b: {kind: summary, variables: [iq], needs: har}\n  harm: {kind: combat, outcomes: [iq, age]}",
            "no analysis 'har'; did you mean 'harm'?",
        ),
        (
            "b: {kind: regression, outcomes: [iq, age2], terms: [dx], needs: h}\n"
            "  h: {kind: combat, outcomes: [iq, age]}",
            "'h' does not harmonise age2; add them to its outcomes",
        ),
        ("h: {kind: combat, outcomes: [iq, age], needs: h}", "unknown key"),
    ],
)
def test_what_an_analysis_needs_is_a_combat_of_its_outcomes(analyses: str, cure: str) -> None:
    with pytest.raises(StudyFileError) as caught:
        frozen(small("a: {kind: summary, variables: [age]}", analyses))
    assert "study.yaml:16: analyses." in caught.value.message
    assert ".needs: " in caught.value.message
    assert cure in caught.value.message


def test_analyses_of_later_versions_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is known at present."""
    monkeypatch.setattr(loading, "LATER_KINDS", frozenset({"network"}))
    with pytest.raises(
        NotInThisVersionError, match=r"^study\.yaml:16: analyses\.a\.kind: network: not in this"
    ):
        frozen(with_analysis("{kind: network, anything: [1, 2]}"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("noise: none", "noise: none, arm_cap: 5"),
    ],
)
def test_keys_of_later_versions_are_refused_by_name(old: str, new: str) -> None:
    with pytest.raises(NotInThisVersionError, match=r"^study\.yaml:18: .*arm_cap: not in this"):
        frozen(small(old, new))


@pytest.mark.parametrize("key", ["minimum", "maximum", "min", "max", "extremes"])
def test_extremes_are_refused_with_the_reason(key: str) -> None:
    with pytest.raises(NotInThisVersionError) as caught:
        frozen(small("variables: [age]", f"variables: [age], {key}: true"))
    assert caught.value.message.startswith(
        f"study.yaml:16: analyses.a.{key}: not in this version; an extreme is"
    )
    assert "the value of one person" in caught.value.message


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("{kind: summary, variables: [iq], by: [n]}", "by[0]: the result table has a column 'n'; rename"),
        ("{kind: summary, variables: [iq], by: [variable]}", "a column 'variable'; rename"),
        (
            "{kind: quantiles, variables: [iq], probabilities: [0.5], edges: [40, 160], by: [n]}",
            "a column 'n'; rename",
        ),
        ("{kind: proportion, factors: [dx], by: [n]}", "a column 'n'; rename"),
        (
            "{kind: kaplan_meier, time: age, status: sex, times: [1], by: [n]}",
            "by[0]: the result table has a column 'n'",
        ),
        (
            "{kind: logrank, time: age, status: sex, times: [1], by: [n]}",
            "by[0]: the result table has a column 'n'",
        ),
        ("{kind: crosstab, factors: [dx, n]}", "factors[1]: the result table has a column 'n'; rename"),
        ("{kind: crosstab, factors: [dx, wide, wider]}", "factors: the table has 12000 cells"),
    ],
)
def test_a_result_table_that_could_not_be_written_is_refused_before_anything_runs(
    entry: str, sentence: str
) -> None:
    wide = "".join(
        f"  {name}: {{levels: [{', '.join(f'l{number}' for number in range(levels))}]}}\n"
        for name, levels in (("n", 2), ("variable", 2), ("wide", 40), ("wider", 100))
    )
    text = with_analysis(entry).replace("  sex:", f"{wide}  sex:", 1)
    with pytest.raises(StudyFileError) as caught:
        frozen(text)
    assert sentence in caught.value.message
