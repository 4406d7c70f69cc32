"""What a hostile coordinator can compute from everything it was told: the attacker of these tests, with real keys and real words.

It holds what sites sent, and the secrets of hostile sites. A seed of which it has t true shares is known; it compares with the
commitment or the public key, so that it never fools itself. Known self masks and pair masks come off every masked vector. What
is then left on the vector of one site are masks that it shares with one other site each, plus, where the self mask is not known
or the other end used another key, something that nothing else holds. Vectors with such a rest say nothing. The others form a
graph whose edges are the shared masks, and exactly the sums over its components are free of masks: pair masks enter with
opposite signs. No other combination is, because the incidence matrix of a connected graph has one dependency.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cohortsum.crypto.commitments import commit_seed
from cohortsum.crypto.masks import Vector, add_masks
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.shamir import combine
from cohortsum.protocol.masking import add_words, signed
from cohortsum.protocol.messages import Advert
from cohortsum.protocol.seeds import mask_key, pair_mask_key, pair_secret, self_mask_key
from cohortsum.study.sums import Integers
from tests.attacks.sites import Betrayed


@dataclass(frozen=True)
class Seen:
    """One masked vector, and the transcript that its site saw."""

    words: Mapping[str, Vector]
    h1: bytes
    h2: bytes
    dealers: frozenset[int]


@dataclass
class Loot:
    """Everything of one context.

    ``adverts`` are those that every site was shown, by site and peer; ``shares`` what came in answers, by kind, owner and holder;
    ``guessed`` seeds of honest sites that the coordinator has in another way, by kind and owner.
    """

    context: bytes
    threshold: int
    betrayed: Mapping[int, Betrayed]
    adverts: dict[int, Mapping[int, Advert]] = field(default_factory=dict[int, Mapping[int, Advert]])
    masked: dict[int, Seen] = field(default_factory=dict[int, Seen])
    shares: dict[tuple[str, int], dict[int, int]] = field(
        default_factory=dict[tuple[str, int], dict[int, int]]
    )

    guessed: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])

    def add_share(self, kind: str, owner: int, holder: int, share: int) -> None:
        self.shares.setdefault((kind, owner), {})[holder] = share

    def seed(self, kind: str, owner: int) -> int | None:
        """Return a site's seed if the coordinator knows it."""
        if owner in self.betrayed:
            return self.betrayed[owner].seeds[kind]
        if (kind, owner) in self.guessed:
            return self.guessed[kind, owner]
        held = dict(self.shares.get((kind, owner), {}))
        for holder, traitor in self.betrayed.items():
            if owner in traitor.held:
                held[holder] = getattr(traitor.held[owner], kind)
        if len(held) < self.threshold:
            return None
        found = combine({holder + 1: share for holder, share in held.items()}, self.threshold)
        advert = next(view[owner] for view in self.adverts.values() if owner in view)
        if kind == "mask":
            return found if mask_key(self.context, found).public == advert.mask_key else None
        committed = advert.gate_commitment if kind == "gate" else advert.data_commitment
        return found if commit_seed(self.context, kind, owner, found) == committed else None

    def opened(self, part: str = "data") -> dict[frozenset[int], Integers]:
        """Return every sum of honest sites' inputs that can be computed, as fine as possible."""
        rests = {
            site: rest
            for site in self.masked
            if site not in self.betrayed and (rest := self._stripped(part, site)) is not None
        }
        left, found = set(rests), dict[frozenset[int], Integers]()
        while left:
            component, todo = set[int](), [left.pop()]
            closed = False
            while todo:
                site = todo.pop()
                component.add(site)
                for peer in rests[site][1]:
                    closed |= peer not in rests
                    if peer in left:
                        left.discard(peer)
                        todo.append(peer)
            if not closed:
                vectors = [rests[site][0] for site in sorted(component)]
                found[frozenset(component)] = signed(add_words(vectors, len(vectors[0])))
        return found

    def _stripped(self, part: str, site: int) -> tuple[Vector, frozenset[int]] | None:
        """Return a vector without the masks that are known, and the peers whose masks are left; None if it stays hidden."""
        own, view = self.seed(part, site), self.adverts[site]
        if own is None:
            return None
        seen = self.masked[site]
        plus: list[SecretBytes] = []
        minus = [self_mask_key(self.context, part, site, own)]
        left: set[int] = set()
        for peer in sorted(seen.dealers - {site}):
            key = self._pair(part, site, peer)
            if key is not None:
                (minus if peer > site else plus).append(key)
            elif self._same_mask(site, peer):
                left.add(peer)
            else:
                return None
        words = seen.words[part].copy()
        add_masks(words, plus, minus)
        assert view.keys() >= seen.dealers
        return words, frozenset(left)

    def _pair(self, part: str, site: int, peer: int) -> SecretBytes | None:
        """Return the key of the mask of a pair, as ``site`` derived it, if a mask seed of either is known."""
        view, seen = self.adverts[site], self.masked[site]
        for here, there in ((site, peer), (peer, site)):
            seed = self.seed("mask", here)
            if seed is not None:
                shared = pair_secret(mask_key(self.context, seed), view[there].mask_key)
                ends = ((site, view[site].mask_key), (peer, view[peer].mask_key))
                return pair_mask_key(shared, part, ends, self.context, seen.h1, seen.h2)
        return None

    def _same_mask(self, site: int, peer: int) -> bool:
        """Whether the peer has sent a vector with the very mask that this site put on its own."""
        here, there = self.masked[site], self.masked.get(peer)
        return (
            there is not None
            and site in there.dealers
            and (here.h1, here.h2) == (there.h1, there.h2)
            and self.adverts[site][peer].mask_key == self.adverts[peer][peer].mask_key
            and self.adverts[site][site].mask_key == self.adverts[peer][site].mask_key
        )
