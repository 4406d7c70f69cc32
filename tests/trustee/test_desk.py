"""What a trustee answers: an honest round, once, and nothing to whoever shows anything else."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.bfv import STANDARD, DecryptionKey, EncryptionKey
from cohortsum.crypto.errors import CohortsumError, LimitError, RefusedError, RemoteProtocolError
from cohortsum.crypto.masks import Vector, expand
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol import codec
from cohortsum.protocol.audit import DeedKind
from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import words_digest, words_to_bytes
from cohortsum.protocol.messages import Envelope, Packet, Unlocked
from cohortsum.protocol.unlocking import check_offer, check_unlocked, offer_of, parameters_digest
from cohortsum.study.definition.signing import STUDY_SIGNATURE, SignedStudy
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.trustee import desk as desk_module
from cohortsum.trustee import studies
from tests.edges.harness import HUB, STATISTICIAN
from tests.protocol.consortium import identity_key, protection
from tests.protocol.lies import flip
from tests.trustee.world import SITES, TRUSTEE, Office, Played, key_of, roll, roster, round_of, signed_study

BANDS = "  bands: {kind: histogram, variables: [age], edges: [0, 25, 50, 75, 100]}"


def refusal(work: Callable[[], object]) -> str:
    """Return the check or the class of the error that refuses ``work``."""
    with pytest.raises(CohortsumError) as found:
        work()
    error = found.value
    return error.check if isinstance(error, RemoteProtocolError) else type(error).__name__


def deeds(office: Office) -> list[tuple[DeedKind, str]]:
    found = office.ledger.audit()
    assert found.fault is None
    return [(line.deed.kind, line.deed.detail) for line in found.lines]


def encrypted(seed: str, words: Vector) -> Vector:
    return EncryptionKey.from_bytes(key_of(seed).public, STANDARD).encrypt(words)


def test_an_honest_round_is_opened_by_both_keys_together(tmp_path: Path) -> None:
    office, played = Office(tmp_path), round_of()
    packet = office.offer(played)
    check_offer(packet, played.context, STANDARD, roster())
    envelope, words = office.unlock(played)
    assert played.opened(words) == played.expected_sum()
    (row,) = office.ledger.every()
    expected = Unlocked(row.statement, words_digest(played.ciphertexts()), words_digest(words))
    check_unlocked(envelope, expected, played.context, roster())
    assert (row.context, row.study, row.survivors) == (
        played.context,
        played.plan.study_digest,
        played.survivors,
    )
    assert (row.ciphertext_digest, row.masked_digest) == (expected.ciphertext_digest, expected.masked_digest)
    kinds = [kind for kind, _ in deeds(office)]
    assert kinds == [DeedKind.LOG_BEGUN, DeedKind.KEY_OFFERED, DeedKind.SUM_DECRYPTED]


def test_a_round_with_a_dropout_is_opened_too(tmp_path: Path) -> None:
    office, played = Office(tmp_path), round_of("dropout", (1,))
    office.offer(played)
    assert played.opened(office.unlock(played)[1]) == played.expected_sum()


def test_the_same_opening_gets_the_same_bytes_and_one_key(tmp_path: Path) -> None:
    office, played = Office(tmp_path), round_of()
    assert office.offer(played) == office.offer(played)
    assert office.drawn == 1


def forged(played: Played, name: str) -> Envelope:
    """Return the opening in the coordinator's name, under the signature of somebody else's key."""
    envelope = played.opening
    signer = Signer(replace(roster().coordinator, key=identity_key(name).public), identity_key(name))
    return signer.sign(envelope.context, codec.decode(envelope.kind, envelope.payload))


@pytest.mark.parametrize("change", ["stranger", "site", "payload", "context", "kind", "study"])
def test_no_key_is_offered_for_an_opening_that_is_not_the_coordinators_or_not_of_the_study(
    tmp_path: Path, change: str
) -> None:
    office, played = Office(tmp_path), round_of()
    opening, signed = played.opening, played.by_statistician
    match change:
        case "stranger":
            opening = forged(played, "stranger")
        case "site":
            opening = replace(opening, sender="site0")
        case "payload":
            opening = replace(opening, payload=flip(opening.payload, 9))
        case "context":
            hub = Signer(roster().coordinator, identity_key(HUB))
            opening = hub.sign(flip(opening.context, 1), codec.decode(opening.kind, opening.payload))
        case "kind":
            opening = played.request.gate
        case _:
            signed = signed_study(("version: 1", "version: 2"))[1]
    assert refusal(lambda: office.desk.offer(signed, opening)) in {"M1", "M2", "M3", "M4", "R0.1"}
    assert (office.drawn, len(office.ring)) == (0, 0)


def test_no_key_is_drawn_where_fewer_sites_approved_than_the_study_asks_for(tmp_path: Path) -> None:
    office, played = Office(tmp_path), round_of()
    approvals = {index: played.approvals[index] for index in range(2)}
    setup = replace(played.coordinator.setup, approvals=approvals)
    few = CoordinatorRound(setup, played.coordinator_key).opening
    assert refusal(lambda: office.desk.offer(played.by_statistician, few)) == "K1"
    assert office.drawn == 0


def by(name: str, signed: SignedStudy) -> SignedStudy:
    """Return the same text under the signature of ``name``, in that name."""
    signature = identity_key(name).sign(STUDY_SIGNATURE, name.encode(), signed.canonical)
    return SignedStudy(signed.canonical, name, signature)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("masking", "does not ask for protection.mode two_key"),
        ("roster", "roster version 7.* not pinned at this trustee .*trustee pin"),
        ("site", "no statistician 'site0'"),
        ("forged", "authentication failed"),
        ("junk", "canonical"),
        ("expired", "expired on"),
        ("denied statistician", f"no statistician '{STATISTICIAN}'"),
        ("denied coordinator", "coordinator 'hub' is denied"),
        ("denied trustee", "has 0"),
        ("other trustee", "is not the trustee of roster version 1"),
        ("other key", "is not the one in the roster"),
    ],
)
def test_a_study_that_this_trustee_does_not_serve_is_refused_with_the_cure(
    tmp_path: Path, what: str, sentence: str
) -> None:
    office, played = Office(tmp_path), round_of()
    signed = played.by_statistician
    match what:
        case "masking":
            signed = signed_study(("mode: two_key", "mode: masking"))[1]
        case "roster":
            held = signed.canonical.replace(b'"roster":1', b'"roster":7')
            assert held != signed.canonical
            signed = by(STATISTICIAN, replace(signed, canonical=held))
        case "site":
            signed = by("site0", signed)
        case "forged":
            signed = replace(signed, signature=flip(signed.signature, 3))
        case "junk":
            signed = replace(signed, canonical=b"\xff{}")
        case "expired":
            office.today = datetime(2100, 1, 1, tzinfo=UTC)
        case "other trustee":
            office = replace(office, name="somebody")
        case "other key":
            office = replace(office, key=identity_key("stolen"))
        case _:
            office.roll = roll(
                {"statistician": STATISTICIAN, "coordinator": HUB, "trustee": TRUSTEE}[what.split()[1]]
            )
    with pytest.raises(RefusedError, match=sentence):
        office.desk.offer(signed, played.opening)
    with pytest.raises(RefusedError, match=sentence):
        office.desk.permitted(signed, played.request, played.length)
    assert office.drawn == 0


def test_a_denial_is_effective_between_offer_and_decryption(tmp_path: Path) -> None:
    office, played = Office(tmp_path), round_of()
    office.offer(played)
    for name in (STATISTICIAN, HUB):
        office.roll = roll(name)
        assert refusal(lambda: office.unlock(played)) == "RefusedError"
    office.roll = roll("site3")  # what a site signed before it was denied is still what happened
    assert played.opened(office.unlock(played)[1]) == played.expected_sum()


def test_the_same_request_gets_the_same_bytes_and_another_sum_nothing(tmp_path: Path) -> None:
    office, played = Office(tmp_path), round_of()
    office.offer(played)
    ciphertexts = played.ciphertexts()
    first, again = office.unlock(played, ciphertexts), office.unlock(played, ciphertexts)
    assert first[0] == again[0]
    assert np.array_equal(first[1], again[1])
    other = encrypted(played.seed, np.zeros(played.length, dtype=np.uint64))
    for words in (other, played.ciphertexts(0)):
        assert refusal(partial(office.unlock, played, words)) == "K3"
    assert refusal(lambda: office.offer(played)) == "RefusedError"
    assert len(office.ledger.every()) == 1
    assert deeds(office)[-1] == (DeedKind.DECRYPTION_REFUSED, "K3")


def test_a_restart_loses_the_key_and_nothing_else(tmp_path: Path) -> None:
    office, played = Office(tmp_path), round_of()
    office.offer(played)
    office = office.restarted()
    with pytest.raises(RefusedError, match=r"started again since.* the next one gets a key of its own"):
        office.unlock(played)
    office.offer(played)
    office.unlock(played)
    office = office.restarted()
    assert refusal(lambda: office.unlock(played)) == "K3"
    assert refusal(lambda: office.offer(played)) == "RefusedError"
    again = round_of("again")
    office.offer(again)
    assert again.opened(office.unlock(again)[1]) == again.expected_sum()


def test_of_one_study_only_sums_over_the_same_survivors_are_decrypted(tmp_path: Path) -> None:
    office, first, fewer, same = Office(tmp_path), round_of(), round_of("dropout", (1,)), round_of("again")
    office.offer(first)
    office.unlock(first)
    for _ in range(2):
        office.offer(fewer)
        assert refusal(partial(office.unlock, fewer)) == "K4"
        office = office.restarted()
    office.offer(same)
    assert same.opened(office.unlock(same)[1]) == same.expected_sum()
    other = round_of("other study", (1,), ("study: locked", "study: other"))
    office.offer(other)
    assert other.opened(office.unlock(other)[1]) == other.expected_sum()


def test_two_sums_that_were_both_let_in_are_still_compared_when_they_are_decrypted(tmp_path: Path) -> None:
    office, first, fewer = Office(tmp_path), round_of(), round_of("dropout", (1,))
    office.offer(first)
    office.offer(fewer)
    let_in = [office.desk.permitted(one.by_statistician, one.request, one.length) for one in (first, fewer)]
    office.desk.unlock(let_in[0], first.ciphertexts())
    assert refusal(lambda: office.desk.unlock(let_in[1], fewer.ciphertexts())) == "K4"
    assert [row.survivors for row in office.ledger.every()] == [first.survivors]


def test_a_gate_that_does_not_suffice_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if coordinator and sites had let it pass: the plan is the one they signed, the thresholds are others."""
    office, played = Office(tmp_path), round_of()
    office.offer(played)

    def stricter(*given: object) -> StudyPlan:
        plan = plan_study(*given)  # type: ignore[arg-type]
        held = replace(plan.round, protection=protection(min_participants=5000))
        object.__setattr__(held, "digest", plan.round.digest)
        return replace(plan, round=held)

    monkeypatch.setattr(studies, "plan_study", stricter)
    assert refusal(lambda: office.unlock(played)) == "K2"
    assert deeds(office)[-1] == (DeedKind.DECRYPTION_REFUSED, "K2")


