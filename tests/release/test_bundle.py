"""A proof bundle holds as it was made, and every change to any of its files is named."""

import json
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.crypto.fingerprint import parse_words, phrase
from cohortsum.report.bundle_check import PLACES
from cohortsum.study.release.archive import pack
from cohortsum.study.release.bundle import MANIFEST, MANIFEST_SIG, split
from cohortsum.study.release.charges import NOTE
from tests.release.bundles import (
    FIT,
    GUESTS,
    Bound,
    bound,
    checked,
    failed,
    fitted,
    papers,
    resigned,
    verdict,
    words,
)

CHECKS = (
    *("archive", "manifest", "contents", "roster", "coordinator", "study", "rounds", "approvals", "result"),
    *("decisions", "rules", "charges", "sealed part"),
)
BUNDLES = {"checked": checked, "fitted": fitted}


@pytest.fixture(params=sorted(BUNDLES))
def either(request: pytest.FixtureRequest) -> Bound:
    make: Callable[[], Bound] = BUNDLES[request.param]
    return make()


def test_every_check_holds_in_its_order(either: Bound) -> None:
    found = verdict(either.archive)
    assert found.failure is None
    assert tuple(one.check for one in found.passed) == CHECKS
    proven = found.proven
    assert proven is not None
    assert proven.document == either.document
    assert len(proven.rounds) == either.document.round.iterations


def test_what_is_in_it() -> None:
    files = checked().files
    assert set(files) == {
        *(MANIFEST, MANIFEST_SIG, "study/study.json", "study/signature.json"),
        *("roster/consortium.yaml", "roster/consortium.sig", "roster/operator.pub"),
        *(f"approvals/{place:04}.packet" for place in range(1, 6)),
        *(f"rounds/0001/{name}.packets" for name in ("adverts", "shares", "masked", "consistency")),
        *("rounds/0001/opening.packet", "rounds/0001/survivors.json"),
        *("charges.json", "result.json", "rules.json", "sealed/0001.sealed"),
        *(f"decisions/{place:04}.json" for place in range(1, 10)),
    }
    charges = json.loads(files["charges.json"])
    assert charges["note"] == NOTE
    assert charges["sites"] == {f"site{index}": {"rounds": 1, "nano_rho": 0} for index in range(4)}
    assert charges["epsilon"] is None
    later = fitted().files
    dealt = sorted(name for name in later if name.endswith("adverts.packets"))
    assert dealt == ["rounds/0001/adverts.packets", "rounds/0002/adverts.packets"]
    assert len([name for name in later if name.endswith("opening.packet")]) > 3


def test_the_fingerprint_of_another_roster_or_operator_is_refused() -> None:
    other = words(papers(GUESTS[:-1]))
    check, sentence = failed(checked().archive, other)
    assert check == "roster"
    assert "another fingerprint than the one given" in sentence
    assert parse_words(phrase(words())) == words()


def test_a_bundle_without_auditors_seals_nothing_and_holds() -> None:
    few = GUESTS[:3]
    held = bound(FIT.replace("odds:", "chance:"), guests=few)
    assert not [name for name in held.files if name.startswith("sealed/")]
    found = verdict(held.archive, words(papers(few)))
    assert found.failure is None
    assert found.passed[-1].found == "the roster has no auditor with a sealing key: nothing is sealed"


