"""What a user of Tidemark gets, and under which licences: `make sbom`.

Writes into `dist/`: `sbom.cdx.json` (CycloneDX: locked packages and jars, and the jars inside pyspark), `licenses.md` and
`NOTICE`. It reads the locks and what is installed: both have to be of the same day.
"""

import contextlib
import hashlib
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

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

ROOT = Path(__file__).parents[2]
INSIDE_PYSPARK = "as named in pyspark's LICENSE"
_REVIEWED = tomllib.loads(Path(__file__).with_name("licenses.toml").read_text(encoding="utf-8"))
_NOTICE = re.compile(r"[^/]+\.dist-info/(.*/)?NOTICE(\.[^/]*)?$", re.IGNORECASE)
_SPDX = get_spdx_licensing()


class Part(NamedTuple):
    purl: PackageURL  # kind, group, name and version
    sha256: tuple[str, ...]  # what the lock pins it by; for a jar inside pyspark, what it has
    license: str  # an SPDX expression; `INSIDE_PYSPARK` for the jars that pyspark brings
    notices: tuple[str, ...]  # the texts of its NOTICE files

    @property
    def name(self) -> str:
        return ":".join(filter(None, (self.purl.namespace, self.purl.name)))

    def component(self, *inside: Component) -> Component:
        return Component(
            name=self.purl.name,
            group=self.purl.namespace,
            version=self.purl.version,
            purl=self.purl,
            bom_ref=f"{self.purl.to_string()}#{self.sha256[0][:12]}",
            # A package that is published as several files has a hash for each; the one that was installed is among them.
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in self.sha256],
            licenses=[] if self.license == INSIDE_PYSPARK else [LicenseFactory().make_from_string(self.license)],
            components=inside,
        )


def main(folder: Path = ROOT / "dist") -> None:
    found = [*python_packages(), *locked_jars(), *pyspark_jars()]
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("sbom.cdx.json", sbom(found)), ("licenses.md", licenses(found)), ("NOTICE", notice(found))):
        (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{folder / name}\n")


def locked_requirements() -> Iterator[tuple[Requirement, tuple[str, ...]]]:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if re.match(r"[a-z0-9]", line):
            requirement = Requirement(line.partition(" --hash")[0].strip())
            if requirement.marker is None or requirement.marker.evaluate():
                yield requirement, tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))


def python_packages() -> Iterator[Part]:
    """The packages of `requirements.lock`, as installed here. It ends where one is not, or states no licence that is known."""
    for requirement, hashes in locked_requirements():
        version = str(requirement.specifier).removeprefix("==")
        installed = distribution(requirement.name)
        if installed.version != version:
            sys.exit(f"{requirement.name} is locked as {version} and installed as {installed.version}: run `make dev`.")
        purl = PackageURL("pypi", name=requirement.name, version=version)
        stated = installed.metadata.json.get("license_expression") or installed.metadata.json.get("license")
        files = [file for file in installed.files or () if _NOTICE.match(str(file))]
        texts = (Path(str(file.locate())).read_text(encoding="utf-8", errors="replace") for file in files)
        yield Part(purl, hashes, _license("python", requirement.name, str(stated)), tuple(texts))


def _license(kind: str, name: str, stated: str = "") -> str:
    if name in _REVIEWED[kind]:
        return str(_REVIEWED[kind][name])
    with contextlib.suppress(ExpressionError):
        return str(_SPDX.parse(stated or "none", validate=True, strict=True))
    sys.exit(f"{name} states no licence as an SPDX expression: read its texts, and add it to tests/packaging/licenses.toml.")


def locked_jars() -> Iterator[Part]:
    text = jars.LOCK_FILE.read_text(encoding="utf-8")
    found = re.findall(r'<dependency org="([^"]+)" name="([^"]+)" rev="([^"]+)"', text)
    purls = {f"{name}-{version}.jar": PackageURL("maven", group, name, version) for group, name, version in found}
    for conf in jars.CONFIGURATIONS:
        folder = jars.fetch(conf)
        for file, sha256 in jars.pinned(conf).items():
            license_ = _license("jvm", str(purls[file].namespace))
            yield Part(purls[file], (sha256,), license_, tuple(_jar_notices(folder / conf / file)))


def pyspark_jars() -> Iterator[Part]:
    folder = Path(str(distribution("pyspark").locate_file("pyspark"))) / "jars"
    for jar in sorted(folder.glob("*.jar")):
        name, _, version = re.fullmatch(r"(.+?)(-(\d.*))?", jar.stem).groups()  # type: ignore[union-attr]  # matches any name
        purl = PackageURL("generic", name=name, version=version)
        yield Part(purl, (hashlib.sha256(jar.read_bytes()).hexdigest(),), INSIDE_PYSPARK, tuple(_jar_notices(jar)))


def _jar_notices(jar: Path) -> Iterator[str]:
    with zipfile.ZipFile(jar) as content:
        for name in content.namelist():
            if re.fullmatch(r"(META-INF/)?NOTICE(\.\w+)?", name, re.IGNORECASE):
                yield content.read(name).decode(errors="replace")


def sbom(found: list[Part]) -> str:
    bom = Bom()
    bom.metadata.component = Component(
        name="tidemark",
        version=lakehouse.__version__,
        type=ComponentType.APPLICATION,
        licenses=[LicenseFactory().make_with_id("Apache-2.0")],
        purl=PackageURL("pypi", name="tidemark-lakehouse", version=lakehouse.__version__),
    )
    inside = [part.component() for part in found if part.license == INSIDE_PYSPARK]
    for part in found:
        if part.license != INSIDE_PYSPARK:
            component = part.component(*(inside if part.name == "pyspark" else ()))
            bom.components.add(component)
            bom.register_dependency(bom.metadata.component, [component])
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2) + "\n"


def licenses(found: list[Part]) -> str:
    rows = sorted({(part.name, part.purl.version or "", part.license) for part in found}, key=lambda row: (row[0].lower(), row))
    lines = [f"| {name} | {version} | {stated} |" for name, version, stated in rows]
    return "\n".join(["# Licences", "", "| component | version | licence |", "|---|---|---|", *lines, ""])


def notice(found: list[Part]) -> str:
    owners: dict[str, list[str]] = {}
    for part in found:
        for text in part.notices:
            owners.setdefault("\n".join(line.rstrip() for line in text.strip().splitlines()), []).append(part.name)
    head = "Tidemark\nCopyright the Tidemark authors\n\nIt is used together with the following, whose notices are kept here.\n"
    return "\n".join([head, *(f"{'-' * 80}\n{', '.join(dict.fromkeys(names))}\n\n{text}\n" for text, names in owners.items())])


if __name__ == "__main__":
    main()
