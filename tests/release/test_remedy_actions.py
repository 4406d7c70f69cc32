"""Remedies as JSON and as words: one canonical text for each, and nothing read that was not written."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.study.release.actions import MAX_BYTES, MOST_ACTIONS
from cohortsum.study.release.remedy import (
    Drop,
    DropTable,
    Merge,
    MergeBins,
    Remedy,
    describe,
    remedy_from_json,
    remedy_to_json,
)

names = st.text("abz é-.", min_size=1, max_size=8).filter(lambda text: text == text.strip())
some = st.lists(names, max_size=3).map(tuple)
finite = st.floats(allow_nan=False, allow_infinity=False)
ascending = st.lists(finite, min_size=1, max_size=5, unique=True).map(lambda edges: tuple(sorted(edges)))
merges = st.lists(names, min_size=3, max_size=5, unique=True).flatmap(
    lambda levels: names.map(lambda factor: Merge(factor, tuple(levels[1:]), levels[0]))
)
drops = st.builds(
    Drop,
    variables=some,
    levels=st.dictionaries(names, st.lists(names, min_size=1, max_size=2).map(tuple), max_size=2),
    thresholds=ascending,
    probabilities=st.lists(finite, max_size=2).map(tuple),
    terms=some,
)
actions = st.one_of(
    merges,
    st.builds(MergeBins, names, ascending),
    drops,
    st.builds(DropTable, st.sampled_from(["", "cells", "cells.association"])),
)
remedies = st.lists(actions, min_size=1, max_size=4).map(lambda found: Remedy(tuple(found)))


@given(remedy=remedies)
def test_a_remedy_is_read_as_it_was_written(remedy: Remedy) -> None:
    text = remedy_to_json(remedy)
    assert remedy_from_json(text) == remedy
    assert remedy_to_json(remedy_from_json(text)) == text
    assert remedy_from_json(json.dumps(json.loads(text), indent=2)) == remedy
    assert describe(remedy)


def test_the_canonical_text_has_sorted_keys_and_nothing_empty() -> None:
    remedy = Remedy(
        (
            Merge("dx", ("autism", "other"), "not control"),
            MergeBins("age", (-0.0, 20, 40.5)),
            Drop(variables=("age",), levels={"sex": ("male",), "dx": ("other",)}),
            DropTable(),
        )
    )
    assert remedy_to_json(remedy) == (
        '{"actions":[{"do":"merge","factor":"dx","levels":["autism","other"],"name":"not control"},'
        '{"do":"merge_bins","keep_edges":[0.0,20.0,40.5],"variable":"age"},'
        '{"do":"drop","levels":{"dx":["other"],"sex":["male"]},"variables":["age"]},{"do":"drop_table"}]}'
    )
    assert describe(remedy) == (
        "merge dx[autism] and dx[other] into dx[not control]; keep of age only the edges 0, 20 and 40.5; "
        "leave out age, dx[other], sex[male]; leave out this table"
    )


def test_rows_and_tables_are_described_in_words() -> None:
    drop = Drop(thresholds=(20,), probabilities=(0.25, 0.5), terms=("dx[other]",))
    assert describe(Remedy((drop,))) == "leave out above 20, probability 0.25 and 0.5, term dx[other]"
    assert describe(Remedy((DropTable("sexes.association"),))) == "leave out the table sexes.association"


MERGE = '{"do":"merge","factor":"dx","levels":["a","b"],"name":"c"}'
WRONG = [
    ("{", "not JSON"),
    ("", "not JSON"),
    ("[" * 100_000, "larger than"),
    ("[" * 60_000, "not JSON"),
    ("[]", "should be an object"),
    ("{}", "actions: Field required"),
    ('{"actions":[]}', "at least one action"),
    ('{"actions":[' + ",".join([MERGE] * (MOST_ACTIONS + 1)) + "]}", f"at most {MOST_ACTIONS}"),
    ('{"actions":[' + MERGE + '],"more":1}', "more: Unexpected"),
    ('{"actions":[{"do":"melt"}]}', "actions[0]: tag 'melt'"),
    ('{"actions":[{"factor":"dx"}]}', "actions[0]: Unable to extract tag"),
    ('{"actions":[{"do":"merge","do":"drop"}]}', "a key is there twice"),
    ('{"actions":[{"do":"merge","factor":"dx","levels":["a"],"name":"c"}]}', "actions[0]: levels: expected at least two"),
    ('{"actions":[{"do":"merge","factor":"dx","levels":["a","a"],"name":"c"}]}', "each once"),
    ('{"actions":[{"do":"merge","factor":"dx","levels":["a","b"],"name":"b"}]}', "name of its own"),
    ('{"actions":[{"do":"merge","factor":"dx","levels":["a",1],"name":"c"}]}', "actions[0].levels[1]: should be a valid string"),
    ('{"actions":[{"do":"merge","factor":"d/x","levels":["a","b"],"name":"c"}]}', "actions[0].factor: a name has"),
    ('{"actions":[{"do":"merge","factor":"dx","levels":["a","b\\u0007"],"name":"c"}]}', "one printable line"),
    ('{"actions":[{"do":"merge_bins","variable":"age","keep_edges":[2,1]}]}', "each greater than the one before"),
    ('{"actions":[{"do":"merge_bins","variable":"age","keep_edges":[]}]}', "at least one finite edge"),
    ('{"actions":[{"do":"merge_bins","variable":"age","keep_edges":[NaN]}]}', "not JSON"),
    ('{"actions":[{"do":"merge_bins","variable":"age","keep_edges":[1e999]}]}', "keep_edges"),
    ('{"actions":[{"do":"merge_bins","variable":"age","keep_edges":["1"]}]}', "actions[0].keep_edges[0]: should be a valid number"),
    ('{"actions":[{"do":"drop"}]}', "expected variables, levels"),
    ('{"actions":[{"do":"drop","levels":{"dx":[]}}]}', "at least one level of every factor"),
    ('{"actions":[{"do":"drop","variables":["a"],"rows":[1]}]}', "actions[0].rows: Unexpected"),
    ('{"actions":[{"do":"drop_table","table":"a\\nb"}]}', "actions[0].table: String should match"),
    ('{"actions":[{"do":"drop_table","table":null}]}', "actions[0].table"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), WRONG, ids=range(len(WRONG)))
def test_what_is_no_remedy_is_refused_with_its_field(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        remedy_from_json(text, "reason.json")
    assert all(line.startswith("reason.json: ") for line in str(caught.value).splitlines())
    assert why in str(caught.value)


def test_no_text_is_too_long_to_be_refused() -> None:
    with pytest.raises(ConfigurationError, match="larger than"):
        remedy_from_json(" " * (MAX_BYTES + 1))


@given(
    text=st.one_of(
        st.text(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["actions", "do", "levels"]), inner)
            ),
        ).map(json.dumps),
    )
)
def test_any_other_text_raises_nothing_else(text: str) -> None:
    try:
        found = remedy_from_json(text)
    except ConfigurationError:
        return
    assert remedy_from_json(remedy_to_json(found)) == found


@pytest.mark.parametrize(
    "made",
    [
        lambda: Merge("dx", ("a",), "b"),
        lambda: Merge("dx", ("a", "b"), "a"),
        lambda: MergeBins("age", (1.0, 1.0)),
        lambda: MergeBins("age", (float("nan"), 1.0)),
        lambda: MergeBins("age", (1.0, float("inf"))),
        lambda: MergeBins("age", (float("nan"),)),
        lambda: Drop(),
        lambda: Remedy(()),
    ],
)
def test_actions_made_in_code_are_checked_as_well(made: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"expected|name of its own"):
        made()
