"""What a node has pinned: the operator's key, every roster version it has seen, and the newest deny-list.

The admin compares the first roster by voice; from then on the operator's key, pinned with it, decides. Versions and serials
only grow, and two different files under one number are evidence of a lying operator or a stolen key, so they are refused.
Files under ``rosters/`` and ``denials/`` are never changed; ``consortium.yaml`` and ``deny.yaml`` are copies of the newest.
A file counts once its ``.yaml`` is there; its signature is written first, so that a power cut leaves the old state.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cohortsum.crypto.errors import AuthenticationError, ConfigurationError
from cohortsum.crypto.fingerprint import Words, roster_words
from cohortsum.node.files import make_folder, read, read_public, read_signature, replace
from cohortsum.node.ledger_file import note_in
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.denylist import DenyList, check_succeeds, nobody_denied
from cohortsum.protocol.roster import Role, Roster
from cohortsum.study.definition.consortium import open_roster
from cohortsum.study.definition.deny import open_deny_list

ROSTERS = "rosters"
DENIALS = "denials"
OPERATOR = "operator.pub"


@dataclass(frozen=True, slots=True)
class Pin:
    """What a node trusts.

    Attributes:
        operator: the operator's Ed25519 public key.
        rosters: every pinned version; never empty.
        deny: the newest deny-list; serial 0 where there is none.
    """

    operator: bytes
    rosters: Mapping[int, Roster]
    deny: DenyList

    @property
    def newest(self) -> Roster:
        """The newest roster."""
        return self.rosters[max(self.rosters)]

    @property
    def words(self) -> Words:
        """The fingerprint of operator and newest roster."""
        return roster_words(self.operator, self.newest.digest)

    def of_version(self, version: int) -> Roster:
        """Return the roster of a version; raises ConfigurationError for one that is not pinned here."""
        held = self.rosters.get(version)
        if held is None:
            raise ConfigurationError(
                f"roster version {version} is not pinned here (pinned: {', '.join(map(str, sorted(self.rosters)))}); "
                "get it from the operator and run `cohortsum node pin`"
            )
        return held


def load_pin(folder: Path) -> Pin:
    """Return what the node in ``folder`` has pinned, every signature verified.

    Raises ConfigurationError where nothing is pinned, and AuthenticationError naming a file that was tampered with.
    """
    versions = _numbers(folder / ROSTERS)
    if not versions:
        raise ConfigurationError(
            "no roster is pinned; get consortium.yaml and consortium.sig and run `cohortsum node pin`"
        )
    operator = read_public(folder / OPERATOR)
    rosters: dict[int, Roster] = {}
    for version in versions:
        text, signature = _signed(folder / ROSTERS / f"{version}.yaml")
        rosters[version] = open_roster(text, signature, operator, f"{ROSTERS}/{version}.yaml", version)
    consortium = rosters[versions[-1]].consortium
    serials = _numbers(folder / DENIALS)
    if not serials:
        return Pin(operator, rosters, nobody_denied(consortium))
    text, signature = _signed(folder / DENIALS / f"{serials[-1]}.yaml")
    deny = open_deny_list(text, signature, operator, f"{DENIALS}/{serials[-1]}.yaml", serials[-1])
    if deny.consortium != consortium:
        raise ConfigurationError(
            f"{DENIALS}/{serials[-1]}.yaml: is another consortium's; restore the file under its own name"
        )
    return Pin(operator, rosters, deny)


def pin(
    folder: Path, text: bytes, signature: bytes, operator: bytes | None, words: Words | None = None
) -> tuple[Pin, tuple[str, ...]]:
    """Pin a roster and return what is pinned now, with a sentence for every change since the newest one.

    Args:
        folder: the node's folder.
        text: the roster's exact bytes.
        signature: the operator's, 64 bytes.
        operator: the operator's key, if the caller has it; needed once.
        words: what the operator read out for this roster, if they did.

    Raises:
        ConfigurationError: no operator key yet, another operator, another consortium, an older version, another roster under
            a version that is pinned, or a site at another's index.
        AuthenticationError: the signature or the words do not fit.
    """
    held = load_pin(folder) if _numbers(folder / ROSTERS) else None
    operator = _operator(folder / OPERATOR, operator)
    roster = open_roster(text, signature, operator, "consortium.yaml")
    if words is not None and words != roster_words(operator, roster.digest):
        raise AuthenticationError(
            "the words do not fit this roster and operator key: do not pin it; call the operator on a number you "
            "know, and ask for the files again"
        )
    if held is not None:
        _check_follows(held, roster)
    if held is None:
        replace(folder / OPERATOR, operator.hex().encode() + b"\n")
    _write_series(folder, ROSTERS, "consortium", roster.version, text, signature, DeedKind.ROSTER_PINNED)
    return load_pin(folder), () if held is None else changes(held.newest, roster)


def apply_deny_list(folder: Path, text: bytes, signature: bytes) -> DenyList:
    """Make a deny-list effective and return it; receiving the held one again changes nothing.

    Raises ConfigurationError for another consortium, an older serial, or a list that undoes a denial, and
    AuthenticationError unless the pinned operator signed it.
    """
    held = load_pin(folder)
    new = open_deny_list(text, signature, held.operator, "deny.yaml")
    check_succeeds(held.deny, new)
    _write_series(folder, DENIALS, "deny", new.serial, text, signature, DeedKind.DENY_LIST)
    return new


def changes(old: Roster, new: Roster) -> tuple[str, ...]:
    """Return a sentence for everybody who came, left or has another key."""
    sentences: list[str] = []
    for name in sorted(old.identities.keys() | new.identities.keys()):
        before, after = old.identities.get(name), new.identities.get(name)
        if before is None and after is not None:
            sentences.append(f"{name} is new, as {after.role}")
        elif after is None:
            sentences.append(f"{name} has left")
        elif before is not None and before.key != after.key:
            sentences.append(f"{name} has another key")
        elif before is not None and before.role != after.role:
            sentences.append(f"{name} was {before.role} and is now {after.role}")
    return tuple(sentences)


def own_identity(roster: Roster, site: str, public: bytes) -> str | None:
    """Return what is wrong with this site's place in a roster, with its cure, or None."""
    identity = roster.identities.get(site)
    if identity is None or identity.role is not Role.SITE:
        return f"'{site}' is no site of roster version {roster.version}; send request.yaml to the operator"
    if identity.key != public:
        return (
            f"roster version {roster.version} has another key for '{site}'; restore the key file, or ask the operator to "
            "revoke the old key and admit the new one"
        )
    return None


