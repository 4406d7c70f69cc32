"""One statistic of every kind and of every way to ask for it, over the variables of `models`."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.building import grid_of
from cohortsum.study.statistics.correlation import Correlation
from cohortsum.study.statistics.covariance import Covariance
from cohortsum.study.statistics.cox import Cox
from cohortsum.study.statistics.crosstab import Crosstab
from cohortsum.study.statistics.curves import Curve
from cohortsum.study.statistics.exact_quantiles import ExactQuantiles
from cohortsum.study.statistics.families import FAMILIES
from cohortsum.study.statistics.glm import Glm
from cohortsum.study.statistics.group_tests import GroupTests
from cohortsum.study.statistics.groups import Banded, Groups
from cohortsum.study.statistics.histogram import Histogram
from cohortsum.study.statistics.interface import Statistic
from cohortsum.study.statistics.joint import Joint
from cohortsum.study.statistics.kaplan_meier import KaplanMeier
from cohortsum.study.statistics.logrank import Logrank
from cohortsum.study.statistics.mixed import Mixed
from cohortsum.study.statistics.normative import Normative
from cohortsum.study.statistics.pca import Pca
from cohortsum.study.statistics.proportion import Proportion
from cohortsum.study.statistics.quantile_table import Request
from cohortsum.study.statistics.quantiles import Quantiles, Zoom
from cohortsum.study.statistics.site_test import SiteTest
from cohortsum.study.statistics.summary import Summary
from cohortsum.study.statistics.targets import Count, Event, Target
from cohortsum.study.variables import Factor
from tests.study.models import AGE, DX, OUTCOMES, SEX, cohort, regression
from tests.study.pooled import BITS, contribution, federate, split
from tests.study.test_chained import chained
from tests.study.test_combat import combat, whole
from tests.study.test_meta import meta

HAND = Factor("hand", ("left", "right"))


def older(batch: Batch) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = batch.numbers["age"] > 30
    return mask


def normative(site_effect: str) -> Normative:
    """Return centiles over age."""
    model = regression(
        terms=("age", "sex"), site_effect=site_effect, curves={"age": Curve(AGE, "spline", (20.0, 40.0))}
    )
    grid = grid_of({"age": (20.0,), "sex": SEX.levels}, {"sex": SEX})
    return Normative(name="r", regression=model, grid=grid, centiles=(50,), modelled=True)


def further(statistic: Statistic) -> Statistic:
    """Return the second round."""
    batch, site = cohort(2, people=200)
    following = statistic.further(federate(statistic, split(batch, site)))
    assert following is not None
    return following


def correlation(**changes: Any) -> Correlation:
    asked: dict[str, Any] = {
        "name": "c",
        "numbers": OUTCOMES,
        "given": ("age", "dx"),
        "variables": {"dx": DX, "sex": SEX, "hand": HAND, "age": AGE} | {one.name: one for one in OUTCOMES},
        "site_effect": "within",
        "missing": "complete",
        "fraction_bits": BITS,
    }
    return Correlation(**(asked | changes))


def covariance(site_effect: Literal["within", "none"]) -> Covariance:
    return Covariance(
        name="c",
        numbers=OUTCOMES,
        variables={one.name: one for one in OUTCOMES},
        site_effect=site_effect,
        shrinkage=0.0,
        fraction_bits=BITS,
    )


def spared(batch: Batch) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = batch.levels["dx"] != 1
    return mask


def harmonised() -> Statistic:
    """Return the second round of a regression of harmonised values, under standards of some cohort."""
    people, site = whole(1)
    first = chained(regression(effect="dx", terms=("dx", "age")))
    return first.further(federate(first.combat, split(people, site)))


def glm(family: str, target: Target, *terms: str) -> Glm:
    return Glm(
        name="g",
        family=FAMILIES[family],
        targets=(target,),
        terms=terms,
        variables={"dx": DX, "sex": SEX, "hand": HAND, "age": AGE},
        fraction_bits=BITS,
    )


def cox(*terms: str, **changes: Any) -> Cox:
    asked: dict[str, Any] = {
        "name": "x",
        "time": AGE,
        "event": Event(SEX, "male"),
        "terms": terms,
        "variables": {"dx": DX, "y0": OUTCOMES[0]},
        "fraction_bits": BITS,
    }
    return Cox(**(asked | changes))


def second_round(statistic: Statistic) -> Statistic:
    """Return the round that follows one over a cohort of its own."""
    batch, _ = cohort(77, people=200)
    following = statistic.further(contribution(statistic, batch, 50))
    assert following is not None
    return following


LOGISTIC, POISSON = (
    glm("binomial", Event(DX, "autism"), "sex", "age"),
    glm("poisson", Count(OUTCOMES[0]), "dx", "age"),
)

CENTILES = Request(
    analysis="q",
    variables=OUTCOMES[:2],
    probabilities=(0.1, 0.5),
    edges=(0.0, 2.0, 2.5, 5.0),
    groups=Groups((SEX,), (Banded(AGE, (20.0, 40.0)),)),
    refine=0.25,
    min_bin=1,
    where=None,
)
STATISTICS: dict[str, Statistic] = {
    "summary": Summary("s", (AGE, *OUTCOMES), (DX, SEX), BITS),
    "summary of everybody": Summary("s", (AGE,), (), BITS),
    "summary of a subgroup": Summary("s", OUTCOMES, (DX,), BITS, older),
    "summary of four moments": Summary("s", (AGE,), (SEX,), BITS, moments=4),
    "histogram": Histogram("h", (AGE, OUTCOMES[0]), (0.0, 2.0, 30.0, 60.0)),
    "histogram of a subgroup": Histogram("h", (AGE,), (10.0, 20.0, 30.0), older),
    "crosstab": Crosstab("c", (DX, SEX)),
    "crosstab of a subgroup": Crosstab("c", (SEX, DX), older),
    "proportion": Proportion("p", (AGE, OUTCOMES[0]), (20.0, 40.0), (DX,), (SEX,)),
    "proportion of a subgroup": Proportion("p", (AGE,), (40.0,), (DX, SEX), (), older),
    "quantiles": Quantiles("q", CENTILES),
    "quantiles of a subgroup": Quantiles("q", replace(CENTILES, groups=Groups((), ()), where=older)),
    "zoom": Zoom("q", CENTILES, {}, ((0, 0, 0), (0, 4, 2), (1, 3, 0))),
    "exact quantiles": ExactQuantiles(
        "q", OUTCOMES[:2], (0.0, 0.5), 0.01, Groups((SEX,), (Banded(AGE, (20.0, 40.0)),)), 10, older
    ),
    "test": GroupTests("t", OUTCOMES, DX, ("welch",), BITS, older),
    "correlation": correlation(),
    "correlation per pair": correlation(missing="per_pair", site_effect="none", where=older),
    "correlation, two factors": correlation(given=("sex", "dx"), site_effect="none"),
    "covariance": covariance("within"),
    "components": Pca("c", covariance("none"), 2, "correlation"),
    "within": regression(effect="dx"),
    "none": regression(effect="dx", site_effect="none"),
    "numbers only": regression(terms=("age",), site_effect="none"),
    "crossed": regression(terms=("dx", "sex", "dx:sex", "age"), effect="sex", site_effect="none"),
    "complete": regression(effect="sex", missing="complete"),
    "kaplan-meier": KaplanMeier(
        name="k", time=AGE, event=Event(SEX, "male"), times=(10.0, 20.5, 40.0), by=(DX,)
    ),
    "logrank": Logrank(name="l", time=AGE, event=Event(DX, "other"), times=(30.0,), by=(SEX,), where=older),
    "cox": cox("dx", "y0"),
    "cox, second round": second_round(cox("dx", "y0")),
    "cox of a subgroup": cox("dx", "y0", where=older, ties="exact", min_events=9),
    "logistic": LOGISTIC,
    "logistic, second round": second_round(LOGISTIC),
    "poisson": POISSON,
    "poisson, second round": second_round(POISSON),
    "complete, none": regression(missing="complete", site_effect="none", where=older),
    "weighted": regression(weights=AGE, terms=("dx", "sex"), site_effect="none"),
    "weighted within": regression(weights=AGE, terms=("dx", "sex")),
    "joint": regression(missing="complete", multivariate={"both": Joint(("y0", "y1"), ("dx",))}),
    "site test": SiteTest("r", regression(effect="dx")),
    "mixed": Mixed(name="r", regression=regression(), ratios=9, site_size=50.0, max_ratio=10.0),
    "mixed, complete": Mixed(
        name="r",
        regression=regression(missing="complete", terms=("dx",)),
        ratios=5,
        site_size=20.0,
        max_ratio=1.0,
    ),
    "normative": normative("none"),
    "normative, within": normative("within"),
    "spread": further(normative("within")),
    "robust": further(regression(terms=("dx", "age"), covariance="HC1")),
    "robust, none": further(regression(terms=("dx", "age"), covariance="HC1", site_effect="none")),
    "combat": combat(),
    "combat fitted on some": combat(fit_on=older, keep=("sex",), where=spared),
    "combat that keeps nothing": combat(keep=()),
    "regression of harmonised values": harmonised(),
    "meta": meta(min_per_arm=2),
    "meta of a subgroup": meta(min_per_arm=2, where=older, models=("fixed",), effect="sex"),
}
