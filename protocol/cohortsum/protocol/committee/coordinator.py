"""The coordinator's side of a run: a machine without sockets and clocks that collects, hands on, and sees nothing.

It waits for a key of every member, a deal of every dealer, frames between members, and a result of every member; whoever is missing when
the time of a step is over ends the run for all, with their names. There is no run over fewer: a retry is a run of its own, over dealers
that may be fewer only as long as no member has begun to compute.

What passes here are signed messages, packages sealed for members, and frames sealed between members. Of answers it learns what all
members signed. A message that comes twice has no second effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cohortsum.crypto.agreement import check_public
from cohortsum.crypto.errors import CohortsumError, PublicKeyError, RemoteProtocolError
from cohortsum.protocol.committee.checks import agreed_answers
from cohortsum.protocol.committee.codec import DIGEST_BYTES, MAX_TEXT_BYTES, decode, encode
from cohortsum.protocol.committee.dealing import ciphertext_digest, keys_digest
from cohortsum.protocol.committee.messages import (
    Closing,
    Deal,
    End,
    Inputs,
    Key,
    Keys,
    Message,
    Opening,
    Packet,
    Result,
    RunKey,
    Sealed,
    Signed,
    authenticate,
    sign,
)
from cohortsum.protocol.committee.plan import Answer, CommitteePlan
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import Role, Roster


@dataclass(frozen=True, slots=True)
class Tell:
    """Put something into the boxes of sites, by roster index."""

    sites: tuple[int, ...]
    item: Packet | Sealed


@dataclass(frozen=True, slots=True)
class Opened:
    """All members signed these answers."""

    answers: tuple[Answer, ...]
    results: tuple[Signed, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The run is over without a result.

    Attributes:
        reason: a public sentence.
        computing: whether members may have begun to compute: a retry then needs the same dealers.
    """

    reason: str
    computing: bool


Effect = Tell | Opened | Failed


