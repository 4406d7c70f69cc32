"""What was opened of a round, kept for the auditors of the consortium and readable by nobody else, not even here.

Written while the round is closed, before the spool is wiped: one piece in memory at a time, into a file that gets its name when it is
whole. Of a round that does not open nothing stays.
"""

import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from cohortsum.coordinator.locking import UnlockedSum
from cohortsum.protocol.codec import packet_to_bytes
from cohortsum.protocol.coordinator_states import Combining
from cohortsum.protocol.masking import words_to_bytes
from cohortsum.protocol.messages import Packet
from cohortsum.protocol.roster import Roster
from cohortsum.study.release.sealed import UNLOCKED_PIECE, RoundSeal, Sealer, auditors_of


class SealedRounds:
    """The sealed rounds of one study.

    Args:
        folder: made if need be; holds nothing else.
        study: digest of the study.
        roster: returns the study's roster without denied identities.
    """

    def __init__(self, folder: Path, study: bytes, roster: Callable[[], Roster]) -> None:
        self._folder, self._study, self._roster = folder, study, roster

    def write(
        self,
        context: bytes,
        state: Combining,
        words: Callable[[int], bytes],
        unlocked: UnlockedSum | None = None,
    ) -> None:
        """Seal a round whose seeds are all open; nothing is written where the roster has no auditor with a sealing key.

        Args:
            context: of the attempt.
            state: the coordinator's.
            words: returns the masked data words of a survivor, by roster index.
            unlocked: in two-key mode what the trustee decrypted; sealed in their place.

        Raises OSError if the file cannot be written.
        """
        roster = self._roster()
        auditors = auditors_of(roster)
        if not auditors:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(context)
        part = path.with_suffix(".part")
        sealer = Sealer(RoundSeal(self._study, roster.digest, context), auditors, secrets.token_bytes)
        try:
            with part.open("wb") as file:
                file.write(sealer.head)
                if unlocked is not None:
                    held = Packet(unlocked.envelope, (words_to_bytes(unlocked.words),))
                    file.write(sealer.words(UNLOCKED_PIECE, packet_to_bytes(held)))
                else:
                    for site in sorted(state.u3.inputs):
                        file.write(sealer.words(site, words(site)))
                file.write(sealer.seeds(state.data_seeds, state.mask_seeds))
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
        finally:
            sealer.forget()
            part.unlink(missing_ok=True)

    def read(self, context: bytes) -> bytes | None:
        """Return a sealed round, or None."""
        path = self._path(context)
        return path.read_bytes() if path.exists() else None

    def drop(self, context: bytes) -> None:
        """Forget a round that did not open."""
        self._path(context).unlink(missing_ok=True)

    def keep_only(self, contexts: Iterable[bytes]) -> None:
        """Forget every round but these."""
        kept = {self._path(context) for context in contexts}
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path not in kept:
                    path.unlink()

    def _path(self, context: bytes) -> Path:
        return self._folder / f"{context.hex()}.sealed"


def sealed_folder(release: Path) -> Path:
    """Return the folder of sealed rounds beside the folder of a release."""
    return release.with_name(f"{release.name}.sealed")
