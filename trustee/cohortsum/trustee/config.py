"""What a trustee's admin writes: ``trustee.yaml``.

Paths are relative to the file. Unknown keys are refused. Rosters and deny-lists lie beside it (`roll`), and so do ledger and audit log.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cohortsum.crypto.errors import ConfigurationError, cannot_be_read
from cohortsum.study.definition.tree import read_yaml

SETTINGS_FILE = "trustee.yaml"
LEDGER = "ledger.db"

SETTINGS = """\
# The trustee of a consortium's two-key studies. Paths are relative to this file.
# It runs on a machine and under an account of its own: never where the coordinator runs.

identity: {identity}
identity_key: identity.key
operator_key: {operator}
listen: {listen}                  # the coordinator calls here; nobody else is answered
# keys: 64                        # keys held at once, in memory only
# keep_h: 168                     # hours after which an unused key is given up
# numbers: 4000000                # greatest sum that is decrypted, in numbers
"""


class TrusteeConfig(BaseModel):
    """Settings of one trustee.

    Attributes:
        identity: the trustee's id in the roster.
        identity_key: file with its private identity key, hex.
        operator_key: the operator's Ed25519 public key, hex: who may say who is in the roster.
        listen: host and port; port 0 picks a free one.
        keys: keys that are held at once.
        keep_h: hours for which a key is held that nothing is decrypted under.
        numbers: greatest length of a sum.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    identity: str
    identity_key: Path
    operator_key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    listen: Annotated[str, Field(pattern=r"^[^\s:]+:[0-9]{1,5}$")]
    keys: Annotated[int, Field(ge=1, le=100_000)] = 64
    keep_h: Annotated[float, Field(gt=0, le=100_000)] = 168.0
    numbers: Annotated[int, Field(ge=1, le=2**27)] = 4_000_000


def read_file(path: Path) -> bytes:
    """Return a file's bytes; raises ConfigurationError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(cannot_be_read(path.name, error)) from None


def load_trustee_config(folder: Path) -> TrusteeConfig:
    """Return the settings of the trustee in ``folder``, paths made absolute; raises ConfigurationError naming every fault."""
    path = folder / SETTINGS_FILE
    try:
        held, _ = read_yaml(read_file(path), path.name)
        config = TrusteeConfig.model_validate(held)
    except ValidationError as error:
        faults = (
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)
        )
        raise ConfigurationError(f"{path.name}: " + "; ".join(faults)) from None
    return config.model_copy(update={"identity_key": folder / config.identity_key})