class CoordinatorRun:
    """One run.

    Args:
        roster: of the study.
        signer: the coordinator.
        plan: of the run.
        key: which run this is; its stage is the plan's.
        study_digest: of the study.
        epoch: label of the data epoch.
    """

    def __init__(
        self,
        roster: Roster,
        signer: Signer,
        plan: CommitteePlan,
        key: RunKey,
        study_digest: bytes,
        epoch: str,
    ) -> None:
        self._roster, self._signer, self._plan = roster, signer, plan
        self._opening = Opening(
            key, study_digest, roster.digest, epoch, plan.dealers, plan.earlier, plan.digest
        )
        self.context = self._opening.context
        self._names = {index: name for name, index in roster.sites.items()}
        self._held: dict[type[Message], dict[int, Packet]] = {Key: {}, Deal: {}, Result: {}}
        self._waits: type[Message] | None = Key
        self._computing = False
        self._carried: dict[tuple[int, int], int] = {}

    @property
    def step(self) -> str:
        """What is waited for; empty once the run is over."""
        return "" if self._waits is None else self._waits.__name__

    @property
    def computing(self) -> bool:
        """Whether members may have begun to compute."""
        return self._computing

    @property
    def over(self) -> bool:
        """Whether nothing more is taken."""
        return self._waits is None

    @property
    def sites(self) -> tuple[int, ...]:
        """Roster indices of all that take part."""
        return tuple(sorted({*self._plan.members, *self._plan.dealers}))

    def open(self) -> list[Effect]:
        """Return the opening for everybody."""
        return [self._tell(self._opening)]

    def submit(self, packet: Packet) -> list[Effect]:
        """Take a message of a site.

        Raises:
            RemoteProtocolError: C1, C2, C4 to C6, C8; nothing has changed then.
        """
        if self._waits is None:
            return []
        signed = packet.signed
        identity, message = authenticate(signed, self.context, self._roster), decode(signed)
        if identity.role is not Role.SITE or identity.index is None or identity.index not in self.sites:
            raise RemoteProtocolError("C1", f"a {signed.kind.name} of a site that takes no part")
        if isinstance(message, End):
            return self._fail(f"{identity.id}: {message.reason}")
        held = self._held.get(type(message), {})
        if identity.index in held:
            if held[identity.index] == packet:
                return []
            raise RemoteProtocolError("C1", f"a second {signed.kind.name} of {identity.id}", identity.id)
        if not isinstance(message, self._waits) or identity.index not in self._expected:
            raise RemoteProtocolError("C1", f"a {signed.kind.name} of {identity.id} that nobody waits for")
        self._check(message, packet, identity.id)
        held[identity.index] = packet
        return self._next() if len(held) == len(self._expected) else []

    def carry(self, site: int, frame: Sealed) -> list[Effect]:
        """Hand a frame of a member on, in the order of its numbers; one that was handed on already has no second effect.

        Raises RemoteProtocolError C7 unless it is that member's, in this run, and the next one.
        """
        if self._waits is None:
            return []
        if self._waits is not Result:
            raise RemoteProtocolError("C7", "a frame while nobody computes")
        members = self._plan.members
        own = frame.context == self.context and max(frame.sender, frame.receiver) < len(members)
        if not own or members[frame.sender] != site:
            raise RemoteProtocolError("C7", "a frame of another member or run")
        carried = self._carried.get((frame.sender, frame.receiver), 0)
        if frame.number < carried:
            return []
        if frame.number > carried:
            raise RemoteProtocolError("C7", "a frame before the one that precedes it")
        self._carried[frame.sender, frame.receiver] = carried + 1
        return [Tell((members[frame.receiver],), frame)]

    def expire(self) -> list[Effect]:
        """End the run because the time of its step is over."""
        if self._waits is None:
            return []
        missing = [self._names[index] for index in self._expected if index not in self._held[self._waits]]
        word = "key" if self._waits is Key else "shares" if self._waits is Deal else "result"
        return self._fail(f"no {word} of {', '.join(missing)} in time")

    def end(self, reason: str) -> list[Effect]:
        """End the run for a reason of the coordinator's."""
        return [] if self._waits is None else self._fail(reason)

    @property
    def _expected(self) -> tuple[int, ...]:
        return self._plan.dealers if self._waits is Deal else self._plan.members

    def _check(self, message: Message, packet: Packet, site: str) -> None:
        """Refuse from a site what would end the run at others, so that it is known whose it was."""
        match message:
            case Key():
                try:
                    check_public(message.key)
                except PublicKeyError as error:
                    raise RemoteProtocolError("C4", f"the key of {site}: {error.message}", site) from error
            case Deal():
                h1 = keys_digest(self.context, self._signed(Key, self._plan.members))
                digests = b"".join(map(ciphertext_digest, packet.attachments))
                if (message.keys_digest, len(digests)) != (h1, DIGEST_BYTES * len(self._plan.members)):
                    raise RemoteProtocolError("C6", f"the deal of {site} is for other keys", site)
                if message.ciphertexts != digests:
                    raise RemoteProtocolError("C5", f"other packages than {site} signed", site)
            case _:
                pass

    def _next(self) -> list[Effect]:
        """Go on when everybody has answered."""
        if self._waits is Key:
            self._waits = Deal
            return [self._tell(Keys(self._signed(Key, self._plan.members)))]
        if self._waits is Deal:
            self._waits, self._computing = Result, True
            inputs = self._sign(Inputs(self._signed(Deal, self._plan.dealers)))
            return [
                Tell((index,), Packet(inputs, self._sealed_for(member)))
                for member, index in enumerate(self._plan.members)
            ]
        results = self._signed(Result, self._plan.members)
        try:
            answers = agreed_answers(self._plan, self.context, self._roster, results)
        except CohortsumError as error:
            return self._fail(error.message)
        self._waits = None
        return [self._tell(Closing(results)), Opened(answers, results)]

    def _sealed_for(self, member: int) -> tuple[bytes, ...]:
        deals = self._held[Deal]
        return tuple(deals[dealer].attachments[member] for dealer in self._plan.dealers)

    def _signed(self, kind: type[Message], sites: Sequence[int]) -> tuple[Signed, ...]:
        return tuple(self._held[kind][index].signed for index in sites)

    def _fail(self, reason: str) -> list[Effect]:
        self._waits = None
        said = reason.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")
        return [self._tell(End(said)), Failed(said, self._computing)]

    def _tell(self, message: Message) -> Tell:
        return Tell(self.sites, Packet(self._sign(message)))

    def _sign(self, message: Message) -> Signed:
        kind, payload = encode(message)
        return sign(self._signer, self.context, kind, payload)
