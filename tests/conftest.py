"""What holds for every test: TLS 1.3 only, no limit of time in properties, and the long searches only when asked for by name."""

import os

import pytest
from hypothesis import HealthCheck, settings

from cohortsum.crypto.certificates import TLS13_ONLY

os.environ[TLS13_ONLY[0]] = TLS13_ONLY[1]  # before any test imports grpc, as both daemons do

# A busy machine is no fault: neither how long one example takes nor how long it took to make is asserted.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests marked ``exhaustive`` unless pytest was given ``-m exhaustive``."""
    if "exhaustive" in str(config.getoption("markexpr")):
        return
    skip = pytest.mark.skip(reason="a long search; run it with -m exhaustive")
    for item in items:
        if item.get_closest_marker("exhaustive"):
            item.add_marker(skip)
