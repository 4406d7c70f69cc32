"""The privacy budget in a site's ledger: what it sets aside, charges, gives back, and still knows after being killed."""

import os
import secrets
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import LocalProtocolError, PolicyError
from cohortsum.node.budget import Limit, costs_of
from cohortsum.node.ledger import Ledger
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.effects import ContextSpent, RoundSeen
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.privacy import zcdp
from cohortsum.study.privacy.lifetime import Cost, lifetime_epsilon, within
from cohortsum.study.spending import Spending, spending_of
from tests.noise.noisy import plan_of, study_of

LIFETIME = Limit(3.0, 1e-5)
SMALL = "noise: distributed, epsilon: 0.3, delta: 1.0e-6"


def asked(privacy: str = SMALL, attempts: int = 2) -> tuple[FrozenStudy, Spending]:
    study = study_of(privacy=privacy, attempts=attempts)
    spending = spending_of(plan_of(study))
    assert spending is not None
    return study, spending


def renamed(study: FrozenStudy, number: int) -> FrozenStudy:
    """Return what the ledger takes for another study."""
    return study_like(study, f"study-{number}", bytes([number]) * 32)


def study_like(study: FrozenStudy, name: str, digest: bytes) -> FrozenStudy:
    return replace(study, study=name, digest=digest)


def write(ledger: Ledger, study: FrozenStudy, context: bytes, attempt: int) -> None:
    """Record a masked input with its charge, as a session does."""
    ledger.write(study.digest, RoundSeen(context, RoundKey(context[:16], 1, attempt)))
    record = ContextSpent(
        context, secrets.token_bytes(32), b"1" * 32, b"2" * 32, frozenset({0}), frozenset({0})
    )
    ledger.write(study.digest, record, charged=True)


def test_a_study_sets_aside_its_worst_case_and_gives_back_what_it_did_not_use() -> None:
    study, spending = asked()
    assert spending.attempts == 2
    assert spending.epsilon <= 0.3
    with closing(Ledger(None)) as ledger:
        ledger.budget.reserve(study, spending, LIFETIME)
        (held,) = ledger.budget.accounts()
        assert (held.reserved, held.charged, held.counted, held.open) == (2, 0, 2, True)
        write(ledger, study, b"a" * 32, 1)
        (held,) = ledger.budget.accounts()
        assert (held.charged, held.counted) == (1, 2)
        ledger.budget.release(study.digest)
        (held,) = ledger.budget.accounts()
        assert (held.charged, held.counted, held.open) == (1, 1, False)
        spent = lifetime_epsilon(costs_of((held,)), 1e-6)
        assert spent == pytest.approx(zcdp.epsilon_of(spending.cost.nano_rho / zcdp.NANO, 1e-6))


def test_nothing_is_charged_beyond_what_is_set_aside() -> None:
    study, spending = asked(attempts=1)
    with closing(Ledger(None)) as ledger:
        with pytest.raises(LocalProtocolError, match="nothing is set aside"):
            write(ledger, study, b"z" * 32, 1)
        assert not ledger.has_spent(b"z" * 32)  # the record and its charge stand or fall together
        ledger.budget.reserve(study, spending, LIFETIME)
        write(ledger, study, b"a" * 32, 1)
        with pytest.raises(LocalProtocolError):
            write(ledger, study, b"b" * 32, 2)
        assert not ledger.has_spent(b"b" * 32)


def test_a_closed_attempt_is_refunded_once_and_may_be_made_again() -> None:
    study, spending = asked(attempts=1)
    with closing(Ledger(None)) as ledger:
        ledger.budget.reserve(study, spending, LIFETIME)
        write(ledger, study, b"a" * 32, 1)
        ledger.close_write(b"a" * 32)
        ledger.close_write(b"a" * 32)
        (held,) = ledger.budget.accounts()
        assert (held.charged, held.refunded, held.counted) == (0, 1, 1)
        write(ledger, study, b"b" * 32, 2)
        assert ledger.budget.accounts()[0].charged == 1


def test_the_lifetime_budget_is_not_overdrawn_and_the_last_billionth_can_be_spent() -> None:
    study, spending = asked("noise: distributed, epsilon: 1, delta: 1.0e-6", attempts=1)
    nano = spending.cost.nano_rho
    assert nano == 24_355_970
    most = int(zcdp.rho_of(3.0, 1e-5) * zcdp.NANO) // nano
    assert most == 9  # nine studies of epsilon 1 in a lifetime of 3, as the design says
    with closing(Ledger(None)) as ledger:
        for number in range(most):
            ledger.budget.reserve(renamed(study, number), spending, LIFETIME)
        with pytest.raises(PolicyError, match=r"study-9 may cost epsilon 1; .* 2\.96 is spent or set aside"):
            ledger.budget.reserve(renamed(study, most), spending, LIFETIME)
        ledger.budget.reserve(renamed(study, 0), spending, LIFETIME)  # again is not more
    exactly = Cost(2 * nano, 1.0, "replace_one")
    epsilon = zcdp.epsilon_of(2 * nano / zcdp.NANO, 1e-6)
    assert within(({spending.cost: 2},), epsilon * (1 + 1e-12), 1e-6)
    assert within(({exactly: 1},), epsilon * (1 + 1e-12), 1e-6)
    assert not within(({spending.cost: 2}, {Cost(1, 1.0, "replace_one"): 1}), epsilon * (1 - 1e-9), 1e-6)


