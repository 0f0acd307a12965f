"""Writes the Helm chart, deploy/helm, from the manifests of deploy/kubernetes: `make chart`.

    python tools/chart.py

The manifests are the one truth. A template is a manifest whose few words that users choose are values, named in
`CHOSEN`; a word that is not where it is expected is an error. What kustomize makes of files is made by the chart of its
values. The namespace is the release's own.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DEPLOY = Path(__file__).parents[1] / "deploy"
MANIFESTS, CHART = DEPLOY / "kubernetes", DEPLOY / "helm"
ABOUT = "{{/* Made by tools/chart.py from deploy/kubernetes/%s. */}}\n"
LABELS = "    metadata:\n      labels: {app: %s"
ROLLED = (
    '    metadata:\n      annotations: {checksum/config: "{{ toJson .Values.%s | sha256sum }}"}\n      labels: {app: %s'
)
CHOSEN: dict[str, list[tuple[str, str, int]]] = {
    "dpi.yaml": [
        ("image: dpi\n", "image: {{ .Values.image }}\n", 2),
        ("storageClassName: null", "storageClassName: {{ .Values.storage.witness | toJson }}", 1),
        (LABELS % "dpi}", ROLLED % ("config", "dpi}"), 1),
    ],
    "postgres.yaml": [
        ("storageClassName: null", "storageClassName: {{ .Values.storage.database | toJson }}", 1),
        (LABELS % "dpi-postgres,", ROLLED % ("postgres", "dpi-postgres,"), 1),
    ],
    "standby.yaml": [
        ("storageClassName: null", "storageClassName: {{ .Values.storage.standby | toJson }}", 1),
        (LABELS % "dpi-standby,", ROLLED % ("postgres", "dpi-standby,"), 1),
    ],
    "backup.yaml": [
        ("image: dpi\n", "image: {{ .Values.image }}\n", 1),
        ("storageClassName: null", "storageClassName: {{ .Values.storage.backup | toJson }}", 1),
        ('schedule: "5 * * * *"', "schedule: {{ .Values.schedule | toJson }}", 1),
    ],
    "ingress.yaml": [("dpi.example.org", "{{ .Values.host }}", 2)],
    "network.yaml": [],
}
"""By manifest: a text, what stands there in its template, and how often."""
MAPS = {"dpi-config": "config", "dpi-postgres-config": "postgres"}
"""Maps that kustomize makes of files, and the values that hold these."""
FILES = {"config": ["dpi.toml", "countries.txt"], "postgres": ["postgresql.conf", "pg_hba.conf"]}


def find_image() -> str:
    """Return the image that kustomize sets."""
    text = (MANIFESTS / "kustomization.yaml").read_text("utf-8")
    ((name, tag),) = re.findall(r"newName: (\S+), newTag: (\S+)}", text)
    return f"{name}:{tag}"


def make_about() -> str:
    """Return what Helm lists, with the program's version."""
    ((version),) = re.findall(r'__version__ = "(.+)"', (DEPLOY.parent / "src/dpi/_version.py").read_text("utf-8"))
    return (
        "apiVersion: v2\nname: dpi\ndescription: Publish what share of your users "
        "did what, every hour or day, with differential privacy.\n"
        f"type: application\nversion: {version}\nappVersion: {version}\n"
    )


def make_values() -> str:
    """Return what users choose, with the manifests' own as defaults."""
    lines = [
        "# Made by tools/chart.py. State others in a file of your own: helm install dpi deploy/helm -f values.yaml",
        f"image: {find_image()} # your registry, and the version",
        "host: dpi.example.org # of the ingress; its certificate is in the secret dpi-tls",
        'schedule: "5 * * * *" # of copies: as often as slots close',
        "storage: # classes; null is the cluster's own",
        "  database: null",
        "  standby: null # one that does not fail together with the database's",
        "  witness: null # another than the database's",
        "  backup: null # one that encrypts",
    ]
    for name, files in FILES.items():
        lines += [f"{name}: # files by name"]
        for file in files:
            text = (MANIFESTS / file).read_text("utf-8")
            lines += [f"  {file}: |", *(f"    {line}" if line else "" for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def make_maps() -> str:
    """Return the template of the maps that kustomize makes of files."""
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  {{- toYaml .Values.%s | nindent 2 }}\n"
    return "---\n".join(head % each for each in MAPS.items())


def make_template(name: str) -> str:
    """Return a manifest with values for what users choose."""
    text = (MANIFESTS / name).read_text("utf-8")
    if "{{" in text:
        raise SystemExit(f"{name} has braces, which a template would read.")
    for before, after, times in CHOSEN[name]:
        if text.count(before) != times:
            raise SystemExit(f"{name} has {before!r} {text.count(before)} times, and not {times}.")
        text = text.replace(before, after)
    return ABOUT % name + text


def make_chart() -> dict[Path, str]:
    """Return all files that are made, by their places."""
    made = {CHART / "templates" / name: make_template(name) for name in CHOSEN}
    beside = {CHART / "Chart.yaml": make_about(), CHART / "values.yaml": make_values()}
    return {**beside, CHART / "templates" / "config.yaml": make_maps(), **made}


def main() -> None:
    """Write all of it."""
    for path, text in make_chart().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    print(f"{CHART.name}: {len(make_chart())} files", file=sys.stderr)


if __name__ == "__main__":
    main()
