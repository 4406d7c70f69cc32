"""From a frozen study to the plan of its rounds, and between a study's statistics and a round's vector.

All analyses of a study travel in one vector: the number of people first, then every block of every analysis in the order of
the study. Some need further rounds, *iterations* over the same people: `StudyPlan.advance` derives the next one from opened sums,
and every site does so for itself, from sums that it recomputed. What ended in an earlier iteration keeps its sums.

The grid is the finest that cannot wrap: a normalised value has magnitude at most 1, so with ``2**(62 - bits)`` levels,
``bits`` being the length of max_participants, even max_participants people at the bound stay inside the signed 64-bit
range. Under noise the grid follows the noise (`noising`). Both daemons build the plan from the signed bytes and compare its
digest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, sqrt
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.bfv import STANDARD, Parameters
from cohortsum.crypto.encoding import digest, encode
from cohortsum.crypto.errors import ConfigurationError, PolicyError, StudyFileError
from cohortsum.protocol.bounds import Protection, allowed_sizes, broken_bound
from cohortsum.protocol.plan import PlannedBlock, RoundPlan
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.unlocking import trustee_of
from cohortsum.study.batch import Batch
from cohortsum.study.building import statistic_of
from cohortsum.study.cohort import Cohort
from cohortsum.study.committee_members import check_committee
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.noising import honest_sites, noising_of, regrid
from cohortsum.study.results import Status, Table
from cohortsum.study.statistics.interface import Local, Members, Statistic, marked
from cohortsum.study.statistics.noised import Noisy

PEOPLE = PlannedBlock("people", 1, 1, "person", ())
"""The first block of every round: how many people of the cohort the sites hold."""

Integers = NDArray[np.int64]
Sums = Mapping[str, Integers]

MOST_SEEN_BYTES = 32 * 1024 * 1024
"""Of all masked inputs of a round whose sums sites recompute: every site receives them, in one message."""


@dataclass(frozen=True, slots=True)
class Sites:
    """How many sites took part in a round, and how many are in its sum."""

    advertised: int
    survivors: int


@dataclass(frozen=True, slots=True)
class Ended:
    """An analysis that needed no further round, with the opened sums of its last one."""

    statistic: Statistic
    sums: Sums


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """A study, its statistics and the plan of its round.

    Attributes:
        study: the frozen study.
        cohort: who is in it.
        statistics: the analyses of this round, in the order of the study.
        round: what the protocol needs to know.
        ended: the analyses that ended in earlier rounds.
        grids: under noise, by block of an analysis: multiples of one such part of the block's unit travel.
    """

    study: FrozenStudy
    cohort: Cohort
    statistics: tuple[Statistic, ...]
    round: RoundPlan
    ended: tuple[Ended, ...] = ()
    grids: Mapping[str, int] = field(default_factory=dict[str, int])

    def contribution(
        self,
        batches: Callable[[], Iterable[Batch]],
        blocks: Sequence[PlannedBlock],
        supplied: frozenset[str],
        least_effective: float = 0.0,
    ) -> tuple[int, Integers]:
        """Return the people of this site and its values of ``blocks``, zeros where it does not supply one.

        Args:
            batches: returns the site's raw values, one entry per person, as often as it is called.
            blocks: the blocks that travel, as the round fixed them.
            supplied: the items this site signed.
            least_effective: the least effective number of people that the weights of an iteration may rest on here.

        Raises:
            PolicyError: the weights of an iteration rest on fewer.
        """
        travelling = {block.name for block in blocks}
        asked = [
            statistic
            for statistic in self.statistics
            if any(block.name in travelling for block in statistic.layout())
        ]
        asked = [statistic.at_site(lambda: map(self.cohort.prepare, batches())) for statistic in asked]
        people = 0
        states = [statistic.accumulate(_empty(self.study)) for statistic in asked]
        for raw in batches():
            batch = self.cohort.prepare(raw)
            people += batch.people
            states = [
                statistic.merge([state, statistic.accumulate(batch)])
                for statistic, state in zip(asked, states, strict=True)
            ]
        counted = people * self.round.people_levels
        values: dict[str, Integers] = {PEOPLE.name: np.array([counted], dtype=np.int64)}
        for statistic, state in zip(asked, states, strict=True):
            if self.round.iteration > 1 and statistic.effective_people(state) < least_effective:
                raise PolicyError(
                    f"analysis {statistic.name}: the weights of round {self.round.iteration} rest on fewer than "
                    f"{least_effective:g} people here; this site adds nothing"
                )
            values |= self._on_grid(statistic, statistic.contribute(state))
        parts = [
            values[block.name] if _supplies(block, supplied) else np.zeros(block.size, dtype=np.int64)
            for block in blocks
        ]
        return people, np.concatenate(parts)

    def _on_grid(self, statistic: Statistic, sums: Sums) -> Sums:
        """Return a statistic's sums as they travel: on its own grid, or on that of the noise."""
        if not self.grids:
            return sums
        bits = {block.name: block.fraction_bits for block in statistic.layout()}
        return {name: regrid(values, bits[name], self.grids[name]) for name, values in sums.items()}

    def supply(self, batches: Iterable[Batch], floor: int) -> tuple[int, frozenset[str]]:
        """Return the people of the cohort at this site and the items it supplies; see `having` and `suppliable`."""
        people, having = self.having(batches)
        return people, self.suppliable(having, floor)

    def having(self, batches: Iterable[Batch]) -> tuple[int, Mapping[str, int]]:
        """Return the people of the cohort at this site, and how many of them have each variable and level that it has a column for."""
        people = 0
        having: dict[str, int] = {}
        for raw in batches:
            batch = self.cohort.prepare(raw)
            people += batch.people
            for name, numbers in batch.numbers.items():
                having[name] = having.get(name, 0) + int(np.count_nonzero(~np.isnan(numbers)))
            for name, factor in self.study.factors.items():
                levels = batch.levels.get(name)
                for position, level in enumerate(factor.levels if levels is not None else ()):
                    item = factor.level_name(level)
                    having[item] = having.get(item, 0) + int(np.count_nonzero(levels == position))
        return people, having

    def suppliable(self, having: Mapping[str, int], floor: int) -> frozenset[str]:
        """Return the items that a site could supply.

        A variable is supplied if at least ``floor`` people of the cohort have a value, a level if one person has it. Under noise,
        if the site has the column: what people have is not told without noise.
        """
        if self.round.noise is not None:
            supplied = set(having)
        else:
            least = dict.fromkeys(self.study.numbers, max(1, floor))
            supplied = {item for item, count in having.items() if count >= least.get(item, 1)}
        supplied |= {analysis_item(statistic.name) for statistic in self.statistics}
        return frozenset(supplied & set(self.round.items))

    def narrowed(self, supplied: frozenset[str], analyses: frozenset[str] | None) -> frozenset[str]:
        """Return ``supplied`` without the analyses that the site's admin did not approve; None: all are approved."""
        if analyses is None:
            return supplied
        return supplied - {
            analysis_item(statistic.name) for statistic in self.statistics if statistic.name not in analyses
        }

    def sets_of(self, block: str) -> tuple[str, ...]:
        """Return the names of the people sets that a block of an analysis is about."""
        return self._sets()[block]

    def _sets(self) -> Mapping[str, tuple[str, ...]]:
        return {block.name: block.sets for statistic in self.statistics for block in statistic.layout()}

    def people_sets(self, supplied: frozenset[str]) -> frozenset[str]:
        """Return the names of the people sets that a site with these items sends numbers about, the cohort's included."""
        sent = {block.name for block in self.round.blocks if _supplies(block, supplied)}
        blocks = (block for statistic in self.statistics for block in statistic.layout())
        return frozenset({PEOPLE.name}.union(*(block.sets for block in blocks if block.name in sent)))

    def members(self, batches: Iterable[Batch]) -> Iterator[Members]:
        """Yield per batch of raw values who of it enters which people set of the study; the cohort is ``people``.

        Masks are over the people of the raw batch, so that they line up with whatever the site keeps of them.
        """
        for raw in batches:
            prepared = self.cohort.prepare(raw)
            positions = np.flatnonzero(self.cohort.included(raw))
            masks = {PEOPLE.name: marked(raw.people, positions)}
            for statistic in self.statistics:
                for name, mask in statistic.members(prepared).items():
                    masks[name] = marked(raw.people, positions[mask])
            yield masks

    @property
    def seen_by_sites(self) -> tuple[str, ...]:
        """Return the analyses whose opened sums sites see before release: they feed a further round, or the site's own rows."""
        return tuple(statistic.name for statistic in self.statistics if _seen(statistic))

    @property
    def most_rounds(self) -> int:
        """Return how many rounds may follow from this one, itself included."""
        return max((statistic.most_rounds for statistic in self.statistics), default=1)

    def advance(self, sums: Sums) -> "StudyPlan | None":
        """Return the plan of the next round, given the opened sums of this one by block name; None where nothing is left to do."""
        ended, going_on = list(self.ended), list[Statistic]()
        for statistic in self.statistics:
            if self.round.noise is None:
                following = statistic.further(sums)
            else:
                following = statistic.further_noised(self._in_units(sums), self._people(sums))
            if following is None:
                ended.append(Ended(statistic, sums))
            else:
                going_on.append(following)
        if not going_on:
            return None
        statistics = tuple(going_on)
        plan = replace(
            self.round,
            blocks=(self.round.blocks[0], *_planned(statistics, self.grids)),
            iteration=self.round.iteration + 1,
            parameters=_parameters_digest(statistics),
        )
        return replace(self, statistics=statistics, round=plan, ended=tuple(ended))

    def needs_sight(self, sums: Sums) -> bool:
        """Return whether sites must see these sums: another round follows, or values per person at the sites."""
        return any(statistic.keeps_local for statistic in self.statistics) or self.advance(sums) is not None

    @property
    def rate(self) -> float:
        """The probability with which a person is in a round: 1 but for training on samples."""
        neighbours = self.study.privacy.neighbours
        parts = (part for statistic in self.statistics for part in statistic.parts(neighbours))
        return min((part.rate for part in parts), default=1.0) if self.round.noise is not None else 1.0

    def noise_sd(self, sites: Sites) -> dict[str, float]:
        """Return by block the standard deviation of the noise in each opened number, in the block's own units."""
        plan = self.round.noise
        if plan is None:
            raise ValueError("this round has no noise")
        honest = plan.honest(sites.advertised, self.round.protection)
        sigma = {name: part.sigma(honest) for part in plan.parts for name in part.blocks}
        return {
            name: sigma.get(name, 0) * sqrt(sites.survivors) / levels for name, levels in self.grids.items()
        }

    def noisy(self, sums: Sums, sites: Sites) -> Noisy:
        """Return opened sums of a round under noise in the blocks' own units, with the noise in them."""
        return Noisy(self._in_units(sums), self.noise_sd(sites), self._people(sums), sites.survivors)

    def _people(self, sums: Sums) -> int:
        return self.round.people_of(int(sums[PEOPLE.name][0]))

    def _in_units(self, sums: Sums) -> dict[str, NDArray[np.float64]]:
        return {name: sums[name] / levels for name, levels in self.grids.items() if name in sums}

    def finish(self, sums: Sums, sites: Sites | None = None) -> tuple[Table, ...]:
        """Return the tables of every analysis, in the order of the study.

        Args:
            sums: of the last round, by block name; a block that is absent had too few suppliers.
            sites: of the last round; needed under noise.
        """
        if self.round.noise is not None:
            if sites is None:
                raise ValueError("under noise the number of sites is needed")
            noisy = self.noisy(sums, sites)
            found = {statistic.name: statistic.finish_noised(noisy) for statistic in self.statistics}
            return self._tables((), found)
        return self._tables((*self.ended, *(Ended(statistic, sums) for statistic in self.statistics)), {})

    def cut_short(self, reason: str) -> tuple[Table, ...]:
        """Return the tables where this round could not be opened: of what had ended, what stands without it, or a line."""
        return self._tables(self.ended, {one.name: _left(one, reason) for one in self.statistics})

    def local(self, sums: Sums, batches: Callable[[], Iterable[Batch]]) -> Iterator[tuple[str, Local]]:
        """Yield, by analysis that ends with this round, what this site computes for its own people.

        Args:
            sums: of this round.
            batches: as in `contribution`.
        """

        def prepared() -> Iterable[Batch]:
            return map(self.cohort.prepare, batches())

        for statistic in self.statistics:
            if statistic.keeps_local and statistic.further(sums) is None:
                found = statistic.locally(sums, prepared)
                if found is not None:
                    yield statistic.name, found

    def _tables(self, ended: Iterable[Ended], others: Mapping[str, tuple[Table, ...]]) -> tuple[Table, ...]:
        by_name = dict(others)
        for last in ended:
            by_name[last.statistic.name] = last.statistic.finish(last.sums)
        return tuple(table for name in self.study.analyses for table in by_name[name])


