"""The same consortium in one process, without sockets: the same sessions and machines, messages handed over directly.

For speed. What gRPC, TLS, spooling and separate processes add is not exercised.
"""

import os
import secrets
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import structlog

from cohortsum.cli.simulate.consortium import Consortium, Local, write_node_file
from cohortsum.cli.simulate.progress import Progress
from cohortsum.coordinator.course import Course
from cohortsum.coordinator.items import first_items, with_items
from cohortsum.coordinator.publish import release_folder, result_document, write_release
from cohortsum.coordinator.record import OpenedIteration
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.parallel import add_masks_parallel
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import IdentityKey
from cohortsum.node.config import load_node_config, load_policy_config
from cohortsum.node.decisions import DecisionBook
from cohortsum.node.joining import Site
from cohortsum.node.ledger import Ledger
from cohortsum.node.session import StudySession
from cohortsum.protocol.approvals import read_approval
from cohortsum.protocol.context import ROUND_ID_BYTES, RoundKey
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import Aborted, CoordinatorSetup, Opened
from cohortsum.protocol.denylist import nobody_denied
from cohortsum.protocol.effects import Combine, CoordinatorEffect, Deliver, MessageTaken
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import add_words, words_digest, words_to_bytes
from cohortsum.protocol.messages import Envelope, Kind, Packet
from cohortsum.protocol.roster import SiteId
from cohortsum.study.disclosure.gate import cohort_gate
from cohortsum.study.disclosure.regimens import regime_of_sites
from cohortsum.study.planning import by_block


def run_in_process(consortium: Consortium, results: Path, progress: Progress) -> tuple[str, Local]:
    """Run the study and return the public reason if there is no result (else an empty text), and what sites said locally."""
    with structlog.testing.capture_logs() as logs, ThreadPoolExecutor(os.cpu_count()) as pool:
        reason = _Run(consortium, results, progress, pool).run()
    local = Local()
    for event in logs:
        local.hear(event)
    return reason, local


