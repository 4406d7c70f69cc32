"""The page of a queued item: everything that is signed is on it, nothing is loaded or runs, and no name becomes markup."""

import datetime
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.report.queue_item import Change, Question, QueueItem, SignedAct
from cohortsum.report.queue_page import NOT_OUT, command, queue_page
from cohortsum.study.catalogue.rule import Page as Written
from cohortsum.study.catalogue.rules import RULES, RULES_BY_ID
from cohortsum.study.disclosure.verdict import Outcome, RuleResult, Waiver
from cohortsum.study.results import Absent, Table
from tests.report.hidden import RULE, suppressed
from tests.report.kinds import KINDS, NASTY
from tests.report.queue_example import CHECKLIST, DIGEST, MACHINE, WAIVER, long, plain, queued, with_history
from tests.report.test_page import Page

LOADS = {"script", "link", "img", "iframe", "object", "embed", "base", "audio", "video", "form"}
TEXTS = st.one_of(
    st.text(min_size=1, max_size=30),
    st.sampled_from(
        [NASTY, "</td></table>", "<img onerror=alert(1)>", "\" onload='x", "&lt;b&gt;", "]]>", "--><b>"]
    ),
)
ITEMS = (plain, with_history, long)


def part(html: str, title: str) -> str:
    """Return one section of the page."""
    return html.partition(f"<h2>{title}</h2>")[2].partition("</section>")[0]


