"""Data sets are played once for all tests of this package."""

import pytest

from tests.truths.registry import Runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("truths"))
