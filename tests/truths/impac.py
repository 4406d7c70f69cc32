"""Autism and control, thickness and volumes over 34 sites: the study, and all rows together."""

from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any

from tests.end_to_end.studies import THICKNESS
from tests.truths.libraries import frame, truth
from tests.truths.running import DataSet
from tests.truths.text import study_text

FILE = "impac_asd.csv"
VOLUMES = tuple(
    f"{side}-{structure}"
    for structure in (
        *("Thalamus-Proper", "Caudate", "Putamen", "Pallidum", "Hippocampus", "Amygdala", "Accumbens-area"),
        "Lateral-Ventricle",
    )
    for side in ("Left", "Right")
)
FEATURES = (*THICKNESS[:12], "Left-Hippocampus", "Right-Hippocampus")
MEANS = ("lh_MeanThickness_thickness", "rh_MeanThickness_thickness")
PAIRED = ("age", "Left-Hippocampus", "Right-Hippocampus", "Left-Amygdala", *MEANS)
CLAMPS: Mapping[str, tuple[str, float, float]] = {
    "hippo_left": ("Left-Hippocampus", 1500, 5000),
    "hippo_right": ("Right-Hippocampus", 1500, 5000),
    "entorhinal": ("lh_entorhinal_thickness", 1, 5),
    "icv": ("EstimatedTotalIntraCranialVol", 8e5, 1.6e6),
}


