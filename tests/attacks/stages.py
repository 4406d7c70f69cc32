"""One script, two stages: bare state machines, and nodes with sessions, ledgers and tables over gRPC with mutual TLS."""

from collections.abc import Callable
from pathlib import Path

from tests.attacks.served import serve
from tests.attacks.sites import Machines, Sites
from tests.edges.harness import people_at, study_with
from tests.protocol.consortium import Consortium, protection

Script = Callable[[Sites], None]
WHERE = ("machines", "gRPC")


def play(where: str, folder: Path, script: Script, sites: int = 5, min_participants: int = 3) -> None:
    """Let a hostile coordinator play a script against honest sites that approved a study without colluders."""
    if where == "machines":
        consortium = Consortium(sites, protection(min_participants=min_participants), people=people_at)
        script(Machines(consortium))
        return
    serve(folder, script, sites, study_with(min_participants=str(min_participants)))
