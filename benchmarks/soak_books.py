"""The reckoning after a soak: every site's ledger against the coordinator's store, row by row, and nothing where it must not be.

Everything is read from the files with sqlite3 alone. What must hold:

* A site knows only attempts that the coordinator wrote down, and of every message that the coordinator took the site has the deed,
  with the same digest: nothing left a site that its ledger does not know.
* Per attempt a site masked, signed and answered at most once, in this order, and its answers are a partition: survivors lie within
  those who dealt, these within those who advertised, and everybody who signed an attempt signed one survivor set.
* Attempts at one round that are not closed name one survivor set, and at most one of them opened, with at least t answers over the
  survivors that the document names.
* A study with noise has one charge for every masked input and no other; what was closed is refunded, and nothing stays set aside.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.daemons import HUB, folder_of
from benchmarks.soak_studies import ID_WORD, REMARK, Rows
from cohortsum.coordinator.audit_log import AUDIT
from cohortsum.coordinator.store import Store, sqlite_url
from cohortsum.node.ledger import Ledger
from cohortsum.protocol.bounds import threshold
from tests.leaks.planted import Needle, seed_needles, text_needles, value_needles
from tests.leaks.scan import found, places_in

DEED_OF = {
    "MASKED": "spent",
    "CONSISTENCY": "signed",
    "GATE_SHARES": "answered gate",
    "DATA_SHARES": "answered data",
}
ORDER = ("spent", "signed", "answered gate", "answered data")
SURE = 10
"""A number of so many signs stands in no result by chance."""


@dataclass
class Book:
    """What was looked at, and what was wrong, by check."""

    looked: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def check(self, name: str, holds: bool, said: str) -> None:
        """Note one look."""
        self.looked[name] += 1
        if not holds:
            self.wrong[name].append(said)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as the coordinator's store has it."""

    study: str
    iteration: int
    number: int
    state: str
    reason: str
    survivors: tuple[str, ...]
    ended: str


@dataclass(frozen=True, slots=True)
class Kept:
    """The coordinator's store.

    Attributes:
        studies: name, state and reason, by digest.
        noised: digests of the studies with noise.
        attempts: by context.
        messages: digests, by context, sender and kind.
    """

    studies: Mapping[str, tuple[str, str, str]]
    noised: frozenset[str]
    attempts: Mapping[str, Attempt]
    messages: Mapping[tuple[str, str, str], str]


def read_store(folder: Path) -> Kept:
    """Return what the store in the coordinator's folder holds."""
    with closing(sqlite3.connect(folder / "coordinator.db")) as database:
        studies: dict[str, tuple[str, str, str]] = {}
        noised: set[str] = set()
        for digest, name, state, reason, canonical in database.execute(
            "SELECT digest, name, state, reason, canonical FROM studies"
        ):
            studies[digest] = name, state, reason
            if json.loads(canonical)["privacy"]["noise"] != "none":
                noised.add(digest)
        rows = database.execute(
            "SELECT context, study, iteration, attempt, state, reason, survivors, ended FROM rounds"
        )
        attempts = {
            context: Attempt(
                study, iteration, number, state, reason, tuple(filter(None, listed.split(","))), ended or ""
            )
            for context, study, iteration, number, state, reason, listed, ended in rows
        }
        messages = {
            (context, sender, kind): digest
            for context, sender, kind, digest in database.execute(
                "SELECT context, sender, kind, digest FROM messages"
            )
        }
    return Kept(studies, frozenset(noised), attempts, messages)


def reckon(home: Path, tables: Mapping[str, Rows]) -> Book:
    """Return the reckoning of a consortium whose daemons have ended.

    Args:
        home: holds its folders.
        tables: rows of every site by its id, in the order of the roster.
    """
    book, kept = Book(), read_store(folder_of(home, HUB))
    sets: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    sizes: dict[str, int] = {}
    names = dict(enumerate(tables))
    for site in tables:
        with closing(sqlite3.connect(folder_of(home, site) / "ledger.db")) as ledger:
            _site(book, kept, site, ledger)
            for context, advertisers in ledger.execute("SELECT context, advertisers FROM writes"):
                sizes[context.hex()] = len(json.loads(advertisers))
            for context, listed in ledger.execute(
                "SELECT context, survivors FROM deeds WHERE deed = 'signed'"
            ):
                sets[context.hex()].add(tuple(names[int(index)] for index in listed.split(",")))
    _rounds(book, kept, sets, sizes)
    _logs(book, home, tables)
    _leaks(book, home, tables)
    return book


