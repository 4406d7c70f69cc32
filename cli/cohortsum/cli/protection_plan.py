"""What the modes of protection cost a study, and what each party could learn under them: printed by `study check`.

Bytes and rounds follow from the plan. Times are computing at one site on one core of a common server, from the figures of
`benchmarks/masking.py` and `benchmarks/two_key.py`, with one digit: they are there to tell seconds from minutes.
"""

from rich.console import Console
from rich.table import Table

from cohortsum.crypto.bfv import STANDARD
from cohortsum.protocol.plan import RoundPlan
from cohortsum.study.planning import StudyPlan

WORD_BYTES = 8
MASK_S = 2.5e-9
"""To add one mask to one number modulo 2**64."""
RESIDUE_MASK_S = 6e-9
"""Modulo the prime of two-key mode."""
ENCRYPT_S = 0.5e-6
"""To encrypt one number and frame it."""


def print_modes(plan: StudyPlan, console: Console) -> None:
    """Print masking beside two-key mode; the study's own mode is marked."""
    round_plan, serves = plan.round, plan.most_rounds == 1 and not plan.seen_by_sites
    mode = plan.study.protection.mode
    table = Table(
        title="What the modes of protection cost, and what each party could learn", title_justify="left"
    )
    table.add_column("")
    for name in ("masking", "two_key"):
        table.add_column(f"{name} (this study)" if name == mode else name)
    rounds = "1" if plan.most_rounds == 1 else f"up to {plan.most_rounds}"
    rows = (
        (
            "bytes a site sends, first round",
            f"{_bytes(round_plan, False):,}",
            f"{_bytes(round_plan, True):,}",
        ),
        ("rounds", rounds, "1" if serves else "not served: analyses of one round only"),
        ("exchanges of a round", "7", "7, and 2 of coordinator and trustee"),
        ("computing at a site, first round", _seconds(round_plan, False), _seconds(round_plan, True)),
        ("opening needs", "t sites", "t sites and the trustee"),
        ("the coordinator learns", "the opened sums", "the opened sums"),
        ("the trustee learns", "", "who took part, the gate's total, and a sum that is masked"),
        ("coordinator and c sites", "what these sites sent themselves", "what these sites sent themselves"),
        (
            "coordinator and t sites",
            "every site's numbers",
            "nothing before the trustee decrypts; then as masking",
        ),
        ("coordinator and trustee", "", "as masking: nothing without t sites"),
        ("a trustee that is away", "", "no result; a retry over the same survivors"),
    )
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _bytes(plan: RoundPlan, encrypted: bool) -> int:
    words = STANDARD.words(plan.length) if encrypted else plan.length
    return words * WORD_BYTES


def _seconds(plan: RoundPlan, encrypted: bool) -> str:
    """Return about how long one site computes: one mask per other site and one of its own, and encryption."""
    each = plan.sites_invited * (RESIDUE_MASK_S if encrypted else MASK_S) + (ENCRYPT_S if encrypted else 0.0)
    seconds = plan.length * each
    return "below 0.1 s" if seconds < 0.1 else f"about {seconds:.1g} s"
