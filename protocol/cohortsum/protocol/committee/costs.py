"""What a run costs at most, from its plan alone: exchanges between members and bytes on the line.

A comparison of one number with l bits takes, of every member, l + 1 opened squares, one opened masked number, l products, one opened
product and one opened bit: 32 d (2 l + 3) bytes in elements of 16, in so many exchanges as a product of l + 1 factors has halvings, and
four more. Numbers are compared in pieces of `TOGETHER`, side by side; a message has a head of 12 bytes in the engine, and 16 more bytes
where it is sealed.
"""

from dataclasses import dataclass
from math import ceil, comb

from cohortsum.crypto.field import COMMITTEE
from cohortsum.crypto.sealing import OVERHEAD_BYTES
from cohortsum.protocol.committee.evaluation import PROBES
from cohortsum.protocol.committee.plan import CommitteePlan
from cohortsum.protocol.committee.programs import Complement, OpenCounts, Program, Threshold

TOGETHER = 256
"""Numbers that the engine compares in one piece; more are cut, and the pieces computed side by side."""
HEAD_BYTES = 12
KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Cost:
    """An upper bound.

    Attributes:
        exchanges: how often members wait for each other; each takes the way from one over the coordinator to another.
        messages: that one member sends to others.
        member_bytes: that one member's worker sends, without seals.
        sealed_bytes: the same with seals, as they leave the node.
        dealer_bytes: that one dealer sends in sealed packages.
    """

    exchanges: int
    messages: int
    member_bytes: int
    sealed_bytes: int
    dealer_bytes: int


@dataclass
class _Sum:
    """Adds up what one member sends."""

    degree: int
    exchanges: int = 0
    messages: int = 0
    elements: int = 0

    def opened(self, values: int, degree: int) -> None:
        """Open values shared by polynomials of this degree: to so many other members."""
        self.messages += degree * ceil(values / TOGETHER)
        self.elements += degree * values

    def compared(self, numbers: int, greatest: int) -> None:
        """Compare numbers up to ``greatest`` with public bounds and open the bits."""
        bits, pieces, twice = greatest.bit_length() + 1, ceil(numbers / TOGETHER), 2 * self.degree
        if not numbers:
            return
        halvings = bits.bit_length()
        self.messages += twice * pieces * halvings
        self.elements += twice * numbers * bits
        self.messages += twice * pieces
        self.elements += twice * numbers * (bits + 1)
        for degree in (self.degree, twice, self.degree):
            self.opened(numbers, degree)
        self.exchanges += 4 + halvings


def cost(plan: CommitteePlan) -> Cost:
    """Return what a run of a plan costs at most."""
    members, sites = len(plan.members), len(plan.dealers)
    total = _Sum(plan.degree)
    for program in plan.programs:
        _add(total, program, sites)
    # the keys for pseudorandom sharing go from the first member of every subset to its others
    keys = (members - 1) * KEY_BYTES * comb(members - 2, members - plan.degree - 2) + 2 * (members - 1)
    member_bytes = total.elements * COMMITTEE.size + HEAD_BYTES * total.messages + keys
    messages = total.messages + members - 1
    package = 2 * 8 + COMMITTEE.size * plan.length + OVERHEAD_BYTES
    return Cost(
        total.exchanges + 1,
        messages,
        member_bytes,
        member_bytes + OVERHEAD_BYTES * messages,
        members * package,
    )


def _add(total: _Sum, program: Program, sites: int) -> None:
    if isinstance(program, Threshold):
        total.compared(1, sites * program.most)
    elif isinstance(program, OpenCounts):
        longest = max(len(one) for one in (*program.cells_of_totals, (0,)))
        alone = program.complement is Complement.TOTALS
        numbers, greatest = (program.cells, 1) if alone else (program.answers, longest)
        total.compared(numbers * (2 if program.zeros else 1), greatest * sites * program.most)
        total.opened(numbers, total.degree)
        total.exchanges += 1
    else:
        total.compared(2, sites * program.length * program.most)
        spans = [min(program.width, high - low) for low, high in program.brackets]
        while any(span > 1 for span in spans):
            total.compared(PROBES * sum(span > 1 for span in spans), program.people)
            spans = [ceil(span / (PROBES + 1)) for span in spans]