def test_the_gate_of_another_round_opens_nothing(tmp_path: Path) -> None:
    office, played, other = Office(tmp_path), round_of(), round_of("again")
    office.offer(played)
    request = replace(played.request, gate=other.request.gate)
    assert refusal(lambda: office.desk.permitted(played.by_statistician, request, played.length)) == "M3"


def test_a_survivor_set_that_t_sites_do_not_stand_by_is_refused(tmp_path: Path) -> None:
    office, played = Office(tmp_path), round_of()
    office.offer(played)
    signatures = played.request.transcript.consistency
    few = signatures[: threshold(SITES) - 1]
    assert refusal(lambda: office.unlock(played, consistency=few)) == "R4.3"
    assert refusal(lambda: office.unlock(played, survivors=played.survivors[1:])) == "R4.3"
    assert refusal(lambda: office.unlock(played, survivors=(0, 1))) == "R3.3"
    assert office.ledger.every() == ()


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["adverts", "shares", "masked", "consistency", "opening"]),
    place=st.integers(0, SITES - 1),
    part=st.sampled_from(["payload", "signature", "context", "sender"]),
    at=st.integers(0, 10_000),
)
def test_no_altered_message_opens_anything(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: int, part: str, at: int
) -> None:
    office, played = shared(tmp_path_factory), round_of()
    transcript = played.request.transcript
    held = (transcript.opening,) if name == "opening" else getattr(transcript, name)
    place %= len(held)
    value = getattr(held[place], part)
    wrong = value + "x" if isinstance(value, str) else flip(value, at % len(value))
    changed = (*held[:place], replace(held[place], **{part: wrong}), *held[place + 1 :])
    meddled = replace(transcript, **{name: changed[0] if name == "opening" else changed})  # type: ignore[arg-type]  # the field that `name` says
    request = replace(played.request, transcript=meddled)
    asked = partial(office.desk.permitted, played.by_statistician, request, played.length)
    assert refusal(asked) in {"M1", "M2", "M3", "M4", "R0.1"}
    assert office.ledger.every() == ()


