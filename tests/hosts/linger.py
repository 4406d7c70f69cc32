"""Make two hosts with a process on one of them, say which networks they are, and wait to be killed: for one test."""

import subprocess
import sys
import time
from pathlib import Path

from tests.hosts.hosts import network_of, star


def main(folder: Path) -> None:
    """Print the networks in one line once the process runs, and wait."""
    with star(folder, "hub.example.org", "one.example.org") as hosts:
        words = [*hosts["one.example.org"].enter(folder), "sh", "-c", "echo up; exec sleep 600"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as left:  # noqa: S603
            assert left.stdout is not None
            assert left.stdout.readline() == "up\n"
            print(*(network_of(host.holder) for host in hosts.values()), flush=True)
            time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