class _Run:
    def __init__(
        self, consortium: Consortium, results: Path, progress: Progress, pool: ThreadPoolExecutor
    ) -> None:
        self._consortium, self._results, self._progress, self._pool = consortium, results, progress, pool
        self._sessions: dict[int, StudySession] = {}
        self._uploads: dict[int, Vector] = {}
        self._queue: deque[tuple[int, Packet]] = deque()
        self._course: Course | None = None

    def run(self) -> str:
        consortium = self._consortium
        with ExitStack() as stack:
            approvals: dict[int, Envelope] = {}
            for member in consortium.members:
                site = self._site(member.folder, write_node_file(consortium, member, "none:1"))
                session = StudySession(site)
                stack.callback(site.ledger.close)
                stack.callback(session.close)
                index = consortium.roster.sites[SiteId(member.site)]
                self._sessions[index] = session
                envelope = session.consider(consortium.signed).envelope
                if envelope.kind is Kind.APPROVAL:
                    approvals[index] = envelope
                taking_part = envelope.kind is Kind.APPROVAL
                self._progress.take(
                    {"event": "study.answer", "site": member.site, "taking_part": taking_part}
                )
            least = consortium.plan.round.protection.min_sites
            if len(approvals) < least:
                return f"{len(approvals)} sites take part, {least} are required"
            return self._round(approvals)

    def _site(self, folder: Path, node_file: Path) -> Site:
        config, roster = load_node_config(node_file), self._consortium.roster
        seed = SecretBytes(bytes.fromhex(config.identity_key.read_text()), "identity seed")
        return Site(
            rosters={roster.version: roster},
            deny=lambda: nobody_denied(roster.consortium),
            signer=Signer(roster.identities[config.site], IdentityKey(seed)),
            tables=config,
            policy=load_policy_config(folder / "policy.yaml"),
            epoch=config.epoch,
            ledger=Ledger(None),
            decision=DecisionBook(folder),
            pool=self._pool,
            scratch=folder,
            local=folder / "local",
        )

    def _round(self, approvals: dict[int, Envelope]) -> str:
        consortium, roster = self._consortium, self._consortium.roster
        seed = SecretBytes(bytes.fromhex(consortium.coordinator_key.read_text()), "identity seed")
        signer = Signer(roster.coordinator, IdentityKey(seed))
        course = Course(consortium.plan)
        while not course.over:
            members = course.cohort or tuple(sorted(approvals))
            invited = {index: approvals[index] for index in members}
            key = RoundKey(secrets.token_bytes(ROUND_ID_BYTES), course.iteration, 1)
            dealt = course.usable(members)
            setup = CoordinatorSetup(
                signer,
                roster,
                course.plan.round,
                invited,
                course.cohort,
                exact=False,
                ahead=course.ahead() if dealt is None else 0,
                dealt=dealt,
                slot=course.slot if dealt is not None else 0,
            )
            course.slot += dealt is not None
            machine = CoordinatorRound(setup, key)
            state = self._play(machine, course, len(invited))
            if isinstance(state, Aborted):
                return state.reason
            if machine.dealt_ahead is not None:
                course.dealt, course.slot = machine.dealt_ahead, 1
            sums = by_block(state.blocks, state.values)
            context = machine.fixed.context
            course.take(OpenedIteration(context, key, state.advertised, state.survivors, sums))
        tables = course.plan.finish(course.sums, course.sites)
        names = {index: str(site) for site, index in roster.sites.items()}
        regimens = {
            names[index]: read_approval(approvals[index], consortium.plan.round, roster)[1].regimen
            for index in course.opened[0].survivors
        }
        regime = regime_of_sites(regimens)
        items = first_items(
            consortium.plan.study, tables, cohort_gate(course.plan, tables, course.sums, regime)
        )
        base = result_document(consortium.plan, roster, course.opened, regime, names=names)
        write_release(release_folder(self._results, consortium.plan.study), with_items(base, items))
        last = course.opened[-1]
        self._progress.take({"event": "round.opened", "sites": len(last.survivors), "attempt": 1})
        return ""

    def _play(self, machine: CoordinatorRound, course: Course, sites: int) -> Opened | Aborted:
        """Play one attempt at one round to its end."""
        attempt: dict[str, object] = {"iteration": course.iteration, "attempt": 1}
        self._progress.take({"event": "round.open", "sites": sites, "numbers": machine.length, **attempt})
        self._course, self._uploads = course, {}
        self._apply(machine, machine.open())
        while not isinstance(machine.state, Opened | Aborted) or self._queue:
            while self._queue:
                self._hand_over(machine, *self._queue.popleft())
            step = machine.step
            if step is not None:  # everything is quiet: whoever is silent now stays silent
                self._apply(machine, machine.deadline_passed(step))
        if isinstance(machine.state, Aborted):
            self._progress.take({"event": "round.aborted", "reason": machine.state.reason, **attempt})
        return machine.state

    def _disclosed(self, opened: Opened) -> Mapping[int, bytes]:
        """Return the survivors' masked words where sites go on from the sum."""
        if self._course is None or not self._course.plan.needs_sight(by_block(opened.blocks, opened.values)):
            return {}
        return {site: words_to_bytes(self._uploads[site]) for site in opened.survivors}

    def _hand_over(self, machine: CoordinatorRound, site: int, packet: Packet) -> None:
        for send in self._sessions[site].handle(packet):
            self._apply(machine, machine.receive(send.packet))
            if send.words is not None:
                self._uploads[site] = send.words
                self._apply(machine, machine.uploaded(site, words_digest(send.words)))

    def _apply(self, machine: CoordinatorRound, effects: tuple[CoordinatorEffect, ...]) -> None:
        for effect in effects:
            match effect:
                case Deliver():
                    self._queue.append((effect.receiver, effect.packet))
                case Combine():
                    total = add_words((self._uploads[site] for site in effect.survivors), machine.length)
                    add_masks_parallel(
                        total, effect.keys.plus, effect.keys.minus, self._pool, os.cpu_count() or 1
                    )
                    self._apply(machine, machine.combined(total, self._disclosed))
                case MessageTaken():
                    kind, sender = effect.envelope.kind.name, effect.envelope.sender
                    self._progress.take({"event": "round.message", "site": sender, "kind": kind})
                case _:
                    pass
