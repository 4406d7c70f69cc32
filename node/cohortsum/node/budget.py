"""What this site has spent of its people's privacy, over all studies, and what is set aside.

The budget is of the data set's whole lifetime, and larger than any one study's. A study's worst case (every round with every attempt it
may be charged for) is set aside when the site joins it; an attempt is charged in the transaction that records its masked input,
before anything leaves, whatever becomes of it; it is refunded when a quorum of tombstones proves that nobody can open it. What a study
did not use is given back when it is over. So the sum of charges and of what is set aside never exceeds the budget, and a crash at any
instruction leaves it too high rather than too low.

Amounts are whole billionths of rho, composed for one person's values replaced (`lifetime`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cohortsum.crypto.errors import LocalProtocolError, PolicyError
from cohortsum.node.ledger_file import LedgerFile, now
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.privacy.lifetime import Cost, Costs, lifetime_epsilon, within
from cohortsum.study.spending import Spending

DEFAULT_EPSILON, DEFAULT_DELTA = 3.0, 1e-5


@dataclass(frozen=True, slots=True)
class Limit:
    """The budget of the data set's lifetime."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class Account:
    """What one version of a study costs this site's people.

    Attributes:
        study: digest.
        name: id of the study.
        version: of the study.
        cost: of one attempt at one of its rounds.
        reserved: attempts set aside at approval; charges are among them.
        charged: attempts charged and not refunded.
        refunded: attempts charged and refunded since.
        open: whether what is left of the reservation is still set aside.
    """

    study: bytes
    name: str
    version: int
    cost: Cost
    reserved: int
    charged: int
    refunded: int
    open: bool

    @property
    def counted(self) -> int:
        """The attempts that count against the budget."""
        return max(self.reserved, self.charged) if self.open else self.charged


class Budget:
    """Reservations and charges in a ledger.

    Args:
        file: that they are kept in.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def reserve(self, study: FrozenStudy, spending: Spending, limit: Limit) -> None:
        """Set aside what a study may cost; again for the same study changes nothing.

        Raises:
            PolicyError: it is more than what is left of the budget.
        """
        with self._file.transaction():
            self._lapse()
            accounts = self.accounts()
            charged = sum(held.charged for held in accounts if held.study == study.digest)
            costs = costs_of([held for held in accounts if held.study != study.digest])
            asked = {spending.cost: max(spending.attempts, charged)}
            if not within((*costs, asked), limit.epsilon, limit.delta):
                spent = lifetime_epsilon(costs, limit.delta)
                raise PolicyError(
                    f"study {study.study} may cost epsilon {spending.epsilon:.3g}; of this site's lifetime budget (epsilon "
                    f"{limit.epsilon:g}, delta {limit.delta:g}) {spent:.3g} is spent or set aside, and both together are too much; "
                    "see `cohortsum node budget`"
                )
            self._file.database.execute(
                "INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL) ON CONFLICT (study) DO UPDATE SET "
                "attempts = excluded.attempts, released = NULL",
                (
                    study.digest,
                    study.study,
                    study.version,
                    spending.cost.adjacency,
                    spending.cost.nano_rho,
                    spending.cost.rate,
                    spending.attempts,
                    study.expires.isoformat(),
                    now(),
                ),
            )
            before = next((held for held in accounts if held.study == study.digest), None)
            if before is None or not before.open:
                self._file.note(Deed(DeedKind.BUDGET_RESERVED, study.digest))

    def charge(self, context: bytes, study: bytes) -> None:
        """Charge one attempt of a study; belongs in the transaction that records its masked input.

        Raises:
            LocalProtocolError: nothing is set aside for it.
        """
        with self._file.transaction():
            held = next(iter(self.accounts(study)), None)
            if held is None or not held.open or held.charged >= held.reserved:
                raise LocalProtocolError(
                    "R2",
                    "nothing is set aside in this site's privacy budget for another attempt of this study",
                )
            self._file.database.execute("INSERT INTO charges VALUES (?, ?, ?, NULL)", (context, study, now()))
            self._file.note(Deed(DeedKind.BUDGET_CHARGED, study, context))

    def restore(self, context: bytes, study: FrozenStudy, cost: Cost) -> None:
        """Charge what a transcript proves and this ledger had forgotten; nothing is asked, it has been sent."""
        with self._file.transaction():
            self._file.database.execute(
                "INSERT OR IGNORE INTO reservations VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?)",
                (
                    study.digest,
                    study.study,
                    study.version,
                    cost.adjacency,
                    cost.nano_rho,
                    cost.rate,
                    study.expires.isoformat(),
                    now(),
                    now(),
                ),
            )
            self._file.database.execute(
                "INSERT OR IGNORE INTO charges VALUES (?, ?, ?, NULL)", (context, study.digest, now())
            )

    def refund(self, context: bytes) -> None:
        """Take back the charge of an attempt that nobody can open any more; belongs to the record of its closing."""
        with self._file.transaction():
            refunded = self._file.database.execute(
                "UPDATE charges SET refunded = ? WHERE context = ? AND refunded IS NULL RETURNING study",
                (now(), context),
            ).fetchall()
            for (study,) in refunded:
                self._file.note(Deed(DeedKind.BUDGET_REFUNDED, study, context))

    def release(self, study: bytes) -> None:
        """Give back what a study that is over did not use."""
        with self._file.transaction():
            released = self._file.database.execute(
                "UPDATE reservations SET released = ? WHERE study = ? AND released IS NULL", (now(), study)
            )
            if released.rowcount:
                self._file.note(Deed(DeedKind.BUDGET_RELEASED, study))

    def accounts(self, study: bytes | None = None) -> tuple[Account, ...]:
        """Return every study with noise that this site has joined, or one of them, in order of time."""
        query = """
            SELECT study, name, version, adjacency, nano_rho, rate, attempts, released,
                (SELECT count(*) FROM charges WHERE charges.study = reservations.study AND refunded IS NULL),
                (SELECT count(*) FROM charges WHERE charges.study = reservations.study AND refunded IS NOT NULL)
            FROM reservations WHERE ?1 IS NULL OR study = ?1 ORDER BY rowid
        """
        with self._file.reading():
            rows = self._file.database.execute(query, (study,)).fetchall()
        return tuple(
            Account(
                study, name, version, Cost(nano, rate, adjacency), attempts, charged, back, released is None
            )
            for study, name, version, adjacency, nano, rate, attempts, released, charged, back in rows
        )

    def _lapse(self) -> None:
        """Give back what is set aside for studies that have expired; nothing of them is answered any more."""
        lapsed = self._file.database.execute(
            "UPDATE reservations SET released = ? WHERE released IS NULL AND expires < ? RETURNING study",
            (now(), datetime.now(UTC).date().isoformat()),
        ).fetchall()
        for (study,) in lapsed:
            self._file.note(Deed(DeedKind.BUDGET_RELEASED, study))


def costs_of(accounts: Sequence[Account]) -> tuple[Costs, ...]:
    """Return what counts against the budget, one entry per study."""
    return tuple({held.cost: held.counted} for held in accounts if held.counted)