def _listed(names: tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _clamped() -> str:
    return "\n".join(
        f"{name}_{rule}: {{unit: {'mm' if name == 'entorhinal' else 'mm3'}, range: [{low}, {high:.0f}], out_of_range: {rule}}}"
        for (name, (_, low, high)), rule in product(CLAMPS.items(), ("clamp", "exclude"))
    )


VARIABLES = f"""
asd: {{levels: [control, autism]}}
sex: {{levels: [female, male]}}
age: {{unit: years, range: [5, 65]}}
"lh_*_thickness": {{catalogue: freesurfer.thickness, range: [0, 5]}}
"rh_*_thickness": {{catalogue: freesurfer.thickness, range: [0, 5]}}
lh_MeanThickness_thickness: {{unit: mm, range: [0, 5]}}
rh_MeanThickness_thickness: {{unit: mm, range: [0, 5]}}
EstimatedTotalIntraCranialVol: {{unit: mm3, range: [500000, 2500000]}}
{chr(10).join(f"{name}: {{unit: mm3, range: [0, 60000]}}" for name in VOLUMES)}
{_clamped()}
"""
DERIVE = """
age2: "age^2"
hippo: "(`Left-Hippocampus` + `Right-Hippocampus`) / 1000"
icv_litres: "EstimatedTotalIntraCranialVol / 1000000"
"""
DESCRIBED = ("age", *MEANS, "EstimatedTotalIntraCranialVol", *VOLUMES, *THICKNESS[:6])
ANALYSES = f"""
describe: {{kind: summary, variables: {_listed(DESCRIBED)}}}
shape: {{kind: summary, variables: [age, lh_MeanThickness_thickness], by: [asd], moments: 4}}
clamped:
  kind: summary
  variables: {_listed(tuple(f"{name}_{rule}" for name in CLAMPS for rule in ("clamp", "exclude")))}
percentiles_mm:
  kind: quantiles
  variables: {_listed((*MEANS, *THICKNESS[:6]))}
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {{from: 0, to: 5, count: 200}}
  refine: 0.001
percentiles_mm3:
  kind: quantiles
  variables: {_listed(VOLUMES)}
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {{from: 0, to: 60000, count: 600}}
  refine: 1
percentiles_age:
  kind: quantiles
  variables: [age]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {{from: 5, to: 65, count: 60}}
percentiles_icv:
  kind: quantiles
  variables: [EstimatedTotalIntraCranialVol]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {{from: 500000, to: 2500000, count: 400}}
  refine: 100
ages: {{kind: histogram, variables: [age], bins: {{from: 10, to: 40, count: 12}}}}
sexes: {{kind: crosstab, factors: [asd, sex]}}
adults:
  kind: proportion
  variables: [age]
  thresholds: [12, 18, 40]
  factors: [sex]
  by: [asd]
groups:
  kind: test
  outcomes: [age, Left-Hippocampus, lh_MeanThickness_thickness]
  factor: asd
  tests: [student, welch, anova]
related: {{kind: correlation, variables: {_listed(PAIRED)}, site_effect: none}}
partial: {{kind: correlation, variables: {_listed(PAIRED[1:])}, given: [age, sex]}}
spread: {{kind: covariance, variables: {_listed(PAIRED)}}}
components: {{kind: pca, variables: {_listed(THICKNESS)}, components: 10, site_effect: none}}
thickness:
  kind: regression
  outcomes: {_listed(THICKNESS)}
  terms: [asd, age, sex]
  report: {{effect: asd, measure: cohens_d, correction: fdr_bh}}
volumes:
  kind: regression
  outcomes: {_listed(VOLUMES)}
  terms: [asd, age, sex, EstimatedTotalIntraCranialVol]
  report: {{effect: asd, measure: cohens_d, correction: fdr_bh}}
interaction:
  kind: regression
  outcomes: [Left-Hippocampus]
  terms: [asd, age, sex, EstimatedTotalIntraCranialVol, "asd:age"]
  contrasts: {{autism_at_10: {{"asd[autism]": 1, "asd[autism]:age": 10}}}}
  tests: {{dx: [asd, "asd:age"]}}
quadratic: {{kind: regression, outcomes: [rh_MeanThickness_thickness], terms: [asd, age, age2, sex]}}
site_effect:
  kind: regression
  outcomes: [lh_MeanThickness_thickness]
  terms: [asd, age, sex]
  test_site: true
  vif: true
robust_hc0:
  kind: regression
  outcomes: {_listed(VOLUMES[:4])}
  terms: [asd, age, sex]
  covariance: HC0
robust_hc1:
  kind: regression
  outcomes: {_listed(VOLUMES[:4])}
  terms: [asd, age, sex]
  covariance: HC1
  site_effect: none
weighted:
  kind: regression
  outcomes: {_listed(VOLUMES[:4])}
  terms: [asd, age, sex]
  weights: EstimatedTotalIntraCranialVol
ridge: {{kind: regression, outcomes: {_listed(VOLUMES[:4])}, terms: [asd, age, sex], ridge: 0.1}}
jointly:
  kind: regression
  outcomes: {_listed(VOLUMES[:4])}
  terms: [asd, age, sex]
  missing: complete
  multivariate: {{all: {{outcomes: {_listed(VOLUMES[:4])}, terms: [asd]}}}}
mixed: {{kind: mixed, outcomes: [lh_MeanThickness_thickness], terms: [asd, age, sex]}}
diagnosis: {{kind: glm, family: binomial, outcomes: [asd], event: autism, terms: [age, sex, hippo, icv_litres]}}
meta_thickness:
  kind: meta
  outcomes: [lh_superiorfrontal_thickness, rh_superiorfrontal_thickness, lh_entorhinal_thickness]
  terms: [asd, age, sex]
  effect: asd
  models: [fixed, dl, reml]
  min_per_arm: 5
meta_volumes:
  kind: meta
  outcomes: [Left-Hippocampus, Left-Lateral-Ventricle]
  terms: [asd, age, sex, EstimatedTotalIntraCranialVol]
  effect: asd
  models: [fixed, dl, reml]
  min_per_arm: 5
harmony: {{kind: combat, outcomes: {_listed(FEATURES)}, keep: [asd, age, sex]}}
harmony_plain: {{kind: combat, outcomes: {_listed(FEATURES)}, keep: [asd, age, sex], empirical_bayes: false}}
harmonised:
  kind: regression
  needs: harmony
  outcomes: {_listed(FEATURES)}
  terms: [asd, age, sex]
  site_effect: none
"""

IMPAC = DataSet(
    "impac_asd",
    FILE,
    study_text("impac", "SubjID", VARIABLES, ANALYSES, DERIVE, min_sites=10),
    node="variables:\n"
    '  asd: {codes: {"0": control, "1": autism}}\n'
    '  sex: {codes: {"M": male, "F": female}}\n'
    + "".join(
        f"  {name}_{rule}: {{from: data.{column}}}\n"
        for (name, (column, _, _)), rule in product(CLAMPS.items(), ("clamp", "exclude"))
    ),
    split_by="site",
)
TERMS = {"asd": "asd[autism]", "age": "age", "male": "sex[male]"}
TERMS_ICV = {**TERMS, "ICV": "EstimatedTotalIntraCranialVol"}


def known(key: str) -> Any:
    """Return one of the recorded truths."""
    return truth("impac_asd")[key]


@cache
def people() -> Any:
    """Return all rows together, with 0/1 columns and ICV in mm3."""
    table = frame(FILE)
    table["male"] = (table.sex == "M").astype(int)
    return table
