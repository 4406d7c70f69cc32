"""The cases of the rank search: everything the adversary can ask, up to renaming of honest sites.

What is left out without loss: a masked vector that is not sent (fewer equations), and a site that answers
although a quorum already did (nothing new). Sites that stand for the same thing are interchangeable, so a
space lists how many there are of each kind and not which ones.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations, product
from typing import NamedTuple

from tests.rank_search.model import H_MIN, Attempt, Case, Rules, Step, View, members


class Size(NamedTuple):
    """A round as the model sees it: honest sites, and how many of them make a quorum."""

    honest: int
    quorum: int


@dataclass(frozen=True, slots=True)
class Setting:
    """A round as the study sees it: sites, colluding sites, threshold."""

    sites: int
    colluding: int
    threshold: int

    @property
    def size(self) -> Size:
        """The honest part: k = n - c and q = t - c."""
        return Size(self.sites - self.colluding, self.threshold - self.colluding)


def default_threshold(sites: int) -> int:
    """Return the threshold that sites derive from their number."""
    return 2 * sites // 3 + 1


def settings(rules: Rules, most_sites: int = 7) -> list[Setting]:
    """Return every (n, c, t) with n up to ``most_sites`` that B1 and B2, where they are on, allow."""
    return [
        Setting(n, c, t)
        for n in range(1, most_sites + 1)
        for c in range(n)
        for t in range(c + 1, n + 1)
        if (2 * t > n + c or not rules.b1) and (t - c >= H_MIN or not rules.b2)
    ]


def sizes(rules: Rules, most_sites: int = 7) -> list[Size]:
    """Return the sizes that the settings come down to, each once."""
    return sorted({setting.size for setting in settings(rules, most_sites)})


def _equivocated_u2(size: Size) -> Iterator[tuple[int, ...]]:
    """Yield what the sites outside a quorum 0..q-1 may be shown as U2, one of each class under renaming."""
    honest, quorum = size
    others = range(quorum, honest)
    everyone = 1 << honest
    choices = [
        [u2 for u2 in range(everyone) if u2 >> site & 1 and u2.bit_count() >= quorum] for site in others
    ]
    seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    for views in product(*choices):
        # Column j says which of the others list site j of the quorum; the order of the columns is a naming.
        columns = [sum((u2 >> j & 1) << at for at, u2 in enumerate(views)) for j in range(quorum)]
        if columns != sorted(columns):
            continue
        forms: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for order in permutations(range(len(views))):
            among = tuple(
                sum((views[a] >> (quorum + b) & 1) << at for at, b in enumerate(order)) for a in order
            )
            listed = sorted(sum((column >> a & 1) << at for at, a in enumerate(order)) for column in columns)
            forms.append((among, tuple(listed)))
        form = min(forms)
        if form not in seen:
            seen.add(form)
            yield views


def _h2_labels(u2_views: Sequence[int], shown: int) -> Iterator[tuple[int, ...]]:
    """Yield which sites share an h2: the quorum's (0) or another's over the same U2, or one of its own."""
    if not u2_views:
        yield ()
        return
    *earlier, last = u2_views
    for labels in _h2_labels(earlier, shown):
        same = {label for label, u2 in zip(labels, earlier, strict=True) if u2 == last}
        for label in sorted(same | ({0} if last == shown else set[int]()) | {len(u2_views)}):
            yield (*labels, label)


def one_attempt(size: Size) -> Iterator[Case]:
    """Yield one attempt: sites 0..q-1 see one h1, h2 and U3, every other site a U2 and h2 of its own.

    Others are in that U3, in that U2 only, or in neither. They answer nothing: either they see what the
    quorum sees, which adds nothing, or by B1 they are too few for a quorum. The quorum stops after each step.
    """
    honest, quorum = size
    core = (1 << quorum) - 1
    for others in _equivocated_u2(size):
        for places in product(("u3", "u2", "out"), repeat=honest - quorum):
            at = dict(enumerate(places, start=quorum))
            u2 = core | sum(1 << site for site, place in at.items() if place != "out")
            u3 = core | sum(1 << site for site, place in at.items() if place == "u3")
            for labels in _h2_labels(others, u2):
                rest = [View(own, own, Step.MASKED, label) for own, label in zip(others, labels, strict=True)]
                for step in Step:
                    yield (Attempt(quorum, (*[View(u2, u3, step)] * quorum, *rest)),)


def own_views(size: Size, shared: int = 0) -> Iterator[Case]:
    """Yield one attempt for every assignment of a U2, an h2 and a U3 to each honest site; nothing is assumed.

    Args:
        size: honest sites and quorum.
        shared: number of sites, from site 0 on, that see the same. With ``shared`` equal to the quorum this
            lists, up to renaming, every assignment in which anything is opened.
    """
    honest, quorum = size
    everyone = 1 << honest
    choices = [
        [
            View(u2, u3, Step.DATA, h2)
            for u2 in range(everyone)
            for u3 in range(everyone)
            if not u3 & ~u2 and u3 >> site & 1 and u3.bit_count() >= quorum
            for h2 in range(max(2, honest - quorum + 1))
        ]
        for site in range(honest)
    ]
    for first, *others in product(*([v for v in choices[0] if not v.h2], *choices[max(shared, 1) :])):
        if all(first.u3 >> site & 1 for site in range(shared)):
            yield (Attempt(quorum, (*[first] * max(shared, 1), *others)),)


def own_survivors(size: Size) -> Iterator[Case]:
    """Yield one attempt in which all sites agree on U2, and each site is shown a U3 of its own."""
    honest, quorum = size
    everyone = (1 << honest) - 1
    choices = [
        [u3 for u3 in range(everyone + 1) if u3 >> site & 1 and u3.bit_count() >= quorum]
        for site in range(honest)
    ]
    for shown in product(*choices):
        yield (Attempt(quorum, tuple(View(everyone, u3, Step.DATA) for u3 in shown)),)


def two_survivor_lists(size: Size) -> Iterator[Case]:
    """Yield one attempt in which the coordinator has two U3, and shows each site one of them or none."""
    honest, quorum = size
    everyone = (1 << honest) - 1
    # (the lists the site is on, the list it is shown)
    kinds = [(on, shown) for on in ({1, 2}, {1}, {2}, set[int]()) for shown in (*sorted(on), 0)]
    for sites in combinations_with_replacement(kinds, honest):
        lists = {0: 0} | {
            one: sum(1 << site for site, (on, _) in enumerate(sites) if one in on) for one in (1, 2)
        }
        if min(lists[1].bit_count(), lists[2].bit_count()) >= quorum:
            for step in (Step.GATE, Step.DATA):
                views = tuple(View(everyone, lists[shown], step) for _, shown in sites)
                yield (Attempt(quorum, views),)


class _Role(NamedTuple):
    """Where one site is in the first and in the second attempt: 0 away, 1 in U2 only, 2 in U3."""

    first: int
    second: int


def _lists(roles: Sequence[int]) -> tuple[int, int]:
    """Return U2 and U3 as bit masks."""
    u2, u3 = (sum(1 << site for site, role in enumerate(roles) if role >= least) for least in (1, 2))
    return u2, u3


def retries(size: Size, second_quorum: Callable[[int], int | None] | None = None) -> Iterator[Case]:
    """Yield two attempts over the same inputs, the first stopped after any step, with any U2 and U3 in each.

    Args:
        size: honest sites and quorum, of both attempts unless the next argument says otherwise.
        second_quorum: the quorum of a second attempt whose U1 is its U2, from the number of honest sites in
        it;
            None where the bounds allow none.

    The first attempt never has more signers than a quorum: more could only sign less in the second.
    """
    honest, quorum = size
    kinds = [_Role(*both) for both in product(range(3), repeat=2)]
    for roles in combinations_with_replacement(kinds, honest):
        u2, u3 = _lists([role.first for role in roles])
        next_u2, next_u3 = _lists([role.second for role in roles])
        next_quorum = second_quorum(next_u2.bit_count()) if second_quorum else quorum
        if next_quorum is None or u3.bit_count() < quorum or next_u3.bit_count() < next_quorum:
            continue
        second = [
            Attempt(
                next_quorum,
                tuple(View(next_u2, next_u3, step) if role.second else None for role in roles),
            )
            for step in (Step.GATE, Step.DATA)
        ]
        for signers in _interchangeable_subsets(roles, u3, quorum):
            enough = signers.bit_count() == quorum
            for step in (Step.SIGNED, Step.GATE, Step.DATA) if enough else (Step.SIGNED,):
                views = tuple(
                    View(u2, u3, step if signers >> site & 1 else Step.MASKED) if role.first else None
                    for site, role in enumerate(roles)
                )
                for attempt in second:
                    yield Attempt(quorum, views), attempt


def _interchangeable_subsets(roles: Sequence[_Role], among: int, most: int) -> Iterator[int]:
    """Yield subsets of ``among`` with at most ``most`` sites, one for each number of sites per role."""
    groups: dict[_Role, list[int]] = {}
    for site in members(among):
        groups.setdefault(roles[site], []).append(site)
    for counts in product(*(range(len(group) + 1) for group in groups.values())):
        if sum(counts) <= most:
            yield sum(
                1 << site
                for group, count in zip(groups.values(), counts, strict=True)
                for site in group[:count]
            )
