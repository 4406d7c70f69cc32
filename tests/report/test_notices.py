"""Notices as values: ids and dates alone, words for people and programs, settings, and the rules of telling once."""

import asyncio
import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from email.message import EmailMessage
from enum import StrEnum
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.report.notices import (
    WORDS,
    Courier,
    Notice,
    NoticeKind,
    NoticeSettings,
    Outcome,
    SmtpSettings,
    Way,
    parse_password,
)

AT = datetime(2026, 11, 30, 22, 5, tzinfo=UTC)
DUE = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
ROUND = "0123456789abcdef" * 2
WHOLE = Notice(NoticeKind.DEADLINE, "asd-open", 2, AT, DUE, ROUND)
HOOK: dict[str, object] = {"hook": "/opt/tell"}
SERVER: dict[str, object] = {
    "host": "mail.example.org",
    "from": "node@example.org",
    "to": ["admin@example.org"],
}
SMTP: dict[str, object] = {"smtp": SERVER}


class Desk(Courier):
    """A courier whose machine is a few lists."""

    def __init__(self, settings: Mapping[str, object], kept: bytes = b"", codes: Sequence[int] = ()) -> None:
        super().__init__(NoticeSettings.model_validate(settings), "nyu")
        self.kept = kept
        self.codes = list(codes)
        self.ran: list[tuple[tuple[str, ...], bytes]] = []
        self.posted: list[EmailMessage] = []
        self.fault: Exception | None = None

    async def run(self, argv: Sequence[str], data: bytes) -> int:
        await asyncio.sleep(0)
        self.ran.append((tuple(argv), data))
        return self.codes.pop(0) if self.codes else 0

    async def post(self, smtp: SmtpSettings, message: EmailMessage) -> None:
        if self.fault is not None:
            raise self.fault
        self.posted.append(message)

    def load(self) -> bytes:
        return self.kept

    def save(self, data: bytes) -> None:
        self.kept = data

    def hears(self, *notices: Notice) -> list[tuple[Outcome, ...]]:
        async def all_of_them() -> list[tuple[Outcome, ...]]:
            return [await self.tell(notice) for notice in notices]

        return asyncio.run(all_of_them())


# -- what a notice can hold


def test_every_field_is_a_kind_a_number_a_time_or_one_of_two_ids() -> None:
    texts: set[str] = set()
    for name, hint in typing.get_type_hints(Notice).items():
        parts = set(typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,))
        if str in parts:
            texts.add(name)
        assert parts <= {NoticeKind, int, datetime, str, type(None)}
    assert issubclass(NoticeKind, StrEnum)
    assert texts == {"study", "round_id"}
    assert len(fields(Notice)) == 6


@pytest.mark.parametrize("field", ["study", "round_id"])
@pytest.mark.parametrize(
    "text", ["41 people", "mean=2.5", "a\nBcc: x@example.org", "a.b", "a/b", "x" * 65, "ümlaut", "asd\n", " "]
)
def test_no_field_takes_free_text(field: str, text: str) -> None:
    with pytest.raises(ValueError, match="by their ids"):
        replace(WHOLE, **{field: text})  # type: ignore[arg-type]  # the field is chosen at run time


@pytest.mark.parametrize("text", ["", "age", ROUND.upper(), ROUND[1:], ROUND + "0"])
def test_a_round_is_sixteen_bytes_in_hex(text: str) -> None:
    with pytest.raises(ValueError, match="by their ids"):
        replace(WHOLE, round_id=text)


@pytest.mark.parametrize("time", [AT.replace(tzinfo=None), AT.astimezone(timezone(timedelta(hours=1)))])
def test_times_are_in_utc(time: datetime) -> None:
    with pytest.raises(ValueError, match="in UTC"):
        replace(WHOLE, at=time)
    with pytest.raises(ValueError, match="in UTC"):
        replace(WHOLE, due=time)


# -- what it says


