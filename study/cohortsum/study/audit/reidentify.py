"""Whose scan is this? The leverage-score attack on single vectors, on a site's sums and on what the coordinator sees.

The attacker holds scans whose owners are known and meets vectors without names. Each is given to the person whose known scan correlates
best with it. It is done in three ways: with the features of highest leverage, as in the de-anonymisation paper; with all features; and
with all features after the mean of the known people is taken off. The paper does not do the last, and where people are added up it is
the strongest of the three.

Of a sum the attacker knows how many people are in it, and that all of them are among the known. Three things are measured:

- *named*: the chance that the best match is one certain person of the sum. For a sum of one this is the accuracy of identification;
  it is never more than one over the people in the sum, and a guess has one over the people known.
- *inside*: the chance that the best match is anybody of the sum. A guess has their share among the people known.
- *AUC*: the chance that somebody in the sum matches better than somebody who is not in it.

The coordinator sees no sum of one site but a masked vector of each, and the opened sum of all. Vectors are masked here as sites do it,
under fresh keys, and matched as they are: words that are uniform whatever they hide match by chance.

What leaves this module are rates over people. Leverage scores belong to features, and stay here all the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan, sqrt

import numpy as np

from cohortsum.study.audit.connectome_model import Cohort, Floats, Invention
from cohortsum.study.audit.reidentify_matching import Key, Matching, fresh_key, leverage, masked, winners
from cohortsum.study.audit.reidentify_prediction import LabelAttack, ScoreAttack, tell_labels, tell_scores


@dataclass(frozen=True, slots=True)
class Settings:
    """What is attacked, and how.

    Attributes:
        top: features of highest leverage that are kept.
        noises: of a second scanner; v in Table 2 of the paper.
        noise_scale: variance of the noise on a feature, in units of v times the feature's own; c in the design.
        site_sizes: people in a site's sum; sizes beyond the cohort are left out.
    """

    top: int = 100
    noises: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3)
    noise_scale: float = 2.5
    site_sizes: tuple[int, ...] = (1, 2, 5, 10, 20, 50)

    @property
    def matchings(self) -> tuple[Matching, ...]:
        """The paper's way, all features, and the strongest against sums."""
        return (
            Matching(f"top {self.top}", top=self.top),
            Matching("all"),
            Matching("all, centred", centred=True),
        )

    @property
    def choices(self) -> tuple[Matching, ...]:
        """The ways that differ in their features."""
        return self.matchings[:2]


@dataclass(frozen=True, slots=True)
class Identification:
    """How well two scans of a person find each other.

    Attributes:
        matching: the way of comparing.
        noise: v, on the second scan.
        accuracy: mean of the two rates that follow.
        named: share of second scans that are given to their owner.
        found: share of people whose second scan their first one finds.
        error: standard error of `accuracy` from the number of people.
        within: mean correlation of two scans of a person.
        between: mean correlation of scans of two people.
    """

    matching: str
    noise: float
    accuracy: float
    named: float
    found: float
    error: float
    within: float
    between: float


@dataclass(frozen=True, slots=True)
class Told:
    """What a vector of one or several people tells.

    Attributes:
        people: in the vector.
        matching: the way of comparing.
        named: chance that the best match is one certain person of the vector.
        named_by_chance: what a guess has.
        inside: chance that the best match is anybody of the vector.
        inside_by_chance: what a guess has.
        auc: chance that somebody inside matches better than somebody outside; None where everybody is inside.
    """

    people: int
    matching: str
    named: float
    named_by_chance: float
    inside: float
    inside_by_chance: float
    auc: float | None


@dataclass(frozen=True, slots=True)
class Reidentification:
    """What the attacks found; rates over people, and means over starts.

    Attributes:
        people: of a cohort.
        features: of a scan.
        starts: how often the attack ran.
        identified: on single vectors, by noise and matching.
        sites: on one site's sum in the clear, by size and matching.
        masked: on one masked vector of one person, by matching.
        opened: on the opened sum of the whole cohort, by matching.
        labels: attacks on labels; empty where there are none.
        scores: attacks on scores; empty where there are none.
    """

    people: int
    features: int
    starts: int
    identified: tuple[Identification, ...]
    sites: tuple[Told, ...]
    masked: tuple[Told, ...]
    opened: tuple[Told, ...]
    labels: tuple[LabelAttack, ...]
    scores: tuple[ScoreAttack, ...]


def attack(
    cohorts: Iterable[Cohort], settings: Settings, generator: Invention, key: Key = fresh_key
) -> Reidentification:
    """Attack every cohort once and return the means over these starts.

    Args:
        cohorts: at least one, all of one shape; the same one again for another draw of noise, sites and masks.
        settings: what is attacked, and how.
        generator: of scanners' noise and of who is in which site; masks never come from it.
        key: of one vector's mask.
    """
    previous: Cohort | None = None
    distinct = 0
    singles: list[Floats] = []
    sums: list[Floats] = []
    labels: list[list[LabelAttack]] = []
    scores: list[list[ScoreAttack]] = []
    for cohort in cohorts:
        distinct += cohort is not previous
        previous = cohort
        leverages = leverage(cohort.first)
        singles.append(_singles(cohort, leverages, settings, generator))
        sums.append(_sums(cohort, leverages, settings, generator, key))
        if cohort.labelled is not None:
            labels.append(tell_labels(cohort.labelled, settings.choices, key))
        if cohort.scores is not None:
            scores.append(tell_scores(cohort.first, cohort.scores, leverages, settings.choices, key))
    if previous is None:
        raise ValueError("there is no cohort to attack")
    people, features = previous.first.shape
    told = _told(np.mean(sums, axis=0), (*_sizes(people, settings), 1, people), people, settings.matchings)
    return Reidentification(
        people,
        features,
        len(singles),
        _identified(np.mean(singles, axis=0), settings, people * distinct),
        tuple(one for group in told[:-2] for one in group),
        told[-2],
        told[-1],
        tuple(_mean_labels(one) for one in zip(*labels, strict=True)),
        tuple(_mean_scores(one) for one in zip(*scores, strict=True)),
    )


