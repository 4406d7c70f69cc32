"""A clock that is an hour off, at a site or at the coordinator, changes nothing in a round: only dates of expiry are read from it.

OpenSSL compares a certificate with the clock of whoever verifies it; that a site's clock is behind looks the same to TLS as that the
coordinator's is ahead, so both are moved.
"""

import asyncio
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest

from cohortsum.coordinator import service
from cohortsum.node import client
from cohortsum.node.joining import Site
from tests.edges.harness import Loopback
from tests.edges.test_line import check_once

OFF: ContextVar[timedelta] = ContextVar("OFF", default=timedelta(0))
HOUR = timedelta(hours=1)


class Moved(datetime):
    """A clock that is off wherever a test says so."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) + OFF.get()


class Skewed(Loopback):
    """A consortium in which the clock of one site is off."""

    off = timedelta(0)

    async def _node(self, site: Site) -> None:
        if site.signer.identity.id == "site2":
            OFF.set(self.off)
        await super()._node(site)


@pytest.mark.parametrize("off", [HOUR, -HOUR], ids=["ahead", "behind"])
def test_at_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: timedelta) -> None:
    monkeypatch.setattr(client, "datetime", Moved)
    monkeypatch.setattr(Skewed, "off", off)

    async def play() -> None:
        async with Skewed(tmp_path, 4) as town:
            check_once(town, await town.run())

    asyncio.run(play())


@pytest.mark.parametrize("off", [HOUR, -HOUR], ids=["ahead", "behind"])
def test_at_the_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: timedelta) -> None:
    monkeypatch.setattr(service, "datetime", Moved)

    async def play() -> None:
        token = OFF.set(off)
        async with Skewed(tmp_path, 4) as town:
            OFF.reset(token)
            assert abs(datetime.now(UTC) - Moved.now(UTC)) < HOUR / 2
            check_once(town, await town.run())

    asyncio.run(play())
