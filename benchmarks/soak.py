"""A consortium of real daemons under random faults: ``python benchmarks/soak.py [--minutes M] [--sites N] [--seed S] [--out FOLDER]``.

Studies with known answers are submitted one after the other, several at once, while daemons are killed, paused and restarted, lines
are cut and delayed, and disks are full (`soak_faults`). Every released number is computed again from the rows of the sites that the
document names (`soak_studies`), and in the end every ledger is compared with the coordinator's store (`soak_books`). Exit code 1 if
anything is wrong; what the daemons wrote is then kept in the folder.
"""

import argparse
import asyncio
import os
import random
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cohortsum.crypto.certificates import TLS13_ONLY

os.environ.setdefault(*TLS13_ONLY)  # before grpc is imported, or TLS 1.2 stays possible

from benchmarks.daemons import HUB, STATISTICIAN, Daemons, folder_of
from benchmarks.measure import Report, Row
from benchmarks.soak_books import Book, Kept, read_store, reckon
from benchmarks.soak_faults import Saboteur, plan
from benchmarks.soak_picture import Moments, draw
from benchmarks.soak_studies import KINDS, WEIGHTS, Rows, faults_in, study_text
from cohortsum.coordinator.client import Desk, open_desk
from cohortsum.crypto.errors import CohortsumError, LineError, RefusedError
from cohortsum.study.definition import freeze, load_study
from cohortsum.study.definition.signing import SignedStudy, sign_study

FINAL = frozenset({"released", "ended", "withdrawn", "superseded"})
STUCK_S = 600.0
"""A study that has no final state after so many seconds is stuck: what its own deadlines and a few restarts add up to is less."""
LOOK_S = 0.3
QUIET_S = 90.0
"""Seconds for the nodes to hear, after the last fault, that every study is over."""
CHARGES = (
    "no charge is lost",
    "no charge is without a masked input",
    "closed and refunded",
    "what was sent is charged",
)


@dataclass
class Study:
    """One study of the soak; times in seconds of the monotonic clock."""

    name: str
    kind: str
    signed: SignedStudy
    digest: bytes
    submitted: float
    state: str = ""
    took_s: float = 0.0


