"""Motion in the scanner, signal and contrast to noise, the fit of alignments; connectivity at rest.

The BRC pipeline's table has no motion; the names are those of MRIQC (``fd_mean``), of the quality protocol that ABIDE
used (``func_mean_fd``) and of UK Biobank. No program writes mean rotation and translation into a table: the two names
are this catalogue's, in the units of the parameter files of mcflirt.

Signal and contrast to noise, and how well images align, tell scanners and so sites apart.
"""

from cohortsum.study.catalogue.family import BRAID, WIDE, Family, Row

_FRAMES = 10_000.0
_SHARE = "percent"

QUALITY = (
    Family(
        "fmri.motion",
        "head motion during functional imaging, one value per person",
        (
            Row("fd_mean", "mm", 0.0, 10.0, WIDE),
            Row("fd_num", "count", 0.0, _FRAMES, WIDE),
            Row("fd_perc", _SHARE, 0.0, 100.0, WIDE),
            Row("func_mean_fd", "mm", 0.0, 10.0, WIDE),
            Row("func_num_fd", "count", 0.0, _FRAMES, WIDE),
            Row("func_perc_fd", _SHARE, 0.0, 100.0, WIDE),
            Row("rfMRI_head_motion", "mm", 0.0, 10.0, WIDE),
            Row("tfMRI_head_motion", "mm", 0.0, 10.0, WIDE),
            Row("mean_rotation", "radians", 0.0, 1.0, WIDE),
            Row("mean_translation", "mm", 0.0, 20.0, WIDE),
        ),
        (
            r"(?i).*framewise_displacement.*|.*head_motion.*",
            r"(trans|rot)_[xyz](_.+)?",
            r".*_(abs|rel)_mean(\.rms)?|qc_mot_(abs|rel)",
        ),
    ),
    Family(
        "qc.snr_cnr",
        "signal and contrast to noise of an image, and their reciprocals",
        (
            Row("T1_inverse_SNR", "ratio", 0.0, 1.0, BRAID),
            Row("T1_inverse_CNR", "ratio", 0.0, 5.0, WIDE),
            Row("snr_total", "ratio", 0.0, 200.0, WIDE),
            Row("cnr", "ratio", 0.0, 100.0, WIDE),
            Row("tsnr", "ratio", 0.0, 1_000.0, WIDE),
            Row("anat_snr", "ratio", 0.0, 200.0, WIDE),
            Row("anat_cnr", "ratio", 0.0, 100.0, WIDE),
        ),
        (r"(?i)(.*_)?(inverse_|t|qc_)?[sc]nr(_.+)?",),
    ),
    Family(
        "qc.alignment",
        "cost and warp of aligning a person's images to each other and to a standard head, one value per person",
        patterns=(r".*_align_to_(std|T1|standard).*",),
    ),
    Family(
        "rfmri.connectivity",
        "amplitudes of, and correlations between, networks at rest",
        patterns=(
            r".*rfMRI_d?\d+_(NodeAmplitudes|fullcorr|partialcorr)_.+|.*rfMRI_(amplitudes|connectivity)_.+",
        ),
    ),
)
