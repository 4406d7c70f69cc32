"""Every call there is, with what it may send and what it costs; there is no other, whatever is registered beside them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from google.protobuf.descriptor import Descriptor, ServiceDescriptor
from grpc_health.v1 import health_pb2

from cohortsum.coordinator.limits import COSTLY_CALLS
from cohortsum.protocol.limits import COMMITTEE, HEALTH, SERVICE, SIZES
from cohortsum.wire.v1 import committee_pb2, service_pb2


@dataclass(frozen=True, slots=True)
class Rule:
    """What one call may do.

    Attributes:
        name: of the call, for logs and metrics.
        request: greatest message, in bytes.
        kind: its type.
        costly: it may hold a large message or a thread; few at once per identity.
        calls: what it costs, in calls.
    """

    name: str
    request: int
    kind: Descriptor
    costly: bool = False
    calls: int = 1


SERVICES: Mapping[str, ServiceDescriptor] = {
    SERVICE: service_pb2.DESCRIPTOR.services_by_name["Consortium"],
    COMMITTEE: committee_pb2.DESCRIPTOR.services_by_name["Committee"],
    HEALTH: cast("ServiceDescriptor", health_pb2.DESCRIPTOR.services_by_name["Health"]),
}
"""What is served at all."""


def _rules() -> Mapping[str, Rule]:
    asks_much = (
        "GetTrail",
        "GetTranscript",
        "GetStatus",
        "GetResult",
        "GetBundle",
        "ListReleases",
        "GetReleaseItem",
    )
    hands_in = ("Submit", "SubmitStudy", "WithdrawStudy", "Decide")
    rules: dict[str, Rule] = {}
    for path, sizes in SIZES.items():
        name = path.rpartition("/")[2]
        calls = COSTLY_CALLS if name in (*asks_much, "SubmitStudy", "Decide") else 1
        kind = SERVICES[path.split("/")[1]].methods_by_name[name].input_type
        rules[path] = Rule(name, sizes.request, kind, name in asks_much or name in hands_in, calls)
    return rules


RULES = _rules()
"""Every call there is, by its path. Reflection, channelz and the watching of health are none."""
