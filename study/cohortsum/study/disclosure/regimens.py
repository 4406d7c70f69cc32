"""The regime of a round from what its sites signed in their approvals.

A site's approval names the profile that its policy starts from, a least count of its own, and the rules it waives. Whoever reads an
approval checks that it means something before it counts.
"""

import datetime
from collections.abc import Mapping

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.protocol.messages import Regimen
from cohortsum.study.disclosure.verdict import PROFILES, Regime, Waiver
from cohortsum.study.disclosure.waiving import check_waivers


def read_waivers(site: str, regimen: Regimen) -> tuple[Waiver, ...]:
    """Return the waivers of a site; raises ConfigurationError for a profile, rule, value or day that means nothing."""
    if regimen.profile not in PROFILES:
        raise ConfigurationError(f"profile: expected one of {', '.join(PROFILES)}")
    if regimen.profile == "open_data" and regimen.waivers:
        raise ConfigurationError("waivers: open_data has no rules to waive; remove them")
    check_waivers((one.rule, one.value) for one in regimen.waivers)
    try:
        return tuple(
            Waiver(one.rule, one.value, one.reason, one.by, datetime.date.fromisoformat(one.until), site)
            for one in regimen.waivers
        )
    except ValueError:
        raise ConfigurationError("waivers: until: expected a day, as in 2027-06-30") from None


def regime_of_sites(regimens: Mapping[str, Regimen]) -> Regime:
    """Return the strictest regime of the sites in a sum, by site id; raises ConfigurationError as `read_waivers` does."""
    held = frozenset(site for site, regimen in regimens.items() if regimen.profile == "dpuk")
    waivers = (one for site, regimen in sorted(regimens.items()) for one in read_waivers(site, regimen))
    least = max((regimen.count for regimen in regimens.values()), default=0)
    return Regime("dpuk" if held else "open_data", tuple(waivers), held, least)
