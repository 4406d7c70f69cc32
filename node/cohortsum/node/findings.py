"""What a check of the node found: a name, a status, one sentence, and what to do about it. Never a data value."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How a check went; ``skipped`` names a check whose precondition failed."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check.

    Attributes:
        name: stable name of the check, for monitoring.
        status: how it went.
        sentence: what was found.
        cure: what to do; empty where nothing is to be done.
    """

    name: str
    status: Severity
    sentence: str
    cure: str = ""


def ok(name: str, sentence: str) -> Finding:
    """Return a finding that asks for nothing."""
    return Finding(name, Severity.OK, sentence)


def skipped(name: str, sentence: str) -> Finding:
    """Return a check that could not be made because of another one."""
    return Finding(name, Severity.SKIPPED, sentence)


def warning(name: str, sentence: str, cure: str) -> Finding:
    """Return something that works today."""
    return Finding(name, Severity.WARNING, sentence, cure)


def failure(name: str, sentence: str, cure: str) -> Finding:
    """Return something that keeps the node from working."""
    return Finding(name, Severity.FAILURE, sentence, cure)


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 if all is well, 1 with warnings, 2 with failures."""
    worst = {finding.status for finding in findings}
    return 2 if Severity.FAILURE in worst else 1 if Severity.WARNING in worst else 0


def from_error(name: str, message: str) -> Finding:
    """Return a failure from an error of ours, whose cure stands after the first semicolon."""
    sentence, _, cure = message.partition("; ")
    return failure(name, sentence, cure or "correct it, then run doctor again")