_SHARED: list[Office] = []


def shared(factory: pytest.TempPathFactory) -> Office:
    """Return one office for all examples: none of them may change anything in it."""
    if not _SHARED:
        _SHARED.append(Office(factory.mktemp("shared")))
        _SHARED[0].offer(round_of())
    return _SHARED[0]


def test_a_sum_of_another_key_or_junk_is_refused_and_uses_the_key_up(tmp_path: Path) -> None:
    played = round_of()
    key = DecryptionKey.draw(STANDARD)
    foreign = EncryptionKey.from_bytes(key.public, STANDARD).encrypt(np.zeros(played.length, dtype=np.uint64))
    junk = expand(SecretBytes(bytes(32), "junk"), STANDARD.words(played.length)) >> np.uint64(11)
    for number, words in enumerate((foreign, junk, junk[:-1])):
        (tmp_path / str(number)).mkdir()
        office = Office(tmp_path / str(number))
        office.offer(played)
        with pytest.raises(RefusedError, match="cannot be decrypted under the key of this attempt"):
            office.unlock(played, words)
        with pytest.raises(RefusedError, match="no key is held"):
            office.unlock(played)
        assert office.ledger.every() == ()


def test_a_length_that_is_not_the_plans_or_too_much_is_refused(tmp_path: Path) -> None:
    office, played = Office(tmp_path), round_of()
    office.offer(played)
    for length in (0, played.length - 1, played.length + 1, 2**63):
        asked = partial(office.desk.permitted, played.by_statistician, played.request, length)
        assert refusal(asked) == "K3"
    small = replace(office, numbers=played.length - 1)
    assert refusal(lambda: small.unlock(played)) == "LimitError"


