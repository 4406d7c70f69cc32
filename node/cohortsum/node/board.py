"""What the running node knows, for whoever looks: ``state.json`` in its folder, written whole at every change.

`cohortsum node studies` and `cohortsum node status` read it; nothing of it is sent. It holds ids, states, times and the
local reasons for staying out, never a count of people or a value.
"""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, ValidationError

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.files import PRIVATE, read, replace
from cohortsum.study.definition.fields import utc

STATE = "state.json"
Moment = Annotated[AwareDatetime, AfterValidator(utc)]
HEARTBEAT = timedelta(seconds=30)
SILENT_AFTER = 4 * HEARTBEAT
"""A node that has not written for so long is not running."""


@dataclass
class StudyLine:
    """One study as this node sees it.

    Attributes:
        digest: hex.
        name: the study's id.
        version: its version.
        state: at the coordinator, as it says.
        here: what this node does about it: waits for a decision, declined, takes part, stays out, too late, failed, cannot be
            used, over.
        reason: the local reason, where it stays out or was refused.
    """

    digest: str
    name: str
    version: int
    state: str
    here: str
    reason: str = ""


class BoardFile(BaseModel):
    """``state.json``."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    at: Moment
    down_since: Moment | None
    refused: str = ""
    studies: tuple[StudyLine, ...]

    def is_running(self, now: datetime) -> bool:
        """Whether the node has written lately."""
        return now - self.at < SILENT_AFTER


@dataclass
class Board:
    """Writes the state of a running node.

    Attributes:
        folder: the node's folder.
        studies: by digest in hex.
        down_since: since when the coordinator does not answer; None while it does.
        refused: the coordinator's sentence where it refuses this node; empty while it does not.
    """

    folder: Path
    studies: dict[str, StudyLine] = field(default_factory=dict[str, StudyLine])
    down_since: datetime | None = None
    refused: str = ""
    _written: bytes = b""
    _at: datetime | None = None

    def write(self) -> None:
        """Write the state if it has changed, or if the last time is long ago."""
        held = {
            "down_since": None if self.down_since is None else self.down_since.isoformat(),
            "refused": self.refused,
            "studies": [asdict(line) for line in self.studies.values()],
        }
        data, now = json.dumps(held).encode(), datetime.now(UTC)
        if data == self._written and self._at is not None and now - self._at < HEARTBEAT:
            return
        replace(
            self.folder / STATE,
            json.dumps({"at": now.isoformat(), **held}, indent=1).encode() + b"\n",
            PRIVATE,
        )
        self._written, self._at = data, now


def read_board(folder: Path) -> BoardFile | None:
    """Return the state that a running node wrote last, or None if it never did. Raises ConfigurationError for a broken file."""
    path = folder / STATE
    if not path.exists():
        return None
    try:
        return BoardFile.model_validate_json(read(path))
    except ValidationError:
        raise ConfigurationError(
            f"{STATE}: not the state of a node; remove it, a running node writes it anew"
        ) from None
