"""Tables and documents that look like those of a study, written by hand."""

from cohortsum.report.anatomy import DESIKAN_KILLIANY
from cohortsum.report.document import (
    SCHEMA,
    ItemBlock,
    Participation,
    ResultDocument,
    RosterIdentity,
    RoundIdentity,
    StudyIdentity,
    TableBlock,
    Thresholds,
)
from cohortsum.study.release.item import item_digest
from cohortsum.study.release.states import State
from cohortsum.study.results import NO_DATA, Cell, Status, Table
from cohortsum.study.statistics.regression_tables import COEFFICIENT_COLUMNS, EFFECT_COLUMNS, NOT_THE_EFFECT

DIGEST = bytes.fromhex("0a" * 32)
TERM = "dx[autism]"
THICKNESS = tuple(f"{side}_{name}_thickness" for side in ("lh", "rh") for name in DESIKAN_KILLIANY)


def effect_row(outcome: str, d: float, p_fdr: float, n: int = 1400) -> tuple[Cell, ...]:
    b, se = d * 0.15, 0.0075
    coefficient: tuple[Cell, ...] = (
        outcome,
        TERM,
        b,
        se,
        b / se,
        p_fdr / 4,
        b - 0.0147,
        b + 0.0147,
        n,
        n - 12,
    )
    return (*coefficient, Status.OK.value, d, 0.05, d - 0.098, d + 0.098, p_fdr, n - 650, 650)


def absent_row(outcome: str, status: Status = Status.CONSTANT) -> tuple[Cell, ...]:
    return (outcome, TERM, *(NO_DATA,) * 6, 1400, NO_DATA, status.value, *(NO_DATA,) * 5, 750, 650)


def age_row(outcome: str) -> tuple[Cell, ...]:
    numbers: tuple[Cell, ...] = (-0.004, 0.001, -4.0, 6e-5, -0.006, -0.002, 1400, 1388)
    return (outcome, "age", *numbers, Status.OK.value, *(NOT_THE_EFFECT,) * 7)


def regression(*rows: tuple[Cell, ...]) -> Table:
    notes = ("Contributing sites: 9.",)
    return Table("thickness", "regression", COEFFICIENT_COLUMNS + EFFECT_COLUMNS, rows, notes)


def thickness_table(outcomes: tuple[str, ...] = THICKNESS) -> Table:
    """One effect and one age row per outcome; every seventh effect is absent, every fifth is significant."""
    rows: list[tuple[Cell, ...]] = []
    for place, outcome in enumerate(outcomes):
        d = 0.02 * (place % 21) - 0.2
        p_fdr = 0.001 if place % 5 == 0 else 0.3
        rows += [absent_row(outcome) if place % 7 == 3 else effect_row(outcome, d, p_fdr, 1400 + place)]
        rows += [age_row(outcome)]
    return regression(*rows)


def released(block: TableBlock) -> ItemBlock:
    digest = item_digest(DIGEST, block.canonical()).hex()
    return ItemBlock(item=block.analysis, state=State.RELEASED, digest=digest)


def document(*tables: Table) -> ResultDocument:
    return ResultDocument(
        schema=SCHEMA,
        software="cohortsum 0.1.0",
        study=StudyIdentity(
            id="asd-open", title="Thickness", version=1, digest=DIGEST.hex(), fingerprint="k3f9-72c1"
        ),
        roster=RosterIdentity(version=3, digest="5b" * 32),
        round=RoundIdentity(id="7d2c", attempt=1),
        epoch="2026-11",
        profile="open_data",
        waivers=(),
        noise="none",
        rules=(),
        release=tuple(map(released, map(TableBlock.of, tables))),
        sites=Participation(took_part=("amc", "kcl", "oak"), survivors=("amc", "oak"), dropouts=("kcl",)),
        thresholds=Thresholds(
            min_sites=2,
            min_participants=100,
            min_participants_per_site=10,
            max_colluding_sites=0,
            min_honest_inputs=2,
        ),
        tables=tuple(map(TableBlock.of, tables)),
    )
