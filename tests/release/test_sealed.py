"""What is sealed to auditors: complete for all of them, open to nobody else, and enough to find a coordinator that lies about numbers."""

from dataclasses import replace

import numpy as np
import pytest

from cohortsum.crypto.encoding import encode
from cohortsum.crypto.errors import AuthenticationError, ConfigurationError
from cohortsum.protocol.codec import packet_to_bytes
from cohortsum.report.bundle_audit import audit
from cohortsum.report.bundle_check import Proven
from cohortsum.study.release.bundle import split
from cohortsum.study.release.sealed import (
    UNLOCKED_PIECE,
    RoundSeal,
    Sealer,
    auditors_of,
    open_sealed,
    read_sealed,
)
from tests.edges.harness import People
from tests.edges.test_two_key import GUEST
from tests.protocol.consortium import stream
from tests.release.bundles import (
    GUESTS,
    checked,
    failed,
    fitted,
    locked,
    papers,
    resigned,
    sealing_key,
    verdict,
    with_result,
)
from tests.release.bundles import (
    words as words_of,
)
from tests.release.test_bundle_lies import altered_with_digest

NAME = "sealed/0001.sealed"


def proven(archive: bytes | None = None) -> Proven:
    found = verdict(checked().archive if archive is None else archive).proven
    assert found is not None
    return found


@pytest.mark.parametrize("auditor", ["aud1", "aud2"])
def test_an_auditor_adds_the_sums_up_again_and_finds_the_released_tables(auditor: str) -> None:
    found = audit(proven(), auditor, sealing_key(auditor))
    assert (found.rounds, found.people) == (1, sum(len(People.of(index).age) for index in range(4)))
    assert found.same == ("ages", "bands", "thickness")
    assert (found.other, found.unknown) == ((), "")
    further = audit(proven(fitted().archive), auditor, sealing_key(auditor))
    assert further.rounds == fitted().document.round.iterations
    assert further.same == tuple(block.analysis for block in fitted().document.tables)


LOCKED_WORDS = words_of(papers((*GUESTS, GUEST)))


def proven_locked(archive: bytes) -> Proven:
    found = verdict(archive, LOCKED_WORDS)
    assert found.proven is not None, found.failure
    return found.proven


def test_in_two_key_mode_an_auditor_adds_the_sum_up_from_what_the_trustee_signed() -> None:
    held = proven_locked(locked().archive)
    found = audit(held, "aud1", sealing_key("aud1"))
    assert (found.rounds, found.people) == (1, sum(len(People.of(index).age) for index in range(4)))
    assert found.same == ("ages", "bands", "thickness")
    assert (found.other, found.unknown) == ((), "")


def test_in_two_key_mode_an_auditor_finds_that_another_sum_was_sealed() -> None:
    held, files = proven_locked(locked().archive), locked().files
    one, auditor = held.rounds[0], held.roster.identities["aud1"]
    bound = RoundSeal(held.plan.study.digest, held.roster.digest, one.context)
    opened = open_sealed(read_sealed(files[NAME], NAME), bound, one, auditor, sealing_key("aud1"), NAME, True)
    assert opened.words == {}
    assert opened.unlocked is not None
    (masked,) = opened.unlocked.attachments
    for packet, said in (
        (
            replace(opened.unlocked, attachments=(masked[8:] + masked[:8],)),
            "not the one that the trustee decrypted",
        ),
        (replace(opened.unlocked, attachments=()), "without the word of the trustee"),
    ):
        sealer = Sealer(bound, auditors_of(held.roster), stream("hostile"))
        piece = sealer.words(UNLOCKED_PIECE, packet_to_bytes(packet))
        lie = sealer.head + piece + sealer.seeds(opened.data, opened.mask)
        if not packet.attachments:
            failure = verdict(resigned({**files, NAME: lie}), LOCKED_WORDS).failure
            assert failure is not None
            assert "another number of words" in failure.sentence
            continue
        with pytest.raises(AuthenticationError, match=said):
            audit(proven_locked(resigned({**files, NAME: lie})), "aud1", sealing_key("aud1"))


def test_an_auditor_finds_a_number_that_does_not_follow() -> None:
    held = proven(resigned(with_result(fitted().files, altered_with_digest)))
    found = audit(held, "aud1", sealing_key("aud1"))
    assert found.other == ("ages",)
    assert "ages" not in found.same


def test_what_is_opened_is_the_sum_and_not_one_input() -> None:
    held = proven()
    one, identity = held.rounds[0], held.roster.identities["aud1"]
    bound = RoundSeal(held.plan.study.digest, held.roster.digest, one.context)
    opened = open_sealed(read_sealed(held.files[NAME], NAME), bound, one, identity, sealing_key("aud1"), NAME)
    assert sorted(opened.words) == sorted(opened.data) == [0, 1, 2, 3]
    assert sorted(opened.mask) == [4]
    for index, words in opened.words.items():
        assert int(np.frombuffer(words, "<u8")[0]) != len(People.of(index).age)