@dataclass
class Soak:
    """One soak.

    Args:
        daemons: the consortium.
        tables: rows of every site by its id.
        seed: of studies and faults.
        at_once: studies that are under way together.
        slow: how many times as long their deadlines are.

    Attributes:
        studies: all that were submitted.
        wrong: sentences about results that are not right, by study.
        restarts: how often the coordinator began anew.
    """

    daemons: Daemons
    tables: dict[str, Rows]
    seed: int
    at_once: int
    slow: int
    studies: list[Study] = field(default_factory=list[Study])
    wrong: list[str] = field(default_factory=list[str])
    checked: int = 0
    restarts: int = 0
    _open: bool = True

    def restarted(self) -> None:
        """Note that the coordinator began anew."""
        self.restarts += 1

    async def run(self, minutes: float, per_minute: float) -> Saboteur:
        """Run everything to its end; the daemons have ended then, asked to."""
        daemons, saboteur = self.daemons, Saboteur(self.daemons, self.restarted)
        await daemons.start(HUB)
        for name in daemons.names:
            await daemons.start(name)
        await daemons.all_called()
        studying = asyncio.create_task(self._study())
        watching = asyncio.create_task(self._watch(saboteur))
        planned = plan(self.seed, len(daemons.names), minutes, per_minute)
        try:
            await saboteur.carry_out(planned, minutes)
            self._open = False
            await studying
            await self._quiet()
        finally:
            studying.cancel()
            watching.cancel()
            await asyncio.gather(studying, watching, return_exceptions=True)
        for name in (*daemons.names, HUB):
            code = await daemons.stop(name)
            if code != 0:
                daemons.ended.append((f"{name}, asked to end", code))
        return saboteur

    async def _study(self) -> None:
        """Submit studies and look at them until no more are wanted and all are over, or stuck."""
        draw = random.Random(f"studies/{self.seed}")  # noqa: S311  decides which study is next
        signer, roster = self.daemons.signer()
        while True:
            under_way = [study for study in self.studies if not study.state]
            if not self._open and not under_way:
                return
            if self._open and len(under_way) < self.at_once:
                number = len(self.studies)
                kind = draw.choices(KINDS, WEIGHTS)[0]
                text = study_text(
                    f"soak-{number:04d}", kind, roster.version, len(self.daemons.names), self.slow
                )
                frozen = freeze(load_study(text.encode(), "study.yaml"))
                signed = sign_study(frozen, STATISTICIAN, signer.key)
                self.studies.append(Study(frozen.study, kind, signed, frozen.digest, time.monotonic()))
                continue
            with suppress(LineError):  # the coordinator is down; it comes back
                async with open_desk(self.daemons.target, signer, roster) as desk:
                    while await self._look(desk, under_way):
                        await asyncio.sleep(LOOK_S)
            await asyncio.sleep(LOOK_S)

    async def _look(self, desk: Desk, under_way: list[Study]) -> bool:
        """Submit what the coordinator has not yet, and take what is over; return whether nothing is."""
        states = {entry.digest: entry.state for entry in await desk.studies()}
        over = False
        for study in under_way:
            if study.digest not in states:
                await desk.submit(study.signed)
            elif states[study.digest] in FINAL:
                await self._take(desk, study, states[study.digest])
                over = True
            elif time.monotonic() - study.submitted > STUCK_S:
                study.state, study.took_s, over = "stuck", STUCK_S, True
        return not over

    async def _take(self, desk: Desk, study: Study, state: str) -> None:
        """Check the result of a study that is over."""
        if state == "released":
            try:
                document = await desk.result(study.digest)
                found = await asyncio.to_thread(faults_in, document, self.tables)
            except LineError:
                raise
            except (RefusedError, CohortsumError) as error:
                found = [error.message]
            self.checked += 1
            self.wrong += [f"{study.name}: {one}" for one in found]
        study.state, study.took_s = state, time.monotonic() - study.submitted

    async def _watch(self, saboteur: Saboteur) -> None:
        """Start daemons again that ended by themselves, and look at the memory of all."""
        while True:
            await asyncio.sleep(1)
            self.daemons.look_at_memory()
            for name in (HUB, *self.daemons.names):
                if name not in saboteur.busy and not self.daemons.is_running(name):
                    await self.daemons.start(name)

    async def _quiet(self) -> None:
        """Wait until every node has heard that all is over: what was set aside is given back then."""
        until = time.monotonic() + QUIET_S
        while time.monotonic() < until:
            if not any(map(self.daemons.sets_aside, self.daemons.names)):
                return
            await asyncio.sleep(1)


