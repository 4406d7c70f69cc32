"""Texts that the text decoders begin with: one valid file of each, and what parsers of YAML and JSON have stumbled over."""

from datetime import UTC, datetime

from cohortsum.protocol.denylist import Denied, DenyList
from cohortsum.study.definition.consortium import format_key
from tests.protocol.consortium import identity_key
from tests.study.definitions import SMALL, small

MOMENT = datetime(2026, 11, 30, tzinfo=UTC)
DEEP = 5000
ROSTER = f"""\
consortium: test
roster: 1
identities:
  - {{id: hub, role: coordinator, name: hub, organisation: test, key: "{format_key(identity_key("hub").public)}"}}
  - {{id: s0, role: site, index: 0, name: s0, organisation: test, key: "{format_key(identity_key("s0").public)}"}}
"""
DENY = DenyList("test", 3, (Denied("s0", identity_key("s0").public, MOMENT, "laptop stolen"),))
POLICY = """\
profile: dpuk
thresholds: {count: 20, set_difference: 5, min_sites: 5}
statistics: [summary, glm]
noise: [distributed]
budget: {epsilon: 3, delta: 1.0e-5}
waivers:
  - {rule: count_rounding, value: off, reason: agreed, by: ann, until: 2099-06-30}
auto_approve:
  - {statisticians: [stat1], statistics: [summary], outcomes: [age, "lh_*"], until: 2027-06-30}
"""
NODE = """\
site: s0
coordinator: hub.example:443
identity_key: keys/identity
epoch: 2026-11
exclude: withdrawn.txt
tables:
  data: {path: data.csv, id: id, missing: [-9999], rename: [{match: "X_(.*)", to: 'lh_\\1'}]}
variables:
  dx: {from: data.diagnosis, codes: {1: case, 2: control}}
  site: {constant: A}
"""
HUB = f"""\
roster: consortium.yaml
roster_signature: consortium.sig
operator_key: "{"ab" * 32}"
identity: hub
identity_key: keys/hub.identity
listen: 127.0.0.1:0
store: sqlite:///hub.db
spool: spool
results: /srv/results
metrics: 127.0.0.1:9100
enrol_s: 9
"""
EVERY_KIND = small(
    "a: {kind: summary, variables: [age]}",
    """s: {kind: summary, variables: [age], by: [dx]}
  h: {kind: histogram, variables: [age], edges: [0, 25, 50]}
  c: {kind: crosstab, factors: [dx, sex]}
  p: {kind: proportion, variables: [iq], thresholds: [100]}
  q: {kind: quantiles, variables: [iq], probabilities: [0.5], bins: {from: 40, to: 160, count: 30}}
  r: {kind: regression, outcomes: [iq], terms: [dx, age], where: "age > 18 and not sex == male"}
  g: {kind: glm, family: binomial, outcomes: [sex], terms: [age]}""",
)
NOT_YAML = {
    "escape": b'a: "\\UFFFFFFFF"\n',
    "half-character": b'a: "\\uD800"\n',
    "huge-directive": b"%YAML 1." + b"9" * 5000 + b"\n---\na: 1\n",
    "deep-lists": b"[" * 600,
    "deep-keys": b"{a: " * 400,
    "deep-indents": b"".join(b" " * depth + b"a:\n" for depth in range(40)),
    "many-marks": b"- " * 400,
    "laughs": b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "self": b"a: &a [*a]\n",
    "tag": b"a: !!python/object:os.system ls\n",
    "timestamp": b"a: 2026-99-99\nb: 0b\nc: 1:99:99\n",
    "merge": b"<<: 3\na: 1\n",
    "list-key": b"? [a]\n: b\n",
    "key-twice": b"a: 1\na: 2\n",
    "two-documents": b"a: 1\n---\na: 2\n",
    "huge-number": b"a: " + b"9" * 5000 + b"\n",
    "infinity": b"a: 1e999\nb: .inf\nc: .nan\n",
    "nul": b"a: \0\n",
    "not-utf-8": b"a: \xff\xfe\n",
    "mark": b"\xef\xbb\xbfa: 1\n",
    "nothing": b"",
    "tab": b"a:\n\t- b\n",
    "pattern": b"tables: {t: {id: i, rename: [{match: 'a{99999999999}', to: b}]}}\n",
    "deep-pattern": b"tables: {t: {id: i, rename: [{match: '" + b"(" * 900 + b")" * 900 + b"', to: b}]}}\n",
}
NOT_JSON = {
    "deep-lists": b"[" * DEEP,
    "deep-keys": b'{"a":' * DEEP,
    "half-character": b'{"a": "\\ud800"}',
    "huge-number": b'{"a": ' + b"9" * 5000 + b"}",
    "infinity": b'{"a": 1e999, "b": Infinity, "c": NaN}',
    "key-twice": b'{"a": 1, "a": 2}',
    "number": b"1",
    "nothing": b"",
    "not-utf-8": b'{"a": "\xff"}',
    "mark": b"\xef\xbb\xbf{}",
}
YAML = (
    "study-yaml", "roster", "deny-list", "request", "node-settings", "tables-settings", "policy",
    "coordinator-settings", "epoch-edit",
)  # fmt: skip
JSON = (
    "study-canonical", "study-submitted", "study-signed", "result", "release-item", "decision", "remedy",
    "node-decisions", "node-state", "node-snapshot", "table-sidecar", "audit-line",
)  # fmt: skip
EXPRESSIONS = (
    "1 + 2 * 3", "-2^2", "sqrt(exp(log(.25)))", "`Left-Hippocampus` - age", "2 * -3", "((((((((1))))))))", "abs(-1.5e1)",
    "1e999", "--------1", "(" * 300, "log", "age ^ 9", "", "9" * 500, "\u0663", "age\u00a0+1", "`", '"',
)  # fmt: skip
CONDITIONS = (
    "age >= 18", "dx == autism", 'dx != "control"', "not (age < 9 or iq > 1) and sex == male", "5 < age < 9", "not " * 200,
    "age and iq > 1", "dx < control", "(dx) == autism", "age == 1 or age == 2 and age == 3", "not not age > 1",
)  # fmt: skip
REMEDIES = (
    '{"actions": [{"do": "merge", "factor": "dx", "levels": ["autism", "other"], "name": "not control"}]}',
    '{"actions": [{"do": "merge_bins", "variable": "age", "keep_edges": [20, 40, 60.5]}, {"do": "drop_table"}]}',
    '{"actions": [{"do": "drop", "variables": ["age"], "levels": {"sex": ["male"]}, "thresholds": [1e2]}]}',
    '{"actions": [{"do": "drop_table", "table": "sexes.association"}]}',
    '{"actions": [{"do": "merge_bins", "variable": "age", "keep_edges": [1e999]}]}',
    '{"actions": [{"do": "drop", "probabilities": [-0.0], "terms": ["a:b"]}]}',
    '{"actions": []}',
)
UNTIL = "2027-01-01T12:00:00+01:00"
ENROLS = SMALL.replace("2027-06-30", "9999-12-31") + f"enrol: {{until: {UNTIL}}}\n"
ENDS_OF_TIME = ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z")
