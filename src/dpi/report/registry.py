"""An entry for the registry of deployments of differential privacy (opendp/deployments-registry-data), tier 3.

What a store knows is taken from it (`Deployment`); what only the organisation knows, from a small TOML file whose keys
are the registry's own names. Sees public facts.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from importlib import resources
from pathlib import Path

from dpi.errors import OptionError, meant
from dpi.report.deployment import Deployment

SCHEMA = "3e9c812"  # the commit of the registry whose schema entries are made for
NEEDED = ("data_curators", "intended_use", "data_product_region", "registry_authors")  # what no store knows
LISTS = ("data_curators", "registry_authors")
CHOICES = {
    "data_product_type": (
        "Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API", "SQL queries",
    ),
    "data_product_sector": ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
}  # fmt: skip
OPTIONAL = (
    "name", "description", "publication_date", "data_product_type", "data_product_sector", "sources", "notes",
    "justification", "actors", "preprocessing_and_hyperparameter_tuning", "url_slug",
)  # fmt: skip
About = Mapping[str, object]


def read_about(path: Path) -> dict[str, object]:
    """Return what an organisation says of itself and its product."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"the file {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"the file {path} is not TOML: {error}.") from None
    return {name: _check(name, value) for name, value in content.items()}


def _check(name: str, value: object) -> object:
    known = (*NEEDED, *OPTIONAL)
    if name not in known:
        raise OptionError(f"unknown key `{name}`{meant(name, known)}")
    if name in LISTS:
        if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
            raise OptionError(f"`{name}` must be a list of texts.")
        return value
    if name == "publication_date":
        try:
            return (value if isinstance(value, date) else date.fromisoformat(str(value))).isoformat()[:10]
        except ValueError:
            raise OptionError("`publication_date` must be a day such as 2026-01-31.") from None
    if not isinstance(value, str) or not value:
        raise OptionError(f"`{name}` must be a text.")
    if value not in CHOICES.get(name, (value,)):
        raise OptionError(f"`{name}` must be one of: {', '.join(CHOICES[name])}. Got {value!r}.")
    return value


def make_entry(deployment: Deployment, about: About) -> dict[str, object]:
    """Return the entry of a stream (`registry.toml`); refuse, and name in one sentence what is needed and missing."""
    missing = [name for name in NEEDED if name not in about]
    if not deployment.stream and "name" not in about:
        missing.append("name")
    if deployment.first_closing is None and "publication_date" not in about:
        missing.append("publication_date")
    if missing:
        raise OptionError(
            f"an entry needs `{'`, `'.join(missing)}`, which the store does not know: say it in the file of `--about`."
        )
    name = str(about.get("name", deployment.stream))
    facts: dict[str, object] = {
        "deployment": deployment,
        "slug": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "stream",
        "lasting": "over all time" if deployment.period is None else deployment.lasting,
        "signed": "signed " if deployment.signed else "",
        "program": deployment.program or "dpi",
    }
    template = resources.files(__package__).joinpath("registry.toml").read_text(encoding="utf-8")
    return _fill(tomllib.loads(template), {**about, "epsilon": deployment.epsilon}, facts)


def _fill(template: Mapping[str, object], about: About, facts: Mapping[str, object]) -> dict[str, object]:
    """Return a template with what was said about the stream, and else with its facts; empty texts are left out."""
    filled: dict[str, object] = {}
    for key, value in template.items():
        if isinstance(value, dict):
            filled[key] = _fill(value, about, facts)
        elif key in about:
            filled[key] = about[key]
        elif value != "":
            filled[key] = value.format(**facts) if isinstance(value, str) else value
    return filled


def to_yaml(content: Mapping[str, object]) -> str:
    """Return the entry as YAML: blocks, with texts as JSON writes them, which YAML reads.

    >>> print(to_yaml({"a": {"b": ["x: y"], "c": 1.5}}), end="")
    a:
      b:
        - "x: y"
      c: 1.5
    """
    return "".join(f"{line}\n" for line in _lines(content))


def _lines(value: object, indent: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            if isinstance(part, Mapping | list):
                yield f"{indent}{name}:"
                yield from _lines(part, indent + "  ")
            else:
                yield f"{indent}{name}: {json.dumps(part, ensure_ascii=False)}"
    elif isinstance(value, list):
        yield from (f"{indent}- {json.dumps(part, ensure_ascii=False)}" for part in value)
