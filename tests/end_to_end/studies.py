"""Studies over real tables, as a statistician would write them, and the node files of the sites that hold them."""

from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"

REGIONS = [
    "bankssts",
    "caudalanteriorcingulate",
    "caudalmiddlefrontal",
    "cuneus",
    "entorhinal",
    "fusiform",
    "inferiorparietal",
    "inferiortemporal",
    "isthmuscingulate",
    "lateraloccipital",
    "lateralorbitofrontal",
    "lingual",
    "medialorbitofrontal",
    "middletemporal",
    "parahippocampal",
    "paracentral",
    "parsopercularis",
    "parsorbitalis",
    "parstriangularis",
    "pericalcarine",
    "postcentral",
    "posteriorcingulate",
    "precentral",
    "precuneus",
    "rostralanteriorcingulate",
    "rostralmiddlefrontal",
    "superiorfrontal",
    "superiorparietal",
    "superiortemporal",
    "supramarginal",
    "frontalpole",
    "temporalpole",
    "transversetemporal",
    "insula",
]
THICKNESS = tuple(f"{side}_{region}_thickness" for side in ("lh", "rh") for region in REGIONS)

IMPAC = """
study: impac-thickness
title: Cortical thickness in autism, IMPAC
version: 1
roster: 1
expires: 2099-12-31
person: SubjID
variables:
  asd: {{levels: [control, autism]}}
  sex: {{levels: [female, male]}}
  age: {{unit: years, range: [5, 65]}}
  "lh_*_thickness": {{catalogue: freesurfer.thickness, range: [0, 5]}}
  "rh_*_thickness": {{catalogue: freesurfer.thickness, range: [0, 5]}}
cohort: {{epoch: 2026-11}}
analyses:
  ages: {{kind: summary, variables: [age], by: [asd]}}
  age_bins: {{kind: histogram, variables: [age], bins: {{from: 5, to: 65, count: 12}}}}
  boys: {{kind: crosstab, factors: [asd, sex]}}
  thickness:
    kind: regression
    outcomes: ["lh_*_thickness", "rh_*_thickness"]
    terms: [asd, age, sex]
    site_effect: within
    report: {{effect: asd, measure: cohens_d, correction: fdr_bh}}
protection:
  min_sites: {min_sites}
  min_participants: 100
  max_participants: 100000
  min_participants_per_site: {floor}
  max_colluding_sites: 1
privacy: {{noise: none}}
release: {{checkers: {{consortium: 0, sites: none}}}}
deadlines: {{step: {step}, step_max: {step}, tick: 20ms}}
"""

IMPAC_NODE = """
variables:
  asd: {codes: {"0": control, "1": autism}}
  sex: {codes: {"M": male, "F": female}}
"""

CNSIM = """
study: cnsim
title: Simulated clinical cohorts
version: 1
roster: 1
expires: 2099-12-31
person: column_1
variables:
  LAB_TSC: {unit: mmol/l, range: [0, 20]}
  LAB_HDL: {unit: mmol/l, range: [-1, 5]}
  LAB_TRIG: {unit: mmol/l, range: [-20, 20]}
  PM_BMI_CONTINUOUS: {unit: kg/m2, range: [5, 80]}
cohort: {epoch: 2026-11}
analyses:
  labs: {kind: summary, variables: [LAB_TSC, LAB_HDL]}
  tsc_bins: {kind: histogram, variables: [LAB_TSC], edges: [0, 4, 5, 6, 7, 20]}
  tsc: {kind: regression, outcomes: [LAB_TSC], terms: [LAB_TRIG], site_effect: none}
protection:
  min_sites: 3
  min_participants: 100
  max_participants: 100000
  min_participants_per_site: 20
  max_colluding_sites: 0
  min_honest_inputs: 3
privacy: {noise: none}
release: {checkers: {consortium: 0, sites: none}}
deadlines: {step: 20s, step_max: 20s, tick: 20ms}
"""

ABIDE = """
study: abide-bmi
title: Body mass index and intelligence, ABIDE
version: 1
roster: 1
expires: 2099-12-31
person: SUB_ID
variables:
  dx: {levels: [control, autism]}
  age: {unit: years, range: [5, 65]}
  BMI: {unit: kg/m2, range: [10, 60]}
  FIQ: {unit: points, range: [40, 160]}
cohort: {epoch: 2026-11}
analyses:
  measures: {kind: summary, variables: [BMI, FIQ]}
  effects:
    kind: regression
    outcomes: [BMI, FIQ]
    terms: [dx, age]
    report: {effect: dx}
protection:
  min_sites: 10
  min_participants: 100
  max_participants: 10000
  min_participants_per_site: 5
  max_colluding_sites: 1
privacy: {noise: none}
release: {checkers: {consortium: 0, sites: none}}
deadlines: {step: 20s, step_max: 20s, tick: 20ms}
"""

ABIDE_NODE = """
tables:
  data: {id: SUB_ID, missing: ["-9999"]}
variables:
  dx: {from: data.DX_GROUP, codes: {"1": autism, "2": control}}
  age: {from: data.AGE_AT_SCAN}
"""
