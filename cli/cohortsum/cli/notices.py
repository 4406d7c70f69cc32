"""A harmless notice by every way that a folder's settings name, to see that notices arrive before one matters."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cohortsum.cli.consoles import output
from cohortsum.cli.keys import say
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.report.notices import Courier, Notice, NoticeKind, NoticeSettings


def test_notice(
    folder: Annotated[Path, typer.Argument(help="The folder of a node or a coordinator.", metavar="FOLDER")],
) -> None:
    """Send a test notice by every way that is set up, and say what happened; exit code 2 if one failed."""
    courier, settings, file = _courier(folder)
    if settings is None or (settings.hook is None and settings.smtp is None):
        raise ConfigurationError(f"{file}: nobody is told of anything; add hook or smtp under notices")
    outcomes = asyncio.run(courier.tell(Notice(NoticeKind.TEST, "", None, datetime.now(UTC))))
    for outcome in outcomes:
        said = f"failed: {outcome.failure}" if outcome.failure else "handed over"
        output().print(f"{outcome.way:<6} {said}", markup=False)
    if any(outcome.failure for outcome in outcomes):
        say(f"next: correct {file}, or what it names, and send a test again")
        raise typer.Exit(2)
    say("next: look whether the test arrived; from here on nothing more can be seen")


def _courier(folder: Path) -> tuple[Courier, NoticeSettings | None, str]:
    """Return who tells, how, and the file that says so; loads only the room that the folder belongs to."""
    if (folder / "node.yaml").exists():
        from cohortsum.node import notices as node
        from cohortsum.node.config import load_node_config

        site = load_node_config(folder / "node.yaml")
        return node.Messenger(site.notices, site.site, folder), site.notices, "node.yaml"
    if (folder / "coordinator.yaml").exists():
        from cohortsum.coordinator import notices as coordinator
        from cohortsum.coordinator.config import load_coordinator_config

        hub = load_coordinator_config(folder / "coordinator.yaml")
        return coordinator.Messenger(hub.notices, hub.identity, folder), hub.notices, "coordinator.yaml"
    raise ConfigurationError(
        f"{folder}: neither node.yaml nor coordinator.yaml; name the folder of one of them"
    )
