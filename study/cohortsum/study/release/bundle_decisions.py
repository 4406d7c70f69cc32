"""A checker's signed decision as a file of the proof bundle, and who was entitled to it when it was made.

The roster that a bundle holds is the newest; a checker who signed may have left or may have another key since. Such a key is on the
deny-list with the moment from which it no longer counts, and a decision that is dated before counts under it. The date is the
signer's own word: whether somebody who stole the key dated it back, no bundle shows.
"""

import datetime
import json
from collections.abc import Iterable
from dataclasses import asdict, replace

from cohortsum.crypto.errors import AuthenticationError, CryptoError
from cohortsum.protocol.denylist import Denied, DenyList
from cohortsum.protocol.roster import Identity
from cohortsum.study.release.bundle import Digest, Section, read_json
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.release.panel import Panel


class DecisionFile(Section):
    """``decisions/NNNN.json``."""

    study: Digest
    item: str
    digest: Digest
    act: Act
    reason: str
    remedy: str
    confirmed: list[str]
    by: str
    at: str
    signature: str


def decision_to_json(decision: Decision) -> bytes:
    """Return a decision as a file."""
    held = asdict(decision) | {
        name: getattr(decision, name).hex() for name in ("study", "digest", "signature")
    }
    return json.dumps(held, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n"


def decision_from_json(data: bytes, name: str) -> Decision:
    """Return the decision in a file; its signature is not verified. Raises ConfigurationError for anything else."""
    held = read_json(DecisionFile, data, name)
    try:
        signature = bytes.fromhex(held.signature)
    except ValueError:
        signature = b""
    return Decision(
        bytes.fromhex(held.study),
        held.item,
        bytes.fromhex(held.digest),
        held.act,
        held.reason,
        held.remedy,
        tuple(held.confirmed),
        held.by,
        held.at,
        signature,
    )


def panel_then(panel: Panel, decisions: Iterable[Decision], deny: DenyList) -> tuple[Panel, tuple[str, ...]]:
    """Return a panel with every signer under the key that counted when it signed, and the ids whose key was denied since.

    Args:
        panel: everybody who is in the rosters, denied keys included.
        decisions: about one item.
        deny: the deny-list.

    Raises:
        AuthenticationError: a decision of somebody who is not entitled, or not as its signer made it.
    """
    parties: dict[str, Identity] = dict(panel.parties)
    since: set[str] = set()
    for decision in decisions:
        party = panel.parties.get(decision.by)
        if party is None:
            raise AuthenticationError(
                f"'{decision.by}' does not decide about this study: checkers of the newest roster and sites in the sums do, and "
                "never the statistician who signed it"
            )
        earlier = [one for one in deny.denied if one.id == decision.by and _before(decision, one)]
        keys = [one.key for one in earlier]
        if not any(one.key == party.key for one in deny.denied):
            keys.insert(0, party.key)
        signer = next((key for key in keys if _signed(decision, key)), None)
        if signer is None:
            raise AuthenticationError(
                f"the decision about {decision.item} is not as {decision.by} signed it, or was made after that key was denied"
            )
        if parties[decision.by].key != signer and decision.by in since:
            raise AuthenticationError(f"{decision.by} signed with two keys; a person counts once")
        if any(one.key == signer for one in earlier):
            since.add(decision.by)
        parties[decision.by] = replace(party, key=signer)
    return replace(panel, parties=parties), tuple(sorted(since))


def _before(decision: Decision, denied: Denied) -> bool:
    try:
        made = datetime.datetime.fromisoformat(decision.at)
    except ValueError:
        return False
    return made.utcoffset() is not None and made < denied.since


def _signed(decision: Decision, key: bytes) -> bool:
    try:
        decision.check(key)
    except CryptoError:
        return False
    return True
