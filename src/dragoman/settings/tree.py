"""The whole tree of settings, and the flat list of its keys."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from typing import Any, get_origin

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from dragoman.settings.cluster import ClusterSettings
from dragoman.settings.forms import DATA_DIR_PLACEHOLDER
from dragoman.settings.lab import LabSettings
from dragoman.settings.limits import LimitSettings
from dragoman.settings.scheduler import SchedulerSettings
from dragoman.settings.section import Section
from dragoman.settings.server import (
    AuthSettings,
    LogSettings,
    ServerSettings,
    StoreSettings,
    TracingSettings,
)

ENVIRONMENT_PREFIX = "DRAGOMAN_"
LEVEL_SEPARATOR = "__"


class Settings(Section):
    """All settings; they are checked once and never change afterwards."""

    server: ServerSettings = ServerSettings()
    auth: AuthSettings = AuthSettings()
    store: StoreSettings = StoreSettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()
    limits: LimitSettings = LimitSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    cluster: ClusterSettings = ClusterSettings()
    lab: LabSettings = LabSettings()


@dataclass(frozen=True)
class Key:
    """One thing that can be set, such as ``server.port``."""

    name: str
    default: Any
    meaning: str
    field: FieldInfo

    @property
    def section(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def leaf(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", LEVEL_SEPARATOR)

    @property
    def is_list(self) -> bool:
        return get_origin(self.field.annotation) is tuple

    @property
    def is_table(self) -> bool:
        return get_origin(self.field.annotation) is Mapping

    def adapter(self) -> TypeAdapter[Any]:
        """The validator of a single value of this key, without its section."""
        return TypeAdapter(self.field.rebuild_annotation())


def _sections(name: str, section: Section) -> Iterator[tuple[str, Section]]:
    yield name, section
    for field in type(section).model_fields:
        child = getattr(section, field)
        if isinstance(child, Section):
            yield from _sections(f"{name}.{field}" if name else field, child)


SECTIONS: Mapping[str, Section] = dict(_sections("", Settings()))
"""Every section by its dotted name, with its defaults; the root is the empty name."""


def _keys() -> Iterator[Key]:
    for name, section in SECTIONS.items():
        for leaf, field in type(section).model_fields.items():
            default = getattr(section, leaf)
            if not isinstance(default, Section):
                yield Key(f"{name}.{leaf}", default, field.description or "", field)


KEYS: Mapping[str, Key] = {key.name: key for key in _keys()}
"""Every key by its dotted name, in the order of the documentation."""


def value_of(settings: Settings, name: str) -> Any:
    """The value of a dotted key."""
    return reduce(getattr, name.split("."), settings)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """A tree from values by dotted key, as a settings file would hold it."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *sections, leaf = name.split(".")
        table = tree
        for section in sections:
            table = table.setdefault(section, {})
        table[leaf] = value
    return tree


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name closest to this one: alike in its section, or the same in another section."""
    section, _, leaf = name.rpartition(".")
    split = [(other, *other.rpartition(".")[::2]) for other in known]
    siblings = {word: other for other, place, word in split if place == section}
    alike = get_close_matches(leaf, siblings, n=1)
    if alike:
        return siblings[alike[0]]
    elsewhere = [other for other, _, word in split if word == leaf]
    return next(iter(get_close_matches(name, elsewhere, n=1, cutoff=0)), None)


def with_data_dir(settings: Settings) -> Settings:
    """The same settings with ``{data_dir}`` filled in where the databases' URLs name it."""
    data_dir = str(settings.server.data_dir)
    url = settings.store.database_url.replace(DATA_DIR_PLACEHOLDER, data_dir)
    store = settings.store.model_copy(update={"database_url": url})
    url = settings.lab.analytics_url.replace(DATA_DIR_PLACEHOLDER, data_dir)
    lab = settings.lab.model_copy(update={"analytics_url": url})
    return settings.model_copy(update={"store": store, "lab": lab})
