"""What is not in the messages' meaning: generators, moments, sizes, logs, disks, bytes (A7, A13, A19, A20, A21, A23)."""

import asyncio
import pickle
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import structlog
from google.protobuf.message import Message as Wire
from structlog.testing import capture_logs

from cohortsum.crypto import masks
from cohortsum.crypto.encoding import number
from cohortsum.crypto.errors import CohortsumError, RemoteProtocolError, StudyFileError
from cohortsum.crypto.masks import Vector, add_masks, expand
from cohortsum.crypto.secret import SecretBytes
from cohortsum.node import client
from cohortsum.node.client import NodeClient
from cohortsum.node.joining import Site
from cohortsum.node.session import StudySession
from cohortsum.protocol import codec
from cohortsum.protocol.codec import envelope_to_wire
from cohortsum.protocol.coordinator_states import Aborted
from cohortsum.protocol.effects import Send
from cohortsum.protocol.envelope import MESSAGE, Signer
from cohortsum.protocol.messages import Abort, Advert, Envelope, Kind, Packet, Tombstone
from cohortsum.protocol.seeds import self_mask_key
from cohortsum.study.planning import StudyPlan
from cohortsum.wire.v1 import round_pb2, service_pb2
from tests.attacks.hand import Hand
from tests.attacks.served import Answering, serve
from tests.attacks.sessions import Homes, Sessions
from tests.attacks.sites import Machines
from tests.attacks.test_study_attacks import signed_by_a_statistician
from tests.edges.harness import Loopback, study_with
from tests.leaks.planted import Needle, needles_of, people
from tests.leaks.scan import found, places_in
from tests.leaks.story import failing
from tests.leaks.watched import Kept, WatchedTown, watching
from tests.life.town import LIMIT_S, study_of
from tests.protocol.consortium import Consortium
from tests.slow_crypto import mask_words

# A7


def test_attack_a07_the_disk_of_a_coordinator_whose_sites_dropped_below_the_threshold(tmp_path: Path) -> None:
    """Four of seven sent their vectors, five are needed: nothing is opened, and no file holds a vector that was sent."""
    held, left = list[tuple[str, bytes]](), list[tuple[str, bytes]]()

    async def play() -> bytes:
        async with Loopback(tmp_path, 7, study_with(min_sites="5")) as town:
            for index in (1, 2, 3):
                town.leave_after(f"site{index}", "SHARES")
            ending = town.start()
            await town.until(lambda: town.times("UPLOAD") == 4)
            held.extend(places_in(tmp_path / "spool"))
            machine = town.runner.machine
            town.runner.expire()
            async with asyncio.timeout(LIMIT_S):
                while (tmp_path / "spool").exists() and [*(tmp_path / "spool").rglob("*.words")]:
                    await asyncio.sleep(0.01)
                assert isinstance(machine.state, Aborted)
                assert machine.state.reason == "4 sites sent their masked vectors, 5 are required"
                await town.runner.stop("withdrawn", "the test ends it")
                assert (await ending).document is None
            left.extend(place for place in places_in(tmp_path) if not place[0].startswith("site"))
            return b"".join(data for what, data in town.wire.packets("site6") if what == "UPLOAD")

    with capture_logs():
        words = service_pb2.UploadChunk.FromString(asyncio.run(play())).words
    assert len(words) > 100
    assert any(name.endswith(".words") for name, _ in held)  # it was on the disk, under a key in memory
    assert any(name.startswith("coordinator.db") for name, _ in left)
    assert not [name for name, data in (*held, *left) if words[:16] in data]


# A13

FOLDED = 6
"""Bits that are left of a key, where a library folds it."""


def folded(raw: bytes) -> bytes:
    """Return a key of which only a few bits are left."""
    left = 0
    for byte in raw:
        left ^= byte
    return sha256(bytes([left % 2**FOLDED])).digest()


def bare_vector() -> tuple[np.ndarray[Any, np.dtype[np.uint64]], list[int]]:
    """Return a site's words without its self mask, with two pair masks left, and what is behind them."""
    hand = Hand(Machines(Consortium(3)))
    hand.play()
    seed = hand.loot().seed("data", 1)
    assert seed is not None
    words: Vector = hand.words[1].copy()
    add_masks(words, (), (self_mask_key(hand.context, "data", 1, seed),))
    return words, [11, 2, -2]


