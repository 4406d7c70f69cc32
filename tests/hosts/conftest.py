"""Tests here make hosts; where that is not possible they are skipped, with the reason."""

import pytest

from tests.hosts.hosts import why_not


@pytest.fixture(scope="session", autouse=True)
def _hosts_can_be_made() -> None:
    reason = why_not()
    if reason:
        pytest.skip(reason)
