"""What the rules of disclosure ask of a study, as `cohortsum study check` prints it: of every site that holds to them."""

from rich.console import Console
from rich.table import Table

from cohortsum.study.catalogue.controls import Of
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.disclosure.demands import Demands, demands_of
from cohortsum.study.disclosure.waiving import EVERY_RULE

NAMED = 3
"""Variables that a line names before it counts."""


def print_rules(study: FrozenStudy, console: Console) -> None:
    """Print what sites under ``dpuk`` ask of a study, whatever its own thresholds say, and what it does not bring."""
    demands = demands_of(study, EVERY_RULE)
    table = Table(title="At sites that hold to dpuk, waivers aside", title_justify="left")
    table.add_column("analysis")
    for head in ("people at a site", "behind a figure", "in the cohort"):
        table.add_column(head, justify="right")
    for name in study.analyses:
        sizes = (str(demands.minimum(of, name)) for of in (Of.SITE, Of.GROUP, Of.COHORT))
        table.add_row(name, *sizes)
    console.print(table)
    for line in (*_lacking(demands), *_without_noise(demands)):
        console.print(line, markup=False)


def _lacking(demands: Demands) -> list[str]:
    """Return what the study itself does not bring, a line per rule."""
    by_rule: dict[tuple[str, str], dict[str, None]] = {}
    for demand in demands.of_study():
        by_rule.setdefault((demand.sentence, demand.rule.id), {})[demand.variable] = None
    return [
        f"under dpuk no site supplies {_listed(list(variables))}: {sentence} [{rule}]"
        for (sentence, rule), variables in by_rule.items()
    ]


def _without_noise(demands: Demands) -> list[str]:
    least = demands.noise_below
    if demands.study.privacy.noise != "none" or least <= 1:
        return []
    return [f"under dpuk a site with fewer than {least} people supplies nothing to a study without noise"]


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
