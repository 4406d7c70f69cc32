"""Decoders of what a site believes for years: approvals and burials that it is shown, rows of its ledger; and the way to the line."""

import json
from typing import cast

from cohortsum.crypto.errors import ConfigurationError, RemoteProtocolError, StoreError
from cohortsum.node.ledger import stored_write
from cohortsum.node.proxy import Proxy, TunnelError, proxy_for, tunnel
from cohortsum.protocol.approvals import approval_context, read_answer, supplied
from cohortsum.protocol.burial import read_burial
from cohortsum.protocol.ledger import History, PeopleSet, from_data, to_data
from cohortsum.protocol.messages import Approval, Envelope, Kind, Regimen
from cohortsum.protocol.plan import PlannedBlock
from cohortsum.study.disclosure.demands import demands_of
from cohortsum.study.disclosure.regimens import regime_of_sites
from cohortsum.study.disclosure.waiving import in_force
from tests.fuzz.definitions import STUDY
from tests.fuzz.packets import signed
from tests.fuzz.target import Reader, Target, again, decoder
from tests.protocol.consortium import Consortium

SITES = 4
ITEMS = ("age", "dx[case]", "iq")
CONSORTIUM = Consortium(
    SITES,
    blocks=(PlannedBlock("powers", 2, 2**40, "person", (frozenset({"age"}),)),),
    items=ITEMS,
    supplies=lambda _: frozenset(ITEMS),
)
PEOPLE = {
    people.name: people for people in (PeopleSet(frozenset({b"sixteen bytes it"})), PeopleSet(frozenset()))
}


def _signed(kind: Kind, sender: str, payload: bytes, context: bytes) -> Envelope:
    """Return any payload as its sender signs it."""
    signer = CONSORTIUM.coordinator.setup.signer
    signers = {one.identity.id: one for one in (*CONSORTIUM.signers.values(), signer)}
    return signed(Envelope(context, kind, sender, payload, bytes(64)), signers)


def _answer(data: bytes) -> Approval | None:
    """Read an approval, or a refusal to take part, whose payload a site of the roster signed."""
    plan = CONSORTIUM.plan
    reader = Reader(data)
    kind = reader.pick((Kind.APPROVAL, Kind.NOT_TAKING_PART))
    envelope = _signed(kind, "site1", reader.rest(), approval_context(plan.study_digest, plan.roster_digest))
    index, approval = read_answer(envelope, plan, CONSORTIUM.roster)
    assert index == 1
    return approval


def _items(_data: bytes, approval: Approval | None) -> None:
    """Do what the coordinator does with an approval: what it supplies, and under which rules."""
    if approval is None:
        return
    assert supplied(approval, CONSORTIUM.plan) <= set(ITEMS)
    try:
        regime = regime_of_sites({"site1": approval.regimen, "site2": Regimen("dpuk")})
    except ConfigurationError:
        return
    demands_of(STUDY, in_force(regime))


def _burial(data: bytes) -> None:
    read_burial(_signed(Kind.BURIAL, "hub", data, bytes(32)), frozenset(range(SITES)), 0, CONSORTIUM.roster)


def _row(data: bytes) -> None:
    """Read a row of the ledger whose texts are these, parted by zeros; what is no text is no row of SQLite."""
    texts = [part.decode("utf-8", "replace") for part in data.split(b"\0")]
    advertisers, delivered, people, survivors, signatures = (texts + [""] * 5)[:5]
    stored_write(
        (
            *(bytes(32), bytes(32), bytes(32)),
            *(advertisers, delivered, people),
            *(None, bytes(32), 1, 1),
            *(survivors, signatures, 0),
        ),
        PEOPLE,
    )


def _record(data: bytes) -> History:
    try:
        held = cast("object", json.loads(data))
    except (RecursionError, ValueError):
        raise StoreError("no JSON") from None
    return from_data(held)


class _Line:
    """A connection on which a proxy has answered."""

    def __init__(self, answer: bytes) -> None:
        self._answer, self.sent = answer, b""

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def recv(self, size: int) -> bytes:
        told, self._answer = self._answer[:size], self._answer[size:]
        return told


def _tunnel(data: bytes) -> None:
    proxy = Proxy("proxy", 3128, "http_proxy")
    try:
        tunnel(_Line(data), proxy, "hub:443")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - all of a socket that is used
    except TunnelError:
        return


def _proxy(data: bytes) -> Proxy | None:
    url, _, excepted = data.decode("utf-8", "replace").partition("\n")
    return proxy_for("hub.example", {"http_proxy": url, "no_proxy": excepted})


TARGETS = (
    Target("answer", decoder(_answer, _items, RemoteProtocolError), size=512),
    Target("burial", decoder(_burial, errors=RemoteProtocolError), size=2048),
    Target("ledger-row", decoder(_row, errors=StoreError), size=1024),
    Target(
        "ledger-record",
        decoder(_record, again(lambda held: json.dumps(to_data(held)).encode(), _record), StoreError),
        size=2048,
    ),
    Target("proxy-answer", _tunnel, size=8192),
    Target("proxy-setting", decoder(_proxy), size=256),
)
