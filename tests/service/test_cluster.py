"""Manifests for Kubernetes and rules for Prometheus fit the program: its options, routes, user, image and metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

import dpi
from dpi.cli._parameters import options_of
from dpi.service._metrics import Metrics
from dpi.service._routes import ENDPOINTS
from dpi.service.config import BODY, Config, read_streams

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = DEPLOY / "kubernetes"
WHOLE = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text("utf-8"))
FILES = WHOLE["resources"]
MAPS = {
    each["name"]: {name: (MANIFESTS / name).read_text("utf-8") for name in each["files"]}
    for each in WHOLE["configMapGenerator"]
}
OBJECTS: list[dict[str, Any]] = [
    *(each for name in FILES for each in yaml.safe_load_all((MANIFESTS / name).read_text("utf-8"))),
    *(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        for name, data in MAPS.items()
    ),
]
BY_NAME = {(each["kind"], each["metadata"]["name"]): each for each in OBJECTS}
CONFIG = MAPS["dpi-config"]
EXTERNAL = {"up"}
"""A metric that Prometheus makes itself."""


def pods() -> dict[str, dict[str, Any]]:
    """The pods that the manifests start, by the name of what starts them."""
    found = {name: each["spec"]["template"] for (kind, name), each in BY_NAME.items() if kind == "StatefulSet"}
    found["dpi-backup"] = BY_NAME["CronJob", "dpi-backup"]["spec"]["jobTemplate"]["spec"]["template"]
    return found


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """All containers of a pod, those that come first included."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def test_every_file_is_applied() -> None:
    """The list names each, and all objects are in one namespace."""
    stated = {name for data in MAPS.values() for name in data}
    assert {*FILES, *stated, "kustomization.yaml"} == {path.name for path in MANIFESTS.iterdir()}
    assert WHOLE["namespace"] == "dpi"
    assert not [each for each in OBJECTS if "namespace" in each["metadata"]]
    assert len(BY_NAME) == len(OBJECTS)


def test_kustomize_makes_the_same(tmp_path: Path) -> None:
    """All objects in the namespace, with the one image; a file of the configuration that changes starts pods anew."""
    if (kubectl := shutil.which("kubectl")) is None:
        pytest.skip("needs kubectl, which has kustomize: kubernetes.io/docs/tasks/tools")

    def build() -> list[dict[str, Any]]:
        done = subprocess.run([kubectl, "kustomize", str(tmp_path)], capture_output=True, text=True, check=True)
        return list(yaml.safe_load_all(done.stdout))

    shutil.copytree(MANIFESTS, tmp_path, dirs_exist_ok=True)
    found = build()
    assert len(found) == len(OBJECTS)
    assert {each["metadata"].get("namespace", "dpi") for each in found} == {"dpi"}
    assert json.dumps(found).count(f'"image": "dpi:{dpi.__version__}"') == 3
    with (tmp_path / "dpi.toml").open("a") as file:
        file.write("# another line\n")
    changed = [
        kind for kind, before, after in zip([e["kind"] for e in found], found, build(), strict=True) if before != after
    ]
    assert changed == ["ConfigMap", "StatefulSet"]


def test_schemas_of_kubernetes() -> None:
    """No field is unknown or of another type, for the oldest and the newest version that the schemas have."""
    schemas = pytest.importorskip("kubernetes_validate", reason="needs the extra `cluster`")
    for version in ("1.27.0", schemas.latest_version()):
        for each in OBJECTS:
            schemas.validate(each, version, strict=True)
    broken = json.loads(json.dumps(BY_NAME["StatefulSet", "dpi"]).replace('"replicas"', '"replica"'))
    with pytest.raises(schemas.ValidationError):
        schemas.validate(broken, schemas.latest_version(), strict=True)


def test_the_configuration_is_one(tmp_path: Path) -> None:
    """Every key is an option of `dpi serve`, and the stream can be made; no password stands in it."""
    for name, text in CONFIG.items():
        (tmp_path / name).write_text(text)
    given = tomllib.loads(CONFIG["dpi.toml"])["serve"]
    assert set(given) <= set(options_of("serve"))
    streams, keys, *_ = read_streams(tmp_path / "dpi.toml")
    made = Config(
        store=given["store"], tokens=Path(given["tokens"]), host=given["host"], behind_proxy=given["behind-proxy"],
        streams=streams, keys=keys,
    )  # fmt: skip
    assert [*made.streams] == ["visits"]
    assert re.fullmatch(r"postgresql://\w+@[\w-]+/.*sslmode=verify-full.*", given["store"])
    assert "from" not in tomllib.loads(CONFIG["dpi.toml"])["streams"]["visits"]  # it begins when it is started


