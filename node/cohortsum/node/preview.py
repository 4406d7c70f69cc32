"""A dry run of one study on this site's real data: every rule with its outcome, and what would leave, block by block.

Nothing is sent, nothing is written to the ledger. The rules are asked one by one where a round would stop at the first that
fails. Counts of people and the values themselves are for the admin who sits beside the data; they stay on the screen, or in
a file of mode 0600.
"""

import csv
import io
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import CohortsumError, PolicyError
from cohortsum.node.budget_view import forecast_budget
from cohortsum.node.committee_rules import check_by_committee, check_supplied
from cohortsum.node.config import NodeConfig, load_node_config, load_policy_config
from cohortsum.node.decisions import Decision, read_asked, read_decisions
from cohortsum.node.doctor_data import check_snapshot
from cohortsum.node.epochs import closed_epoch
from cohortsum.node.findings import Finding, failure, from_error, ok, skipped, warning
from cohortsum.node.joining import LATEST
from cohortsum.node.ledger import Ledger
from cohortsum.node.people import people_sets
from cohortsum.node.people_rule import allowance, asked_sets, check_write
from cohortsum.node.pinning import load_pin
from cohortsum.node.policy import floors_for, limits_of, status_of
from cohortsum.node.site_gate import Screened, screen
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import Tables, open_tables
from cohortsum.protocol.ledger import Limits, Request, Status, Step
from cohortsum.protocol.roster import SiteId
from cohortsum.study.cells import expected_cells
from cohortsum.study.definition import FrozenStudy, refuse_unbuilt
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.planning import StudyPlan

WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Leaving:
    """One block as it would leave this site, masked.

    Attributes:
        name: of the block.
        analysis: whose block it is; empty for the number of people.
        supplied: whether this site sends its own numbers, or zeros.
        values: (size,) int64, before masking; zeros where it does not supply the block.
        people: people of the smallest people set, not empty, that the block is about; None where there is none or it is not supplied.
    """

    name: str
    analysis: str
    supplied: bool
    values: NDArray[np.int64] = field(repr=False)
    people: int | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Preview:
    """What a study would do here.

    Attributes:
        plan: of the study.
        statistician: who signed it.
        findings: every rule with its outcome.
        people: of the cohort at this site; None where the tables could not be read.
        leaving: the blocks in the order they travel; empty where the tables could not be read.
        lacking: variables of the study that this site cannot supply, with the reason.
    """

    plan: StudyPlan
    statistician: str
    findings: tuple[Finding, ...]
    people: int | None = field(repr=False)
    leaving: tuple[Leaving, ...]
    lacking: Mapping[str, str]

    def to_csv(self) -> bytes:
        """Return the integers before masking, one line per number."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("block", "place", "supplied", "value"))
        for block in self.leaving:
            writer.writerows(
                (block.name, place, "yes" if block.supplied else "no", int(value))
                for place, value in enumerate(block.values)
            )
        return text.getvalue().encode()


def preview(folder: Path, signed: SignedStudy) -> Preview:
    """Return what a study would do here.

    Raises ConfigurationError or AuthenticationError where the study or the node's own files cannot be read at all.
    """
    asked = read_asked(folder, signed)
    plan, study = asked.plan, asked.plan.study
    config = load_node_config(folder / "node.yaml")
    findings = [ok("signature", f"signed by statistician '{asked.statistician}' of a roster pinned here")]
    findings.append(_tried("version", "this version can run it", lambda: refuse_unbuilt(study)))
    if plan.seen_by_sites:
        names = ", ".join(plan.seen_by_sites)
        findings.append(
            ok(
                "rounds",
                f"up to {plan.most_rounds}; every site sees the sums of {names}, from which rounds or values at the sites follow",
            )
        )
    findings.append(_expiry(study, datetime.now(UTC)))
    findings.append(_decision(read_decisions(folder).get(study.digest)))
    policy = load_policy_config(folder / "policy.yaml")
    findings.append(
        _tried("policy", f"profile {policy.profile} allows it", lambda: floors_for(study, policy))
    )
    if study.protection.mode == "committee":
        findings.append(_committee(folder, config.site, plan))
    findings.append(forecast_budget(folder, plan))
    findings.append(check_snapshot(folder, config, study))
    findings.append(_versions(folder, study))
    try:
        floor = floors_for(study, policy).min_participants_per_site
    except CohortsumError:
        floor = study.protection.min_participants_per_site
    try:
        tables = _open(config, plan, folder)
    except CohortsumError as error:
        findings += [
            from_error("tables", error.message),
            skipped("people", "not tried: the tables cannot be read"),
        ]
        return Preview(plan, asked.statistician, tuple(findings), None, (), {})
    with tables:
        findings.append(ok("tables", "every table, column and code that the study needs can be read"))
        screened = screen(plan, policy, tables, floor)
        tables, people, supplied = screened.tables, screened.people, screened.supplied
        findings += [_people(people, floor), _rules(policy.profile, screened)]
        rule, left_out = _people_rule(folder, config.site, plan, tables, supplied)
        findings.append(rule)
        supplied -= left_out.keys()
        if study.protection.mode == "committee":
            said = "this site supplies the study as a whole"
            findings.append(_tried("whole study", said, lambda: check_supplied(plan, supplied)))
        sizes = _sizes(plan, tables)
        _, values = plan.contribution(tables.batches, plan.round.blocks, supplied)
        leaving = _leaving(plan, supplied, sizes, values)
        lacking = {**tables.missing_variables, **screened.left_out, **left_out}
    return Preview(plan, asked.statistician, tuple(findings), people, leaving, lacking)


def _open(config: NodeConfig, plan: StudyPlan, scratch: Path) -> Tables:
    cohort = plan.cohort
    needs = Needs(plan.study.variables, cohort.required, cohort.reads - cohort.required)
    return open_tables(config, needs, scratch)


def _leaving(
    plan: StudyPlan, supplied: frozenset[str], sizes: Mapping[str, int], values: NDArray[np.int64]
) -> tuple[Leaving, ...]:
    blocks = {
        block.name: (statistic.name, block) for statistic in plan.statistics for block in statistic.layout()
    }
    leaving: list[Leaving] = []
    start = 0
    for planned in plan.round.blocks:
        part = values[start : start + planned.size]
        start += planned.size
        analysis, block = blocks.get(planned.name, ("", None))
        sends = not planned.supply or planned.supply[0] <= supplied
        sets = () if block is None or not sends else block.sets
        smallest = min((size for name in sets if (size := sizes.get(name, 0))), default=None)
        leaving.append(Leaving(planned.name, analysis, sends, part.copy(), smallest))
    return tuple(leaving)


def _sizes(plan: StudyPlan, tables: Tables) -> dict[str, int]:
    """Return how many people are in every people set of the study that is not empty."""
    sizes: dict[str, int] = {}
    for masks in plan.members(tables.batches()):
        for name, mask in masks.items():
            sizes[name] = sizes.get(name, 0) + int(np.count_nonzero(mask))
    return sizes


def _tried(name: str, sentence: str, rule: Callable[[], object]) -> Finding:
    try:
        rule()
    except CohortsumError as error:
        return from_error(name, error.message)
    return ok(name, sentence)


def _committee(folder: Path, site: str, plan: StudyPlan) -> Finding:
    """Return whether this site's rules let a committee answer."""

    def rule() -> None:
        policy, pinned = (
            load_policy_config(folder / "policy.yaml"),
            load_pin(folder).of_version(plan.study.roster),
        )
        protected = status_of(policy) is Status.PROTECTED
        own = pinned.sites.get(SiteId(site))
        check_by_committee(plan, pinned, own, policy, floors_for(plan.study, policy), protected)

    return _tried("committee", "the rules here let a committee answer it", rule)


def _expiry(study: FrozenStudy, now: datetime) -> Finding:
    if study.expires < now.date():
        return failure(
            "expiry", f"the study expired on {study.expires}", "ask the statistician for a new version"
        )
    return ok("expiry", f"the study runs until {study.expires}")


def _decision(decision: Decision | None) -> Finding:
    if decision is None:
        return warning("decision", "nothing is decided yet, so nothing is sent", "approve or decline it")
    said = f"{'approved' if decision.approved else 'declined'} by {decision.by}"
    if decision.analyses is not None:
        said += f", for {', '.join(sorted(decision.analyses))}"
    if decision.until is not None:
        said += f", until {decision.until}"
    return ok("decision", said)


