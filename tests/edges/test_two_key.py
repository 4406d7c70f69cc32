"""Two-key studies over gRPC: the survivors' result with both locks open, none with one of them, and restarts on either side."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from sqlalchemy import func, select

from cohortsum.coordinator.attempt import NO_KEY, NOT_UNLOCKED
from cohortsum.coordinator.locking import RoundLock, UnlockedSum
from cohortsum.coordinator.runner import Outcome
from cohortsum.coordinator.store import EventRow
from cohortsum.coordinator.trail import kept_transcript
from cohortsum.crypto.bfv import STANDARD, EncryptionKey
from cohortsum.crypto.errors import LineError
from cohortsum.crypto.masks import Vector
from cohortsum.node.joining import Site
from cohortsum.node.session import StudySession
from cohortsum.protocol.denylist import nobody_denied
from cohortsum.protocol.effects import Contribute, SiteEffect
from cohortsum.protocol.messages import Envelope, Packet
from cohortsum.protocol.site_states import Contributing
from cohortsum.protocol.unlocking import UnlockRequest
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.trustee.desk import Desk
from cohortsum.trustee.keys import KeyRing
from cohortsum.trustee.ledger import Ledger
from cohortsum.trustee.roll import Roll
from tests.edges.harness import LIMIT_S, Loopback, study_with
from tests.edges.oracle import check_pooled
from tests.edges.test_round import attempts
from tests.protocol.consortium import identity_key

TRUSTEE = "keyholder"
GUEST = (
    f"  - {{id: {TRUSTEE}, role: trustee, name: {TRUSTEE}, organisation: test, "
    f'key: "ed25519:{identity_key(TRUSTEE).public.hex()}"}}'
)
STUDY = study_with(step="20s").replace("protection:\n", "protection:\n  mode: two_key\n")
QUICK = STUDY.replace("step: 20s", "step: 2s")


class AtHand:
    """The product's own trustee, without a line to it; `down` is one that does not answer.

    Args:
        folder: of its ledger.
        roll: who counts.
    """

    def __init__(self, folder: Path, roll: Roll) -> None:
        self.ledger, self.roll, self.down = Ledger(folder / "trustee.db"), roll, False
        self.offers = 0
        self.start()

    def start(self) -> None:
        """Begin without any key, as after a restart."""
        ring = KeyRing(64, 3600.0, time.monotonic)
        self.desk = Desk(TRUSTEE, identity_key(TRUSTEE), lambda: self.roll, ring, self.ledger, 1_000_000)

    async def offer(self, signed: SignedStudy, opening: Envelope, wait_s: float) -> Packet:
        """Offer a key."""
        self._answers()
        assert wait_s > 0
        self.offers += 1
        return await asyncio.to_thread(self.desk.offer, signed, opening)

    async def unlock(
        self, signed: SignedStudy, request: UnlockRequest, ciphertexts: Vector, length: int, wait_s: float
    ) -> UnlockedSum:
        """Decrypt a sum."""
        self._answers()
        assert wait_s > 0
        permitted = await asyncio.to_thread(self.desk.permitted, signed, request, length)
        answer = await asyncio.to_thread(self.desk.unlock, permitted, ciphertexts)
        return UnlockedSum(answer.envelope, answer.words)

    def _answers(self) -> None:
        if self.down:
            raise LineError("the trustee at test does not answer")


class LockedLoopback(Loopback):
    """A consortium on loopback with a trustee; `restart` replaces the coordinator under nodes that stay."""

    def __init__(
        self, folder: Path, sites: int = 5, study: str = STUDY, guests: Iterable[str] = (GUEST,)
    ) -> None:
        super().__init__(folder, sites, study, guests=guests)
        roll = Roll({self.roster.version: self.roster}, nobody_denied(self.roster.consortium))
        self.trustee = AtHand(folder, roll)
        self.ending: asyncio.Task[Outcome] | None = None

    def make_lock(self) -> RoundLock:
        transcript = partial(kept_transcript, self.store, roster=self.roster)
        return RoundLock(self.trustee, self.signed, transcript, 2.0)

    async def whole(self) -> Outcome:
        """Return how the study ends, over restarts of the coordinator."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                ending = self.ending
                assert ending is not None
                await asyncio.wait((ending,))
                if ending is self.ending and not ending.cancelled():
                    return ending.result()
                await asyncio.sleep(0.05)

    def begin(self) -> None:
        """Begin with every node."""
        self.ending = self.start()

    async def restart(self) -> None:
        """End the coordinator where it stands, and begin another over the same store."""
        assert self.ending is not None
        old = self.ending
        await self.stop_server()
        old.cancel()
        await asyncio.wait((old,))
        await self.serve()
        self.ending = asyncio.create_task(self.runner.run())


