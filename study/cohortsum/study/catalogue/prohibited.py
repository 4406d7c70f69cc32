"""What never leaves a site in any form: who people are, what describes one person's brain, and logs.

These families have no rows: a study cannot name them.
"""

from cohortsum.study.catalogue.family import Family

PROHIBITED = (
    Family(
        "identifiers",
        "what says who a person is",
        patterns=(
            r"(?i)(subj(ect)?|participant|person|patient|sub|scan|session)[_ .-]?(id|identifier|name|code)",
            r"(?i)nhs[_ .-]?(no|number)|e?id|mrn|rid|guid|date[_ .-]of[_ .-]birth|dob|post[_ -]?code|freesurferfile",
            r"(lh|rh)\.(aparc|BA).*\.\w+|Measure:\w+",  # first columns of FreeSurfer's tables
        ),
        imaging=False,
    ),
    Family(
        "registration",
        "registration matrices, warp fields, Jacobian maps and images",
        patterns=(
            r".*\.(mat|nii|nii\.gz|mgz|mgh|gii|h5|lta|xfm)",
            r".*_to_MNI_(linear|nonlin).*|.*_nonlin_coeff.*|.*_warp_?(field|coeff).*",
            r"(?i).*jacobian.*",
        ),
    ),
    Family("logs", "log files of programs", patterns=(r"(.*/)?log\.txt|.*\.log",), imaging=False),
)
