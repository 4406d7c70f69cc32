"""What the tests of every table format need: settings from a mapping, values by name, and the text of a refusal."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from cohortsum.crypto.errors import DataError
from cohortsum.node.config import TablesConfig
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import content_digest, open_tables
from cohortsum.study.variables import Factor, Number, Variable

DATA = Path(__file__).resolve().parents[2] / "../shared/data"

real = pytest.mark.skipif(not DATA.is_dir(), reason="the larger real tables are not beside the repository")

NAN = pytest.approx(np.nan, nan_ok=True)


def number(name: str, unit: str = "any") -> Number:
    return Number(name, unit, -1e12, 1e12)


def wants(*variables: Variable, outcomes: tuple[Variable, ...] = ()) -> Needs:
    """Return needs that require ``variables``, and take ``outcomes`` where they are."""
    return Needs(
        {variable.name: variable for variable in (*variables, *outcomes)},
        frozenset(variable.name for variable in variables),
        frozenset(variable.name for variable in outcomes),
    )


def settings(tables: Mapping[str, Mapping[str, object]], **others: object) -> TablesConfig:
    return TablesConfig.model_validate({"tables": tables, **others})


def values(config: TablesConfig, wanted: Needs) -> dict[str, list[float]]:
    """Return everybody's values in the order of their ids; checks that the snapshot's hash is that of the reading."""
    with open_tables(config, wanted) as tables:
        batches = list(tables.batches(3))
        assert tables.digest == content_digest(config)
    return {
        name: np.concatenate(
            [batch.numbers[name] if name in batch.numbers else batch.levels[name] for batch in batches]
        ).tolist()
        for name in [*batches[0].numbers, *batches[0].levels]
    }


def ids(config: TablesConfig, wanted: Needs) -> list[str]:
    with open_tables(config, wanted) as tables:
        return [person for batch in tables.ids() for person in batch]


def refusal(config: TablesConfig, wanted: Needs) -> str:
    with pytest.raises(DataError) as caught:
        open_tables(config, wanted)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return caught.value.message


def report(config: TablesConfig, wanted: Needs) -> str:
    """Return what a site's admin is told, and why outcomes are not supplied."""
    with open_tables(config, wanted) as tables:
        return "\n".join(tables.report)


SEX = Factor("sex", ("female", "male"))
AGE = Number("age", "years", 0, 120)
