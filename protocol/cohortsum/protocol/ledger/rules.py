"""The numbers the ledger's rules depend on, the reasons they refuse for, and one switch per rule.

The switches exist so that a test can take one rule away and show what leaks without it. Nothing outside tests sets one.
"""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Limits:
    """What the strictest of profile, policy and study asks for.

    Attributes:
        k: least number of people that two answered sets, or any combination of them, may leave over; at least 1.
        colluding: sites that may collude with each other and the coordinator (c).
        honest_minimum: honest inputs in every opened sum (h_min).
        max_atoms: cells of this site's sets up to which combinations are searched; with more the site stays out.
        max_steps: steps of one search; where they do not suffice the site stays out.
    """

    k: int
    colluding: int
    honest_minimum: int
    max_atoms: int = 64
    max_steps: int = 20_000

    @property
    def protected_minimum(self) -> int:
        """Protected sites that are opened together, or not at all: h_min + c."""
        return self.honest_minimum + self.colluding


class Reason(StrEnum):
    """Why a site stays out, for its own log; everybody else reads `not taking part`."""

    RESTORED = "the ledger was restored and is not rebuilt; run node recover"
    SPENT = "this context was answered before"
    NOT_WRITTEN = "this site sent no masked input in this context"
    CHANGED = "the ledger changed between the advert and the masked input; the next attempt may succeed"
    STATUS = "the site's status was fixed by its first masked input and is another one"
    TOO_FEW_FOR_DERIVABLE = "a block has fewer people than a derivable site must have; do not supply it"
    WITHDRAWN = "somebody who withdrew consent is in the set; take a new snapshot"
    ATTEMPTS = "no charged attempt is left"
    NEAR_DUPLICATE = (
        "the set differs from an answered one by fewer than k people; reuse that one or wait for more"
    )
    FEW_LEFT = "a combination of answered sets and this one leaves fewer than k people"
    TOO_MANY_ATOMS = "too many overlapping sets to search every combination; ask for bands in one study"
    SEARCH_TOO_LONG = "the search over combinations did not end; ask for bands in one study"
    UNRESOLVED = "an earlier masked input may have been opened; fetch its transcript or tombstones"
    OPENED_ONCE = "this protected site was opened; it joins only retries and iterations of that round"
    OTHER_PEOPLE = "this protected site was opened with other people"
    OTHER_CELLS = "this protected site's sets overlap in another way than the plan says for every site"
    PROTECTED_TOO_FEW = "fewer protected sites than h_min + c would be opened together"
    PROTECTED_MIXED = "protected sites name different earlier rounds, or some name none"
    PROTECTED_OTHERS = "the protected sites are not exactly those of the earlier round"
    PROTECTED_SUPPLIES = "a block is supplied by some protected sites and not by others"
    NOT_A_CONTINUATION = "the round is no retry or iteration of the round that protected sites name"
    NO_PROOF = "a named round comes without t valid signatures of its survivors"
    NOT_A_SURVIVOR = "the survivor list does not show this site as it advertised itself"


@dataclass(frozen=True, slots=True)
class Rules:
    """One switch per rule; a switch that is off takes the rule away. For tests only.

    Attributes:
        people: an exact people set is an earlier one or leaves k people from everything.
        combinations: of more than two sets too.
        status_fixed: derivable or protected once and for all.
        opened_once: an opened protected site joins only retries and iterations of its round.
        same_people: with the people it was opened with.
        same_protected: with exactly the protected sites it was opened with, and no new ones.
        enough_protected: at least h_min + c protected sites together.
        shared_supplies: a block is supplied by all protected sites of the round or by none.
        shared_cells: a protected site's sets overlap as the plan says for every site.
        possibly_opened: an unresolved write counts as opened.
        proof: a named survivor set needs t valid signatures.
        whole_quorum: n - t + c + 1 tombstones close a round, not one fewer.
        restored_stays_out: a restored ledger answers nothing until it is rebuilt.
    """

    people: bool = True
    combinations: bool = True
    status_fixed: bool = True
    opened_once: bool = True
    same_people: bool = True
    same_protected: bool = True
    enough_protected: bool = True
    shared_supplies: bool = True
    shared_cells: bool = True
    possibly_opened: bool = True
    proof: bool = True
    whole_quorum: bool = True
    restored_stays_out: bool = True


ALL = Rules()
