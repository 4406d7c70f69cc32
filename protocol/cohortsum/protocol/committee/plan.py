"""The plan of a committee run: who computes, what, and why no sum can leave the range that the engine is proven for.

Members are 3, 5 or 7 sites that the study names. Sharing is by polynomials of degree (m - 1)/2: so many members together see random
field elements only, one more can open everything. The study's bound on colluding sites must therefore not exceed it.

**Field.** Shares are integers modulo `cohortsum.crypto.field.COMMITTEE`, a prime of 128 bits. Every sum S lies in [0, sites * most], which
is at most 2**40; a comparison opens S - T + 2**l + r + 2**l * R with l <= 42, r of l uniform bits and R of at least 74 bits that are
unknown to any (m - 1)/2 members, which is below 2**128 and hides S - T up to 2**-74.

A run has one context. A study that needs several stages makes a plan for each; ``earlier`` names the result that a later plan follows
from, so that members and sites agree on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cohortsum.crypto.encoding import digest, encode, number
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.protocol.committee.programs import LONGEST, SUM_BITS, SUPPRESSED, Program

PLAN = "cohortsum/v1/committee/plan"
SIZES = (3, 5, 7)
MOST_SITES = 200

Answer = tuple[int, ...]
"""What one program opened; see the programs."""


@dataclass(frozen=True, slots=True)
class CommitteePlan:
    """Everything a run must agree on besides its identifiers.

    Attributes:
        members: roster indices of the committee, ascending; the place in this tuple is a member's number.
        dealers: roster indices of the sites that bring vectors, ascending; members may be among them.
        colluding: the study's bound c on sites that may collude.
        programs: in the order in which they are computed and answered.
        stage: 1 for the first run of an analysis.
        earlier: digest of the result that this plan follows from; empty in the first stage.
        honest: the study's bound h_min: so many dealers must be left when c of them pool what they know.
        degree: of the sharing polynomials, (m - 1)/2.
        length: how many numbers a site brings in all.
        digest: SHA-256 over everything above.
    """

    members: tuple[int, ...]
    dealers: tuple[int, ...]
    colluding: int
    programs: tuple[Program, ...]
    stage: int = 1
    earlier: bytes = b""
    honest: int = 3
    degree: int = field(init=False)
    length: int = field(init=False)
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse a committee that c colluding sites could open, and sums that could leave the proven range."""
        if len(self.members) not in SIZES or not _ascending(self.members):
            raise ConfigurationError("a committee has 3, 5 or 7 different sites, by ascending roster index")
        if not _ascending(self.dealers) or not 2 <= len(self.dealers) <= MOST_SITES:
            raise ConfigurationError(
                f"a committee run needs 2 to {MOST_SITES} different sites that bring numbers"
            )
        if self.colluding < 0 or self.honest < 1 or len(self.dealers) < self.colluding + self.honest:
            raise ConfigurationError(
                f"a sum over {len(self.dealers)} sites holds fewer than {self.honest} that no {self.colluding} others know; "
                f"{self.colluding + self.honest} or more must bring numbers"
            )
        object.__setattr__(self, "degree", (len(self.members) - 1) // 2)
        if self.colluding > self.degree:
            raise ConfigurationError(
                f"a committee of {len(self.members)} is opened by {self.degree + 1} of its members, and max_colluding_sites is "
                f"{self.colluding}; name a committee of {2 * self.colluding + 1} or more"
            )
        names = [program.name for program in self.programs]
        if not names or len(set(names)) != len(names):
            raise ConfigurationError("a committee run needs programs, each with a name of its own")
        for program in self.programs:
            if program.length * len(self.dealers) * program.most >= 2**SUM_BITS:
                raise ConfigurationError(
                    f"committee program {program.name}: sums over {len(self.dealers)} sites could exceed 2**{SUM_BITS}; lower the "
                    "greatest count of a site"
                )
        object.__setattr__(self, "length", sum(program.length for program in self.programs))
        if self.length > LONGEST:
            raise ConfigurationError(f"a committee run takes at most {LONGEST} numbers of a site")
        object.__setattr__(self, "digest", self._digest())

    def bounds(self) -> tuple[int, ...]:
        """Return the greatest value of every number that a site brings."""
        return tuple(program.most for program in self.programs for _ in range(program.length))

    def check_values(self, values: Sequence[int]) -> None:
        """Raise ConfigurationError unless a site's own numbers keep to the plan; never says which number."""
        fits = len(values) == self.length and all(
            0 <= value <= most for value, most in zip(values, self.bounds(), strict=True)
        )
        if not fits:
            raise ConfigurationError("committee: this site's numbers do not keep to the bounds of the plan")

    def cut(self, values: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return a vector of ``length`` numbers by program."""
        parts: list[tuple[int, ...]] = []
        start = 0
        for program in self.programs:
            parts.append(tuple(values[start : start + program.length]))
            start += program.length
        return tuple(parts)

    def check_answers(self, answers: Sequence[Sequence[int]]) -> tuple[Answer, ...]:
        """Return the answers of all programs; raises ConfigurationError where they cannot be this plan's."""
        lengths = [len(answer) for answer in answers]
        if lengths != [program.answers for program in self.programs]:
            raise ConfigurationError("committee: the answers do not have the plan's lengths")
        if not all(SUPPRESSED <= value < 2**SUM_BITS for answer in answers for value in answer):
            raise ConfigurationError("committee: an answer lies outside the range of sums")
        return tuple(tuple(answer) for answer in answers)

    def _digest(self) -> bytes:
        return digest(
            PLAN,
            encode(*(number(index) for index in self.members)),
            encode(*(number(index) for index in self.dealers)),
            number(self.colluding),
            encode(*(program.digest for program in self.programs)),
            number(self.stage),
            self.earlier,
            number(self.honest),
        )


def _ascending(indices: tuple[int, ...]) -> bool:
    return list(indices) == sorted(set(indices)) and all(0 <= index < 2**16 for index in indices)
