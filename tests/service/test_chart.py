"""The Helm chart is made of the manifests, and gives what kustomize gives."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import dpi
from service.test_cluster import OBJECTS

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))


def look_up(path: str, values: dict[str, Any]) -> Any:
    """The value that a template names."""
    found: Any = values
    for name in path.split("."):
        found = found[name]
    return found


def render(text: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """What Helm makes of a template that has values alone: the few forms that the chart uses, and no other."""
    text = re.sub(r"\{\{/\*.*?\*/\}\}\n", "", text)

    def write(match: re.Match[str]) -> str:
        found = look_up(match["path"], values)
        match match["form"], match["more"]:
            case "", "":
                return str(found)
            case "", " | toJson":
                return json.dumps(found)
            case "toJson ", " | sha256sum":
                compact = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                for sign in "&<>":  # as Go writes them
                    compact = compact.replace(sign, f"\\u{ord(sign):04x}")
                return hashlib.sha256(compact.encode()).hexdigest()
            case "toYaml ", " | nindent 2":
                return "\n" + "".join(f"  {json.dumps(key)}: {json.dumps(each)}\n" for key, each in found.items())
            case form:
                raise AssertionError(form)

    pattern = (
        r"(?:\n\s*)?\{\{-? (?P<form>(?:toJson |toYaml )?)\.Values\.(?P<path>[\w.]+)(?P<more>(?: \| [\w ]+?)?) \}\}"
    )
    found = re.sub(r"\n\s*(?=\{\{-)", "", text)
    found = re.sub(pattern, write, found)
    assert "{{" not in found
    return list(yaml.safe_load_all(found))


def objects(values: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """All objects of the chart, by kind and name."""
    made = [
        each for path in sorted((CHART / "templates").iterdir()) for each in render(path.read_text("utf-8"), values)
    ]
    return {(each["kind"], each["metadata"]["name"]): each for each in made}


def test_the_chart_is_made_of_the_manifests() -> None:
    """`make chart` changes nothing."""
    made = runpy.run_path(str(ROOT / "tools" / "chart.py"))["make_chart"]()
    assert {path: path.read_text("utf-8") for path in made} == made
    assert {*made} == {CHART / "Chart.yaml", CHART / "values.yaml", *(CHART / "templates").iterdir()}
    assert VALUES["image"] == f"dpi:{dpi.__version__}"


def test_it_gives_what_kustomize_gives() -> None:
    """All objects but the namespace; beside the image, pods have a digest of their configuration."""
    expected = json.loads(json.dumps(OBJECTS).replace('"image": "dpi"', f'"image": "{VALUES["image"]}"'))
    found = objects(VALUES)
    rolled = 0
    for each in found.values():
        if each["kind"] == "StatefulSet":
            notes = each["spec"]["template"]["metadata"].pop("annotations")
            assert re.fullmatch("[0-9a-f]{64}", notes["checksum/config"])
            rolled += 1
    assert rolled == 3
    of = {(each["kind"], each["metadata"]["name"]): each for each in expected if each["kind"] != "Namespace"}
    assert found == of


def test_values_are_used() -> None:
    """Each that a user states stands in what is made; another configuration has another digest."""
    chosen = json.loads(json.dumps(VALUES))
    chosen |= {"image": "registry.example/dpi:1", "host": "stats.example.org", "schedule": "35 0 * * *"}
    chosen["storage"] = {name: f"class-of-{name}" for name in VALUES["storage"]}
    chosen["config"]["dpi.toml"] += "# another line\n"
    before, after = objects(VALUES), objects(chosen)
    text = json.dumps([*after.values()])
    for value, times in (("registry.example/dpi:1", 3), ("stats.example.org", 2), ("35 0 * * *", 1), ("class-of-", 4)):
        assert text.count(value) == times
    notes = "metadata", "annotations"
    pods = [each["StatefulSet", "dpi"]["spec"]["template"] for each in (before, after)]
    assert len({pod[notes[0]][notes[1]]["checksum/config"] for pod in pods}) == 2


def test_helm_renders_the_same() -> None:
    """By Helm itself, where it is."""
    if (helm := shutil.which("helm")) is None:
        pytest.skip("needs Helm, one program without others: helm.sh/docs/intro/install")
    done = subprocess.run([helm, "template", "dpi", str(CHART)], capture_output=True, text=True, check=True)
    found = [each for each in yaml.safe_load_all(done.stdout) if each is not None]
    assert {(each["kind"], each["metadata"]["name"]): each for each in found} == objects(VALUES)
