"""One member as a process of its own: ``python -m tests.committee.member_process PORT FOLDER SITES INDEX``; it may be killed."""

import asyncio
import sys
from pathlib import Path

from tests.committee.town import CommitteeTown
from tests.committee.vectors import counting, counts


async def main(port: int, folder: Path, sites: int, index: int) -> None:
    town = CommitteeTown(folder, counts, sites)
    town.port = port
    plan = counting()
    town.plans[plan.digest] = plan
    print("ready", flush=True)
    await town.follow(index)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
