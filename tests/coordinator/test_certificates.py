"""The server's certificate: made anew after half its life and when the roll changes, without a restart."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest
from cryptography import x509

from cohortsum.coordinator import service
from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.service import CERTIFICATE_LIFETIME, CertificateDesk
from cohortsum.protocol.denylist import nobody_denied
from tests.edges.harness import HUB, Loopback, pinned_roster
from tests.edges.test_tls import plain_client
from tests.protocol.consortium import identity_key

START = datetime(2026, 12, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Office:
    """A desk with a roll and a time that a test changes."""

    def __init__(self) -> None:
        self.roll, self.now = roll_of(3), START
        self.desk = CertificateDesk(lambda: self.roll, identity_key(HUB), "127.0.0.1", lambda: self.now)

    def renewed(self) -> bool:
        return self.desk.renewed() is not None


def roll_of(sites: int) -> Roll:
    roster = pinned_roster(sites)
    return Roll({roster.version: roster}, nobody_denied(roster.consortium))


def test_the_first_certificate_is_new_and_the_next_connections_keep_it() -> None:
    office = Office()
    assert [office.renewed() for _ in range(4)] == [True, False, False, False]


def test_a_certificate_is_renewed_once_half_its_life_is_over() -> None:
    office = Office()
    office.renewed()
    office.now = START + CERTIFICATE_LIFETIME / 2 - SECOND
    assert not office.renewed()
    office.now += SECOND
    assert [office.renewed(), office.renewed()] == [True, False]
    office.now += CERTIFICATE_LIFETIME / 2 - SECOND
    assert not office.renewed()
    office.now += SECOND
    assert office.renewed()


def test_a_roll_that_changed_renews_it_at_once() -> None:
    office = Office()
    office.renewed()
    office.roll = roll_of(4)
    assert [office.renewed(), office.renewed()] == [True, False]
    office.roll = replace(office.roll)
    assert office.renewed()


async def presented(town: Loopback, client: ssl.SSLContext) -> x509.Certificate:
    """Return the certificate that the server presents to a new connection."""
    _, writer = await asyncio.open_connection("127.0.0.1", town.port, ssl=client, server_hostname=HUB)
    line: ssl.SSLObject = writer.get_extra_info("ssl_object")
    held = line.getpeercert(binary_form=True)
    assert held is not None
    writer.close()
    return x509.load_der_x509_certificate(held)


async def seen(folder: Path, change: Callable[[Loopback], None]) -> list[x509.Certificate]:
    """Return what three connections to one server see, the last of them after ``change``."""
    async with Loopback(folder, 3) as town:
        client = plain_client(folder, ssl.TLSVersion.TLSv1_3)
        first, second = [await presented(town, client) for _ in range(2)]
        change(town)
        return [first, second, await presented(town, client)]


def check_renewed(certificates: list[x509.Certificate]) -> None:
    first, second, third = certificates
    assert first == second
    assert third.serial_number != first.serial_number
    assert third.public_key() != first.public_key()


def test_a_server_presents_a_new_certificate_when_the_roll_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def admit(town: Loopback) -> None:
        roll = roll_of(4)
        monkeypatch.setattr(town, "_roll", roll)

    check_renewed(asyncio.run(seen(tmp_path, admit)))


def test_a_server_that_runs_for_weeks_presents_a_new_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It started sixteen days ago: the client's clock, and the handshake, are those of today."""
    ago = timedelta(days=16)

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) - ago

    def today(_town: Loopback) -> None:
        nonlocal ago
        ago = timedelta(0)

    monkeypatch.setattr(service, "datetime", Earlier)
    certificates = asyncio.run(seen(tmp_path, today))
    check_renewed(certificates)
    life = CERTIFICATE_LIFETIME - timedelta(minutes=1)
    assert certificates[0].not_valid_after_utc < datetime.now(UTC) + CERTIFICATE_LIFETIME / 2
    assert certificates[2].not_valid_after_utc > datetime.now(UTC) + life
