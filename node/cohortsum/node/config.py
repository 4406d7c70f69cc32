"""What a site admin writes: ``node.yaml`` (where data are, how they map), ``policy.yaml`` (what is allowed).

Both are text files whose scalars are taken as written: ``1`` and ``"1"`` are the same code, ``no`` stays the
word no, and a date is not rearranged. Numbers become numbers where a field asks for one. A file is refused
with all its faults at once, each with line, field, expectation and cure.
"""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar, cast

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from cohortsum.crypto.errors import ConfigurationError, cannot_be_read, refuse
from cohortsum.node.table_config import LocalPath, Model, Name, TableConfig
from cohortsum.report.notices import NoticeSettings
from cohortsum.study.definition.tree import compose
from cohortsum.study.disclosure.waiving import check_waivers

Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
# no dot: `from: table.column` splits at the first
TableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]
Count = Annotated[int, Field(ge=1)]


class ColumnName(Model):
    """A column of a table; column names may hold dots, table names may not."""

    table: TableName
    column: Name


def _column_name(value: object) -> object:
    if not isinstance(value, str):
        return value
    table, dot, column = value.partition(".")
    if not dot:
        raise ValueError("expected table.column")
    return {"table": table, "column": column}


class VariableConfig(Model):
    """Where a variable of a study comes from; a column of the same name needs no entry.

    Attributes:
        source: the key ``from``: ``table.column``; without it, the column of the variable's name.
        codes: the site's codes and the study's levels; for a number, texts that stand for one (``89+``).
        unit: unit of the column; without it, the study's.
        missing: codes for "no value" in this column only.
        voxel_mm3: volume of one voxel, for a column in ``voxels``.
        constant: one value for everybody, instead of a column.
    """

    source: Annotated[ColumnName, BeforeValidator(_column_name)] | None = Field(default=None, alias="from")
    codes: Mapping[str, str] | None = None
    unit: Name | None = None
    missing: frozenset[str] = frozenset()
    voxel_mm3: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    constant: Name | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.constant is not None and (self.source or self.codes or self.missing):
            raise ValueError("expected either constant (with or without unit) or a column, not both")
        if (self.voxel_mm3 is not None) != (self.unit == "voxels"):
            raise ValueError("expected unit: voxels and voxel_mm3 together")
        if self.missing & set(self.codes or {}):
            raise ValueError("expected a code either under codes or under missing, not both")
        return self


class TablesConfig(Model):
    """The part of ``node.yaml`` that says how tables are read."""

    exclude: LocalPath | None = None
    tables: Mapping[TableName, TableConfig] = {}
    variables: Mapping[Name, VariableConfig] = {}

    @model_validator(mode="after")
    def _tables_exist(self) -> Self:
        for name, variable in self.variables.items():
            if self.tables and variable.source and variable.source.table not in self.tables:
                raise ValueError(
                    f"variable {name}: expected a table named under tables before the first dot of from"
                )
        return self

    def for_file(self, path: Path, person: str) -> "TablesConfig":
        """Return the facts for a site whose one table is ``path``, as `simulate` needs them.

        Without tables there is one, called ``data``, with the id column ``person``. Raises ConfigurationError
        if the file describes several tables.
        """
        if len(self.tables) > 1:
            raise ConfigurationError(
                f"node file: {len(self.tables)} tables, expected one; a simulated site has one file"
            )
        tables = self.tables or {"data": TableConfig(id=person)}
        for name, table in tables.items():
            if not table.is_file:
                raise ConfigurationError(
                    f"node file: tables.{name}.format: {table.format}, but a simulated site has a file"
                )
        return self.model_copy(
            update={
                "tables": {name: table.model_copy(update={"path": path}) for name, table in tables.items()}
            }
        )


Address = Annotated[str, StringConstraints(pattern=r"^[^\s:/]+:[0-9]{1,5}$")]


