"""Both state machines under packets that an adversary with other parties' keys sends them, in any state.

A *scene* is one honest round of one machine, stopped before every event of it. A case takes the machine as it is there, sends it some
packets, and looks:

- whatever is refused is refused by a check of the protocol and leaves the state as it was, secrets included;
- what the machine has answered before it answers with the same bytes;
- after nothing but refusals it finishes the honest round, with the effects that it has without them.

At the site the adversary has the keys of the coordinator and of every other site, at the coordinator those of all sites.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, cast

import numpy as np

from cohortsum.crypto.errors import LocalProtocolError, RemoteProtocolError
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.approvals import ApprovalBook
from cohortsum.protocol.coordinator import STEPS, CoordinatorRound, Disclosure, keep_closed
from cohortsum.protocol.coordinator_states import Opened
from cohortsum.protocol.effects import Audit, Contribute, SiteEffect
from cohortsum.protocol.messages import Kind, Packet
from cohortsum.protocol.site import SiteRound
from cohortsum.protocol.site_states import Over
from tests.fuzz.packets import Signers, changed
from tests.fuzz.target import Reader, Target
from tests.protocol.consortium import Consortium
from tests.protocol.iterations import Attempted, after, first

VICTIM = 1
GONE = 3
"""Leaves before its masked input, in scenes of four sites: its mask seed is opened."""
PACKETS = 4
"""Most packets of a case."""
FINISHED = 16
"""One case of so many plays the round to its end."""
Event = Callable[[Any], object]
"""Something that happens to a machine; returns its effects."""


def fingerprint(*values: object) -> bytes:
    """Return a digest of everything in values, secrets included."""
    hasher = hashlib.sha256()
    _feed(hasher.update, values)
    return hasher.digest()


def _feed(update: Callable[[bytes], None], value: object) -> None:
    match value:
        case SecretBytes():
            update(b"secret" + (value.reveal() if len(value) else b"wiped"))
        case bytes() | str() | int() | float() | Enum() | None:
            update(repr(value).encode())
        case np.ndarray():
            update(cast("Vector", value).tobytes())
        case ApprovalBook():
            pass  # what it has read before changes nothing
        case Mapping():
            held = cast("Mapping[Any, object]", value)
            update(b"{%d" % len(held))
            for key in held:
                _feed(update, key)
                _feed(update, held[key])
        case frozenset() | set():
            _feed(update, sorted(cast("frozenset[Any]", value)))
        case tuple() | list():
            items = cast("Sequence[object]", value)
            update(b"(%d" % len(items))
            for item in items:
                _feed(update, item)
        case _ if is_dataclass(value):
            update(type(value).__name__.encode())
            for field in fields(value):
                _feed(update, getattr(value, field.name))
        case _:
            update(type(value).__name__.encode())  # keys, whose public half stands beside them


def copied(value: Any) -> Any:
    """Return a value in which every secret is a copy, so that one case's wiping leaves the next one its own."""
    match value:
        case SecretBytes():
            return SecretBytes(value.reveal() if len(value) else b"", "copied secret")
        case dict():
            held = cast("dict[Any, object]", value)
            parts = {key: copied(part) for key, part in held.items()}
            return parts if any(parts[key] is not held[key] for key in held) else held
        case tuple():
            items = cast("tuple[object, ...]", value)
            copies = tuple(map(copied, items))
            return copies if any(one is not two for one, two in zip(items, copies, strict=True)) else items
        case _ if is_dataclass(value) and not isinstance(value, type):
            named = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            new = {name: copied(part) for name, part in named.items()}
            mutable = type(value).__name__ == "Ahead"
            return (
                replace(value, **new)
                if mutable or any(new[name] is not named[name] for name in new)
                else value
            )
        case _:
            return value


@dataclass(frozen=True)
class Moment:
    """A machine before an event: how to make it, what happens next, what comes of that, and the packet if it is one."""

    make: Callable[[], Any]
    event: Event
    effects: bytes
    packet: Packet | None = None


@dataclass(frozen=True)
class Scene:
    """One honest round of one machine.

    Attributes:
        moments: in their order.
        packets: what a case begins with: this machine's, those of others, and those of another round.
        signers: the keys that the adversary has.
        sound: given the machine after the honest round, raises unless it ended as it must.
    """

    moments: tuple[Moment, ...]
    packets: tuple[Packet, ...]
    signers: Signers
    sound: Callable[[Any], None]


