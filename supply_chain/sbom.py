"""A bill of materials in the form of CycloneDX; ``make sbom``.

It names what an installation with every extra has, and what is in the console's pages: versions,
licences, and which package needs which.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dragoman.version import __version__
from supply_chain.licences import licence_of
from supply_chain.packages import Pinned, npm_packages, pinned

_LICENCES = LicenseFactory()


def bill_of_materials() -> str:
    """The document, as JSON that fits CycloneDX's schema to the letter; raises when it does not."""
    text = JsonV1Dot6(_bom()).output_as_string(indent=2)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise ValueError(f"the bill of materials does not fit its schema: {wrong}")
    return text + "\n"


def _bom() -> Bom:
    bom = Bom()
    root = _component("pypi", "dragoman", __version__, "Apache-2.0", ComponentType.APPLICATION)
    bom.metadata.component = root
    bom.metadata.tools.components.add(
        Component(name="dragoman supply_chain", type=ComponentType.APPLICATION)
    )
    python = {
        package: _component("pypi", package.name, package.version, licence_of(package))
        for package in pinned("all.txt")
    }
    pages = [
        _component("npm", one.name, one.version, one.licence)
        for one in npm_packages()
        if one.is_shipped
    ]
    for component in (*python.values(), *pages):
        bom.components.add(component)
    installed = {package.name: one for package, one in python.items() if package.needed_here}
    direct = [installed[name] for name in _needs_of_the_program() if name in installed]
    bom.register_dependency(root, [*direct, *pages])
    for package, component in python.items():
        needs = [installed[name] for name in _needs(package) if name in installed]
        bom.register_dependency(component, needs)
    return bom


def _component(
    kind: str,
    name: str,
    version: str,
    licence: str,
    type_: ComponentType = ComponentType.LIBRARY,
) -> Component:
    scope, _, plain = name.rpartition("/")
    address = PackageURL(type=kind, namespace=scope or None, name=plain, version=version)
    return Component(
        name=plain,
        group=scope or None,
        version=version,
        type=type_,
        purl=address,
        bom_ref=str(address),
        licenses=[_LICENCES.make_from_string(licence)] if licence else [],
    )


def _needs_of_the_program() -> set[str]:
    return set(_needs(Pinned("dragoman", __version__, needed_here=True)))


def _needs(package: Pinned) -> Iterator[str]:
    """What the package asks for on this system; of extras, all that are installed count."""
    if package.needed_here and package.installed is not None:
        for line in package.installed.requires or ():
            requirement = Requirement(line)
            extras = package.installed.metadata.get_all("Provides-Extra") or []
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
            ):
                yield canonicalize_name(requirement.name)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(bill_of_materials())
    print(f"{sys.argv[1]}: {len(pinned('all.txt'))} packages of Python, and those of the pages")
