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
from pathlib import Path

from dpi.errors import OptionError, meant
from dpi.report.deployment import Deployment

SCHEMA = "3e9c812"
"""The commit of the registry whose schema entries are made for."""
NEEDED = ("data_curators", "intended_use", "data_product_region", "registry_authors")
"""What no store knows."""
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
    """What an organisation says of itself and its product."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"the file {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"the file {path} is not TOML: {error}.") from None
    return {name: _checked(name, value) for name, value in content.items()}


def _checked(name: str, value: object) -> object:
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


def entry(found: Deployment, about: About) -> dict[str, object]:
    """The entry of a stream; names in one sentence what is needed and missing."""
    missing = [name for name in NEEDED if name not in about]
    if not found.stream and "name" not in about:
        missing.append("name")
    if found.first_closing is None and "publication_date" not in about:
        missing.append("publication_date")
    if missing:
        raise OptionError(
            f"an entry needs `{'`, `'.join(missing)}`, which the store does not know: say it in the file of `--about`."
        )
    name = str(about.get("name", found.stream))
    return {
        "url_slug": about.get("url_slug", re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "stream"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(found, about, name),
            "dp_variant": {
                "variant_name": "Pure DP",
                "data_domain": f"All streams of events (user, time, value) with values in a public domain "
                f"({found.domain}) and {found.clock}; both are declared before the data, by the curator's word.",
                "unprotected_quantities": "None. The domain, the options, the clock and the budget of every slot are "
                "public by declaration and not computed from the data.",
            },
            "privacy_loss": {
                "privacy_unit": "User, over all time" if found.period is None else f"User, {found.lasting}",
                "privacy_unit_details": "Two streams are adjacent if one is the other without all events of one user, "
                f"in all slots, for ever (unbounded, user level). One user is one id. {found.odds}",
                "privacy_parameters": {"epsilon": found.epsilon},
                "privacy_parameters_details": f"{found.guarantee} There is no δ. {found.spent}",
            },
            "deployment_model": _model(found, about),
            "accounting": {
                "post_processing": "Estimates over time, shares, intervals, answers and reports are functions of noisy "
                "measurements that are drawn once in a slot, and of earlier releases.",
                "composition": f"Sequential and adaptive over slots, per user: {found.budget}. What a slot has taken "
                "is debited in the transaction that stores its measurement.",
            },
            "implementation": _implementation(found, about),
            "administrative": {
                **{key: about[key] for key in ("sources", "notes") if key in about},
                "registry_authors": about["registry_authors"],
            },
        },
    }


def _basic(found: Deployment, about: About, name: str) -> dict[str, object]:
    described = (
        f"Statistics of user events, released slot after slot ({found.clock}): for each slot a distribution over "
        f"{found.domain}, with intervals. Releases so far: {found.span}."
    )
    return {
        "name": name,
        "data_curators": about["data_curators"],
        "intended_use": about["intended_use"],
        "data_product_type": about.get("data_product_type", "Summary statistics"),
        "data_product_region": about["data_product_region"],
        "description": about.get("description", described),
        "publication_date": about.get("publication_date", found.first_closing),
        **({"data_product_sector": about["data_product_sector"]} if "data_product_sector" in about else {}),
    }


def _model(found: Deployment, about: About) -> dict[str, object]:
    actors = (
        "The curator runs the program and holds events, accounts and keys: trusted. Analysts and everybody else see "
        "releases, certificates and options: not trusted, may collude, and may ask anything of releases. Auditors see "
        "the chain of certificates."
    )
    return {
        "model_name": "Central",
        "actors": about.get("actors", actors),
        "release_type": "Many releases",
        "release_type_details": f"One release in every slot ({found.clock}). ε = {found.epsilon:g} per user holds "
        f"{found.lasting}. Kept by {found.budget}.",
        "data_source_type": "Dynamic",
        "data_source_type_details": "Events come in over time; those of a slot are erased when it is closed.",
        "access_type": "Non-interactive",
        "access_type_details": "Questions are answered from releases, at no further loss, for any number of analysts.",
    }


def _implementation(found: Deployment, about: About) -> dict[str, object]:
    tree = " A tree of sums over time has a part of each slot's budget." if found.tree else ""
    signed, program = "signed " if found.signed else "", found.program or "dpi"
    tuning = (
        f"Per user and slot: {found.compression}. Options are declared before data is seen, by the curator's word. "
        "What the mechanism adapts, it adapts by earlier releases."
    )
    return {
        "preprocessing_and_hyperparameter_tuning": about.get("preprocessing_and_hyperparameter_tuning", tuning),
        "mechanisms": f"{found.mechanism[0].upper()}{found.mechanism[1:]}.{tree} Implemented by {program}: "
        "whole numbers from events to noise and exact samplers, so no floating-point error enters the "
        "guarantee; noise from the operating system. Slots close by a public clock and releases of a service are seen "
        "at public ticks. Users are named by keyed digests, events of a closed slot are erased. Releases are chained "
        f"by digests in {signed}certificates (head {found.head[:16]}…), which anybody can verify.",
        "justification": about.get(
            "justification",
            "User level over all time was chosen as the unit because people come back. The argument is written out "
            "part by part, tested on exact likelihoods, and audits try to refute it (the program's documentation).",
        ),
    }


def to_yaml(content: Mapping[str, object]) -> str:
    """The entry as YAML: blocks, with texts as JSON writes them, which YAML reads.

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
