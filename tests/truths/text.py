"""The parts of a study file that all data sets share."""

from textwrap import indent


def study_text(
    name: str,
    person: str,
    variables: str,
    analyses: str,
    derive: str = "",
    min_sites: int = 3,
    floor: int = 1,
    colluding: int = 1,
    people: int = 20,
) -> str:
    """Return a study file; sections are given without their own indentation."""
    derived = f"derive:\n{indent(derive.strip(), '  ')}\n" if derive else ""
    return f"""\
study: {name}
title: Accuracy on {name}
version: 1
roster: 1
expires: 2099-12-31
person: {person}
variables:
{indent(variables.strip(), "  ")}
{derived}cohort: {{epoch: 2026-11}}
analyses:
{indent(analyses.strip(), "  ")}
protection:
  min_sites: {min_sites}
  min_participants: {people}
  max_participants: 100000
  min_participants_per_site: {floor}
  max_colluding_sites: {colluding}
  min_honest_inputs: 3
privacy: {{noise: none}}
release: {{checkers: {{consortium: 0, sites: none}}}}
deadlines: {{step: 60s, step_max: 60s, tick: 20ms}}
"""
