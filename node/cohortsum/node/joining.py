"""Taking part in a study: every condition that keeps this site out, then its data, then its signed approval.

The reason for staying out is raised here and stays at the site; whoever carries the answer says `not taking part`.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path

import structlog

from cohortsum.crypto.errors import DataError, PolicyError
from cohortsum.node import inbox
from cohortsum.node.committee_rules import check_by_committee, check_supplied
from cohortsum.node.config import PolicyConfig, TablesConfig, load_node_config, load_policy_config
from cohortsum.node.decisions import Decision, DecisionBook
from cohortsum.node.evidence import EvidenceBook, evidence_in
from cohortsum.node.ledger import Ledger
from cohortsum.node.people import people_sets
from cohortsum.node.people_rule import allowance, asked_sets, check_write
from cohortsum.node.pinning import load_pin
from cohortsum.node.policy import Floors, budget_of, floors_for, limits_of, regimen_of, status_of, today
from cohortsum.node.site_gate import screen
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import Tables, open_tables
from cohortsum.protocol.approvals import approve
from cohortsum.protocol.denylist import DenyList
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.ledger import History, Limits, PeopleSet, Request, Status, Step
from cohortsum.protocol.messages import Envelope, Packet, WaivedRule
from cohortsum.protocol.outgoing import check_packet
from cohortsum.protocol.outgoing_fields import Known
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.site_states import EarlierRound
from cohortsum.study.amendment import unchanged_blocks
from cohortsum.study.cells import Cells, expected_cells
from cohortsum.study.definition import FrozenStudy, parse_canonical, refuse_unbuilt
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.disclosure.verdict import PROFILES
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.study.spending import Spending, spending_of

log: structlog.stdlib.BoundLogger = structlog.get_logger()

TELLS_SITES = "its sums together determine single sites' totals, and this site's are protected"
LATEST = 2**31 - 1
"""An attempt after every other: what is asked before there is one."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a site brings to every study.

    Attributes:
        rosters: the rosters it pinned, by version.
        deny: returns the deny-list in force: a denial is effective at once.
        signer: its identity.
        tables: where its data lie.
        policy: what it allows.
        epoch: label of its snapshot.
        ledger: its durable log.
        decision: returns what its admin, or the policy for them, has decided about a study; None: nothing yet.
        pool: threads for masks.
        scratch: folder for private copies; None takes the system's.
        local: folder for values per person that a study computes here and nowhere else; None: they are not written.
        study: returns a study that this site has kept, by digest; a new version may build on it.
        evidence: where evidence against others is kept; None: nowhere.
    """

    rosters: Mapping[int, Roster]
    deny: Callable[[], DenyList]
    signer: Signer
    tables: TablesConfig
    policy: PolicyConfig
    epoch: str
    ledger: Ledger
    decision: Callable[[bytes], Decision | None]
    pool: Executor
    scratch: Path | None = None
    local: Path | None = None
    study: Callable[[bytes], SignedStudy | None] = lambda _digest: None
    evidence: EvidenceBook | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """A study this site takes part in, with its data ready.

    ``people`` are the people sets of what it supplies, None where no rule of this site is about people; ``cells`` is how they
    must overlap at a protected site; ``spending`` is what the study may cost this site's people, None without noise; ``known`` is what
    messages of this study may name.
    """

    plan: StudyPlan
    floors: Floors
    tables: Tables = field(repr=False)
    supplied: frozenset[str]
    approval: Envelope
    pinned: Roster
    earlier: Mapping[bytes, EarlierRound]
    people: Mapping[str, PeopleSet] | None = field(repr=False)
    limits: Limits
    status: Status
    cells: Cells = field(repr=False)
    spending: Spending | None
    known: Known = field(repr=False)

    @property
    def protected(self) -> bool:
        """Whether the rules of a protected site hold for this study: charged noise covers such a site like any other."""
        return self.status is Status.PROTECTED and self.spending is None


def earlier_rounds(site: Site, plan: StudyPlan) -> dict[bytes, EarlierRound]:
    """Return the rounds of earlier versions that this site signed and that a round of ``plan`` may build on."""
    found: dict[bytes, EarlierRound] = {}
    for context, digest, survivors in site.ledger.signed_rounds():
        signed = site.study(digest)
        if signed is None or digest == plan.study.digest:
            continue
        study = parse_canonical(signed.canonical)
        pinned = site.rosters.get(study.roster)
        if study.study != plan.study.study or pinned is None:
            continue
        unchanged = unchanged_blocks(plan_study(study, pinned), plan)
        if unchanged:
            found[context] = EarlierRound(survivors, unchanged)
    return found


def site_of(folder: Path, signer: Signer, ledger: Ledger, decision: DecisionBook, pool: Executor) -> Site:
    """Return what the site in ``folder`` brings to a study, from its files as they are now.

    Raises ConfigurationError or AuthenticationError for a file that cannot be used.
    """
    facts = load_node_config(folder / "node.yaml")
    return Site(
        rosters=load_pin(folder).rosters,
        deny=lambda: load_pin(folder).deny,
        signer=signer,
        tables=facts,
        policy=load_policy_config(folder / "policy.yaml"),
        epoch=facts.epoch,
        ledger=ledger,
        decision=decision,
        pool=pool,
        scratch=folder,
        local=folder / "local",
        study=partial(inbox.kept, folder),
        evidence=evidence_in(folder),
    )


def join(site: Site, study: FrozenStudy, plan: StudyPlan, pinned: Roster) -> Joined:
    """Return the study with this site's data ready and its approval signed.

    Raises NotTakingPartError or ConfigurationError with the reason why the site stays out; nothing is left open then.
    """
    decision, name = in_force(site, study), site.signer.identity.id
    refuse_unbuilt(study)
    if site.ledger.restored_since() is not None:
        raise PolicyError(
            "the ledger has forgotten rounds that this site took part in: it is an older copy; stop the node and run "
            "`cohortsum node recover`"
        )
    if study.epoch != site.epoch:
        raise PolicyError(
            f"study {study.study} is about epoch {study.epoch}; this site's snapshot is {site.epoch}"
        )
    site.ledger.epochs.bind_version(study.study, study.version)
    floors = floors_for(study, site.policy)
    committee = study.protection.mode == "committee"
    if committee:
        own, whole = site.signer.identity.index, status_of(site.policy) is Status.PROTECTED
        check_by_committee(plan, pinned, own, site.policy, floors, whole)
    cohort = plan.cohort
    needs = Needs(study.variables, cohort.required, cohort.reads - cohort.required)
    tables = open_tables(site.tables, needs, site.scratch)
    try:
        site.ledger.epochs.bind(site.epoch, tables.digest)
        for line in tables.report:
            log.info("data.report", site=name, study=study.study, line=line)
        screened = screen(plan, site.policy, tables, floors.min_participants_per_site)
        tables, number, supplied = screened.tables, screened.people, screened.supplied
        if number < floors.min_participants_per_site:
            raise DataError(
                f"fewer people of the cohort than min_participants_per_site {floors.min_participants_per_site}"
            )
        for item, reason in screened.left_out.items():
            log.warning("study.not_supplied", site=name, study=study.study, item=item, reason=reason)
        ruled, status, spending = limits_of(study, site.policy), status_of(site.policy), spending_of(plan)
        protected = status is Status.PROTECTED and spending is None
        supplied = plan.narrowed(supplied, _allowed(study, protected, decision.analyses, name))
        limits = ruled or Limits(1, study.protection.max_colluding_sites, study.protection.min_honest_inputs)
        people, cells = None, frozenset[frozenset[str]]()
        if site.ledger.status() not in (None, status):
            raise PolicyError(
                f"policy.yaml: thresholds.site_totals: this site has been {site.ledger.status()} since it first sent anything, and "
                "stays so; set it back"
            )
        if ruled is not None or status is Status.PROTECTED:
            if not site.ledger.knows_all_people():
                raise PolicyError(
                    "the ledger was rebuilt and does not know any more whom this site answered for; under a people rule "
                    "nothing exact may follow"
                )
            people = people_sets(plan, tables, supplied, site.ledger.people_key())
        if people is not None and protected:
            cells = expected_cells(plan, supplied)
            sets = asked_sets(plan, people, plan.round.blocks, supplied, 1)
            request = Request(b"", Step(study.digest, 1, LATEST), status, sets, cells)
            check_write(history_of(site), request, limits)
        elif people is not None and spending is None:  # charged noise covers any people
            allowed = allowance(plan, people, supplied, history_of(site), limits)
            supplied = allowed.supplied
            for item, reason in allowed.left_out.items():
                log.warning("study.not_supplied", site=name, study=study.study, item=item, reason=reason)
        if committee:
            check_supplied(plan, supplied)
        if spending is not None:
            site.ledger.budget.reserve(study, spending, budget_of(site.policy))
    except BaseException:
        tables.close()
        raise
    approval = approve(site.signer, plan.round, regimen_of(site.policy), supplied)
    known = Known(plan.round, pinned, frozenset(PROFILES), waivers=regimen_of(site.policy).waivers)
    check_packet(Packet(approval), known)
    return Joined(
        plan,
        floors,
        tables,
        supplied,
        approval,
        pinned,
        earlier_rounds(site, plan),
        people,
        limits,
        status,
        cells,
        spending,
        known,
    )


def _allowed(
    study: FrozenStudy, protected: bool, approved: frozenset[str] | None, site: str
) -> frozenset[str] | None:
    """Return the analyses this site takes part in, None for all: a protected site in none whose sums tell sites apart."""
    telling = {name for name, spec in study.analyses.items() if spec.tells_sites}
    if not protected or not telling:
        return approved
    log.warning(
        "study.not_supplied",
        site=site,
        study=study.study,
        item=", ".join(sorted(telling)),
        reason=TELLS_SITES,
    )
    return (frozenset(study.analyses) if approved is None else approved) - telling


def in_force(site: Site, study: FrozenStudy) -> Decision:
    """Return the admin's yes to a study; raises PolicyError where there is none today."""
    decision, day = site.decision(study.digest), today()
    if decision is None or not decision.approved:
        raise PolicyError(f"study {study.study} ({study.fingerprint}) is not approved here")
    if decision.until is not None and decision.until < day:
        raise PolicyError(
            f"study {study.study}: the approval ended on {decision.until}; approve it again if it shall go on"
        )
    if study.expires < day:
        raise PolicyError(f"study {study.study} expired on {study.expires}")
    return decision


def still_waived(waivers: Sequence[WaivedRule]) -> None:
    """Raise PolicyError where a waiver that the approval names has ended: nothing is sent any more under it."""
    day = today()
    for waiver in waivers:
        if date.fromisoformat(waiver.until) < day:
            raise PolicyError(
                f"policy.yaml: the waiver of {waiver.rule} ended on {waiver.until}; restart the node, and it answers without it"
            )


def history_of(site: Site) -> History:
    """Return whom the site has answered for, as the ledger has it now."""
    index = site.signer.identity.index
    if index is None:
        raise PolicyError(f"{site.signer.identity.id} is no site of the roster")
    return site.ledger.history(index)