def tables_of(report: Report, soak: Soak, saboteur: Saboteur, kept: Kept, book: Book, minutes: float) -> int:
    """Print and keep everything that a soak found, and return how much of it is wrong."""
    attempts = kept.attempts.values()
    opened = sum(held.state == "opened" for held in attempts)
    states = Counter(study.state for study in soak.studies)
    charges = sum(len(book.wrong[name]) for name in CHARGES)
    stuck = states["stuck"]
    other = sum(map(len, book.wrong.values())) - charges
    one: Row = {
        "sites": len(soak.daemons.names),
        "minutes": minutes,
        "seed": soak.seed,
        "studies": len(soak.studies),
        "released": states["released"],
        "rounds opened": opened,
        "rounds aborted": len(kept.attempts) - opened,
        "faults": len(saboteur.done),
        "coordinator restarts": soak.restarts,
        "ended on a full disk": soak.daemons.refused,
        "longest study s": max((study.took_s for study in soak.studies), default=0.0),
    }
    report.table("Soak", iter([one]))
    verdict: Row = {
        "results checked": soak.checked,
        "wrong results": len(soak.wrong),
        "lost or double charges": charges,
        "stuck studies": stuck,
        "leaks": len(book.wrong["ids, values and keys nowhere"]),
        "other checks failed": other,
        "ended by itself": len(soak.daemons.ended),
    }
    report.table("What is wrong", iter([verdict]))
    counted = Counter(fault.kind for fault in saboteur.done)
    report.table("Faults", ({"number": number, "kind": kind} for kind, number in counted.most_common()))
    reasons = Counter(reason_of(held.reason) for held in attempts if held.state == "aborted")
    report.table(
        "Rounds aborted", ({"number": number, "reason": why} for why, number in reasons.most_common())
    )
    over = Counter(f"{state}: {reason_of(reason)}" for _, state, reason in kept.studies.values())
    report.table("Studies", ({"number": number, "state": state} for state, number in over.most_common()))
    report.table("Reckoning", _checks(book))
    most: Iterator[Row] = ({"MiB": mib, "process": name} for name, mib in soak.daemons.most_mib.items())
    report.table("Greatest resident memory", most)
    for sentence in (*soak.wrong, *(one for said in book.wrong.values() for one in said[:20])):
        print(f"wrong: {sentence}")
    for name, code in soak.daemons.ended:
        print(f"wrong: {name} ended with {code}")
    if not soak.checked:
        print("wrong: no result was there to be checked")
    return len(soak.wrong) + charges + other + stuck + len(soak.daemons.ended) + (not soak.checked)


def _checks(book: Book) -> Iterator[Row]:
    for name, looked in book.looked.items():
        yield {"looked at": looked, "wrong": len(book.wrong[name]), "what": name}


def reason_of(reason: str) -> str:
    """Return a reason without what differs from one time to another: sites and numbers."""
    return re.sub(r"\bsite\d+(,site\d+)*", "SITES", re.sub(r"\b\d+ sites?\b", "N sites", reason))


def moments_of(kept: Kept, saboteur: Saboteur) -> Moments:
    """Return when rounds opened and were aborted and when faults were, in seconds since the plan of faults began."""

    def ends(state: str) -> list[float]:
        held = (one.ended for one in kept.attempts.values() if one.state == state and one.ended)
        return sorted(datetime.fromisoformat(f"{text}+00:00").timestamp() - saboteur.since for text in held)

    faults: dict[str, list[float]] = {}
    for fault in saboteur.done:
        faults.setdefault(fault.kind, []).append(fault.at_s)
    return Moments(ends("opened"), ends("aborted"), faults)


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, soak, print, and return the exit code."""
    parser = argparse.ArgumentParser(description="A consortium of daemons under random faults.")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long faults go on")
    parser.add_argument("--sites", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=4, help="studies that are under way together")
    parser.add_argument("--per-minute", type=float, default=9.0, help="faults, on average")
    parser.add_argument(
        "--slow", type=int, default=1, help="how many times as long every deadline is, on a busy machine"
    )
    parser.add_argument("--out", type=Path, default=Path("soak"), help="soak.json and soak.png go here")
    parser.add_argument(
        "--keep", action="store_true", help="keep what the daemons wrote even if nothing is wrong"
    )
    asked = parser.parse_args(arguments)
    home = asked.out.resolve() / "consortium"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    tables = {f"site{place}": Rows.of_site(asked.seed, place) for place in range(asked.sites)}

    async def play() -> tuple[Soak, Saboteur]:
        async with Daemons(home, tables) as daemons:
            soak = Soak(daemons, tables, asked.seed, asked.at_once, asked.slow)
            return soak, await soak.run(asked.minutes, asked.per_minute)

    soak, saboteur = asyncio.run(play())
    kept = read_store(folder_of(home, HUB))
    book = reckon(home, tables)
    report = Report()
    wrong = tables_of(report, soak, saboteur, kept, book, asked.minutes)
    report.write(asked.out / "soak.json")
    draw(moments_of(kept, saboteur), asked.out / "soak.png")
    if not (wrong or asked.keep):
        shutil.rmtree(home)
    print("\nnothing is wrong" if not wrong else f"\n{wrong} things are wrong; all files are in {home}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
