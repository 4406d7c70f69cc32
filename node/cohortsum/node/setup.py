"""A new node's folder: its key, commented settings to fill in, and a signed request to the operator.

Nothing is approved and no data are declared public unless the admin says so: the policy starts from the strictest profile.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.config import load_node_config, load_policy_config
from cohortsum.node.files import PRIVATE, make_folder, make_key, write_new
from cohortsum.study.definition.consortium import write_request

Profile = Literal["dpuk", "open_data"]

IDENTITY = "identity.key"
NO_EPOCH = "none-yet"
"""The epoch of a node without a snapshot; no study is about it."""

NODE = """\
# A site's facts: where its tables lie and how columns, codes, units and missing codes map to a study's names.
# Nothing here is sent. Paths are relative to this file. Every scalar is taken as the text that is written.

site: {site}
coordinator: {coordinator}       # the node connects outward only
identity_key: identity.key
epoch: {epoch}                   # written by `cohortsum node snapshot`
# exclude: withdrawn.txt         # one person id per line: left out of every cohort

tables:                          # joined by person id, as text, letter by letter
  data:
    path: {table}
    id: {person}
    # missing: ["-9999"]         # beside "", NA, N/A, n/a, NaN, nan and "."; compared as text
    # rows: {{order: visit, choose: first}}    # several rows per person: first | last | {{named: baseline}}

variables: {{}}                    # names of the study; a column of the same name needs no entry. For example:
#  sex: {{from: data.SEX, codes: {{"M": male, "F": female}}}}
#  age: {{from: data.age_months, unit: months}}
"""

POLICY = """\
# What this site allows. It starts from a named profile and only tightens it.
# dpuk: disclosure control for data about people that may not be public.
# open_data: the admin declares that every value in the tables may be public.

profile: {profile}

# thresholds:                    # the stricter of these and what the study and the rules ask for
#   min_sites: 5
#   min_participants: 200
#   min_participants_per_site: 20
#   max_colluding_sites: 1       # a study must reckon with at least this many
#   count: 20                    # the least count that may be published; under dpuk the rules ask for 10 or more
#   set_difference: 10           # people: no set differs from answered ones by fewer; under dpuk always on
#   pattern_difference: 10       # under dpuk: outcomes whose people differ by fewer are brought to the same people
#   site_totals: protected       # this site's own total is opened once, among protected sites, or never
# statistics: [summary, histogram, crosstab, proportion, quantiles, test, correlation, covariance, pca,
#   regression, mixed, normative, glm, meta, combat, kaplan_meier, logrank, cox, dp_sgd]
# noise: [none]                  # kinds of noise allowed: distributed, local, none
# budget: {{epsilon: 3, delta: 1.0e-5}}  # of the data's whole lifetime, over all studies with noise
# auto_approve:                  # nothing is approved without asking, unless you describe it here
#   - statisticians: [stat1]
#     statistics: [summary, regression]
#     outcomes: ["lh_*_thickness", age]
#     until: 2027-06-30
# carry_over: true               # an approval holds for the next version where only wording and dates changed
# waivers:                       # rules of dpuk that this site sets aside, in public: on every result
#   - {{rule: count_rounding, value: off, reason: agreed by the board, by: ann, until: 2027-06-30}}
"""


@dataclass(frozen=True, slots=True)
class NewSite:
    """What an admin says when a node is made.

    Attributes:
        site: id wanted in the roster.
        coordinator: host and port.
        organisation: whose site it is.
        name: a name for people.
        table: the first table, relative to the folder or absolute.
        person: its column of person ids.
        profile: where the policy starts; ``open_data`` is the admin's declaration.
    """

    site: str
    coordinator: str
    organisation: str
    name: str
    table: str = "people.csv"
    person: str = "person_id"
    profile: Profile = "dpuk"


def make_node(folder: Path, wanted: NewSite) -> bytes:
    """Make a node's folder and return its public key, 32 bytes.

    Raises ConfigurationError for a folder with something in it, or for an id, address or name that cannot be used; nothing
    stays behind then but an empty folder.
    """
    make_folder(folder)
    try:
        key = make_key(folder / IDENTITY)
        request = write_request(wanted.site, "site", wanted.name, wanted.organisation, key)
        node = NODE.format(
            site=wanted.site,
            coordinator=wanted.coordinator,
            epoch=NO_EPOCH,
            table=quoted_plain(wanted.table),
            person=quoted_plain(wanted.person),
        )
        for name, text in (("node.yaml", node), ("policy.yaml", POLICY.format(profile=wanted.profile))):
            write_new(folder / name, text.encode(), PRIVATE)
        write_new(folder / "request.yaml", request)
        load_node_config(folder / "node.yaml")
        load_policy_config(folder / "policy.yaml")
    except ConfigurationError:
        for name in (IDENTITY, "node.yaml", "policy.yaml", "request.yaml"):
            (folder / name).unlink(missing_ok=True)
        raise
    return key.public


def quoted_plain(text: str) -> str:
    """Return text as a single-quoted YAML scalar."""
    if not text or not text.isprintable():
        raise ConfigurationError("node.yaml: expected one printable line for a path or column; correct it")
    return "'" + text.replace("'", "''") + "'"
