"""The enrolment window of a study: until when a site may join, and what a late one is told.

The window closes for everybody at once, because all one-round analyses of a study are opened in one sum over one set of
sites: whoever comes later would need a second sum, and two sums over nearly the same sites can be subtracted.

=================  ==================================================================================
``start``          the window closes
=================  ==================================================================================
``all_invited``    when every invited site has answered, at the latest at ``until`` (without it: after ``gather``)
``at_deadline``    at ``until``
=================  ==================================================================================

After the window the coordinator gathers: it waits up to ``gather`` until every approving site is present.
"""

from datetime import datetime, timedelta

from cohortsum.study.definition import FrozenStudy


def closes_at(study: FrozenStudy, submitted: datetime) -> datetime:
    """Return the moment (UTC) at which the window of a study closes at the latest.

    Args:
        study: the study.
        submitted: when the coordinator took it; with a time zone.
    """
    if study.enrol.until is not None:
        return study.enrol.until
    return submitted + timedelta(seconds=study.deadlines_s.gather)


def closes_early(study: FrozenStudy) -> bool:
    """Return whether the window closes as soon as every invited site has answered."""
    return study.enrol.start == "all_invited"


def local_time(moment: datetime) -> str:
    """Return a moment for people: this machine's time with its offset."""
    return moment.astimezone().isoformat(sep=" ", timespec="minutes")


def too_late(study: FrozenStudy, closed: datetime) -> str:
    """Return the public sentence for a site that answers after the window: the rule, and what would help."""
    return (
        f"enrolment of study {study.study} version {study.version} closed at {closed.isoformat(timespec='minutes')}, and its "
        "sums are opened once, over the sites that had approved by then. A second opening needs a new version of the study "
        f"(`cohortsum study amend`, version {study.version + 1}) that every site approves again: you join it as a new site, "
        "and a site that was opened before answers if its people are the same, or differ by enough"
    )
