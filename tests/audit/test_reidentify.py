"""The re-identification attack: it finds people as the paper does where vectors are bare, and guesses where they are masked.

People come from fixed seeds, masks from the system. From masked vectors the owner of each is named with probabilities that add up to
one per start, independently of each other, so hits over four starts are at most as dispersed as a Poisson variable of mean 4 (Hoeffding
1956): sixteen or more are a false alarm in 5 runs of a million, for each of three matchings. Whatever else is said of masked vectors
allows five standard deviations.
"""

import json
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from cohortsum.cli.audit import app
from cohortsum.cli.audit_reidentify_files import Columns, read_cohort
from cohortsum.crypto.errors import CohortsumError
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.secret import SecretBytes
from cohortsum.study.audit import reidentify_matching
from cohortsum.study.audit.connectome_model import Cohort, ConnectomeModel, Floats
from cohortsum.study.audit.reidentify import Identification, Reidentification, Settings, Told, attack
from cohortsum.study.audit.reidentify_matching import (
    Matching,
    correlations,
    fresh_key,
    leverage,
    masked,
    winners,
)
from cohortsum.study.audit.reidentify_prediction import PENALTY, predict_left_out, tell_scores

STARTS = 12
SMALL = ConnectomeModel(people=40, edges=300, directions=20, tasks=2)
TABLE = {40: (0.932, 0.900, 0.875, 0.842), 50: (0.965, 0.948, 0.923, 0.895)}
"""Identification by directions and noise that the design measured, from four starts and one direction of matching."""
PAPER = {40: (0.94, 0.9114, 0.8671, 0.7905), 50: (0.972, 0.9633, 0.8917, 0.8410)}
"""Section 3.3 and Table 2 of the paper: HCP, ADHD-200."""


def attacked(
    model: ConnectomeModel, starts: int, seed: int, settings: Settings | None = None
) -> Reidentification:
    generator = np.random.default_rng(seed)
    return attack((model.invent(generator) for _ in range(starts)), settings or Settings(), generator)


@pytest.fixture(scope="module")
def by_directions() -> dict[int, Reidentification]:
    """Identification alone: what else there is to attack is left out."""

    def bare(model: ConnectomeModel, generator: np.random.Generator) -> Cohort:
        cohort = model.invent(generator)
        return Cohort(cohort.first, cohort.second)

    found: dict[int, Reidentification] = {}
    for directions in TABLE:
        model, generator = ConnectomeModel(directions=directions, tasks=2), np.random.default_rng(directions)
        cohorts = (bare(model, generator) for _ in range(STARTS))
        found[directions] = attack(cohorts, Settings(site_sizes=()), generator)
    return found


@pytest.fixture(scope="module")
def default() -> Reidentification:
    return attacked(ConnectomeModel(), 4, 4)


def of_top(found: Reidentification) -> list[Identification]:
    return [one for one in found.identified if one.matching == "top 100"]


def told(found: tuple[Told, ...], matching: str) -> dict[int, Told]:
    return {one.people: one for one in found if one.matching == matching}


@pytest.mark.parametrize("directions", TABLE)
def test_bare_vectors_identify_as_the_design_and_the_paper_found(
    by_directions: dict[int, Reidentification], directions: int
) -> None:
    found = of_top(by_directions[directions])
    for one, designed, published in zip(found, TABLE[directions], PAPER[directions], strict=True):
        assert abs(one.accuracy - designed) < 0.04
        assert abs(one.accuracy - published) < 0.03 + 2 * one.error
    assert (
        np.mean([abs(one.accuracy - paper) for one, paper in zip(found, PAPER[directions], strict=True)])
        < 0.03
    )
    assert [one.accuracy for one in found] == sorted((one.accuracy for one in found), reverse=True)


