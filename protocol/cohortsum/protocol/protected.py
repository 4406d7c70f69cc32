"""Protected sites in a round: their totals appear together or not at all.

Between rounds a coordinator can subtract. A site that minds is *protected*: its data are opened once, together with at least
h_min + c protected sites that supply exactly the same, and afterwards only in retries over the same survivors. Every site of U3
checks it, derivable ones too, so at least t - c honest ones do (`ledger.sites` has the argument and the rule in general; with one
round per study a retry is bound to its survivors anyway, so that the earlier attempt is one that every survivor has recorded).
"""

from collections.abc import Mapping

from cohortsum.protocol.messages import Advert


def protected_rule(
    adverts: Mapping[int, Advert], supplies: Mapping[int, frozenset[str]], least: int
) -> str | None:
    """Return why these sites may not be opened together, or None.

    Args:
        adverts: by roster index, of everybody who would be opened.
        supplies: what each of them supplies.
        least: h_min + c.
    """
    protected = [index for index, advert in adverts.items() if advert.protected]
    if not protected:
        return None
    if len(protected) < least:
        return f"{len(protected)} protected sites, {least} appear together or none"
    if len({supplies[index] for index in protected}) > 1:
        return "protected sites supply different things"
    if len({adverts[index].used for index in protected}) > 1:
        return "some protected sites were named survivors before and some were not"
    return None


def together(
    adverts: Mapping[int, Advert], supplies: Mapping[int, frozenset[str]], least: int
) -> frozenset[int]:
    """Return who of these sites can be in one round: the derivable ones, and the largest group of protected ones if it suffices."""
    groups: dict[tuple[frozenset[str], bytes], set[int]] = {}
    for index, advert in sorted(adverts.items()):
        if advert.protected:
            groups.setdefault((supplies[index], advert.used), set()).add(index)
    largest = max(groups.values(), key=len, default=set[int]())
    derivable = {index for index, advert in adverts.items() if not advert.protected}
    return frozenset(derivable | (largest if len(largest) >= least else set()))
