"""What monitoring reads: counts of sites, studies and calls under ids, while a study runs and after it; nothing of data."""

import asyncio
import socket
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cohortsum.coordinator.metrics import PREFIX, Tally, served_metrics
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.joining import Site
from tests.edges.harness import Loopback
from tests.life.town import free_port

CANARY, CANARY_ID = "48.7319465", "subject-7351946"
SITES = 4

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def canary_rows(site: Site) -> Site:
    """Give one site a person whose id and age are unmistakable."""
    (table,) = site.tables.tables.values()
    assert table.path is not None
    table.path.write_text(table.path.read_text() + f"{CANARY_ID},case,{CANARY},2.6180339\n")
    return site


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def samples(text: str) -> Samples:
    return {
        (sample.name.removeprefix(f"{PREFIX}_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What was served while three of four masked vectors were in and one call had been refused, and after the release."""
    folder, port, tally = tmp_path_factory.mktemp("metrics"), free_port(), Tally()

    async def play() -> tuple[str, str]:
        async with Loopback(folder, SITES, change={2: canary_rows}) as town:
            with served_metrics(f"127.0.0.1:{port}", town.hub, tally):
                held = town.hold("site0", "MASKED")
                ending = town.start()
                await town.until(lambda: held.reached.is_set() and town.times("UPLOAD") == SITES - 1)
                tally.refused["Submit", "RemoteProtocolError"] += 1
                tally.limited["Upload", "spool_bytes"] += 1
                during = await asyncio.to_thread(scraped, port)
                held.released.set()
                async with asyncio.timeout(30):
                    outcome = await ending
                assert outcome.document is not None, outcome.reason
                return during, await asyncio.to_thread(scraped, port)

    return asyncio.run(play())


STUDY = (("study", "loopback@1"),)
LIMITED = ("limited_calls_total", (("call", "Upload"), ("limit", "spool_bytes")))
REFUSED = ("refused_calls_total", (("call", "Submit"), ("error", "RemoteProtocolError")))


def test_while_a_study_runs_its_sites_are_counted(scrapes: tuple[str, str]) -> None:
    assert samples(scrapes[0]) == {
        ("studies", (("state", "running"),)): 1,
        ("attempts", (("state", "open"),)): 1,
        ("sites_invited", STUDY): SITES,
        ("sites_approved", STUDY): SITES,
        ("sites_present", STUDY): SITES,
        REFUSED: 1,
        LIMITED: 1,
    }


def test_a_study_that_is_over_is_a_count_and_nothing_else(scrapes: tuple[str, str]) -> None:
    assert samples(scrapes[1]) == {
        ("studies", (("state", "released"),)): 1,
        ("attempts", (("state", "opened"),)): 1,
        REFUSED: 1,
        LIMITED: 1,
    }


def test_no_value_id_or_count_of_people_is_served(scrapes: tuple[str, str]) -> None:
    for text in scrapes:
        for canary in (CANARY, CANARY_ID, "7351946", "2.618"):
            assert canary not in text
        assert max(samples(text).values()) <= SITES  # the smallest site has four people and the others more


def test_nothing_is_served_without_an_address_or_after_the_end(tmp_path: Path) -> None:
    port = free_port()

    async def play() -> None:
        async with Loopback(tmp_path, 3) as town:
            with served_metrics(None, town.hub, Tally()):
                pass
            with served_metrics(f"127.0.0.1:{port}", town.hub, Tally()):
                assert PREFIX in await asyncio.to_thread(scraped, port)
            with pytest.raises(OSError, match="refused"):
                await asyncio.to_thread(scraped, port)

    asyncio.run(play())


def test_an_address_that_is_taken_is_named_with_its_key(tmp_path: Path) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 3) as town:
            with socket.socket() as other:
                other.bind(("127.0.0.1", 0))
                other.listen()
                address = f"127.0.0.1:{other.getsockname()[1]}"
                with (
                    pytest.raises(ConfigurationError, match=r"coordinator\.yaml: metrics: ") as caught,
                    served_metrics(address, town.hub, Tally()),
                ):
                    raise AssertionError("served on an address that is taken")
            assert address in caught.value.message

    asyncio.run(play())
