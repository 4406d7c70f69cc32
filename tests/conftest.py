"""What holds for every test: the long searches run only when they are asked for by name."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests marked ``exhaustive`` unless pytest was given ``-m exhaustive``."""
    if "exhaustive" in str(config.getoption("markexpr")):
        return
    skip = pytest.mark.skip(reason="a long search; run it with -m exhaustive")
    for item in items:
        if item.get_closest_marker("exhaustive"):
            item.add_marker(skip)