def test_the_result_is_that_of_all_rows_and_the_trustee_decrypted_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with LockedLoopback(tmp_path) as town:
            town.begin()
            outcome = await town.whole()
            assert outcome.document is not None, outcome.reason
            check_pooled(outcome.document, range(5))
            (row,) = town.trustee.ledger.of_study(town.study.digest)
            assert row.survivors == (0, 1, 2, 3, 4)
            assert town.trustee.offers == 1
            with town.store.transaction() as session:
                assert session.scalar(select(func.count(EventRow.id))) == 0

    asyncio.run(play())
    assert attempts(tmp_path) == [(1, "opened", "", "site0,site1,site2,site3,site4")]


def test_whoever_leaves_is_left_out(tmp_path: Path) -> None:
    async def play() -> Outcome:
        async with LockedLoopback(tmp_path, 6, QUICK) as town:
            town.leave_after("site5", "SHARES")
            town.begin()
            return await town.whole()

    outcome = asyncio.run(play())
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, range(5))


def test_without_a_trustee_no_site_hears_of_a_round(tmp_path: Path) -> None:
    async def play() -> Outcome:
        async with LockedLoopback(tmp_path, study=QUICK) as town:
            town.trustee.down = True
            town.begin()
            outcome = await town.whole()
            assert town.times("ADVERT") == 0
            return outcome

    outcome = asyncio.run(play())
    assert outcome.document is None
    assert outcome.reason.startswith(NO_KEY)
    assert [(number, state) for number, state, _, _ in attempts(tmp_path)] == [(1, "aborted"), (2, "aborted")]


def test_a_trustee_that_lost_the_key_ends_the_attempt_and_the_same_survivors_open_in_the_next(
    tmp_path: Path,
) -> None:
    async def play() -> Outcome:
        async with LockedLoopback(tmp_path) as town:
            held = town.hold("site2", "CONSISTENCY")
            town.begin()
            async with asyncio.timeout(LIMIT_S):
                await held.reached.wait()
            town.trustee.start()
            held.released.set()
            outcome = await town.whole()
            assert len(town.trustee.ledger.of_study(town.study.digest)) == 1
            return outcome

    outcome = asyncio.run(play())
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, range(5))
    everybody = "site0,site1,site2,site3,site4"
    (first, second) = attempts(tmp_path)
    assert (first[0], first[1], first[3]) == (1, "aborted", everybody)
    assert first[2].startswith(NOT_UNLOCKED)
    assert second == (2, "opened", "", everybody)


def test_a_restarted_coordinator_goes_on_under_the_same_key(tmp_path: Path) -> None:
    """Between shares and masked inputs, and again once the survivors are named: uploads come again, the key is the one of before."""

    async def play() -> Outcome:
        async with LockedLoopback(tmp_path) as town:
            for what in ("SHARES", "GATE_SHARES"):
                held = town.hold("site1", what)
                if town.ending is None:
                    town.begin()
                async with asyncio.timeout(LIMIT_S):
                    await held.reached.wait()
                await town.restart()
                held.released.set()
            outcome = await town.whole()
            assert town.trustee.offers == 1
            return outcome

    outcome = asyncio.run(play())
    assert outcome.document is not None, outcome.reason
    assert outcome.document.round.attempt == 1
    check_pooled(outcome.document, range(5))


class Junk:
    """In the place of a site's encryption key: words of the right number that are no ciphertexts."""

    def encrypt(self, residues: Vector) -> Vector:
        """Return them."""
        return np.arange(STANDARD.words(len(residues)), dtype=np.uint64)


class JunkSession(StudySession):
    """A session that signs and uploads what is no ciphertext."""

    def _contribute(self, effect: Contribute) -> tuple[SiteEffect, ...]:
        machine = self._machine
        assert machine is not None
        state = machine.state
        assert isinstance(state, Contributing)
        junk = cast("EncryptionKey", Junk())
        machine.state = replace(state, attempt=replace(state.attempt, key=junk))
        return super()._contribute(effect)


class WithJunk(LockedLoopback):
    """A consortium whose site 4 is hostile."""

    def make_session(self, site: Site) -> StudySession:
        return (JunkSession if site.signer.identity.index == 4 else StudySession)(site)


def test_an_upload_that_is_no_ciphertexts_leaves_its_site_out(tmp_path: Path) -> None:
    async def play() -> Outcome:
        async with WithJunk(tmp_path, 6, QUICK) as town:
            town.begin()
            return await town.whole()

    outcome = asyncio.run(play())
    assert outcome.document is not None, outcome.reason
    assert outcome.document.sites.dropouts == ("site4",)
    check_pooled(outcome.document, (0, 1, 2, 3, 5))
