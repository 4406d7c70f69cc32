"""A study file to begin with: short, commented, and valid as it stands, so that every edit is checked by the loader.

What the statistician must decide is marked ``EDIT``; everything else can stay. It asks for nothing that this version
refuses: no noise, no checkers. Its variables come from the catalogue, so that units and clamps need not be looked up.
"""

import re

from cohortsum.crypto.errors import StudyFileError

EDIT = "EDIT"
"""The mark of what has to be decided before the file is used."""

_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_STARTER = """\
# A study of its own in five steps:
#   1. change every line marked EDIT
#   2. cohortsum study check STUDY      shows what would leave a site, and what must hold before it does
#   3. agree on it with the sites: ranges and levels are public, and every site needs columns for these variables
#   4. cohortsum study submit STUDY     signs it; what is signed never changes, a change is a new version (study amend)
#   5. read its fingerprint to every site that asks; cohortsum study status shows who has approved
# Unknown keys are refused, and what is left out has a default: docs/study-file.md lists all of them.

study: "{name}" # id; stays the same in every version
title: Thickness of the temporal cortex # EDIT: one line for people
version: 1                              # goes up with every change
roster: 1                               # EDIT: the version of the consortium's roster, as the operator says
expires: 2099-12-31                     # EDIT: last day on which anything of it may run
person: subject_id                      # EDIT: the column that identifies a person; never sent

variables:
  dx:  {{levels: [control, case]}}        # EDIT: in order; the first level is the reference
  sex: {{levels: [female, male]}}
  # A number has a unit, to which sites convert, and a public range: from common knowledge, never from the data.
  age: {{unit: years, range: [18, 90]}}   # EDIT; values outside move to the nearer end (out_of_range: clamp)
  # The catalogue knows unit and range; * is written out, and signed, as the names it stands for.
  "*temporal_thickness": {{catalogue: freesurfer.thickness}}

cohort:
  include: "age >= 18 and age <= 90"    # EDIT: on raw values; who has no age is not included
  epoch: 2026-11                        # EDIT: the label of the sites' snapshots

# Everything travels in one masked vector, over the same people.
analyses:
  people: {{kind: summary, variables: [age], by: [dx, sex]}} # n, mean and SD of age in each group
  thickness:
    kind: regression                    # one for every outcome, on the same terms
    outcomes: ["*temporal_thickness"]
    terms: [dx, age, sex]
    report: {{effect: dx, measure: cohens_d, correction: fdr_bh}}

protection:                             # a site's own policy may be stricter, never weaker
  min_sites: 5                          # fewer sites: nothing is opened
  min_participants: 300                 # EDIT: fewer people over all sites: nothing is opened
  max_participants: 100000              # more than there can ever be: up to here the sums provably do not wrap
  min_participants_per_site: 20         # a smaller site stays out
  max_colluding_sites: 1                # so many sites may side with the coordinator, and still see sums only

privacy: {{noise: none}}                  # the sums are exact: only for data that every site declares public
release: {{checkers: {{consortium: 0}}}}    # this version has no checkers: results are released at once
enrol: {{until: "2099-11-30T17:00+00:00", start: at_deadline}} # EDIT: sites join until then; not after expires
"""


def starter(name: str) -> str:
    """Return a commented study file with the id ``name``, which loads and freezes as it is.

    Raises StudyFileError where ``name`` is no id.
    """
    if re.fullmatch(_ID, name) is None:
        raise StudyFileError(
            f"{name!r} is no id of a study; expected up to 64 letters, digits, - and _, a letter or digit first"
        )
    return _STARTER.format(name=name)