def test_files_that_the_configuration_names_are_mounted() -> None:
    """The key lies in memory, tokens and the witness in volumes of their own; the key comes from a secret."""
    pod = pods()["dpi"]
    (service,) = pod["spec"]["containers"]
    mounts = {each["mountPath"]: each["name"] for each in service["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    given = tomllib.loads(CONFIG["dpi.toml"])["serve"]
    of = {name: mounts[str(Path(given[name]).parent)] for name in ("key-file", "witness", "tokens")}
    assert len(set(of.values())) == 3
    assert volumes[of["key-file"]]["emptyDir"]["medium"] == "Memory"
    (before,) = pod["spec"]["initContainers"]
    program, mode, target, *secrets = before["command"]
    assert [program, mode] == ["install", "--mode=600"]
    kept = {f"{target.partition('=')[2]}/{Path(each).name}" for each in secrets}
    assert kept == {given["key-file"], given["sign"]}
    assert {Path(each).parent for each in secrets} == {Path("/secret")}
    assert volumes["secret"]["secret"]["secretName"] == "dpi-ledger"
    assert volumes[of["witness"]]["persistentVolumeClaim"]["claimName"] == "dpi-witness"
    assert (DEPLOY / "Containerfile").read_text().count('"--config", "/etc/dpi/dpi.toml"') == 1
    assert mounts["/etc/dpi"] == "config"


def test_probes_ask_routes_that_need_no_token() -> None:
    """At the port that the configuration names."""
    (service,) = pods()["dpi"]["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in service["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = service[probe]["httpGet"]
        assert ports[asked["port"]] == tomllib.loads(CONFIG["dpi.toml"])["serve"]["port"]
        (route,) = [each for each in ENDPOINTS if (each.method, each.path) == ("GET", asked["path"])]
        assert route.roles is None
    assert service["readinessProbe"]["httpGet"]["path"] == "/v1/ready"


@pytest.mark.parametrize("name", pods())
def test_pods_have_no_rights(name: str) -> None:
    """As the level `restricted` asks, which the namespace enforces; of ours the user is the image's own."""
    pod = pods()[name]
    assert BY_NAME["Namespace", "dpi"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert pod["spec"]["automountServiceAccountToken"] is False
    allowed = pod["spec"]["securityContext"]
    assert allowed["runAsNonRoot"] is True
    assert allowed["seccompProfile"] == {"type": "RuntimeDefault"}
    for each in containers(pod):
        own = each["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in each["resources"]["limits"]
        if each["image"] == "dpi":
            assert f"USER {allowed['runAsUser']}\n" in (DEPLOY / "Containerfile").read_text()


def test_passwords_are_in_secrets_alone() -> None:
    """No manifest holds one, and none is a Secret: the page says how they are made."""
    assert not [each for each in OBJECTS if each["kind"] == "Secret"]
    for pod in pods().values():
        for each in containers(pod):
            secret = [env for env in each.get("env", []) if "PASSWORD" in env["name"]]
            assert all(
                "value" not in env and env["valueFrom"]["secretKeyRef"]["name"] == "dpi-postgres" for env in secret
            )


def test_the_network_lets_in_what_is_named() -> None:
    """Everything is refused first; the database talks to the service and the backup alone, and asks nobody."""
    policies = {name: each["spec"] for (kind, name), each in BY_NAME.items() if kind == "NetworkPolicy"}
    assert policies.pop("nothing") == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    (who,) = policies["dpi-database"]["ingress"][0]["from"]
    asking = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["dpi", "dpi-backup", "dpi-standby"]}]}
    assert who["podSelector"] == policies["dpi-asks"]["podSelector"] == asking
    assert [name for name, each in policies.items() if "egress" in each] == ["dpi-asks"]
    assert {name for name, each in policies.items() if "ingress" in each} == {"dpi", "dpi-database"}
    labels = {name: pod["metadata"]["labels"] for name, pod in pods().items()}
    stores = {"dpi-postgres", "dpi-standby"}
    assert labels == {name: {"app": name} | ({"store": "dpi"} if name in stores else {}) for name in labels}
    assert set(labels) == {"dpi", "dpi-backup", *stores}


def test_a_drain_leaves_one_copy_of_the_database() -> None:
    """One of the two at a time, and not both on a node, where there are several."""
    budget = BY_NAME["PodDisruptionBudget", "dpi-database"]["spec"]
    assert (budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (1, {"store": "dpi"})
    apart = [pods()[name]["spec"]["affinity"]["podAntiAffinity"] for name in ("dpi-postgres", "dpi-standby")]
    assert apart[0] == apart[1]
    assert "kubernetes.io/hostname" in json.dumps(apart)


def test_the_ingress_has_tls() -> None:
    """For the host that it serves, and passes bodies as large as the service takes."""
    ingress = BY_NAME["Ingress", "dpi"]
    (tls,), (rule,) = ingress["spec"]["tls"], ingress["spec"]["rules"]
    assert tls["hosts"] == [rule["host"]]
    assert ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"] == f"{BODY >> 20}m"


def test_the_copy_is_of_the_same_store() -> None:
    """At the address of the service, without what concerns a leader."""
    (job,) = pods()["dpi-backup"]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in job["env"]}
    assert tomllib.loads(CONFIG["dpi.toml"])["serve"]["store"].startswith(env["STORE"])
    assert 'dpi backup "$STORE" "/backup/visits-' in job["args"][0]
    assert BY_NAME["CronJob", "dpi-backup"]["spec"]["concurrencyPolicy"] == "Forbid"
    assert tomllib.loads(CONFIG["dpi.toml"])["streams"]["visits"]["slot"] == "1h"
    assert BY_NAME["CronJob", "dpi-backup"]["spec"]["schedule"] == "5 * * * *"


def names_of_metrics() -> dict[str, set[str]]:
    """The series that the service has, with their labels."""
    found: dict[str, set[str]] = {}
    for family in Metrics().registry.collect():
        (collector,) = {each for each in Metrics().registry._collector_to_names if each._name == family.name}
        labels = set(collector._labelnames)
        ends = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        found |= {family.name + end: labels | ({"le"} if end == "_bucket" else set()) for end in ends}
    return found


def rules() -> list[dict[str, Any]]:
    """All alerts."""
    (group,) = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yml").read_text("utf-8"))["groups"]
    return list(group["rules"])


def questions() -> list[str]:
    """All expressions of alerts and of the dashboard."""
    board = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text("utf-8"))
    drawn = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    return [*(rule["expr"] for rule in rules()), *drawn]


@pytest.mark.parametrize("question", questions())
def test_questions_are_about_metrics_that_exist(question: str) -> None:
    """Prometheus can parse each, and finds its series and its labels."""
    plain = question.replace("$__rate_interval", "5m").replace("$stream", "visits")
    promql_parser.parse(plain)
    known = names_of_metrics()
    named = set(re.findall(r"\b(dpi_\w+|up)\b", plain))
    assert named
    assert named <= set(known) | EXTERNAL
    by = {label for group in re.findall(r"by \(([^)]*)\)", plain) for label in group.split(", ")}
    chosen = set(re.findall(r"[{,](\w+)(?:=~|=)", plain)) - {"job"}
    assert by | chosen <= {label for name in named for label in known.get(name, set())}


def test_every_metric_that_asks_for_an_alert_has_one() -> None:
    """Those that docs/howto-operate.md says to alert on; each alert says what to do, of a label that it has."""
    asked = re.findall(
        r"^\| (`dpi_.+?) \| (?=[^\n]*alert on it)", (DEPLOY.parent / "docs/howto-operate.md").read_text(), re.M
    )
    wanted = {name.strip("`") for cell in asked for name in cell.split(", ")} - {"dpi_quiet_slots"}
    assert len(wanted) == 5
    text = " ".join(rule["expr"] for rule in rules())
    assert {name for name in wanted if name not in text} == set()
    for rule in rules():
        assert {*rule["annotations"]} == {"summary", "action"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        for label in re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])):
            assert re.search(rf"by \([^)]*\b{label}\b", rule["expr"])


def test_the_dashboard_can_be_drawn() -> None:
    """Panels lie beside each other, each with a number of its own, and say whose they are."""
    board = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text("utf-8"))
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 8
    cells = [
        (x, y)
        for each in (panel["gridPos"] for panel in panels)
        for x in range(each["x"], each["x"] + each["w"])
        for y in range(each["y"], each["y"] + each["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert "no analyst" in panels[0]["options"]["content"]
    variables = {each["name"] for each in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) - {"__rate_interval"}
    assert used <= variables


def test_prometheus_reads_the_route_of_metrics() -> None:
    """With a token, from the port of the service, and with the rules beside it."""
    given = yaml.safe_load((DEPLOY / "monitoring" / "prometheus.yml").read_text("utf-8"))
    (job,) = given["scrape_configs"]
    (route,) = [each for each in ENDPOINTS if each.path == job["metrics_path"]]
    assert "curator" in route.roles
    assert "credentials_file" in job["authorization"]
    assert all((DEPLOY / "monitoring" / name).exists() for name in given["rule_files"])
    (port,) = BY_NAME["Service", "dpi"]["spec"]["ports"]
    assert job["static_configs"][0]["targets"] == [f"dpi.dpi.svc:{port['port']}"]