def test_people_read_both_times_and_what_to_do() -> None:
    assert WHOLE.subject("nyu") == "[cohortsum nyu] a deadline is near: study asd-open version 2"
    assert WHOLE.text("nyu", ZoneInfo("Asia/Tokyo")) == (
        "A deadline is near.\n\n"
        "at       nyu\n"
        "study    asd-open\n"
        "version  2\n"
        f"round    {ROUND}\n"
        "due      2026-12-01 18:00+09:00 (2026-12-01 09:00 UTC)\n"
        "noticed  2026-12-01 07:05+09:00 (2026-11-30 22:05 UTC)\n\n"
        "What to do: do before then what the study waits for; at a site, `cohortsum\n"
        "node studies FOLDER` shows it.\n"
    )


def test_a_notice_about_no_study_names_none() -> None:
    notice = Notice(NoticeKind.IDENTITY_PROBLEM, "", None, AT)
    assert notice.subject("hub") == "[cohortsum hub] roster, deny-list or identity need a look"
    lines = notice.text("hub").splitlines()
    assert not any(line.startswith(("study", "version", "round", "due")) for line in lines)


def test_programs_read_every_field() -> None:
    assert json.loads(WHOLE.to_json("nyu")) == {
        "kind": "deadline",
        "site": "nyu",
        "study": "asd-open",
        "version": 2,
        "round_id": ROUND,
        "at": "2026-11-30T22:05:00+00:00",
        "due": "2026-12-01T09:00:00+00:00",
    }
    bare = json.loads(Notice(NoticeKind.TEST, "", None, AT).to_json("nyu"))
    assert (bare["version"], bare["round_id"], bare["due"]) == (None, None, None)


def test_every_kind_has_its_words() -> None:
    assert set(WORDS) == set(NoticeKind)
    assert len({happened for happened, _ in WORDS.values()}) == len(NoticeKind)


def test_the_key_tells_notices_apart_by_all_but_the_time_they_were_made() -> None:
    assert replace(WHOLE, at=AT + timedelta(days=1)).key == WHOLE.key
    others = [
        replace(WHOLE, kind=NoticeKind.ROUND_FAILED),
        replace(WHOLE, study="other"),
        replace(WHOLE, version=3),
        replace(WHOLE, round_id=ROUND[::-1]),
        replace(WHOLE, due=DUE + timedelta(hours=1)),
        replace(WHOLE, study="", version=None),
    ]
    assert len({notice.key for notice in (WHOLE, *others)}) == 7


# -- settings


def test_settings_need_little() -> None:
    smtp = NoticeSettings.model_validate(SMTP).smtp
    assert smtp is not None
    assert (smtp.port, smtp.starttls, smtp.user, smtp.sender) == (587, True, None, "node@example.org")
    assert NoticeSettings() == NoticeSettings(hook=None, smtp=None)


@pytest.mark.parametrize(
    ("change", "expectation"),
    [
        ({"user": "node"}, "user and password_file together"),
        ({"password_file": "p"}, "user and password_file together"),
        ({"user": "node", "password_file": "p", "starttls": "no"}, "never crosses an open line"),
        ({"port": "465"}, "not in this version"),
        ({"port": "0"}, "greater than or equal to 1"),
        ({"to": []}, "at least 1 item"),
        ({"to": ["a@example.org\nBcc: b@example.org"]}, "match pattern"),
        ({"from": "Node <node@example.org>"}, "match pattern"),
        ({"host": "mail example"}, "match pattern"),
        ({"password": "7351946canary"}, "Extra inputs"),
    ],
)
def test_a_faulty_mail_server_is_refused(change: dict[str, object], expectation: str) -> None:
    with pytest.raises(ValidationError, match=expectation) as caught:
        SmtpSettings.model_validate(SERVER | change)
    assert "7351946" not in str(caught.value)


def test_a_hook_is_named_by_its_whole_path() -> None:
    with pytest.raises(ValidationError, match="absolute path"):
        NoticeSettings.model_validate({"hook": "bin/tell"})


@pytest.mark.parametrize("data", [b"", b"\n", b"canary\ntwo\n", "canäry".encode(), b"can\tary", b"\xff"])
def test_a_password_is_one_line_of_ascii(data: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"smtp\.password: expected one line") as caught:
        parse_password(data, "smtp.password")
    assert "can" not in caught.value.message


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_password_keeps_its_blanks_and_loses_its_line_end(end: bytes) -> None:
    assert parse_password(b" pass word " + end, "p").reveal() == b" pass word "


