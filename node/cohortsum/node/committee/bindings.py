"""On whose numbers a member has begun to compute, per study and stage, and how often, in a file of its node.

Answers over two sets of sites would tell them apart, so a member that began once computes again over the same set only; and a site that
changes its numbers from run to run learns a little from each, so there are few. The record is on disk before the worker starts, and is
never taken back.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from cohortsum.crypto.errors import RemoteProtocolError, StoreError
from cohortsum.node.files import PRIVATE, replace

FILE = "committee.json"
MOST_BEGUN = 8
"""Runs of one stage that a member begins."""


class Begun(BaseModel):
    """What a member has begun of one stage.

    Attributes:
        dealers: by roster index.
        times: how often.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    dealers: list[int]
    times: int


class Held(RootModel[dict[str, Begun]]):
    """All stages, by study and number."""


class Bindings:
    """The record of one node.

    Args:
        folder: of the node.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def of(self, study: bytes, stage: int) -> tuple[int, ...] | None:
        """Return the dealers by roster index, or None where this member never began; raises StoreError."""
        begun = self._read().get(_key(study, stage))
        return None if begun is None else tuple(begun.dealers)

    def bind(self, study: bytes, stage: int, dealers: tuple[int, ...]) -> None:
        """Record for good that a run begins.

        Raises:
            RemoteProtocolError: C9, on other dealers than before, or too often.
            StoreError: the file fails.
        """
        held = self._read()
        begun = held.get(_key(study, stage), Begun(dealers=list(dealers), times=0))
        if begun.dealers != list(dealers):
            raise RemoteProtocolError("C9", "this member has begun to compute on the numbers of other sites")
        if begun.times >= MOST_BEGUN:
            raise RemoteProtocolError("C9", f"this member has begun this computation {MOST_BEGUN} times")
        held[_key(study, stage)] = Begun(dealers=begun.dealers, times=begun.times + 1)
        replace(self._path, Held(held).model_dump_json().encode(), PRIVATE)

    def _read(self) -> dict[str, Begun]:
        if not self._path.exists():
            return {}
        try:
            return Held.model_validate_json(self._path.read_bytes()).root
        except (OSError, ValidationError) as error:
            raise StoreError(
                f"{FILE}: cannot be read; restore it from the newest copy of this folder"
            ) from error


def _key(study: bytes, stage: int) -> str:
    return f"{study.hex()}/{stage}"
