"""From a valid study file to a `FrozenStudy`: the meaning of the file, written out and checked across sections.

Freezing is a projection: the frozen study's canonical bytes hold the same file with nothing left to look up, and
freezing those gives the same bytes again. A site parses the bytes it was sent; it never sees a glob.
"""

from collections.abc import Mapping
from types import MappingProxyType

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.definition.by_committee import MIN_CELL, check_by_committee
from cohortsum.study.definition.canonical import canonical_bytes, digest_of
from cohortsum.study.definition.expressions import Condition, render
from cohortsum.study.definition.frozen import DeadlineSpec, EnrolSpec, FrozenStudy
from cohortsum.study.definition.kinds import AnalysisEntry, AnalysisSpec, CombatSpec
from cohortsum.study.definition.loading import Study, validate
from cohortsum.study.definition.models import CatalogueEntry, Deadlines, StudyFile
from cohortsum.study.definition.names import is_glob, nearest
from cohortsum.study.definition.problems import Place, Problems
from cohortsum.study.definition.reading import Reading
from cohortsum.study.definition.tree import Tree, read_json
from cohortsum.study.definition.variables import declared, derive, expand
from cohortsum.study.formats import other_major
from cohortsum.study.variables import Variable

CANONICAL = "cohortsum.study/1"
"""The format of canonical bytes. They do not say so; those of a later one say theirs under ``format``, which no study of this one has."""


def freeze(study: Study) -> FrozenStudy:
    """Return the frozen study.

    Raises StudyFileError listing every problem across sections, with line and cure; ExpressionError where all of them
    are expressions.
    """
    file, problems = study.file, Problems(study.place)
    entries = expand(file.variables, problems)
    known = declared(entries)
    derived, derived_variables = derive(file.derive, known, problems)
    include = _include(file, known, problems)
    variables = known | derived_variables
    reading = Reading(variables, problems)
    read = {name: _analysis(name, entry, reading) for name, entry in sorted(file.analyses.items())}
    _check_names(file, variables, problems)
    specs = {name: spec for name, (_, spec) in read.items()}
    _check_needs(specs, problems)
    check_by_committee(file, specs, variables, problems)
    for name in sorted(set(file.privacy.shares or ()) - read.keys()):
        cure = nearest(name, read, "name analyses of the study")
        problems.add(("privacy", "shares", name), f"the study has no analysis {name!r}; {cure}")
    problems.raise_if_any()

    protection = file.protection
    if protection.mode == "committee" and protection.min_cell is None:
        protection = protection.model_copy(update={"min_cell": MIN_CELL})
    expanded = file.model_copy(
        update={
            "protection": protection,
            "variables": entries,
            "derive": {name: render(expression) for name, expression in derived.items()},
            "cohort": file.cohort.model_copy(
                update={"include": None if include is None else render(include)}
            ),
            "analyses": {name: entry for name, (entry, _) in read.items()},
        }
    )
    canonical = canonical_bytes(expanded)
    return FrozenStudy(
        study=file.study,
        title=file.title,
        version=file.version,
        roster=file.roster,
        expires=file.expires,
        person=file.person,
        variables=MappingProxyType(dict(sorted(variables.items()))),
        families=MappingProxyType(
            {name: entry.catalogue for name, entry in entries.items() if isinstance(entry, CatalogueEntry)}
        ),
        derived=MappingProxyType(derived),
        include=include,
        epoch=file.cohort.epoch,
        near_duplicate=file.cohort.near_duplicate,
        analyses=MappingProxyType(specs),
        protection=protection,
        privacy=file.privacy,
        release=file.release,
        enrol=EnrolSpec(file.enrol.until, file.enrol.start),
        deadlines_s=_in_seconds(file.deadlines),
        canonical=canonical,
        digest=digest_of(canonical),
    )


