"""The looks of the targets can fail: a decoder or a machine with a planted fault is found over the corpus alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cohortsum.crypto.errors import ConfigurationError, RemoteProtocolError, StudyFileError
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.effects import Audit
from cohortsum.protocol.messages import Packet
from cohortsum.protocol.site import SiteRound
from cohortsum.protocol.site_states import Over
from tests.fuzz.registry import TARGETS
from tests.fuzz.scenes import coordinator_scenes, copied, fingerprint, site_scenes
from tests.fuzz.target import Reader, again, decoder, same


def over_corpus(name: str) -> None:
    for path in TARGETS[name].corpus():
        TARGETS[name].run(path.read_bytes())


def test_errors_of_the_tree_are_refusals_and_others_are_findings() -> None:
    def decode(data: bytes) -> bytes:
        if data == b"ours":
            raise StudyFileError("no")
        return bytes([data[0]])

    run = decoder(decode, same(lambda value: value), ConfigurationError)
    run(b"ours")
    run(b"x")
    with pytest.raises(IndexError):
        run(b"")
    with pytest.raises(AssertionError, match="other bytes"):
        run(b"xy")
    with pytest.raises(StudyFileError):  # allowed by the tree, not by this target
        decoder(decode, errors=RemoteProtocolError)(b"ours")


def test_a_value_that_changes_on_its_way_is_a_finding() -> None:
    run = decoder(lambda data: data.strip(), again(lambda value: value + b" x", lambda data: data.strip()))
    with pytest.raises(AssertionError, match="another value"):
        run(b" a ")


def test_choices_come_from_the_bytes_and_then_are_the_first() -> None:
    reader = Reader(b"\x03\x01\x02\x05abc")
    assert (reader.byte(), reader.number(), reader.take()) == (3, 0x0102, b"abc")
    assert (reader.byte(), reader.pick(("x", "y", "z")), reader.take(), reader.rest()) == (0, "x", b"", b"")


@pytest.mark.parametrize("spoil", ["state", "secrets", "answers"])
def test_a_site_that_a_refused_packet_changes_is_found(spoil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site_scenes()
    honest = SiteRound.receive

    def receive(self: SiteRound, packet: Packet) -> object:
        try:
            return honest(self, packet)
        except RemoteProtocolError:
            match spoil:
                case "state":
                    self.state = Over(bytes(32))
                case "secrets":
                    attempt = getattr(self.state, "attempt", None)
                    if attempt is not None:
                        attempt.seeds.wipe()
                case _:
                    vars(self)["_answers"] = {}
            raise

    monkeypatch.setattr(SiteRound, "receive", receive)
    with pytest.raises(AssertionError, match="left another state"):
        over_corpus("site-round")


@pytest.mark.parametrize("spoil", ["state", "received"])
def test_a_coordinator_that_a_refused_packet_changes_is_found(
    spoil: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator_scenes()
    honest = CoordinatorRound.receive

    def receive(self: CoordinatorRound, packet: Packet) -> object:
        effects = honest(self, packet)
        if len(effects) == 1 and isinstance(effects[0], Audit):
            if spoil == "state":
                self.abort("spoiled")
            else:
                vars(self)["_received"][packet.envelope.kind, packet.envelope.sender] = b""
        return effects

    monkeypatch.setattr(CoordinatorRound, "receive", receive)
    with pytest.raises(AssertionError, match="left another state"):
        over_corpus("coordinator-round")


def test_a_machine_that_ends_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    site_scenes()
    honest: Callable[..., object] = vars(SiteRound)["_close"]

    def close(self: SiteRound, agreed: object, message: object, words: object) -> object:
        honest(self, agreed, message, words)
        return self.state, ()

    monkeypatch.setattr(SiteRound, "_close", close)
    with pytest.raises(AssertionError, match="other effects"):
        over_corpus("site-round")


def test_a_copy_shares_no_secret_and_has_the_same_fingerprint() -> None:
    moments = [moment.make() for scene in site_scenes() for moment in scene.moments]
    held = [machine.state for machine in moments if hasattr(machine.state, "attempt")]
    assert len(held) > 10
    for state in held:
        twin = copied(state)
        before = fingerprint(state)
        assert fingerprint(twin) == before
        twin.attempt.seeds.wipe()
        assert fingerprint(state) == before != fingerprint(twin)
        assert fingerprint(replace(state, attempt=replace(state.attempt, context=bytes(31)))) != before
