"""A hostile coordinator makes a bundle itself, every digest and its own signature right: what it changed is still found.

Its manifest proves nothing but who made the bundle. Results are covered by checkers' signatures over their digests, rounds by the
signatures of t sites, studies by their statistician, rosters by the operator.
"""

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from cohortsum.crypto.encoding import encode
from cohortsum.protocol.codec import packet_from_bytes, packet_to_bytes
from cohortsum.protocol.denylist import DENY_LIST, Denied, DenyList
from cohortsum.protocol.messages import Envelope, Packet
from cohortsum.report.document import TableBlock, from_json
from cohortsum.study.definition.deny import write_deny_list
from cohortsum.study.definition.signing import sign_study
from cohortsum.study.release.bundle import split
from cohortsum.study.release.bundle_decisions import decision_from_json, decision_to_json
from cohortsum.study.release.charges import NOTE
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.release.item import item_digest
from tests.edges.harness import HUB, signed_study
from tests.protocol.consortium import identity_key
from tests.release.bundles import (
    AT,
    CHECKED,
    NOISED,
    Bound,
    bound,
    checked,
    failed,
    fitted,
    resigned,
    signed_decision,
    verdict,
    with_result,
)

Change = Callable[[dict[str, Any]], None]


def hostile(change: Change, base: Callable[[], Any] = checked) -> tuple[str, str]:
    return failed(resigned(with_result(base().files, change)))


def first_number(table: dict[str, Any]) -> tuple[int, int]:
    return next(
        (row, column)
        for row, cells in enumerate(table["rows"])
        for column, cell in enumerate(cells)
        if isinstance(cell, float)
    )


def altered_number(held: dict[str, Any]) -> None:
    row, column = first_number(held["tables"][0])
    held["tables"][0]["rows"][row][column] += 1.0


def altered_with_digest(held: dict[str, Any]) -> None:
    """Alter a number and the digest that the document names for it."""
    altered_number(held)
    block = TableBlock.model_validate_json(json.dumps(held["tables"][0]))
    study = bytes.fromhex(held["study"]["digest"])
    held["release"][0]["digest"] = item_digest(study, block.canonical()).hex()


def test_an_altered_number_needs_its_checkers_again() -> None:
    check, sentence = hostile(altered_number)
    assert check == "result"
    assert "the one that its item's digest names" in sentence
    check, sentence = hostile(altered_with_digest)
    assert check == "decisions"
    assert "decisions/0001.json" in sentence
    assert "about other content" in sentence


def test_an_altered_number_without_its_decisions_lacks_signatures() -> None:
    files = with_result(checked().files, altered_with_digest)

    def unsigned(held: dict[str, Any]) -> None:
        held["release"][0]["signatures"] = []

    kept = [data for name, data in sorted(files.items()) if name.startswith("decisions/")][3:]
    files = {name: data for name, data in files.items() if not name.startswith("decisions/")}
    files |= {f"decisions/{place:04}.json": data for place, data in enumerate(kept, start=1)}
    check, sentence = failed(resigned(with_result(files, unsigned)))
    assert check == "decisions"
    assert "ages is released without 2 signatures of checkers, the signature of a site" in sentence


LIES: dict[str, Change] = {
    "study": lambda held: held["study"].update(title="Another"),
    "roster": lambda held: held["roster"].update(version=2),
    "round": lambda held: held["round"].update(id="00" * 16),
    "epoch": lambda held: held.update(epoch="2026-12"),
    "sites": lambda held: held.update(
        sites={
            "took_part": [f"site{index}" for index in range(5)],
            "survivors": [f"site{index}" for index in range(5)],
            "dropouts": [],
        }
    ),
    "thresholds": lambda held: held["thresholds"].update(min_sites=2),
    "profile": lambda held: held.update(profile="dpuk"),
    "waivers": lambda held: held.update(
        waivers=[
            {"rule": "r", "value": "1", "reason": "r", "by": "b", "until": "2030-01-01", "site": "site0"}
        ]
    ),
}


