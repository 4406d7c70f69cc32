"""The page opens alone, shows every table, and lets no name of a study become markup."""

import re
from html.parser import HTMLParser

import pytest

from cohortsum.report.document import ResultDocument, RosterIdentity, from_json, to_json
from cohortsum.report.page import NO_NOISE, OPEN_DATA, UNCHECKED, report_html
from cohortsum.study.results import Table
from tests.report.example import document, effect_row, regression, thickness_table
from tests.report.kinds import COX, KINDS, META, NASTY

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Every tag with its attributes, the text, and a check that tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def html() -> str:
    return report_html(document(*KINDS))


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_nothing_is_loaded_and_nothing_runs(html: str, page: Page) -> None:
    assert {tag for tag, _ in page.tags} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
    } == set()
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        assert {"src", "srcset", "data", "action"} & set(attributes) == set(), tag
        assert attributes.get("href", "#").startswith("#"), tag
    styles = re.findall(r"<style>(.*?)</style>", html, re.S)
    assert len(styles) == 1
    assert not re.search(r"@import|https?:|url\((?!#)", styles[0])
    assert "http" not in html.replace("http-equiv", "")
    policy = [attributes["content"] for _, attributes in page.tags if "http-equiv" in attributes]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_a_level_called_script_is_text_wherever_it_appears(html: str, page: Page) -> None:
    assert "<script" not in html
    assert "alert('x')" not in html
    assert page.text.count(NASTY) > 6
    assert f"A note that says {NASTY}." in page.text


def test_names_of_analyses_and_titles_are_text_too() -> None:
    held = document(Table(NASTY, NASTY, (NASTY, "status"), ((NASTY, "ok"),)))
    named = held.model_copy(update={"study": held.study.model_copy(update={"title": NASTY})})
    html = report_html(named)
    assert "<script" not in html
    assert Page(html).text.count(NASTY) >= 7


def test_the_head_says_who_under_which_rules_and_that_there_is_no_noise(page: Page) -> None:
    for words in (
        "study asd-open, version 1",
        "fingerprint k3f9-72c1",
        "data epoch 2026-11",
        "sites in the sums 2: amc, oak",
        "dropped out kcl",
        "profile open_data",
        "waivers none",
        "noise none",
        "release released, no checker",
        "at least 2 sites, 100 people, 10 people per site",
        "round 7d2c, attempt 1",
        NO_NOISE,
        OPEN_DATA,
        UNCHECKED,
    ):
        assert words in page.text


def test_the_consortium_is_named_where_the_document_names_it() -> None:
    held = document()
    roster = RosterIdentity(version=3, digest="5b" * 32, consortium="asd-imaging")
    named = held.model_copy(update={"roster": roster})
    assert from_json(to_json(named)).roster.consortium == "asd-imaging"
    assert "consortium asd-imaging" in Page(report_html(named)).text
    assert "consortium" not in Page(report_html(held)).text


def test_the_contents_lead_to_every_table(page: Page) -> None:
    targets = {attributes["id"] for tag, attributes in page.tags if tag == "section"}
    links = [attributes["href"][1:] for tag, attributes in page.tags if tag == "a"]
    assert len(links) == len(KINDS)
    assert set(links) == targets


def test_every_row_of_every_table_is_there_and_long_ones_are_folded(html: str, page: Page) -> None:
    rows = re.findall(r"<div class=\"scroll\" tabindex.*?</table>", html, re.S)
    assert [chunk.count("<tr>") - 1 for chunk in rows] == [len(table.rows) for table in KINDS]
    folded = re.findall(r"<summary>Table ([^:]+):", html)
    assert {"thickness", "ages", "survival", "components", "norms", "labs"} <= set(folded)
    assert {"demographics", "sexes", "spread"} & set(folded) == set()


def test_a_withheld_number_shows_its_reason_and_no_number_stands_for_it(html: str) -> None:
    assert '<td class="n absent">below threshold</td>' in html
    assert not re.search(r">-?(nan|NaN|inf|None)<", html)


def test_ids_are_unique(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_equal_documents_give_equal_pages(html: str) -> None:
    assert report_html(document(*KINDS)) == html
    again: ResultDocument = from_json(to_json(document(*KINDS)))
    assert report_html(again) == html


def test_a_forest_plot_is_a_table_with_a_drawing_per_row() -> None:
    html = report_html(document(thickness_table()))
    forest = html.partition('<table class="forest">')[2].partition("</table>")[0]
    assert forest.count("<svg") == 68 + 1  # and the axis
    assert forest.count("<rect") == 12  # one per significant effect
    assert "constant, not estimated" in forest
    assert "Left hemisphere" in forest


def test_ratios_stand_about_one_and_terms_of_one_outcome_stand_together() -> None:
    html = report_html(document(COX))
    assert "death: hazard ratio with 95 % interval" in html
    assert "<td class=n>0.58 [0.41, 0.80]</td>" in html
    assert ">aliased<" in html


def test_a_meta_analysis_has_a_plot_per_model() -> None:
    text = Page(report_html(document(META))).text
    assert "fixed: estimate with 95 % interval" in text
    assert "random: estimate with 95 % interval" in text


def test_of_very_many_outcomes_the_plot_shows_the_smallest_p() -> None:
    rows = [effect_row(f"o{place}", 0.1, 0.9 - place / 1000) for place in range(200)]
    html = report_html(document(regression(*rows)))
    assert "the 150 smallest p of 200" in html
    assert html.count('<td class="o"') == 150


def test_an_interval_without_end_is_cut_at_the_axis_and_marked() -> None:
    wide = ("death", "ecog", 0.5, 60.0, 0.01, 0.99, -117.0, 118.0, 226, 221, "ok")
    far = ("death", "dose", 20.0, 0.1, 200.0, 0.0, 19.8, 20.2, 226, 221, "ok")
    html = report_html(document(Table("x", "cox", COX.columns, (*COX.rows, wide, far))))
    forest = html.partition('<table class="forest">')[2].partition("</table>")[0]
    assert (forest.count("◂"), forest.count("▸")) == (1, 2)
    places = [float(x) for x in re.findall(r' (?:x|x1|x2|cx)="([-0-9.]+)%"', forest)]
    assert min(places) >= 0
    assert max(places) <= 100
    assert forest.count("<rect") + forest.count("<circle") == 4  # the far one has an arrow alone