def _signers(consortium: Consortium, *, without: str = "") -> Signers:
    """Return the signers of everybody, the coordinator included, but one."""
    held = {signer.identity.id: signer for signer in consortium.signers.values()}
    hub = consortium.coordinator.setup.signer
    return {name: one for name, one in {**held, hub.identity.id: hub}.items() if name != without}


def _leaving(consortium: Consortium) -> None:
    def before_send(index: int, packet: Packet) -> bool:
        if index == GONE and packet.envelope.kind is Kind.MASKED:
            consortium.down.add(GONE)
            return False
        return True

    consortium.before_send = before_send


def _rounds() -> list[Callable[[], Consortium]]:
    """Return what makes the consortia of the scenes, not run yet: a round with a dropout, and iterations of a fit."""

    def plain() -> Consortium:
        consortium = Consortium(4)
        _leaving(consortium)
        return consortium

    def seen() -> Consortium:
        return first(sites=3)

    def dealing() -> Consortium:
        one = cast("Attempted", seen())
        one.run()
        return after(one, ahead=2)

    def slot() -> Consortium:
        one = cast("Attempted", dealing())
        one.run()
        return after(one)

    return [plain, seen, dealing, slot]


@cache
def foreign() -> tuple[Packet, ...]:
    """Return the packets of another round of the same study, both ways."""
    consortium = Consortium(4, seed="another")
    consortium.run()
    return tuple(packet for _, _, packet in consortium.log)


class _Draws:
    """`stream` of the consortium with a place that can be noted."""

    def __init__(self, seed: str, drawn: int = 0) -> None:
        self.seed, self.drawn = seed, drawn

    def __call__(self, size: int) -> bytes:
        self.drawn += 1
        return hashlib.shake_256(f"{self.seed}/{self.drawn}".encode()).digest(size)


class _Recording(CoordinatorRound):
    """Notes every event of a round with the machine as it was before."""

    moments: list[Moment]

    def _note(self, event: Event, packet: Packet | None = None) -> Any:
        held = {**vars(self), "_received": dict(vars(self)["_received"])}

        def make() -> CoordinatorRound:
            machine = CoordinatorRound.__new__(CoordinatorRound)
            vars(machine).update(held, _received=dict(held["_received"]))
            return machine

        plain = make()
        effects = event(plain)
        self.moments.append(Moment(make, event, fingerprint(effects), packet))
        vars(self).update(vars(plain))
        return effects

    def receive(self, packet: Packet) -> Any:
        return self._note(lambda machine: machine.receive(packet), packet)

    def uploaded(self, site: int, data_digest: bytes) -> Any:
        return self._note(lambda machine: machine.uploaded(site, data_digest))

    def deadline_passed(self, step: str, final: bool = True) -> Any:
        return self._note(lambda machine: machine.deadline_passed(step, final))

    def combined(self, words: Vector, disclosed: Disclosure = keep_closed) -> Any:
        kept = words.copy()
        return self._note(lambda machine: machine.combined(kept.copy(), disclosed))


def _at_coordinator(consortium: Consortium) -> Scene:
    recording = _Recording(consortium.coordinator.setup, consortium.coordinator_key)
    recording.moments = []
    consortium.coordinator = recording
    consortium.run()

    def sound(machine: CoordinatorRound) -> None:
        state = machine.state
        assert isinstance(state, Opened)
        assert state.values.tolist() == consortium.expected(state.survivors)

    sent = tuple(packet for where, _, packet in consortium.log if where == "coordinator")
    return Scene(tuple(recording.moments), (*sent, *foreign()), _signers(consortium, without="hub"), sound)


def _at_site(consortium: Consortium) -> Scene:
    ahead = copied(getattr(consortium, "held", {}).get(VICTIM))
    consortium.run()
    received = [packet for where, index, packet in consortium.log if (where, index) == ("site", VICTIM)]
    setup = replace(consortium.machines[VICTIM].setup, ahead=ahead)
    draws = _Draws(f"{consortium.seed}/{VICTIM}/{consortium.attempt}")
    machine = SiteRound(setup, draws)
    moments: list[Moment] = []

    def note(event: Event, packet: Packet | None = None) -> Any:
        state, ahead = copied(machine.state), copied(machine.setup.ahead)
        answers, drawn = dict(vars(machine)["_answers"]), draws.drawn

        def make() -> SiteRound:
            one = SiteRound(replace(setup, ahead=copied(ahead)), _Draws(draws.seed, drawn))
            one.state = copied(state)
            vars(one)["_answers"] = dict(answers)
            return one

        moments.append(Moment(make, event, fingerprint(event(make())), packet))
        return event(machine)

    def receiving(packet: Packet) -> Event:
        return lambda one: one.receive(packet)

    for packet in received:
        effects: tuple[SiteEffect, ...] = note(receiving(packet), packet)
        for effect in effects:
            if isinstance(effect, Contribute):
                length = sum(block.size for block in effect.blocks)

                def contribute(one: SiteRound, length: int = length) -> object:
                    return one.contribute(consortium.people(VICTIM), consortium.values(VICTIM, length))

                note(contribute)

    def sound(machine: SiteRound) -> None:
        assert isinstance(machine.state, Over)

    sent = tuple(packet for where, _, packet in consortium.log if where == "site")
    name = f"site{VICTIM}"
    return Scene(tuple(moments), (*received, *sent, *foreign()), _signers(consortium, without=name), sound)


