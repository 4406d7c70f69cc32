"""The cases of the iterated search: what the adversary can ask on the slots of one exchange, up to renaming.

Iterations are called 3, 4 and 5, since a fit deals ahead in its second; slots are 1, 2 and 3.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product

from tests.rank_search.iterations import Context, Fit, Request
from tests.rank_search.model import Step
from tests.rank_search.spaces import Size, retries


def _set(sites: Iterator[int] | Sequence[int]) -> int:
    return sum(1 << site for site in sites)


def _in_order(labels: Iterator[int]) -> bool:
    """Return whether labels above 0 appear as 1, 2, ...: one naming of each way to be alike."""
    highest = 0
    for label in labels:
        if label > highest + 1:
            return False
        highest = max(highest, label)
    return True


def one_slot(size: Size) -> Iterator[Fit]:
    """Yield one slot: sites 0..q-1 see one context, h2 and U3, every other site a context and h2 of its own.

    Others are listed in that U3 or not. What they see is what the quorum sees, another attempt at the same
    parameters, or parameters of their own. They answer nothing: either they see what the quorum sees, which
    adds nothing, or by B1 they are too few for a quorum. The quorum stops after each step.
    """
    honest, quorum = size
    others = honest - quorum
    labels = range(others + 1)
    contexts = [Context(3, 1), Context(3, 1, attempt=2), *(Context(3, 1, parameter=p) for p in labels if p)]
    kinds = [(listed, context, h2) for listed in (True, False) for context in contexts for h2 in labels]
    for shown in combinations_with_replacement(kinds, others):
        if not _in_order(context.parameter for _, context, _ in shown):
            continue
        if not _in_order(h2 for _, _, h2 in shown):
            continue
        u3 = _set([*range(quorum), *(quorum + at for at, (listed, _, _) in enumerate(shown) if listed)])
        for step in Step:
            core = [Request(site, Context(3, 1), u3, step) for site in range(quorum)]
            rest = [
                Request(site, context, u3, Step.MASKED)
                for site, (_, context, _) in enumerate(shown, start=quorum)
            ]
            yield Fit(quorum, (*[0] * quorum, *(h2 for _, _, h2 in shown)), (*core, *rest))


def own_contexts(size: Size) -> Iterator[Fit]:
    """Yield one slot for every assignment of one of two contexts, an h2 and a U3 to each honest site.

    The second context has other parameters. No quorum is assumed and no site is renamed; site 0 has the first h2.
    """
    honest, quorum = size
    choices = [
        [
            (Request(site, Context(3, 1, parameter=parameter), u3, Step.DATA), h2)
            for u3 in range(1 << honest)
            if u3 >> site & 1 and u3.bit_count() >= quorum
            for parameter in (0, 1)
            for h2 in ((0, 1) if site else (0,))
        ]
        for site in range(honest)
    ]
    for shown in product(*choices):
        yield Fit(quorum, tuple(h2 for _, h2 in shown), tuple(request for request, _ in shown))


def two_attempts(size: Size, iteration: int, slot: int) -> Iterator[Fit]:
    """Yield an attempt at iteration 3 on slot 1 and a second one, with any U3 and any sites away in each.

    Args:
        size: honest sites and quorum.
        iteration: of the second attempt; 3 makes it a retry.
        slot: of the second attempt; 1 is the slot of the first.
    """
    contexts = Context(3, 1), Context(iteration, slot, attempt=2)
    for case in retries(size):
        requests = tuple(
            Request(site, context, view.u3, view.step)
            for context, attempt in zip(contexts, case, strict=True)
            for site, view in attempt.masked()
        )
        yield Fit(size.quorum, (0,) * size.honest, requests)


def two_parameters(size: Size) -> Iterator[Fit]:
    """Yield two attempts at one iteration, on two slots with one U3, where each site is shown any parameters."""
    kinds = [*product((True, False), (0, 1), (0, 1))]
    for sites in combinations_with_replacement(kinds, size.honest):
        u3 = _set([site for site, (listed, _, _) in enumerate(sites) if listed])
        if u3.bit_count() < size.quorum:
            continue
        for step in (Step.GATE, Step.DATA):
            first = [
                Request(s, Context(3, 1, 1, first), u3, Step.DATA) for s, (_, first, _) in enumerate(sites)
            ]
            then = [Request(s, Context(3, 2, 2, then), u3, step) for s, (_, _, then) in enumerate(sites)]
            yield Fit(size.quorum, (0,) * size.honest, (*first, *then))


def own_slots(size: Size, dropped: int = 0) -> Iterator[Fit]:
    """Yield what is asked twice of every site: each time any of two iterations with any of two slots, or nothing.

    Args:
        size: honest sites and quorum.
        dropped: how many sites U3 may leave out the first time, the second time, or both.
    """
    honest, quorum = size
    everyone = (1 << honest) - 1
    turns = [*product([None, *product((3, 4), (1, 2))], repeat=2)]
    lists = sorted({everyone, everyone >> dropped})
    for one, other in product(lists, repeat=2):
        for kept in combinations_with_replacement(turns, honest - dropped):
            for left_out in combinations_with_replacement(turns, dropped):
                requests = [
                    Request(site, Context(*asked, attempt=turn), u3, Step.DATA)
                    for turn, u3 in ((1, one), (2, other))
                    for site, both in enumerate((*kept, *left_out))
                    for asked in both[turn - 1 : turn]
                    if asked is not None
                ]
                yield Fit(quorum, (0,) * honest, tuple(requests))


def three_attempts(size: Size) -> Iterator[Fit]:
    """Yield three attempts on slot 1, one per iteration; U3 is everybody, or everybody but the last site.

    All that are listed sign; any of them answer, the last site wherever it is listed.
    """
    honest, quorum = size
    everyone = (1 << honest) - 1
    for lists in product((everyone, everyone >> 1), repeat=3):
        if min(u3.bit_count() for u3 in lists) < quorum:
            continue
        for answers in combinations_with_replacement([*product((False, True), repeat=3)], honest - 1):
            for step in (Step.GATE, Step.DATA):
                requests = tuple(
                    Request(site, Context(3 + turn, 1), u3, step if answered[turn] else Step.SIGNED)
                    for turn, u3 in enumerate(lists)
                    for site, answered in enumerate((*answers, (True,) * 3))
                )
                yield Fit(quorum, (0,) * honest, requests)


def courses(size: Size) -> Iterator[Fit]:
    """Yield three honest iterations on three slots; in one of them sites drop out, before they mask or after.

    The last iteration stops after each step.
    """
    honest, quorum = size
    everyone = (1 << honest) - 1
    for turn, dropped, masked in product(range(3), range(honest - quorum + 1), (False, True)):
        for last in Step:
            requests: list[Request] = []
            for at in range(3):
                gone = range(honest - dropped, honest) if at == turn else range(0)
                u3 = everyone & ~_set(gone)
                step = last if at == 2 else Step.DATA
                requests += [
                    Request(site, Context(3 + at, 1 + at), u3, Step.MASKED if site in gone else step)
                    for site in range(honest)
                    if masked or site not in gone
                ]
            yield Fit(quorum, (0,) * honest, tuple(requests))
