"""Noised studies one after the other against a site's lifetime budget: real daemons, real rounds, sites that drop out."""

import asyncio
import random
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from cohortsum.node.budget import Account, Limit, costs_of
from cohortsum.node.budget_view import budget_view
from cohortsum.node.ledger import Ledger
from cohortsum.protocol.ledger.history import Closed
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.planning import plan_study
from cohortsum.study.privacy.lifetime import lifetime_epsilon
from cohortsum.study.privacy.zcdp import NANO, epsilon_of
from cohortsum.study.spending import spending_of
from tests.life.test_people_rule import PLAIN
from tests.life.test_recovery import RESTORED, lose, recover
from tests.life.test_studies import play
from tests.life.town import Town, study_of

SITES, STUDIES = 9, 12
NOISED = {
    "privacy: {noise: none}": "privacy: {noise: distributed, epsilon: 0.3, delta: 1.0e-6, accept_noise: true}",
    "  bands: {kind: histogram, variables: [age], edges: [0, 25, 50, 75, 100]}\n": "",
    "  thickness: {kind: regression, outcomes: [thick], terms: [dx, age]}\n": "",
    "min_sites: 3": "min_sites: 7",
    "max_colluding_sites: 0": "max_colluding_sites: 1",
    "step: 20s": "step: 5s",
}


def noised(number: int) -> str:
    return study_of(f"noised-{number}", roster=3, changes=NOISED)


def accounts(town: Town, index: int) -> tuple[Account, ...]:
    with closing(Ledger(town.folder(index) / "ledger.db")) as ledger:
        return ledger.budget.accounts()


def writes(town: Town, index: int, study: FrozenStudy) -> int:
    """Return the masked inputs of a study that this site's ledger has, closed ones apart."""
    with closing(Ledger(town.folder(index) / "ledger.db")) as ledger:
        history = ledger.history(index)
    return sum(
        write.step.study == study.digest and write.noised and not isinstance(write.fate, Closed)
        for write in history.writes
    )


@pytest.mark.parametrize("dropouts", [0.01, 0.03])
def test_twelve_studies_of_a_tenth_of_the_budget_all_complete(tmp_path: Path, dropouts: float) -> None:
    """Twelve studies of epsilon 0.3 against a lifetime of 3: what a study did not need is there for the next ones.

    In every study a site is switched off in the middle of the round with the given chance, and once for certain.
    """
    chance = random.Random(int(1000 * dropouts))  # noqa: S311  decides who is switched off

    async def story(town: Town) -> None:
        town.start_nodes()
        studies: list[FrozenStudy] = []
        dropped = 0
        for number in range(STUDIES):
            study = await town.submit(noised(number))
            studies.append(study)
            for index in range(SITES):
                town.decide(index, study)
            off = {index for index in range(SITES) if chance.random() < dropouts}
            off = off or ({chance.randrange(SITES)} if number == STUDIES // 2 else set())
            switches = [
                asyncio.create_task(switch_off(town, index, study, chance.random() / 8)) for index in off
            ]
            document = await town.result(study)
            await asyncio.gather(*switches)
            assert document.privacy is not None
            assert document.privacy.epsilon <= 0.3
            dropped += len(document.sites.dropouts)
            for index in range(SITES):
                if index not in off:
                    await town.hears(index, study, "over")
            town.start_nodes(off)
        for index in range(SITES):
            for study in studies:
                await town.hears(index, study, "over")
        assert dropped >= 1
        check(town, studies)

    play(tmp_path, story, SITES)


async def switch_off(town: Town, index: int, study: FrozenStudy, after_s: float) -> None:
    """Take a node off the line while the round runs."""
    await town.until(lambda: town.hub.running(study.digest).state != "enrolling")
    await asyncio.sleep(after_s)
    await town.stop_node(index)


def check(town: Town, studies: list[FrozenStudy]) -> None:
    """Fail unless every site's ledger holds one charge for every masked input, and nothing is set aside any more."""
    spending = spending_of(plan_study(studies[0], town.hub.roll.now))
    assert spending is not None
    assert spending.attempts == 2
    spent: list[int] = []
    for index in range(SITES):
        held = accounts(town, index)
        assert not any(account.open for account in held)
        assert all(account.cost == spending.cost for account in held)
        for study in studies:
            (charged,) = [account.charged for account in held if account.study == study.digest] or [0]
            assert charged == writes(town, index, study) <= 2
        total = sum(account.charged for account in held)
        spent.append(total)
        nano = total * spending.cost.nano_rho
        view = budget_view(town.folder(index))
        assert view.limit == Limit(3.0, 1e-5)
        assert view.spent == view.counted == epsilon_of(Fraction(nano, NANO), 1e-5)
        assert view.spent == lifetime_epsilon(costs_of(held), 1e-5) < 3.0
    assert max(spent) == STUDIES
    assert min(spent) >= STUDIES - 6


async def finished(town: Town, text: str) -> FrozenStudy:
    """Run a study with everybody."""
    study = await town.submit(text)
    for index in range(town.count):
        town.decide(index, study)
    await town.result(study)
    return study


def test_a_ledger_that_was_lost_is_charged_again_for_what_transcripts_prove(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        await finished(town, noised(1))
        await town.hears(RESTORED, await finished(town, noised(2)), "over")
        await town.stop_node(RESTORED)
        before = {account.name: account.charged for account in accounts(town, RESTORED)}
        spent = budget_view(town.folder(RESTORED)).spent
        lose(town, RESTORED)
        assert accounts(town, RESTORED) == ()
        assert (await recover(town, RESTORED)).rounds == 2
        held = accounts(town, RESTORED)
        assert {account.name: account.charged for account in held} == before == {"noised-1": 1, "noised-2": 1}
        assert not any(account.open for account in held)
        assert budget_view(town.folder(RESTORED)).spent == spent

    play(tmp_path, story, SITES)


def test_a_site_whose_budget_cannot_hold_a_study_stays_out_and_says_why_at_home(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        path = town.folder(0) / "policy.yaml"
        path.write_text(path.read_text() + "\nbudget: {epsilon: 0.2, delta: 1.0e-6}\n")
        town.start_nodes()
        study = await town.submit(noised(1))
        for index in range(SITES):
            town.decide(index, study)
        await town.hears(0, study, "stays out")
        line = town.line(0, study)
        assert line is not None
        assert "of this site's lifetime budget (epsilon 0.2" in line.reason
        document = await town.result(study)
        assert "site0" not in document.sites.took_part
        assert accounts(town, 0) == ()

    play(tmp_path, story, SITES)


def test_protected_sites_that_were_opened_may_answer_again_under_noise(tmp_path: Path) -> None:
    """Charged noise covers a protected site's total; without it, it is opened once."""

    async def story(town: Town) -> None:
        for index in range(3, SITES):
            path = town.folder(index) / "policy.yaml"
            path.write_text(path.read_text() + "\nthresholds: {site_totals: protected}\n")
        town.start_nodes()
        await finished(town, study_of("exact", 1, PLAIN | {"min_sites: 3": "min_sites: 7"}))
        study = await town.submit(noised(1))
        for index in range(SITES):
            town.decide(index, study)
            await town.hears(index, study, "takes part")
        document = await town.result(study)
        assert len(document.sites.survivors) == SITES
        assert [account.charged for account in accounts(town, SITES - 1)] == [1]

    play(tmp_path, story, SITES)
