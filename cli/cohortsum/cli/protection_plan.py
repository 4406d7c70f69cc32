"""What the modes of protection cost a study, and what each party could learn under them: printed by `study check`.

Bytes and rounds follow from the plan. Times are computing at one site on one core of a common server, from the figures of
`benchmarks/masking.py`, `benchmarks/two_key.py` and `benchmarks/committee.py`, with one digit: they are there to tell seconds from minutes.
"""

from rich.console import Console
from rich.table import Table

from cohortsum.crypto.bfv import STANDARD
from cohortsum.protocol.committee import cost
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import Roster
from cohortsum.study.committee import runs_at_most, tables_of
from cohortsum.study.committee_members import members_of
from cohortsum.study.definition.by_committee import counts_of, searches_of
from cohortsum.study.planning import StudyPlan

WORD_BYTES = 8
MASK_S = 2.5e-9
"""To add one mask to one number modulo 2**64."""
RESIDUE_MASK_S = 6e-9
"""Modulo the prime of two-key mode."""
ENCRYPT_S = 0.5e-6
"""To encrypt one number and frame it."""
RUN_S = 1.0
"""A run of a committee of three on one machine, starting the workers included; of seven a few."""
NOTHING = ("", "")
WAY_S = 0.1
"""From one member over the coordinator to another."""


def print_modes(plan: StudyPlan, roster: Roster, console: Console) -> None:
    """Print masking, two-key mode and the committee beside each other; the study's own mode is marked."""
    round_plan, serves = plan.round, plan.most_rounds == 1 and not plan.seen_by_sites
    mode = plan.study.protection.mode
    table = Table(
        title="What the modes of protection cost, and what each party could learn", title_justify="left"
    )
    table.add_column("")
    for name in ("masking", "two_key", "committee"):
        table.add_column(f"{name} (this study)" if name == mode else name)
    rounds = "1" if plan.most_rounds == 1 else f"up to {plan.most_rounds}"
    masked: tuple[tuple[str, str], ...] = (
        (f"{_bytes(round_plan, False):,}", f"{_bytes(round_plan, True):,}"),
        (rounds, "1" if serves else "not served: analyses of one round only"),
        ("7", "7, and 2 of coordinator and trustee"),
        (_seconds(round_plan, False), _seconds(round_plan, True)),
    )
    if mode == "committee":
        masked = (NOTHING,) * 4  # its analyses are asked otherwise there
    names = ("bytes a site sends", "rounds, or runs", "exchanges of one", "time at a site")
    rows = [
        (name, *cells, own)
        for name, cells, own in zip(names, masked, _committee_costs(plan, roster), strict=True)
    ]
    rows += [
        ("opening needs", "t sites", "t sites and the trustee", "all members of the committee"),
        (
            "the coordinator learns",
            "the opened sums",
            "the opened sums",
            "counts that may be seen, and levels of quantiles; no small count",
        ),
        ("the trustee learns", "", "who took part, the gate's total, and a sum that is masked", ""),
        (
            "coordinator and c sites",
            "what these sites sent themselves",
            "what these sites sent themselves",
            "what these sites dealt themselves, be they members or not; which counts are small",
        ),
        (
            "coordinator and t sites",
            "every site's numbers",
            "nothing before the trustee decrypts; then as masking",
            "as with c sites, while fewer than (m + 1)/2 members are among them",
        ),
        ("(m + 1)/2 of m members", "", "", "every number that every site dealt"),
        ("a member that lies", "", "", "may shift a count or flip a bit unseen; sites keep their own checks"),
        ("coordinator and trustee", "", "as masking: nothing without t sites", ""),
        ("a trustee that is away", "", "no result; a retry over the same survivors", ""),
        ("a member that is away", "", "", "no result; a retry over the same sites"),
    ]
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_committee(plan: StudyPlan, roster: Roster, console: Console) -> None:
    """Print what a study asks of its committee, and what must hold before anything opens."""
    study, protection = plan.study, plan.round.protection
    table = Table(title="What the committee opens", title_justify="left")
    for heading in ("analysis", "kind", "counts", "quantiles"):
        table.add_column(heading, justify="left" if heading in ("analysis", "kind") else "right")
    for name, spec in study.analyses.items():
        counts, searches = counts_of(spec, study.variables), searches_of(spec, study.variables)
        table.add_row(name, spec.kind, f"{counts:,}", f"{searches:,}")
    console.print(table)
    alone = len(tables_of(plan)) == 1
    beside = (
        "and a large one beside a lone one"
        if alone
        else "and large ones beside them, as if the number of people were known"
    )
    console.print(
        f"committee    {', '.join(study.protection.committee or ())}; each of its {len(members_of(study, roster))} members computes in "
        "every run\n"
        f"people       at least {protection.min_participants} in all, told as one bit before anything else; "
        f"at least {protection.min_participants_per_site} at a site\n"
        f"sites        at least {max(protection.min_sites, protection.suppliers_least)}, the members among them\n"
        f"counts       below {study.protection.min_cell} stay closed, {beside}\n"
        f"quantiles    with fewer than {study.protection.min_cell} people on one of their sides are not searched\n"
    )
    console.print("The answers are exact: no noise is added.")


def _committee_costs(plan: StudyPlan, roster: Roster) -> tuple[str, str, str, str]:
    """Return bytes, runs, exchanges and time of a committee, where the study has one."""
    if plan.study.protection.mode != "committee":
        return ("", "answers crosstab, histogram and quantiles", "", "")
    costs = [cost(run) for run in runs_at_most(plan, roster)]
    dealt, computed = sum(one.dealer_bytes for one in costs), sum(one.sealed_bytes for one in costs)
    exchanges = sum(one.exchanges for one in costs)
    seconds = len(costs) * RUN_S + exchanges * WAY_S
    return (
        f"{dealt:,}; a member {dealt + computed:,}",
        f"up to {len(costs)} runs",
        f"up to {max(one.exchanges for one in costs)} of members",
        f"about {max(1, round(seconds))} s in all, where members are {WAY_S:g} s from each other",
    )


def _bytes(plan: RoundPlan, encrypted: bool) -> int:
    words = STANDARD.words(plan.length) if encrypted else plan.length
    return words * WORD_BYTES


def _seconds(plan: RoundPlan, encrypted: bool) -> str:
    """Return about how long one site computes: one mask per other site and one of its own, and encryption."""
    each = plan.sites_invited * (RESIDUE_MASK_S if encrypted else MASK_S) + (ENCRYPT_S if encrypted else 0.0)
    seconds = plan.length * each
    return "below 0.1 s" if seconds < 0.1 else f"about {seconds:.1g} s"