def _singles(cohort: Cohort, leverages: Floats, settings: Settings, generator: Invention) -> Floats:
    """Return (noises, matchings, 4): named, found, within, between. All noises are one draw, scaled."""
    people, features = cohort.second.shape
    noise = generator.standard_normal((people, features)) * cohort.second.std(axis=0)
    rates = np.empty((len(settings.noises), len(settings.matchings), 4))
    for row, share in enumerate(settings.noises):
        second = cohort.second + sqrt(settings.noise_scale * share) * noise
        for column, matching in enumerate(settings.matchings):
            matched = matching.compare(cohort.first, second, leverages)
            own = np.diag(matched)
            others = (matched.sum() - own.sum()) / (people * (people - 1))
            named, found = np.diag(winners(matched)).mean(), np.diag(winners(matched.T)).mean()
            rates[row, column] = named, found, own.mean(), others
    return rates


def _sums(cohort: Cohort, leverages: Floats, settings: Settings, generator: Invention, key: Key) -> Floats:
    """Return (views, matchings, 3): named, inside, AUC. Views are the site sizes, one masked vector, the whole cohort."""
    people = len(cohort.first)
    members = [_dealt(people, size, generator) for size in _sizes(people, settings)]
    vectors = [inside @ cohort.second / inside.sum(axis=1, keepdims=True) for inside in members]
    members += [np.eye(people), np.ones((1, people))]
    vectors += [masked(cohort.second, key), cohort.second.mean(axis=0, keepdims=True)]
    views = [
        [_rates(matching.compare(cohort.first, seen, leverages), inside) for matching in settings.matchings]
        for seen, inside in zip(vectors, members, strict=True)
    ]
    return np.array(views)


def _sizes(people: int, settings: Settings) -> tuple[int, ...]:
    return tuple(size for size in settings.site_sizes if size <= people)


def _dealt(people: int, size: int, generator: Invention) -> Floats:
    """Return (sites, people) of ones and zeros: as many sites of ``size`` as there are people for, nobody in two."""
    sites = people // size
    members = np.zeros((sites, people))
    members[np.repeat(np.arange(sites), size), generator.permutation(people)[: sites * size]] = 1.0
    return members


def _rates(matched: Floats, members: Floats) -> tuple[float, float, float]:
    """Return named, inside and AUC; NaN for an AUC with nobody outside.

    Args:
        matched: (people, vectors), correlations.
        members: (vectors, people), ones and zeros.
    """
    inside = (winners(matched) * members.T).sum(axis=0)
    pairs = zip(matched.T, members > 0.0, strict=True)
    aucs = [_auc(values[those], values[~those]) for values, those in pairs]
    return float((inside / members.sum(axis=1)).mean()), float(inside.mean()), float(np.mean(aucs))


def _auc(inside: Floats, outside: Floats) -> float:
    """Return the share of pairs in which the one inside is greater; ties count half."""
    if not len(outside):
        return float("nan")
    return float(np.sign(inside[:, np.newaxis] - outside).mean() + 1.0) / 2.0


def _identified(rates: Floats, settings: Settings, people: int) -> tuple[Identification, ...]:
    """Return the rates by name; ``people`` are all who were attacked, each counted once."""
    found: list[Identification] = []
    for row, noise in enumerate(settings.noises):
        for column, matching in enumerate(settings.matchings):
            named, back, within, between = (float(rate) for rate in rates[row, column])
            accuracy = (named + back) / 2.0
            error = sqrt(accuracy * (1.0 - accuracy) / people)
            found.append(Identification(matching.name, noise, accuracy, named, back, error, within, between))
    return tuple(found)


def _told(
    rates: Floats, sizes: tuple[int, ...], people: int, matchings: tuple[Matching, ...]
) -> list[tuple[Told, ...]]:
    views: list[tuple[Told, ...]] = []
    for size, view in zip(sizes, rates, strict=True):
        told: list[Told] = []
        for matching, (named, inside, auc) in zip(matchings, view, strict=True):
            known = None if isnan(auc) else float(auc)
            told.append(
                Told(size, matching.name, float(named), 1.0 / people, float(inside), size / people, known)
            )
        views.append(tuple(told))
    return views


def _mean_labels(starts: tuple[LabelAttack, ...]) -> LabelAttack:
    told, hidden, chance = np.mean([(one.told, one.masked, one.by_chance) for one in starts], axis=0)
    return LabelAttack(starts[0].matching, float(told), float(hidden), float(chance))


def _mean_scores(starts: tuple[ScoreAttack, ...]) -> ScoreAttack:
    """Return the means; a mean of independent correlations spreads less by chance."""
    correlation, error, hidden = np.mean([(one.correlation, one.error, one.masked) for one in starts], axis=0)
    by_chance = starts[0].by_chance / sqrt(len(starts))
    return ScoreAttack(starts[0].matching, float(correlation), float(error), float(hidden), by_chance)
