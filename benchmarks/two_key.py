"""Two-key mode against masking and against TenSEAL's own steps: ``python benchmarks/two_key.py [--quick] [--json FILE]``.

Everything a ratio compares is measured in this run, in turns. See README.md beside this file.
"""

import argparse
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Report, Row, cpu_ms, median, verdict
from cohortsum.crypto.bfv import PRIME, STANDARD, DecryptionKey, EncryptionKey
from cohortsum.crypto.masks import add_masks
from cohortsum.crypto.modular import add_masks_modulo, expand_modulo
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.tenseal_seam import Context, EncryptedVector, library

GOAL = 1.2
ROUNDS = (3, 10, 50)


@dataclass(frozen=True, slots=True)
class Grid:
    """What is measured.

    Attributes:
        length: numbers of an input.
        keys: how many keys a site expands: one per site.
        repeats: calls of each step, whose median counts.
    """

    length: int = 100_000
    keys: tuple[int, ...] = (10, 50, 100)
    repeats: int = 9


QUICK = Grid(10_000, (2, 20), 2)


@dataclass(frozen=True, slots=True)
class Took:
    """Processor times of one step, ours and the other's, in the same turns."""

    ours: list[float] = field(default_factory=list[float])
    other: list[float] = field(default_factory=list[float])

    def turn(self, ours: Callable[[], object], other: Callable[[], object]) -> None:
        """Measure one call of each."""
        self.ours.append(cpu_ms(ours)[0])
        self.other.append(cpu_ms(other)[0])

    def row(self, other: str, goal: float | None) -> Row:
        """Return both medians and their ratio, beside the goal for it."""
        ratio = median(self.ours) / median(self.other)
        reached = None if goal is None else ratio <= goal
        return {
            "two_key": median(self.ours),
            other: median(self.other),
            "ratio": ratio,
            "goal": goal,
            "verdict": verdict(reached),
        }


def expansion_rows(grid: Grid) -> Iterator[Row]:
    """Yield masks added modulo the prime beside the same keys' masks modulo 2**64."""
    for count in grid.keys:
        yield {"keys": count} | _expansion(count, grid).row("masking", None)


