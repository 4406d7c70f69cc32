"""A plan as plain data, for the pipe to the worker, and answers as bytes that members sign.

Answers have one encoding: per program the count of its numbers, then the numbers, as eight big-endian bytes, two's complement.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from cohortsum.crypto.encoding import number
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.protocol.committee.plan import Answer, CommitteePlan
from cohortsum.protocol.committee.programs import Complement, OpenCounts, OrderStatistics, Program, Threshold

Plain = Mapping[str, object]


def plan_to_plain(plan: CommitteePlan) -> dict[str, object]:
    """Return a plan as JSON can hold it."""
    return {
        "members": plan.members,
        "dealers": plan.dealers,
        "colluding": plan.colluding,
        "programs": [_program_to_plain(program) for program in plan.programs],
        "stage": plan.stage,
        "earlier": plan.earlier.hex(),
        "honest": plan.honest,
    }


def plan_from_plain(plain: Plain) -> CommitteePlan:
    """Return the plan that `plan_to_plain` wrote; it is the node's own, so anything else is a fault of ours (KeyError)."""
    return CommitteePlan(
        tuple(cast("Sequence[int]", plain["members"])),
        tuple(cast("Sequence[int]", plain["dealers"])),
        cast(int, plain["colluding"]),
        tuple(_program_from_plain(program) for program in cast("Sequence[Plain]", plain["programs"])),
        cast(int, plain["stage"]),
        bytes.fromhex(cast(str, plain["earlier"])),
        cast(int, plain["honest"]),
    )


def answers_to_bytes(answers: Sequence[Answer]) -> bytes:
    """Return the one encoding of all answers."""
    return b"".join(
        number(len(answer)) + b"".join(value.to_bytes(8, "big", signed=True) for value in answer)
        for answer in answers
    )


def answers_from_bytes(plan: CommitteePlan, data: bytes) -> tuple[Answer, ...]:
    """Return the answers of a plan; raises ConfigurationError where the bytes are not the encoding of such."""
    words = [int.from_bytes(data[at : at + 8], "big", signed=True) for at in range(0, len(data), 8)]
    answers: list[Answer] = []
    at = 0
    for program in plan.programs:
        answers.append(tuple(words[at + 1 : at + 1 + program.answers]))
        at += 1 + program.answers
    checked = plan.check_answers(answers)
    if answers_to_bytes(checked) != data:
        raise ConfigurationError("committee: answers in another form than their one encoding")
    return checked


def _program_to_plain(program: Program) -> dict[str, object]:
    if isinstance(program, Threshold):
        return {"kind": "threshold", "name": program.name, "least": program.least, "most": program.most}
    if isinstance(program, OpenCounts):
        return {
            "kind": "open counts",
            "name": program.name,
            "cells": program.cells,
            "least": program.least,
            "most": program.most,
            "zeros": program.zeros,
            "totals": program.totals,
            "complement": program.complement.value,
        }
    return {
        "kind": "order statistics",
        "name": program.name,
        "levels": program.levels,
        "people": program.people,
        "ranks": program.ranks,
        "brackets": program.brackets,
        "width": program.width,
    }


def _program_from_plain(plain: Plain) -> Program:
    def whole(key: str) -> int:
        return cast(int, plain[key])

    def rows(key: str) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(row) for row in cast("Sequence[Sequence[int]]", plain[key]))

    name = cast(str, plain["name"])
    if plain["kind"] == "threshold":
        return Threshold(name, whole("least"), whole("most"))
    if plain["kind"] == "open counts":
        complement = Complement(cast(str, plain["complement"]))
        counts = whole("cells"), whole("least"), whole("most")
        return OpenCounts(name, *counts, cast(bool, plain["zeros"]), rows("totals"), complement)
    brackets = tuple((row[0], row[1]) for row in rows("brackets"))
    ranks = tuple(cast("Sequence[int]", plain["ranks"]))
    return OrderStatistics(name, whole("levels"), whole("people"), ranks, brackets, whole("width"))
