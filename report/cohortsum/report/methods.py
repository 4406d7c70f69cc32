"""METHODS.md: what was computed, over whom and under which rules, in sentences that a paper can take over.

Only what the result document says is said here; what it does not hold (a hypothesis, how people were recruited) is for
the authors to add. Names of a study are data: they stand in code spans, in which Markdown means nothing by any character.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from cohortsum.report.document import ResultDocument, release_words
from cohortsum.report.effects import COEFFICIENTS
from cohortsum.report.page import waivers
from cohortsum.report.records import leading, records, value
from cohortsum.study.results import INTERCEPT, Absent, Status, Table

_NAMED: Final = 8

_MODELS: Final = {
    "regression": "Linear models were fitted",
    "glm": "Generalised linear models were fitted",
    "cox": "Cox proportional hazards models were fitted",
    "mixed": "Linear mixed models with a random intercept per site were fitted",
}


def methods_markdown(document: ResultDocument) -> str:
    """Return the file as Markdown with LF line ends; equal documents give equal text."""
    study = document.study
    paragraphs = [
        f"# Methods: {code(study.id)}, version {study.version}",
        _line(f"Title of the study: {code(study.title)}.") if study.title else "",
        "Written from the result document alone. Each paragraph below *Analyses* can be pasted into a paper; what "
        "the document does not know (recruitment, hypotheses, measurement) is for the authors to add.",
        "## Data and protection",
        _people(document),
        _protection(document),
        "## Analyses",
        *(f"**{code(table.analysis)}.** {describe(table)}" for table in _tables(document)),
        "## Provenance",
        _provenance(document),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph) + "\n"


def describe(table: Table) -> str:
    """Return what a table holds, its people and the rows without a number, in sentences."""
    sentences = [_what(table), _count(table), _statuses(table), *(_sentence(note) for note in table.notes)]
    return " ".join(sentence for sentence in sentences if sentence)


def code(text: str) -> str:
    """Return ``text`` as a Markdown code span: shown as it is, whatever characters it holds."""
    flat = " ".join(text.split()) or " "
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    fence = "`" * (longest + 1)
    gap = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{gap}{flat}{gap}{fence}"


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Return names in code spans; of more than ``most`` the first ones, and how many more there are."""
    shown = [code(name) for name in names[:most]]
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _tables(document: ResultDocument) -> Iterable[Table]:
    return (block.table() for block in document.tables)


def _people(document: ResultDocument) -> str:
    sites = document.sites
    consortium = document.roster.consortium
    of = f" of the consortium {code(consortium)}" if consortium else ""
    sums = f"Data of {_plural(len(sites.survivors), 'site')} ({listed(sites.survivors, len(sites.survivors))}){of}, data epoch {code(document.epoch)}, "
    sums += "were analysed by secure aggregation: each site added its masked sums, and only the total over sites was opened."
    if sites.dropouts:
        sums += f" {_plural(len(sites.dropouts), 'site')} took part and dropped out ({listed(sites.dropouts, len(sites.dropouts))}); no number includes their people."
    if document.round.iterations > 1:
        sums += f" {document.round.iterations} iterations were opened over these people, each from the sums of the one before."
    for left in document.round.left_out:
        sums += f" Without {listed(left.sites, len(left.sites))} from iteration {left.iteration} on."
    return sums


def _protection(document: ResultDocument) -> str:
    rules = document.thresholds
    sentences = [
        f"Results were opened only over at least {_plural(rules.min_sites, 'site')} and "
        f"{_plural(rules.min_participants, 'person', 'people')}; a site took part with at least "
        f"{_plural(rules.min_participants_per_site, 'person', 'people')}. Every opened sum hides at least "
        f"{_plural(rules.min_honest_inputs, 'honest site')}, reckoning with {_plural(rules.max_colluding_sites, 'colluding site')}.",
        f"Disclosure profile: {code(document.profile)}.",
    ]
    waived = waivers(document)
    sentences.append(f"Waivers: {listed(waived)}." if waived else "No rule was waived.")
    privacy = document.privacy
    if privacy is None:
        sentences.append("No noise was added to the sums.")
    else:
        share = "its full noise" if document.noise == "local" else "its share of the noise"
        sentences.append(
            f"Every site added {share} to its own sums before they were masked (discrete Gaussian, exactly sampled; Canonne, "
            "Kamath and Steinke 2020)."
        )
        sentences += privacy.sentences
    sentences.append(f"State of the release: {release_words(document)}.")
    return " ".join(sentences)


def _provenance(document: ResultDocument) -> str:
    study, built_on = document.study, document.round.builds_on_version
    rows = [
        ("study", f"{study.id}, version {study.version}"),
        ("fingerprint", study.fingerprint),
        ("digest (SHA-256)", study.digest),
        ("roster", f"version {document.roster.version}, {document.roster.digest}"),
        ("round", f"{document.round.id}, attempt {document.round.attempt}"),
        ("unchanged sums from version", str(built_on) if built_on else ""),
        ("software", document.software),
    ]
    return "\n".join(f"- {name}: {code(text)}" for name, text in rows if text)


def _distinct(table: Table, column: str) -> list[str]:
    if column not in table.columns:
        return []
    place = table.columns.index(column)
    return list(dict.fromkeys(str(cell) for row in table.rows if not isinstance(cell := row[place], Absent)))


