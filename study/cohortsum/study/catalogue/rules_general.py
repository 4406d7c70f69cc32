"""Rules that hold whatever is measured: sizes, small counts, logs, spatial data, checks before release."""

from cohortsum.study.catalogue.controls import (
    Confirm,
    MinimumN,
    NoiseBelow,
    Of,
    Prohibited,
    PublicTopCode,
    RoundTo,
    SuppressCells,
    SuppressComplement,
)
from cohortsum.study.catalogue.outputs import AGGREGATES, EVERYTHING, RELEASES, Output
from cohortsum.study.catalogue.rule import ANY_IMAGING, EVERY_FAMILY, FREESURFER, Page, Rule, Source, only

_COUNTS = frozenset((Output.COUNT,))
_PERSON = frozenset((Output.INDIVIDUAL,))
_RULE_1 = "Rule 1"
_RULE_2 = "Rule 2"
_RULE_3 = "Rule 3"
_CELLS = "Cell Suppression for Count Statistics"
_LOGS = "Log File Controls"
_SPATIAL = "Registration Matrices and Spatial Data"
_CHECKLIST = "Output Submission Checklist"

SIZES = (
    Rule(
        "group_10",
        "no figure about fewer than 10 people",
        EVERY_FAMILY,
        RELEASES,
        MinimumN(10, Of.GROUP),
        Source(_RULE_1),
        "For a count the group is the people counted.",
    ),
    Rule(
        "freesurfer_group_50",
        "10 people are too few for FreeSurfer's vector; about 50 are not",
        FREESURFER,
        RELEASES,
        MinimumN(50, Of.GROUP),
        Source(_RULE_2, "FreeSurfer vector"),
        "Some copies of the page lack the heading of Rule 2; its text stands under Rule 1 there.",
    ),
    Rule(
        "idp_site_50",
        "a site needs 50 people before it contributes to statistics of imaging measures",
        ANY_IMAGING,
        AGGREGATES,
        MinimumN(50, Of.SITE),
        Source(_RULE_2, "recommendation"),
        "The heading speaks of high-dimensional data, the sentence of any imaging measure: so it holds beside the 20 of eddy,"
        " motion and SNR and the 30 of the WMH mean. It excepts TBSS itself.",
    ),
    Rule(
        "tbss_site_30",
        "for TBSS 30 people at a site are enough",
        only("tbss", "noddi"),
        AGGREGATES,
        MinimumN(30, Of.SITE),
        Source(_RULE_2, "recommendation, exception"),
        "Its 450 values include NODDI's 150, for which the stricter idp_site_50 and noddi_min hold.",
    ),
    Rule(
        "round_100",
        "a round needs 100 people over all sites",
        EVERY_FAMILY,
        RELEASES,
        MinimumN(100, Of.COHORT),
        Source(_RULE_3),
        "Written for updates of a model; every release of this system is a round, so it is read for all.",
    ),
    Rule(
        "round_site_20",
        "a site with fewer than 20 people stays out of a round",
        EVERY_FAMILY,
        RELEASES,
        MinimumN(20, Of.SITE),
        Source(_RULE_3),
        "Contradicts idp_site_50, which is stricter and holds for imaging measures.",
    ),
    Rule(
        "dp_cohort_50",
        "no statistic about a cohort of fewer than 50 people",
        EVERY_FAMILY,
        RELEASES,
        MinimumN(50, Of.COHORT),
        Source("Recommended DP Configuration", "minimum cohort size", Page.PRIVACY),
        "round_100 is stricter.",
    ),
)

CELLS = (
    Rule(
        "primary_suppression",
        "counts below 10 are hidden",
        EVERY_FAMILY,
        _COUNTS,
        SuppressCells(10),
        Source(_CELLS, "primary suppression"),
    ),
    Rule(
        "complement_suppression",
        "further cells are hidden, so that no hidden count follows from totals",
        EVERY_FAMILY,
        _COUNTS,
        SuppressComplement(),
        Source(_CELLS, "secondary suppression"),
    ),
    Rule(
        "count_rounding",
        "counts are rounded to multiples of 5",
        EVERY_FAMILY,
        _COUNTS,
        RoundTo(base=5),
        Source(_CELLS, "example"),
        "The page offers it instead of suppression. 7 rounded is 5 and tells that it is below 10: so suppression comes first,"
        " and what is left is rounded.",
    ),
)

