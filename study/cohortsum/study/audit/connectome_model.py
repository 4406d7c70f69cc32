"""Invented people with two scans each, whose features identify them about as well as connectomes do.

A feature (an edge of the connectome) of one scan is

    mean + amplitude (sqrt(icc) u + sqrt(1 - icc) e)

where ``u`` belongs to the person and ``e`` to the scan; both lie in the same few random directions, u = L g and e = L h with
independent normal g and h. A tenth of the features carries identity (amplitude 1, icc 0.65), the others hardly do (0.25, 0.15). The
number of directions sets how well people can be told apart, because it is the number of independent things in which they differ.

The parameters were chosen so that identification, also under noise, has the shape of Table 2 of the de-anonymisation paper (100 people;
40 directions for its HCP column, 50 for ADHD-200). Nothing else about the model is measured: neither that the top features beat all
features, which real connectomes do not show, nor what task and score are like, which are added here so that the attacks on them can be
run at all.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SIGNAL = 0.1
"""Share of the features that carry identity."""
SIGNAL_AMPLITUDE, SIGNAL_ICC = 1.0, 0.65
OTHER_AMPLITUDE, OTHER_ICC = 0.25, 0.15
TASK_SPREAD = 0.5
"""Standard deviation, over features, of what a task adds: scans of one task are then more alike than those of one person."""


class Invention(Protocol):
    """What invents people and noise of scanners, and deals people to sites: numpy's generators do. Never a source of masks."""

    def standard_normal(self, size: tuple[int, int]) -> Floats:
        """Return independent standard normal values of this shape, float64."""
        ...

    def permutation(self, x: int) -> NDArray[np.int64]:
        """Return 0 to ``x`` - 1 in random order."""
        ...


@dataclass(frozen=True, slots=True)
class Labelled:
    """Scans with a label each: a task, a condition, a diagnosis.

    Attributes:
        vectors: (scans, features) float64.
        labels: (scans,) int64, from 0.
        persons: (scans,) int64; scans with the same number are of one person.
    """

    vectors: Floats
    labels: NDArray[np.int64]
    persons: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cohort:
    """People who were scanned twice.

    Attributes:
        first: (people, features) float64; the scans whose owners the attacker knows.
        second: as ``first``, of the same people in the same order.
        labelled: scans with labels; None where there are none.
        scores: (people,) float64; None where there are none.
    """

    first: Floats
    second: Floats
    labelled: Labelled | None = None
    scores: Floats | None = None


@dataclass(frozen=True, slots=True)
class ConnectomeModel:
    """The parameters of the model.

    Attributes:
        people: of one cohort.
        edges: features of a scan.
        directions: in which people and scans differ; r in the design.
        tasks: for the attack on the task, rest among them.
    """

    people: int = 100
    edges: int = 2500
    directions: int = 40
    tasks: int = 8

    def invent(self, generator: Invention) -> Cohort:
        """Return a new cohort. The score of a person is a random direction's share of u: nothing but what the scans show."""
        signal = np.arange(self.edges) < SIGNAL * self.edges
        amplitude = np.where(signal, SIGNAL_AMPLITUDE, OTHER_AMPLITUDE)
        icc = np.where(signal, SIGNAL_ICC, OTHER_ICC)
        mean = generator.standard_normal((1, self.edges))
        loadings = generator.standard_normal((self.directions, self.edges)) / sqrt(self.directions)
        persons = generator.standard_normal((self.people, self.directions))
        lasting = mean + amplitude * np.sqrt(icc) * (persons @ loadings)

        def scan() -> Floats:
            passing = generator.standard_normal((self.people, self.directions)) @ loadings
            scanned: Floats = lasting + amplitude * np.sqrt(1.0 - icc) * passing
            return scanned

        first, second = scan(), scan()
        weights = generator.standard_normal((self.directions, 1))
        scores = (persons @ weights)[:, 0] / np.linalg.norm(weights)
        tasks = [scan() + TASK_SPREAD * generator.standard_normal((1, self.edges)) for _ in range(self.tasks)]
        labelled = Labelled(
            np.concatenate(tasks),
            np.repeat(np.arange(self.tasks), self.people),
            np.tile(np.arange(self.people), self.tasks),
        )
        return Cohort(first, second, labelled, scores)
