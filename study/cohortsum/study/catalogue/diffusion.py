"""Diffusion: tensor and NODDI measures over skeleton labels (TBSS) and tracts (AutoPtx), outlier slices by eddy.

Names are those of the BRC pipeline, which numbers labels and tracts. Two of its traps are kept out here:

- its list calls every diffusivity "AU"; MD, L1, L2 and L3 are in mm2/s;
- its list gives the names ``dMRI_TBSS_ODI_45`` and ``_46`` to two columns each, so that ``_47`` and ``_48`` are the
  columns of the labels 49 and 50. The doubled names have no row: a site's reader refuses them.
"""

from cohortsum.study.catalogue.family import BRAID, DEFINITION, WIDE, Family, Row

_LABELS = range(1, 51)
_TRACTS = range(1, 28)
_DOUBLED = frozenset(("dMRI_TBSS_ODI_45", "dMRI_TBSS_ODI_46", "dMRI_TBSS_ODI_49", "dMRI_TBSS_ODI_50"))

# Measure, unit, clamp, source.
_TENSOR = (
    ("FA", "ratio", 0.0, 1.0, BRAID),
    ("MD", "mm2/s", 0.0, 3.0e-3, BRAID),
    ("MO", "ratio", -1.0, 1.0, DEFINITION),
    ("L1", "mm2/s", 0.0, 4.0e-3, WIDE),
    ("L2", "mm2/s", 0.0, 4.0e-3, WIDE),
    ("L3", "mm2/s", 0.0, 4.0e-3, WIDE),
)
_NODDI = (
    ("ICVF", "fraction", 0.0, 1.0, BRAID),
    ("ISOVF", "fraction", 0.0, 1.0, DEFINITION),
    ("ODI", "ratio", 0.0, 1.0, DEFINITION),
)

# Regions of the JHU labels as ENIGMA's diffusion tables call them; the file's name says which measure they hold.
_ENIGMA = (
    "GCC|BCC|SCC|FX|CST|ALIC|PLIC|RLIC|ACR|SCR|PCR|PTR|SS|EC|CGC|CGH|FX_ST|FXST|SLF|SFO|IFO|UNC|IC|CR|CC"
)


def _rows(
    place: str, numbers: range, measures: tuple[tuple[str, str, float, float, str], ...]
) -> tuple[Row, ...]:
    return tuple(
        Row(name, unit, lower, upper, source)
        for measure, unit, lower, upper, source in measures
        for number in numbers
        if (name := f"dMRI_{place}_{measure}_{number}") not in _DOUBLED
    )


DIFFUSION = (
    Family(
        "noddi",
        "volume fractions and orientation dispersion (NODDI) over 50 labels and 27 tracts",
        (*_rows("TBSS", _LABELS, _NODDI), *_rows("autoptx", _TRACTS, _NODDI)),
        (r".*dMRI_(TBSS|autoptx|ProbtrackX)_(ICVF|ISOVF|ODI?)_.+",),
    ),
    Family(
        "tbss",
        "diffusion tensor measures over 50 labels of the white matter skeleton (TBSS)",
        _rows("TBSS", _LABELS, _TENSOR),
        (r".*dMRI_TBSS_(FA|MD|MO|L[123])_.+", rf"Average(FA|MD|RD|AD)|({_ENIGMA})(_[LR])?"),
    ),
    Family(
        "autoptx",
        "diffusion tensor measures over 27 tracts (AutoPtx)",
        _rows("autoptx", _TRACTS, _TENSOR),
        (r".*dMRI_(autoptx|ProbtrackX)_(FA|MD|MO|L[123])_.+",),
    ),
    Family(
        "eddy.outliers",
        "number of outlier slices that eddy replaced",
        (Row("dMRI_eddy_outlier", "count", 0.0, 500.0, BRAID),),
        (r".*eddy_outliers?(_.+)?|qc_outliers_tot",),
    ),
)
