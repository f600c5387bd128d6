"""What a user of Tidemark gets, and under which licences: `make sbom`.

Writes into `dist/`: `sbom.cdx.json` (CycloneDX: the locked Python packages, the locked jars, and those inside pyspark),
`licenses.md` (a table of them) and `NOTICE` (the notices that they ask to be kept). Read from the locks and from what is
installed, so run it where both are of the same day.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from license_expression import ExpressionError, get_spdx_licensing
from packageurl import PackageURL
from packaging.requirements import Requirement

import lakehouse
from lakehouse.machine import jars

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
INSIDE_PYSPARK = "as named in pyspark's LICENSE"
_REVIEWED = tomllib.loads(Path(__file__).with_name("licenses.toml").read_text(encoding="utf-8"))
_SPDX = get_spdx_licensing()


@dataclass(frozen=True)
class Part:
    """Something that a user gets.

    Attributes:
        purl: Its package URL: kind, group, name, version.
        sha256: What the lock pins it by; for a jar inside pyspark, what it has.
        license: An SPDX expression; `INSIDE_PYSPARK` for the jars that pyspark brings.
        notices: The texts of its NOTICE files.
    """

    purl: PackageURL
    sha256: tuple[str, ...]
    license: str
    notices: tuple[str, ...] = ()


def main(folder: Path = ROOT / "dist") -> None:
    """Write the three files."""
    found = [*python_packages(), *locked_jars(), *pyspark_jars()]
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("sbom.cdx.json", sbom(found)), ("licenses.md", licenses(found)), ("NOTICE", notice(found))):
        (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{folder / name}\n")


def locked_requirements() -> Iterator[tuple[Requirement, tuple[str, ...]]]:
    """The entries of `requirements.lock` that hold on this platform, with their hashes."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if re.match(r"[a-z0-9]", line):
            requirement = Requirement(line.partition(" --hash")[0].strip())
            if requirement.marker is None or requirement.marker.evaluate():
                yield requirement, tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))


def python_packages() -> Iterator[Part]:
    """The packages of `requirements.lock`, as installed here.

    Raises:
        SystemExit: One is not installed in the locked version, or states no licence that is known.
    """
    for requirement, hashes in locked_requirements():
        version = str(requirement.specifier).removeprefix("==")
        installed = distribution(requirement.name)
        if installed.version != version:
            sys.exit(f"{requirement.name} is locked as {version} and installed as {installed.version}: run `make dev`.")
        purl = PackageURL("pypi", name=requirement.name, version=version)
        yield Part(purl, hashes, _stated_license(requirement.name, installed), tuple(_notices(installed)))


def _stated_license(name: str, installed: Distribution) -> str:
    if name in _REVIEWED["python"]:
        return str(_REVIEWED["python"][name])
    stated = installed.metadata.json.get("license_expression") or installed.metadata.json.get("license") or ""
    try:
        parsed = _SPDX.parse(str(stated), validate=True, strict=True)
    except ExpressionError:
        parsed = None
    return _unknown(name) if parsed is None else str(parsed)


def _unknown(name: str) -> NoReturn:
    sys.exit(f"{name} states no licence as an SPDX expression: read its texts, and add it to tests/packaging/licenses.toml.")


def _notices(installed: Distribution) -> Iterator[str]:
    for file in installed.files or ():
        if file.name.upper().split(".")[0] == "NOTICE" and file.parent.parts[:1] and ".dist-info" in file.parts[0]:
            yield Path(str(file.locate())).read_text(encoding="utf-8", errors="replace")


@cache
def _groups() -> dict[str, tuple[str, str, str]]:
    """Group, name and version of each jar of the lock, by its file name."""
    text = jars.LOCK_FILE.read_text(encoding="utf-8")
    found = re.findall(r'<dependency org="([^"]+)" name="([^"]+)" rev="([^"]+)"', text)
    return {f"{name}-{version}.jar": (group, name, version) for group, name, version in found}


