"""What is published: equal bytes twice, hashes, a statement of how it was made, workflows that hold no secret."""

import hashlib
import importlib.util
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import dpi

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LACKS = "which this system lacks: use Linux or macOS"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture
def release(monkeypatch, tmp_path):
    """The tool, which writes to a folder of this test."""
    spec = importlib.util.spec_from_file_location("release_tool", ROOT / "tools" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DIST", tmp_path / "dist")
    monkeypatch.setattr(
        module, "git", lambda *words: {"tag": f"v{dpi.__version__}", "rev-parse": "f" * 40}.get(words[0], "")
    )
    return module


@pytest.fixture
def source(tmp_path):
    """A tree that could be released."""
    folder = tmp_path / "source"
    for name in (
        "src/dpi/_version.py",
        *(f"packages/{each}/pyproject.toml" for each in ("audit", "research", "spark")),
    ):
        (folder / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {dpi.__version__}\n\n* x\n")
    (folder / "deploy").mkdir()
    (folder / "deploy" / "sbom.cdx.json").write_text(
        json.dumps({"metadata": {"component": {"version": dpi.__version__}}})
    )
    (folder / "tests" / "store" / "stores").mkdir(parents=True)
    (folder / "tests" / "store" / "stores" / f"{dpi.__version__}.json").write_text("{}")
    return folder


def test_a_release_lacks_nothing(release, source):
    """Versions, changelog, tag and checkout agree."""
    assert release.missing(source) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("packages/audit/pyproject.toml", f'version = "{dpi.__version__}"', 'version = "9"'), "packages/audit"),
        (("packages/research/pyproject.toml", f"audit=={dpi.__version__}", "audit==9"), "packages/research"),
        (("CHANGELOG.md", "# Changelog\n", "# Changelog\n\n## Unreleased\n\n* y\n"), "begins with 'Unreleased'"),
        (("deploy/sbom.cdx.json", dpi.__version__, "9"), "make sbom"),
    ],
)
def test_what_a_release_lacks_is_said(release, source, change, said):
    """One thing each."""
    name, old, new = change
    text = (source / name).read_text()
    assert old in text
    (source / name).write_text(text.replace(old, new, 1))
    (problem,) = release.missing(source)
    assert said in problem


def test_a_commit_without_a_tag_or_with_changes_is_no_release(release, source, monkeypatch):
    """Both are said."""
    monkeypatch.setattr(release, "git", lambda *words: {"status": " M x"}.get(words[0], ""))
    assert len(release.missing(source)) == 2


def test_stores_for_later_versions_are_asked_for(release, source):
    """A version whose stores nobody kept cannot be tested for."""
    (source / "tests" / "store" / "stores" / f"{dpi.__version__}.json").unlink()
    (problem,) = release.missing(source)
    assert "tools/old_stores.py" in problem


def test_a_version_is_set_wherever_one_stands(release, tmp_path):
    """In a copy of this tree: every place is found, and afterwards none is missing."""
    for pattern, stated in release.STATED:
        for path in ROOT.glob(pattern):
            (tmp_path / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tmp_path / path.relative_to(ROOT))
            assert set(re.findall(stated, path.read_text("utf-8"), re.MULTILINE)) <= {dpi.__version__}, path
    changed = release.set_version(tmp_path, "9.8.7")
    assert {"src/dpi/_version.py", "packages/spark/pyproject.toml", "deploy/conda/recipe.yaml"} <= set(changed)
    assert release.version_of(tmp_path) == "9.8.7"
    assert '"dpi-streams-audit==9.8.7"' in (tmp_path / "packages/research/pyproject.toml").read_text("utf-8")
    assert release.set_version(tmp_path, "9.8.7") == []


def test_nothing_is_built_while_something_is_missing(release, source, monkeypatch, capsys):
    """It is said at once; a rehearsal builds nevertheless, and is no release."""
    built = []
    monkeypatch.setattr(release, "committed", lambda _: source)
    monkeypatch.setattr(release, "make", lambda *_: built.append(1) or [])
    monkeypatch.setattr(release, "git", lambda *_: "")
    monkeypatch.setattr(sys, "argv", ["release.py", "--build"])
    assert release.main() == 1
    assert f"missing: the commit has no tag v{dpi.__version__}." in capsys.readouterr().out
    assert built == []
    monkeypatch.setattr(sys, "argv", ["release.py", "--build", "--rehearse"])
    assert release.main() == 1
    assert built == [1]
    monkeypatch.setattr(release, "git", lambda *words: f"v{dpi.__version__}" if words[0] == "tag" else "")
    monkeypatch.setattr(sys, "argv", ["release.py", "--build"])
    assert release.main() == 0