class NodeConfig(TablesConfig):
    """``node.yaml``: a site's facts. Nothing here is sent.

    Attributes:
        site: id in the roster.
        coordinator: host and port; the node only connects outward.
        standby: further addresses of the same coordinator, tried in turn while it does not answer.
        identity_key: file of the Ed25519 identity key.
        epoch: label of the data snapshot.
        exclude: file with one person id per line, left out of every cohort.
        tables: the site's tables by name; the first one is the covariate table.
        variables: how the study's variables are found in them.
        notices: how the admin is told that something waits; None tells nobody.
    """

    site: Identifier
    coordinator: Address
    standby: tuple[Address, ...] = ()
    identity_key: LocalPath
    epoch: Name
    notices: NoticeSettings | None = None

    @model_validator(mode="after")
    def _tables_have_files(self) -> Self:
        if not self.tables:
            raise ValueError("expected at least one table under tables")
        for name, table in self.tables.items():
            if table.path is None and table.is_file:
                raise ValueError(f"table {name}: expected a path")
        return self


class Thresholds(Model):
    """Bounds a site tightens; None keeps the profile's."""

    count: Count | None = None
    set_difference: Count | None = None
    site_totals: Literal["derivable", "protected"] | None = None
    pattern_difference: Count | None = None
    min_sites: Count | None = None
    min_participants: Count | None = None
    min_participants_per_site: Count | None = None
    max_colluding_sites: Annotated[int, Field(ge=0)] | None = None


class AutoApproval(Model):
    """A description of studies that are approved without asking; without max_epsilon also of those without noise."""

    statisticians: tuple[Identifier, ...]
    statistics: tuple[Name, ...]
    outcomes: tuple[Name, ...]
    max_epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    until: datetime.date


class Budget(Model):
    """The privacy budget of the data set's lifetime, over all studies."""

    epsilon: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
    delta: Annotated[float, Field(gt=0, le=1e-5)]


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected one line without characters that cannot be seen")
    return text


class Waiver(Model):
    """One rule of the profile set aside in public: what holds in its place, by whom, why and until when."""

    rule: Name
    value: str
    reason: Annotated[Name, StringConstraints(max_length=500), AfterValidator(_one_line)]
    by: Identifier
    until: datetime.date


class Egress(Model):
    """Who checks a release for this site."""

    checkers: tuple[Identifier, ...]


class PolicyConfig(Model):
    """``policy.yaml``: what a site allows. It starts from a profile and only tightens it.

    Attributes:
        profile: ``dpuk``, or ``open_data`` where the admin declares the data public.
        thresholds: bounds above those of profile and study.
        statistics: kinds of analyses allowed; None allows all.
        noise: kinds of noise allowed; None allows what the profile does.
        auto_approve: studies that are approved without asking.
        carry_over: let an approval hold for the next version where nothing but wording and dates changed.
        waivers: rules of the profile that this site sets aside; they stand in its approvals and on every result.
    """

    profile: Literal["dpuk", "open_data"] = "dpuk"
    thresholds: Thresholds = Thresholds()
    statistics: tuple[Name, ...] | None = None
    noise: tuple[Literal["distributed", "local", "none"], ...] | None = None
    auto_approve: tuple[AutoApproval, ...] = ()
    carry_over: bool = False
    budget: Budget | None = None
    waivers: tuple[Waiver, ...] = ()
    egress: Egress | None = None

    @model_validator(mode="after")
    def _waivers_mean_something(self) -> Self:
        if self.profile == "open_data" and self.waivers:
            raise ValueError("waivers: open_data has no rules to waive; remove them")
        try:
            check_waivers((waiver.rule, waiver.value) for waiver in self.waivers)
        except ConfigurationError as error:
            raise ValueError(error.message) from None
        return self


def refuse_unbuilt_policy(policy: PolicyConfig) -> None:
    """Raise NotInThisVersionError, naming every part of ``policy`` that this version cannot honour."""
    unbuilt = {
        "egress": policy.egress is not None,
    }
    asked = [feature for feature, present in unbuilt.items() if present]
    if asked:
        refuse(
            f"policy: {', '.join(asked)}",
            "remove these keys; who signs for a site is the site itself, where a study asks for it",
        )


def load_node_config(path: Path) -> NodeConfig:
    """Return the settings in ``path``; raises ConfigurationError with every fault in it."""
    return _validated(NodeConfig, path, *read_yaml(path))


