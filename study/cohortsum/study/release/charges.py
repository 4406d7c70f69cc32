"""What a study charged the sites in its sums, as far as the signed messages of its opened rounds and the claim say.

A site's own ledger stays at the site: it also counts attempts that did not open, other studies, and every person set. This is the
part that anybody can derive again.
"""

import json
from collections.abc import Mapping, Sequence

from cohortsum.protocol.witness import WitnessedRound
from cohortsum.study.claim import claim_of
from cohortsum.study.planning import Sites, StudyPlan

NOTE = (
    "Derived from the signed messages of the opened rounds. The ledgers of the sites, which also count attempts that did not "
    "open and other studies, stay at the sites and are not in this bundle."
)


def charges_of(plan: StudyPlan, rounds: Sequence[WitnessedRound], names: Mapping[int, str]) -> bytes:
    """Return ``charges.json``: for every survivor of the first round how many rounds it was in, and what noise they spent.

    Args:
        plan: of the study.
        rounds: all that opened.
        names: ids of sites by roster index.
    """
    noise, study = plan.round.noise, plan.study
    nano_rho = 0 if noise is None else noise.nano_rho
    fewest = min(rounds, key=lambda one: len(one.advertised))
    claim = claim_of(plan, Sites(len(fewest.advertised), len(fewest.survivors)), len(rounds))
    sites = {
        names[index]: {"rounds": count, "nano_rho": count * nano_rho}
        for index in rounds[0].survivors
        if (count := sum(index in one.survivors for one in rounds))
    }
    held = {
        "note": NOTE,
        "noise": study.privacy.noise,
        "epsilon": None if claim is None else claim.epsilon,
        "delta": None if claim is None else claim.delta,
        "study_epsilon": None if claim is None else claim.study_epsilon,
        "sites": sites,
    }
    return json.dumps(held, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n"
