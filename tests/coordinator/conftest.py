"""The databases that a coordinator's store may lie in."""

from pathlib import Path

import pytest

from cohortsum.coordinator.store import sqlite_url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "hub.db")
    return str(request.getfixturevalue("postgres_url"))