def _left(statistic: Statistic, reason: str) -> tuple[Table, ...]:
    """Return what an analysis gives whose next round could not be opened."""
    found = statistic.without()
    if found:
        return tuple(
            replace(table, notes=(*table.notes, f"A further round could not be opened: {reason}."))
            for table in found
        )
    return (
        Table(statistic.name, "unfinished", ("status", "reason"), ((Status.NOT_FINISHED.value, reason),)),
    )


def by_block(blocks: Sequence[PlannedBlock], values: Integers) -> dict[str, Integers]:
    """Return the opened ``values`` of ``blocks`` by block name, (block.size,) int64 each."""
    sums: dict[str, Integers] = {}
    start = 0
    for block in blocks:
        sums[block.name] = values[start : start + block.size]
        start += block.size
    return sums


def plan_study(study: FrozenStudy, roster: Roster) -> StudyPlan:
    """Return the plan of a study under a roster.

    Raises:
        StudyFileError: the study names another roster version, or no number of its sites keeps the bounds.
        ConfigurationError: a sum could wrap.
    """
    if study.roster != roster.version:
        raise StudyFileError(
            f"study {study.study}: written for roster version {study.roster}, this is version {roster.version}; "
            "use that roster or change the field 'roster'"
        )
    check_committee(study, roster)
    protection = protection_of(study)
    invited = len(roster.sites)
    if not allowed_sizes(invited, protection):
        raise StudyFileError(
            f"study {study.study}: no round can run with {invited} invited sites; {broken_bound(invited, protection)}; "
            "change min_sites, max_colluding_sites or min_honest_inputs under 'protection', or invite more sites"
        )
    statistics = tuple(statistic_of(study, spec) for spec in study.analyses.values())
    blocks = _planned(statistics)
    items = {item for block in blocks for group in block.supply for item in group}
    items |= {analysis_item(statistic.name) for statistic in statistics}
    items |= {item for statistic in statistics for item in statistic.supplied_later}
    seen = any(map(_seen, statistics))
    noising = None
    if study.privacy.noise != "none":
        noising = noising_of(study, statistics, honest_sites(study, protection, invited))
    grids: Mapping[str, int] = {} if noising is None else noising.levels
    people = PEOPLE
    if noising is not None and noising.plan.people is not None:
        people = replace(PEOPLE, unit_bound=noising.plan.people.levels)
    plan = RoundPlan(
        study.digest,
        roster.digest,
        study.epoch,
        invited,
        protection,
        (people, *(_planned(statistics, grids) if grids else blocks)),
        tuple(sorted(items)),
        seen,
        noise=None if noising is None else noising.plan,
        encryption=_encryption(study, roster, statistics),
    )
    if seen and 8 * plan.length * invited > MOST_SEEN_BYTES:
        names = ", ".join(statistic.name for statistic in statistics if _seen(statistic))
        raise StudyFileError(
            f"study {study.study}: sites recompute the sums behind {names}, and {invited} sites with {plan.length} numbers each "
            f"are more than the {MOST_SEEN_BYTES // 2**20} MiB that they are sent; put the large one-round analyses into a "
            "study of their own"
        )
    return StudyPlan(study, Cohort(study), statistics, plan, grids=grids)


