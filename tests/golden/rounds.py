"""Rounds on tape: what every party was given, call by call, and what left it, as bytes.

The rounds are those of `tests.protocol`, whose keys and randomness are fixed by name, so a version that keeps to the protocol gives
the same bytes. A tape is JSON lines: ``at`` is the party, ``call`` and ``given`` what it was asked, ``gave`` what it did that others see
or that binds it: packets, masked words, signed survivors, and sums; ``refused`` the check under which it refused.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.codec import packet_from_bytes, packet_to_bytes
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import Aborted, Opened
from cohortsum.protocol.effects import (
    Combine,
    CoordinatorEffect,
    Deliver,
    Send,
    SiteEffect,
    SumSeen,
    SurvivorsSigned,
)
from cohortsum.protocol.masking import words_from_bytes, words_to_bytes
from cohortsum.protocol.messages import Kind, Packet
from cohortsum.protocol.site import SiteRound
from tests.protocol.consortium import Consortium
from tests.protocol.iterations import Attempted, after, first
from tests.protocol.test_round import vanish

Call = dict[str, Any]
HUB = "hub"
SHORT = 64


class Tape:
    """A machine that writes down its calls; everything else is the machine's own."""

    def __init__(self, machine: object, at: str, calls: list[Call]) -> None:
        self._machine, self._at, self._calls = machine, at, calls

    def __getattr__(self, name: str) -> object:
        held: object = getattr(self._machine, name)
        if name not in GIVEN:
            return held
        call = cast("Callable[..., Effects]", held)

        def noted(*given: object) -> Effects:
            return self._noted(name, given, call)

        return noted

    def _noted(self, name: str, given: tuple[object, ...], call: Callable[..., "Effects"]) -> "Effects":
        line: Call = {
            "at": self._at,
            "call": name,
            "given": [_text(one) for one in given if not callable(one)],
        }
        self._calls.append(line)  # before what the call leads to
        try:
            effects = call(*given)
        except RemoteProtocolError as error:
            line["refused"] = error.check
            raise
        line["gave"] = [text for effect in effects if (text := gave(effect)) is not None]
        return effects


Effects = tuple[SiteEffect | CoordinatorEffect, ...]
GIVEN: Mapping[str, tuple[Callable[[Any], object], ...]] = {
    "open": (),
    "receive": (lambda text: packet_from_bytes(bytes.fromhex(text)),),
    "contribute": (int, lambda values: np.array(values, dtype=np.int64)),
    "uploaded": (int, bytes.fromhex),
    "deadline_passed": (str,),
    "combined": (lambda text: words_from_bytes(bytes.fromhex(text)),),
}
"""The calls that are written down, and how to read what they were given."""


def gave(effect: SiteEffect | CoordinatorEffect) -> list[object] | None:
    """Return what others see of an effect, or what binds its party; None for all else."""
    match effect:
        case Send():
            words = "" if effect.words is None else words_to_bytes(effect.words).hex()
            return ["send", packet_to_bytes(effect.packet).hex(), words]
        case Deliver():
            return ["deliver", effect.receiver, packet_to_bytes(effect.packet).hex()]
        case Combine():
            return ["combine", list(effect.survivors)]
        case SurvivorsSigned():
            return ["signed", list(effect.survivors)]
        case SumSeen():
            return ["sum", list(effect.survivors), effect.values.tolist()]
        case _:
            return None


def _text(given: object) -> object:
    match given:
        case Packet():
            return packet_to_bytes(given).hex()
        case bytes():
            return given.hex()
        case np.ndarray():
            words = cast("np.ndarray[tuple[int], np.dtype[Any]]", given)
            return words_to_bytes(words).hex() if words.dtype == np.uint64 else words.tolist()
        case _:
            return given


def taped(consortium: Consortium) -> list[Call]:
    """Play a consortium to its end and return the calls."""
    calls: list[Call] = []
    for index, machine in consortium.machines.items():
        consortium.machines[index] = cast(SiteRound, Tape(machine, f"site{index}", calls))
    consortium.coordinator = cast(CoordinatorRound, Tape(consortium.coordinator, HUB, calls))
    consortium.run()
    return calls


def lost() -> Consortium:
    """Return an attempt that names four survivors, of whom too few are left to open it."""
    consortium = Consortium(5, seed="golden")
    vanish(consortium, {4: Kind.SHARES, 3: Kind.MASKED, 2: Kind.MASKED})
    return consortium


def opened() -> Consortium:
    """Return a round of five sites, one of which leaves before its masked input."""
    consortium = Consortium(5, seed="golden")
    vanish(consortium, {3: Kind.SHARES})
    return consortium


def retried(survivors: Iterable[int]) -> Consortium:
    """Return the attempt after `lost`, bound to its survivors."""
    bound = tuple(survivors)
    return Consortium(
        5,
        attempt=2,
        bound=dict.fromkeys(bound, bound),
        coordinator_bound=bound,
        members=bound,
        seed="golden 2",
    )


def fitted() -> list[list[Call]]:
    """Return the tapes of a fit of three iterations, whose second deals ahead."""
    attempt: Attempted = first()
    tapes = [taped(attempt)]
    for ahead in (2, 0):
        attempt = after(attempt, ahead=ahead)
        tapes.append(taped(attempt))
        assert isinstance(attempt.coordinator.state, Opened)
    return tapes


def tapes() -> dict[str, list[Call]]:
    """Return every round as today's machines play it."""
    failed = lost()
    held = {"opened": taped(opened()), "lost": taped(failed)}
    state = failed.coordinator.state
    assert isinstance(state, Aborted)
    held["retried"] = taped(retried(state.survivors))
    return held | {f"fitted-{number}": calls for number, calls in enumerate(fitted(), start=1)}


def written(calls: Iterable[Call]) -> bytes:
    """Return a tape as a file: first the texts that calls share, then the calls, a line each."""
    texts: dict[str, str] = {}

    def short(value: object) -> object:
        if isinstance(value, list):
            return [short(one) for one in cast("list[object]", value)]
        if not isinstance(value, str) or len(value) <= SHORT:
            return value
        return texts.setdefault(value, f"#{len(texts)}")

    lines = [{name: short(value) for name, value in call.items()} for call in calls]
    return "".join(json.dumps(line) + "\n" for line in (list(texts), *lines)).encode()


def read(data: bytes) -> list[Call]:
    """Return the calls of a file."""
    texts, *lines = (json.loads(line) for line in data.splitlines())

    def long(value: object) -> object:
        if isinstance(value, list):
            return [long(one) for one in cast("list[object]", value)]
        return texts[int(value[1:])] if isinstance(value, str) and value.startswith("#") else value

    return [{name: long(value) for name, value in line.items()} for line in lines]


def packets(calls: Iterable[Call], kind: Kind) -> dict[int, Packet]:
    """Return what the coordinator got of a kind of message, by the sender's index."""
    held = (
        packet_from_bytes(bytes.fromhex(call["given"][0]))
        for call in calls
        if (call["at"], call["call"]) == (HUB, "receive")
    )
    return {int(one.envelope.sender.removeprefix("site")): one for one in held if one.envelope.kind is kind}
