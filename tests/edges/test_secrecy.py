"""What must not be seen is not there: no value, id or seed in any log line or on the wire, and no reason of who stays out."""

import asyncio
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cohortsum.crypto import field as gf
from cohortsum.node.config import PolicyConfig, Thresholds
from cohortsum.node.joining import Site
from cohortsum.protocol import seeds as seeds_of
from cohortsum.protocol.approvals import decline
from cohortsum.protocol.codec import packet_to_bytes
from cohortsum.protocol.messages import Packet
from cohortsum.protocol.seeds import HeldShares, Seeds, SharedSeeds
from cohortsum.study.planning import plan_study
from tests.edges.harness import Loopback, approving
from tests.edges.oracle import check_pooled

CANARY = 48.7319465
CANARY_ID = "subject-7351946"


@dataclass
class Overheard:
    """One whole study: everything logged, everything on the wire, and the secrets that were drawn."""

    logs: str
    wire: bytes
    elements: set[int]
    never_sent: set[bytes]


def canary_rows(site: Site) -> Site:
    """Give one site a person whose id and age are unmistakable."""
    (table,) = site.tables.tables.values()
    assert table.path is not None
    table.path.write_text(table.path.read_text() + f"{CANARY_ID},case,{CANARY},2.6180339\n")
    return site


@pytest.fixture(scope="module")
def overheard(tmp_path_factory: pytest.TempPathFactory) -> Overheard:
    folder = tmp_path_factory.mktemp("secrecy")
    elements: set[int] = set()
    never_sent: set[bytes] = set()

    def draw(randomness: Callable[[int], bytes], ahead: int = 0) -> Seeds:
        seeds = draw_seeds(randomness, ahead)
        elements.update(seeds.element(kind) for kind in ("mask", "gate", "data"))
        never_sent.update(
            (seeds.channel.reveal(), seeds.mask.reveal())
        )  # nobody drops out: mask seeds stay home
        return seeds

    def deal(
        seeds: SharedSeeds, threshold: int, holders: Sequence[int], randomness: Callable[[int], bytes]
    ) -> Mapping[int, HeldShares]:
        dealt = deal_shares(seeds, threshold, holders, randomness)
        elements.update(share for held in dealt.values() for share in (held.mask, held.gate, held.data))
        never_sent.update(gf.to_bytes(held.mask) for held in dealt.values())
        return dealt

    async def play() -> bytes:
        async with Loopback(folder, 4, change={2: canary_rows}) as town:
            outcome = await town.run()
            assert outcome.document is not None, outcome.reason
            return town.wire.all_bytes()

    draw_seeds, deal_shares = Seeds.draw, seeds_of.deal
    with pytest.MonkeyPatch.context() as patch, capture_logs() as logs:
        patch.setattr(Seeds, "draw", draw)
        patch.setattr("cohortsum.protocol.site.deal", deal)
        wire = asyncio.run(play())
    text = "\n".join(repr(line) for line in logs)
    return Overheard(text, wire, elements, never_sent)


def forms(value: float) -> list[bytes]:
    """Return the ways in which a number could travel: text, IEEE 754 in both byte orders, and its normalised grid value."""
    normalised = (value - 50) / 50  # the study's range is [0, 100]
    grid = round(normalised * 2 ** (62 - (100_000).bit_length()))
    numbers = [struct.pack(order + "d", held) for order in "<>" for held in (value, normalised)]
    return [str(value).encode(), *numbers, struct.pack("<q", grid), str(grid).encode()]


def test_no_value_of_a_person_is_logged_or_sent(overheard: Overheard) -> None:
    for form in forms(CANARY):
        assert form not in overheard.wire
        assert form.decode("latin-1") not in overheard.logs
    assert "7319465" not in overheard.logs
    assert b"7319465" not in overheard.wire


def test_no_id_of_a_person_is_logged_or_sent(overheard: Overheard) -> None:
    assert CANARY_ID not in overheard.logs
    assert CANARY_ID.encode() not in overheard.wire
    assert "s0-00000" not in overheard.logs
    assert b"s0-00000" not in overheard.wire


def test_no_seed_or_share_is_logged(overheard: Overheard) -> None:
    assert len(overheard.elements) == 4 * 3 + 4 * 4 * 3
    for element in overheard.elements:
        held = gf.to_bytes(element)
        for form in (str(element), f"{element:x}", held.hex(), repr(held)[2:-1]):
            assert form not in overheard.logs


def test_channel_and_mask_seeds_and_mask_shares_of_survivors_are_never_sent(overheard: Overheard) -> None:
    assert len(overheard.never_sent) == 4 * 2 + 4 * 4
    assert not [secret for secret in overheard.never_sent if secret in overheard.wire]


def test_what_the_recorder_caught_is_the_real_traffic(overheard: Overheard) -> None:
    assert b"site3" in overheard.wire
    assert b"thickness" in overheard.wire  # the study
    assert "round.opened" in overheard.logs


def table_text(change: Callable[[str], str]) -> Callable[[Site], Site]:
    def broken(site: Site) -> Site:
        (table,) = site.tables.tables.values()
        assert table.path is not None
        table.path.write_text(change(table.path.read_text()))
        return site

    return broken


def no_table(site: Site) -> Site:
    (table,) = site.tables.tables.values()
    assert table.path is not None
    table.path.unlink()
    return site


REASONS: dict[str, Callable[[Site], Site]] = {
    "a required column is missing": table_text(lambda text: text.replace("id,dx", "id,diagnosis", 1)),
    "an unknown level": table_text(lambda text: text.replace("control", "unknown", 1)),
    "a ragged row": table_text(lambda text: text + "x,case\n"),
    "a person twice": table_text(lambda text: text + text.splitlines()[1] + "\n"),
    "text in numbers": table_text(lambda text: text + f"x,case,about {CANARY},2.5\n"),
    "no rows": table_text(lambda text: text.splitlines()[0] + "\n"),
    "no table": no_table,
    "too few people": lambda site: replace(
        site,
        policy=PolicyConfig(profile="open_data", thresholds=Thresholds(min_participants_per_site=10_000)),
    ),
    "not approved": lambda site: replace(site, decision=approving()),
    "another epoch": lambda site: replace(site, epoch="2025-01"),
    "a kind of analysis not allowed": lambda site: replace(
        site, policy=PolicyConfig(profile="open_data", statistics=("summary",))
    ),
}


def test_whoever_stays_out_sends_the_same_bytes_whatever_the_reason_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    staying = dict(enumerate(REASONS.values(), start=4))

    async def play() -> None:
        async with Loopback(tmp_path, 4 + len(staying), change=staying) as town:
            outcome = await town.run()
            assert outcome.document is not None, outcome.reason
            check_pooled(outcome.document, range(4))
            plan = plan_study(town.study, town.roster).round
            for index in staying:
                said = packet_to_bytes(Packet(decline(town.sites[index].signer, plan)))
                assert town.wire.packets(f"site{index}") == [("NOT_TAKING_PART", said)]
            calls = {tuple(what for what, _ in town.wire.received[f"site{index}"][:2]) for index in staying}
            assert calls == {("GetStudy", "NOT_TAKING_PART")}

    with capture_logs() as logs:
        asyncio.run(play())
    out = [line for line in logs if line["event"] == "study.stays_out"]
    assert len({line["site"] for line in out}) == len({line["reason"] for line in out}) == len(REASONS)
    assert str(CANARY) not in repr(logs)
