"""Withdrawal of consent: a person's rows leave every cohort, and the epoch they were part of is closed.

At once: the ids join the exclusion list that node.yaml names, the epoch closes in the ledger, a running node ends open rounds
of it. Released results stand. What comes next is a new snapshot, without these people, under a new label; the ledger's people
rule decides there whether this site answers.
"""

import contextlib
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.config import load_node_config
from cohortsum.node.files import PRIVATE, read, replace
from cohortsum.node.ledger import Ledger
from cohortsum.protocol.ledger import PeopleSet


def withdraw_consent(folder: Path, ids: Iterable[str]) -> tuple[str, int]:
    """Take people out of every cohort and close the epoch; return its label, and how many ids were new on the list.

    The epoch is closed first: an interruption leaves it closed rather than open with people who left.

    Raises ConfigurationError where node.yaml names no exclusion list, or no id is given.
    """
    config = load_node_config(folder / "node.yaml")
    if config.exclude is None:
        raise ConfigurationError(
            "node.yaml: exclude: no exclusion list is named; add `exclude: withdrawn.txt` and try again"
        )
    wanted = [one.strip() for one in ids if one.strip()]
    if not wanted:
        raise ConfigurationError("no person id is given; expected one per line")
    with closing(Ledger(folder / "ledger.db")) as ledger:
        ledger.epochs.close(config.epoch)
        ledger.add_withdrawn(PeopleSet.of(wanted, ledger.people_key().reveal()).codes)
    held: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        config.exclude.stat()
        held = read(config.exclude).decode("utf-8-sig").splitlines()
    new = [one for one in dict.fromkeys(wanted) if one not in set(held)]
    replace(config.exclude, "".join(f"{one}\n" for one in [*held, *new]).encode(), PRIVATE)
    return config.epoch, len(new)
