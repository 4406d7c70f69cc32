"""A node's part in one study to its end: its rounds, and beside them the runs of its committee where it has one."""

import asyncio
from pathlib import Path

from cohortsum.node.client import Caller, NodeClient
from cohortsum.node.committee.bindings import Bindings
from cohortsum.node.committee.client import CommitteeClient
from cohortsum.node.session import StudySession


async def follow(
    caller: Caller, client: NodeClient, session: StudySession, folder: Path, study: bytes
) -> None:
    """Take part in a study until it has ended. Raises LineError when patience ends.

    Args:
        caller: to the coordinator.
        client: answers the rounds of the study.
        session: the site's side, after it has considered the study.
        folder: of the node.
        study: digest of the study.
    """
    part = session.committee()
    if part is None:
        await client.follow(study)
        return
    identity, numbers = part
    runs = CommitteeClient(caller, identity, numbers.part_of, Bindings(folder), numbers.heard)
    tasks = [asyncio.create_task(client.follow(study)), asyncio.create_task(runs.follow())]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
