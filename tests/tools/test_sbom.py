"""The list of what a core install holds is that of today's pins."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import dpi

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "sbom.cdx.json").read_text("utf-8")
BOM = json.loads(TEXT)


def plain(name):
    """A package's name in the one way that all spellings come down to."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_it_is_about_this_version():
    """CycloneDX, of the package as it is."""
    assert (BOM["bomFormat"], BOM["specVersion"]) == ("CycloneDX", "1.6")
    about = BOM["metadata"]["component"]
    assert (about["name"], about["version"]) == ("dpi-streams", dpi.__version__)


def test_packages_are_the_pinned_ones():
    """Every one is pinned at its version; what dpi asks for is among them. `make sbom` writes it anew."""
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").split())
    pinned = {plain(name): version for name, version in pins.items()}
    listed = {plain(part["name"]): part["version"] for part in BOM["components"]}
    assert listed == {name: pinned.get(name) for name in listed}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = {plain(re.split(r"[><=\[; ]", words)[0]) for words in project["dependencies"]}
    refs = {plain(part["name"]): part["bom-ref"] for part in BOM["components"]}
    (root,) = [part for part in BOM["dependencies"] if part["ref"] == BOM["metadata"]["component"]["bom-ref"]]
    assert set(root["dependsOn"]) == {refs[name] for name in asked}


def test_dependencies_are_listed():
    """What a package depends on is a package of the list; every one has its licence and its address in the format."""
    refs = {part["bom-ref"] for part in BOM["components"]}
    assert {ref for part in BOM["dependencies"] for ref in part.get("dependsOn", [])} <= refs
    assert [part["name"] for part in BOM["components"] if not part.get("licenses")] == []
    assert all(part["purl"] == f"pkg:pypi/{plain(part['name'])}@{part['version']}" for part in BOM["components"])


@pytest.mark.parametrize("pattern", [r"https?://(?!cyclonedx\.org/schema/)", r"file:", r'"/\w'])
def test_it_names_no_place(pattern):
    """No address but the schema's, and no path."""
    assert re.findall(pattern, TEXT) == []