def test_nobody_else_opens_it() -> None:
    held = proven()
    for name, key, words in (
        ("aud1", "aud2", "not the private half"),
        ("chk1", "chk1", "no auditor"),
        ("nobody", "aud1", "no auditor"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            audit(held, name, sealing_key(key))
    one = held.rounds[0]
    bound = RoundSeal(held.plan.study.digest, held.roster.digest, one.context)
    sealed = read_sealed(held.files[NAME], NAME)
    foreign = replace(held.roster.identities["aud1"], seal=sealing_key("stranger").public)
    for auditor, key in (("aud1", "aud2"), ("aud2", "aud1"), ("aud1", "stranger")):
        identity = held.roster.identities[auditor] if key != "stranger" else foreign
        with pytest.raises(AuthenticationError, match="does not open"):
            open_sealed(sealed, bound, one, identity, sealing_key(key), NAME)
    for wrong in (
        replace(bound, study=bytes(32)),
        replace(bound, roster=bytes(32)),
        replace(bound, context=bytes(32)),
    ):
        with pytest.raises(AuthenticationError, match="does not open"):
            open_sealed(sealed, wrong, one, held.roster.identities["aud1"], sealing_key("aud1"), NAME)


def test_a_sealed_part_that_is_not_complete_is_refused_without_a_key() -> None:
    files = checked().files
    label, context, wrapped, *pieces = split(files[NAME], NAME, 100)
    keys = split(wrapped, NAME, 10)
    assert len(keys) == 2
    cases = {
        "not sealed to aud2": encode(label, context, encode(keys[0]), *pieces),
        "of another round": encode(label, bytes(32), wrapped, *pieces),
        "another number of words": encode(label, context, wrapped, *pieces[1:]),
        "another number of words or seeds": encode(label, context, wrapped, *pieces[:-1], pieces[-1][:-32]),
        "another number of words ": encode(label, context, wrapped, pieces[0][:-8], *pieces[1:]),
        "a wrapped key of another size": encode(label, context, encode(encode(b"aud1", b"", b"")), *pieces),
        "not a sealed round": encode(b"other", context, wrapped, *pieces),
        "damaged": files[NAME][:-1],
    }
    for words, data in cases.items():
        check, sentence = failed(resigned({**files, NAME: data}))
        assert check == "sealed part"
        assert sentence.startswith(f"{NAME}: ")
        assert words in sentence
    without = {name: data for name, data in files.items() if name != NAME}
    check, sentence = failed(resigned(without))
    assert (check, sentence.partition(":")[0]) == ("sealed part", NAME)


def test_an_auditor_finds_that_something_else_was_sealed() -> None:
    """Which lie only an auditor sees: a coordinator that seals words of the right size."""
    files, held = checked().files, proven()
    one = held.rounds[0]
    bound = RoundSeal(held.plan.study.digest, held.roster.digest, one.context)
    sealed = read_sealed(files[NAME], NAME)
    opened = open_sealed(sealed, bound, one, held.roster.identities["aud1"], sealing_key("aud1"), NAME)

    def written(words: dict[int, bytes], data: dict[int, int], mask: dict[int, int]) -> bytes:
        sealer = Sealer(bound, auditors_of(held.roster), stream("hostile"))
        body = b"".join(sealer.words(owner, held) for owner, held in words.items())
        return sealer.head + body + sealer.seeds(data, mask)

    words, data, mask = dict(opened.words), dict(opened.data), dict(opened.mask)
    honest = written(words, data, mask)
    assert audit(proven(resigned({**files, NAME: honest})), "aud2", sealing_key("aud2")).other == ()
    for lie, sentence in (
        (
            written({**words, 0: words[1]}, data, mask),
            "the masked input of site index 0 is not the one it signed",
        ),
        (written(words, {**data, 2: data[1]}, mask), "the data seed of site index 2"),
        (written(words, data, {4: 7}), "the mask seed of site index 4"),
    ):
        found = proven(resigned({**files, NAME: lie}))
        with pytest.raises(AuthenticationError, match=sentence):
            audit(found, "aud1", sealing_key("aud1"))


def test_a_flipped_bit_in_the_sealed_part_does_not_open() -> None:
    files = checked().files
    data = files[NAME]
    label, context, wrapped, *pieces = split(data, NAME, 100)
    for place in range(len(pieces)):
        changed = [*pieces[:place], bytes([pieces[place][0] ^ 1]) + pieces[place][1:], *pieces[place + 1 :]]
        found = proven(resigned({**files, NAME: encode(label, context, wrapped, *changed)}))
        with pytest.raises(AuthenticationError, match="does not open for aud1"):
            audit(found, "aud1", sealing_key("aud1"))


def test_keys_do_not_repeat() -> None:
    held = proven(fitted().archive)
    names = sorted(name for name in held.files if name.startswith("sealed/"))
    keys = [public for name in names for public, _ in read_sealed(held.files[name], name).wrapped.values()]
    assert len(set(keys)) == len(keys) == 2 * len(names)