def test_packages_are_the_same_bytes_twice_and_stated(release, monkeypatch, tmp_path):
    """One of the four, from two places; a build that depends on where it is made is noticed."""
    monkeypatch.setattr(release, "PACKAGES", ("packages/spark",))
    shutil.copytree(ROOT / "packages" / "spark", tmp_path / "tree" / "packages" / "spark")
    for name in ("constraints.txt", "deploy/locked.txt", "Makefile", "tools/release.py"):
        (tmp_path / "tree" / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "tree" / name)
    assert release.build_twice(tmp_path / "tree", tmp_path, "1767225600") == []
    told = release.statement(tmp_path / "tree", dpi.__version__, "1767225600")
    assert told == release.statement(tmp_path / "tree", dpi.__version__, "1767225600")
    stated = {each["name"]: each["digest"]["sha256"] for each in told["subject"]}
    made = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "dist").iterdir()}
    assert len(made) == 2
    assert stated == made
    (tmp_path / "dist" / "more.txt").write_text("x")
    assert not release._same(tmp_path / "dist" / "more.txt", tmp_path / "again" / "more.txt")
    assert json.dumps(told).count(str(tmp_path)) == 0


def test_every_locked_package_is_pinned_and_has_hashes():
    """At the versions that are tested; with no address. `make lock` writes them anew."""
    text = (ROOT / "deploy" / "locked.txt").read_text("utf-8")
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").split())
    plain = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins.items()}
    parts = re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==(\S+)(.*(?:\n    .*)*)", text, re.MULTILINE)
    assert {name: version for name, version, _ in parts} == {name: plain[name] for name, *_ in parts}
    assert all(re.findall(r"--hash=sha256:[0-9a-f]{64}", rest) for *_, rest in parts)
    wanted = [*PROJECT["dependencies"]]
    for extra in ("service", "postgres", "oidc"):
        wanted += PROJECT["optional-dependencies"][extra]
    assert {re.split(r"[><=\[; ]", words)[0].lower() for words in wanted} <= {name for name, *_ in parts}
    assert "://" not in text


def test_workflows_hold_no_secret_and_pin_what_they_use():
    """Actions by commit; a token of identity only where something is signed or published; no address at all."""
    found = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in WORKFLOWS}
    assert set(found) == {"nightly", "release", "test"}
    jobs = {f"{name} {job}": each for name, flow in found.items() for job, each in flow["jobs"].items()}
    uses = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert len(uses) >= 8
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", each) for each in uses)
    writing = {name for name, job in jobs.items() if "write" in job.get("permissions", {}).values()}
    assert writing == {"release build", "release publish"}
    assert jobs["release publish"]["permissions"] == {"id-token": "write"}
    assert all(flow["permissions"] == {"contents": "read"} for flow in found.values())
    text = "".join(path.read_text("utf-8") for path in WORKFLOWS)
    assert not re.search(r"://|secrets\.|password:|\.org|\.io", text)


def test_the_matrix_is_that_of_the_classifiers():
    """Every Python that the package claims is tried, by workflows and by the tool."""
    claimed = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))
    assert flow["jobs"]["wheel"]["strategy"]["matrix"]["python"] == claimed
    platforms = flow["jobs"]["platforms"]["strategy"]["matrix"]
    assert platforms["python"] == claimed
    assert [each.partition("-")[0] for each in platforms["system"]] == ["ubuntu", "macos", "windows"]
    assert LACKS in "".join(step.get("run", "") for step in flow["jobs"]["platforms"]["steps"])
    assert {claimed[0], claimed[-1]} == set(flow["jobs"]["test"]["strategy"]["matrix"]["python"])
    assert str(claimed).replace("'", '"')[1:-1] in (ROOT / "tools" / "release.py").read_text("utf-8")


def test_workflows_call_what_is_there():
    """Targets of the Makefile."""
    text = "".join(path.read_text("utf-8") for path in WORKFLOWS)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"make ([a-z-]+) PYTHON", text)) == {"nightly", "release", "test"} <= set(targets)


def test_the_conda_recipe_is_that_of_the_core():
    """Its version, its dependencies, its Python and its program."""
    text = (ROOT / "deploy" / "conda" / "recipe.yaml").read_text("utf-8")
    recipe = yaml.safe_load(text)
    assert recipe["context"]["version"] == dpi.__version__
    listed = {each.replace(" ", "") for each in recipe["requirements"]["run"]}
    wanted = {each.replace("tzdata", "python-tzdata") for each in PROJECT["dependencies"]}
    assert listed == wanted | {f"python{PROJECT['requires-python']}"}
    assert recipe["build"]["python"]["entry_points"] == [f"dpi = {PROJECT['scripts']['dpi']}"]
    assert recipe["about"]["license"] == PROJECT["license"]
    assert "://" not in text


def test_the_tool_knows_a_python_that_does_not_start(release):
    """A name on the path that is no working program is passed over."""
    assert release.working(sys.executable)
    assert not release.working("python3.99")