def _site(book: Book, kept: Kept, site: str, ledger: sqlite3.Connection) -> None:
    """Check one site's ledger."""
    rounds = {
        context.hex(): (study.hex(), iteration)
        for context, study, iteration in ledger.execute("SELECT context, study, iteration FROM rounds")
    }
    deeds: dict[str, dict[str, str]] = defaultdict(dict)
    for context, deed, digest in ledger.execute("SELECT context, deed, digest FROM deeds ORDER BY rowid"):
        deeds[context.hex()][deed] = digest.hex()
    writes = {
        context.hex(): (set(json.loads(advertisers)), set(json.loads(delivered)), closed is not None)
        for context, advertisers, delivered, closed in ledger.execute(
            "SELECT context, advertisers, delivered, closed FROM writes"
        )
    }
    signed = {
        context.hex(): frozenset(map(int, survivors.split(",")))
        for context, survivors in ledger.execute("SELECT context, survivors FROM deeds WHERE deed = 'signed'")
    }
    for context, (study, iteration) in rounds.items():
        held = kept.attempts.get(context)
        same = held is not None and (held.study, held.iteration) == (study, iteration)
        book.check("a site's attempt is the coordinator's", same, f"{site} {context[:16]}")
    for context, done in deeds.items():
        places = [ORDER.index(deed) for deed in done if deed in ORDER]
        right = places == sorted(places) and places == list(range(len(places)))
        book.check("deeds once, in order", right, f"{site} {context[:16]} {list(done)}")
    for (context, sender, kind), digest in kept.messages.items():
        if sender == site and kind in DEED_OF:
            held_digest = deeds[context].get(DEED_OF[kind])
            same = held_digest is not None and (kind == "CONSISTENCY" or held_digest == digest)
            book.check(
                "a message that was taken is in its site's ledger", same, f"{site} {context[:16]} {kind}"
            )
    standing: dict[tuple[str, int], set[frozenset[int]]] = defaultdict(set)
    for context, survivors in signed.items():
        advertisers, delivered, closed = writes[context]
        nested = survivors <= delivered <= advertisers
        book.check("answers are a partition", nested, f"{site} {context[:16]}")
        if not closed:
            standing[rounds[context]].add(survivors)
    for key, kinds in standing.items():
        book.check("one survivor set of a round", len(kinds) == 1, f"{site} {key[0][:16]} iteration {key[1]}")
    _charges(book, kept, site, ledger, writes, {context: study for context, (study, _) in rounds.items()})


def _charges(
    book: Book,
    kept: Kept,
    site: str,
    ledger: sqlite3.Connection,
    writes: Mapping[str, tuple[set[int], set[int], bool]],
    study_of: Mapping[str, str],
) -> None:
    charges = {
        context.hex(): refunded is not None
        for context, refunded in ledger.execute("SELECT context, refunded FROM charges")
    }
    owed = {context for context in writes if study_of[context] in kept.noised}
    for context in owed | charges.keys():
        where = f"{site} {context[:16]}"
        book.check("no charge is lost", context in charges, where)
        book.check("no charge is without a masked input", context in owed, where)
        if context in owed and context in charges:
            book.check("closed and refunded", writes[context][2] == charges[context], where)
    for context, sender, kind in kept.messages:
        if sender == site and kind == "MASKED" and kept.attempts[context].study in kept.noised:
            book.check("what was sent is charged", context in charges, f"{site} {context[:16]}")
    query = """
        SELECT name, attempts, released, (SELECT count(*) FROM charges
            WHERE charges.study = reservations.study AND refunded IS NULL) FROM reservations
    """
    for name, reserved, released, charged in ledger.execute(query):
        book.check("charges within what was set aside", charged <= reserved, f"{site} {name}")
        book.check("nothing stays set aside", released is not None, f"{site} {name}")