LOGS = (
    Rule(
        "logs_stay",
        "logs never leave the environment",
        only("logs"),
        EVERYTHING,
        Prohibited("logs name people in paths"),
        Source(_LOGS, "item 1"),
    ),
    Rule(
        "logs_in_agreement",
        "agreements list logs as a prohibited output",
        only("logs"),
        EVERYTHING,
        Confirm("the data sharing agreement lists logs as a prohibited output"),
        Source(_LOGS, "item 2"),
    ),
    Rule(
        "logs_scrubbed",
        "identifiers are scrubbed before any archive beyond the perimeter",
        only("logs"),
        EVERYTHING,
        Confirm("patterns of identifiers are scrubbed from logs that an archive outside takes"),
        Source(_LOGS, "item 3"),
        "Scrubbing lets no log out: logs_stay holds.",
    ),
)

SPATIAL = (
    Rule(
        "registration_prohibited",
        "registration matrices and Jacobian maps are never released",
        only("registration"),
        EVERYTHING,
        Prohibited("they describe the shape of one person's brain"),
        Source(_SPATIAL),
        "Costs and mean warps of an alignment (qc.alignment) are single numbers and not named by the page.",
    ),
)

CHECKS = (
    Rule(
        "automated_check",
        "an automated checker is the last gate: cell counts, near-identifying combinations, leverage of single people",
        EVERY_FAMILY,
        RELEASES,
        Confirm("SACRO or an equivalent has checked the output"),
        Source("SACRO and Automated Output Checking"),
        "ACRO 1.0.2, SACRO's checker of outputs, checks neither leverage nor secondary suppression: those two stay to be"
        " confirmed by hand.",
    ),
    Rule(
        "checklist_size",
        "the cohort meets the minimum for its measure",
        EVERY_FAMILY,
        RELEASES,
        Confirm("the number of people meets every minimum named here"),
        Source(_CHECKLIST, "item 1"),
    ),
    Rule(
        "checklist_no_rows",
        "no values of single people in anything sent",
        EVERY_FAMILY,
        _PERSON,
        Prohibited("a row of one person is no aggregate"),
        Source(_CHECKLIST, "item 2"),
    ),
    Rule(
        "checklist_no_identifiers",
        "no identifiers in anything sent, pseudonyms included",
        only("identifiers"),
        EVERYTHING,
        Prohibited("a pseudonym still names a person"),
        Source(_CHECKLIST, "item 3"),
    ),
    Rule(
        "checklist_top_code",
        "skewed measures are top-coded",
        only("bianca.wmh", "eddy.outliers"),
        AGGREGATES,
        PublicTopCode(None),
        Source(_CHECKLIST, "item 4"),
        "Read for WMH and counts of outliers; names no percentile, so wmh_top_code beats it. For eddy's counts it adds to a"
        " table that asks for nothing.",
    ),
    Rule(
        "checklist_noise",
        "noise where a site contributes fewer than 100 people",
        EVERY_FAMILY,
        RELEASES,
        NoiseBelow(100, 1.0),
        Source(_CHECKLIST, "item 5"),
        "Stricter than tract_noise (below 50); beaten by rules that ask for noise always. Names no epsilon: that of the"
        " privacy page, 1 per round, is taken.",
    ),
    Rule(
        "checklist_logs",
        "no logs in anything sent",
        only("logs"),
        EVERYTHING,
        Prohibited("logs name people in paths"),
        Source(_CHECKLIST, "item 6"),
    ),
    Rule(
        "checklist_spatial",
        "no registration matrices and no images in anything sent",
        only("registration"),
        EVERYTHING,
        Prohibited("they describe the shape of one person's brain"),
        Source(_CHECKLIST, "item 7"),
    ),
    Rule(
        "checklist_automated_check",
        "the automated check has passed",
        EVERY_FAMILY,
        RELEASES,
        Confirm("SACRO or an equivalent has checked the output"),
        Source(_CHECKLIST, "item 8"),
    ),
    Rule(
        "checklist_sign_off",
        "an analyst of DPUK or of the site has signed the output",
        EVERY_FAMILY,
        RELEASES,
        Confirm("a data analyst of DPUK or of the site has signed"),
        Source(_CHECKLIST, "item 9"),
    ),
)