def _encryption(study: FrozenStudy, roster: Roster, statistics: Iterable[Statistic]) -> Parameters | None:
    """Return what sites encrypt under; raises StudyFileError where two-key mode cannot serve a study or its roster."""
    if study.protection.mode != "two_key":
        return None
    if names := [statistic.name for statistic in statistics if _seen(statistic)]:
        raise StudyFileError(
            f"study {study.study}: two_key serves analyses of one round, and {', '.join(names)} take several, or write rows at the "
            "sites: sites cannot decrypt, so they cannot recompute the sums these need; put them into a study with mode: masking"
        )
    try:
        trustee_of(roster)
    except ConfigurationError as error:
        raise StudyFileError(f"study {study.study}: {error.message}") from None
    return STANDARD


def _seen(statistic: Statistic) -> bool:
    return statistic.most_rounds > 1 or statistic.keeps_local


def _planned(
    statistics: Iterable[Statistic], grids: Mapping[str, int] = MappingProxyType({})
) -> tuple[PlannedBlock, ...]:
    """Return the blocks of statistics as the protocol takes them, on their own grids or on those of the noise."""
    return tuple(
        PlannedBlock(
            block.name,
            block.size,
            ceil(block.bound * grids[block.name]) if grids else int(block.bound * 2**block.fraction_bits),
            block.per,
            tuple(group | {analysis_item(statistic.name)} for group in block.supply or (frozenset[str](),)),
        )
        for statistic in statistics
        for block in statistic.layout()
    )


