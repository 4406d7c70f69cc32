"""METHODS.md says what the document says, of every analysis, and no name in it is markup."""

import re
from dataclasses import replace

import pytest

from cohortsum.report.document import LeftOut, ResultDocument, RosterIdentity
from cohortsum.report.methods import code, describe, listed, methods_markdown
from cohortsum.report.page import report_html
from cohortsum.study.results import Table
from tests.report.example import document, thickness_table
from tests.report.kinds import (
    COX,
    HISTOGRAM,
    KAPLAN_MEIER,
    KINDS,
    LOGISTIC,
    META,
    MIXED,
    STRANGE,
    SUMMARY,
)


@pytest.fixture(scope="module")
def text() -> str:
    return methods_markdown(document(*KINDS))


def test_there_is_one_paragraph_per_table(text: str) -> None:
    analyses = text.partition("## Analyses")[2].partition("## Provenance")[0]
    paragraphs = [paragraph for paragraph in analyses.strip().split("\n\n") if paragraph]
    assert [paragraph.partition(".**")[0] for paragraph in paragraphs] == [
        f"**`{table.analysis}`" for table in KINDS
    ]
    assert all("\n" not in paragraph for paragraph in paragraphs)


def test_it_says_over_whom_and_under_which_rules(text: str) -> None:
    for sentence in (
        "Data of 2 sites (`amc` and `oak`), data epoch `2026-11`, were analysed by secure aggregation",
        "1 site took part and dropped out (`kcl`)",
        "only over at least 2 sites and 100 people; a site took part with at least 10 people.",
        "Every opened sum hides at least 2 honest sites, reckoning with 0 colluding sites.",
        "Disclosure profile: `open_data`. No rule was waived. No noise was added to the sums.",
        "State of the release: released, no checker.",
        "- fingerprint: `k3f9-72c1`",
        "- software: `cohortsum 0.1.0`",
    ):
        assert sentence in text


def test_further_tables_of_survival_are_told(text: str) -> None:
    for sentence in (
        "Median survival is the first of these times with survival of one half or less by `sex`.",
        "Events observed and expected under equal survival are given by `sex`.",
        "Score tests of proportional hazards (Grambsch and Therneau 1994) were made for `age` and `all`.",
    ):
        assert sentence in text


def test_the_consortium_is_named_where_it_is_known() -> None:
    held = document()
    roster = RosterIdentity(version=3, digest="5b" * 32, consortium="asd-imaging")
    assert "of the consortium `asd-imaging`" in methods_markdown(held.model_copy(update={"roster": roster}))
    assert "consortium" not in methods_markdown(held)


@pytest.mark.parametrize(
    ("table", "sentences"),
    [
        (
            SUMMARY,
            [
                "mean and standard deviation of `age` and `iq` were computed by `sex`.",
                "n = 3 to 601 per group.",
            ],
        ),
        (
            HISTOGRAM,
            [
                "The distribution of `age` and `wmh` was counted",
                "1 of 32 rows is incomplete: 1 `below threshold`.",
            ],
        ),
        (
            thickness_table(),
            [
                "Linear models were fitted, one for each of 68 outcomes (`lh_bankssts_thickness`",
                "and 60 more), with the coefficients `dx[autism]` and `age`.",
                "Cohen's d was computed for `dx[autism]`, with p-values adjusted by the false discovery rate",
                "n = 1400 to 1467.",
                "10 of 136 rows are incomplete: 10 `constant, not estimated`.",
                "Contributing sites: 9.",
            ],
        ),
        (
            LOGISTIC,
            ["Generalised linear models were fitted, of the outcome `DIS_DIAB`, with the coefficients `age`"],
        ),
        (COX, ["Cox proportional hazards models were fitted", "n = 226.", "1 `aliased`", "Ties: Efron."]),
        (MIXED, ["mixed models with a random intercept per site"]),
        (META, ["two-stage meta-analysis (`fixed` and `random`) for 16 outcomes"]),
        (
            KAPLAN_MEIER,
            ["product-limit method (Kaplan and Meier 1958) at public times by `sex`.", "Grid of 30 days."],
        ),
        (STRANGE, ["A table of kind `poem` was computed."]),
    ],
    ids=lambda value: value.kind if isinstance(value, Table) else "",
)
def test_a_paragraph_says_what_its_table_holds(table: Table, sentences: list[str]) -> None:
    said = describe(table)
    for sentence in sentences:
        assert sentence in said


def test_the_intercept_is_no_covariate() -> None:
    assert "intercept" not in describe(LOGISTIC)


def test_names_are_code_and_notes_are_plain_text(text: str) -> None:
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert "<script>" not in outside.replace(r"\<script\>", "")
    assert r"A note that says \<script\>" in text
    assert code("a`b``c") == "```a`b``c```"
    assert code("`") == "`` ` ``"
    assert code("two\nlines") == "`two lines`"


def test_a_list_of_many_names_is_cut_and_says_so() -> None:
    assert listed(["a"]) == "`a`"
    assert listed(["a", "b", "c"]) == "`a`, `b` and `c`"
    assert listed([f"v{place}" for place in range(12)]).endswith("`v7` and 4 more")


def test_equal_documents_give_equal_text(text: str) -> None:
    assert methods_markdown(document(*KINDS)) == text
    assert text.endswith("\n")
    assert "\r" not in text


def test_an_unchanged_sum_of_an_earlier_version_is_said() -> None:
    held: ResultDocument = document(replace(SUMMARY, notes=()))
    built = held.model_copy(update={"round": held.round.model_copy(update={"builds_on_version": 1})})
    assert "- unchanged sums from version: `1`" in methods_markdown(built)


def test_several_rounds_and_the_sites_that_later_ones_lack_are_said() -> None:
    held = document()
    left = LeftOut(iteration=3, sites=("oak",))
    rounds = held.round.model_copy(update={"iterations": 4, "left_out": (left,)})
    several = held.model_copy(update={"round": rounds})
    text = methods_markdown(several)
    assert "4 iterations were opened over these people" in text
    assert "Without `oak` from iteration 3 on." in text
    assert "7d2c, attempt 1; 4 iterations" in report_html(several)
    assert "from iteration 3 on: oak" in report_html(several)
    assert "iterations" not in methods_markdown(held)
