"""Rules for volumes, white matter hyperintensities and FreeSurfer's measures.

What the page calls "standard" asks for nothing beyond the size, and has no rule of its own.
"""

from cohortsum.study.catalogue.controls import (
    AlwaysNoise,
    MinimumN,
    Of,
    OnlyAs,
    OnlyPercentiles,
    Prohibited,
    PublicTopCode,
    RoundTo,
    SuppressCells,
    SuppressComplement,
)
from cohortsum.study.catalogue.outputs import AGGREGATES, Output
from cohortsum.study.catalogue.rule import FREESURFER, PER_FIGURE, Rule, Source, only

_COUNTS = frozenset((Output.COUNT,))
_PERCENTILES = frozenset((Output.DISTRIBUTION,))
_COVARIANCE = frozenset((Output.COVARIANCE,))
_COMPONENTS = frozenset((Output.COMPONENTS,))
_PERSON = frozenset((Output.INDIVIDUAL,))
_SIENAX = "Brain Volumes (SIENAX)"
_BIANCA = "White Matter Hyperintensities (BIANCA)"
_FREESURFER = "FreeSurfer IDPs"
_PLACE = "A percentile of the data is nearly one person's value: a public constant takes its place."

SIENAX = (
    Rule(
        "brain_volume_min",
        "mean brain volume of 50 people or more",
        only("sienax.normalised", "sienax.unnormalised"),
        AGGREGATES,
        MinimumN(50, Of.GROUP),
        Source(_SIENAX, "mean total brain volume"),
        "Does not say which volume; for the unnormalised one unnormalised_min is stricter.",
    ),
    Rule(
        "normalised_min",
        "mean normalised tissue volumes of 50 people or more",
        only("sienax.normalised"),
        AGGREGATES,
        MinimumN(50, Of.GROUP),
        Source(_SIENAX, "mean normalised GM/WM"),
    ),
    Rule(
        "vscaling_min",
        "scaling factors of 50 people or more",
        only("sienax.scaling"),
        AGGREGATES,
        MinimumN(50, Of.GROUP),
        Source(_SIENAX, "VSCALING"),
        "Beside normalised volumes it gives the unnormalised ones: the pair falls under their rules.",
    ),
    Rule(
        "vscaling_rounding",
        "scaling factors with 3 significant digits",
        only("sienax.scaling"),
        AGGREGATES,
        RoundTo(digits=3),
        Source(_SIENAX, "VSCALING"),
    ),
    Rule(
        "unnormalised_min",
        "unnormalised volumes of 100 people or more",
        only("sienax.unnormalised"),
        AGGREGATES,
        MinimumN(100, Of.GROUP),
        Source(_SIENAX, "unnormalised volumes"),
    ),
    Rule(
        "unnormalised_top_code",
        "unnormalised volumes are top-coded",
        only("sienax.unnormalised"),
        AGGREGATES,
        PublicTopCode(99.0),
        Source(_SIENAX, "unnormalised volumes"),
        _PLACE,
    ),
    Rule(
        "unnormalised_noise",
        "unnormalised volumes carry noise",
        only("sienax.unnormalised"),
        AGGREGATES,
        AlwaysNoise(1.0),
        Source(_SIENAX, "unnormalised volumes"),
        PER_FIGURE,
    ),
)

BIANCA = (
    Rule(
        "wmh_mean_min",
        "mean WMH volume of 30 people or more",
        only("bianca.wmh"),
        AGGREGATES,
        MinimumN(30, Of.GROUP),
        Source(_BIANCA, "mean WMH volume"),
        "idp_site_50 and round_100 ask for more where several sites contribute.",
    ),
    Rule(
        "wmh_top_code",
        "WMH volumes are top-coded before the mean",
        only("bianca.wmh"),
        AGGREGATES,
        PublicTopCode(95.0),
        Source(_BIANCA, "mean WMH volume"),
        _PLACE,
    ),
    Rule(
        "wmh_count_min",
        "no count of fewer than 10 people by WMH volume",
        only("bianca.wmh"),
        _COUNTS,
        MinimumN(10, Of.GROUP),
        Source(_BIANCA, "WMH count"),
    ),
    Rule(
        "wmh_count_suppression",
        "counts below 10 by WMH volume are hidden",
        only("bianca.wmh"),
        _COUNTS,
        SuppressCells(10),
        Source(_BIANCA, "WMH count"),
    ),
    Rule(
        "wmh_count_complement",
        "and further cells with them",
        only("bianca.wmh"),
        _COUNTS,
        SuppressComplement(),
        Source(_BIANCA, "WMH count"),
    ),
    Rule(
        "wmh_percentiles_min",
        "percentiles of WMH volume of 100 people or more",
        only("bianca.wmh"),
        _PERCENTILES,
        MinimumN(100, Of.GROUP),
        Source(_BIANCA, "distribution"),
    ),
    Rule(
        "wmh_percentiles_only",
        "of WMH volume only the quartiles",
        only("bianca.wmh"),
        _PERCENTILES,
        OnlyPercentiles((25, 50, 75)),
        Source(_BIANCA, "distribution"),
        "A histogram shows other percentiles too, so it is not released.",
    ),
)

FREESURFER_RULES = (
    Rule(
        "roi_mean_site",
        "a site contributes to regional means with 50 people or more",
        FREESURFER,
        AGGREGATES,
        MinimumN(50, Of.SITE),
        Source(_FREESURFER, "per-ROI mean"),
        "Any atlas.",
    ),
    Rule(
        "roi_noise",
        "every site's contribution to regional means carries noise",
        FREESURFER,
        AGGREGATES,
        AlwaysNoise(1.0),
        Source(_FREESURFER, "per-ROI mean"),
        PER_FIGURE,
    ),
    Rule(
        "covariance_min",
        "covariance matrices of 200 people or more",
        FREESURFER,
        _COVARIANCE,
        MinimumN(200, Of.GROUP),
        Source(_FREESURFER, "full covariance matrix"),
        "Far too few for matrices of hundreds of measures: DataSHIELD's default asks for three people per measure.",
    ),
    Rule(
        "covariance_regularised",
        "covariance matrices only regularised, never raw",
        FREESURFER,
        _COVARIANCE,
        OnlyAs("a regularised matrix"),
        Source(_FREESURFER, "full covariance matrix"),
    ),
    Rule(
        "covariance_low_rank",
        "covariance matrices only of low rank",
        FREESURFER,
        _COVARIANCE,
        OnlyAs("an approximation of low rank"),
        Source(_FREESURFER, "warning on covariance matrices"),
        "The warning calls the full matrix unsafe at any size, the table allows it from 200 people: both forms are asked for."
        " Neither protects anybody by itself; noise does (roi_noise).",
    ),
    Rule(
        "idp_row",
        "no row of one person",
        FREESURFER,
        _PERSON,
        Prohibited("it is individual-level data"),
        Source(_FREESURFER, "individual IDP row"),
    ),
    Rule(
        "components_min",
        "principal components of 100 people or more",
        FREESURFER,
        _COMPONENTS,
        MinimumN(100, Of.GROUP),
        Source(_FREESURFER, "PCA components"),
    ),
    Rule(
        "components_few",
        "only the first few components",
        FREESURFER,
        _COMPONENTS,
        OnlyAs("the first components, far fewer than people"),
        Source(_FREESURFER, "PCA components"),
        "Names no number. A leading component can be one person; noise protects (roi_noise).",
    ),
)
