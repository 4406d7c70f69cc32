"""What holds for every test: TLS 1.3 only, no limit of time in properties, and the long searches only when asked for by name.

And a PostgreSQL server for those that want one (`tests.postgres`).
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from cohortsum.crypto.certificates import TLS13_ONLY
from tests.postgres import NoServerError, Server, running

os.environ[TLS13_ONLY[0]] = TLS13_ONLY[1]  # before any test imports grpc, as both daemons do

# A busy machine is no fault: neither how long one example takes nor how long it took to make is asserted.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests marked ``exhaustive`` or ``faults`` unless pytest was asked for them with ``-m``."""
    for mark, why in (("exhaustive", "a long search"), ("faults", "kills real processes")):
        if mark in str(config.getoption("markexpr")):
            continue
        skip = pytest.mark.skip(reason=f"{why}; run it with -m {mark}")
        for item in items:
            if item.get_closest_marker(mark):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server, one for all tests of a worker."""
    try:
        with running() as server:
            yield server
    except NoServerError as error:
        pytest.skip(str(error))


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    url = postgres.made()
    yield url
    postgres.dropped(url)