def test_two_scans_of_one_person_correlate_as_the_design_found(
    by_directions: dict[int, Reidentification],
) -> None:
    """Within 0.83, between 0.51, from four starts, whose between has a standard error of 0.017; over many it is 0.46."""
    bare = of_top(by_directions[40])[0]
    assert abs(bare.within - 0.83) < 0.03
    assert abs(bare.between - 0.51) < 0.03 + 2 * 0.017


def test_the_error_is_that_of_as_many_people_as_there_are(by_directions: dict[int, Reidentification]) -> None:
    bare = of_top(by_directions[40])[0]
    assert bare.error == pytest.approx(sqrt(bare.accuracy * (1 - bare.accuracy) / (100 * STARTS)))
    generator = np.random.default_rng(1)
    one = SMALL.invent(generator)
    again = attack([one, one, one], Settings(), generator).identified[1]
    assert again.error == pytest.approx(sqrt(again.accuracy * (1 - again.accuracy) / 40))


def test_few_features_identify_better_than_all_in_the_model_which_is_made_so(
    default: Reidentification,
) -> None:
    top, everything, _ = (one.accuracy for one in default.identified[:3])
    assert top > everything + 0.1


def test_noise_on_the_series_behind_correlations_changes_nothing() -> None:
    """White noise of variance v divides every correlation by 1 + v, and matching does not notice."""
    cohort = SMALL.invent(np.random.default_rng(7))
    leverages = leverage(cohort.first)
    for matching in Settings().matchings[:2]:
        bare = matching.compare(cohort.first, cohort.second, leverages)
        assert np.allclose(matching.compare(cohort.first, cohort.second / 1.3, leverages), bare)


def test_masked_vectors_identify_nobody(default: Reidentification) -> None:
    for one in default.masked:
        assert one.named * default.people * default.starts < 16
        assert one.named_by_chance == 1 / default.people
        assert one.auc is not None
        assert abs(one.auc - 0.5) < 5 / sqrt(12 * default.people * default.starts)


