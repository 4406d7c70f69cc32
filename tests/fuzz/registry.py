"""Every target by its name; the one list that the tests and the fuzzer share."""

from collections.abc import Mapping

from tests.fuzz import accusations, committees, definitions, ledgers, machines, proofs, records, tables, wire
from tests.fuzz.target import Target

TARGETS: Mapping[str, Target] = {
    target.name: target
    for module in (wire, definitions, records, proofs, ledgers, tables, machines, accusations, committees)
    for target in module.TARGETS
}
