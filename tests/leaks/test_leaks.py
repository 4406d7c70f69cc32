"""Nobody's id, value or seed comes out, whatever fails: one consortium through every path, and every byte of it searched.

Files of nodes and coordinator, databases cell by cell, logs as they are written, what libraries print, screens of commands, what
monitoring reads, what admins are told, and what travels. `test_scanner` shows that the search finds what is there.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.leaks.planted import Needle, needles_of, people, seed_needles
from tests.leaks.scan import found, places_in
from tests.leaks.story import BROKEN, STEPS, Story
from tests.leaks.watched import Kept, WatchedTown, watching

SITES = range(5)
OPENED = "what sites were sent"
"""Where the proof of a sum stands: it names the seeds that a quorum opened, a survivor's for itself or a dropout's for its masks."""


@dataclass(frozen=True)
class Lived:
    """A town whose story is over."""

    folder: Path
    kept: Kept
    happened: Mapping[str, str]
    places: tuple[tuple[str, bytes], ...]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    folder, kept = tmp_path_factory.mktemp("leaks"), Kept()

    async def play() -> Mapping[str, str]:
        async with WatchedTown(folder, kept) as town:
            story = Story(town, kept)
            await story.told()
            return story.happened

    with watching(kept):
        happened = asyncio.run(play())
    planted = [
        *(folder / f"site{index}" / "people.csv" for index in SITES),
        folder / "site3" / "withdrawn.txt",
    ]
    return Lived(folder, kept, happened, (*places_in(folder, planted), *kept.places()))


def said(lived: Lived, path: str) -> str:
    assert path in lived.happened, f"{path} did not happen"
    return lived.happened[path]


@pytest.mark.parametrize("path", BROKEN)
def test_a_broken_table_keeps_its_site_out(lived: Lived, path: str) -> None:
    assert said(lived, path).startswith("stays out: ")


@pytest.mark.parametrize("what", STEPS)
def test_a_site_left_after_every_step(lived: Lived, what: str) -> None:
    assert said(lived, f"a site that leaves after {what}")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("a wrong unit", "does not convert to the study's years"),
        ("a policy that does not allow it", "statistics does not list histogram"),
        ("a budget that is used up", "of this site's lifetime budget"),
        ("an older copy of the ledger", "older copy"),
        ("a stranger's TLS key", "UNAVAILABLE"),
        ("a packet of an unknown kind", "refused (M2)"),
        ("a payload that is no message", "refused (M3)"),
        ("a sender who is a person", "refused (M2)"),
        ("a node that is killed", "-9"),
        ("the killed node again", ""),
        ("a withdrawal", "1 ids joined the exclusion list"),
        ("a closed epoch", "consent was withdrawn"),
        ("mended", ""),
        ("too many leave", ""),
        ("a coordinator that restarts", ""),
        ("a crash inside a statistic", ""),
        ("a coordinator's disk that is full", ""),
        ("a site's disk that is full", ""),
        ("people who differ by a few", ""),
        ("recovered", ""),
    ],
)
def test_every_other_path_failed_as_it_should(lived: Lived, path: str, told: str) -> None:
    assert told in said(lived, path)


def test_a_killed_node_leaves_private_copies_that_its_next_start_removes(lived: Lived) -> None:
    assert int(said(lived, "private copies that it leaves")) > 0
    assert not [*lived.folder.rglob("cohortsum-*")]


def test_the_search_saw_what_daemons_write(lived: Lived) -> None:
    """Names of sites, studies, columns and events are in every place where they belong."""
    places = dict(lived.places)
    assert {"site0/ledger.db", "site0/state.json", "site0/notices.json", "site0/hook.heard"} <= places.keys()
    assert any(name.startswith("site0/ledger.db, table") for name in places)
    assert any("table messages" in name for name in places), sorted(places)
    for name, known in {
        "log": b'"event": "study.stays_out"',
        "screens": b"epoch 2026-11 is closed",
        "metrics": b"cohortsum_coordinator_studies",
        "what sites sent": b"site4",
        OPENED: b"thickness",
    }.items():
        assert known in places[name], name
    assert b'"error": "ValueError"' in places["log"]  # the crash, by its type alone


def test_no_id_value_or_code_of_a_person_is_anywhere(lived: Lived) -> None:
    assert found(lived.places, needles_of(SITES)) == {}


def test_no_seed_is_in_any_file_log_screen_or_metric_and_none_is_sent_by_a_site(lived: Lived) -> None:
    assert len(lived.kept.dealt) > 40
    needles = [needle for seed in lived.kept.seeds for needle in seed_needles("a seed", seed)]
    assert found([place for place in lived.places if place[0] != OPENED], needles) == {}


def test_what_a_quorum_opened_is_a_mask_seed_or_self_seeds_and_never_both(lived: Lived) -> None:
    """Channel seeds and keys of noise are opened for nobody. Both seeds of one attempt would bare a site's values."""
    (sent,) = (data for name, data in lived.places if name == OPENED)
    assert not [secret for secret in lived.kept.never_opened if secret in sent]
    opened = [tuple(seed in sent for seed in dealt) for dealt in lived.kept.dealt]
    assert any(gate for _, gate, _ in opened)
    assert not [mask for mask, gate, data in opened if mask and (gate or data)]


def test_of_what_the_generator_drew_only_public_names_are_on_a_disk(lived: Lived) -> None:
    """Identifiers of rounds are public. Keys of identities and of people's codes were drawn before, by commands."""
    drawn = [Needle("drawn", one) for one in lived.kept.drawn if len(one) >= 16]
    assert len(drawn) > 500
    seeds = [
        place for place in lived.places if place[0] != OPENED and not place[0].startswith("what sites sent")
    ]
    assert found(seeds, [needle for needle in drawn if needle.form in lived.kept.seeds]) == {}


def test_everybody_is_planted_under_one_word_and_no_two_alike() -> None:
    everybody = [one for site in SITES for one in people(site)]
    for values in (
        [one.id for one in everybody],
        [one.age for one in everybody],
        [one.thick for one in everybody],
    ):
        assert len(set(values)) == len(everybody) == 124
