"""Which rules are in force, once sites have waived some of them.

A waiver sets one rule aside at one site, in public: it stands in the site's approval and on every result. What it puts in the rule's
place is ``off``, or a number: people for a rule about numbers of people or counts, epsilon for a rule about noise. Another rule about
the same thing may then be the strictest. What is prohibited and what people must confirm cannot be waived, nor what only keeps another
rule true.

Over several sites the strictest holds: a rule is weaker in the cohort only where every site that holds to the profile waives it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.study.catalogue.controls import (
    AlwaysNoise,
    Confirm,
    Control,
    MinimumN,
    NoiseBelow,
    Prohibited,
    SuppressCells,
    strictness,
)
from cohortsum.study.catalogue.rule import Rule
from cohortsum.study.catalogue.rules import RULES
from cohortsum.study.disclosure.own_rules import OWN_RULES
from cohortsum.study.disclosure.verdict import Regime

OFF = "off"
COMPANIONS: Mapping[str, str] = MappingProxyType(
    {
        "complement_suppression": "goes with the rules about small counts (group_10, primary_suppression and others)",
        "wmh_count_complement": "goes with wmh_count_suppression",
        "gives_n_back": "goes with count_rounding",
    }
)
"""Rules that only keep another one true: without the other they do nothing, and the other is worth nothing without them."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The rules of a regime.

    Attributes:
        rules: of the catalogue, as they hold.
        own: ids of the gate's own rules that hold.
        waived: ids of the rules that hold no more, or more weakly.
    """

    rules: tuple[Rule, ...]
    own: frozenset[str]
    waived: frozenset[str] = frozenset()

    def control(self, rule_id: str) -> Control | None:
        """Return what a rule of the catalogue asks for now, or None where it is waived."""
        return next((rule.control for rule in self.rules if rule.id == rule_id), None)


EVERY_RULE = InForce(RULES, frozenset(OWN_RULES))
"""Nothing is waived."""
NO_RULE = InForce((), frozenset())
"""Under ``open_data``."""


def in_force(regime: Regime) -> InForce:
    """Return the rules of a regime: none under ``open_data``; a rule that every site waives holds as the strictest of them says."""
    if regime.profile == "open_data":
        return NO_RULE
    waived = {waiver.rule for waiver in regime.waivers if regime.waived(waiver.rule)}
    rules: list[Rule] = []
    for rule in RULES:
        if rule.id not in waived:
            rules.append(rule)
            continue
        left = [weakened(rule, one.value) for one in regime.waivers if one.rule == rule.id]
        held = [one for one in left if one is not None]
        if held:
            rules.append(max(held, key=lambda one: strictness(one.control)))
    return InForce(tuple(rules), frozenset(OWN_RULES) - waived, frozenset(waived))


def weakened(rule: Rule, value: str) -> Rule | None:
    """Return a rule as a waiver leaves it, None for ``off``; raises ConfigurationError for a value that means nothing."""
    if isinstance(rule.control, Prohibited | Confirm):
        raise ConfigurationError(f"waivers: rule {rule.id} cannot be waived; remove the waiver")
    if value == OFF:
        return None
    control = _with(rule.control, value)
    if control is None:
        raise ConfigurationError(
            f"waivers: rule {rule.id}: expected value: {OFF}"
            + (", or a number" if _takes_number(rule.control) else "")
        )
    if strictness(control) >= strictness(rule.control):
        raise ConfigurationError(
            f"waivers: rule {rule.id}: the value asks for as much as the rule; remove the waiver"
        )
    return replace(rule, control=control)


def check_waivers(waivers: Iterable[tuple[str, str]]) -> None:
    """Raise ConfigurationError unless every (rule, value) names a rule that can be waived so."""
    known: Mapping[str, Rule] = {rule.id: rule for rule in RULES}
    seen: set[str] = set()
    for name, value in waivers:
        if name in seen:
            raise ConfigurationError(f"waivers: rule {name} is waived twice; keep one")
        seen.add(name)
        if name in COMPANIONS:
            raise ConfigurationError(
                f"waivers: rule {name} {COMPANIONS[name]}; waive those, or remove the waiver"
            )
        if name in known:
            weakened(known[name], value)
        elif name not in OWN_RULES:
            raise ConfigurationError(f"waivers: no rule {name}; docs/catalogue.md lists them")
        elif value != OFF:
            raise ConfigurationError(f"waivers: rule {name}: expected value: {OFF}")


def _takes_number(control: Control) -> bool:
    return isinstance(control, MinimumN | NoiseBelow | SuppressCells | AlwaysNoise)


def _with(control: Control, value: str) -> Control | None:
    """Return a control with another number in it, or None where the text is none."""
    try:
        number = float(value)
    except ValueError:
        return None
    if not 0 < number < float("inf"):
        return None
    match control:
        case AlwaysNoise():
            return AlwaysNoise(number)
        case MinimumN(of=of) if number.is_integer():
            return MinimumN(int(number), of)
        case NoiseBelow(epsilon=epsilon) if number.is_integer():
            return NoiseBelow(int(number), epsilon)
        case SuppressCells() if number.is_integer():
            return SuppressCells(int(number))
        case _:
            return None
