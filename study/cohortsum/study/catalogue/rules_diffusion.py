"""Rules for diffusion, motion, signal and contrast to noise."""

from cohortsum.study.catalogue.controls import AlwaysNoise, MinimumN, NoiseBelow, Of, OnlyAs, Prohibited
from cohortsum.study.catalogue.outputs import AGGREGATES, Output
from cohortsum.study.catalogue.rule import DIFFUSION, PER_FIGURE, Rule, Source, only

_PERSON = frozenset((Output.INDIVIDUAL,))
_TBSS = "TBSS Diffusion IDPs"
_EDDY = "Eddy Outlier Count"
_MOTION = "Motion Parameters (fMRI)"
_NOISE = "SNR / CNR"

DIFFUSION_RULES = (
    Rule(
        "tract_mean_site",
        "a site contributes to means over labels with 30 people or more",
        only("tbss"),
        AGGREGATES,
        MinimumN(30, Of.SITE),
        Source(_TBSS, "per-tract mean FA/MD"),
        "Read for every tensor measure.",
    ),
    Rule(
        "tract_noise",
        "noise where a site contributes fewer than 50 people",
        only("tbss"),
        AGGREGATES,
        NoiseBelow(50, 1.0),
        Source(_TBSS, "per-tract mean FA/MD"),
        "checklist_noise asks for it below 100. Names no epsilon: that of the privacy page, 1 per round, is taken.",
    ),
    Rule(
        "noddi_min",
        "NODDI measures of 50 people or more",
        only("noddi"),
        AGGREGATES,
        MinimumN(50, Of.GROUP),
        Source(_TBSS, "NODDI metrics"),
    ),
    Rule(
        "noddi_noise",
        "NODDI measures carry noise",
        only("noddi"),
        AGGREGATES,
        AlwaysNoise(1.0),
        Source(_TBSS, "NODDI metrics"),
        PER_FIGURE,
    ),
    Rule(
        "tract_profile",
        "no profile of one person's tracts",
        DIFFUSION,
        _PERSON,
        Prohibited("it is individual-level data"),
        Source(_TBSS, "individual tract profile"),
    ),
)

QUALITY_RULES = (
    Rule(
        "eddy_mean_min",
        "mean number of outliers of 20 people or more",
        only("eddy.outliers"),
        AGGREGATES,
        MinimumN(20, Of.GROUP),
        Source(_EDDY, "mean outlier count"),
        "idp_site_50 asks for more.",
    ),
    Rule(
        "eddy_individual",
        "no number of outliers of one person",
        only("eddy.outliers"),
        _PERSON,
        Prohibited("it tells how one person moved"),
        Source(_EDDY, "individual outlier count"),
    ),
    Rule(
        "displacement_min",
        "mean displacement of 20 people or more",
        only("fmri.motion"),
        AGGREGATES,
        MinimumN(20, Of.GROUP),
        Source(_MOTION, "mean framewise displacement"),
        "idp_site_50 asks for more.",
    ),
    Rule(
        "rotation_min",
        "mean rotation and translation of 20 people or more",
        only("fmri.motion"),
        AGGREGATES,
        MinimumN(20, Of.GROUP),
        Source(_MOTION, "mean rotation/translation"),
        "idp_site_50 asks for more.",
    ),
    Rule(
        "motion_trace",
        "no trace of one person's motion",
        only("fmri.motion"),
        _PERSON,
        Prohibited("a time course of six parameters identifies"),
        Source(_MOTION, "individual motion trace"),
    ),
    Rule(
        "snr_mean_min",
        "a site's mean SNR or CNR of 20 people or more",
        only("qc.snr_cnr"),
        AGGREGATES,
        MinimumN(20, Of.SITE),
        Source(_NOISE, "site mean SNR/CNR"),
        "Tells scanners apart. idp_site_50 asks for more.",
    ),
    Rule(
        "snr_individual_min",
        "SNR or CNR of single people among 20 or more",
        only("qc.snr_cnr"),
        _PERSON,
        MinimumN(20, Of.GROUP),
        Source(_NOISE, "individual SNR/CNR"),
        "Contradicts checklist_no_rows, which is stricter and holds.",
    ),
    Rule(
        "snr_individual_form",
        "SNR or CNR of single people only together with other metrics",
        only("qc.snr_cnr"),
        _PERSON,
        OnlyAs("an aggregate with other metrics"),
        Source(_NOISE, "individual SNR/CNR"),
        "Contradicts checklist_no_rows, which is stricter and holds.",
    ),
)