class Words(HTMLParser):
    """Every piece of text, and the whole of it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.feed(html)
        self.close()

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.parts).split())


def words(html: str) -> str:
    return Words(html).text


@pytest.mark.parametrize("make", ITEMS)
def test_nothing_is_loaded_and_nothing_runs(make: Callable[[], QueueItem]) -> None:
    html = queue_page(make())
    page = Page(html)
    assert {tag for tag, _ in page.tags} & LOADS == set()
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        assert {"src", "srcset", "data", "action"} & set(attributes) == set(), tag
        assert attributes.get("href", "#").startswith("#"), tag
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.S)
    assert not re.search(r"@import|https?:|url\((?!#)", style)
    assert "http" not in html.replace("http-equiv", "")


@pytest.mark.parametrize("make", ITEMS)
def test_equal_items_give_equal_bytes(make: Callable[[], QueueItem]) -> None:
    assert queue_page(make()) == queue_page(make())


def test_it_says_which_item_of_which_study_in_which_state() -> None:
    text = Page(queue_page(with_history())).text
    for said in (
        "severity in the queue",
        "study asd-open, version 3",
        "fingerprint CHA-547-R9C-G73-RB9",
        "title Cortical thickness in autism",
        "severity: cross table",
        "profile dpuk",
        "3 passed, 1 changed, 1 waived",
        "No noise was added",
        NOT_OUT,
    ):
        assert said in text


def test_the_digest_stands_first_in_groups_that_are_read_aloud() -> None:
    html = queue_page(plain())
    box = html.partition('<div class="digest">')[2].partition("</div>")[0]
    assert html.index('<div class="digest">') < html.index("<dl>")
    assert "".join(re.findall(r"<span>([0-9a-f]{8})</span>", box)) == DIGEST
    assert html.count(DIGEST) == 4  # three commands and the last line


def test_every_cell_of_the_item_is_shown() -> None:
    item = long()
    section = part(queue_page(item), "The item")
    assert section.count("<tr>") == 68 + 1
    assert section.count("<td") == 68 * 18
    assert "All of it: 68 rows, 18 columns." in section
    assert "<details" not in queue_page(item)
    for row in item.table.rows:
        assert f">{row[0]}<" in section


@pytest.mark.parametrize("table", KINDS, ids=lambda table: table.kind)
def test_every_kind_of_table_has_a_page(table: Table) -> None:
    html = queue_page(queued(table))
    Page(html)
    assert part(html, "The item").count("<tr>") == len(table.rows) + 1
    assert "<script" not in html


def test_a_hidden_cell_says_so_with_the_rule_and_other_absent_cells_do_not() -> None:
    section = part(queue_page(with_history()), "The item")
    assert section.count('<td class="hidden"><b>hidden</b>') == 12
    assert "hiddenprimary_suppression" in words(section)
    other = part(queue_page(long()), "The item")
    assert "hidden" not in other
    assert ">no data<" in other
    own = Table("t", "crosstab", ("a", "count", "status"), (("x", Absent("own_rule"), "ok"),))
    said = RuleResult("own_rule", "t", Outcome.CHANGED, "w")
    assert "<b>hidden</b>own_rule" in part(queue_page(queued(own, (said,))), "The item")


def test_every_rule_is_there_with_its_result_and_its_source_and_those_to_look_at_come_first() -> None:
    section = part(queue_page(with_history()), "Rules")
    text = words(section)
    order = [text.index(said) for said in ("! waived", "△ changed", "✔ passed")]
    assert order == sorted(order)
    for result in with_history().rules:
        known = RULES_BY_ID[result.rule]
        for said in (result.rule, result.what, known.what, known.source.heading, known.source.entry):
            assert said in text
    assert str(Written.DISCLOSURE) in text
    assert str(Written.PRIVACY) not in text
    assert "means_of_site_sums" in (own := words(part(queue_page(long()), "Rules")))
    assert "a rule of the gate itself" in own


def test_every_rule_of_the_catalogue_can_be_shown() -> None:
    table = suppressed()
    results = tuple(
        RuleResult(rule.id, table.analysis, tuple(Outcome)[place % 4], f"found {place}")
        for place, rule in enumerate(RULES)
    )
    text = words(part(queue_page(queued(table, results)), "Rules"))
    assert all(rule.id in text and f"found {place}" in text for place, rule in enumerate(RULES))
    assert all(str(page) in text for page in Written)


def test_no_results_are_no_silence() -> None:
    html = queue_page(queued(suppressed()))
    assert "No rule has looked at this item." in html
    assert "rules none looked" in Page(html).text


def test_waivers_stand_in_a_box_above_everything_but_the_digest() -> None:
    second = replace(WAIVER, site="amc", rule="checklist_noise", until=datetime.date(2026, 12, 31))
    html = queue_page(replace(with_history(), waivers=(WAIVER, second)))
    box = html.partition('<div class="waived" role="note">')[2].partition("</div>\n<ul")[0]
    places = [html.index(f'class="{kind}"') for kind in ("digest", "waived", "warnings")]
    assert places == sorted(places)
    text = words(box)
    assert "2 waivers" in text
    for waiver in (WAIVER, second):
        for said in (
            waiver.rule,
            waiver.site,
            waiver.value,
            waiver.reason,
            waiver.by,
            waiver.until.isoformat(),
        ):
            assert said in text
        assert RULES_BY_ID[waiver.rule].source.heading in text
    assert 'class="waived"' not in queue_page(plain())
    assert "waivers none" in Page(queue_page(plain())).text


def test_the_checklist_tells_the_programs_answers_from_the_checkers() -> None:
    section = part(queue_page(plain()), "Checklist")
    machine, _, people = section.partition("<h3>For you to confirm")
    answers = re.findall(r"<li><b>(.*?)</b>", machine)
    said = {True: "✔ yes", False: "✖ no", None: "? no rule looked"}
    assert answers == [said[MACHINE[question.id]] for question in CHECKLIST if question.machine]
    assert people.count("☐") == sum(not question.machine for question in CHECKLIST)
    for question in CHECKLIST:
        held = machine if question.machine else people
        assert f"<code>{question.id}</code>" in held
        assert question.text in words(held)


def test_changes_stand_side_by_side_with_what_a_reader_of_both_learns() -> None:
    section = part(queue_page(with_history()), "Since earlier releases")
    assert "Since version 2: 4 changed, 1 new, 1 gone" in section
    assert "Since before it was returned: 1 changed, 0 new, 0 gone" in section
    rows = [words(row.replace("</td>", "|</td>")) for row in re.findall(r"<tr><td>.*?</tr>", section)]
    assert rows == [
        "A, low|count|changed|24|22|-2|! fewer than 10 apart|",
        f"A, high|count|changed|12|hidden{RULE}||! printed before|",
        f"A, mid|count|changed|hidden{RULE}|hidden{RULE}|||",
        "B, low|row_percent|changed|37.63440860215053|37.634408602150536|+7.105e-15||",
        "C, low|count|new|not there|19|||",
        "D, low|count|gone|31|not there|||",
        f"B, mid|count|changed|hidden{RULE}|30||! hidden before|",
    ]
    assert "No cell differs" in part(queue_page(plain()), "Since earlier releases")


def test_every_decision_is_there() -> None:
    text = words(part(queue_page(with_history()), "Decisions so far").replace("</td>", "|</td>"))
    assert "release|m.weber|checker|2026-11-29T16:04:11Z||" in text
    assert "return|j.osei|site admin|2026-11-29T17:30:00Z|Merge mid and high.|" in text
    assert "Nobody has decided" in part(queue_page(plain()), "Decisions so far")


def test_the_commands_are_one_shell_line_each_whatever_the_item_is_called() -> None:
    name = "a; rm -rf / 'x' $(y)"
    item = replace(plain(), name=name)
    said = command(item, "return", "--reason", "REASON")
    assert shlex.split(said.replace("\\\n", "")) == [
        *("cohortsum", "release", "return", "asd-open", name, "--digest", DIGEST, "--reason", "REASON")
    ]
    text = part(queue_page(item), "To decide")
    assert [words(pre).split()[2] for pre in re.findall(r"<pre>(.*?)</pre>", text, re.S)] == [
        "sign",
        "return",
        "withhold",
    ]


@pytest.mark.parametrize(
    ("state", "acts"),
    [("released", ["retract"]), ("withheld", []), ("returned", []), ("retracted", []), ("checks", []), ("computed", [])],
)  # fmt: skip
def test_only_what_can_be_decided_in_a_state_is_offered(state: str, acts: list[str]) -> None:
    html = queue_page(replace(plain(), state=state))
    section = part(html, "To decide")
    assert [words(pre).split()[2] for pre in re.findall(r"<pre>(.*?)</pre>", section, re.S)] == acts
    assert (NOT_OUT in html) is (state != "released")


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=16, max_size=16))
def test_text_is_text_wherever_it_comes_from(said: list[str]) -> None:
    name, level, note, what, value, reason, by, site, row, since, act, asked, title, noise, column, own = said
    rule = f"own {own}"  # a rule of the catalogue has a source, and a legend below it
    table = Table(
        name,
        "crosstab",
        ("arm" + column, "count", "status"),
        ((level, 12, "ok"), (level, Absent(rule), "ok")),
        (note,),
    )
    item = QueueItem(
        study=plain().study.model_copy(update={"title": title}),
        profile="open_data",
        waivers=(Waiver(rule, value, reason, by, datetime.date(2027, 1, 1), site),),
        name=name,
        state="queue",
        digest=DIGEST,
        table=table,
        rules=(RuleResult(rule, name, Outcome.CHANGED, what),),
        checklist=(Question("own", asked, machine=False, answered=None),),
        signatures=(SignedAct(by, site, act, "2026-11-29T16:04:11Z", reason),),
        changes=(Change(since, "changed", row, column, level, Absent(rule)),),
        noise=noise,
    )  # fmt: skip
    html = queue_page(item)
    page = Page(html)  # tags close in order
    skeleton = [tag for tag, _ in page.tags]
    assert skeleton == [tag for tag, _ in Page(queue_page(_harmless(item))).tags]
    assert {tag for tag, _ in page.tags} & LOADS == set()
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)


def _harmless(item: QueueItem) -> QueueItem:
    """Return the item with a plain word in place of every text of a study, a site or a person."""
    table = Table(
        "x", "crosstab", ("armx", "count", "status"), (("x", 12, "ok"), ("x", Absent("x"), "ok")), ("x",)
    )
    return replace(
        item,
        study=item.study.model_copy(update={"title": "x"}),
        waivers=(Waiver("x", "x", "x", "x", datetime.date(2027, 1, 1), "x"),),
        name="x",
        table=table,
        rules=(RuleResult("x", "x", Outcome.CHANGED, "x"),),
        checklist=(Question("own", "x", machine=False, answered=None),),
        signatures=(SignedAct("x", "x", "x", "2026-11-29T16:04:11Z", "x"),),
        changes=(Change("x", "changed", "x", "x", "x", Absent("x")),),
        noise="x",
    )  # fmt: skip
