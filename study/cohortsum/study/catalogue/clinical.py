"""Numbers that are measured at the person: age, schooling, scales.

The clamps of scales are their ranges. Names are those of common tables: BIDS (``age``), ENIGMA (``Age``, ``IQ``), ABIDE
(``AGE_AT_SCAN``, ``FIQ``) and ADNI (``AGE``, ``PTEDUCAT``, ``CDRSB``). Sex, diagnosis and other levels are factors, and
belong in the study file.
"""

from cohortsum.study.catalogue.family import WIDE, Family, Row

_AGES = "BIDS, participants.tsv: ages of 89 years and more are written as one"
_SCALE = "range of the scale"

# Name, clamp in points.
_SCALES = (
    ("MMSE", 0.0, 30.0),
    ("MOCA", 0.0, 30.0),
    ("CDRSB", 0.0, 18.0),
    ("ADAS11", 0.0, 70.0),
    ("ADAS13", 0.0, 85.0),
    ("PANSSPOS", 7.0, 49.0),
    ("PANSSNEG", 7.0, 49.0),
)

CLINICAL = (
    Family(
        "clinical",
        "age, schooling, body mass, intelligence and scales",
        (
            *(Row(name, "years", 0.0, 89.0, _AGES) for name in ("age", "Age", "AGE", "AGE_AT_SCAN")),
            Row("PTEDUCAT", "years", 0.0, 30.0, WIDE),
            Row("BMI", "kg/m2", 10.0, 80.0, WIDE),
            *(Row(name, "points", 40.0, 160.0, _SCALE) for name in ("IQ", "FIQ")),
            *(Row(name, "points", lower, upper, _SCALE) for name, lower, upper in _SCALES),
        ),
        (r"(?i)mmse(_total)?|moca(_total)?|age(_at_.+|_years|_months)?|education(_years)?",),
        imaging=False,
    ),
)
