"""Settings files of a site: what loads, what is refused, and how the refusal reads."""

from pathlib import Path
from typing import get_args

import pytest

from cohortsum.cli.yaml_text import to_yaml
from cohortsum.crypto.errors import ConfigurationError, NotInThisVersionError
from cohortsum.node.config import (
    NodeConfig,
    PolicyConfig,
    TablesConfig,
    load_node_config,
    load_policy_config,
    load_tables_config,
    read_yaml,
    refuse_unbuilt_policy,
)
from cohortsum.node.setup import POLICY
from cohortsum.node.table_config import TableFormat
from cohortsum.study.definition.kinds import KINDS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

NODE = """\
site: nyu
coordinator: aggregator.example.org:443
identity_key: keys/nyu.identity
epoch: 2026-11
tables:
  cov:
    path: cov.csv
    id: SubjID
"""

WHOLE_POLICY = """\
profile: dpuk
thresholds: {count: 20, set_difference: 10, site_totals: protected, pattern_difference: 5, min_sites: 5}
statistics: [summary]
noise: [distributed, local]
auto_approve:
  - statisticians: [stat1]
    statistics: [summary]
    outcomes: ["lh_*_thickness"]
    max_epsilon: 0.5
    until: 2026-12-31
budget: {epsilon: 3.0, delta: 1.0e-5}
waivers:
  - {rule: primary_suppression, value: 8, reason: "public counts", by: admin1, until: 2027-03-31}
egress: {checkers: [check1]}
"""


