"""How many sites must open a sum, and how many may collude or drop out.

With n sites that advertised, threshold t and at most c colluding sites:

* B1: ``2 t > n + c``. An honest site gives one kind of share per peer, a corrupt one both, so n + c shares exist; reading
  both kinds of one peer needs 2 t. The same count leaves room for one opened survivor set only.
* B2: ``t - c >= h_min``. Every opened sum holds at least h_min honest inputs.
* B3: ``n - max(t, min_sites)`` dropouts are survived; it must not be negative.

The threshold is always derived, ``floor(2 n / 3) + 1``; one inside a message is at most compared. (Bonawitz et al. 2017,
"Practical Secure Aggregation for Privacy-Preserving Machine Learning", active variant.)
"""

from dataclasses import dataclass

from cohortsum.crypto.errors import RemoteProtocolError


@dataclass(frozen=True, slots=True)
class Protection:
    """The thresholds a study declares; a site may hold stricter ones.

    Attributes:
        min_sites: least number of sites at every step.
        min_participants: least number of people in an opened sum (N_min).
        max_participants: greatest number of people the encoding is proven for (N_max).
        min_participants_per_site: a site with fewer people of the cohort stays out.
        max_colluding_sites: sites that may collude with each other and the coordinator (c).
        min_honest_inputs: honest inputs in every opened sum (h_min).
        max_attempts: attempts that may be charged.
    """

    min_sites: int
    min_participants: int
    max_participants: int
    min_participants_per_site: int
    max_colluding_sites: int
    min_honest_inputs: int
    max_attempts: int

    @property
    def gate_cap(self) -> int:
        """One cap for the count each site puts into the gate (g_max = ceil(N_min / h_min))."""
        return -(-self.min_participants // self.min_honest_inputs)

    @property
    def gate_minimum(self) -> int:
        """What the gate sum must reach: N_min plus what c sites could have miscounted within the cap."""
        return self.min_participants + self.max_colluding_sites * self.gate_cap

    @property
    def suppliers_least(self) -> int:
        """Sites that must appear together for h_min honest ones to be among them (h_min + c)."""
        return self.min_honest_inputs + self.max_colluding_sites

    @property
    def suppliers_minimum(self) -> int:
        """Least number of suppliers for an outcome to stay in the plan."""
        return max(self.min_sites, self.suppliers_least)


def threshold(sites: int) -> int:
    """Return the opening threshold (t in Bonawitz et al. 2017) for ``sites`` that advertised."""
    return 2 * sites // 3 + 1


def dropouts_survived(sites: int, min_sites: int) -> int:
    """Return how many of ``sites`` may drop out; negative if the round cannot run at all."""
    return sites - max(threshold(sites), min_sites)


def broken_bound(sites: int, protection: Protection) -> str | None:
    """Return the sentence for the first bound that ``sites`` advertisers break, or None."""
    t, c = threshold(sites), protection.max_colluding_sites
    if 2 * t <= sites + c:
        return f"B1: {sites} sites open at {t}, too few against {c} colluding sites (2 t > n + c)"
    if t - c < protection.min_honest_inputs:
        return f"B2: {sites} sites open at {t}, which leaves {t - c} honest inputs; {protection.min_honest_inputs} are required"
    if dropouts_survived(sites, protection.min_sites) < 0:
        return f"B3: {sites} sites advertised, {max(t, protection.min_sites)} are required"
    return None


def check_bounds(sites: int, protection: Protection, check: str) -> None:
    """Raise RemoteProtocolError named ``check`` if ``sites`` advertisers break B1, B2 or B3."""
    broken = broken_bound(sites, protection)
    if broken is not None:
        raise RemoteProtocolError(check, broken)


def allowed_sizes(invited: int, protection: Protection) -> tuple[int, ...]:
    """Return every number of advertisers, up to ``invited``, with which a round may run."""
    return tuple(n for n in range(1, invited + 1) if broken_bound(n, protection) is None)
