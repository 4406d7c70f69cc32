"""Each rule of the catalogue alone: at its number it lets pass, one below it does not, and no other rule helps it."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.config import PolicyConfig
from cohortsum.node.policy import floors_for
from cohortsum.study.batch import Batch
from cohortsum.study.catalogue import ALL_FAMILIES, RULES, RULES_BY_ID, Output, Rule
from cohortsum.study.catalogue.controls import (
    AlwaysNoise,
    MinimumN,
    NoiseBelow,
    Of,
    Prohibited,
    PublicTopCode,
)
from cohortsum.study.catalogue.family import Row
from cohortsum.study.catalogue.outputs import OUTPUTS_OF_KIND, RELEASES
from cohortsum.study.disclosure.demands import Demands, demands_of
from cohortsum.study.disclosure.own_rules import OWN_RULES
from cohortsum.study.disclosure.verdict import Regime
from cohortsum.study.disclosure.waiving import InForce, in_force
from cohortsum.study.results import Absent
from tests.study.definitions import frozen
from tests.study.disclosure.release_of import column, of, played, ruled
from tests.study.disclosure.test_gate_counts import study, waiving

NEVER = {
    "identifiers": "participant_id",
    "registration": "T1_to_MNI_linear.mat",
    "logs": "log.txt",
}
"""A name of each family that has no rows."""
ASKED = {
    Output.SUMMARY: "{{kind: summary, variables: [{0}]}}",
    Output.COVARIANCE: "{{kind: covariance, variables: [{0}, {1}], site_effect: none}}",
    Output.COMPONENTS: "{{kind: pca, variables: [{0}, {1}], components: 1, site_effect: none}}",
    Output.DISTRIBUTION: "{{kind: quantiles, variables: [{0}], probabilities: [0.5], edges: [{2}, {3}, {4}]}}",
}
"""An analysis for each output of which an example can be made of two variables of a family."""
FIGURE = {
    Output.SUMMARY: "mean",
    Output.COVARIANCE: "covariance",
    Output.COMPONENTS: "loading",
    Output.DISTRIBUTION: "value",
}


def ids(*kinds: type) -> list[str]:
    """Return the rules whose control is of some kind, and that are about something many people are in."""
    return [rule.id for rule in RULES if isinstance(rule.control, kinds) and rule.outputs & RELEASES]


def minimums(*of: Of) -> list[str]:
    return [
        name
        for name in ids(MinimumN)
        if isinstance(control := RULES_BY_ID[name].control, MinimumN) and control.of in of
    ]


def rows_of(rule: Rule) -> Sequence[Row]:
    """Return the rows of the first family that the rule is about and that can be studied."""
    return next(
        ALL_FAMILIES[name].rows for name in ALL_FAMILIES if name in rule.families and ALL_FAMILIES[name].rows
    )


def variables_of(rule: Rule, top: float = 1.0) -> dict[str, str]:
    """Return two variables of the rule's family; their ranges end at a share of the catalogue's clamp."""
    rows = (*rows_of(rule), *rows_of(rule))[:2]
    return {
        f'"{row.name}"': f"{{unit: {row.unit!r}, range: [{row.lower:g}, {row.lower + top * (row.upper - row.lower):g}]}}"
        for row in rows
    }


def demanded(rule: Rule, noise: str = "{noise: none}", top: float = 1.0) -> Demands:
    variables = variables_of(rule, top)
    text = study(variables, {"a": ASKED[Output.SUMMARY].format(next(iter(variables)))})
    return demands_of(frozen(text.replace("{noise: none}", noise)), InForce((rule,), frozenset()))


@cache
def alone(name: str) -> Regime:
    """Return a regime in which this rule holds, and beside it only what nobody can waive."""

    def can_be_waived(other: str) -> bool:
        try:
            in_force(waiving(**{other: "off"}))
        except ConfigurationError:
            return False
        return True

    others = [other for other in (*RULES_BY_ID, *OWN_RULES) if other != name and can_be_waived(other)]
    return waiving(**dict.fromkeys(others, "off"))


@pytest.mark.parametrize("name", minimums(Of.SITE))
def test_a_site_of_one_person_fewer_supplies_nothing(name: str) -> None:
    rule = RULES_BY_ID[name]
    assert isinstance(rule.control, MinimumN)
    demands, least = demanded(rule), rule.control.n
    assert {demand.rule.id for demand in demands.of_site(least - 1, {})} == {name}
    assert demands.of_site(least, {}) == ()


@pytest.mark.parametrize("name", ids(NoiseBelow))
def test_a_small_site_supplies_nothing_without_noise(name: str) -> None:
    rule = RULES_BY_ID[name]
    assert isinstance(rule.control, NoiseBelow)
    demands, least = demanded(rule), rule.control.n
    assert {demand.rule.id for demand in demands.of_site(least - 1, {})} == {name}
    assert demands.of_site(least, {}) == ()
    noised = demanded(rule, "{noise: distributed, epsilon: 1.0, delta: 1.0e-6}")
    assert noised.of_site(least - 1, {}) == ()


@pytest.mark.parametrize("name", ids(AlwaysNoise))
def test_a_study_needs_noise_of_the_rules_epsilon(name: str) -> None:
    rule = RULES_BY_ID[name]
    assert isinstance(rule.control, AlwaysNoise)
    for noise, lacking in (
        ("{noise: none}", {name}),
        (f"{{noise: distributed, epsilon: {rule.control.epsilon + 0.1:g}, delta: 1.0e-6}}", {name}),
        (f"{{noise: distributed, epsilon: {rule.control.epsilon:g}, delta: 1.0e-6}}", set[str]()),
    ):
        assert {demand.rule.id for demand in demanded(rule, noise).of_study()} == lacking


@pytest.mark.parametrize("name", ids(PublicTopCode))
def test_a_study_writes_the_top_code_itself(name: str) -> None:
    rule = RULES_BY_ID[name]
    assert {demand.rule.id for demand in demanded(rule).of_study()} == {name}
    assert demanded(rule, top=0.5).of_study() == ()


@pytest.mark.parametrize("name", ids(Prohibited))
def test_what_is_never_released_is_never_supplied(name: str) -> None:
    rule = RULES_BY_ID[name]
    (family,) = rule.families
    variable = NEVER[family]
    text = study(
        {f'"{variable}"': "{unit: a, range: [0, 1]}"}, {"a": f'{{kind: summary, variables: ["{variable}"]}}'}
    )
    demands = demands_of(frozen(text), InForce((rule,), frozenset()))
    assert {demand.rule.id for demand in demands.of_study()} == {name}


@pytest.mark.parametrize(
    "name", [name for name in minimums(Of.GROUP) if RULES_BY_ID[name].outputs & frozenset(ASKED)]
)
def test_a_figure_of_one_person_fewer_is_not_shown(name: str) -> None:
    rule = RULES_BY_ID[name]
    assert isinstance(rule.control, MinimumN)
    output = next((one for one in ASKED if one in rule.outputs), None)
    assert output is not None
    for people, shown in ((rule.control.n - 1, False), (rule.control.n, True)):
        assert figure_of(rule, output, people) is shown


@pytest.mark.parametrize(
    "name", ["group_10", "primary_suppression", "wmh_count_min", "wmh_count_suppression"]
)
def test_nine_people_with_lesions_are_hidden_with_others_and_ten_are_not(name: str) -> None:
    """A count that everybody could compute from the others is hidden with a second one."""
    entry = "{kind: histogram, variables: [T2_FLAIR_WMH_volume], edges: [0, 5000, 30000, 60000]}"
    text = study({"T2_FLAIR_WMH_volume": "{unit: mm3, range: [0, 60000]}"}, {"a": entry})
    for small, hidden in ((9, {0, 1}), (10, set[int]())):
        values = np.repeat([1000.0, 20_000.0, 40_000.0], [small, 41, 100 - small - 41])
        people = Batch(100, {"T2_FLAIR_WMH_volume": values}, {})
        counts = column(of(played(text, [people]).gated(alone(name)), "a"), "count")
        assert {place for place, count in enumerate(counts) if isinstance(count, Absent)} == hidden


@pytest.mark.parametrize("name", minimums(Of.COHORT))
def test_a_site_asks_the_protocol_for_the_rules_number_of_people(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below it no site gives its shares for the values: they stay masked."""
    rule = RULES_BY_ID[name]
    assert isinstance(rule.control, MinimumN)
    text = study(variables_of(rule), {"a": ASKED[Output.SUMMARY].format(next(iter(variables_of(rule))))})
    asked = frozen(text.replace("min_participants: 100", "min_participants: 20"))
    assert asked.protection.min_participants < rule.control.n

    def this_alone(_: PolicyConfig) -> InForce:
        return InForce((rule,), frozenset())

    monkeypatch.setattr("cohortsum.node.policy.rules_of", this_alone)
    assert floors_for(asked, PolicyConfig()).min_participants == rule.control.n


