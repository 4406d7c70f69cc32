"""On whose numbers a member has begun to compute, per study and stage, in a file of its node.

Answers over two sets of sites would tell them apart, so a member that began once computes again over the same set only. The record is on
disk before the worker starts, and is never taken back.
"""

import json
from pathlib import Path
from typing import cast

from cohortsum.crypto.errors import StoreError
from cohortsum.node.files import PRIVATE, replace

FILE = "committee.json"


class Bindings:
    """The record of one node.

    Args:
        folder: of the node.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def of(self, study: bytes, stage: int) -> tuple[int, ...] | None:
        """Return the dealers by roster index, or None where this member never began; raises StoreError."""
        return self._read().get(_key(study, stage))

    def bind(self, study: bytes, stage: int, dealers: tuple[int, ...]) -> None:
        """Record the dealers of a stage for good; raises StoreError where others are recorded, or the file fails."""
        held = self._read()
        if held.setdefault(_key(study, stage), dealers) != dealers:
            raise StoreError(f"{FILE}: this member has begun to compute on the numbers of other sites")
        data = json.dumps({key: list(indices) for key, indices in held.items()}, sort_keys=True)
        replace(self._path, data.encode(), PRIVATE)

    def _read(self) -> dict[str, tuple[int, ...]]:
        if not self._path.exists():
            return {}
        try:
            held = json.loads(self._path.read_bytes())
            entries = cast("dict[str, list[int]]", held).items()
            read = {key: tuple(indices) for key, indices in entries}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise StoreError(
                f"{FILE}: cannot be read; restore it from the newest copy of this folder"
            ) from error
        if not all(isinstance(index, int) for indices in read.values() for index in indices):  # pyright: ignore[reportUnnecessaryIsInstance]  # the file may hold anything
            raise StoreError(f"{FILE}: is damaged; restore it from the newest copy of this folder")
        return read


def _key(study: bytes, stage: int) -> str:
    return f"{study.hex()}/{stage}"
