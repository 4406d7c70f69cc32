"""What a consortium's operator writes to run the coordinator: ``coordinator.yaml``.

Paths are relative to the file. Unknown keys are refused.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from cohortsum.coordinator.addresses import Network, parse_network
from cohortsum.coordinator.limits import AS_BUILT, Limits
from cohortsum.crypto.errors import ConfigurationError, cannot_be_read
from cohortsum.report.notices import NoticeSettings
from cohortsum.study.definition.tree import read_yaml

SQLITE = "sqlite:///"
LONGEST_S = 1e9
"""Of a wait: beyond it no date might be left for its end."""


def _network(text: object) -> Network:
    return parse_network(str(text))


class CoordinatorConfig(BaseModel):
    """Settings of one coordinator.

    Attributes:
        roster: signed roster file, ``consortium.yaml``.
        roster_signature: its detached signature, hex.
        operator_key: the operator's Ed25519 public key, hex.
        identity: the coordinator's id in the roster.
        identity_key: file with the coordinator's private identity key, hex.
        listen: host and port; port 0 picks a free one.
        store: SQLAlchemy URL; a relative SQLite file (``sqlite:///coordinator.db``) lies beside the settings.
        spool: folder for uploads of open rounds.
        results: folder that releases are written to, as ``STUDY/vVERSION``.
        enrol_s: seconds that enrolment lasts at most, or until everybody has answered; the studies' own windows by default.
        gather_s: seconds to wait for approving sites to be present; the studies' own by default.
        step_max_s: seconds that a step with named survivors waits at most; the study's own by default.
        grace_s: seconds to keep answering after the one study of `--study` has ended, so that every node hears of it.
        metrics: host and port where Prometheus reads metrics over plain HTTP; None serves none.
        process: a name of its own for every further process over the same store, in a folder of its own; empty for the first.
        lease_s: seconds after which another coordinator over the same store takes over from one that is silent.
        notices: how the operator is told that something waits or went wrong; None tells nobody.
        allow: networks from which one may call, as ``192.0.2.0/24``; empty for all.
        limits: what callers may ask for.
        trustee: host and port of the trustee, the one place that the coordinator calls; None: two-key studies are refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    roster: Path
    roster_signature: Path
    operator_key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    identity: str
    identity_key: Path
    listen: Annotated[str, Field(pattern=r"^[^\s:]+:[0-9]{1,5}$")]
    store: str
    spool: Path
    results: Path
    enrol_s: Annotated[float, Field(gt=0, le=LONGEST_S)] | None = None
    gather_s: Annotated[float, Field(gt=0, le=LONGEST_S)] | None = None
    step_max_s: Annotated[float, Field(gt=0, le=LONGEST_S)] | None = None
    process: Annotated[str, Field(pattern=r"^[a-z0-9-]{0,32}$")] = ""
    lease_s: Annotated[float, Field(ge=1, le=600)] = 15.0
    grace_s: Annotated[float, Field(ge=0, le=LONGEST_S)] = 5.0
    metrics: Annotated[str, Field(pattern=r"^[^\s:]+:[0-9]{1,5}$")] | None = None
    notices: NoticeSettings | None = None
    allow: tuple[Annotated[Network, BeforeValidator(_network)], ...] = ()
    limits: Limits = AS_BUILT
    trustee: Annotated[str, Field(pattern=r"^[^\s:]+:[0-9]{1,5}$")] | None = None


def read_file(path: Path) -> bytes:
    """Return a file's bytes; raises ConfigurationError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(cannot_be_read(path.name, error)) from None


def load_coordinator_config(path: Path) -> CoordinatorConfig:
    """Return the settings in ``path`` with paths made absolute; raises ConfigurationError naming every fault."""
    try:
        held, _ = read_yaml(read_file(path), path.name)
        config = CoordinatorConfig.model_validate(held, context={"folder": path.parent})
    except ValidationError as error:
        faults = (
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)
        )
        raise ConfigurationError(f"{path.name}: " + "; ".join(faults)) from None
    folder = path.parent
    names = ("roster", "roster_signature", "identity_key", "spool", "results")
    given = {name: getattr(config, name) for name in names}
    paths = {name: folder / path for name, path in given.items() if path is not None}
    return config.model_copy(update={**paths, "store": _anchored(config.store, folder)})


def _anchored(url: str, folder: Path) -> str:
    """Return a SQLAlchemy URL with a relative SQLite file put into ``folder``."""
    file = url.removeprefix(SQLITE)
    return url if file in (url, ":memory:") or Path(file).is_absolute() else f"{SQLITE}{folder / file}"
