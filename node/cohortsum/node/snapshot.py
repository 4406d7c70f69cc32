"""A snapshot: the tables as they are now, tied to a label for good.

The label (a data epoch) goes into studies, masks and results; what it stands for, one SHA-256 over the content of every table
and of the exclusion list, stays at the site, and so do row counts. A label that was used is never tied to other content.
"""

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import yaml

from cohortsum.crypto.errors import ConfigurationError, DataError
from cohortsum.node.config import NodeConfig, load_node_config
from cohortsum.node.files import PRIVATE, make_folder, read, replace
from cohortsum.node.ledger import Ledger
from cohortsum.node.setup import NO_EPOCH
from cohortsum.node.tables.locate import place_of
from cohortsum.node.tables.reader import content_digest
from cohortsum.node.tables.rows import Wanted, cells_beside, require_sound
from cohortsum.node.tables.source import source_of
from cohortsum.study.definition.tree import compose

SNAPSHOTS = "snapshots"
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a label stands for at this site.

    Attributes:
        epoch: the label.
        digest: of the content, 32 bytes.
        rows: rows by table; stay at the site.
    """

    epoch: str
    digest: bytes
    rows: Mapping[str, int]


def take_snapshot(folder: Path, epoch: str) -> Snapshot:
    """Tie ``epoch`` to the tables as they are now, and write it into node.yaml.

    Raises:
        ConfigurationError: a label that cannot be a file name, or a node.yaml that cannot be edited.
        DataError: a table that cannot be read or changes meanwhile.
        PolicyError: the label is tied to other content.
    """
    if LABEL.fullmatch(epoch) is None or epoch == NO_EPOCH:
        raise ConfigurationError(
            f"epoch: expected up to 64 letters, digits and . _ - (such as 2026-11), other than {NO_EPOCH}; choose another"
        )
    path = folder / "node.yaml"
    config = load_node_config(path)
    edited = with_epoch(read(path), epoch)
    digest = content_digest(config)
    rows = _count_rows(config, folder)
    if content_digest(config) != digest:
        raise DataError("the tables changed while they were read; try again when nothing writes to them")
    ledger = Ledger(folder / "ledger.db")
    try:
        ledger.epochs.bind(epoch, digest)
    finally:
        ledger.close()
    home = folder / SNAPSHOTS
    if not home.exists():
        make_folder(home)
    held = {"epoch": epoch, "digest": digest.hex(), "rows": rows, "at": datetime.now(UTC).isoformat()}
    replace(home / f"{epoch}.json", json.dumps(held, indent=1).encode() + b"\n", PRIVATE)
    replace(path, edited, path.stat().st_mode & 0o777)
    return Snapshot(epoch, digest, rows)


def held_snapshot(folder: Path, epoch: str) -> bytes | None:
    """Return the digest of the snapshot with this label, or None where none was made; raises ConfigurationError."""
    path = folder / SNAPSHOTS / f"{epoch}.json"
    if LABEL.fullmatch(epoch) is None or not path.exists():
        return None
    try:
        held = cast("object", json.loads(read(path)))
        digest = cast("dict[str, object]", held).get("digest") if isinstance(held, dict) else None
        return bytes.fromhex(str(digest))
    except (RecursionError, ValueError):
        raise ConfigurationError(
            f"{SNAPSHOTS}/{epoch}.json: not a snapshot; run `cohortsum node snapshot` again"
        ) from None


def with_epoch(text: bytes, epoch: str) -> bytes:
    """Return a node.yaml with another epoch and nothing else changed: comments, order and line ends stay.

    Raises ConfigurationError where the file has no value under ``epoch``.
    """
    try:
        decoded = text.decode()  # a byte-order mark stays: positions count it
        root = compose(decoded, yaml.BaseLoader)
    except (UnicodeDecodeError, yaml.YAMLError):
        root, decoded = None, ""
    if isinstance(root, yaml.MappingNode):
        for key, value in root.value:
            if key.value == "epoch" and isinstance(value, yaml.ScalarNode) and value.value:
                start, end = value.start_mark.index, value.end_mark.index
                return (decoded[:start] + epoch + decoded[end:]).encode()
    raise ConfigurationError(
        "node.yaml: epoch: expected a label in a line of its own; write one and try again"
    )


def _count_rows(config: NodeConfig, scratch: Path) -> dict[str, int]:
    """Return the sound rows of every table; ids are copied into a private folder meanwhile."""
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="cohortsum-", dir=scratch) as home:
        for name, table in config.tables.items():
            source = source_of(name, table)
            layout = source.layout()
            place = place_of(table.id, [table.renamed(column) for column in layout.names], source.label)
            plain = Path(home) / "ids"
            count, _ = source.copy(layout, Wanted(place, None, ()), plain)
            require_sound(count, layout, source.label, reject_broken=table.broken_rows == "reject")
            plain.unlink()
            cells_beside(plain).unlink()
            counts[name] = count.good
    return counts
