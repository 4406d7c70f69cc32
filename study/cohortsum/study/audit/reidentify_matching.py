"""Comparing known scans with unknown vectors: leverage scores, Pearson's correlation, and vectors under masks.

The leverage score of a feature is the squared norm of its row of U, where the columns of U are an orthonormal basis of what the columns
of the features-by-people matrix span (equation 5 of the de-anonymisation paper; Ravindra et al. 2018). The paper keeps the features
with the highest scores, which Cohen et al. 2015 justify for approximating the matrix; that they tell people apart is its finding.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.masks import KEY_BYTES, add_masks
from cohortsum.crypto.secret import SecretBytes
from cohortsum.study.audit.connectome_model import Floats

FIXED_POINT_BITS = 40
"""The largest value takes so many bits before it is masked; nothing wraps, so that only the mask can hide anything."""

Key = Callable[[], SecretBytes]
"""What gives a new mask key every time."""


@dataclass(frozen=True, slots=True)
class Matching:
    """One way of comparing a known scan with an unknown vector.

    Attributes:
        name: for tables.
        top: how many features of highest leverage are kept; None for all.
        centred: whether the mean of the known people is taken off both.
    """

    name: str
    top: int | None = None
    centred: bool = False

    def features(self, leverages: Floats) -> NDArray[np.int64]:
        """Return the places of the features that are compared, in their own order; of equal leverages the earlier one."""
        if self.top is None:
            return np.arange(len(leverages))
        return np.sort(np.argsort(-leverages, kind="stable")[: self.top])

    def compare(self, known: Floats, unknown: Floats, leverages: Floats) -> Floats:
        """Return the correlations of known people with unknown vectors, (people, vectors) float64."""
        places = self.features(leverages)
        known, unknown = known[:, places], unknown[:, places]
        if self.centred:
            mean: Floats = known.mean(axis=0)
            known, unknown = known - mean, unknown - mean
        return correlations(known, unknown)


def leverage(vectors: Floats) -> Floats:
    """Return the leverage score of every feature, (features,) float64; their sum is the rank of ``vectors``.

    Directions whose singular value is lost in rounding are left out: their basis is arbitrary, and their scores would be too.

    Args:
        vectors: (people, features) float64.
    """
    _, values, directions = np.linalg.svd(vectors, full_matrices=False)
    held = values > values[0] * max(vectors.shape) * np.finfo(np.float64).eps
    scores: Floats = np.square(directions[held]).sum(axis=0)
    return scores


def correlations(known: Floats, unknown: Floats) -> Floats:
    """Return Pearson's correlation of every row of ``known`` with every row of ``unknown``; 0 with a constant row."""
    matched: Floats = _standardised(known) @ _standardised(unknown).T
    return matched


def winners(matched: Floats) -> Floats:
    """Return, for every column, 1 at its greatest value; k of them that are equal get 1/k each."""
    best = (matched == matched.max(axis=0)).astype(np.float64)
    shared: Floats = best / best.sum(axis=0)
    return shared


def fresh_key() -> SecretBytes:
    """Return a new mask key from the system's generator."""
    return SecretBytes(secrets.token_bytes(KEY_BYTES), "mask key")


def masked(vectors: Floats, key: Key) -> Floats:
    """Return each row as the coordinator sees it: in fixed point under a mask of its own, the signed words as float64.

    Args:
        vectors: (vectors, features) float64.
        key: of one vector's mask.
    """
    largest = float(np.abs(vectors).max()) or 1.0
    seen = np.empty(vectors.shape)
    for place, vector in enumerate(vectors):
        words = np.rint(vector / largest * 2.0**FIXED_POINT_BITS).astype(np.int64).view(np.uint64)
        add_masks(words, [key()], [])
        seen[place] = words.view(np.int64)
    return seen


def _standardised(vectors: Floats) -> Floats:
    centred = vectors - vectors.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    standardised: Floats = centred / np.where(norms > 0.0, norms, 1.0)
    return standardised
