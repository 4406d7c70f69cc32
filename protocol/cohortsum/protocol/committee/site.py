"""A site's side of a run, as dealer, member or both: a machine without sockets, clocks and processes.

====  ============================================  ==============================================================
step  the coordinator sends                         the site checks, then does
====  ============================================  ==============================================================
1     `Opening`                                     C3: it is the run that this site planned; a member sends `Key`
2     `Keys`                                        C4: one key of every member; a dealer sends `Deal`
3     `Inputs`, to members                          C5, C6: one deal of every dealer, over these keys; starts to compute
4     frames, to members                            C7 (`channels`)
5     `Closing`                                     C8: all members say the same over the same inputs
any   `End`                                         forgets all secrets
====  ============================================  ==============================================================

A member that began to compute on the inputs of some dealers computes at a retry on those of the same dealers only (C9): answers over
two sets of sites would tell them apart. Its node remembers the set (`Effect` `Bind`) before anything is computed.
"""

from collections.abc import Callable, Sequence

from cohortsum.crypto.agreement import AgreementKey, check_public
from cohortsum.crypto.errors import (
    ConfigurationError,
    LocalProtocolError,
    PublicKeyError,
    RemoteProtocolError,
)
from cohortsum.protocol.committee.channels import Channels
from cohortsum.protocol.committee.checks import agreed_answers, of_sites
from cohortsum.protocol.committee.codec import DIGEST_BYTES, decode, encode
from cohortsum.protocol.committee.dealing import (
    Randomness,
    added,
    ciphertext_digest,
    deal,
    fresh_key,
    inputs_digest,
    keys_digest,
    opened_shares,
)
from cohortsum.protocol.committee.effects import Bind, Compute, Effect, Ended, Finished, Identity, Part, Send
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
    Sealed,
    Signed,
    authenticate,
    sign,
)
from cohortsum.protocol.committee.plain import answers_from_bytes
from cohortsum.protocol.roster import Role, Roster


