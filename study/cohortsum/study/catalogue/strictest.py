"""Which rule holds where several apply: the strictest one, by name, with those it beats.

The rules contradict each other in places. Nothing is averaged and no page wins over another: of rules about the same
thing the strictest holds, and a prohibition beats everything but the duty to confirm. Rules about different things hold
side by side.

A figure that follows from two others is released with them. ``beside`` names what is released together, and the rules for
what follows then hold too.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from cohortsum.study.catalogue.controls import Confirm, MinimumN, Of, Prohibited, question, say, strictness
from cohortsum.study.catalogue.families import ALL_FAMILIES
from cohortsum.study.catalogue.family import Family
from cohortsum.study.catalogue.outputs import Output
from cohortsum.study.catalogue.rule import ANY_IMAGING, Rule
from cohortsum.study.catalogue.rules import RULES

FOLLOWS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset(("sienax.normalised", "sienax.scaling")), "sienax.unnormalised"),
)
"""Families from which, released together, another family follows."""


@dataclass(frozen=True, slots=True)
class Held:
    """A rule that holds.

    Attributes:
        rule: the rule.
        equals: rules that ask for the same.
        beats: rules about the same thing that ask for less, the strictest first.
    """

    rule: Rule
    equals: tuple[Rule, ...] = ()
    beats: tuple[Rule, ...] = ()

    def __str__(self) -> str:
        """Return what holds, by which rule, and what it beats."""
        beaten = ", ".join(f"{rule.id} ({say(rule.control)})" for rule in self.beats)
        return f"{say(self.rule.control)} [{self.rule.id}]" + (f"; beats {beaten}" if beaten else "")


@dataclass(frozen=True, slots=True)
class Decision:
    """What must hold for one output of one family.

    Attributes:
        family: the family's name; None for a name that the catalogue does not know.
        output: the output.
        held: the rules that hold, one per thing they are about.
        follows: families whose rules hold too, because they follow from what is released together.
    """

    family: str | None
    output: Output
    held: tuple[Held, ...]
    follows: tuple[str, ...] = ()

    @property
    def prohibited(self) -> bool:
        """Whether the output is never released."""
        return any(isinstance(held.rule.control, Prohibited) for held in self.held)

    def minimum(self, of: Of) -> int:
        """Return the least number of people, 1 where no rule asks for more."""
        sizes = (held.rule.control for held in self.held)
        return max((size.n for size in sizes if isinstance(size, MinimumN) and size.of is of), default=1)

    def by(self, rule_id: str) -> Literal["holds", "equal", "beaten", "does not apply"]:
        """Return what became of a rule."""
        for held in self.held:
            if held.rule.id == rule_id:
                return "holds"
            if any(rule.id == rule_id for rule in held.equals):
                return "equal"
            if any(rule.id == rule_id for rule in held.beats):
                return "beaten"
        return "does not apply"


def rules_for(family: Family | None, output: Output, rules: Sequence[Rule] = RULES) -> tuple[Rule, ...]:
    """Return the rules that apply to an output, in the order of the page.

    Args:
        family: the family; None for a name the catalogue does not know. That may be an imaging measure, and is held to
            the rules that hold for all of those.
        output: the output.
        rules: all that are in force; some may be waived.
    """
    if family is not None:
        return tuple(rule for rule in rules if output in rule.outputs and family.name in rule.families)
    return tuple(rule for rule in rules if output in rule.outputs and rule.families >= ANY_IMAGING)


def strictest(
    family: Family | None, output: Output, beside: Collection[str] = (), rules: Sequence[Rule] = RULES
) -> Decision:
    """Return the rules that hold for an output of a family, and those they beat.

    Args:
        family: the family; None for a name the catalogue does not know.
        output: the output.
        beside: names of families that are released together with it, the same output of them.
        rules: all that are in force.
    """
    applying = dict.fromkeys(rules_for(family, output, rules))
    follows: list[str] = []
    for parts, third in FOLLOWS:
        if family is not None and family.name in parts <= {family.name, *beside}:
            follows.append(third)
            applying |= dict.fromkeys(rules_for(ALL_FAMILIES[third], output, rules))
    name = None if family is None else family.name
    return Decision(name, output, _held(tuple(applying)), tuple(follows))


def _held(rules: tuple[Rule, ...]) -> tuple[Held, ...]:
    asked: dict[object, list[Rule]] = {}
    for rule in rules:
        asked.setdefault(question(rule.control), []).append(rule)
    never = [rule for rule in rules if isinstance(rule.control, Prohibited)]
    if not never:
        return tuple(_strictest_of(group) for group in asked.values())
    first, *equals = sorted(never, key=_breadth)
    confirmed = [rule for rule in rules if isinstance(rule.control, Confirm)]  # a duty stays one
    beaten = tuple(rule for rule in rules if rule not in never and rule not in confirmed)
    return (Held(first, tuple(equals), beaten), *map(Held, confirmed))


def _strictest_of(group: list[Rule]) -> Held:
    most = max(strictness(rule.control) for rule in group)
    first, *equals = sorted((rule for rule in group if strictness(rule.control) == most), key=_breadth)
    beaten = [rule for rule in group if strictness(rule.control) != most]
    beaten.sort(key=lambda rule: strictness(rule.control), reverse=True)
    return Held(first, tuple(equals), tuple(beaten))


def _breadth(rule: Rule) -> int:
    """Return how many families a rule is about: of rules that ask for the same, the narrower one is named."""
    return len(rule.families)
