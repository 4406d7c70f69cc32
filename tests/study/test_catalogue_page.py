"""docs/catalogue.md shows the catalogue as it is: its tables are rendered from the data and compared line by line."""

import re
from pathlib import Path

import pytest

from cohortsum.node.config import PolicyConfig
from cohortsum.study.catalogue import (
    ALL_FAMILIES,
    FAMILIES,
    OUTPUTS_OF_KIND,
    RULES,
    Family,
    Output,
    Rule,
    strictest,
)
from cohortsum.study.catalogue.controls import Confirm, MinimumN, Of, Prohibited, say
from cohortsum.study.catalogue.family import BRAID, DEFINITION, WIDE, Row
from cohortsum.study.catalogue.outputs import AGGREGATES, EVERYTHING, RELEASES
from cohortsum.study.catalogue.rule import ANY_IMAGING, EVERY_FAMILY, FREESURFER, Page
from cohortsum.study.catalogue.strictest import FOLLOWS

DOC = Path(__file__).resolve().parents[2] / "docs" / "catalogue.md"
SOURCES = {BRAID: "DP page", WIDE: "wide", DEFINITION: "definition"}
NEVER = frozenset(
    name for name, family in ALL_FAMILIES.items() if strictest(family, Output.SUMMARY).prohibited
)
FAMILY_SETS = {
    EVERY_FAMILY: "every family",
    EVERY_FAMILY - NEVER: "every family",
    ANY_IMAGING: "imaging families but `tbss`",
    FREESURFER: "`freesurfer.*`",
}
OUTPUT_SETS = {EVERYTHING: "everything", RELEASES: "all but values of one person", AGGREGATES: "aggregates"}


def number(value: float) -> str:
    return f"{value:,.10g}".replace(",", " ")


def code(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def families(names: frozenset[str]) -> str:
    """Return the families in words, FreeSurfer's as one where they are all there."""
    if names in FAMILY_SETS:
        return FAMILY_SETS[names]
    return code([name for name in ALL_FAMILIES if name in names])


def family_line(family: Family) -> str:
    decided = strictest(family, Output.SUMMARY)
    people = ["never"] * 3 if decided.prohibited else [str(decided.minimum(of)) for of in Of]
    further = [
        say(held.rule.control)
        for held in decided.held
        if not isinstance(held.rule.control, MinimumN | Prohibited | Confirm)
    ]
    told = f"| `{family.name}` | {family.title} | {len(family.rows) or '-'} | {' | '.join(people)}"
    return f"{told} | {'; '.join(further) or '-'} |"


def clamp_lines(family: Family) -> list[str]:
    groups: dict[tuple[str, float, float, str], list[Row]] = {}
    for row in family.rows:
        groups.setdefault((row.unit, row.lower, row.upper, row.source), []).append(row)
    return [
        f"| `{family.name}` | `{rows[0].name}`{f' and {len(rows) - 1} more' if rows[1:] else ''} | {unit}"
        f" | {number(lower)} to {number(upper)} | {SOURCES.get(source, source)} |"
        for (unit, lower, upper, source), rows in groups.items()
    ]


def output_line(output: Output) -> str:
    kinds = [kind for kind, outputs in OUTPUTS_OF_KIND.items() if output in outputs]
    return f"| {output} | {code(kinds) or 'no analysis'} |"


def rule_line(rule: Rule) -> str:
    outputs = OUTPUT_SETS.get(rule.outputs) or ", ".join(
        output for output in Output if output in rule.outputs
    )
    place = f"{rule.source.heading}{': ' if rule.source.entry else ''}{rule.source.entry}"
    page = "" if rule.source.page is Page.DISCLOSURE else "DP page, "
    return f"| `{rule.id}` | {rule.what} | {families(rule.families)} | {outputs} | {say(rule.control)} | {page}{place} |"


def note_line(rule: Rule) -> str:
    return f"| `{rule.id}` | {rule.note} |"


def conflict_lines() -> list[str]:
    """Return one line for each rule that beats others, over the families that may be released at all."""
    beaten: dict[str, dict[str, None]] = {}
    where: dict[str, set[str]] = {}
    for family in ALL_FAMILIES.values():
        if family.name in NEVER:
            continue
        for output in Output:
            for held in strictest(family, output).held:
                if held.beats:
                    beaten.setdefault(held.rule.id, {}).update(dict.fromkeys(rule.id for rule in held.beats))
                    where.setdefault(held.rule.id, set()).add(family.name)
    return [
        f"| `{rule.id}` | {code(list(beaten[rule.id]))} | {families(frozenset(where[rule.id]))} |"
        for rule in RULES
        if rule.id in beaten
    ]


TABLES = {
    "families": [family_line(family) for family in ALL_FAMILIES.values()],
    "clamps": [line for family in FAMILIES.values() for line in clamp_lines(family)],
    "outputs": [output_line(output) for output in Output],
    "rules": [rule_line(rule) for rule in RULES],
    "notes": [note_line(rule) for rule in RULES if rule.note],
    "conflicts": conflict_lines(),
}


@pytest.mark.parametrize("table", TABLES)
def test_the_page_has_every_line_of_a_table_in_its_order(table: str) -> None:
    """A missing line is shown by the comparison, ready to be pasted."""
    lines = DOC.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line in set(TABLES[table])] == TABLES[table]


def test_the_page_has_no_other_line_about_a_family_or_a_rule() -> None:
    known = {line for lines in TABLES.values() for line in lines}
    names = {*ALL_FAMILIES, *(rule.id for rule in RULES)}
    lines = DOC.read_text(encoding="utf-8").splitlines()
    about = [line for line in lines if (first := re.match(r"\| `([^`]+)` \|", line)) and first[1] in names]
    assert [line for line in about if line not in known] == []


def test_a_family_or_rule_in_the_text_exists() -> None:
    words = set(re.findall(r"`([a-z]+(?:[._][a-z_0-9]+)+)`", DOC.read_text(encoding="utf-8")))
    rows = {row.name for family in FAMILIES.values() for row in family.rows}
    keys = {"node.yaml", "voxel_mm3", "open_data"}
    assert words - rows - {*ALL_FAMILIES, *(rule.id for rule in RULES), *OUTPUTS_OF_KIND} == keys


def test_the_page_says_what_is_in_force_and_which_pairs_give_a_third() -> None:
    text = DOC.read_text(encoding="utf-8")
    assert "hold at sites under `dpuk`, the default profile" in text
    assert PolicyConfig().profile == "dpuk"
    for parts, third in FOLLOWS:
        assert all(f"`{name}`" in text for name in (*parts, third))
