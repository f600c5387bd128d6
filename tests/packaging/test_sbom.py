"""What a user gets: all of it is named, under a licence that was looked at."""

import json
import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing
from packaging.requirements import Requirement

from lakehouse.machine import jars
from tests.packaging import sbom

# Each is approved by the Open Source Initiative, but CC0-1.0, a dedication to the public domain of one file inside numpy.
APPROVED = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Zlib")
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    sbom.main(folder)
    return folder


@pytest.fixture(scope="module")
def components(written: Path) -> list[dict[str, Any]]:
    text = (written / "sbom.cdx.json").read_text(encoding="utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found: list[dict[str, Any]] = json.loads(text)["components"]
    return found


def test_it_is_valid_and_names_each_python_package_that_make_setup_installs(components: list[dict[str, Any]]) -> None:
    text = (sbom.ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = list(map(Requirement, re.findall(r"(?m)^([a-z0-9.-]+==[^\\\n]+)", text)))
    # Some are for other platforms, where a tool of ours has them here.
    here = [each for each in entries if each.marker is None or each.marker.evaluate()]
    locked = {f"pkg:pypi/{each.name}@{str(each.specifier).removeprefix('==')}" for each in here}
    assert {each["purl"] for each in components if each["purl"].startswith("pkg:pypi/")} == locked
    assert "pkg:pypi/pyspark@4.2.0" in locked


def test_it_names_each_jar_of_the_lock_by_its_hash_and_those_inside_pyspark(components: list[dict[str, Any]]) -> None:
    named = {digest["content"] for each in components if each["purl"].startswith("pkg:maven/") for digest in each["hashes"]}
    assert named == {digest for conf in jars.CONFIGURATIONS for digest in jars.pinned(conf).values()}
    (pyspark,) = [each for each in components if each["name"] == "pyspark"]
    files = {"-".join(filter(None, (each["name"], each.get("version")))) + ".jar" for each in pyspark["components"]}
    folder = distribution("pyspark").locate_file("pyspark/jars")
    assert files == {jar.name for jar in folder.glob("*.jar")}  # type: ignore[attr-defined]  # a Path, for an installed package


def test_every_licence_was_approved_and_no_other_package_was_reviewed() -> None:
    spdx, of_jvm = get_spdx_licensing(), list(sbom.locked_jars())
    parts = [*sbom.python_packages(), *of_jvm]
    assert {part.purl.name: part.license for part in parts if set(spdx.license_keys(part.license)) - APPROVED} == {}
    reviewed = sbom._REVIEWED
    assert set(reviewed["python"]) <= {requirement.name for requirement, _ in sbom.locked_requirements()}
    assert set(reviewed["jvm"]) == {part.purl.namespace for part in of_jvm}


def test_notices_are_kept_and_the_table_of_licences_names_every_part(written: Path, components: list[dict[str, Any]]) -> None:
    text = (written / "NOTICE").read_text(encoding="utf-8")
    assert re.search(r"Apache Spark\nCopyright", text)
    assert "Apache Kafka\nCopyright" in text
    assert "Delta Lake" in text
    table = (written / "licenses.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert {f"{each['group']}:{each['name']}" if "group" in each else each["name"] for each in components} <= set(rows)