def test_the_scaling_factor_of_heads_has_three_digits() -> None:
    rule, people = RULES_BY_ID["vscaling_rounding"], 200
    (row,), (name, *_) = rows_of(rule), variables_of(rule)
    values = np.linspace(1.234567, 1.345678, people)
    text = study(variables_of(rule), {"a": ASKED[Output.SUMMARY].format(name)})
    one = played(text, [Batch(people, {row.name: values}, {})])
    for regime, shown in ((alone(rule.id), 1.29), (alone("group_10"), pytest.approx(values.mean()))):
        assert column(of(one.gated(regime), "a"), "mean") == [shown]


def figure_of(rule: Rule, output: Output, people: int) -> bool:
    """Return whether so many people have their figure under this rule alone."""
    rows = (*rows_of(rule), *rows_of(rule))[:2]
    lower, upper = rows[0].lower, rows[0].upper
    names = list(variables_of(rule))
    entry = ASKED[output].format(names[0], names[-1], f"{lower:g}", f"{(lower + upper) / 2:g}", f"{upper:g}")
    spread = np.random.default_rng(7).uniform(0.2, 0.8, (2, people))
    values = {
        row.name: row.lower + part * (row.upper - row.lower) for row, part in zip(rows, spread, strict=True)
    }
    gated = played(study(variables_of(rule), {"a": entry}), [Batch(people, values, {})]).gated(alone(rule.id))
    assert ruled(gated, rule.id), "the rule was not asked"
    return any(isinstance(value, float) for value in column(of(gated, "a"), FIGURE[output]))


def test_no_analysis_releases_values_of_one_person() -> None:
    assert not [kind for kind, outputs in OUTPUTS_OF_KIND.items() if Output.INDIVIDUAL in outputs]