def _by(names: Sequence[str]) -> str:
    return f" by {listed(names)}" if names else ""


def _what(table: Table) -> str:
    """Return the first sentence: what was computed of what."""
    if table.kind in _MODELS:
        return _model(table)
    of = listed(_distinct(table, "variable")) or "the variables"
    outcomes = _distinct(table, "outcome")
    on = f"{_plural(len(outcomes), 'outcome')} ({listed(outcomes)})" if outcomes else "the outcomes"
    match table.kind:
        case "summary":
            return f"Number of people, mean and standard deviation of {of} were computed{_by(leading(table, 'n')[1:])}."
        case "histogram":
            return f"The distribution of {of} was counted in bins with public edges."
        case "quantiles":
            return (
                f"Quantiles of {of}{_by(leading(table, 'probability')[1:])} were read off counts in bins with public "
                "edges; each has a bound on its error."
            )
        case "crosstab":
            return f"People were counted in every combination of the levels of {listed(leading(table, 'count'))}."
        case "fit":
            return f"Deviance and likelihood of the fitted models are given for {on}."
        case "association":
            return "Association of the factors was measured by Pearson's chi-square without continuity correction."
        case "proportion":
            return f"Proportions of the levels of {of} were computed{_by(leading(table, 'count')[2:])}."
        case "meta":
            models = listed(_distinct(table, "model"))
            return f"Estimates of single sites were combined by two-stage meta-analysis ({models}) for {on}."
        case "test":
            return f"Tests of {listed(_distinct(table, 'comparison'))} were made for {on}."
        case "contrast":
            return f"The contrasts {listed(_distinct(table, 'contrast'))} were estimated for {on}."
        case "correlation" | "covariance":
            names = list(dict.fromkeys(_distinct(table, "variable_1") + _distinct(table, "variable_2")))
            return f"A {table.kind} was computed for each pair of {_plural(len(names), 'variable')} ({listed(names)})."
        case "pca":
            return f"Principal components of {_plural(len(_distinct(table, 'variable')), 'variable')} were computed."
        case "kaplan_meier":
            return f"Survival was estimated by the product-limit method (Kaplan and Meier 1958) at public times{_by(leading(table, 'time'))}."
        case "median":
            return f"Median survival is the first of these times with survival of one half or less{_by(leading(table, 'n'))}."
        case "observed":
            return f"Events observed and expected under equal survival are given{_by(leading(table, 'n'))}."
        case "proportionality":
            return f"Score tests of proportional hazards (Grambsch and Therneau 1994) were made for {listed(_distinct(table, 'term'))}."
        case "logrank":
            return f"Survival was compared by log-rank tests ({listed(_distinct(table, 'comparison'))})."
        case "normative":
            return f"Normative values of {on} were estimated over {listed(leading(table, 'mean')[1:])}; z-scores of people stay at the sites."
        case "dp_sgd":
            return f"Logistic regression of {on} was trained by noised gradient descent on secret samples (Abadi et al. 2016)."
        case "combat":
            return f"ComBat harmonisation was fitted for {on}; harmonised values of people stay at the sites."
        case _:
            return f"A table of kind {code(table.kind)} was computed."


def _model(table: Table) -> str:
    outcomes = _distinct(table, "outcome")
    terms = [term for term in _distinct(table, "term") if term != INTERCEPT]
    each = f"one for each of {len(outcomes)} outcomes ({listed(outcomes)})"
    sentence = (
        f"{_MODELS[table.kind]}, {each if len(outcomes) != 1 else f'of the outcome {listed(outcomes)}'}"
    )
    sentence += f", with the coefficients {listed(terms)}." if terms else "."
    asked = [row for row in records(table) if value(row, "d") is not None]
    if asked:
        effects = listed(list(dict.fromkeys(str(row["term"]) for row in asked)))
        sentence += f" Cohen's d was computed for {effects}"
        corrected = any(value(row, "p_fdr") is not None for row in asked)
        sentence += (
            ", with p-values adjusted by the false discovery rate over the outcomes." if corrected else "."
        )
    return sentence


def _count(table: Table) -> str:
    if table.kind not in {*COEFFICIENTS, "correlation", "covariance", "normative", "test", "summary"}:
        return ""
    counts = [int(n) for row in records(table) if (n := value(row, "n")) is not None]
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    group = " per group" if table.kind == "summary" else ""
    return f"n = {low}{group}." if low == high else f"n = {low} to {high}{group}."


def _statuses(table: Table) -> str:
    """Return how many rows hold no result, by reason; nothing where all do."""
    place = table.columns.index("status")
    found: dict[str, int] = {}
    for row in table.rows:
        found[str(row[place])] = found.get(str(row[place]), 0) + 1
    found.pop(Status.OK, None)
    if not found:
        return ""
    reasons = ", ".join(f"{count} {code(reason)}" for reason, count in found.items())
    total = sum(found.values())
    return (
        f"{total} of {_plural(len(table.rows), 'row')} {'is' if total == 1 else 'are'} incomplete: {reasons}."
    )


def _sentence(note: str) -> str:
    """Return a note as text in which no character means markup."""
    return _line(re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", note))


def _line(text: str) -> str:
    return " ".join(text.split())


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