def tried(words: Vector) -> list[list[int]]:
    """Try every pair of folded keys, and return what looks like a site's data: a count, and two numbers that cancel."""
    keys = [sha256(bytes([left])).digest() for left in range(2**FOLDED)]
    streams = [np.array(mask_words(key, 3), dtype=np.uint64) for key in keys]  # an AES of the attacker's own
    guesses = ((words + below - above).view(np.int64) for above, below in product(streams, streams))
    return [guess.tolist() for guess in guesses if 0 < guess[0] < 1000 and guess[1] == -guess[2]]


@pytest.mark.parametrize("defended", [True, False])
def test_attack_a13_every_seed_of_the_generator_is_tried(
    monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        honest = masks.keystream_of

        def weak(key: SecretBytes, start: int) -> object:
            return honest(SecretBytes(folded(key.reveal()), "weak"), start)

        monkeypatch.setattr(masks, "keystream_of", weak)
    words, truth = bare_vector()
    assert tried(words) == ([] if defended else [truth])


def test_attack_a13_every_bit_of_the_key_matters() -> None:
    key = sha256(b"key").digest()
    streams = {expand(SecretBytes(key, "key"), 4).tobytes()}
    for bit in range(256):
        flipped = bytes(byte ^ (1 << bit % 8 if at == bit // 8 else 0) for at, byte in enumerate(key))
        streams.add(expand(SecretBytes(flipped, "key"), 4).tobytes())
    assert len(streams) == 257


@pytest.mark.parametrize("modulus", [2, 3, 7, 255, 256])
def test_attack_a13_no_residue_is_rarer_than_another(modulus: int) -> None:
    """Chi-square at one false alarm in 10^9 or fewer, the first and the last residue with the others."""
    words = expand(SecretBytes(sha256(b"residues").digest(), "key"), 200_000)
    residues: list[int] = (words % np.uint64(modulus)).tolist()
    counts = Counter(residues)
    expected = len(words) / modulus
    chi = sum((counts[residue] - expected) ** 2 / expected for residue in range(modulus))
    assert set(counts) == set(range(modulus))
    freedom = modulus - 1
    assert chi < freedom + 6.5 * (2 * freedom) ** 0.5 + 45


# A19

TICK_S = 0.1


class Moments:
    """A clock that moves only when something takes time."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def now(self, _zone: object) -> SimpleNamespace:
        return SimpleNamespace(timestamp=lambda: self.now_s)

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Slow:
    """A session whose arithmetic takes the longer, the more bits of a secret are set."""

    tick_s = TICK_S

    def __init__(self, clock: Moments, weights: Iterable[int]) -> None:
        self._clock, self._weights = clock, list(weights)

    def handle(self, packet: Packet) -> tuple[Send, ...]:
        self._clock.now_s += 0.9e-6 + 35e-6 * self._weights.pop(0)
        return (Send(packet),)


class Line:
    """Hands out packets and notes when answers arrive."""

    def __init__(self, clock: Moments, packet: Packet, rounds: int) -> None:
        self._clock, self._left = clock, rounds
        self._packet = round_pb2.Packet(envelope=envelope_to_wire(packet.envelope))
        self.arrived: list[float] = []

    async def call(self, call: Callable[["Line"], Awaitable[object]]) -> object:
        return await call(self)

    async def Next(self, request: service_pb2.NextRequest, timeout: float) -> service_pb2.NextReply:
        del timeout
        self._clock.now_s = 1_000_000.0 + 1000 * (request.after + 1) + 0.01
        if not self._left:
            return service_pb2.NextReply(over=True)
        self._left -= 1
        return service_pb2.NextReply(number=request.after + 1, packet=self._packet)

    async def Submit(self, request: round_pb2.Packet, timeout: float) -> service_pb2.SubmitReply:
        del request, timeout
        self.arrived.append(round(self._clock.now_s % TICK_S, 9))
        return service_pb2.SubmitReply()


def at_once(*_: object) -> float:
    """Wait for nothing."""
    return 0.0


@pytest.mark.parametrize("defended", [True, False])
def test_attack_a19_the_weight_of_a_secret_is_read_off_the_moment_of_the_answer(
    monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    clock, weights = Moments(), [0, 1, 64, 128, 200, 255]
    packet = Packet(Consortium(3).signers[0].sign(bytes(32), Tombstone()))
    line = Line(clock, packet, len(weights))
    loop = SimpleNamespace(**{name: getattr(asyncio, name) for name in dir(asyncio)})
    loop.sleep = clock.sleep
    monkeypatch.setattr(client, "asyncio", loop)
    monkeypatch.setattr(client, "datetime", clock)
    if not defended:
        monkeypatch.setattr(client, "until_tick", at_once)
    node = NodeClient(cast("Any", line), cast("Any", Slow(clock, weights)), "site0")
    asyncio.run(node.follow(bytes(32)))
    assert len(line.arrived) == len(weights)
    if defended:
        assert max(line.arrived) - min(line.arrived) < 1e-6
    else:
        assert line.arrived == sorted(line.arrived)
        assert len(set(line.arrived)) == len(weights)


# A20


def table_of(rows: int, dx: str, age: str, thick: str) -> Callable[[Site], Site]:
    """Return a site whose people all have the same values."""

    def change(site: Site) -> Site:
        (table,) = site.tables.tables.values()
        assert table.path is not None
        lines = [f"person-{row:05d},{dx if row else 'control'},{age},{thick}" for row in range(rows)]
        table.path.write_text("\n".join(("id,dx,age,thick", *lines)) + "\n")
        return site

    return change


EXTREMES = {
    "few at the lower end": table_of(2, "control", "0", "0"),
    "many at the upper end": table_of(600, "case", "100", "5"),
    "an outcome that nobody has": table_of(40, "case", "50", ""),
}


def test_attack_a20_what_a_site_sends_has_the_same_sizes_whatever_its_data(tmp_path: Path) -> None:
    async def trace(name: str) -> dict[str, set[int]]:
        sizes: dict[str, set[int]] = {}
        async with Loopback(tmp_path / name, 4, change={2: EXTREMES[name]}) as town:
            outcome = await town.run()
            assert outcome.document is not None, outcome.reason
            for what, data in town.wire.packets("site2"):
                sizes.setdefault(what, set()).add(len(data))
        return sizes

    with capture_logs():
        traces = [asyncio.run(trace(name)) for name in EXTREMES]
    always = {"APPROVAL", "ADVERT", "SHARES", "MASKED", "UPLOAD", "CONSISTENCY"}
    for kind in sorted(always):
        assert len({frozenset(sizes[kind]) for sizes in traces}) == 1, kind
    for late in ("GATE_SHARES", "DATA_SHARES"):  # not asked for where t others were faster
        assert len({frozenset(sizes[late]) for sizes in traces if late in sizes}) <= 1


# A21


def test_attack_a21_values_are_searched_for_in_what_a_failing_consortium_writes(tmp_path: Path) -> None:
    """One table is broken, and a statistic crashes with a row in its message. `tests/leaks` has all paths.

    The same search finds what a careless caller logs.
    """
    kept, sites = Kept(), range(4)
    one, broken = people(1)[0], people(3)[0]

    async def play() -> None:
        async with WatchedTown(tmp_path, kept, 4) as town:
            town.write_table(3, lambda text: text.replace(f"{broken.age}", f"about {broken.age}"))
            town.start_nodes()
            study = await town.submit(study_of("crash"))
            crash = ValueError(f"could not convert string to float: '{one.age}' ({one.id})")
            with failing(StudyPlan, "contribution", crash):
                for index in sites:
                    town.decide(index, study)
                await town.hears(3, study, "stays out")
                await town.until(lambda: '"error": "ValueError"' in kept.log.getvalue())
            await town.scrape()
            town.write_table(3)

    planted = [tmp_path / f"site{index}" / "people.csv" for index in sites]
    with watching(kept):
        asyncio.run(play())
        places = [*places_in(tmp_path, planted), *kept.places()]
        structlog.get_logger().warning("careless", sentence=f"the row of {one.id}")
    assert '"event": "study.stays_out"' in kept.log.getvalue()
    assert found(places, needles_of(sites)) == {}
    assert set(found(kept.places(), needles_of(sites))) == {"log"}
    seeds = [Needle("a seed", seed.hex().encode()) for dealt in kept.dealt for seed in dealt]
    assert len(seeds) >= 9
    assert found([("log", kept.log.getvalue().encode()), *places_in(tmp_path, planted)], seeds) == {}


# A23


def signed_raw(signer: Signer, context: bytes, kind: Kind, payload: bytes) -> Packet:
    """Return bytes that no codec made, truly signed."""
    sender = signer.identity.id
    signature = signer.key.sign(MESSAGE, context, number(kind), sender.encode(), payload)
    return Packet(Envelope(context, kind, sender, payload, signature))


class Exploit:
    """What unpickling would do."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return (pytest.fail, ("a peer's bytes were unpickled",))


def hostile_payloads(true: bytes) -> dict[str, bytes]:
    """Return what a decoder must refuse; ``true`` is a payload that it takes."""
    return {
        "nothing but a length of 2^40": b"\x0a\xff\xff\xff\xff\xff\x1f",
        "groups in groups": b"\x0b" * 10_000,
        "a field twice": true + true,
        "an unknown field": true + b"\xf8\x07\x01",
        "cut": true[:-1],
        "a pickle": pickle.dumps(Exploit()),
        "not a number": b"\x09\x00\x00\x00\x00\x00\x00\xf8\x7f",
        "32 MiB and a byte": bytes(codec.MAX_PAYLOAD_BYTES + 1),
    }


def test_attack_a23_bytes_that_are_no_message_truly_signed_and_sent_to_nodes(tmp_path: Path) -> None:
    """They cost nothing but themselves: the attempt that is open goes on."""

    def script(sites: Answering) -> None:
        hand = Hand(sites)
        hand.open()
        _, true = codec.encode(Abort("over"))
        for kind in (Kind.ADVERTS, Kind.ABORT, Kind.GATE_OPENING, Kind.CLOSING):
            for name, payload in hostile_payloads(true).items():
                if kind is Kind.ADVERTS or len(payload) < 10**6:
                    reply = sites.tell(0, signed_raw(sites.hub, hand.context, kind, payload))
                    assert (reply.refused, reply.sends) == ("M2", ()), name
        for step in (hand.show_adverts, hand.deliver, hand.show_survivors, hand.show_quorum, hand.open_gate):
            step()
        assert hand.opened().keys() == {frozenset(range(5))}

    serve(tmp_path, script)


def test_attack_a23_a_decoder_needs_no_more_memory_than_a_few_times_what_it_is_given() -> None:
    for payload in hostile_payloads(codec.encode(Abort("over"))[1]).values():
        for kind in Kind:
            tracemalloc.start()
            with pytest.raises(RemoteProtocolError, match="M2"):
                codec.decode(kind, payload)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 10 * len(payload) + 10**6


@pytest.mark.parametrize("defended", [True, False])
def test_attack_a23_a_counter_beyond_what_a_ledger_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    """One hostile site's advert would stop every honest node that writes it down."""
    if not defended:
        monkeypatch.setattr(codec, "MAX_COUNTER", 2**64)
    with Homes(tmp_path, 5) as homes, Sessions(homes) as sites:
        hand = Hand(sites)
        hand.open()
        true = hand.sent[Kind.ADVERT][0]
        advert = codec.decode(Kind.ADVERT, true.envelope.payload)
        assert isinstance(advert, Advert)
        lie = homes.sites[0].signer.sign(hand.context, replace(advert, counter=2**64 - 1))
        hand.sent[Kind.ADVERT][0] = Packet(lie)
        if not defended:
            with pytest.raises(OverflowError):
                hand.show_adverts(to=(1,))
            return
        assert {reply.refused for reply in hand.show_adverts(to=(1, 2, 3, 4)).values()} == {"M2"}
        again = Hand(sites, "again", attempt=2)
        again.play()
        assert again.opened().keys() == {frozenset(range(5))}


def lenient(held: Wire, data: bytes) -> None:
    """Read what protobuf reads."""
    held.ParseFromString(data)


def test_attack_a23_succeeds_where_other_encodings_of_a_message_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A field twice says two things: the one that this reader takes, and the one that another takes."""
    payload = codec.encode(Abort("one"))[1] + codec.encode(Abort("two"))[1]
    with pytest.raises(RemoteProtocolError, match="M2"):
        codec.decode(Kind.ABORT, payload)
    monkeypatch.setattr(codec, "_parse", lenient)
    assert codec.decode(Kind.ABORT, payload) == Abort("two")


@pytest.mark.parametrize(
    "canonical",
    [
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"study":NaN}',
        b'{"study":"a","study":"b"}',
        b"\xff\xfe",
        pickle.dumps(Exploit()),
        b" " * 100_000_000,
    ],
    ids=["deep", "not a number", "a key twice", "no text", "a pickle", "a hundred megabytes"],
)
def test_attack_a23_a_study_that_is_no_study_truly_signed(tmp_path: Path, canonical: bytes) -> None:
    with Homes(tmp_path, 3) as homes:
        session = StudySession(homes.sites[0])
        with pytest.raises(StudyFileError) as error:
            session.consider(signed_by_a_statistician(canonical))
        assert isinstance(error.value, CohortsumError)
        session.close()