# -- telling once


def test_both_ways_carry_a_notice_once() -> None:
    desk = Desk(HOOK | SMTP)
    first, second = desk.hears(WHOLE, replace(WHOLE, at=AT + timedelta(hours=1)))
    assert first == (Outcome(Way.HOOK), Outcome(Way.SMTP))
    assert second == ()
    assert desk.ran == [(("/opt/tell", "deadline"), WHOLE.to_json("nyu"))]
    [mail] = desk.posted
    assert (mail["From"], mail["To"]) == ("node@example.org", "admin@example.org")
    assert mail["Subject"] == WHOLE.subject("nyu")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content() == WHOLE.text("nyu")


def test_another_courier_with_the_same_record_stays_quiet() -> None:
    desk = Desk(HOOK)
    desk.hears(WHOLE)
    again = Desk(HOOK, desk.kept)
    assert again.hears(WHOLE, replace(WHOLE, version=3)) == [(), (Outcome(Way.HOOK),)]


def test_the_way_that_failed_is_tried_again_and_the_other_stays_quiet() -> None:
    desk = Desk(HOOK | SMTP, codes=[3, 0])
    first, second, third = desk.hears(WHOLE, WHOLE, WHOLE)
    assert first == (Outcome(Way.HOOK, "exit code 3"), Outcome(Way.SMTP))
    assert second == (Outcome(Way.HOOK),)
    assert third == ()


def test_any_fault_of_a_way_is_named_and_its_words_are_not_repeated() -> None:
    desk = Desk(HOOK | SMTP)
    desk.fault = RuntimeError("7351946canary")
    assert desk.hears(WHOLE) == [(Outcome(Way.HOOK), Outcome(Way.SMTP, "RuntimeError"))]
    desk.fault = ConfigurationError("p: cannot be read; check path")
    assert desk.hears(WHOLE) == [(Outcome(Way.SMTP, "p: cannot be read; check path"),)]


def test_the_same_notice_at_the_same_time_goes_out_once() -> None:
    desk = Desk(HOOK)

    async def twice() -> list[tuple[Outcome, ...]]:
        return [*await asyncio.gather(desk.tell(WHOLE), desk.tell(WHOLE))]

    assert asyncio.run(twice()) == [(Outcome(Way.HOOK),), ()]


def test_after_sixty_days_a_notice_is_forgotten_and_no_sooner() -> None:
    desk = Desk(HOOK)
    other = replace(WHOLE, version=3)
    desk.hears(WHOLE, replace(other, at=AT + timedelta(days=60)))
    assert len(json.loads(desk.kept)) == 2
    desk.hears(replace(other, version=4, at=AT + timedelta(days=60, seconds=1)))
    assert len(json.loads(desk.kept)) == 2
    assert desk.hears(WHOLE) == [(Outcome(Way.HOOK),)]


def test_a_test_is_never_held_back_or_remembered() -> None:
    desk = Desk(HOOK)
    test = Notice(NoticeKind.TEST, "", None, AT)
    assert desk.hears(test, test) == [(Outcome(Way.HOOK),), (Outcome(Way.HOOK),)]
    assert desk.kept == b""


@pytest.mark.parametrize("kept", [b"{", b"[]", b"3", b"\xff", b'{"a": 1}', b'{"a": "yesterday"}'])
def test_a_spoilt_record_costs_a_second_telling_and_is_replaced(kept: bytes) -> None:
    desk = Desk(HOOK, kept)
    assert desk.hears(WHOLE, WHOLE) == [(Outcome(Way.HOOK),), ()]
    assert list(json.loads(desk.kept)) == [f"hook/{WHOLE.key}"]


def test_a_record_that_cannot_be_written_is_said_and_remembered_until_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk(HOOK)

    def full(_data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(desk, "save", full)
    assert desk.hears(WHOLE, WHOLE) == [(Outcome(Way.HOOK), Outcome(Way.RECORD, "OSError")), ()]


def test_without_a_way_nobody_is_told() -> None:
    desk = Desk({})
    assert desk.hears(WHOLE) == [()]