def parse_canonical(canonical: bytes) -> FrozenStudy:
    """Return the study in canonical bytes; freezing and parsing are inverse to each other.

    Raises StudyFileError for anything else, what names another format and other encodings of the same study included: a signature
    covers bytes, and one study has one digest.
    """
    tree = read_json(canonical)
    _refuse_other_format(tree)
    if _has_globs(tree):  # to write them out is for files alone, and could take long
        raise StudyFileError("canonical study: a name with *; freeze the study file again")
    study = freeze(validate(tree, Place("canonical study", {})))
    if study.canonical != canonical:
        raise StudyFileError(
            "canonical study: these bytes are not in canonical form; freeze the study file again"
        )
    return study


def _refuse_other_format(tree: Tree) -> None:
    if other := other_major(tree, "format", CANONICAL):
        raise StudyFileError(
            f"canonical study: format {other}; expected {CANONICAL}: install the cohortsum version that its statistician has"
        )


def roster_named(canonical: bytes) -> int:
    """Return the version of the roster that canonical bytes name, before anybody reads the rest; raises StudyFileError."""
    tree = read_json(canonical)
    _refuse_other_format(tree)
    version = tree.get("roster") if isinstance(tree, dict) else None
    if not isinstance(version, int):
        raise StudyFileError("canonical study: roster: is missing; freeze the study file again")
    return version


def _has_globs(tree: Tree, *, within: bool = False) -> bool:
    """Return whether a name that a file may write as a glob is one."""
    if isinstance(tree, list):
        return any(_has_globs(item, within=within) for item in tree)
    if isinstance(tree, dict):
        named = tree.get("variables")
        if isinstance(named, dict) and any(map(is_glob, named)):
            return True
        return any(_has_globs(value, within=key in ("outcomes", "variables")) for key, value in tree.items())
    return within and isinstance(tree, str) and is_glob(tree)


def _analysis(name: str, entry: AnalysisEntry, reading: Reading) -> tuple[AnalysisEntry, AnalysisSpec]:
    """Return an analysis with everything written out, as a file entry and as a spec."""
    where = reading.condition(entry.where, ("analyses", name, "where"))
    written, spec = entry.read(name, where, reading)
    return written.model_copy(update={"where": None if where is None else render(where)}), spec


def _include(file: StudyFile, known: Mapping[str, Variable], problems: Problems) -> Condition | None:
    return Reading(known, problems).condition(file.cohort.include, ("cohort", "include"))


def _check_names(file: StudyFile, variables: Mapping[str, Variable], problems: Problems) -> None:
    if file.person in variables:
        problems.add(("person",), "identifies people and cannot be a variable; remove it from variables")
    if file.enrol.until is not None and file.enrol.until.date() > file.expires:
        problems.add(("enrol", "until"), "lies after expires; enrolment ends before the study does")
    seen: dict[str, str] = {}
    for name in file.analyses:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            problems.add(
                ("analyses", name), f"differs from {other!r} in case only; results are files: rename one"
            )


def _check_needs(specs: Mapping[str, AnalysisSpec], problems: Problems) -> None:
    """Note analyses that need what is no ComBat, or outcomes that it does not harmonise; a ComBat needs nothing itself."""
    combats = {name: spec for name, spec in specs.items() if isinstance(spec, CombatSpec)}
    for name, spec in specs.items():
        if spec.needs is None:
            continue
        path = ("analyses", name, "needs")
        if spec.needs not in combats:
            found = (
                f"{spec.needs!r} is a {specs[spec.needs].kind}"
                if spec.needs in specs
                else f"the study has no analysis {spec.needs!r}"
            )
            problems.add(path, f"{found}; {nearest(spec.needs, combats, 'name an analysis of kind combat')}")
            continue
        missing = sorted(spec.suppliable - combats[spec.needs].suppliable)
        if missing:
            problems.add(
                path, f"{spec.needs!r} does not harmonise {', '.join(missing)}; add them to its outcomes"
            )


def _in_seconds(deadlines: Deadlines) -> DeadlineSpec:
    return DeadlineSpec(
        gather=deadlines.gather / 1000,
        step=deadlines.step / 1000,
        step_max=deadlines.step_max / 1000,
        rejoin=deadlines.rejoin / 1000,
        tick=deadlines.tick / 1000,
    )
