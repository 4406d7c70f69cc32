"""``kind: quantiles``: quantiles of numbers from counts between public edges, by groups."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Count, Finite, Name
from cohortsum.study.definition.kinds.binned import Binned
from cohortsum.study.definition.kinds.interface import AnalysisSpec, path_of
from cohortsum.study.definition.problems import Path
from cohortsum.study.definition.reading import Reading
from cohortsum.study.results import QUANTILE_COLUMNS, REFINED_COLUMN
from cohortsum.study.statistics.bins import Bins, part_count
from cohortsum.study.statistics.quantiles_noised import QUANTILE_NOISE_COLUMN
from cohortsum.study.variables import Number

MIN_BIN = 10
"""People of a bin that is looked at more closely, unless the study says otherwise."""
MOST_PARTS = 1000
EXTREME = (
    "0 and 1 ask for the minimum and the maximum: the value of one person, which only a committee opens, on a public grid "
    "(mode: committee, and step in the place of edges); expected probabilities between them"
)
LEAST_WIDTH = 1e-9
"""Least width to refine to, as a share of the greatest edge: below it edges would fall on each other."""


@dataclass(frozen=True, slots=True)
class QuantilesSpec(AnalysisSpec):
    """Quantiles of ``variables`` at ``probabilities``, by groups.

    Attributes:
        name: the analysis.
        variables: numbers.
        probabilities: ascending, above 0 and below 1; from 0 to 1 with ``step``.
        edges: of the bins, increasing, at least 2, in the variables' unit; none with ``step``.
        by: factors whose levels make groups.
        bands: numbers whose parts make groups, with the cuts between them; crossed with ``by``.
        refine: the width to which a second round looks at the bins that hold a quantile; None for one round.
        min_bin: people that such a bin has at least.
        where: the subgroup, judged on prepared values.
        step: of the public grid on which a committee finds them; None where they come from counts between edges.
    """

    kind: ClassVar[str] = "quantiles"
    afterwards: ClassVar[frozenset[str]] = frozenset({"probabilities", "refine", "min_bin"})

    name: str
    variables: tuple[str, ...]
    probabilities: tuple[float, ...]
    edges: tuple[float, ...]
    by: tuple[str, ...]
    bands: Mapping[str, tuple[float, ...]]
    refine: float | None
    min_bin: int
    where: Condition | None
    step: float | None = None

    @property
    def lists(self) -> frozenset[str]:
        """The variables."""
        return frozenset({"variables"})

    @property
    def required(self) -> frozenset[str]:
        """What makes the groups."""
        return frozenset({*self.by, *self.bands})

    @property
    def suppliable(self) -> frozenset[str]:
        """What the quantiles are of."""
        return frozenset(self.variables)

    def partings(self, variable: str) -> AbstractSet[float]:
        """Return the edges, and the cuts between bands."""
        edges = self.edges if variable in self.variables else ()
        return frozenset({*edges, *self.bands.get(variable, ())})


def _inside(probability: float) -> float:
    if not 0.0 <= probability <= 1.0:
        raise ValueError("expected a probability above 0 and below 1, such as 0.05 for 5 %")
    return probability


def _increasing(cuts: tuple[float, ...]) -> tuple[float, ...]:
    if not all(low < high for low, high in pairwise(cuts)):
        raise ValueError("expected cuts that increase")
    return cuts


Cuts = Annotated[tuple[Finite, ...], Field(min_length=1, max_length=100), AfterValidator(_increasing)]


class QuantilesEntry(Binned):
    """Quantiles from counts between public edges, refined in a second round where asked for; exact on a grid by a committee."""

    kind: Literal["quantiles"]
    variables: Annotated[tuple[Name, ...], Field(min_length=1)]
    probabilities: Annotated[
        tuple[Annotated[Finite, AfterValidator(_inside)], ...], Field(min_length=1, max_length=1000)
    ]
    by: tuple[Name, ...] = ()
    bands: dict[Name, Cuts] = Field(default_factory=dict[Name, Cuts])
    refine: Annotated[Finite, Field(gt=0)] | None = None
    min_bin: Count | None = None
    step: Annotated[Finite, Field(gt=0)] | None = None

    wanted: ClassVar[str] = (
        "expected either edges: [...] or bins: {from, to, count}; or step alone, for a committee"
    )

    @property
    def without_bins(self) -> bool:
        """Whether a committee finds the quantiles on a grid."""
        return self.step is not None

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.step is not None and (self.refine is not None or self.min_bin is not None):
            raise ValueError("refine and min_bin look into bins, and step has none; remove them")
        if len(set(self.probabilities)) < len(self.probabilities):
            raise ValueError("a probability is listed twice; list each once")
        if self.min_bin is not None and self.refine is None:
            raise ValueError("min_bin belongs to refine; add that, or remove it")
        return self

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, QuantilesSpec]:
        """Return the entry with globs, edges and defaults written out, and the spec."""
        variables = reading.numbers(self.variables, path_of(name, "variables"))
        edges, probabilities = self.public_edges(), tuple(sorted(self.probabilities))
        taken = {"variable", "probability", *QUANTILE_COLUMNS, QUANTILE_NOISE_COLUMN, REFINED_COLUMN}
        by = reading.factors(self.by, path_of(name, "by"), taken)
        for place, probability in enumerate(self.probabilities if self.step is None else ()):
            if probability in (0.0, 1.0):
                reading.problems.add(path_of(name, "probabilities", place), EXTREME)
        bands = dict(sorted(self.bands.items()))
        for variable, cuts in bands.items():
            _check_bands(variable, cuts, taken, path_of(name, "bands", variable), reading)
        if self.refine is not None:
            _check_width(self.refine, variables, edges, path_of(name, "refine"), reading)
        min_bin = MIN_BIN if self.refine is not None and self.min_bin is None else self.min_bin
        written = {
            "variables": variables,
            "probabilities": probabilities,
            "edges": edges or None,
            "bins": None,
            "by": by,
            "bands": bands,
            "min_bin": min_bin,
        }
        spec = QuantilesSpec(
            name,
            variables,
            probabilities,
            edges,
            by,
            MappingProxyType(bands),
            self.refine,
            min_bin or MIN_BIN,
            where,
            self.step,
        )
        return self.model_copy(update=written), spec


def _check_bands(
    variable: str, cuts: tuple[float, ...], taken: AbstractSet[str], path: Path, reading: Reading
) -> None:
    """Note bands of what is no number, or outside its range, or that no table can hold."""
    reading.number(variable, path)
    known = reading.variables.get(variable)
    if isinstance(known, Number) and not (known.lower < cuts[0] and cuts[-1] < known.upper):
        reading.problems.add(
            path,
            f"expected cuts inside the range of {variable!r}, above {known.lower} and below {known.upper}",
        )
    if variable in taken:
        reading.problems.add(path, f"the result table has a column {variable!r}; rename the variable")


def _check_width(
    width: float, variables: tuple[str, ...], edges: tuple[float, ...], path: Path, reading: Reading
) -> None:
    """Note a width that parts no bin, or one into too many pieces."""
    widths = [
        (high - low, low, high, known)
        for variable in variables
        if isinstance(known := reading.variables.get(variable), Number)
        for low, high in Bins(known, edges).intervals
    ]
    if not widths:
        return
    widest, low, high, known = max(widths, key=lambda one: one[0])
    parts = part_count(low, high, width)
    if parts == 1:
        reading.problems.add(path, "no bin is wider than this; remove refine, or write a smaller width")
    elif parts > MOST_PARTS:
        reading.problems.add(
            path,
            f"a bin of {known.name!r} is {widest} wide and would have {parts} pieces; at most {MOST_PARTS}: write more "
            "edges, a greater width or a narrower range",
        )
    if width < LEAST_WIDTH * max(map(abs, (*edges, known.lower, known.upper))):
        reading.problems.add(path, "this width is lost in the digits of the edges; write a greater one")
