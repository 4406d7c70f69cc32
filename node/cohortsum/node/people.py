"""Whose rows enter which block of a study: what the ledger's people rule is asked about.

The study says who is in which set (`StudyPlan.members`), the tables say who they are (`Tables.ids`), and the two meet here.
An id becomes a code by a keyed hash as soon as it is read; what is kept, one code per person and one bit per person and
set, names nobody to whom the key is unknown. A person keeps one code from snapshot to snapshot as long as the key stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress

import numpy as np

from cohortsum.crypto.secret import SecretBytes
from cohortsum.node.tables.reader import Tables
from cohortsum.protocol.ledger.people import PeopleSet
from cohortsum.study.planning import StudyPlan

BATCH = 1024
"""People per batch, a multiple of 8 so that packed masks join; with 10 000 sets the masks of a batch take 20 MB."""


class PeopleSets(Mapping[str, PeopleSet]):
    """People sets by name, each built when it is first asked for; names of the same people share one.

    Args:
        codes: of everybody, in the order of their rows.
        masks: who is in each set, one bit per row, as numpy packs them.
    """

    __slots__ = ("_built", "_codes", "_masks")

    def __init__(self, codes: Sequence[bytes], masks: Mapping[str, bytes]) -> None:
        self._codes = codes
        self._masks = masks
        self._built: dict[bytes, PeopleSet] = {}

    def __getitem__(self, name: str) -> PeopleSet:
        mask = self._masks[name]
        if mask not in self._built:
            inside = np.unpackbits(np.frombuffer(mask, np.uint8), count=len(self._codes))
            self._built[mask] = PeopleSet(frozenset(compress(self._codes, inside)))
        return self._built[mask]

    def __iter__(self) -> Iterator[str]:
        return iter(self._masks)

    def __len__(self) -> int:
        return len(self._masks)

    def __repr__(self) -> str:
        return f"<{len(self)} people sets>"


def people_sets(
    plan: StudyPlan, tables: Tables, supplied: frozenset[str], key: SecretBytes
) -> Mapping[str, PeopleSet]:
    """Return the people sets that this site sends numbers about, by name in the order of their names.

    Sets of blocks that the site does not supply are left out, and so are empty ones. The order of rows changes nothing.

    A person costs a hash and about 60 bytes, a name one bit per person: 100 000 people in 1000 sets are 20 MB. A set that
    was asked for adds about 40 bytes per person in it, once for all names of the same people.

    Args:
        plan: the study.
        tables: this site's people, open.
        supplied: the items this site signed.
        key: for the codes; the site's own, and the same in every study and snapshot.
    """
    names = sorted(plan.people_sets(supplied))
    secret = key.reveal()
    codes: list[bytes] = []
    packed = {name: bytearray() for name in names}
    for ids, masks in zip(tables.ids(BATCH), plan.members(tables.batches(BATCH)), strict=True):
        for one in ids:
            codes += PeopleSet.of((one,), secret).codes
        for name in names:
            packed[name] += np.packbits(masks[name]).tobytes()
    return PeopleSets(codes, {name: bytes(mask) for name, mask in packed.items() if any(mask)})