@pytest.mark.parametrize("field", sorted(LIES))
def test_what_follows_from_study_and_rounds_cannot_be_said_otherwise(field: str) -> None:
    check, sentence = hostile(LIES[field])
    assert check == "result"
    assert sentence.startswith(f"result.json: {field}: not what follows")


def test_a_result_that_is_nested_too_deeply_is_refused() -> None:
    for text in ('"cohortsum.result/1"', '"cohortsum.result/2"'):
        deep = f'{{"schema": {text}, "x": {"[" * 200_000}'.encode()
        assert failed(resigned({**checked().files, "result.json": deep}))[0] == "result"


def test_attempts_iterations_and_earlier_versions_are_those_of_the_rounds() -> None:
    for change in ({"attempt": 2}, {"iterations": 2}):
        check, sentence = hostile(lambda held, change=change: held["round"].update(change))  # type: ignore[misc]
        assert (check, sentence.split(":")[1]) == ("result", " round")
    check, sentence = hostile(lambda held: held["round"].update(builds_on_version=1))
    assert check == "result"
    assert "stands alone" in sentence


def test_a_promise_of_noise_that_the_study_does_not_make_is_refused() -> None:
    promise = {
        **{
            "adjacency": "replace_one",
            "epsilon": 1.0,
            "delta": 1e-6,
            "study_epsilon": 1.0,
            "honest_sites": 3,
        },
        **{
            "fallback_epsilon": 2.0,
            "nano_rho": 10,
            "sampling_rate": 1.0,
            "openings": 1,
            "unprotected": list[str](),
        },
        **{"method": "m", "sentences": []},
    }
    check, sentence = hostile(lambda held: held.update(noise="distributed", privacy=promise))
    assert (check, sentence.split(":")[1]) == ("result", " noise")


def noised() -> Bound:
    return bound(NOISED)


def test_a_promise_of_noise_and_its_charges_follow_from_study_and_rounds() -> None:
    assert verdict(noised().archive).failure is None
    privacy = noised().document.privacy
    assert privacy is not None
    charges = json.loads(noised().files["charges.json"])
    assert charges["epsilon"] == privacy.epsilon < charges["study_epsilon"] == 8.0
    assert {one["nano_rho"] for one in charges["sites"].values()} == {privacy.nano_rho}
    for field, value in (("epsilon", 1.0), ("honest_sites", 5), ("openings", 2), ("nano_rho", 1)):
        check, sentence = hostile(partial(_promise, field, value), noised)
        assert (check, sentence.split(":")[1]) == ("result", " privacy")
    charges["sites"]["site0"]["nano_rho"] -= 1
    changed = {
        **noised().files,
        "charges.json": json.dumps(charges, indent=1, sort_keys=True).encode() + b"\n",
    }
    assert failed(resigned(changed))[0] == "charges"


def _promise(field: str, value: float, held: dict[str, Any]) -> None:
    held["privacy"][field] = value


def packets(name: str, base: Callable[[], Any] = checked) -> list[Envelope]:
    return [packet_from_bytes(one).envelope for one in split(base().files[name], name, 100)]


def joined(held: list[Envelope]) -> bytes:
    return encode(*(packet_to_bytes(Packet(one)) for one in held))


@pytest.mark.parametrize("kind", ["adverts", "shares", "masked", "consistency"])
def test_a_round_without_a_message_or_with_one_of_another_round_is_refused(kind: str) -> None:
    files, name = checked().files, f"rounds/0001/{kind}.packets"
    ours, theirs = packets(name), packets(name, fitted)
    for changed in (ours[1:], ours[::-1], [theirs[0], *ours[1:]], [*ours, ours[-1]]):
        check, sentence = failed(resigned({**files, name: joined(changed)}))
        if kind == "consistency" and changed == ours[1:]:
            assert check == "rounds"  # 4 survivors of 5: t is 4
            assert "R4.3: 3 signatures over this survivor set, 4 are required" in sentence
        assert check == "rounds"
        assert sentence.startswith("rounds/0001: ")


