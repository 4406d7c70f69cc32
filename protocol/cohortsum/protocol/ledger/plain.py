"""A site's record as plain data (text, numbers, lists), for the node to store, and back.

Every people set is written once and referred to by its digest. Bytes are hex, sets are sorted: equal records have equal data.
Reading refuses whatever it does not know: a record that is half understood would allow too much.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from cohortsum.crypto.errors import StoreError
from cohortsum.protocol.ledger.history import Closed, Fate, History, Named, Unresolved, Write
from cohortsum.protocol.ledger.people import PeopleSet
from cohortsum.protocol.ledger.sites import NamedRound, Status, Step


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Named(_Plain):
    """A `Named` fate; the rest of its round stands in the write."""

    protected: list[int]
    survivors: list[int]
    signatures: dict[str, str]
    gate_only: bool


class _Write(_Plain):
    """A `Write`; people sets by digest."""

    context: str
    study: str
    iteration: int
    attempt: int
    h1: str
    h2: str
    advertisers: list[int]
    delivered: list[int]
    people: dict[str, str]
    noised: bool
    fate: _Named | Literal["unresolved", "closed"]


class _History(_Plain):
    """A `History`."""

    site: int
    status: Literal["derivable", "protected"] | None
    people: dict[str, str]
    writes: list[_Write]
    withdrawn: str
    counter: int
    restored: bool


def to_data(history: History) -> dict[str, object]:
    """Return a site's record as plain data; `json.dumps` takes it as it is."""
    sets = {people.name: people for write in history.writes for _, people in write.people}
    return _History(
        site=history.site,
        status=None if history.status is None else history.status.value,
        people={name: sets[name].to_data() for name in sorted(sets)},
        writes=[_write_data(write) for write in history.writes],
        withdrawn=PeopleSet(history.withdrawn).to_data(),
        counter=history.counter,
        restored=history.restored,
    ).model_dump(mode="json")


def from_data(data: object) -> History:
    """Return the record of `to_data`, also after a way through JSON; raises StoreError for anything else."""
    try:
        read = _History.model_validate(data)
        sets = {name: PeopleSet.from_data(codes) for name, codes in read.people.items()}
        if any(people.name != name for name, people in sets.items()):
            raise StoreError("a people set of the ledger is not the one its digest names; run node recover")
        return History(
            site=read.site,
            status=None if read.status is None else Status(read.status),
            writes=tuple(_write(write, sets) for write in read.writes),
            withdrawn=PeopleSet.from_data(read.withdrawn).codes,
            counter=read.counter,
            restored=read.restored,
        )
    except (ValidationError, KeyError, ValueError):
        # The cause would show what stands in the ledger.
        raise StoreError(
            "the stored ledger has another form than this version writes; run node recover"
        ) from None


def _write_data(write: Write) -> _Write:
    return _Write(
        context=write.context.hex(),
        study=write.step.study.hex(),
        iteration=write.step.iteration,
        attempt=write.step.attempt,
        h1=write.h1.hex(),
        h2=write.h2.hex(),
        advertisers=sorted(write.advertisers),
        delivered=sorted(write.delivered),
        people={name: people.name for name, people in write.people},
        noised=write.noised,
        fate=_fate_data(write.fate),
    )


def _fate_data(fate: Fate) -> _Named | Literal["unresolved", "closed"]:
    match fate:
        case Unresolved():
            return "unresolved"
        case Closed():
            return "closed"
        case Named(named, gate_only):
            return _Named(
                protected=sorted(named.protected),
                survivors=sorted(named.survivors),
                signatures={str(site): signature.hex() for site, signature in named.signatures},
                gate_only=gate_only,
            )


def _write(data: _Write, sets: Mapping[str, PeopleSet]) -> Write:
    write = Write(
        context=bytes.fromhex(data.context),
        step=Step(bytes.fromhex(data.study), data.iteration, data.attempt),
        h1=bytes.fromhex(data.h1),
        h2=bytes.fromhex(data.h2),
        advertisers=frozenset(data.advertisers),
        delivered=frozenset(data.delivered),
        people=tuple((name, sets[digest]) for name, digest in data.people.items()),
        noised=data.noised,
    )
    return replace(write, fate=_fate(data.fate, write))


def _fate(data: _Named | Literal["unresolved", "closed"], write: Write) -> Fate:
    if data == "unresolved":
        return Unresolved()
    if data == "closed":
        return Closed()
    named = NamedRound(
        context=write.context,
        step=write.step,
        h1=write.h1,
        h2=write.h2,
        advertisers=write.advertisers,
        protected=frozenset(data.protected),
        survivors=frozenset(data.survivors),
        signatures=tuple(
            (int(site), bytes.fromhex(signature)) for site, signature in data.signatures.items()
        ),
    )
    return Named(named, data.gate_only)
