"""Bundles of real rounds, over real gRPC, and what a hostile keeper makes of them."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from cohortsum.coordinator.bundle import Binder
from cohortsum.coordinator.publish import release_folder
from cohortsum.coordinator.sealing import sealed_folder
from cohortsum.crypto.agreement import AgreementKey
from cohortsum.crypto.fingerprint import Words, roster_words
from cohortsum.crypto.secret import SecretBytes
from cohortsum.node.config import Budget, PolicyConfig
from cohortsum.node.joining import Site
from cohortsum.protocol.roster import ROSTER, roster_digest
from cohortsum.report.bundle_check import Verdict, check_bundle
from cohortsum.report.document import ResultDocument
from cohortsum.study.release.archive import pack, unpack
from cohortsum.study.release.bundle import (
    MANIFEST,
    MANIFEST_SIG,
    MANIFEST_SIGNATURE,
    Manifest,
    Paper,
    Papers,
    entry_of,
)
from cohortsum.study.release.checklist import HUMAN
from cohortsum.study.release.decision import Act, Decision
from tests.edges.harness import HUB, STUDY, Loopback, roster_yaml
from tests.edges.test_two_key import GUEST, LockedLoopback
from tests.protocol.consortium import identity_key

SITES, GONE = 5, 4
AT = "2026-11-30T18:00:00+00:00"
CHECKED = STUDY.replace("consortium: 0, sites: none", "consortium: 2, sites: any").replace(
    "deadlines: {step: 20s, tick: 1ms}", "deadlines: {step: 1500ms, step_max: 4s, tick: 1ms}"
)
FIT = STUDY.replace(
    "protection:",
    "  odds: {kind: glm, family: binomial, outcomes: [dx], event: case, terms: [age, thick]}\nprotection:",
)
NOISED = STUDY.replace(
    "privacy: {noise: none}", "privacy: {noise: distributed, epsilon: 8, delta: 1.0e-6}"
).replace("  thickness: {kind: regression, outcomes: [thick], terms: [dx, age]}\n", "")
LOCKED = CHECKED.replace("protection:\n", "protection:\n  mode: two_key\n")
SIGNERS = ("chk1", "chk2", "site1")


def sealing_key(name: str) -> AgreementKey:
    return AgreementKey(SecretBytes(identity_key(f"seal of {name}").public, "sealing seed"))


def guest(name: str, role: str) -> str:
    seal = f', seal: "x25519:{sealing_key(name).public.hex()}"' if role == "auditor" else ""
    return (
        f"  - {{id: {name}, role: {role}, name: {name}, organisation: test,"
        f' key: "ed25519:{identity_key(name).public.hex()}"{seal}}}'
    )


GUESTS = (
    *(guest(name, "checker") for name in ("chk1", "chk2", "chk3")),
    *(guest(name, "auditor") for name in ("aud1", "aud2")),
)


def papers(guests: tuple[str, ...] = GUESTS) -> Papers:
    operator, text = identity_key("operator"), roster_yaml(SITES, guests)
    return Papers(operator.public, Paper(text, operator.sign(ROSTER, text)))


def words(held: Papers | None = None) -> Words:
    held = held or papers()
    return roster_words(held.operator, roster_digest(held.roster.text))


@dataclass(frozen=True)
class Bound:
    """A bundle, with the document as the coordinator has it."""

    archive: bytes
    document: ResultDocument

    @property
    def files(self) -> dict[str, bytes]:
        return dict(unpack(self.archive, "bundle"))


def signed_decision(study: bytes, item: str, digest: bytes, by: str, at: str = AT) -> Decision:
    return Decision(study, item, digest, Act.RELEASE, "", "", HUMAN, by, at).sign(identity_key(by))


async def _release(town: Loopback, study: bytes) -> None:
    for held in town.hub.review.standing(study).items:
        for by in SIGNERS:
            await town.hub.decide(signed_decision(study, held.item.name, held.item.digest, by))


def _with_budget(site: Site) -> Site:
    return replace(site, policy=PolicyConfig(profile="open_data", budget=Budget(epsilon=20.0, delta=1e-6)))


@cache
def bound(text: str, gone: bool = False, guests: tuple[str, ...] = GUESTS) -> Bound:
    """Return the bundle of a study; ``gone``: one site leaves before its masked input."""

    async def play(folder: Path) -> Bound:
        change = dict.fromkeys(range(SITES), _with_budget) if text == NOISED else None
        async with (
            LockedLoopback(folder, SITES, text, guests)
            if text == LOCKED
            else Loopback(folder, SITES, text, change, guests=guests)
        ) as town:
            ending = town.start()
            if gone:
                await town.until(lambda: town.times("SHARES", f"site{GONE}") == 1)
                town.tasks[f"site{GONE}"].cancel()
            async with asyncio.timeout(45):
                outcome = await ending
            assert outcome.document is not None, outcome.reason
            study = town.study.digest
            if text in (CHECKED, LOCKED):
                await _release(town, study)
            # this runner was given a results folder of its own, without one for the study
            sealed = sealed_folder(release_folder(town.results, town.study))
            if sealed_folder(town.results).exists():
                sealed.parent.mkdir(exist_ok=True)
                sealed_folder(town.results).rename(sealed)
            binder = Binder(
                town.store, town.results, town.roll, identity_key(HUB), lambda _version: papers(guests)
            )
            return Bound(binder.bundle(study), town.hub.review.standing(study).document)

    home = Path(tempfile.mkdtemp(prefix="cohortsum-bundle-"))
    try:
        return asyncio.run(asyncio.wait_for(play(home), 60))
    finally:
        shutil.rmtree(home)


def checked() -> Bound:
    """Return the bundle of a study with checkers, over four of five sites."""
    return bound(CHECKED, gone=True)


def locked() -> Bound:
    """Return the bundle of a two-key study, over four of five sites."""
    return bound(LOCKED, gone=True, guests=(*GUESTS, GUEST))


def fitted() -> Bound:
    """Return the bundle of a fit: several rounds, secrets dealt ahead, no checkers."""
    return bound(FIT)


def resigned(files: Mapping[str, bytes], signer: str = HUB) -> bytes:
    """Return a bundle of these files with a manifest made to fit, signed as a hostile coordinator signs it."""
    held = {name: data for name, data in files.items() if name not in (MANIFEST, MANIFEST_SIG)}
    manifest = Manifest.model_validate_json(files[MANIFEST]).model_copy(
        update={"files": {name: entry_of(data) for name, data in sorted(held.items())}}
    )
    text = manifest.model_dump_json(indent=1).encode() + b"\n"
    signature = identity_key(signer).sign(MANIFEST_SIGNATURE, text).hex().encode() + b"\n"
    return pack({**held, MANIFEST: text, MANIFEST_SIG: signature})


def with_result(files: Mapping[str, bytes], change: Callable[[dict[str, object]], None]) -> dict[str, bytes]:
    """Return the files with another result document."""
    held = json.loads(files["result.json"])
    change(held)
    return {**files, "result.json": json.dumps(held, indent=1).encode() + b"\n"}


def verdict(archive: bytes, fingerprint: Words | None = None) -> Verdict:
    return check_bundle(archive, "bundle.zip", fingerprint or words())


def failed(archive: bytes, fingerprint: Words | None = None) -> tuple[str, str]:
    """Return check and sentence of the first thing that is wrong; fails where nothing is."""
    failure = verdict(archive, fingerprint).failure
    assert failure is not None
    return failure.check, failure.sentence