def _versions(folder: Path, study: FrozenStudy) -> Finding:
    with closing(Ledger(folder / "ledger.db")) as ledger:
        seen = ledger.epochs.seen_version(study.study)
        closed = ledger.epochs.closed(study.epoch)
        restored = ledger.restored_since()
    if restored is not None:
        return failure(
            "ledger", "it is an older copy and has forgotten rounds", "run `cohortsum node recover`"
        )
    if closed is not None:
        return from_error("ledger", closed_epoch(study.epoch, *closed))
    if seen is not None and seen > study.version:
        return failure("ledger", f"version {seen} of this study was seen here", "ask for the newest version")
    return ok("ledger", "the ledger has nothing against it")


def _people_rule(
    folder: Path, site: str, plan: StudyPlan, tables: Tables, supplied: frozenset[str]
) -> tuple[Finding, Mapping[str, str]]:
    """Return what the people rule says, and the items that it leaves out with its reasons."""
    policy = load_policy_config(folder / "policy.yaml")
    limits = limits_of(plan.study, policy)
    if plan.round.noise is not None:
        return ok("people rule", "not asked: charged noise covers any set of people"), {}
    index = load_pin(folder).of_version(plan.study.roster).sites[SiteId(site)]
    if status_of(policy) is Status.PROTECTED:
        return _protected(folder, index, plan, tables, supplied), {}
    if limits is None:
        return ok("people rule", "off: policy.yaml sets no thresholds.set_difference"), {}
    with closing(Ledger(folder / "ledger.db")) as ledger:
        sets, history = people_sets(plan, tables, supplied, ledger.people_key()), ledger.history(index)
        try:
            allowed = allowance(plan, sets, supplied, history, limits)
        except PolicyError as error:
            return failure(
                "people rule", error.message, "decline; or wait for a snapshot with more changes"
            ), {}
    if allowed.left_out:
        said = f"{len(allowed.left_out)} outcomes or analyses are not supplied; their people are too near to answered ones"
        return warning("people rule", said, "nothing: the others are answered"), allowed.left_out
    return ok("people rule", f"every set of people equals an answered one, or is {limits.k} or more away"), {}


def _protected(
    folder: Path, index: int, plan: StudyPlan, tables: Tables, supplied: frozenset[str]
) -> Finding:
    """Return what the rules of protected sites say."""
    protection = plan.study.protection
    limits = Limits(1, protection.max_colluding_sites, protection.min_honest_inputs)
    with closing(Ledger(folder / "ledger.db")) as ledger:
        people = people_sets(plan, tables, supplied, ledger.people_key())
        sets = asked_sets(plan, people, plan.round.blocks, supplied, 1)
        step = Step(plan.study.digest, 1, LATEST)
        try:
            request = Request(b"", step, Status.PROTECTED, sets, expected_cells(plan, supplied))
            check_write(ledger.history(index), request, limits)
        except PolicyError as error:
            return from_error("protected", error.message)
    least = plan.round.protection.suppliers_least
    return ok(
        "protected", f"opened once, together with at least {least - 1} other protected sites or not at all"
    )


def _rules(profile: str, screened: Screened) -> Finding:
    kept_back, (people, values) = screened.left_out, screened.dropped
    left = f"; {people} people and {values} values are left out so that patterns of missing values pool"
    pooled = left if people or values else ""
    if profile == "open_data":
        return ok("disclosure", "profile open_data has no rules: the admin declared these data public")
    if kept_back:
        said = (
            f"{len(kept_back)} outcomes or analyses are not supplied: {'; '.join(kept_back.values())}{pooled}"
        )
        return warning("disclosure", said, "nothing: the others are answered; or ask the statistician")
    return ok("disclosure", f"the rules of {profile} keep nothing back{pooled}")


def _people(people: int, floor: int) -> Finding:
    if people < floor:
        return failure(
            "people",
            f"{people} people are in the cohort here, at least {floor} are required",
            "decline; the study needs a wider cohort or a lower min_participants_per_site",
        )
    return ok("people", f"{people} people are in the cohort here, at least {floor} are required")