def load_tables_config(path: Path) -> TablesConfig:
    """Return how tables are read by a node file that sites share; what is about one site is ignored."""
    data, lines = read_yaml(path)
    if isinstance(data, dict):
        own = set(NodeConfig.model_fields) - set(TablesConfig.model_fields)
        data = {key: value for key, value in cast("dict[str, object]", data).items() if key not in own}
    return _validated(TablesConfig, path, data, lines)


def load_policy_config(path: Path) -> PolicyConfig:
    """Return the policy in ``path``; raises ConfigurationError with every fault in it."""
    return _validated(PolicyConfig, path, *read_yaml(path))


Place = tuple[str | int, ...]
_M = TypeVar("_M", bound=BaseModel)


def _validated(model: type[_M], path: Path, data: object, lines: Mapping[Place, int]) -> _M:
    try:
        return model.model_validate(data, context={"folder": path.parent})
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
    said: dict[tuple[int, str], list[str]] = {}
    for fault in faults:
        place = fault["loc"]
        while (
            place not in lines
        ):  # pydantic adds parts that are no keys: union members, validators, absent keys
            place = place[:-1]
        field = ".".join(map(str, fault["loc"] if fault["type"] == "missing" else place)) or "file"
        expectations = said.setdefault((lines[place], field), [])
        sentence = _sentence(fault["type"], fault["msg"])
        if sentence not in expectations:
            expectations.append(sentence)
    raise ConfigurationError(
        "\n".join(
            f"{path.name}:{line}: {field}: {' or '.join(what)}"
            for (line, field), what in sorted(said.items())
        )
    )


def _sentence(kind: str, message: str) -> str:
    match kind:
        case "extra_forbidden":
            return "unknown key; correct its spelling or remove it"
        case "missing":
            return "required key is absent; add it"
        case _:
            expectation = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
            return expectation.replace("Input should be", "expected").replace(
                "String should", "expected text to"
            )


def read_yaml(path: Path) -> tuple[object, dict[Place, int]]:
    """Return the content of a YAML file, scalars as the text written, and the line of every key and item.

    Raises ConfigurationError for a file that cannot be read, broken YAML, repeated keys, tags and aliases.
    """
    try:
        root = compose(path.read_text("utf-8-sig"), yaml.BaseLoader)
    except OSError as error:
        raise ConfigurationError(cannot_be_read(path.name, error)) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path.name}: expected UTF-8 text; save it as such") from None
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        raise ConfigurationError(f"{path.name}:{line}: not YAML: {error.problem}; repair this line") from None
    except yaml.YAMLError:
        raise ConfigurationError(f"{path.name}: not YAML: holds a control character; remove it") from None
    lines: dict[Place, int] = {(): 1}
    faults: list[str] = []
    content: object = {} if root is None else _plain(root, (), lines, faults, set())
    if faults:
        raise ConfigurationError("\n".join(f"{path.name}:{fault}" for fault in faults))
    return content, lines


def _plain(
    node: yaml.Node, place: Place, lines: dict[Place, int], faults: list[str], seen: set[int]
) -> object:
    """Return ``node`` as text, lists and dicts; notes lines and faults on the way."""
    lines.setdefault(place, node.start_mark.line + 1)
    where = f"{lines[place]}: {'.'.join(map(str, place)) or 'file'}"
    if id(node) in seen:
        faults.append(f"{where}: an alias (*); write the value out")
        return ""
    seen.add(id(node))
    if node.tag not in {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}:
        faults.append(f"{where}: a tag (!); remove it")
        return ""
    match node:
        case yaml.ScalarNode():
            return str(node.value)
        case yaml.SequenceNode():
            return [
                _plain(item, (*place, index), lines, faults, seen) for index, item in enumerate(node.value)
            ]
        case yaml.MappingNode():
            content: dict[str, object] = {}
            for key_node, value_node in node.value:
                key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
                inner = (*place, key)
                line = key_node.start_mark.line + 1
                if key in content:
                    faults.append(f"{line}: {'.'.join(map(str, inner))}: the key is given twice; keep one")
                lines[inner] = line
                content[key] = _plain(value_node, inner, lines, faults, seen)
            return content
        case _:
            raise AssertionError("YAML has three kinds of nodes")