def test_without_their_mask_the_same_words_identify(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is the mask that hides, not the fixed point."""

    def unmasked(vector: Vector, plus: list[SecretBytes], minus: list[SecretBytes]) -> None:
        assert len(plus) == 1
        assert not minus

    monkeypatch.setattr(reidentify_matching, "add_masks", unmasked)
    found = attacked(SMALL, 2, 5)
    assert [one.named for one in found.masked[:2]] == [one.named for one in found.identified[:2]]
    assert found.masked[0].named > 0.5


def test_every_masked_vector_has_a_mask_of_its_own() -> None:
    keys: list[bytes] = []

    def counted() -> SecretBytes:
        key = fresh_key()
        keys.append(key.reveal())
        return key

    seen = masked(np.ones((5, 200)), counted)
    assert len(set(keys)) == 5
    assert len({row.tobytes() for row in seen}) == 5
    assert np.all(np.abs(seen).max(axis=1) > 2.0**60)


@pytest.mark.parametrize("matching", ["top 100", "all", "all, centred"])
def test_a_sum_of_one_is_a_bare_vector_and_larger_sums_name_nobody_in_particular(
    default: Reidentification, matching: str
) -> None:
    sums = told(default.sites, matching)
    bare = next(one for one in default.identified if one.matching == matching)
    assert list(sums) == [1, 2, 5, 10, 20, 50]
    assert sums[1].named == pytest.approx(bare.named)
    assert all(one.named <= 1 / size + 1e-12 for size, one in sums.items())
    named = [one.named for one in sums.values()]
    assert named == sorted(named, reverse=True)
    assert sums[50].named < 0.021
    whole = told(default.opened, matching)[100]
    assert whole.named == pytest.approx(whole.named_by_chance)
    assert whole.inside == pytest.approx(1.0)
    assert whole.auc is None


def test_exact_sums_still_tell_insiders_and_less_so_as_they_grow(default: Reidentification) -> None:
    aucs = [one.auc for one in told(default.sites, "all, centred").values() if one.auc is not None]
    assert len(aucs) == 6
    assert aucs == sorted(aucs, reverse=True)
    assert aucs[-1] > 0.55


def test_tasks_and_scores_are_told_from_bare_vectors_and_guessed_from_masked_ones(
    default: Reidentification,
) -> None:
    assert (
        [one.matching for one in default.labels]
        == [one.matching for one in default.scores]
        == ["top 100", "all"]
    )
    for label in default.labels:
        assert label.by_chance == 1 / 8
        assert label.told > 0.8
        assert abs(label.masked - 1 / 8) < 5 * sqrt(7 / 64 / (4 * 800))
    for score in default.scores:
        assert score.correlation > 0.5
        assert score.error < 0.9
        assert abs(score.masked) < 5 * score.by_chance
    assert default.labels[1].told > 0.99


def test_nothing_is_found_where_there_is_nothing() -> None:
    """Scans of other people, and scores out of the air; the same bound on hits as for masked vectors, per direction."""
    generator = np.random.default_rng(8)
    model = ConnectomeModel(tasks=2)
    cohorts: list[Cohort] = []
    for _ in range(4):
        one = model.invent(generator)
        strangers = Cohort(one.first, np.roll(one.second, 1, axis=0), None, generator.standard_normal(100))
        cohorts.append(strangers)
    found = attack(cohorts, Settings(), generator)
    assert not found.labels
    for bare in found.identified:
        assert bare.named * 400 < 16
        assert bare.found * 400 < 16
    for score in found.scores:
        assert abs(score.correlation) < 5 * score.by_chance
        assert score.error > 0.95


def test_leverage_scores_equal_those_of_two_other_decompositions_and_add_up_to_the_rank() -> None:
    generator = np.random.default_rng(9)
    vectors = generator.standard_normal((12, 90))
    basis, _ = np.linalg.qr(vectors.T)
    assert np.allclose(leverage(vectors), np.square(basis).sum(axis=1))
    assert leverage(vectors).sum() == pytest.approx(12)
    twice = np.concatenate((vectors, vectors[:5] + vectors[5:10]))
    assert np.allclose(leverage(twice), np.diag(np.linalg.pinv(twice) @ twice))
    assert leverage(twice).sum() == pytest.approx(12)


def test_the_model_has_the_rank_of_its_directions() -> None:
    """In features that carry identity and in the others person and scan mix differently: twice the directions, and the mean."""
    first = ConnectomeModel(edges=600, tasks=2).invent(np.random.default_rng(10)).first
    assert leverage(first).sum() == pytest.approx(81)


def test_correlations_are_pearsons_and_a_constant_row_has_none() -> None:
    generator = np.random.default_rng(11)
    known, unknown = generator.standard_normal((4, 30)), generator.standard_normal((3, 30))
    assert np.allclose(correlations(known, unknown), np.corrcoef(known, unknown)[:4, 4:])
    assert not correlations(known, np.ones((1, 30))).any()


def test_a_tie_is_shared() -> None:
    assert winners(np.array([[1.0, 0.0], [1.0, 2.0], [0.0, 2.0]])).tolist() == [
        [0.5, 0.0],
        [0.5, 0.5],
        [0.0, 0.5],
    ]


def test_of_equal_leverages_the_earlier_feature_is_kept() -> None:
    leverages = np.array([0.5, 0.9, 0.5, 0.5])
    assert Matching("two", top=2).features(leverages).tolist() == [0, 1]
    assert Matching("more than there are", top=9).features(leverages).tolist() == [0, 1, 2, 3]


def test_the_left_out_prediction_is_that_of_a_ridge_regression_on_features() -> None:
    generator = np.random.default_rng(12)
    known, unknown = generator.standard_normal((15, 6)), generator.standard_normal((15, 6))
    scores = generator.standard_normal(15)
    predicted = predict_left_out(known, unknown, scores)
    for person in range(15):
        others = np.arange(15) != person
        x, y = known[others], scores[others]
        centred = x - x.mean(axis=0)
        penalty = PENALTY * np.square(centred).sum() / len(x)
        ridge: Floats = centred.T @ centred + penalty * np.eye(6)
        own: Floats = unknown[person] - x.mean(axis=0)
        slopes = np.linalg.pinv(ridge) @ (centred.T @ (y - y.mean()))
        assert predicted[person] == pytest.approx(float(y.mean() + own @ slopes))


def test_features_in_which_all_are_alike_name_the_mean_of_everybody_else() -> None:
    scores = np.random.default_rng(13).standard_normal(20)
    vectors = np.tile(np.arange(8.0), (20, 1))
    (found,) = tell_scores(vectors, scores, leverage(vectors), [Matching("all")], fresh_key)
    assert found.error == pytest.approx(1.0)
    assert np.allclose(predict_left_out(vectors, vectors, scores), (scores.sum() - scores) / 19)


# A site's own files


@pytest.fixture
def small() -> Cohort:
    return SMALL.invent(np.random.default_rng(15))


def write_csv(
    path: Path, ids: list[str], values: Floats, names: list[str], more: dict[str, list[str]] | None = None
) -> Path:
    extra = more or {}
    rows = [",".join(["id", *extra, *names])]
    for place, one in enumerate(ids):
        rows.append(
            ",".join([one, *(column[place] for column in extra.values()), *map(repr, values[place].tolist())])
        )
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def files(folder: Path, cohort: Cohort) -> tuple[Path, Path]:
    """Write the second scans with other people first, one person more, and columns backwards."""
    people, edges = cohort.first.shape
    names = [f"edge{place:03d}" for place in range(edges)]
    ids = [f"sub-{place:03d}" for place in range(people)]
    assert cohort.scores is not None
    more = {
        "task": [f"t{place % 2}" for place in range(people)],
        "right": list(map(repr, cohort.scores.tolist())),
    }
    order = np.random.default_rng(16).permutation(people)
    backwards = np.concatenate((cohort.second[order], cohort.second[:1] + 1.0))[:, ::-1]
    first = write_csv(folder / "first.csv", ids, cohort.first, names, more)
    second = write_csv(
        folder / "second.csv", [*(ids[place] for place in order.tolist()), "sub-999"], backwards, names[::-1]
    )
    return first, second


def test_people_and_features_in_another_order_give_the_same_result(tmp_path: Path, small: Cohort) -> None:
    read, alone = read_cohort(*files(tmp_path, small), Columns(id="id", label="task", score="right"))
    assert alone == 1
    assert np.array_equal(read.first, small.first)
    assert np.array_equal(read.second, small.second)
    assert read.scores is not None
    assert small.scores is not None
    assert np.array_equal(read.scores, small.scores)
    assert read.labelled is not None
    assert read.labelled.labels.tolist() == [place % 2 for place in range(40)]
    found = attack([read], Settings(), np.random.default_rng(17))
    assert found.identified == attack([small], Settings(), np.random.default_rng(17)).identified


def test_arrays_are_read_without_names(tmp_path: Path, small: Cohort) -> None:
    first, second = tmp_path / "first.npy", tmp_path / "second.npy"
    np.save(first, small.first)
    np.save(second, small.second.astype(np.float32))
    read, alone = read_cohort(first, second, Columns())
    assert alone == 0
    assert np.array_equal(read.first, small.first)
    assert np.allclose(read.second, small.second, rtol=1e-6)


HEAD = "id,dx,right,a,b,c\n"
ROWS = "p1,x,1,.1,.2,.4\np2,y,2,.3,.1,.7\np3,x,3,.2,.2,.9\np4,y,4,.8,.1,.3\n"
ALL = Columns("id", "dx", "right")


@pytest.mark.parametrize(
    ("text", "columns", "told"),
    [
        ("", ALL, ["the table is empty", "expected a header line"]),
        (HEAD, ALL, ["0 rows below the header", "supply the rows"]),
        (HEAD + "p1,x,1,.1,77.5\n", ALL, ["line 2", "expected 6 fields", "repair"]),
        (HEAD + 'p1,x,1,.1,.2,"77.5\n', ALL, ["line 2", "quotes closed", "repair"]),
        (HEAD + "p1,x,1,.1,secret,.4\n", ALL, ["line 2, column b", "no number", "correct it"]),
        (HEAD + "p1,x,1,.1,1e999,.4\n", ALL, ["line 2, column b", "no number"]),
        (HEAD + "p1,x,1,.1,7.5e101,.4\n", ALL, ["line 2, column b", "beyond 1e100"]),
        (HEAD + "p1,x,1,.1,,.4\n", ALL, ["line 2, column b", "no value", "out of both files"]),
        (HEAD + "p1,x,NA,.1,.2,.4\n", ALL, ["line 2, column right", "no value"]),
        (HEAD + "p1,,1,.1,.2,.4\n", ALL, ["line 2, column dx", "no value"]),
        (HEAD + " ,x,1,.1,.2,.4\n", ALL, ["line 2, column id", "no value"]),
        (HEAD + "p1,x,1,77.5,77.5,77.5\n", ALL, ["line 2", "all features have one value", "take this person"]),
        (HEAD + ROWS + "p1,x,5,.1,.2,.5\n", ALL, ["column id", "1 rows repeat an id", "keep one row"]),
        (HEAD + ROWS.replace(",y,", ",x,"), ALL, ["column dx", "one label only"]),
        (HEAD + "".join(f"p{n},{n},5,.{n},.2,.4\n" for n in range(1, 5)), ALL, ["column right", "all scores are equal"]),
        (HEAD + ROWS, Columns("person"), ["no column person", "correct --id"]),
        (HEAD + ROWS, Columns(), ["line 2, column id", "name the column by --id"]),
        (HEAD.replace("c\n", "a\n") + ROWS, ALL, ["two columns are called a", "rename"]),
        ("id,dx,right,a,b\np1,x,1,.1,.2\n", ALL, ["2 features", "expected 3 or more"]),
        (HEAD.replace(",c", ",d") + ROWS, ALL, ["lacks 1 features of the other file (d)", "same features"]),
        (HEAD + ROWS.replace("p1", "q1"), ALL, ["3 people in both, expected 4", "supply more people"]),
    ],
)  # fmt: skip
def test_a_broken_table_is_refused_by_place_with_a_cure_and_without_a_value(
    tmp_path: Path, text: str, columns: Columns, told: list[str]
) -> None:
    first, second = tmp_path / "mine.csv", tmp_path / "later.csv"
    first.write_text(text, encoding="utf-8")
    second.write_text(HEAD + ROWS, encoding="utf-8")
    with pytest.raises(CohortsumError) as raised:
        read_cohort(first, second, columns)
    message = raised.value.message
    for words in (".csv", *told):
        assert words in message
    for secret in ("secret", "77.5", "7.5e101", "1e999", "p1", str(tmp_path)):
        assert secret not in message


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "two dimensions"),
        (b"no numpy file", "two dimensions"),
        (np.array([{"a": 1}, None]), "two dimensions"),
        (np.array(["a", "b"]), "two dimensions"),
        (np.arange(12.0), "two dimensions"),
        (np.ones((6, 2)), "2 features"),
        (np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0]]), "row 2, column 2"),
        (np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]), "row 2: all features have one value"),
        (np.arange(9.0).reshape(3, 3), "4 people, expected 3 as in"),
        (np.arange(16.0).reshape(4, 4), "3 features, expected 4 as in"),
    ],
)
def test_a_broken_array_is_refused(
    tmp_path: Path, content: "bytes | np.ndarray[tuple[int, ...], np.dtype[np.generic]]", told: str
) -> None:
    first, second = tmp_path / "mine.npy", tmp_path / "later.npy"
    if isinstance(content, bytes):
        first.write_bytes(content)
    else:
        np.save(first, content, allow_pickle=True)
    np.save(second, np.arange(12.0).reshape(4, 3) ** 2)
    with pytest.raises(CohortsumError, match=told):
        read_cohort(first, second, Columns())


def test_a_cut_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.npy"
    np.save(path, np.arange(40.0).reshape(4, 10))
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(CohortsumError, match="two dimensions"):
            read_cohort(path, path, Columns())


def test_other_kinds_of_files_and_missing_ones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CohortsumError, match=r"expected a name that ends in \.csv"):
        read_cohort(tmp_path / "a.xlsx", tmp_path / "b.xlsx", Columns())
    with pytest.raises(CohortsumError, match=r"first scans \(a\.csv\): cannot be read"):
        read_cohort(tmp_path / "a.csv", tmp_path / "b.csv", Columns())
    with pytest.raises(CohortsumError, match=r"first scans \(a\.npy\): cannot be read"):
        read_cohort(tmp_path / "a.npy", tmp_path / "b.npy", Columns())
    with pytest.raises(CohortsumError, match="no column names"):
        read_cohort(tmp_path / "a.npy", tmp_path / "b.npy", Columns(id="id"))
    (tmp_path / "a.csv").write_bytes(b"id,a,b,c\np1,1,2,\xff\n")
    with pytest.raises(CohortsumError, match=r"first scans \(a\.csv\), line 2: is not UTF-8"):
        read_cohort(tmp_path / "a.csv", tmp_path / "b.csv", Columns())


# The command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["reidentify", *arguments])


QUICK = (
    "--people",
    "30",
    "--edges",
    "200",
    "--directions",
    "15",
    "--tasks",
    "3",
    "--starts",
    "2",
    "--top",
    "40",
)


def test_the_command_prints_its_tables_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*QUICK, "--seed", "1")
    assert done.exit_code == 0
    for words in (
        "Whose scan is it? 30 invented people, 200 features, 2 starts",
        "one, MASKED",
        "sum of all 30",
        "Which task",
        "Which score",
    ):
        assert words in done.stdout
    assert "│ site of 20 " in done.stdout
    assert "│ site of 50 " not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_seed_gives_the_same_people_and_other_masks() -> None:
    one, other = (json.loads(run(*QUICK, "--seed", "1", "--json", "--noise", "0.5").stdout) for _ in range(2))
    assert one["source"] == "model"
    assert one["noises"] == [0.5]
    assert one["found"]["identified"] == other["found"]["identified"]
    assert one["found"]["sites"] == other["found"]["sites"]
    assert one["found"]["masked"] != other["found"]["masked"]


def test_a_sites_files_are_attacked_warned_about_and_left_as_they_are(tmp_path: Path, small: Cohort) -> None:
    first, second = files(tmp_path, small)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = run(
        *(
            "--first",
            str(first),
            "--second",
            str(second),
            "--id",
            "id",
            "--label",
            "task",
            "--score",
            "right",
        ),
        *("--site-size", "1", "--site-size", "4", "--starts", "1"),
    )
    assert done.exit_code == 0, done.output
    assert "40 people of yours, 300 features" in done.stdout
    assert "site of 4" in done.stdout
    assert "1 rows without a partner" in done.stdout
    assert "WARNING: these features identify" in done.stdout
    assert "sub-0" not in done.output
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--id", "id"), "add --first and --second"),
        (("--first", "a.csv"), "add the one that is missing"),
        (
            ("--first", "a.csv", "--second", "b.csv", "--people", "50", "--tasks", "4"),
            "--people, --tasks: for invented",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: tuple[str, ...], told: str) -> None:
    done = run(*arguments)
    assert isinstance(done.exception, CohortsumError)
    assert told in done.exception.message
