"""Which studies a trustee serves: those that a statistician of a pinned roster signed, and that ask for the key of this very trustee."""

from dataclasses import dataclass
from datetime import date

from cohortsum.crypto.bfv import Parameters
from cohortsum.crypto.errors import AuthenticationError, ConfigurationError, ProtocolError, RefusedError
from cohortsum.crypto.signing import IdentityKey
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.unlocking import trustee_of
from cohortsum.study.definition import parse_canonical
from cohortsum.study.definition.signing import SignedStudy, open_study
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.trustee.roll import Roll


@dataclass(frozen=True, slots=True)
class Known:
    """A study that this trustee may serve.

    Attributes:
        plan: of its first round, built here.
        whole: its roster, as the operator signed it.
        counted: the same without denied identities.
        signer: this trustee in it.
        parameters: of the encryption.
    """

    plan: StudyPlan
    whole: Roster
    counted: Roster
    signer: Signer
    parameters: Parameters


def known_study(signed: SignedStudy, roll: Roll, identity: str, key: IdentityKey, today: date) -> Known:
    """Return the study behind signed bytes, if this trustee serves it.

    Args:
        signed: as it was handed in.
        roll: who counts now.
        identity: the trustee's id in the roster.
        key: its identity key.
        today: the day, UTC.

    Raises RefusedError, whose sentence is about the study or the roster alone.
    """
    try:
        version = parse_canonical(signed.canonical).roster
        whole, counted = roll.whole(version), roll.counted(version)
        study = open_study(signed, counted)
        if trustee_of(counted).id != identity:
            raise RefusedError(f"'{identity}' is not the trustee of roster version {version}")
        signer = Signer(counted.identities[identity], key)
        if study.expires < today:
            raise RefusedError(f"study {study.study} expired on {study.expires}")
        plan = plan_study(study, whole)
    except (AuthenticationError, ConfigurationError, ProtocolError) as error:
        raise RefusedError(error.message) from error
    parameters = plan.round.encryption
    if parameters is None:
        raise RefusedError(f"study {study.study} does not ask for protection.mode two_key; no key is offered")
    return Known(plan, whole, counted, signer, parameters)
