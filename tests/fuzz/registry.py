"""Every target by its name; the one list that the tests and the fuzzer share."""

from collections.abc import Mapping

from tests.fuzz import (
    accusations,
    ciphertexts,
    committees,
    definitions,
    ledgers,
    machines,
    proofs,
    records,
    tables,
    wire,
)
from tests.fuzz.target import Target

MODULES = (
    wire,
    definitions,
    records,
    proofs,
    ledgers,
    tables,
    machines,
    accusations,
    ciphertexts,
    committees,
)

TARGETS: Mapping[str, Target] = {target.name: target for module in MODULES for target in module.TARGETS}
