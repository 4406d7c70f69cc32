"""What a study may ask for and this version cannot give: refused by name before anything runs, never ignored."""

from importlib.util import find_spec

from cohortsum.crypto.errors import NotInThisVersionError
from cohortsum.study.definition.frozen import FrozenStudy


def refuse_unbuilt(study: FrozenStudy) -> None:
    """Raise NotInThisVersionError naming every field that asks for something not built; loading never does."""
    wanted = [
        (
            study.protection.mode == "two_key" and find_spec("tenseal") is None,
            "protection.mode two_key (TenSEAL is not installed here: it has no wheel for this Python)",
            "mode: masking",
        ),
        (study.enrol.start == "manual", "enrol.start manual", "start: at_deadline"),
        (study.near_duplicate == "reuse", "cohort.near_duplicate reuse", "near_duplicate: stay_out"),
    ]
    asked = [(feature, cure) for applies, feature, cure in wanted if applies]
    if asked:
        raise NotInThisVersionError(
            ", ".join(feature for feature, _ in asked), "write " + ", ".join(cure for _, cure in asked)
        )
