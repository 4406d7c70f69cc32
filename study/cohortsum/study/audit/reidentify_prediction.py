"""What else does a scan say? The task somebody was doing, and how well they did it.

*Task*, or any other label: a scan gets the label of that scan of another person which correlates best with it. The de-anonymisation
paper first lays all scans out in two dimensions (t-SNE) and takes the nearest neighbour there. The map is made to be looked at and can
only lose distances, so neighbours are sought among the features themselves.

*Performance*: a score is predicted by ridge regression from the scans of everybody else, each person left out in turn. The paper uses a
support vector machine on 80 of 100 people, and an error below 3 % of something that it does not name; where scores are nearly alike,
naming their mean has such an error too. Here the error is a share of that of naming the mean.

Features are chosen by leverage as in the paper. The choice looks at neither labels nor scores, so it is made once, from everybody.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.audit.connectome_model import Floats, Labelled
from cohortsum.study.audit.reidentify_matching import Key, Matching, correlations, leverage, masked

PENALTY = 0.1
"""Of the ridge regression, as a share of the mean squared distance of a person from the mean."""


@dataclass(frozen=True, slots=True)
class LabelAttack:
    """How often a scan's label was told; shares of scans.

    Attributes:
        matching: the way of comparing.
        told: given their own label.
        masked: the same for one masked vector in place of each scan.
        by_chance: with the commonest label.
    """

    matching: str
    told: float
    masked: float
    by_chance: float


@dataclass(frozen=True, slots=True)
class ScoreAttack:
    """How well scores were told.

    Attributes:
        matching: the features that were used.
        correlation: of predictions and scores.
        error: root mean squared error, as a share of that of naming everybody else's mean; 1 is worthless.
        masked: correlation of scores and what one masked vector in place of each scan predicts.
        by_chance: standard deviation of `masked` if it is chance alone.
    """

    matching: str
    correlation: float
    error: float
    masked: float
    by_chance: float


def tell_labels(scans: Labelled, matchings: Sequence[Matching], key: Key) -> list[LabelAttack]:
    """Return how often each way of comparing tells the label of a scan from those of other people."""
    leverages = leverage(scans.vectors)
    hidden = masked(scans.vectors, key)
    others = scans.persons[:, np.newaxis] != scans.persons
    counts = np.bincount(scans.labels)
    chance = float(counts.max() / counts.sum())

    def told(matching: Matching, unknown: Floats) -> float:
        matched = np.where(others, matching.compare(scans.vectors, unknown, leverages), -np.inf)
        given: NDArray[np.int64] = scans.labels[matched.argmax(axis=0)]
        return np.count_nonzero(given == scans.labels) / len(given)

    return [LabelAttack(one.name, told(one, scans.vectors), told(one, hidden), chance) for one in matchings]


def tell_scores(
    vectors: Floats, scores: Floats, leverages: Floats, matchings: Sequence[Matching], key: Key
) -> list[ScoreAttack]:
    """Return how well the features that each matching chooses tell a person's score from those of everybody else.

    Args:
        vectors: (people, features) float64.
        scores: (people,) float64, not all equal.
        leverages: (features,) float64, of ``vectors``.
        matchings: choices of features.
        key: of one vector's mask.
    """
    hidden = masked(vectors, key)
    people = len(scores)
    worthless = scores.std() * people / (people - 1)
    found: list[ScoreAttack] = []
    for matching in matchings:
        places = matching.features(leverages)
        known = vectors[:, places]
        predicted = predict_left_out(known, known, scores)
        guessed = predict_left_out(known, hidden[:, places], scores)
        error = np.sqrt(np.mean(np.square(predicted - scores))) / worthless
        by_chance = 1.0 / sqrt(people - 1)
        found.append(
            ScoreAttack(
                matching.name,
                _correlation(predicted, scores),
                float(error),
                _correlation(guessed, scores),
                by_chance,
            )
        )
    return found


def predict_left_out(known: Floats, unknown: Floats, scores: Floats) -> Floats:
    """Return what each row of ``unknown`` predicts for its person by a ridge regression on everybody else in ``known``.

    The regression has an intercept without penalty. It is solved in the space of people, who are fewer than features: with G the
    products of the others' centred vectors, the prediction is mean + g' (G + penalty)^-1 (scores - mean).

    Args:
        known: (people, features) float64.
        unknown: as ``known``, of the same people in the same order.
        scores: (people,) float64.
    """
    middle = known.mean(axis=0)  # changes nothing but rounding
    known, unknown = known - middle, unknown - middle
    products, met = known @ known.T, unknown @ known.T
    predicted = np.empty(len(scores))
    for person in range(len(scores)):
        others = np.flatnonzero(np.arange(len(scores)) != person)
        gram = products[np.ix_(others, others)]
        means, mean = gram.mean(axis=0), gram.mean()
        centred = gram - means - means[:, np.newaxis] + mean
        penalty = PENALTY * float(np.trace(centred)) / len(others) or 1.0  # people who are all alike
        own = met[person, others]
        own = own - own.mean() - means + mean
        average = scores[others].mean()
        ridge: Floats = centred + penalty * np.eye(len(others))
        predicted[person] = average + own @ np.linalg.solve(ridge, scores[others] - average)
    return predicted


def _correlation(some: Floats, others: Floats) -> float:
    return float(correlations(some[np.newaxis], others[np.newaxis])[0, 0])