def _parameters_digest(statistics: Iterable[Statistic]) -> bytes:
    """Return the digest of the parameters of a round, big-endian float64 by analysis; raises ValueError for one not finite."""
    parts: list[bytes] = []
    for statistic in statistics:
        values = np.array(statistic.parameters, np.float64) + 0.0  # one zero, not two
        if not np.isfinite(values).all():
            raise ValueError(f"analysis {statistic.name}: a parameter is not finite")
        parts += [statistic.name.encode(), values.astype(">f8").tobytes()]
    return digest("cohortsum/v1/parameters", encode(*parts))


def analysis_item(analysis: str) -> str:
    """Return the supply item by which a site says yes or no to an analysis as a whole; no variable has such a name."""
    return f"analysis:{analysis}"


def protection_of(study: FrozenStudy) -> Protection:
    """Return the study's thresholds as the protocol takes them."""
    written = study.protection
    return Protection(
        min_sites=written.min_sites,
        min_participants=written.min_participants,
        max_participants=written.max_participants,
        min_participants_per_site=written.min_participants_per_site,
        max_colluding_sites=written.max_colluding_sites,
        min_honest_inputs=written.min_honest_inputs,
        max_attempts=written.max_attempts,
    )


def _supplies(block: PlannedBlock, supplied: frozenset[str]) -> bool:
    return not block.supply or block.supply[0] <= supplied


def _empty(study: FrozenStudy) -> Batch:
    """Return a prepared batch of nobody, whose state is the zero state of every statistic."""
    numbers: Mapping[str, NDArray[np.float64]] = {name: np.empty(0) for name in study.numbers}
    levels: Mapping[str, NDArray[np.int16]] = {name: np.empty(0, dtype=np.int16) for name in study.factors}
    return Batch(0, numbers, levels)
