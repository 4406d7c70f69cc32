"""Rosters, requests and deny-lists as files: exact bytes, own signatures, serials that only grow."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import AuthenticationError, ConfigurationError, StudyFileError
from cohortsum.protocol.denylist import (
    DENY_LIST,
    Denied,
    DenyList,
    check_succeeds,
    nobody_denied,
    verify_deny_list,
)
from cohortsum.protocol.roster import Identity, Role
from cohortsum.study.definition.consortium import (
    ConsortiumFile,
    IdentityEntry,
    format_key,
    load_request,
    load_roster,
    parse_key,
    read_section,
    write_request,
    write_roster,
)
from cohortsum.study.definition.deny import load_deny_list, write_deny_list
from tests.protocol.consortium import identity_key

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

slugs = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True)
texts = (
    st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters='"'), min_size=1, max_size=40)
    .filter(str.isprintable)
    .filter(lambda text: text == text.strip())
)


def entry(
    name: str, role: str = "coordinator", index: int | None = None, title: str = "One"
) -> IdentityEntry:
    return IdentityEntry.model_validate(
        {
            "id": name,
            "role": role,
            "index": index,
            "name": title,
            "organisation": title,
            "key": format_key(identity_key(name).public),
        }
    )


def denied(name: str, since: datetime = NOW) -> Denied:
    return Denied(name, identity_key(name).public, since, "lost")


@given(slugs, st.lists(slugs, min_size=1, max_size=5, unique=True), texts)
def test_a_roster_reads_back_as_written(consortium: str, names: list[str], title: str) -> None:
    entries = [entry(names[0], title=title)]
    entries += [entry(name, "site", index, title) for index, name in enumerate(names[1:])]
    text = write_roster(consortium, 7, entries)
    assert read_section(ConsortiumFile, text, "r").identities == tuple(entries)
    assert load_roster(text, "r").version == 7
    assert len(text.splitlines()) == 3 + len(entries)


def test_a_roster_of_a_coordinator_alone_has_no_sites() -> None:
    assert dict(load_roster(write_roster("imaging", 1, [entry("hub")]), "r").sites) == {}


@given(slugs, texts, texts)
def test_a_request_reads_back_as_written(name: str, title: str, organisation: str) -> None:
    key = identity_key("site")
    held = load_request(write_request(name, "site", title, organisation, key), "request.yaml")
    assert (held.id, held.role, held.name, held.organisation) == (name, "site", title, organisation)
    assert parse_key(held.key) == key.public


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('id: "nyu"', 'id: "sbl"'),
        ('role: "site"', 'role: "statistician"'),
        ('name: "Node"', 'name: "Mode"'),
        ('organisation: "Hospital"', 'organisation: "Other"'),
        (identity_key("nyu").public.hex(), identity_key("mallory").public.hex()),
    ],
)
def test_no_field_of_a_request_can_be_changed(old: str, new: str) -> None:
    text = write_request("nyu", "site", "Node", "Hospital", identity_key("nyu")).decode()
    assert old in text
    with pytest.raises(AuthenticationError, match=r"request\.yaml: its signature is not by the key"):
        load_request(text.replace(old, new).encode(), "request.yaml")


def test_fields_of_a_request_do_not_run_into_each_other() -> None:
    text = write_request("nyu", "site", "Node A", "B", identity_key("nyu")).decode()
    shifted = text.replace('name: "Node A"', 'name: "Node"').replace(
        'organisation: "B"', 'organisation: "A B"'
    )
    with pytest.raises(AuthenticationError):
        load_request(shifted.encode(), "request.yaml")


@pytest.mark.parametrize("name", ["", "two words", "../up", "a" * 65, "dot.ted"])
def test_an_id_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(StudyFileError, match="id"):
        write_request(name, "site", "Node", "Hospital", identity_key("nyu"))


@given(st.lists(slugs, min_size=1, max_size=4, unique=True), texts, st.integers(1, 2**31 - 1))
def test_a_deny_list_reads_back_as_written(names: list[str], reason: str, serial: int) -> None:
    held = DenyList("imaging", serial, tuple(replace(denied(name), reason=reason) for name in names))
    assert load_deny_list(write_deny_list(held), "deny.yaml") == held


@pytest.mark.parametrize(
    "text",
    [
        "consortium: imaging\nserial: 0\ndenied: []\n",
        "consortium: imaging\nserial: 1\ndenied: []\n",
        "consortium: imaging\nserial: 1\nallowed: []\n",
    ],
)
def test_a_malformed_deny_list_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(StudyFileError, match=r"deny\.yaml:\d+: "):
        load_deny_list(text.encode(), "deny.yaml")


def test_a_time_without_zone_is_refused() -> None:
    text = write_deny_list(DenyList("imaging", 1, (denied("nyu"),)))
    with pytest.raises(StudyFileError, match="since"):
        load_deny_list(text.replace(b"+00:00", b""), "deny.yaml")


def test_a_key_stands_on_a_deny_list_once() -> None:
    with pytest.raises(ConfigurationError, match="listed twice"):
        DenyList("imaging", 1, (denied("nyu"), denied("nyu")))


def test_only_the_operator_signs_a_deny_list() -> None:
    operator, text = identity_key("operator"), write_deny_list(DenyList("imaging", 1, (denied("nyu"),)))
    verify_deny_list(text, operator.sign(DENY_LIST, text), operator.public)
    with pytest.raises(AuthenticationError):
        verify_deny_list(text, identity_key("hub").sign(DENY_LIST, text), operator.public)
    with pytest.raises(AuthenticationError):
        verify_deny_list(text + b"\n", operator.sign(DENY_LIST, text), operator.public)
    with pytest.raises(AuthenticationError):
        verify_deny_list(text, operator.sign("cohortsum/v1/roster", text), operator.public)


def test_a_deny_list_speaks_of_keys_and_not_of_ids() -> None:
    held = DenyList("imaging", 1, (denied("nyu"),))
    old, new = (Identity("nyu", Role.SITE, 0, identity_key(name).public) for name in ("nyu", "nyu-new"))
    assert held.entry_for(old) == denied("nyu")
    assert held.entry_for(new) is None


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (DenyList("imaging", 1, (denied("nyu"), denied("sbl"))), "serial 1, but serial 2 is held"),
        (DenyList("imaging", 2, (denied("nyu"), denied("sbl"))), "serial 2, but serial 2 is held"),
        (DenyList("other", 3, (denied("nyu"),)), "for consortium other"),
        (DenyList("imaging", 3, (denied("sbl"),)), "no longer denies a key of nyu"),
    ],
    ids=["older", "same serial and another list", "another consortium", "undone"],
)
def test_a_deny_list_that_does_not_follow_is_refused(new: DenyList, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        check_succeeds(DenyList("imaging", 2, (denied("nyu"),)), new)


def test_a_deny_list_follows_nothing_itself_and_a_longer_one() -> None:
    first = DenyList("imaging", 1, (denied("nyu"),))
    check_succeeds(nobody_denied("imaging"), first)
    check_succeeds(first, first)
    check_succeeds(first, DenyList("imaging", 5, (denied("sbl", NOW + timedelta(1)), denied("nyu"))))
