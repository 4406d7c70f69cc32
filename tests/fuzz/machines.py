"""Both state machines under packets that an adversary with other parties' keys sends them, in any state.

A case takes a machine at some moment of an honest round (`scenes`), sends it some packets, and looks:

- whatever is refused is refused by a check of the protocol and leaves the state as it was, secrets included;
- what the machine has answered before it answers with the same bytes;
- after nothing but refusals it finishes the honest round, with the effects that it has without them.

At the site the adversary has the keys of the coordinator and of every other site, at the coordinator those of all sites.
"""

from typing import Any

from cohortsum.crypto.errors import LocalProtocolError, RemoteProtocolError
from cohortsum.protocol.coordinator import STEPS, CoordinatorRound
from cohortsum.protocol.effects import MessageTaken
from cohortsum.protocol.messages import Packet
from cohortsum.protocol.site import SiteRound
from tests.fuzz.packets import changed
from tests.fuzz.scenes import Scene, coordinator_scenes, fingerprint, remembered, site_scenes
from tests.fuzz.target import Reader, Target

PACKETS = 4
"""Most packets of a case."""
FINISHED = 16
"""One case of so many plays the round to its end."""


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
            machine.prove(packet, machine.setup.roster)
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
        if not any(isinstance(effect, MessageTaken) for effect in effects):
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
    ahead = machine.setup.ahead if isinstance(machine, SiteRound) else 0
    kept = {
        name: {key: held[key] for key in sorted(held)} for name, held in sorted(remembered(machine).items())
    }
    return fingerprint(machine.state, ahead, kept)


def _finish(scene: Scene, place: int, machine: Any) -> None:
    for moment in scene.moments[place:]:
        assert fingerprint(moment.event(machine)) == moment.effects, "an honest event has other effects now"
    scene.sound(machine)


TARGETS = (
    Target("site-round", _site, size=512, examples=60),
    Target("coordinator-round", _coordinator, size=512, examples=60),
)
