"""The release ledger: which rounds a site may still answer, given all it has answered. Pure; the node stores and asks."""

from cohortsum.protocol.ledger.decision import Answer, AskedSet, Decision, Refused, Request, may_answer
from cohortsum.protocol.ledger.history import History, Write
from cohortsum.protocol.ledger.people import PeopleSet
from cohortsum.protocol.ledger.plain import from_data, to_data
from cohortsum.protocol.ledger.rules import Limits
from cohortsum.protocol.ledger.sites import Claim, NamedRound, Status, Step
from cohortsum.protocol.ledger.tombstones import Tombstone

__all__ = [
    "Answer",
    "AskedSet",
    "Claim",
    "Decision",
    "History",
    "Limits",
    "NamedRound",
    "PeopleSet",
    "Refused",
    "Request",
    "Status",
    "Step",
    "Tombstone",
    "Write",
    "from_data",
    "may_answer",
    "to_data",
]
