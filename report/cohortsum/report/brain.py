"""Effects on the brain: regions of the cortex and structures under it, coloured by their estimate.

A region finds its outline by name and by nothing else: a table of 71 values for 68 regions, or one in another order,
colours the same regions. A region without a number is hatched, and the caption says why; a value without an outline is
not drawn, and the caption gives it. The colour scale is symmetric about 0.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from cohortsum.report.anatomy import DESIKAN_KILLIANY, SUBCORTICAL, Hemisphere, OutcomeName, read_name
from cohortsum.report.colours import diverging, legend
from cohortsum.report.effects import RATIOS, Effect, Effects
from cohortsum.report.outlines import CORTEX, SUBCORTEX, Outlines
from cohortsum.report.scales import MINUS
from cohortsum.report.svg import Figure, Panel, element, number, tip, words
from cohortsum.study.results import Absent

FEWEST: Final = 8
"""Regions with an outline that a table must name before a map is worth looking at."""

LEVEL: Final = 0.05
_NAMED: Final = 12
_HEAVY: Final = 1.8
_WIDTH: Final = 360.0
_GAP: Final = 8.0
_SIDES: Final[tuple[Hemisphere, ...]] = ("left", "right")


def brain_figures(effects: Effects) -> tuple[Figure, ...]:
    """Return a map per measure of the cortex, and one of the structures under it, where the outcomes are of that kind."""
    if effects.of_terms:
        return ()
    named = [(read_name(effect.outcome), effect) for effect in effects.rows]
    figures: list[Figure] = []
    measures = dict.fromkeys(name.measure for name, _ in named if name.is_cortical)
    for measure in measures:
        of_measure = [item for item in named if item[0].measure == measure and item[0].hemisphere]
        cortex = {_key(name): effect for name, effect in of_measure if name.is_cortical}
        strangers = [name.name for name, _ in of_measure if not (name.is_cortical or name.is_subcortical)]
        drawn: set[_Key] = {(side, region) for (side, _), view in CORTEX.items() for region in view.regions}
        known: list[_Key] = [(side, region) for side in _SIDES for region in DESIKAN_KILLIANY]
        if _worth(cortex, drawn):
            end = _end(cortex.values(), effects)
            panels = tuple(_hemisphere(side, cortex, effects, end) for side in _SIDES)
            title = f"{effects.term}: cortical {measure or 'measure'}, Desikan-Killiany atlas"
            caption = _caption(cortex, known, drawn, strangers, effects)
            figures.append(Figure(title, caption, panels, f"{measure or 'cortex'}-map"))
    deep = {_key(name): effect for name, effect in named if name.is_subcortical}
    structures: list[_Key] = [(side, name) for side in _SIDES for name in SUBCORTICAL]
    drawn = {(side, name) for side, name in structures if f"{side} {name}" in SUBCORTEX.regions}
    if _worth(deep, drawn):
        panel = _slice(deep, effects, _end(deep.values(), effects))
        caption = "Coronal slice, left on the left. " + _caption(deep, structures, drawn, [], effects)
        figures.append(Figure(f"{effects.term}: subcortical volumes", caption, (panel,), "subcortical-map"))
    return tuple(figures)


_Key = tuple[Hemisphere, str]


def _key(name: OutcomeName) -> _Key:
    assert name.hemisphere is not None  # noqa: S101 - the caller asks for regions of a hemisphere
    return name.hemisphere, name.structure


def _worth(values: dict[_Key, Effect], drawn: set[_Key]) -> bool:
    """Whether enough regions have an outline, and any of them an estimate."""
    named = drawn & set(values)
    return len(named) >= FEWEST and any(values[key].interval for key in named)


def _end(shown: Iterable[Effect], effects: Effects) -> float:
    """Return the end of the colour scale: the greatest size of an estimate, rounded up to two digits."""
    greatest = max(
        (abs(size) for effect in shown if (size := _size(effect, effects)) is not None), default=0.0
    )
    if greatest == 0.0:
        return 1.0
    power = 10.0 ** (math.floor(math.log10(greatest)) - 1)
    return math.ceil(greatest / power - 1e-9) * power


def _size(effect: Effect, effects: Effects) -> float | None:
    """Return what is coloured: the estimate, of a ratio its logarithm."""
    estimate = effect.estimate
    if isinstance(estimate, Absent) or effect.interval is None:
        return None
    return math.log(estimate) if effects.measure in RATIOS else estimate


def _measure(effects: Effects) -> str:
    if effects.measure in RATIOS:
        return f"log {effects.measure}"
    return {"d": "Cohen's d", "b": "b"}.get(effects.measure, effects.measure)


def _text(value: float) -> str:
    return f"{value:.3g}".replace("-", MINUS)


def _hemisphere(side: Hemisphere, values: dict[_Key, Effect], effects: Effects, end: float) -> Panel:
    """Return both views of one hemisphere above the colour scale."""
    width = (_WIDTH - _GAP) / 2
    parts = [words(4, 14, f"{side.capitalize()} hemisphere", "f-head")]
    height = 0.0
    for place, view in enumerate(("lateral", "medial")):
        outlines = CORTEX[side, "lateral" if view == "lateral" else "medial"]
        scale = width / max(each.width for each in CORTEX.values())
        height = max(height, scale * outlines.height)
        x = place * (width + _GAP)
        parts.append(_view(outlines, x, 24.0, scale, _coloured(outlines, side, values, effects, end, scale)))
        parts.append(words(x + scale * outlines.width / 2, 24 + height + 12, view, "f-muted", "middle"))
    y = 24 + height + 36
    parts.append(legend(80, y, 200, end, _measure(effects)))
    return Panel(
        _WIDTH, y + 24, "".join(parts), f"{side} hemisphere, regions coloured by {_measure(effects)}"
    )


def _slice(values: dict[_Key, Effect], effects: Effects, end: float) -> Panel:
    scale = 300.0 / SUBCORTEX.width
    shapes = [
        shape
        for side in _SIDES
        for shape in _coloured(SUBCORTEX, side, values, effects, end, scale, f"{side} ")
    ]
    height = scale * SUBCORTEX.height
    parts = [_view(SUBCORTEX, 30.0, 8.0, scale, shapes)]
    for x, side in ((34.0, "L"), (326.0, "R")):
        parts.append(words(x, 24, side, "f-head", "middle"))
    y = 8 + height + 22
    parts.append(legend(80, y, 200, end, _measure(effects)))
    return Panel(_WIDTH, y + 24, "".join(parts), f"subcortical structures coloured by {_measure(effects)}")


def _view(outlines: Outlines, x: float, y: float, scale: float, shapes: Sequence[str]) -> str:
    silhouette = element("path", "f-quiet", d=outlines.silhouette, fill_rule="evenodd")
    place = f"translate({x:.2f} {y:.2f}) scale({scale:.4f})"
    return element("g", "f-map", silhouette + "".join(shapes), transform=place)


def _coloured(
    outlines: Outlines,
    side: Hemisphere,
    values: dict[_Key, Effect],
    effects: Effects,
    end: float,
    scale: float,
    prefix: str = "",
) -> list[str]:
    """Return the regions of one side; significant ones last, so that no neighbour covers their outline."""
    plain: list[str] = []
    heavy: list[str] = []
    for name, outline in outlines.regions.items():
        if not name.startswith(prefix):
            continue
        key = (side, name.removeprefix(prefix))
        effect = values.get(key)
        size = None if effect is None else _size(effect, effects)
        if effect is None or size is None:
            said = f"{_label(key)}: {'not in this table' if effect is None else effect.reason}"
            plain.append(element("path", "f-hatch f-thin", tip(said), d=outline))
            continue
        said = tip(f"{_label(key)}: {_measure(effects)} {_text(size)}")
        fill = diverging(size, end)
        if effects.significant(effect, LEVEL):
            heavy.append(
                element(
                    "path",
                    "f-outline",
                    said,
                    d=outline,
                    fill=fill,
                    style=f"stroke-width:{number(_HEAVY / scale)}",
                )
            )
        else:
            plain.append(element("path", "f-thin", said, d=outline, fill=fill))
    return plain + heavy


def _label(key: _Key) -> str:
    side, name = key
    region = DESIKAN_KILLIANY.get(name)
    return f"{side} {region.label if region else SUBCORTICAL[name].label}"


def _caption(
    values: dict[_Key, Effect],
    known: Sequence[_Key],
    drawn: set[_Key],
    strangers: Sequence[str],
    effects: Effects,
) -> str:
    p = "p (FDR)" if effects.corrected else "p"
    sentences = [f"Colour: {_measure(effects)}; heavy outline: {p} < {LEVEL:g}."]
    sizes = {key: _size(effect, effects) for key, effect in values.items()}
    lists = (
        (
            "Not drawn, for the atlas has no outline",
            [
                f"{_label(key)} ({_text(size)})"
                for key, size in sizes.items()
                if key not in drawn and size is not None
            ],
        ),
        ("Hatched, not in this table", [_label(key) for key in known if key in drawn and key not in values]),
        ("No region of this atlas", list(strangers)),
    )
    unknown: dict[str, list[str]] = {}
    for key, size in sizes.items():
        if size is None:
            unknown.setdefault(values[key].reason, []).append(_label(key))
    for head, names in (*lists, *((f"No estimate ({reason})", names) for reason, names in unknown.items())):
        if names:
            more = len(names) - _NAMED
            rest = f" and {more} more" if more > 0 else ""
            sentences.append(f"{head}: {', '.join(names[:_NAMED])}{rest}.")
    return " ".join(sentences)