def uniform(words: Vector) -> bool:
    """Chi-square of 64 equal cells of [0, p): 63 degrees of freedom; 150 is beyond one in ten million."""
    cells = np.bincount((words // (STANDARD.modulus // 64 + 1)).astype(np.int64), minlength=64)
    mean = len(words) / 64
    return float(np.sum((cells - mean) ** 2 / mean)) < 150


def test_a_single_sites_ciphertext_is_noise_to_the_trustee_and_to_the_coordinator(tmp_path: Path) -> None:
    edges = ", ".join(str(edge / 10) for edge in range(1001))
    bands = (f"{BANDS.replace('bands', f'bands{number}')}" for number in range(6))
    text = "\n".join(bands).replace("0, 25, 50, 75, 100", edges)
    played = round_of("long", (), (BANDS, text))
    assert played.length > 6000
    office = Office(tmp_path)
    office.offer(played)
    _, words = office.unlock(played, played.ciphertexts(0))
    assert uniform(words)
    assert uniform(
        np.array(played.opened(words), dtype=np.uint64)
    )  # pair masks with the others are still on it
    (tmp_path / "honest").mkdir()
    honest = Office(tmp_path / "honest")
    honest.offer(played)
    _, masked = honest.unlock(played)
    assert uniform(masked)
    assert not uniform(np.array(played.expected_sum(), dtype=np.uint64))
    assert played.opened(masked) == played.expected_sum()


def test_the_ledger_holds_a_decryption_before_anybody_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office, played = Office(tmp_path), round_of()
    office.offer(played)
    seen: dict[str, int] = {}

    def look(point: str) -> None:
        with sqlite3.connect(tmp_path / "ledger.db") as other:
            seen[point] = other.execute("SELECT count(*) FROM decryptions").fetchone()[0]
        other.close()

    monkeypatch.setattr(desk_module, "reach", look)
    office.unlock(played)
    assert seen == {"trustee.unlock.before": 0, "trustee.unlock.recorded": 1}


def test_a_ledger_that_refuses_a_write_lets_nothing_out(tmp_path: Path) -> None:
    office, played = Office(tmp_path), round_of()
    office.offer(played)
    permitted = office.desk.permitted(played.by_statistician, played.request, played.length)
    (tmp_path / "audit.jsonl").write_bytes(b"")  # somebody cut the log
    assert refusal(lambda: office.desk.unlock(permitted, played.ciphertexts())) == "StoreError"
    assert office.ledger.every() == ()
    assert refusal(lambda: office.desk.offer(played.by_statistician, played.opening)) == "StoreError"


def test_files_hold_no_word_and_no_key(tmp_path: Path) -> None:
    office, played = Office(tmp_path), round_of()
    office.offer(played)
    _, words = office.unlock(played)
    office.ledger.close()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert len(written) > 1000
    assert played.context in written
    for word in words[:8]:
        assert words_to_bytes(np.array([word])) not in written
        assert str(int(word)).encode() not in written
    assert key_of(played.seed).public[1000:1032] not in written


def test_a_full_ring_refuses_and_a_later_attempt_takes_the_place_of_its_round(tmp_path: Path) -> None:
    office = replace(Office(tmp_path), most=1)
    first, other = round_of(), round_of("again")
    office.offer(first)
    with pytest.raises(LimitError, match="holds 1 keys"):
        office.offer(other)
    later = round_of("round", attempt=2)
    office.offer(later)
    assert office.ring.held(first.context) is None
    assert refusal(lambda: office.unlock(first)) == "RefusedError"
    office.unlock(later)
    office.offer(other)
    assert len(office.ring) == 1


def test_a_key_is_given_up_when_it_is_too_old(tmp_path: Path) -> None:
    now_s = 0.0
    office = replace(Office(tmp_path), clock=lambda: now_s, keep_s=100.0)
    played = round_of()
    office.offer(played)
    now_s = 99.0
    assert office.ring.held(played.context) is not None
    now_s = 100.0
    with pytest.raises(RefusedError, match="gave the key up"):
        office.unlock(played)
    office.offer(played)
    assert office.drawn == 2


def test_an_offer_of_another_context_parameters_key_or_sender_is_not_believed() -> None:
    played = round_of()
    key = key_of(played.seed)
    signer = Signer(roster().identities[TRUSTEE], identity_key(TRUSTEE))
    other = replace(STANDARD, coefficient_bits=(50, 50, 49))

    def offered(context: bytes = played.context, **changes: object) -> Packet:
        said = replace(offer_of(STANDARD, key.public), **changes)  # type: ignore[arg-type]
        return Packet(signer.sign(context, said), (key.public,))

    def believed(packet: Packet) -> str:
        return refusal(lambda: check_offer(packet, played.context, STANDARD, roster()))

    check_offer(offered(), played.context, STANDARD, roster())
    assert believed(offered(bytes(32))) == "M3"
    assert believed(offered(parameters=parameters_digest(other))) == "K0"
    assert believed(offered(key=bytes(32))) == "K0"
    assert believed(Packet(offered().envelope, (flip(key.public, 5000),))) == "K0"
    assert believed(Packet(offered().envelope)) == "K0"
    assert believed(replace(offered(), envelope=played.opening)) == "M1"
    with pytest.raises(CohortsumError, match="2"):
        check_offer(offered(), played.context, STANDARD, roster(TRUSTEE, "second"))