@cache
def site_scenes() -> tuple[Scene, ...]:
    """Return the scenes of a site."""
    return tuple(_at_site(make()) for make in _rounds())


@cache
def coordinator_scenes() -> tuple[Scene, ...]:
    """Return the scenes of the coordinator."""
    return tuple(_at_coordinator(make()) for make in _rounds())


def _site(data: bytes) -> None:
    reader = Reader(data)
    scene = reader.pick(site_scenes())
    finish, place = reader.byte() % FINISHED == 0, reader.byte() % len(scene.moments)
    machine: SiteRound = scene.moments[place].make()
    before, altered = _held(machine), False
    for _ in range(1 + reader.byte() % PACKETS):
        packet = _packet(reader, scene, place)
        try:
            effects = machine.receive(packet)
        except RemoteProtocolError as error:
            effects = machine.complain(error)
            refused = True
        else:
            refused = False
        now = _held(machine)
        if refused:
            assert now == before, "a packet was refused and left another state"
        elif now == before:  # answered before
            assert fingerprint(machine.receive(packet)) == fingerprint(effects)
        before, altered = now, altered or now != before
    if finish and not altered:
        _finish(scene, place, machine)


def _coordinator(data: bytes) -> None:
    reader = Reader(data)
    scene = reader.pick(coordinator_scenes())
    finish, place = reader.byte() % FINISHED == 0, reader.byte() % len(scene.moments)
    machine: CoordinatorRound = scene.moments[place].make()
    before, altered = _held(machine), False
    for _ in range(1 + reader.byte() % PACKETS):
        if reader.byte() % 16 == 15:  # what the edge reports, at any time
            machine.deadline_passed(reader.pick(tuple(STEPS.values())), final=reader.byte() % 2 == 0)
            machine.uploaded(reader.byte(), reader.take(32))
            before, altered = _held(machine), True
            continue
        packet = _packet(reader, scene, place)
        effects = machine.receive(packet)
        if not effects or (len(effects) == 1 and isinstance(effects[0], Audit)):
            assert _held(machine) == before, f"a refused packet left another state: {effects}"
            continue
        before, altered = _held(machine), True
    if not altered and finish:
        _finish(scene, place, machine)
    elif finish:  # whatever was taken in: no later event may be met by anything but effects
        for moment in scene.moments[place:]:
            try:
                moment.event(machine)
            except LocalProtocolError:  # a sum that is not awaited any more
                continue


def _packet(reader: Reader, scene: Scene, place: int) -> Packet:
    """Return what a case makes of the packet that is awaited, or of any other."""
    awaited = scene.moments[place].packet
    other = reader.byte() % 2 == 1
    return changed(
        reader,
        reader.pick(scene.packets) if other or awaited is None else awaited,
        scene.packets,
        scene.signers,
    )


def _held(machine: SiteRound | CoordinatorRound) -> bytes:
    """Return a digest of a machine's state and of what it remembers having answered or received."""
    known = vars(machine)["_answers" if isinstance(machine, SiteRound) else "_received"]
    ahead = machine.setup.ahead if isinstance(machine, SiteRound) else 0
    return fingerprint(machine.state, ahead, {key: known[key] for key in sorted(known)})


def _finish(scene: Scene, place: int, machine: Any) -> None:
    for moment in scene.moments[place:]:
        assert fingerprint(moment.event(machine)) == moment.effects, "an honest event has other effects now"
    scene.sound(machine)


TARGETS = (
    Target("site-round", _site, size=512, examples=60),
    Target("coordinator-round", _coordinator, size=512, examples=60),
)
