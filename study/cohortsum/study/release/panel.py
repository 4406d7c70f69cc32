"""Who may decide about the items of one study, and when their signatures are enough.

Entitled are the checkers of the roster and the sites whose people are in the sums, each under the key that counts now. Never the
statistician who signed the study: neither that id nor that key, whatever role a later roster gives to either. A signature counts
as long as its signer does: a checker who is denied before an item left no longer counts for it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cohortsum.protocol.roster import Identity, Role
from cohortsum.study.definition.models import Checkers
from cohortsum.study.release.decision import Act, Decision


@dataclass(frozen=True, slots=True)
class Signature:
    """A decision that was taken, with the role and the key (Ed25519, 32 bytes) that its signer had then."""

    decision: Decision
    role: Role
    key: bytes


@dataclass(frozen=True, slots=True)
class Panel:
    """Who decides.

    Attributes:
        study: digest of the study, 32 bytes.
        checkers: how many must sign, and whether sites must, as the study says.
        parties: everybody who is entitled now, by id.
        authors: the statistician who signed the study, as every roster has them.
        survivors: ids of all sites in the sums, those that no longer count included.
    """

    study: bytes
    checkers: Checkers
    parties: Mapping[str, Identity]
    survivors: frozenset[str]
    authors: tuple[Identity, ...] = ()

    def independent(self, identity: Identity) -> bool:
        """Whether somebody is not the statistician who signed the study, by id and by key."""
        return all(identity.id != author.id and identity.key != author.key for author in self.authors)

    def counted(self, signatures: Iterable[Signature]) -> tuple[Signature, ...]:
        """Return the releases among signatures that count now: of entitled signers, every id and every key once."""
        ids, keys, found = set[str](), set[bytes](), list[Signature]()
        for one in signatures:
            party = self.parties.get(one.decision.by)
            stands = party is not None and (party.role, party.key) == (one.role, one.key)
            if one.decision.act is not Act.RELEASE or not stands:
                continue
            if one.decision.by not in ids and one.key not in keys:
                found.append(one)
            ids.add(one.decision.by)
            keys.add(one.key)
        return tuple(found)

    def missing(self, signatures: Iterable[Signature]) -> tuple[str, ...]:
        """Return what an item still needs, in words; nothing where it may leave."""
        counted = self.counted(signatures)
        wanted = self.checkers.consortium - sum(one.role is Role.CHECKER for one in counted)
        sites = {one.decision.by for one in counted if one.role is Role.SITE}
        words = [f"{wanted} {'signature' if wanted == 1 else 'signatures'} of checkers"] if wanted > 0 else []
        match self.checkers.sites:
            case "any" if not sites & self.survivors:
                words.append("the signature of a site")
            case "all" if left := sorted(self.survivors - sites):
                words.append(f"the signatures of {', '.join(left)}")
            case _:
                pass
        return tuple(words)

    def asks(self, role: Role) -> bool:
        """Whether the study asks this role for signatures under a release."""
        return self.checkers.consortium > 0 if role is Role.CHECKER else self.checkers.sites != "none"


def nobody_signs(checkers: Checkers) -> bool:
    """Whether a study's items leave without anybody's signature."""
    return checkers.consortium == 0 and checkers.sites == "none"


def asked(checkers: Checkers) -> str:
    """Return whose signatures a study asks for, in words."""
    count = checkers.consortium
    words = [f"{count} {'checker' if count == 1 else 'checkers'}"] if count else []
    match checkers.sites:
        case "any":
            words.append("one site of the sum")
        case "all":
            words.append("every site of the sum")
        case "none":
            pass
    return " and ".join(words) or "nobody"


def panel_of(
    study: bytes,
    checkers: Checkers,
    signed_by: Iterable[Identity],
    known: Iterable[Identity],
    sites: Iterable[Identity],
    survivors: Iterable[str],
) -> Panel:
    """Return who decides about a study.

    Args:
        study: its digest.
        checkers: what it asks for.
        signed_by: the statistician who signed it, as every roster has them that knows that id.
        known: the identities of the newest roster that are not denied.
        sites: the sites of the study's own roster that are not denied.
        survivors: ids of the sites in the sums.
    """
    survived = frozenset(survivors)
    entitled = (
        *(one for one in known if one.role is Role.CHECKER),
        *(one for one in sites if one.role is Role.SITE and one.id in survived),
    )
    panel = Panel(study, checkers, {}, survived, tuple(signed_by))
    return replace(panel, parties={one.id: one for one in entitled if panel.independent(one)})
