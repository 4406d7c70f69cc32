"""The parts of the limits one by one: buckets on a clock that the test moves, addresses, places at the edge, the keys of the file."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.coordinator.addresses import is_allowed, metered, parse_network, peer_address
from cohortsum.coordinator.buckets import Bucket, Meters
from cohortsum.coordinator.config import load_coordinator_config
from cohortsum.coordinator.limits import ADDRESSES, AS_BUILT, HELD, WINDOW_BYTES, Limits, server_options
from cohortsum.coordinator.mailbox import MOST, Mailbox
from cohortsum.coordinator.metrics import Tally
from cohortsum.coordinator.slots import POLLS, Slots
from cohortsum.coordinator.spool import LEAST_CHUNK_BYTES, SPARE_CHUNKS, Spool
from cohortsum.crypto.errors import LimitError, RefusedError, RemoteProtocolError
from cohortsum.protocol.limits import MAX_REQUEST_BYTES
from cohortsum.protocol.masking import words_hasher
from cohortsum.protocol.messages import Envelope, Kind, Packet
from tests.coordinator.test_config import GOOD, refusal, written


class Hand:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def test_a_bucket_gives_its_burst_and_then_what_comes_in() -> None:
    clock = Hand()
    bucket = Bucket(2.0, 5, clock)
    for _ in range(5):
        assert bucket.wait_s(1) == 0
        bucket.take(1)
    assert bucket.wait_s(1) == 0.5
    clock.s = 0.25
    assert bucket.wait_s(1) == 0.25
    clock.s = 0.5
    assert bucket.wait_s(1) == 0
    bucket.take(1)
    assert bucket.wait_s(1) == 0.5


def test_a_debt_is_paid_off_before_anything_is_given() -> None:
    clock = Hand()
    bucket = Bucket(10.0, 100, clock)
    bucket.take(350)  # 250 more than it had
    assert bucket.wait_s(1) == pytest.approx(25.1)
    clock.s = 25.1
    assert bucket.wait_s(1) == pytest.approx(0, abs=1e-9)


def test_a_bucket_never_holds_more_than_its_burst_and_what_costs_more_waits_for_a_full_one() -> None:
    clock = Hand()
    bucket = Bucket(1.0, 3, clock)
    clock.s = 1e9
    assert bucket.wait_s(10) == 0
    bucket.take(10)
    assert bucket.wait_s(10) == 10


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(1, 5)), max_size=60))
def test_over_any_time_no_more_is_given_than_burst_and_rate_allow(steps: list[tuple[float, int]]) -> None:
    clock, given_out = Hand(), 0
    bucket = Bucket(3.0, 7, clock)
    for pause_s, tokens in steps:
        clock.s += pause_s
        if bucket.wait_s(tokens) == 0:
            bucket.take(tokens)
            given_out += tokens
        assert given_out <= 7 + 3.0 * clock.s + 1e-6


def test_addresses_are_forgotten_when_they_were_quiet_for_longest() -> None:
    meters = Meters(AS_BUILT, Hand())
    first = meters.of_address("first")
    first.calls.take(17)
    for number in range(ADDRESSES - 1):
        meters.of_address(f"address {number}")
    assert meters.of_address("first") is first  # seen again: the newest now
    meters.of_address("one more")
    assert meters.of_address("first") is first
    before = meters.of_address("address 1")
    for number in range(ADDRESSES):
        meters.of_address(f"other {number}")
    assert meters.of_address("first") is not first
    assert meters.of_address("address 1") is not before


def test_an_identity_keeps_its_meter() -> None:
    meters = Meters(AS_BUILT, Hand())
    assert meters.of_caller("amc") is meters.of_caller("amc")
    assert meters.of_caller("amc") is not meters.of_caller("umc")
    assert meters.of_caller("amc") is not meters.of_address("amc")


@pytest.mark.parametrize(
    ("peer", "address", "counted_as"),
    [
        ("ipv4:192.0.2.7:50000", "192.0.2.7", "192.0.2.7"),
        ("ipv6:%5B2001:db8::17%5D:50000", "2001:db8::17", "2001:db8::/64"),
        ("ipv6:[2001:db8:0:1::17]:50000", "2001:db8:0:1::17", "2001:db8:0:1::/64"),
        ("ipv6:[::ffff:192.0.2.7]:50000", "192.0.2.7", "192.0.2.7"),
        ("ipv6:%5Bfe80::1%25eth0%5D:50000", "fe80::1", "fe80::/64"),
        ("unix:/run/hub.sock", "None", "unknown"),
        ("ipv4:nonsense", "None", "unknown"),
        ("", "None", "unknown"),
    ],
)
def test_a_peer_has_the_address_that_grpc_names(peer: str, address: str, counted_as: str) -> None:
    assert str(peer_address(peer)) == address
    assert metered(peer_address(peer)) == counted_as


@pytest.mark.parametrize(
    ("peer", "allow", "allowed"),
    [
        ("ipv4:192.0.2.255:1", ["192.0.2.0/24"], True),
        ("ipv4:192.0.3.0:1", ["192.0.2.0/24"], False),
        ("ipv4:192.0.3.0:1", ["192.0.2.0/24", "192.0.3.0/32"], True),
        ("ipv4:192.0.2.9:1", ["192.0.2.9"], True),
        ("ipv4:192.0.2.10:1", ["192.0.2.9"], False),
        ("ipv6:[::ffff:192.0.2.9]:1", ["192.0.2.0/24"], True),
        ("ipv6:[2001:db8:ffff::1]:1", ["2001:db8::/32"], True),
        ("ipv6:[2001:db9::1]:1", ["2001:db8::/32", "0.0.0.0/0"], False),
        ("unix:/run/hub.sock", ["0.0.0.0/0", "::/0"], False),
        ("unix:/run/hub.sock", [], True),
        ("ipv4:192.0.2.9:1", [], True),
    ],
)
def test_an_address_may_call_from_a_listed_network_or_where_no_list_is(
    peer: str, allow: list[str], allowed: bool
) -> None:
    assert is_allowed(peer_address(peer), [parse_network(text) for text in allow]) is allowed


def kept(folder: Path, study: str, attempt: str, site: int, size: int) -> Path:
    home = folder / study / attempt
    home.mkdir(parents=True, exist_ok=True)
    (home / f"{site}.words").write_bytes(bytes(size))
    return home / f"{site}.words"


def test_kept_uploads_open_ones_and_the_next_stay_below_the_quota_together(tmp_path: Path) -> None:
    slots = Slots(tmp_path, 1000)
    kept(tmp_path, "a", "1", 7, 300)
    path = kept(tmp_path, "b", "1", 7, 200)
    kept(tmp_path, "b", "1", 8, 5000)  # another site's
    (tmp_path / "b" / "1" / "7.words.abcd.part").write_bytes(bytes(10_000))  # counted as what it may become
    with slots.upload(7, b"one", 100):
        with slots.upload(7, b"two", 400):
            pass
        with pytest.raises(LimitError, match="more than 1000 bytes") as caught, slots.upload(7, b"two", 401):
            pass
        assert (caught.value.limit, caught.value.retry_after_s) == ("spool_bytes", 10.0)
        with slots.upload(9, b"one", 1000):
            pass
    path.unlink()
    with slots.upload(7, b"two", 700):
        pass


def test_a_place_is_free_again_however_an_upload_ends(tmp_path: Path) -> None:
    slots = Slots(tmp_path, 1000)

    def broken_off() -> None:
        with slots.upload(7, b"one", 1000):
            with pytest.raises(LimitError, match="one at a time"), slots.upload(7, b"one", 1):
                pass
            with slots.upload(8, b"one", 1000):
                pass
            raise RefusedError("broken off")

    with pytest.raises(RefusedError):
        broken_off()
    with slots.upload(7, b"one", 1000):
        pass


def test_polls_are_counted_per_site_and_study(tmp_path: Path) -> None:
    slots = Slots(tmp_path, 1)
    held = [slots.poll(7, b"study") for _ in range(POLLS)]
    for poll in held:
        poll.__enter__()
    with pytest.raises(LimitError, match="run one node per key"), slots.poll(7, b"study"):
        pass
    with slots.poll(7, b"other study"), slots.poll(8, b"study"):
        pass
    held.pop().__exit__(None, None, None)
    with slots.poll(7, b"study"):
        pass


def test_an_upload_has_a_chunk_for_every_few_kilobytes_and_no_more(tmp_path: Path) -> None:
    length = LEAST_CHUNK_BYTES  # in words: room for eight chunks beside the spare ones
    upload, hasher = Spool(tmp_path, length).receive(0), words_hasher(8 * length)
    for _ in range(SPARE_CHUNKS + 8):
        upload.add(b"", hasher.digest())
    with pytest.raises(RemoteProtocolError, match="U1: an upload in too many chunks"):
        upload.add(b"", hasher.digest())
    upload.drop()


def test_a_mailbox_holds_the_newest_packets_and_no_more() -> None:
    box = Mailbox()
    for number in range(MOST):
        box.put(Packet(Envelope(bytes(32), Kind.QUORUM, "hub", number.to_bytes(2, "big"), bytes(64))))
    first, last = min(box.packets), box.last
    box.put(Packet(Envelope(bytes(32), Kind.CLOSING, "hub", b"", bytes(64))))
    assert len(box.packets) == MOST
    assert first not in box.packets
    assert box.after(first - 1) == first + 1
    assert box.last == last + 1


def test_refusals_are_counted_by_names_of_the_program_alone() -> None:
    tally = Tally()
    tally.note("Submit", LimitError("a sentence with 7351946", "calls", 2.0))
    tally.note("Submit", RefusedError("a sentence with 7351946"))
    assert tally.limited == {("Submit", "calls"): 1}
    assert tally.refused == {("Submit", "LimitError"): 1, ("Submit", "RefusedError"): 1}


def test_all_comers_and_the_limits_as_built_unless_they_are_set(tmp_path: Path) -> None:
    config = load_coordinator_config(written(tmp_path, GOOD))
    assert (config.allow, config.limits) == ((), AS_BUILT)
    text = (
        GOOD + 'allow: [192.0.2.0/24, "2001:db8::/32", 198.51.100.7]\nlimits: {calls_per_s: 7, studies: 3}\n'
    )
    config = load_coordinator_config(written(tmp_path, text))
    assert [str(network) for network in config.allow] == ["192.0.2.0/24", "2001:db8::/32", "198.51.100.7/32"]
    assert config.limits == Limits(calls_per_s=7, studies=3)
    assert config.limits.calls_at_once == 10


@pytest.mark.parametrize(
    "line",
    [
        "allow: [192.0.2.1/24]",
        "allow: [somewhere.example.org]",
        "allow: 192.0.2.0/24",
        "limits: {calls_per_s: 0}",
        "limits: {calls_per_s: .inf}",
        "limits: {spool_bytes: -7351946}",
        "limits: {connections: 1.5}",
        "limits: {connection: 7351946}",
        "limits: none7351946",
    ],
)
def test_a_bad_network_or_limit_is_refused_by_key_and_not_repeated(tmp_path: Path, line: str) -> None:
    message = refusal(tmp_path, GOOD + line + "\n")
    assert message.startswith(f"coordinator.yaml: {line.partition(':')[0]}")
    assert "7351946" not in message


def test_a_network_with_bits_beyond_its_length_is_told_the_cure() -> None:
    with pytest.raises(ValueError, match=r"such as 192\.0\.2\.0/24 .* no bit set beyond its length"):
        parse_network("192.0.2.1/24")


def test_the_server_is_told_every_limit_that_grpc_has() -> None:
    options = dict(server_options(Limits(studies=3, connections=17)))
    assert options["grpc.max_receive_message_length"] == MAX_REQUEST_BYTES
    assert options["grpc.max_allowed_incoming_connections"] == 17
    assert options["grpc.max_concurrent_streams"] == 10 + HELD
    assert options["grpc.enable_channelz"] == 0
    assert options["grpc.compression_enabled_algorithms_bitset"] == 1
    assert options["grpc.http2.bdp_probe"] == 0


ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_have_every_key_with_its_default_and_every_limit_of_the_metric() -> None:
    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    files = (ROOT / "docs" / "site-files.md").read_text(encoding="utf-8")
    for key in Limits.model_fields:
        assert f"`{key}`" in operations, key
        assert f"`{key}`" in files, key
    section = operations.partition("## Limits")[2].partition("## Monitoring")[0]
    gib, mib = 2**30, 2**20
    limits = AS_BUILT
    for said in (
        f"| {limits.calls_at_once}, which is 2 * (1 + `studies`) + 2 |",
        f"| {limits.uploads_at_once}, which is `studies` + 1 |",
        f"| {limits.calls_per_s:.0f} a second, {limits.calls_burst} at once;",
        f"| {limits.bytes_per_s / mib:.0f} MiB a second, {limits.bytes_burst // gib} GiB at once |",
        f"| {limits.address_calls_per_s:.0f} a second, {limits.address_calls_burst // 1000} 000 at once |",
        f"| {limits.address_bytes_per_s / mib:.0f} MiB a second, {limits.address_bytes_burst // gib} GiB at once |",
        f"| {limits.spool_bytes // gib} GiB | `spool_bytes` |",
        f"| {limits.studies} | `studies` |",
        f"| {limits.connections} | `connections` |",
        f"newest {MOST} packets",
        f"last {ADDRESSES} addresses",
        f"{limits.calls_at_once + HELD} windows of {WINDOW_BYTES // 1024} KiB",
    ):
        assert said in section, said
    row = next(line for line in operations.splitlines() if line.startswith("| `limited_calls_total`"))
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "coordinator").rglob("*.py"))
    named = set(re.findall(r"`(\w+)`", row.partition("(#limits)")[2]))
    of_gate = set(re.findall(r'f"\{prefix\}(\w+)"', code))
    assert of_gate == {"calls", "bytes"}
    others = set(re.findall(r'LimitError\(.*?"(\w+)"(?:,\s*[\w.* ]+)?,?\s*\)', code, re.S))
    assert others >= {"address", "idle", "polls", "studies", "spool_bytes", "one_upload_per_round"}
    assert named == others | of_gate | {f"address_{name}" for name in of_gate}
