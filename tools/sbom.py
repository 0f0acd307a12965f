"""Lists what a core install holds, as CycloneDX: deploy/sbom.cdx.json.

    python tools/sbom.py     # `make sbom`, which installs the tool; needs a package index

Builds the wheel, installs it with its pinned dependencies into an empty environment, and has `cyclonedx-py`, the tool
of those who define the format, list that environment. Addresses are left out: a package's name and version say what it
is, wherever it was fetched from.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).resolve().parent.parent
BOM = ROOT / "deploy" / "sbom.cdx.json"


def installed(folder: Path) -> tuple[Path, str]:
    """Return the interpreter of an environment of dpi and its dependencies, without installer; and dpi's version."""
    run = [sys.executable, "-m"]
    subprocess.run([*run, "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*run, "venv", "--without-pip", folder / "core"], check=True)
    python = folder / "core" / "bin" / "python"
    options = ["--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*run, "pip", "--python", str(python), "install", *options, str(wheel)], check=True)
    return python, wheel.name.split("-")[1]


def listed(python: Path) -> dict[str, Any]:
    """Return what the tool says of an environment, without times and random numbers."""
    options = ["--pyproject", "pyproject.toml", "--mc-type", "library", "--short-PURLs", "--output-reproducible"]
    command = [sys.executable, "-m", "cyclonedx_py", "environment", *options, str(python)]
    bill: dict[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    return bill


def of_the_core(bom: dict[str, Any], version: str) -> None:
    """State the version, which pyproject.toml does not, and no dependency of dpi that one of its extras asks for."""
    root = bom["metadata"]["component"]
    root["version"] = version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = {re.split(r"[><=]", words)[0] for words in project["dependencies"]}
    for part in bom["dependencies"]:
        if part["ref"] == root["bom-ref"]:
            part["dependsOn"] = [ref for ref in part["dependsOn"] if ref.partition("==")[0] in asked]


def without_addresses(part: Any) -> Any:
    """Return the same without references to other places."""
    if isinstance(part, dict):
        return {name: without_addresses(value) for name, value in part.items() if name != "externalReferences"}
    return [without_addresses(value) for value in part] if isinstance(part, list) else part


def main() -> None:
    """Write the list, checked against the schema."""
    with tempfile.TemporaryDirectory() as folder:
        python, version = installed(Path(folder))
        bom = without_addresses(listed(python))
    of_the_core(bom, version)
    text = json.dumps(bom, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        sys.exit(f"{BOM.name} would not be CycloneDX: {problem}")
    BOM.write_text(text, "utf-8")
    print(f"{len(bom['components'])} packages in {BOM.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
