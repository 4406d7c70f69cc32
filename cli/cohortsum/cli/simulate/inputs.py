"""The sites of a simulation and their files: one table per site, or one table split by a column.

Lines are copied as they are, so that what the reader of a site has to cope with is what the file holds.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from cohortsum.crypto.errors import ConfigurationError, DataError
from cohortsum.node.tables.filter import lines, normalise
from cohortsum.node.tables.sniff import BLANKS, delimiter_of, sniff, split

SUFFIXES = (".csv", ".tsv", ".txt")
SITE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
MOST_SITES = 1000


@dataclass(frozen=True, slots=True)
class SiteTables:
    """Where every site's table lies, sorted by site, and what a user should know of how they were made."""

    files: dict[str, Path]
    notes: tuple[str, ...]


def site_tables(data: Path, split_by: str | None, scratch: Path) -> SiteTables:
    """Return one table per site.

    Args:
        data: a folder with one file per site, named after it, or one file.
        split_by: the column of the one file that names the site.
        scratch: existing folder that the parts of a split file are written to.

    Raises:
        ConfigurationError: the folder or column is missing, or a name cannot be a site's id.
        DataError: the file cannot be split.
    """
    if data.is_dir():
        if split_by is not None:
            raise ConfigurationError(f"--split-by is for one file; {data} is a folder with one file per site")
        found = sorted(path for path in data.iterdir() if path.suffix.lower() in SUFFIXES)
        files = {path.stem: path.resolve() for path in found}
        if len(files) < len(found):
            raise ConfigurationError(f"{data}: two files have the same name but for the ending; rename one")
        notes: tuple[str, ...] = ()
    elif data.is_file():
        if split_by is None:
            raise ConfigurationError(
                f"{data} is one file; name the column that holds the site with --split-by"
            )
        files, notes = _split(data, split_by, scratch)
    else:
        raise ConfigurationError(f"--data {data}: no such file or folder")
    if not files:
        raise ConfigurationError(f"{data}: no {', '.join(SUFFIXES)} file; supply one table per site")
    if len(files) > MOST_SITES:
        raise ConfigurationError(f"{data}: {len(files)} sites, at most {MOST_SITES} are simulated")
    for site in files:
        if not SITE_ID.fullmatch(site):
            raise ConfigurationError(
                f"{data}: '{site}' cannot be a site's id; use at most 64 letters, digits, - and _"
            )
    return SiteTables(dict(sorted(files.items())), notes)


def _split(data: Path, column: str, scratch: Path) -> tuple[dict[str, Path], tuple[str, ...]]:
    with data.open("rb") as handle:
        text = list(lines(normalise(iter(lambda: handle.read(2**20), b""), data.name), data.name))
    layout = sniff(iter(text), data.name)
    if layout.names.count(column) != 1:
        raise ConfigurationError(
            f"{data.name}: expected one column '{column}' to split by; correct --split-by"
        )
    place = layout.names.index(column)
    rows = [(number, line) for number, line in enumerate(text, start=1) if line.strip(BLANKS)]
    (_, header), *rows = rows
    delimiter = delimiter_of(header)
    parts: dict[str, list[str]] = {}
    without = 0
    for number, line in rows:
        fields = split(line, delimiter)
        if fields is None or len(fields) != len(layout.names):
            raise DataError(
                f"{data.name}, line {number}: expected {len(layout.names)} fields; repair the row, which belongs to no site"
            )
        site = fields[place].strip(BLANKS)
        if site:
            parts.setdefault(site, []).append(line)
        else:
            without += 1
    files: dict[str, Path] = {}
    for site, part in parts.items():
        # the id is checked later; until then it names no file
        files[site] = scratch / f"{hashlib.sha256(site.encode()).hexdigest()[:16]}.table"
        files[site].write_text("\n".join([header, *part]) + "\n", encoding="utf-8", newline="\n")
    notes = (
        (f"{without} rows without a value in '{column}' belong to no site and are left out",)
        if without
        else ()
    )
    return files, notes