def _rounds(
    book: Book, kept: Kept, sets: Mapping[str, set[tuple[str, ...]]], sizes: Mapping[str, int]
) -> None:
    """Check the coordinator's attempts against what the sites signed."""
    opened: dict[tuple[str, int], int] = defaultdict(int)
    for context, held in kept.attempts.items():
        where = f"{context[:16]} of {kept.studies[held.study][0]}"
        book.check("attempts are over", held.state in ("opened", "aborted"), f"{where}: {held.state}")
        book.check("everybody signed one set", len(sets.get(context, set())) <= 1, where)
        if held.state != "opened":
            continue
        opened[held.study, held.iteration] += 1
        book.check("the opened set is the signed one", sets.get(context) == {held.survivors}, where)
        answers = sum((context, site, "DATA_SHARES") in kept.messages for site in held.survivors)
        book.check("opened by t sites", answers >= threshold(sizes.get(context, 10**6)), where)
    for (study, iteration), number in opened.items():
        book.check("a round opens once", number == 1, f"{kept.studies[study][0]} iteration {iteration}")


def _logs(book: Book, home: Path, sites: Iterable[str]) -> None:
    """Check the audit logs' chains, what is left of uploads and private copies, and that no fault of ours was logged."""
    hub = folder_of(home, HUB)
    with closing(Store(sqlite_url(hub / "coordinator.db"), hub / AUDIT)) as store:
        book.check("audit logs hold", store.audit().fault is None, f"{HUB}: {store.audit().fault}")
    left = [path for path in (hub / "spool").rglob("*") if path.is_file()]
    book.check("no upload is left", not left, ", ".join(path.name for path in left))
    for site in sites:
        with closing(Ledger(folder_of(home, site) / "ledger.db")) as ledger:
            book.check("audit logs hold", ledger.audit().fault is None, f"{site}: {ledger.audit().fault}")
            book.check("no ledger is marked as an older copy", ledger.restored_since() is None, site)
        copies = list(folder_of(home, site).glob("cohortsum-*"))
        book.check("no private copy is left", not copies, f"{site}: {len(copies)}")
    for path in sorted((home / "logs").iterdir()):
        lines = path.read_text(encoding="utf-8").splitlines()
        faults = [line for line in lines if "Traceback" in line]
        accusing = [line for line in lines if '"evidence.kept"' in line]
        book.check("no fault of ours in a log", not faults, f"{path.name}: {len(faults)}, first {faults[:1]}")
        book.check("nobody is accused: all are honest", not accusing, f"{path.name}: {accusing[:1]}")


def _leaks(book: Book, home: Path, tables: Mapping[str, Rows]) -> None:
    """Look for what was planted, and for private keys, in every file but those that hold them."""
    own = [
        path for path in home.rglob("*") if path.name in ("people.csv", "snapshots") or path.suffix == ".key"
    ]
    places = places_in(home, without=own)
    counted = 0

    def looked() -> Iterator[tuple[str, bytes]]:
        nonlocal counted
        for place in places:
            counted += 1
            yield place

    leaked = found(looked(), [*planted(tables), *keys_in(home)])
    book.looked["ids, values and keys nowhere"] = counted
    for name, labels in leaked.items():
        book.wrong["ids, values and keys nowhere"].append(f"{name}: {sorted(labels)}")


def planted(tables: Mapping[str, Rows]) -> Iterator[Needle]:
    """Return ids, free text and values of the first and the last person of every site, in every form that is sure."""
    yield from text_needles("an id", ID_WORD)
    yield from text_needles("free text", REMARK)
    for site, rows in tables.items():
        for row in (0, -1):
            values = (
                *value_needles(f"an age of {site}", float(rows.age[row]), 60, 100),
                *value_needles(f"a thickness of {site}", float(rows.thick[row]), 1, 4),
            )
            yield from (held for held in values if len(held.form) >= SURE or "endian" in held.label)


def keys_in(home: Path) -> Iterable[Needle]:
    """Return every private key below a folder, in every form."""
    for path in sorted(home.rglob("*.key")):
        label = f"the key {path.parent.name}/{path.name}"
        yield from seed_needles(label, bytes.fromhex(path.read_text(encoding="utf-8").strip()))
