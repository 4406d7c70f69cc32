"""Logistic fits over real gRPC: rounds after the first over the same people, whoever leaves, restarts or lies."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from cohortsum.coordinator.course import Course
from cohortsum.coordinator.record import OpenedIteration
from cohortsum.node.config import PolicyConfig, Thresholds
from cohortsum.node.joining import Site
from cohortsum.report.document import ResultDocument
from tests.edges.harness import STUDY, Loopback, People, rows
from tests.edges.oracle import check_pooled

SM: Any = import_module("statsmodels.api")

FIT = STUDY.replace(
    "protection:",
    "  odds: {kind: glm, family: binomial, outcomes: [dx], event: case, terms: [age, thick]}\nprotection:",
)
QUICK = FIT.replace("deadlines: {step: 20s, tick: 1ms}", "deadlines: {step: 2s, step_max: 4s, tick: 1ms}")


def without_bands(study: str) -> str:
    """Return a study in which small sites have people of every kind, as protected sites must."""
    return "\n".join(line for line in study.splitlines() if "bands:" not in line)


def check_fit(document: ResultDocument, sites: Iterable[int]) -> None:
    """Fail unless the fit is that of the pooled rows of ``sites``."""
    held = [People.of(index) for index in sites]
    dx = np.concatenate([people.dx for people in held])
    columns = [np.concatenate([people.age for people in held]), np.concatenate([p.thick for p in held])]
    x = np.column_stack([np.ones(len(dx)), *columns])
    model = SM.Logit(dx, x).fit(method="newton", tol=1e-14, maxiter=50, disp=0)
    fitted = rows(document, "odds")
    assert [row["term"] for row in fitted] == ["intercept", "age", "thick"]
    for place, row in enumerate(fitted):
        assert row["n"] == len(dx)
        assert row["b"] == pytest.approx(model.params[place], rel=1e-7)
        assert row["se"] == pytest.approx(model.bse[place], rel=1e-7)


def kinds(town: Loopback, site: str) -> list[str]:
    return [what for what, _ in town.wire.received[site]]


def test_a_fit_opens_round_after_round_and_deals_only_twice(tmp_path: Path) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 5, FIT) as town:
            outcome = await town.run()
            assert outcome.document is not None, outcome.reason
            check_pooled(outcome.document, range(5))
            check_fit(outcome.document, range(5))
            rounds = outcome.document.round.iterations
            assert rounds > 3
            sent = kinds(town, "site2")
            assert sent.count("ADVERT") == sent.count("SHARES") == 2
            assert sent.count("MASKED") == sent.count("CONSISTENCY") == rounds

    asyncio.run(asyncio.wait_for(play(), 90))


def test_a_site_that_leaves_in_the_midst_of_a_fit_is_left_out_and_the_result_says_so(tmp_path: Path) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 6, QUICK) as town:
            ending = town.start()
            await town.until(lambda: town.times("MASKED", "site1") == 3)
            town.tasks["site1"].cancel()
            async with asyncio.timeout(60):
                outcome = await ending
            assert outcome.document is not None, outcome.reason
            (left,) = outcome.document.round.left_out
            assert left.sites == ("site1",)
            assert left.iteration in (3, 4)
            check_pooled(outcome.document, range(6))  # what one round sufficed for has everybody
            check_fit(outcome.document, (0, 2, 3, 4, 5))

    asyncio.run(asyncio.wait_for(play(), 90))


def protected(site: Site) -> Site:
    thresholds = Thresholds(site_totals="protected")
    return replace(site, policy=PolicyConfig(profile="open_data", thresholds=thresholds))


def test_a_protected_site_that_restarts_is_waited_for_and_the_round_deals_anew(tmp_path: Path) -> None:
    """It has lost the secrets of its slot, so the attempt is closed and the next one holds all five again."""

    async def play() -> None:
        changes = dict.fromkeys(range(5), protected)
        async with Loopback(tmp_path, 5, without_bands(QUICK), changes) as town:
            ending = town.start()
            first = town.hold("site1", "DATA_SHARES")
            await first.reached.wait()
            first.released.set()
            second = town.hold("site1", "DATA_SHARES")
            await second.reached.wait()
            closing = town.hold("site1", "POLL", "after")
            second.released.set()
            await closing.reached.wait()
            opening = town.hold("site1", "POLL", "after")
            closing.released.set()
            await (
                opening.reached.wait()
            )  # it has seen the sum of the second round, and not yet heard of the third
            town.tasks["site1"].cancel()
            opening.released.set()
            await asyncio.sleep(0.2)
            town.join(1)
            async with asyncio.timeout(60):
                outcome = await ending
            assert outcome.document is not None, outcome.reason
            assert outcome.document.round.left_out == ()
            check_fit(outcome.document, range(5))
            assert kinds(town, "site2").count("SHARES") == 3

    asyncio.run(asyncio.wait_for(play(), 90))


def test_a_fit_goes_on_after_everybody_was_restarted(tmp_path: Path) -> None:
    async def begin() -> None:
        async with Loopback(tmp_path, 5, FIT) as town:
            ending = town.start()
            await town.until(lambda: town.times("MASKED") >= 11)
            ending.cancel()

    async def again() -> ResultDocument | None:
        async with Loopback(tmp_path, 5, FIT) as town:
            outcome = await town.run()
            assert kinds(town, "site2").count("SHARES") <= 2
            return outcome.document

    asyncio.run(begin())
    document = asyncio.run(again())
    assert document is not None
    check_pooled(document, range(5))
    check_fit(document, range(5))


@pytest.mark.parametrize("at", [2, 3])
def test_a_coordinator_that_chooses_beta_is_refused_and_the_fit_ends_with_what_is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """At iteration ``at`` it takes parameters of its own; every site refuses before it computes anything."""
    honest = Course.take

    def take(self: Course, opened: OpenedIteration) -> None:
        honest(self, opened)
        if self.iteration == at:
            self.plan = replace(self.plan, round=replace(self.plan.round, parameters=b"\1" * 32))

    monkeypatch.setattr(Course, "take", take)

    async def play() -> None:
        async with Loopback(tmp_path, 5, QUICK) as town:
            ending = town.start()
            async with asyncio.timeout(60):
                outcome = await ending
            assert outcome.document is not None, outcome.reason
            check_pooled(outcome.document, range(5))
            (row,) = rows(outcome.document, "odds")
            assert row["status"] == "not finished"
            assert {kinds(town, f"site{index}").count("MASKED") for index in range(5)} == {at - 1}

    with capture_logs() as logs:
        asyncio.run(asyncio.wait_for(play(), 90))
    refusals = {
        line["site"] for line in logs if line["event"] == "message.refused" and line["check"] == "R5.2"
    }
    assert refusals == {f"site{index}" for index in range(5)}


def test_protected_sites_take_part_in_every_round_of_a_fit(tmp_path: Path) -> None:
    async def play() -> None:
        changes = dict.fromkeys(range(5), protected)
        async with Loopback(tmp_path, 5, without_bands(FIT), changes) as town:
            outcome = await town.run()
            assert outcome.document is not None, outcome.reason
            check_fit(outcome.document, range(5))

    asyncio.run(asyncio.wait_for(play(), 90))


def test_a_fit_does_not_go_on_without_a_protected_site(tmp_path: Path) -> None:
    async def play() -> None:
        changes = dict.fromkeys(range(5), protected)
        study = without_bands(QUICK).replace("step_max: 4s", "step_max: 4s, rejoin: 3s")
        async with Loopback(tmp_path, 5, study, changes, gather_s=3.0) as town:
            ending = town.start()
            await town.until(lambda: town.times("MASKED", "site1") == 3)
            town.tasks["site1"].cancel()
            async with asyncio.timeout(60):
                outcome = await ending
            assert outcome.document is not None, outcome.reason
            (row,) = rows(outcome.document, "odds")
            assert row["status"] == "not finished"
            assert "a retry needs every survivor" in str(row["reason"])

    asyncio.run(asyncio.wait_for(play(), 90))


def test_protected_sites_stay_out_of_sums_that_tell_sites_apart(tmp_path: Path) -> None:
    mixed = "  levels: {kind: mixed, outcomes: [thick], terms: [dx, age]}\nprotection:"
    study = without_bands(STUDY.replace("protection:", mixed))

    async def play(changes: dict[int, Callable[[Site], Site]], folder: Path) -> str:
        async with Loopback(folder, 5, study, changes) as town:
            outcome = await town.run()
            assert outcome.document is not None, outcome.reason
            return str(rows(outcome.document, "levels")[0]["status"])

    for name, changes in (("derivable", dict[int, Callable[[Site], Site]]()), ("protected", dict.fromkeys(range(5), protected))):
        status = asyncio.run(asyncio.wait_for(play(changes, tmp_path / name), 90))
        assert status == ("ok" if name == "derivable" else "too few sites")