def test_rounds_for_one_person_more_or_less_count_four_times() -> None:
    one, other = Cost(1000, 1.0, "replace_one"), Cost(1000, 1.0, "add_or_remove")
    assert lifetime_epsilon(({other: 1},), 1e-6) == pytest.approx(lifetime_epsilon(({one: 4},), 1e-6))


def test_a_reservation_lapses_with_its_study() -> None:
    study, spending = asked()
    with closing(Ledger(None)) as ledger:
        ledger.budget.reserve(replace(study, expires=date(2026, 1, 1)), spending, LIFETIME)
        ledger.budget.reserve(renamed(study, 1), spending, LIFETIME)
        assert [held.open for held in ledger.budget.accounts()] == [False, True]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["join", "write", "close", "end"])), max_size=30)
)
def test_any_history_keeps_charges_and_reserves_within_the_budget(history: list[tuple[int, str]]) -> None:
    study, spending = asked("noise: distributed, epsilon: 1, delta: 1.0e-6")
    limit = Limit(1.6, 1e-6)
    contexts: dict[int, list[bytes]] = {number: [] for number in range(4)}
    charged: Counter[int] = Counter()
    with closing(Ledger(None)) as ledger:
        for number, deed in history:
            one = renamed(study, number)
            try:
                if deed == "join":
                    ledger.budget.reserve(one, spending, limit)
                elif deed == "write":
                    context = secrets.token_bytes(32)
                    write(ledger, one, context, len(contexts[number]) + 1)
                    contexts[number].append(context)
                    charged[number] += 1
                elif deed == "close" and contexts[number]:
                    ledger.close_write(contexts[number].pop())
                    charged[number] -= 1
                elif deed == "end":
                    ledger.budget.release(one.digest)
            except (PolicyError, LocalProtocolError):
                continue
        accounts = ledger.budget.accounts()
        assert within(costs_of(accounts), limit.epsilon, limit.delta)
        assert {held.name: held.charged for held in accounts if held.charged} == {
            f"study-{number}": count for number, count in charged.items() if count
        }


def play_until_killed(folder: Path, study: FrozenStudy, spending: Spending, ready: int) -> None:
    """Join, write masked inputs, send them, close every third: what a session does with its ledger, until the process ends.

    A byte is written to ``ready`` once the ledger is open.
    """
    sent = os.open(folder / "sent", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    closed = os.open(folder / "closed", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with closing(Ledger(folder / "ledger.db")) as ledger:
        number = 0
        os.write(ready, b"r")
        while True:
            number += 1
            one = study_like(study, f"study-{secrets.token_hex(4)}", secrets.token_bytes(32))
            ledger.budget.reserve(one, spending, Limit(1000.0, 1e-5))
            for attempt in (1, 2):
                context = secrets.token_bytes(32)
                write(ledger, one, context, attempt)
                os.write(sent, context.hex().encode() + b"\n")  # from here on it has left the site
                if number % 3 == 0:
                    os.write(
                        closed, context.hex().encode() + b"\n"
                    )  # the proof that nobody can open it has come
                    ledger.close_write(context)
            ledger.budget.release(one.digest)


def written(file: Path) -> set[bytes]:
    """Return the contexts in a file; a last line that the kill cut short was not sent."""
    return {bytes.fromhex(line) for line in file.read_text().split() if len(line) == 64}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_five_hundred_kills_in_the_charge_path_never_leave_too_little_charged(tmp_path: Path) -> None:
    """A forked child plays rounds and is killed at a random instruction; what it sent must be charged, to the last one."""
    study, spending = asked()
    kills = 0
    for _ in range(500):
        told, ready = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                play_until_killed(tmp_path, study, spending, ready)
            finally:
                os._exit(1)
        os.close(ready)
        os.read(told, 1)
        os.close(told)
        time.sleep(secrets.randbelow(24_000) / 1e6)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert kills == 500
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        accounts = ledger.budget.accounts()
        writes = {write.context for write in ledger.history(0).writes}
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database:
        charged = dict(database.execute("SELECT context, refunded IS NOT NULL FROM charges").fetchall())
    sent, closed = written(tmp_path / "sent"), written(tmp_path / "closed")
    assert len(sent) > 100  # how many depends on how busy the machine is
    assert sent <= charged.keys() == writes  # nothing was sent, and nothing recorded, without its charge
    assert {context for context, refunded in charged.items() if refunded} <= closed
    unsent = charged.keys() - sent
    assert len(unsent) <= 500  # at most the one that each kill caught between charge and sending
    assert all(account.charged <= account.reserved for account in accounts)
    assert sum(account.charged + account.refunded for account in accounts) == len(charged)
    assert len(accounts) > 100