def written(folder: Path, text: str, name: str = "node.yaml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_node_config(written(folder, text))
    return caught.value.message


def test_example_node_file_loads() -> None:
    node = load_node_config(EXAMPLES / "node.yaml")
    assert node.site == "nyu"
    assert node.epoch == "2026-11"
    assert node.tables["covariates"].path == EXAMPLES / "clinical/participants.tsv"
    assert node.exclude == EXAMPLES / "withdrawn.txt"
    assert node.variables["dx"].codes == {"1": "autism", "2": "control"}
    assert node.variables["scanner_field"].constant == "3"
    assert node.tables["thickness"].renamed("lh_G_and_S_thickness") == "lh_G&S_thickness"
    assert node.tables["thickness"].renamed("xlh_G_and_S_thickness") == "xlh_G_and_S_thickness"


def test_example_of_every_format_loads() -> None:
    node = load_node_config(EXAMPLES / "node-formats.yaml")
    assert {table.format for table in node.tables.values()} == set(get_args(TableFormat))
    assert node.tables["idps"].id == "SubjectID"
    assert node.tables["thick"].id == "SubjID"
    assert node.tables["panss"].id == "participant_id"
    visits, registry = node.tables["visits"].database, node.tables["registry"].database
    assert visits is not None
    assert visits.password_file == EXAMPLES / "keys/db.password"
    assert registry is not None
    assert registry.url == f"sqlite:///{EXAMPLES}/clinical/registry.db"


def test_settings_of_every_format_survive_writing_and_reading(tmp_path: Path) -> None:
    node = load_node_config(EXAMPLES / "node-formats.yaml")
    facts = node.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert load_node_config(written(tmp_path, to_yaml(facts))).tables == node.tables


def test_simulated_sites_may_share_a_format_that_is_a_file(tmp_path: Path) -> None:
    shared = load_tables_config(written(tmp_path, "tables:\n  idps: {format: brc}\n"))
    assert shared.for_file(tmp_path / "a.txt", "x").tables["idps"].path == tmp_path / "a.txt"
    sql = "tables:\n  t: {format: sql, id: id, table: t, database: {url: 'sqlite:///a.db'}}\n"
    with pytest.raises(ConfigurationError, match=r"tables\.t\.format: sql, but a simulated site has a file"):
        load_tables_config(written(tmp_path, sql)).for_file(tmp_path / "a.txt", "x")


def test_example_policy_loads_and_runs_in_this_version() -> None:
    policy = load_policy_config(EXAMPLES / "policy.yaml")
    refuse_unbuilt_policy(policy)
    assert policy.thresholds.min_participants_per_site == 20
    assert policy.statistics is not None
    assert set(policy.statistics) == set(KINDS)
    assert policy.noise == ("distributed", "local", "none")
    assert policy.budget is not None
    assert (policy.budget.epsilon, policy.budget.delta) == (3.0, 1e-5)


def test_every_unbuilt_part_of_a_policy_is_refused_by_name(tmp_path: Path) -> None:
    policy = load_policy_config(written(tmp_path, WHOLE_POLICY, "policy.yaml"))
    with pytest.raises(NotInThisVersionError, match="not in this version") as caught:
        refuse_unbuilt_policy(policy)
    assert "egress" in caught.value.feature


def test_default_profile_is_dpuk_and_can_be_used() -> None:
    assert PolicyConfig().profile == "dpuk"
    refuse_unbuilt_policy(PolicyConfig())


@pytest.mark.parametrize(
    ("waiver", "sentence"),
    [
        ("rule: group_9, value: off", "no rule group_9"),
        ("rule: primary_suppression, value: none", "expected value: off, or a number"),
        ("rule: count_rounding, value: 3", "expected value: off"),
        ("rule: complement_suppression, value: off", "goes with the rules about small counts"),
        ("rule: wmh_count_complement, value: off", "goes with wmh_count_suppression"),
        ("rule: gives_n_back, value: off", "goes with count_rounding"),
        ("rule: primary_suppression, value: 12", "asks for as much as the rule"),
        ("rule: registration_prohibited, value: off", "cannot be waived"),
        ("rule: checklist_sign_off, value: off", "cannot be waived"),
        ("rule: dominance_nk, value: 3", "expected value: off"),
    ],
)
def test_a_waiver_that_means_nothing_is_refused(tmp_path: Path, waiver: str, sentence: str) -> None:
    text = f"waivers:\n  - {{{waiver}, reason: a board agreed, by: ann, until: 2027-01-01}}\n"
    with pytest.raises(ConfigurationError, match=sentence):
        load_policy_config(written(tmp_path, text, "policy.yaml"))


def test_a_rule_is_waived_once_and_not_where_there_are_none(tmp_path: Path) -> None:
    entry = "  - {rule: group_10, value: 8, reason: a board agreed, by: ann, until: 2027-01-01}\n"
    with pytest.raises(ConfigurationError, match="waived twice"):
        load_policy_config(written(tmp_path, f"waivers:\n{entry}{entry}", "policy.yaml"))
    with pytest.raises(ConfigurationError, match="open_data has no rules to waive"):
        load_policy_config(written(tmp_path, f"profile: open_data\nwaivers:\n{entry}", "policy.yaml"))


def test_all_faults_of_a_file_are_reported_with_their_lines(tmp_path: Path) -> None:
    text = NODE.replace("site: nyu", "sitte: nyu").replace(
        "    id: SubjID\n", "    rows: {order: v, choose: best}\n"
    )
    message = refusal(tmp_path, text)
    assert "node.yaml:1: sitte: unknown key; correct its spelling or remove it" in message
    assert "site: required key is absent; add it" in message
    assert "node.yaml:6: tables.cov.id: required key is absent" in message
    assert "node.yaml:8: tables.cov.rows.choose: expected 'first' or 'last'" in message


def test_scalars_are_taken_as_written(tmp_path: Path) -> None:
    text = (
        NODE
        + "    missing: [-9999, 01, no]\nvariables:\n  sex: {from: cov.a.b, codes: {1: male, no: female}}\n"
    )
    node = load_node_config(written(tmp_path, text))
    assert node.tables["cov"].missing == {"-9999", "01", "no"}
    sex = node.variables["sex"]
    assert sex.codes == {"1": "male", "no": "female"}
    assert sex.source is not None
    assert (sex.source.table, sex.source.column) == ("cov", "a.b")


@pytest.mark.parametrize(
    ("addition", "expectation"),
    [
        ("site: again\n", "9: site: the key is given twice"),
        ("variables: {x: {from: nodot}}\n", "9: variables.x.from: expected table.column"),
        ("variables: {x: {from: other.c}}\n", "variable x: expected a table named under tables"),
        ("variables: {x: {unit: voxels}}\n", "expected unit: voxels and voxel_mm3 together"),
        ("variables: {x: {constant: 3, from: cov.x}}\n", "expected either constant"),
        ("variables: {x: {codes: {a: b}, missing: [a]}}\n", "either under codes or under missing"),
        ("    rename: [{match: '(', to: x}]\n", "expected a regular expression"),
        ("    rename: [{match: 'a', to: '\\1'}]\n", "expected a regular expression"),
        ("exclude: !!python/name:os.system x\n", "9: exclude: a tag (!); remove it"),
        ("exclude: &a x\nvariables: {b: {from: *a}}\n", "an alias (*)"),
        ("exclude: [\n", "not YAML"),
    ],
)
def test_a_faulty_node_file_is_refused(tmp_path: Path, addition: str, expectation: str) -> None:
    assert expectation in refusal(tmp_path, NODE + addition)


def test_a_site_needs_a_table_with_a_path(tmp_path: Path) -> None:
    assert "at least one table" in refusal(tmp_path, NODE.partition("tables:")[0])
    assert "expected a path" in refusal(tmp_path, NODE.replace("    path: cov.csv\n", ""))


def test_an_absent_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_yaml(tmp_path / "none.yaml")


def test_a_shared_node_file_ignores_what_is_about_one_site(tmp_path: Path) -> None:
    shared = load_tables_config(written(tmp_path, NODE))
    assert type(shared) is TablesConfig
    one = shared.for_file(tmp_path / "amc.csv", "person")
    assert one.tables["cov"].path == tmp_path / "amc.csv"
    assert one.tables["cov"].id == "SubjID"


def test_without_tables_the_id_is_the_study_person(tmp_path: Path) -> None:
    assert TablesConfig().for_file(tmp_path / "a.csv", "person").tables["data"].id == "person"


def test_several_tables_do_not_fit_one_file(tmp_path: Path) -> None:
    shared = load_tables_config(written(tmp_path, NODE + "  more: {id: x}\n"))
    with pytest.raises(ConfigurationError, match="2 tables, expected one"):
        shared.for_file(tmp_path / "a.csv", "person")


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        PolicyConfig().profile = "open_data"  # pyright: ignore[reportAttributeAccessIssue]


def test_node_settings_extend_table_settings() -> None:
    assert set(NodeConfig.model_fields) - set(TablesConfig.model_fields) == {
        "site",
        "coordinator",
        "identity_key",
        "epoch",
        "notices",
        "standby",
    }


def test_every_comment_of_a_new_policy_can_be_taken_as_it_stands(tmp_path: Path) -> None:
    """The template that a new node gets, with every line of it in force."""
    head, profile, rest = POLICY.format(profile="dpuk").partition("profile: dpuk\n")
    assert all(line.startswith("#") or not line for line in head.splitlines())
    lines = "\n".join(line.removeprefix("# ") for line in rest.splitlines())
    policy = load_policy_config(written(tmp_path, profile + lines, "policy.yaml"))
    assert policy.thresholds.site_totals == "protected"
    assert [one.rule for one in policy.waivers] == ["count_rounding"]
    refuse_unbuilt_policy(policy)