def test_a_flipped_byte_names_its_file(either: Bound) -> None:
    """With the archive's own checksums made to fit, so that only the manifest's digests are left."""
    files = either.files
    for name, data in files.items():
        for place in sorted({0, len(data) // 3, len(data) // 2, len(data) - 1}):
            changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            check, sentence = failed(pack({**files, name: changed}))
            if name in (MANIFEST, MANIFEST_SIG):
                assert check in ("manifest", "contents", "coordinator"), (name, place)
            else:
                assert (check, sentence.partition(":")[0]) == ("contents", name), place


def test_a_file_that_is_missing_renamed_or_added_is_named(either: Bound) -> None:
    files = either.files
    for name in files:
        left = {other: data for other, data in files.items() if other != name}
        check, sentence = failed(pack(left))
        assert check == "manifest"
        assert sentence.startswith(f"{name}: missing")
        if name not in (MANIFEST, MANIFEST_SIG):
            check, sentence = failed(pack({**left, f"{name}x": files[name]}))
            assert (check, sentence.partition(":")[0]) == ("manifest", name)
    for name in ("extra.json", "rounds/0009/opening.packet", "decisions/0099.json"):
        check, sentence = failed(pack({**files, name: b"{}"}))
        assert check == "manifest"
        assert sentence.startswith(f"{name}: not named in the manifest")


def test_a_file_that_is_missing_or_renamed_is_found_under_a_manifest_that_fits(either: Bound) -> None:
    """The coordinator itself leaves something out, or adds something, and signs that."""
    files = either.files
    for name in files:
        if name in (MANIFEST, MANIFEST_SIG):
            continue
        left = {other: data for other, data in files.items() if other != name}
        failed(resigned(left))
        folder, _, file = name.rpartition("/")
        failed(resigned({**left, f"{folder}/{file}x" if folder else f"{file}x": files[name]}))
    for name in (
        "extra.json",
        "rounds/0001/more.packets",
        "roster/newest.sig",
        "decisions/0099.json",
        "sealed/0099.sealed",
    ):
        failed(resigned({**files, name: b"{}"}))
    assert not PLACES.fullmatch("rounds/0001/more.packets")


def test_files_of_two_bundles_cannot_be_exchanged() -> None:
    ours, theirs = checked().files, fitted().files
    same = {name for name in ours.keys() & theirs.keys() if ours[name] == theirs[name]}
    assert same == {
        *("roster/consortium.yaml", "roster/consortium.sig", "roster/operator.pub", "rules.json"),
    }
    for name in sorted(ours.keys() & theirs.keys() - same):
        changed = {**ours, name: theirs[name]}
        check, sentence = failed(pack(changed))
        if name == MANIFEST_SIG:
            assert check == "coordinator"
        elif name != MANIFEST:
            assert (check, sentence.partition(":")[0]) == ("contents", name)
            failed(resigned(changed))  # nor with a manifest that names it


@pytest.mark.parametrize("signer", ["site0", "statistician", "operator", "chk1", "stranger"])
def test_a_manifest_that_somebody_else_signed_is_refused(signer: str) -> None:
    check, sentence = failed(resigned(checked().files, signer))
    assert check == "coordinator"
    assert sentence.startswith("manifest.sig: not the signature of hub")


def test_a_bundle_that_is_none_cannot_be_read() -> None:
    found = verdict(b"something else")
    assert found.failure is not None
    assert not found.readable
    assert verdict(pack({"a.json": b""})).readable


CONTENT = st.one_of(
    st.binary(max_size=60),
    st.integers(1, 4000).map(lambda depth: b"[" * depth),
    st.integers(1, 4000).map(lambda depth: b'{"files":' * depth),
    st.sampled_from(
        [b"", b"null", b"{}", b"[]", b"\xff\xfe", b"&a [*a]", b"0" * 64, b"1e999", b'{"survivors": [1e400]}']
    ),
)


@given(st.integers(0, 10**6), CONTENT)
@settings(max_examples=120, deadline=None)
def test_no_content_of_any_file_makes_the_verifier_fail(number: int, content: bytes) -> None:
    """`check_bundle` lets through every error that is none of the product's own; here there is none."""
    files: Mapping[str, bytes] = checked().files
    name = sorted(files)[number % len(files)]
    if name in (MANIFEST, MANIFEST_SIG):
        failed(pack({**files, name: content}))
    elif content != files[name]:
        failed(resigned({**files, name: content}))


@given(st.binary(max_size=80))
@settings(deadline=None)
def test_joined_fields_come_apart_or_are_refused(data: bytes) -> None:
    try:
        fields = split(data, "x", 5)
    except ConfigurationError as error:
        sentence = error.message
    else:
        assert b"".join(len(one).to_bytes(8, "big") + one for one in fields) == data
        assert len(fields) <= 5
        sentence = "x: read"
    assert sentence.startswith("x: ")