def test_other_survivors_than_t_sites_signed_are_refused() -> None:
    for survivors in ([0, 1, 2], [0, 1, 2, 4], [0, 1, 2, 3, 4], [1, 2, 3], [3, 2, 1, 0], []):
        changed = json.dumps({"survivors": survivors}).encode()
        check, _ = failed(resigned({**checked().files, "rounds/0001/survivors.json": changed}))
        assert check == "rounds"


def test_a_round_that_is_left_out_or_doubled_is_found() -> None:
    files = fitted().files
    count = fitted().document.round.iterations
    without_last = {name: data for name, data in files.items() if not name.startswith(f"rounds/{count:04}/")}
    assert failed(resigned(without_last))[0] == "result"
    doubled = {
        f"rounds/{count + 1:04}/{name.rpartition('/')[2]}": data
        for name, data in files.items()
        if name.startswith(f"rounds/{count:04}/")
    }
    check, sentence = failed(resigned({**files, **doubled}))
    assert check == "rounds"
    assert "twice" in sentence
    dealing = {name: data for name, data in files.items() if not name.startswith("rounds/0002/")}
    renamed = {
        (
            f"rounds/{int(name[7:11]) - 1:04}{name[11:]}"
            if name.startswith("rounds/") and name[7:11] > "0002"
            else name
        ): data
        for name, data in dealing.items()
    }
    check, sentence = failed(resigned(renamed))
    assert check == "rounds"
    assert "dealt in a round that is not in the bundle" in sentence


def test_the_approvals_are_those_of_the_round() -> None:
    files = checked().files
    swapped = {**files, "approvals/0001.packet": files["approvals/0002.packet"]}
    assert failed(resigned(swapped))[0] == "approvals"


def test_a_study_that_another_statistician_signed_is_refused() -> None:
    _, other = signed_study(CHECKED.replace("Loopback", "Another"))
    files = {**checked().files, "study/study.json": other.canonical}
    assert failed(resigned(files))[0] == "study"
    study, _ = signed_study(CHECKED)
    by_hub = sign_study(study, HUB, identity_key(HUB))
    signature = json.dumps({"statistician": HUB, "signature": by_hub.signature.hex()}).encode()
    assert failed(resigned({**checked().files, "study/signature.json": signature}))[0] == "study"


def decisions() -> list[Decision]:
    names = sorted(name for name in checked().files if name.startswith("decisions/"))
    return [decision_from_json(checked().files[name], name) for name in names]


def role_of(name: str) -> str:
    return "site" if name.startswith("site") else "checker" if name.startswith("chk") else "auditor"


def with_decisions(made: list[Decision]) -> bytes:
    """Return a hostile bundle with these decisions, and a document that says so."""
    files = {name: data for name, data in checked().files.items() if not name.startswith("decisions/")}
    files |= {f"decisions/{place:04}.json": decision_to_json(one) for place, one in enumerate(made, start=1)}

    def said(held: dict[str, Any]) -> None:
        for block in held["release"]:
            block["signatures"] = [
                {
                    "by": one.by,
                    "role": role_of(one.by),
                    "act": one.act.value,
                    "at": one.at,
                    "reason": one.reason,
                }
                for one in made
                if one.item == block["item"]
            ]

    return resigned(with_result(files, said))


def test_decisions_that_the_study_does_not_ask_for_do_not_count() -> None:
    first, second, site, *rest = decisions()
    study, item, digest = first.study, first.item, first.digest
    assert verdict(with_decisions([first, second, site, *rest])).failure is None

    def by(who: str, at: str = AT) -> Decision:
        return signed_decision(study, item, digest, who, at)

    cases: list[tuple[list[Decision], str]] = [
        ([first, site], "1 signature of checkers"),
        ([first, second], "the signature of a site"),
        ([first, replace(first, at="2026-12-01T00:00:00+00:00"), site], "not as chk1 signed it"),
        ([first, by("chk1", "2026-12-01T00:00:00+00:00"), site], "a person counts once"),
        ([first, by("site4"), second, site], "does not decide about this study"),  # it dropped out
        ([first, by("aud1"), site], "does not decide about this study"),
        ([first, by("hub"), site], "does not decide about this study"),
        ([first, by("statistician"), site], "does not decide about this study"),
        ([first, replace(by("chk3"), by="chk2"), site], "not as chk2 signed it"),
        ([first, replace(second, confirmed=()), site], "not as chk2 signed it"),
    ]
    for made, words in cases:
        check, sentence = failed(with_decisions([*made, *rest]))
        assert check == "decisions", words
        assert words in sentence