def locked_jars() -> Iterator[Part]:
    """The jars of Spark, of the local broker and of the object stores, as the lock pins them."""
    for conf in jars.CONFIGURATIONS:
        folder = jars.fetch(conf)
        for file, sha256 in jars.pinned(conf).items():
            group, name, version = _groups()[file]
            purl = PackageURL("maven", group, name, version)
            license_ = _REVIEWED["jvm"].get(group) or _unknown(f"{group}:{name}")
            yield Part(purl, (sha256,), license_, tuple(_jar_notices(folder / conf / file)))


def pyspark_jars() -> Iterator[Part]:
    """The jars inside pyspark: part of a package that is pinned by its hash, and under the licences that its LICENSE names."""
    folder = Path(str(distribution("pyspark").locate_file("pyspark"))) / "jars"
    for jar in sorted(folder.glob("*.jar")):
        name, _, version = re.fullmatch(r"(.+?)(-(\d.*))?", jar.stem).groups()  # type: ignore[union-attr]  # matches any name
        purl = PackageURL("generic", name=name, version=version.removeprefix("-") if version else None)
        yield Part(purl, (hashlib.sha256(jar.read_bytes()).hexdigest(),), INSIDE_PYSPARK, tuple(_jar_notices(jar)))


def _jar_notices(jar: Path) -> Iterator[str]:
    with zipfile.ZipFile(jar) as content:
        for name in content.namelist():
            if re.fullmatch(r"(META-INF/)?NOTICE(\.\w+)?", name, re.IGNORECASE):
                yield content.read(name).decode(errors="replace")


def sbom(found: list[Part]) -> str:
    """The parts as CycloneDX 1.6, in JSON. The jars inside pyspark are pyspark's components."""
    bom = Bom()
    bom.metadata.component = Component(
        name="tidemark",
        version=lakehouse.__version__,
        type=ComponentType.APPLICATION,
        licenses=[LicenseFactory().make_with_id("Apache-2.0")],
        purl=PackageURL("pypi", name="tidemark-lakehouse", version=lakehouse.__version__),
    )
    inside = [_component(part) for part in found if part.license == INSIDE_PYSPARK]
    for part in found:
        if part.license != INSIDE_PYSPARK:
            component = _component(part)
            if part.purl.name == "pyspark":
                component.components = inside
            bom.components.add(component)
            bom.register_dependency(bom.metadata.component, [component])
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2) + "\n"


def _component(part: Part) -> Component:
    stated = part.license if part.license != INSIDE_PYSPARK else None
    return Component(
        name=part.purl.name,
        group=part.purl.namespace,
        version=part.purl.version,
        purl=part.purl,
        bom_ref=f"{part.purl.to_string()}#{part.sha256[0][:12]}",
        # A package that is published as several files has a hash for each; the one that was installed is among them.
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in part.sha256],
        licenses=[LicenseFactory().make_from_string(stated)] if stated else None,
    )


def licenses(found: list[Part]) -> str:
    """The parts as a Markdown table."""
    rows = sorted({(_named(part), part.purl.version or "", part.license) for part in found}, key=lambda row: row[0].lower())
    lines = [f"| {name} | {version} | {stated} |" for name, version, stated in rows]
    return "\n".join(["# Licences", "", "| component | version | licence |", "|---|---|---|", *lines, ""])


def _named(part: Part) -> str:
    return f"{part.purl.namespace}:{part.purl.name}" if part.purl.namespace else part.purl.name


def notice(found: list[Part]) -> str:
    """The notices of the parts, each text once, with whom it is of."""
    owners: dict[str, list[str]] = {}
    for part in found:
        for text in part.notices:
            owners.setdefault("\n".join(line.rstrip() for line in text.strip().splitlines()), []).append(_named(part))
    head = [
        "Tidemark",
        "Copyright the Tidemark authors",
        "",
        "It is used together with the following, whose notices are kept here.",
    ]
    parts = [f"{'-' * 80}\n{', '.join(dict.fromkeys(names))}\n\n{text}\n" for text, names in owners.items()]
    return "\n".join([*head, "", *parts])


if __name__ == "__main__":
    main()
