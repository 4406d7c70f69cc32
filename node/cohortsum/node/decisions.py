"""What this site has decided about studies: ``decisions.json`` in the node's folder.

Nothing is approved by default. An approval may be narrowed to some analyses, may end on a day, and may be taken back; the
running node reads the file again whenever it changes. Who decided stands beside it: the admin, or an entry of the policy.
"""

import datetime
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.files import PRIVATE, read, replace
from cohortsum.node.ledger_file import note_in
from cohortsum.node.pinning import load_pin
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.denylist import without_denied
from cohortsum.study.definition.freezing import roster_named
from cohortsum.study.definition.signing import SignedStudy, open_study
from cohortsum.study.planning import StudyPlan, plan_study

DECISIONS = "decisions.json"


class _Entry(BaseModel):
    """One decision as the file holds it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    study: str
    version: int
    answer: Literal["approved", "declined"]
    analyses: tuple[str, ...] | None = None
    until: datetime.date | None = None
    by: str
    at: AwareDatetime


_FILE = TypeAdapter(tuple[_Entry, ...])


@dataclass(frozen=True, slots=True)
class Decision:
    """A yes or no to one study.

    Attributes:
        digest: of the study, 32 bytes.
        study: its id.
        version: its version.
        approved: yes or no.
        analyses: the analyses that the yes is about; None for all.
        until: the last day of the yes; None for as long as the study.
        by: who decided: ``admin``, or which rule of the policy.
        at: when, UTC.
    """

    digest: bytes
    study: str
    version: int
    approved: bool
    analyses: frozenset[str] | None
    until: datetime.date | None
    by: str
    at: datetime.datetime


@dataclass(frozen=True, slots=True)
class Asked:
    """A study as its statistician signed it, planned under the roster that this node pinned."""

    plan: StudyPlan
    statistician: str


def read_asked(folder: Path, signed: SignedStudy) -> Asked:
    """Return what a signed study asks for.

    Raises ConfigurationError where its roster version is not pinned here, and AuthenticationError unless a statistician of
    that roster signed it.
    """
    pin = load_pin(folder)
    pinned = pin.of_version(roster_named(signed.canonical))  # the rest is read once it is known whose it is
    study = open_study(signed, without_denied(pinned, pin.deny))
    return Asked(plan_study(study, pinned), signed.statistician)


def read_decisions(folder: Path) -> Mapping[bytes, Decision]:
    """Return the decisions by study digest; none where there is no file yet. Raises ConfigurationError for a broken one."""
    path = folder / DECISIONS
    if not path.exists():
        return {}
    try:
        entries = _FILE.validate_json(read(path))
    except ValidationError:
        raise ConfigurationError(
            f"{DECISIONS}: not a list of decisions; restore it, or remove it and approve again"
        ) from None
    decisions = (
        Decision(
            bytes.fromhex(entry.digest),
            entry.study,
            entry.version,
            entry.answer == "approved",
            None if entry.analyses is None else frozenset(entry.analyses),
            entry.until,
            entry.by,
            entry.at,
        )
        for entry in entries
    )
    return {decision.digest: decision for decision in decisions}


def decide(folder: Path, decision: Decision) -> None:
    """Write a decision down in the place of an earlier one about the same study; into the audit log first."""
    earlier = read_decisions(folder)
    held = {**earlier, decision.digest: decision}
    entries = tuple(
        _Entry(
            digest=entry.digest.hex(),
            study=entry.study,
            version=entry.version,
            answer="approved" if entry.approved else "declined",
            analyses=None if entry.analyses is None else tuple(sorted(entry.analyses)),
            until=entry.until,
            by=entry.by,
            at=entry.at,
        )
        for entry in sorted(held.values(), key=lambda entry: entry.at)
    )
    note_in(folder, Deed(_kind(decision, earlier.get(decision.digest)), decision.digest, by=decision.by))
    replace(folder / DECISIONS, _FILE.dump_json(entries, indent=1) + b"\n", PRIVATE)


def _kind(decision: Decision, earlier: Decision | None) -> DeedKind:
    if decision.approved:
        return DeedKind.STUDY_APPROVED
    taken_back = earlier is not None and earlier.approved
    return DeedKind.APPROVAL_REVOKED if taken_back else DeedKind.STUDY_DECLINED


class DecisionBook:
    """The decisions of a folder, read again when the file changes.

    Args:
        folder: the node's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: tuple[int, int] | None = None
        self._held: Mapping[bytes, Decision] = {}
        self._lock = threading.Lock()

    def __call__(self, digest: bytes) -> Decision | None:
        """Return what is decided about a study, or None."""
        return self.all().get(digest)

    def all(self) -> Mapping[bytes, Decision]:
        """Return every decision by study digest."""
        with self._lock:
            path = self._folder / DECISIONS
            try:
                state = path.stat()
                seen = (state.st_mtime_ns, state.st_ino)
            except FileNotFoundError:
                seen = None
            if seen != self._seen or seen is None:
                self._held, self._seen = read_decisions(self._folder), seen
            return self._held