def _expansion(count: int, grid: Grid) -> Took:
    keys = [SecretBytes(secrets.token_bytes(32), "mask key") for _ in range(count)]
    plus, minus = keys[: count // 2], keys[count // 2 :]
    modular, plain = np.zeros(grid.length, dtype=np.uint64), np.zeros(grid.length, dtype=np.uint64)
    took = Took()
    for _ in range(grid.repeats):
        took.turn(
            lambda: add_masks_modulo(modular, plus, minus, PRIME), lambda: add_masks(plain, plus, minus)
        )
    for _ in range(grid.repeats):
        add_masks_modulo(modular, minus, plus, PRIME)
    assert not modular.any(), "masks modulo the prime do not cancel"
    return took


class Steps:
    """The steps of two-key mode on one input, ours and those of TenSEAL called directly on the same numbers."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.trustee = DecryptionKey.draw(STANDARD)
        self.site = EncryptionKey.from_bytes(self.trustee.public, STANDARD)
        self.values = expand_modulo(SecretBytes(bytes(32), "mask key"), grid.length, PRIME)
        degree = STANDARD.ring_degree
        filled = np.zeros(STANDARD.ciphertexts(grid.length) * degree, dtype=np.int64)
        filled[: grid.length] = self.values
        filled[filled > PRIME // 2] -= PRIME
        self.parts: list[list[int]] = filled.reshape(-1, degree).tolist()
        tenseal, bits = library(), list(STANDARD.coefficient_bits)
        self.secret: Context = tenseal.context(tenseal.SCHEME_TYPE.BFV, degree, PRIME, bits, n_threads=1)
        shared = self.secret.serialize(
            save_public_key=True, save_secret_key=False, save_galois_keys=False, save_relin_keys=False
        )
        self.public: Context = tenseal.context_from(shared, n_threads=1)

    def rows(self) -> Iterator[Row]:
        """Yield every step and all of them; raises AssertionError for a sum that is not exact."""
        words, total = self.site.encrypt(self.values), self.site.sum(self.grid.length)
        theirs, added = self._encrypt(), [self._load(self.public, data) for data in self._encrypt()]
        total.add(STANDARD.frames(words))
        encrypt, add, decrypt = Took(), Took(), Took()
        for _ in range(self.grid.repeats):
            encrypt.turn(lambda: self.site.encrypt(self.values), self._encrypt)
            add.turn(lambda: total.add(STANDARD.frames(words)), lambda: self._add(added, theirs))
        summed = np.concatenate(list(total.framed()))
        theirs_summed = [vector.serialize() for vector in added]
        for _ in range(self.grid.repeats):
            decrypt.turn(
                lambda: self.trustee.decrypt(summed, self.grid.length), lambda: self._decrypt(theirs_summed)
            )
        opened = self.trustee.decrypt(summed, self.grid.length)
        expected = [value * (self.grid.repeats + 1) % PRIME for value in self.values.tolist()]
        assert opened.tolist() == expected, "the opened sum is not the sum"
        for step, took in (("encrypt", encrypt), ("add", add), ("decrypt", decrypt)):
            yield _named(step, took.row("TenSEAL", None))
        for inputs in ROUNDS:
            yield _named(f"{inputs} sites", _round(inputs, encrypt, add, decrypt).row("TenSEAL", GOAL))

    def _encrypt(self) -> list[bytes]:
        return [library().bfv_vector(self.public, part).serialize() for part in self.parts]

    def _load(self, context: Context, data: bytes) -> EncryptedVector:
        return library().bfv_vector_from(context, data)

    def _add(self, sums: list[EncryptedVector], inputs: list[bytes]) -> None:
        for total, data in zip(sums, inputs, strict=True):
            total.add_(self._load(self.public, data))

    def _decrypt(self, sums: list[bytes]) -> list[list[int]]:
        return [self._load(self.secret, data).decrypt() for data in sums]


def _named(step: str, row: Row) -> Row:
    named: Row = {"step": step}
    return named | row


def _round(inputs: int, encrypt: Took, add: Took, decrypt: Took) -> Took:
    """Return what a round of so many inputs takes altogether: each is encrypted and added, one sum is decrypted."""

    def whole(one: list[float], two: list[float], three: list[float]) -> list[float]:
        return [
            inputs * (made + summed) + opened for made, summed, opened in zip(one, two, three, strict=True)
        ]

    return Took(whole(encrypt.ours, add.ours, decrypt.ours), whole(encrypt.other, add.other, decrypt.other))


def ciphertext_rows(grid: Grid) -> Iterator[Row]:
    """Yield where the time of one ciphertext goes, and what two ways into TenSEAL cost."""
    trustee = DecryptionKey.draw(STANDARD)
    tenseal = library()
    context = tenseal.context_from(trustee.public, n_threads=1)
    slots = np.arange(STANDARD.ring_degree, dtype=np.int64)
    numbers = slots.tolist()
    vector = tenseal.bfv_vector(context, tenseal.plain_tensor(slots, dtype="int"))
    parts: dict[str, Callable[[], object]] = {
        "array to list": slots.tolist,
        "list, encrypted": lambda: tenseal.bfv_vector(context, slots.tolist()),
        "array to tensor": lambda: tenseal.plain_tensor(slots, dtype="int"),
        "tensor, encrypted": lambda: tenseal.bfv_vector(context, tenseal.plain_tensor(slots, dtype="int")),
        "serialise": vector.serialize,
        "list to array": lambda: np.fromiter(numbers, np.int64, len(numbers)),
    }
    took: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(3 * grid.repeats):
        for name, part in parts.items():
            took[name].append(cpu_ms(part)[0])
    yield {name: median(values) for name, values in took.items()}


def main(arguments: list[str] | None = None) -> Report:
    """Parse the command line, measure, print, and return the tables."""
    parser = argparse.ArgumentParser(description="Measure two-key mode against masking and TenSEAL.")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run, and is it right")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables here as well")
    asked = parser.parse_args(arguments)
    grid = QUICK if asked.quick else Grid()
    print(f"cohortsum two_key, {os.cpu_count()} cores; milliseconds of processor time, {grid.length} numbers")
    report = Report()
    report.table("Masks of a site, modulo the prime and modulo 2**64", expansion_rows(grid))
    report.table(
        "Encryption against TenSEAL's own steps",
        Steps(grid).rows(),
        "two_key includes range checks, unfolding to coefficients, and the noise budget of what is decrypted",
    )
    report.table("One ciphertext", ciphertext_rows(grid), "how numbers get into TenSEAL and out of it")
    report.write(asked.json)
    return report


if __name__ == "__main__":
    main()