def test_a_table_that_was_taken_back_is_not_shown_as_released() -> None:
    first = decisions()[0]
    back = Decision(first.study, first.item, first.digest, Act.RETRACT, "wrong epoch", "", (), "site3", AT)
    made = [*decisions()[:3], back.sign(identity_key("site3")), *decisions()[3:]]
    check, sentence = failed(with_decisions(made))
    assert check == "decisions"
    assert "ages is released without" in sentence


def denied(name: str, since: str, base: Callable[[], Bound] = checked) -> dict[str, bytes]:
    """Return the files of a bundle with a deny-list that holds one key."""
    entry = Denied(name, identity_key(name).public, datetime.datetime.fromisoformat(since), "lost")
    text = write_deny_list(DenyList("loopback", 1, (entry,)))
    signature = identity_key("operator").sign(DENY_LIST, text).hex().encode()
    return {**base().files, "roster/deny.yaml": text, "roster/deny.sig": signature}


def test_a_key_counts_until_it_is_denied() -> None:
    later = verdict(resigned(denied("chk1", "2026-12-24T00:00:00+00:00")))
    assert later.failure is None
    assert "keys denied since: chk1" in next(one.found for one in later.passed if one.check == "decisions")
    check, sentence = failed(resigned(denied("chk1", "2026-11-01T00:00:00+00:00")))
    assert check == "decisions"
    assert "made after that key was denied" in sentence
    check, sentence = failed(resigned(denied(HUB, "2026-12-24T00:00:00+00:00")))
    assert check == "coordinator"
    assert "is denied" in sentence
    auditor = verdict(resigned(denied("aud1", "2026-12-24T00:00:00+00:00")))
    assert auditor.failure is None
    assert "1 rounds for aud2" in auditor.passed[-1].found


def test_a_coordinator_that_forgot_a_denied_site_takes_the_strictest_profile_for_it() -> None:
    for name, fine in (("site1", True), ("site4", False)):  # site 4 is in no sum
        files = with_result(denied(name, "2026-12-24T00:00:00+00:00"), LIES["profile"])
        failure = verdict(resigned(files)).failure
        assert (failure is None) is fine, failure


def test_a_deny_list_that_the_operator_did_not_sign_is_refused() -> None:
    files = denied("chk1", "2026-11-01T00:00:00+00:00")
    files["roster/deny.sig"] = identity_key(HUB).sign(DENY_LIST, files["roster/deny.yaml"]).hex().encode()
    check, sentence = failed(resigned(files))
    assert check == "roster"
    assert sentence.startswith("roster/deny.yaml: not as the operator signed it")


def test_rules_and_charges_are_those_of_the_document_and_the_rounds() -> None:
    files = checked().files
    check, _ = failed(resigned({**files, "rules.json": b'[{"rule": "r"}]\n'}))
    assert check == "rules"
    charges = json.loads(files["charges.json"])
    assert charges["note"] == NOTE
    charges["sites"]["site0"]["rounds"] = 0
    check, _ = failed(resigned({**files, "charges.json": json.dumps(charges).encode()}))
    assert check == "charges"


def test_a_study_that_asks_nobody_leaves_its_numbers_to_the_coordinator() -> None:
    """Which lie a bundle does not show to somebody who is no auditor; `test_sealed` shows that an auditor finds it."""
    archive = resigned(with_result(fitted().files, altered_with_digest))
    assert verdict(archive).failure is None
    assert from_json(with_result(fitted().files, altered_with_digest)["result.json"]) != fitted().document