class SiteRun:
    """One run at one site.

    Args:
        identity: who this site is.
        part_of: what this site brings to an opening; raises ConfigurationError for one that does not belong to the study.
        randomness: returns so many random bytes.
    """

    def __init__(
        self, identity: Identity, part_of: Callable[[Opening], Part], randomness: Randomness
    ) -> None:
        self._identity, self._part_of, self._randomness = identity, part_of, randomness
        self._opening: Opening | None = None
        self._part: Part | None = None
        self._own: AgreementKey | None = None
        self._keys: tuple[bytes, ...] = ()
        self._h1 = self._h2 = b""
        self._sent: dict[type[Message], Signed] = {}
        self._channels: Channels | None = None
        self._waits: type[Message] | None = Opening

    @property
    def is_open(self) -> bool:
        """Whether the coordinator has opened it, be it in vain."""
        return self._opening is not None

    @property
    def opening(self) -> Opening:
        """What the coordinator opened; raises LocalProtocolError before."""
        if self._opening is None:
            raise LocalProtocolError("C3", "the run is not open")
        return self._opening

    @property
    def context(self) -> bytes:
        """The run's context; raises LocalProtocolError before it is open."""
        return self.opening.context

    def handle(self, packet: Packet) -> list[Effect]:
        """Take a packet of the coordinator.

        Raises:
            RemoteProtocolError: C1 to C6, C8, C9; whoever runs the site gives the run up then.
        """
        message = self._authentic(packet.signed)
        if isinstance(message, End):
            self.wipe()
            return [Ended(message.reason)]
        if self._waits is None or not isinstance(message, self._waits):
            raise RemoteProtocolError("C1", f"a {packet.signed.kind.name} that nobody waits for")
        match message:
            case Opening():
                return self._open(message)
            case Keys():
                return self._deal(message)
            case Inputs():
                return self._begin(message, packet.attachments)
            case Closing():
                return self._close(message)
            case _:
                raise RemoteProtocolError("C1", f"a {packet.signed.kind.name} that sites do not take")

    def seal(self, peer: int, message: bytes) -> Sealed:
        """Return a worker's message for a peer, sealed."""
        return self._computing().seal(peer, message)

    def unseal(self, frame: Sealed) -> bytes:
        """Return a peer's message for the worker; raises RemoteProtocolError C7."""
        return self._computing().open(frame)

    def answered(self, answers: bytes) -> Send:
        """Take the worker's answers and return them signed."""
        self._computing()
        answers_from_bytes(self._planned.plan, answers)
        return Send(Packet(self._signed(Result(self._h2, answers))))

    def give_up(self, reason: str) -> Send:
        """Return this site's word to the coordinator that it cannot go on; secrets are forgotten.

        Raises LocalProtocolError before the run is open.
        """
        ended = Send(Packet(self._signed(End(reason))))
        self.wipe()
        return ended

    def wipe(self) -> None:
        """Forget all secrets; nothing is taken any more."""
        if self._channels is not None:
            self._channels.wipe()
        self._channels = self._own = self._waits = None

    @property
    def _planned(self) -> Part:
        if self._part is None:
            raise LocalProtocolError("C3", "the run is not open")
        return self._part

    @property
    def _where(self) -> tuple[bytes, Roster]:
        return self.context, self._identity.roster

    @property
    def _member(self) -> int | None:
        """This site's number in the committee, or None."""
        members = self._planned.plan.members
        return members.index(self._identity.index) if self._identity.index in members else None

    def _authentic(self, signed: Signed) -> Message:
        if self._opening is None:
            message = decode(signed)
            context = message.context if isinstance(message, Opening) else signed.context
        else:
            context = self.context
        if authenticate(signed, context, self._identity.roster).role is not Role.COORDINATOR:
            raise RemoteProtocolError("C1", f"a {signed.kind.name} that the coordinator did not sign")
        return decode(signed)

    def _open(self, opening: Opening) -> list[Effect]:
        self._opening = opening  # what follows may refuse it, and says so under its context
        named = (opening.roster_digest, opening.study_digest, opening.epoch)
        if named != (self._identity.roster.digest, self._identity.study_digest, self._identity.epoch):
            raise RemoteProtocolError("C3", "a run of another roster, study or epoch")
        try:
            part = self._part_of(opening)
        except ConfigurationError as error:
            raise RemoteProtocolError("C3", "a run that does not follow from the study") from error
        plan = part.plan
        if (plan.digest, plan.dealers) != (opening.plan, opening.dealers):
            raise RemoteProtocolError("C3", "a run with another plan than the study's")
        if part.bound is not None and part.bound != plan.dealers:
            raise RemoteProtocolError(
                "C9", "other sites than those on whose numbers this member computed before"
            )
        index = self._identity.index
        if (part.values is not None) != (index in plan.dealers):
            raise LocalProtocolError("C3", "numbers of a site that brings none, or none of one that does")
        self._part, self._waits = part, Keys
        if self._member is None:
            return []
        self._own = fresh_key(self.context, self._randomness)
        return [Send(Packet(self._signed(Key(self._own.public))))]

    def _deal(self, message: Keys) -> list[Effect]:
        plan = self._planned.plan
        self._keys = self._checked_keys(message.keys)
        self._h1 = keys_digest(self.context, message.keys)
        self._waits = Closing if self._member is None else Inputs
        values = self._planned.values
        if values is None:
            return []
        index = self._identity.index
        dealt = deal(plan, self.context, index, values, self._keys, self._h1, self._randomness)
        return [Send(Packet(self._signed(dealt.deal), dealt.ciphertexts))]

    def _checked_keys(self, signed: Sequence[Signed]) -> tuple[bytes, ...]:
        """Return the members' public keys after check C4."""
        keys: list[bytes] = []
        for one, message in of_sites(signed, self._planned.plan.members, Key, "C4", *self._where):
            if one.sender == self._identity.signer.identity.id and one != self._sent[Key]:
                raise RemoteProtocolError("C4", "another key than this member sent")
            try:
                check_public(message.key)
            except PublicKeyError as error:
                raise RemoteProtocolError("C4", f"the key of {one.sender}: {error.message}") from error
            keys.append(message.key)
        if len(set(keys)) != len(keys):
            raise RemoteProtocolError("C4", "two members with one key")
        return tuple(keys)

    def _begin(self, message: Inputs, attachments: tuple[bytes, ...]) -> list[Effect]:
        plan, member, own = self._planned.plan, self._member, self._own
        if member is None or own is None:
            raise RemoteProtocolError("C1", "inputs for a site that is no member")
        deals = of_sites(message.deals, plan.dealers, Deal, "C6", *self._where)
        if len(attachments) != len(deals):
            raise RemoteProtocolError("C6", "another number of packages than of dealers")
        shares: dict[int, tuple[int, ...]] = {}
        for dealer, (signed, dealt), sealed in zip(plan.dealers, deals, attachments, strict=True):
            if signed.sender == self._identity.signer.identity.id and signed != self._sent[Deal]:
                raise RemoteProtocolError("C6", "another deal than this site made")
            digests = [
                dealt.ciphertexts[at : at + DIGEST_BYTES]
                for at in range(0, len(dealt.ciphertexts), DIGEST_BYTES)
            ]
            if dealt.keys_digest != self._h1 or len(digests) != len(plan.members):
                raise RemoteProtocolError(
                    "C6", f"the deal of {signed.sender} is for other keys", signed.sender
                )
            if ciphertext_digest(sealed) != digests[member]:
                raise RemoteProtocolError("C5", f"another package than {signed.sender} signed")
            shares[dealer] = opened_shares(plan, self.context, dealer, member, own, dealt, sealed)
        self._h2 = inputs_digest(self.context, self._h1, message.deals)
        keys = dict(enumerate(self._keys))
        self._channels = Channels(own, keys, member, self.context, self._h1, self._h2)
        self._waits = Closing
        stage = plan.stage
        return [Bind(stage, plan.dealers), Compute(plan, member, tuple(added(plan, shares)))]

    def _close(self, message: Closing) -> list[Effect]:
        answers = agreed_answers(self._planned.plan, self.context, self._identity.roster, message.results)
        if self._member is not None and self._sent.get(Result) not in message.results:
            raise RemoteProtocolError("C8", "a closing without what this member signed")
        self.wipe()
        return [Finished(answers, message.results)]

    def _signed(self, message: Message) -> Signed:
        kind, payload = encode(message)
        self._sent[type(message)] = signed = sign(self._identity.signer, self.context, kind, payload)
        return signed

    def _computing(self) -> Channels:
        if self._channels is None:
            raise LocalProtocolError("C7", "this site does not compute")
        return self._channels