def _operator(pinned: Path, given: bytes | None) -> bytes:
    if not pinned.exists():
        if given is None:
            raise ConfigurationError(
                "no operator key is pinned yet; give it with --operator, or with --words and operator.pub beside "
                "consortium.yaml"
            )
        return given
    operator = read_public(pinned)
    if given not in (None, operator):
        raise ConfigurationError(
            "this node has pinned another operator key; a consortium's operator does not change: call them"
        )
    return operator


def _check_follows(held: Pin, roster: Roster) -> None:
    newest = held.newest
    if roster.consortium != newest.consortium:
        raise ConfigurationError(
            f"consortium.yaml: it is for consortium {roster.consortium}, expected {newest.consortium}; a node serves one"
        )
    if roster.version < newest.version:
        raise ConfigurationError(
            f"consortium.yaml: version {roster.version} is older than version {newest.version}, which is pinned; "
            "ask the operator for the newest one"
        )
    if roster.version == newest.version and roster.digest != newest.digest:
        raise ConfigurationError(
            f"consortium.yaml: another roster than the one pinned as version {roster.version}, both signed by the "
            "operator; keep both files and call the operator"
        )
    places = {index: site for site, index in newest.sites.items()}
    moved = sorted(site for site, index in roster.sites.items() if places.get(index, site) != site)
    if moved:
        raise ConfigurationError(
            f"consortium.yaml: {', '.join(moved)} has the index of another site of version {newest.version}; an index is "
            "never used again: call the operator"
        )


def _write_series(
    folder: Path, series: str, name: str, number: int, text: bytes, signature: bytes, kind: DeedKind
) -> None:
    home = folder / series
    if not home.exists():
        make_folder(home)
    target = home / f"{number}.yaml"
    if not target.exists():
        note_in(folder, Deed(kind, digest=hashlib.sha256(text).digest(), detail=str(number)))
        replace(target.with_suffix(".sig"), signature.hex().encode() + b"\n")
        replace(target, text)
    replace(folder / f"{name}.sig", signature.hex().encode() + b"\n")
    replace(folder / f"{name}.yaml", text)


def _numbers(folder: Path) -> tuple[int, ...]:
    return tuple(sorted(int(path.stem) for path in folder.glob("*.yaml") if path.stem.isdecimal()))


def _signed(path: Path) -> tuple[bytes, bytes]:
    return read(path), read_signature(path.with_suffix(".sig"))
