"""What Helm makes of the chart, read as an operator and a cluster read it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate.utils import all_versions, validate

from devkit.chart import CHART as SOURCE
from devkit.chart import ROOT
from devkit.dashboard.dashboard import text as dashboard
from retentiond.config import load, parse
from tests.support.chart import (
    CASES,
    CHART,
    KUBERNETES,
    NAMESPACE,
    RELEASE,
    VALUES,
    Document,
    config_of,
    daemon,
    helm,
    only,
    template,
    values_named,
)
from tests.support.prometheus import DEPLOYED, tool
from tests.unit.config.files import HASH

every_case = pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)

OLDEST, NEWEST = all_versions()[0], all_versions()[-1]

CI_TEAMS = CHART / "ci" / "teams-values.yaml"

OF_PROMETHEUS = "monitoring.coreos.com/v1"
"""Kubernetes has no schemas of these."""


def pods(documents: list[Document]) -> Iterator[Document]:
    """The specs of all pods: the daemon's, that of `helm test`, and that of the check before an
    upgrade."""
    yield daemon(documents)["spec"]
    yield only(documents, "Pod")["spec"]
    yield only(documents, "Job")["spec"]["template"]["spec"]


def container(documents: list[Document]) -> Document:
    found, *_ = daemon(documents)["spec"]["containers"]
    return dict(found)


@every_case
def test_helm_finds_nothing_to_complain_about(values: Path) -> None:
    done = helm("lint", "--strict", CHART, "--values", values)
    assert done.returncode == 0, done.stdout + done.stderr


@every_case
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_object_is_one_that_kubernetes_knows(values: Path, version: str) -> None:
    documents = template(values, kubernetes=version)
    builtin = [each for each in documents if each["apiVersion"] != OF_PROMETHEUS]
    assert len(builtin) >= 4
    for document in builtin:
        used = validate(document, version, strict=True)
        assert version.startswith(used)


@pytest.mark.parametrize(
    "values", sorted((CASES / "refused").glob("*.yaml")), ids=lambda path: path.stem
)
def test_what_the_schema_refuses_is_not_installed_and_the_error_names_it(values: Path) -> None:
    wanted = re.search(r"^# error: (.*)$", values.read_text(), re.MULTILINE)
    done = helm("template", RELEASE, CHART, "--values", values)
    assert wanted is not None
    assert done.returncode != 0
    assert re.search(wanted[1], done.stderr), done.stderr
    assert "hunter2" not in done.stderr


def test_a_kubernetes_that_is_too_old_is_refused() -> None:
    done = helm(
        "template", RELEASE, CHART, "--values", values_named("minimal"), "--kube-version", "1.24.0"
    )
    assert done.returncode != 0
    assert "incompatible with Kubernetes" in done.stderr


@every_case
def test_there_is_one_daemon_and_its_state_lasts(values: Path) -> None:
    documents = template(values)
    spec = only(documents, "StatefulSet")["spec"]
    assert spec["replicas"] == 1
    assert spec["podManagementPolicy"] == "Parallel"
    assert [each["kind"] for each in documents if each["kind"] == "Deployment"] == []
    claimed = [claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])]
    claimed += [
        volume["name"]
        for volume in spec["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in volume and volume["name"] == "state"
    ]
    assert claimed == ["state"]


@every_case
def test_a_claim_s_template_does_not_change_with_the_chart_s_version(values: Path) -> None:
    """Kubernetes would refuse the upgrade."""
    text = json.dumps(only(template(values), "StatefulSet")["spec"].get("volumeClaimTemplates", []))
    assert "version" not in text
    assert "helm.sh/chart" not in text


@every_case
def test_every_pod_is_restricted(values: Path) -> None:
    """Pod Security's level `restricted`, the image's user, and nothing to write to by default."""
    for spec in pods(template(values)):
        security = spec["securityContext"]
        assert security["runAsNonRoot"] is True
        assert {security[name] for name in ("runAsUser", "runAsGroup", "fsGroup")} == {10001}
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert [volume for volume in spec["volumes"] if "hostPath" in volume] == []
        for each in spec["containers"]:
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"requests", "limits"} <= each["resources"].keys()


def test_the_user_is_the_image_s() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    security = daemon(template(values_named("minimal")))["spec"]["securityContext"]
    assert f"USER {security['runAsUser']}:{security['runAsGroup']}" in dockerfile


def test_the_platform_gives_the_user_where_the_values_say_so() -> None:
    """OpenShift refuses any user, or group of volumes, but those of its namespace."""
    for spec in pods(template(values_named("minimal"), "--set", "user=null")):
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }


@every_case
def test_state_and_tmp_are_all_that_can_be_written_to(values: Path) -> None:
    documents = template(values)
    claims = only(documents, "StatefulSet")["spec"].get("volumeClaimTemplates", [])
    config = yaml.safe_load(config_of(documents))
    for spec in pods(documents):
        volumes = {volume["name"] for volume in spec["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in claims}
        for each in spec["containers"][:1]:
            mounts = each["volumeMounts"]
            assert {mount["name"] for mount in mounts} <= volumes
            writable = {mount["mountPath"] for mount in mounts if not mount.get("readOnly")}
            state = {config.get("state_dir", "/var/lib/retentiond")}
            assert writable - {"/tmp"} == (set() if each["name"] == "check" else state)


@every_case
def test_the_probes_ask_what_the_endpoints_mean(values: Path) -> None:
    documents = template(values)
    found = container(documents)
    http = yaml.safe_load(config_of(documents)).get("http", {})
    port = http.get("port", 9477)
    assert found["ports"] == [{"name": "http", "containerPort": port}]
    scheme = "HTTPS" if "tls" in http else "HTTP"
    alive: Document = {"httpGet": {"path": "/healthz", "port": "http", "scheme": scheme}}
    ready = {"httpGet": {"path": "/readyz", "port": "http", "scheme": scheme}}
    if "basic_auth" in http:
        alive = {"exec": {"command": ["python", "-m", "retentiond.healthcheck", str(port)]}}
        assert "readinessProbe" not in found
    else:
        assert ready.items() <= found["readinessProbe"].items()
    assert alive.items() <= found["livenessProbe"].items()
    assert alive.items() <= found["startupProbe"].items()


@every_case
def test_a_start_has_two_minutes_and_an_end_more_than_it_takes(values: Path) -> None:
    documents = template(values)
    probe = container(documents)["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 120
    assert daemon(documents)["spec"]["terminationGracePeriodSeconds"] > 10


@every_case
def test_the_daemon_accepts_the_configuration_and_reads_it_as_it_was_given(
    values: Path, tmp_path: Path
) -> None:
    environ = {
        "KAFKA_USER": "retentiond",
        "KAFKA_SERVERS": "kafka:9093",
        "KAFKA_KEY_PASSWORD": "x",
        "EXPORT_TOKEN": "y",
    }
    for name, text in (("kafka/password", "geheim"), ("http/prometheus.bcrypt", HASH)):
        file = tmp_path / "secrets" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    documents = template(values)
    rendered = mounted(documents, tmp_path).read_text()
    given = {"reload": {"watch": True}, **yaml.safe_load(values.read_text())["config"]}
    given["limits"] = {"worthwhile": {"bytes": "1MiB", "after": "1h"}} | given.get("limits", {})
    if "policies" in yaml.safe_load(rendered):  # of files that are values, too
        given["policies"] = yaml.safe_load(rendered)["policies"]
    expected = parse(yaml.safe_dump(given), environ, tmp_path)
    assert parse(rendered, environ, tmp_path) == expected


OF_A_TEAM = "owner: {}\ntopics: [{{name: {}, retention.commitoffset.enable: true}}]\n"


def mounted(documents: list[Document], folder: Path) -> Path:
    """What the daemon's container finds in /etc/retentiond, in a folder; its retentiond.yaml. An
    existing ConfigMap has one policy file."""
    rendered = {
        each["metadata"]["name"]: each["data"] for each in documents if each["kind"] == "ConfigMap"
    }
    volumes = {
        each["name"]: each["configMap"]["name"]
        for each in daemon(documents)["spec"]["volumes"]
        if "configMap" in each
    }
    for mount in container(documents)["volumeMounts"]:
        at = Path(mount["mountPath"])
        if mount["name"] not in volumes or not at.is_relative_to("/etc/retentiond"):
            continue
        name = volumes[mount["name"]]
        files = rendered.get(name, {"team.yaml": OF_A_TEAM.format(name, name)})
        place = folder / at.relative_to("/etc/retentiond")
        for key, text in files.items():
            if mount.get("subPath", key) == key:
                file = place if "subPath" in mount else place / key
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
    return folder / "retentiond.yaml"


def owners(documents: list[Document], folder: Path) -> dict[str, str | None]:
    """By what each entry is about, as the daemon reads it."""
    folder.mkdir()
    return {each.topics: each.policy.owner for each in load(mounted(documents, folder)).entries}


def test_policy_files_of_teams_reach_the_daemon_and_a_second_file_of_values_adds_one(
    tmp_path: Path,
) -> None:
    values = values_named("policies")
    known = {
        "orders": "payments",
        "topics matching clicks\\..* except clicks\\.audit": "search",
        "policies-of-billing": "policies-of-billing",
    }
    assert owners(template(values), tmp_path / "one") == known
    more = tmp_path / "more.yaml"
    more.write_text("policies: {stock: {owner: stock, topics: [{name: shelves}]}}\n")
    added = template(values, "--values", str(more))
    assert owners(added, tmp_path / "two") == {**known, "shelves": "stock"}


def test_a_team_s_own_file_is_a_value_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "stock.yaml"
    file.write_text(OF_A_TEAM.format("stock", "shelves"))
    options = ("--set-file", f"policies.stock={file}")
    documents = template(values_named("minimal"), *options)
    assert owners(documents, tmp_path / "one") == {"orders.enriched": None, "shelves": "stock"}


def test_a_text_that_is_no_policy_file_is_refused_by_its_name() -> None:
    done = helm(
        *("template", RELEASE, CHART, "--values", values_named("minimal")),
        *("--set", "policies.stock=topics: []", "--kube-version", KUBERNETES),
    )
    assert done.returncode != 0
    assert "policies.stock: the text is no policy file with owner and topics" in done.stderr


def test_policy_files_beside_globs_of_the_configuration_are_all_read(tmp_path: Path) -> None:
    options = ("--set", "config.policies=mine/*.yaml")
    config = yaml.safe_load(config_of(template(values_named("policies"), *options)))
    assert config["policies"] == [
        "mine/*.yaml",
        "policies.d/*.yaml",
        "policies.from/policies-of-billing/*.yaml",
    ]
    assert "policies" not in yaml.safe_load(config_of(template(values_named("minimal"))))


@every_case
def test_secrets_are_named_and_never_written_out(values: Path) -> None:
    documents = template(values)
    assert [each for each in documents if each["kind"] == "Secret"] == []
    properties = yaml.safe_load(config_of(documents))["kafka"]
    for name in properties:
        if re.search("password|secret", name):
            assert re.fullmatch(r"\$\{.+\}", properties[name])
    folders = yaml.safe_load(values.read_text()).get("secrets", {})
    spec = daemon(documents)["spec"]
    by_name = {volume["name"]: volume for volume in spec["volumes"]}
    mounted = {
        Path(mount["mountPath"]).name: by_name[mount["name"]]["secret"]
        for mount in container(documents)["volumeMounts"]
        if mount["mountPath"].startswith("/etc/retentiond/secrets/")
    }
    assert mounted == {
        folder: {"secretName": name, "defaultMode": 0o440} for folder, name in folders.items()
    }


def test_a_changed_policy_restarts_the_daemon_only_where_it_does_not_watch_its_files() -> None:
    values = values_named("policies")

    def restarts(change: str, *options: str) -> bool:
        before, after = (
            daemon(template(values, *options, *changed))["metadata"]["annotations"]
            for changed in ((), ("--set", change))
        )
        return bool(before != after)

    text = "policies.payments.owner=billing"
    assert not restarts(text)
    assert not restarts("config.dry_run=false")
    assert restarts(text, "--set", "config.reload.watch=false")
    assert restarts("config.http.host=::")  # read at a start only
    (config, *_) = daemon(template(values))["spec"]["containers"][0]["volumeMounts"]
    assert "subPath" not in config  # a file that is mounted by it never changes


def test_a_team_s_config_map_has_its_fence_and_is_missed_by_its_own_topics_alone() -> None:
    documents = template(CI_TEAMS)
    stock = {"topics": ["stock\\..*"], "at_least": "1h", "forbid": ["groups.only"]}
    fenced = "policies.from/policies-of-stock/stock.yaml"
    assert yaml.safe_load(config_of(documents))["policies"] == [
        "policies.d/*.yaml",
        {"file": fenced, **stock},
        "policies.from/shared/*.yaml",
    ]
    volumes = {each["name"]: each for each in daemon(documents)["spec"]["volumes"]}
    mounts = {each["mountPath"]: each["name"] for each in container(documents)["volumeMounts"]}
    of_stock = volumes[mounts[f"/etc/retentiond/{fenced.rpartition('/')[0]}"]]["configMap"]
    assert of_stock == {"name": "policies-of-stock", "optional": True}
    shared = volumes[mounts["/etc/retentiond/policies.from/shared"]]["configMap"]
    assert shared == {"name": "shared"}


def test_an_upgrade_checks_what_it_brings_before_the_daemon_has_it(tmp_path: Path) -> None:
    documents = template(CI_TEAMS)
    job = only(documents, "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"
    spec = job["spec"]["template"]["spec"]
    (checked,) = spec["containers"]
    assert checked["args"] == ["check", "--no-secrets"]
    config = {each["name"]: each for each in spec["volumes"]}["config"]["configMap"]
    (data,) = [
        e["data"] for e in documents if e["metadata"]["name"] == config["name"] and "data" in e
    ]
    for item in config["items"]:
        path = tmp_path / item["path"]
        path.parent.mkdir(exist_ok=True)
        path.write_text(data[item["key"]])
    found = {each.topics: each.policy.owner for each in load(tmp_path / "retentiond.yaml").entries}
    assert found == {"orders": "payments", "clicks": "search"}
    assert "serviceAccountName" not in spec  # at a first `argocd sync` there is none yet
    off = template(CI_TEAMS, "--set", "checkBeforeUpgrade.enabled=false")
    assert [each for each in off if each["kind"] == "Job"] == []


def test_an_upgrade_is_checked_where_all_policies_are_the_teams_own(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        "config: {kafka: {bootstrap.servers: 'b:9092'}}\npolicyConfigMaps: [payments-policy]\n"
    )
    documents = template(values)
    job = only(documents, "Job")
    (data,) = [
        each["data"]
        for each in documents
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] == job["metadata"]["name"]
    ]
    assert [each.policy.enabled for each in parse(data["config"], {}, tmp_path).entries] == [False]
    assert "payments-policy" not in str(job)


def test_what_the_values_add_is_where_kubernetes_reads_it() -> None:
    """Beside `test_every_object_is_one_that_kubernetes_knows`, which reads these values too."""
    documents = template(CI_TEAMS)
    for document in documents:
        if document["metadata"]["name"] != "further":
            assert document["metadata"]["labels"]["team"] == "streaming"
    (further,) = [each for each in documents if each["metadata"]["name"] == "further"]
    assert further["data"] == {"release": RELEASE}
    spec = daemon(documents)["spec"]
    assert daemon(documents)["metadata"]["labels"]["team"] == "streaming"
    assert spec["hostAliases"] == [{"ip": "10.0.0.1", "hostnames": ["kafka"]}]
    assert spec["dnsConfig"] == {"options": [{"name": "ndots", "value": "1"}]}
    retentiond, further = spec["containers"]
    assert retentiond["args"] == ["run", "--debug"]
    assert further["name"] == "proxy"
    assert retentiond["lifecycle"].keys() == {"preStop"}
    assert retentiond["startupProbe"]["failureThreshold"] == 60
    assert retentiond["startupProbe"]["periodSeconds"] == 5
    service = only(documents, "Service")
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["metadata"]["annotations"] == {"example.org/scope": "internal"}
    stateful_set = only(documents, "StatefulSet")["spec"]
    assert stateful_set["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Delete"}
    (claim,) = stateful_set["volumeClaimTemplates"]
    assert claim["metadata"]["labels"]["backup"] == "daily"
    assert claim["metadata"]["annotations"] == {"example.org/keep": "yes"}
    (tmp,) = [each for each in spec["volumes"] if each["name"] == "tmp"]
    assert tmp["emptyDir"] == {"sizeLimit": "3Gi"}
    monitor = only(documents, "ServiceMonitor")
    assert monitor["metadata"]["namespace"] == "monitoring"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": [NAMESPACE]}


@every_case
def test_service_and_monitors_find_the_daemon_and_no_other_pod(values: Path) -> None:
    documents = template(values)
    service = only(documents, "Service")
    labels = daemon(documents)["metadata"]["labels"]
    of_test = only(documents, "Pod")["metadata"]["labels"]
    selected = only(documents, "StatefulSet")["spec"]["selector"]["matchLabels"]
    assert service["spec"]["selector"] == selected
    assert selected.items() <= labels.items()
    assert not selected.items() <= of_test.items()
    assert service["spec"]["publishNotReadyAddresses"] is True
    wanted = {
        each["kind"]: each["spec"]["selector"]["matchLabels"]
        for each in documents
        if each["apiVersion"] == OF_PROMETHEUS and "selector" in each["spec"]
    }
    assert wanted.get("PodMonitor", selected) == selected
    assert wanted.get("ServiceMonitor", {}).items() <= service["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("case", "kind", "endpoints"),
    [("everything", "ServiceMonitor", "endpoints"), ("login", "PodMonitor", "podMetricsEndpoints")],
)
def test_what_is_scraped_has_the_job_that_the_rules_ask_for(
    case: str, kind: str, endpoints: str
) -> None:
    documents = template(values_named(case))
    spec = only(documents, kind)["spec"]
    source = daemon(documents) if kind == "PodMonitor" else only(documents, "Service")
    job = source["metadata"]["labels"][spec["jobLabel"]]
    assert f'up{{job="{job}"}}' in (DEPLOYED / "recording_rules.yml").read_text()
    (endpoint,) = spec[endpoints]
    assert (endpoint["port"], endpoint["path"]) == ("http", "/metrics")
    assert endpoint["scheme"] == ("https" if case == "everything" else "http")
    assert {"tlsConfig", "basicAuth"} & endpoint.keys()
    instance = f"{NAMESPACE}/{RELEASE}-retentiond"
    named = [{"targetLabel": "kafka_cluster", "replacement": "orders"}]
    assert endpoint["relabelings"] == [
        {"targetLabel": "instance", "replacement": instance},
        *(named if case == "everything" else []),
    ]


def test_the_rules_are_those_beside_prometheus(tmp_path: Path) -> None:
    rule = only(template(values_named("login")), "PrometheusRule")
    wanted: list[Any] = []
    for name in ("recording_rules.yml", "alerts.yml"):
        wanted += yaml.safe_load((DEPLOYED / name).read_text())["groups"]
    assert rule["spec"] == {"groups": wanted}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rule["spec"]))
    done = subprocess.run(
        [tool("promtool"), "check", "rules", tmp_path / "rules.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_ask_for_the_job_that_is_given_and_for_no_other() -> None:
    rule = only(template(values_named("everything")), "PrometheusRule")
    exprs = [each["expr"] for group in rule["spec"]["groups"] for each in group["rules"]]
    assert [expr for expr in exprs if "job=" in expr] == ['up{job="kafka/retentiond"}']


def test_alerts_are_switched_off_by_name_and_have_the_thresholds_that_are_given() -> None:
    rule = only(template(values_named("everything")), "PrometheusRule")
    exprs = {
        each["alert"]: each["expr"]
        for group in rule["spec"]["groups"]
        for each in group["rules"]
        if "alert" in each
    }
    assert "RetentiondOrphanPartitions" not in exprs
    assert "RetentiondDown" in exprs
    for alert, threshold in (
        ("RetentiondPartitionsHeld", "> 43200"),
        ("RetentiondGroupVanished", "> 7200"),
        ("RetentiondGroupKeepsMuch", "> 0.25"),
        ("RetentiondStateVolumeFills", "< 2e+09"),
    ):
        assert threshold in exprs[alert]


def test_an_alert_waits_and_is_as_bad_as_the_values_say() -> None:
    groups = only(template(CI_TEAMS), "PrometheusRule")["spec"]["groups"]
    rules = {rule.get("alert"): rule for group in groups for rule in group["rules"]}
    assert rules["RetentiondNotReady"]["for"] == "30m"
    assert rules["RetentiondGroupAbandoned"]["labels"]["severity"] == "critical"
    assert rules["RetentiondGroupVanished"]["labels"]["severity"] == "warning"
    full = rules["RetentiondDiskFillsUp"]["expr"]
    assert "[1d], 7200)" in " ".join(full.split())
    assert "[1h], 7200)" in " ".join(full.split())
    assert rules["RetentiondOrphanPartitions"]["expr"].endswith("> 10")
    assert rules["RetentiondRetentionStuck"]["expr"].endswith("> 0")


def test_a_threshold_changes_the_words_and_labels_are_added_to_every_alert() -> None:
    given = ("rules.thresholds.RetentiondDownForHours=10800", "rules.alertLabels.team=platform")
    documents = template(CI_TEAMS, *(part for each in given for part in ("--set", each)))
    groups = only(documents, "PrometheusRule")["spec"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    alerts = {rule["alert"]: rule for rule in rules if "alert" in rule}
    assert "humanizeDuration 10800" in alerts["RetentiondDownForHours"]["annotations"]["summary"]
    assert "humanizeDuration 7200" in alerts["RetentiondDiskFillsUp"]["annotations"]["summary"]
    assert {rule["labels"]["team"] for rule in alerts.values()} == {"platform"}
    assert {rule["labels"]["severity"] for rule in alerts.values()} == {"warning", "critical"}
    assert [rule for rule in rules if "record" in rule and "labels" in rule] == []
    assert "@Retentiond" not in json.dumps(rules)


@pytest.mark.parametrize("of", ["for.RetentiondNone=5m", "severities.RetentiondNone=critical"])
def test_an_alert_that_does_not_exist_is_refused_by_its_name(of: str) -> None:
    done = helm(
        *("template", RELEASE, CHART, "--values", CI_TEAMS, "--kube-version", KUBERNETES),
        *("--set", f"rules.{of}"),
    )
    assert done.returncode != 0
    assert f"rules.{of.partition('.')[0]}: there is no alert RetentiondNone" in done.stderr


def test_the_runbook_is_at_the_chart_s_home_where_nobody_publishes_another(tmp_path: Path) -> None:
    """As scripts/release packs the chart."""
    chart = shutil.copytree(CHART, tmp_path / "retentiond")
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    described["home"] = "https://github.com/example/retentiond"
    (chart / "Chart.yaml").write_text(yaml.safe_dump(described))
    documents = template(CI_TEAMS, chart=chart)
    place = f"{described['home']}/blob/v{described['version']}/docs/runbook.md#"
    groups = only(documents, "PrometheusRule")["spec"]["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    for rule in alerts:
        assert rule["annotations"]["runbook_url"].startswith(place)
    (board,) = [each for each in documents if "retentiond.json" in each.get("data", {})]
    assert place.rstrip("#") in board["data"]["retentiond.json"]


def test_names_and_job_follow_the_overrides() -> None:
    documents = template(CI_TEAMS)
    assert only(documents, "StatefulSet")["metadata"]["name"] == f"{RELEASE}-consumed-retention"
    labels = only(documents, "Service")["metadata"]["labels"]
    job = labels[only(documents, "ServiceMonitor")["spec"]["jobLabel"]]
    text = json.dumps(only(documents, "PrometheusRule"))
    assert f'up{{job=\\"{job}\\"}}' in text
    named = template(CI_TEAMS, "--set", "fullnameOverride=retention-of-orders")
    assert only(named, "StatefulSet")["metadata"]["name"] == "retention-of-orders"


def test_a_scraped_endpoint_has_its_own_relabelings_and_those_of_the_values() -> None:
    """In one list: of a key that comes twice, the API server takes the last alone."""
    (endpoint,) = only(template(CI_TEAMS), "ServiceMonitor")["spec"]["endpoints"]
    assert [each["targetLabel"] for each in endpoint["relabelings"]] == [
        "instance",
        "kafka_cluster",
        "region",
    ]
    assert endpoint["scrapeTimeout"] == "10s"


def test_what_a_platform_sets_for_its_pods_is_merged_into_what_the_chart_sets() -> None:
    documents = template(CI_TEAMS, "--set", "securityContext.seLinuxOptions.level=s0")
    for spec in pods(documents):
        security = spec["securityContext"]
        assert security["fsGroupChangePolicy"] == "Always"
        assert (security["supplementalGroups"], security["fsGroup"]) == ([2000], 10001)
        own = spec["containers"][0]["securityContext"]
        assert own["seLinuxOptions"] == {"level": "s0"}
        assert own["readOnlyRootFilesystem"] is True
        assert spec["topologySpreadConstraints"][0]["maxSkew"] == 1
    assert [each["name"] for each in daemon(documents)["spec"]["initContainers"]] == [
        "wait-for-kafka"
    ]
    assert "initContainers" not in only(documents, "Pod")["spec"]
    stateful_set = only(documents, "StatefulSet")["metadata"]
    assert stateful_set["annotations"] == {"reloader.stakater.com/auto": "true"}
    account = only(documents, "ServiceAccount")["metadata"]
    assert account["annotations"].keys() == {"eks.amazonaws.com/role-arn"}


def test_the_ingress_leads_to_the_service_s_port() -> None:
    documents = template(CI_TEAMS)
    spec = only(documents, "Ingress")["spec"]
    (rule,) = spec["rules"]
    (path,) = rule["http"]["paths"]
    service = path["backend"]["service"]
    assert rule["host"] == spec["tls"][0]["hosts"][0] == "retentiond.example"
    assert service["name"] == only(documents, "Service")["metadata"]["name"]
    assert service["port"]["name"] in {
        each["name"] for each in only(documents, "Service")["spec"]["ports"]
    }


def test_the_alerts_point_to_where_the_runbook_is_published() -> None:
    rule = only(template(values_named("everything")), "PrometheusRule")
    urls = {
        each["annotations"]["runbook_url"].partition("#")[0]
        for group in rule["spec"]["groups"]
        for each in group["rules"]
        if "alert" in each
    }
    assert urls == {"https://wiki.example/retentiond/runbook"}


def test_the_dashboard_is_the_one_for_grafana_and_leads_to_the_same_runbook() -> None:
    documents = template(values_named("everything"))
    (board,) = [each for each in documents if "retentiond.json" in each.get("data", {})]
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert board["data"]["retentiond.json"] == dashboard().replace(
        "docs/runbook.md", "https://wiki.example/retentiond/runbook"
    )


def test_a_chart_that_was_not_packaged_says_that_it_has_no_dashboard() -> None:
    done = helm(
        *("template", RELEASE, SOURCE, "--values", values_named("minimal")),
        *("--set", "dashboard.enabled=true", "--kube-version", KUBERNETES),
    )
    assert "dashboard.enabled: only a packaged chart has the dashboard" in done.stderr


def test_the_policy_lets_in_who_is_named_and_out_to_kafka_and_dns() -> None:
    spec = only(template(values_named("everything")), "NetworkPolicy")["spec"]
    given = yaml.safe_load(values_named("everything").read_text())["networkPolicy"]
    own = {"podSelector": spec["podSelector"]}
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"ports": [{"port": 9500}], "from": [own, *given["from"]]}]
    dns, itself, *others = spec["egress"]
    assert {(port["port"], port["protocol"]) for port in dns["ports"]} == {(53, "UDP"), (53, "TCP")}
    assert itself == {"ports": [{"port": 9500}], "to": [own]}
    assert others == given["egress"]


def test_without_further_values_the_policy_opens_the_port_alone() -> None:
    spec = only(template(values_named("login")), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["ingress"] == [{"ports": [{"port": 9477}]}]


def test_two_releases_share_no_object() -> None:
    def names(release: str) -> set[tuple[str, str]]:
        documents = template(values_named("login"), release=release)
        return {(each["kind"], each["metadata"]["name"]) for each in documents}

    assert names("orders").isdisjoint(names("clicks"))
    assert ("StatefulSet", "retentiond-eu") in names("retentiond-eu")


def test_a_long_name_of_a_release_leaves_room_for_what_kubernetes_adds() -> None:
    (name,) = {
        each["metadata"]["name"]
        for each in template(values_named("minimal"), release="r" * 53)
        if each["kind"] == "StatefulSet"
    }
    assert len(name) <= 52


def notes(case: str, of: Path, folder: Path) -> str:
    """Helm shows them to a cluster only: here a template of their own does."""
    chart = shutil.copytree(of, folder / "retentiond")
    (chart / "templates" / "NOTES.txt").rename(chart / "NOTES.txt")
    (chart / "templates" / "notes.yaml").write_text(
        'kind: Notes\ntext: {{ tpl (.Files.Get "NOTES.txt") . | toJson }}\n'
    )
    return str(only(template(values_named(case), chart=chart), "Notes")["text"])


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("minimal", "It deletes nothing: dry_run is true"),
        ("environment", "It deletes nothing: dry_run is true"),
        ("everything", "It DELETES records"),
        ("login", "alert on retentiond_ready"),
    ],
)
def test_the_notes_say_what_it_does_and_what_to_do_next(
    case: str, said: str, tmp_path: Path
) -> None:
    told = notes(case, CHART, tmp_path)
    assert said in told
    assert f"helm test {RELEASE} --namespace {NAMESPACE} --logs" in told
    assert f"exec {RELEASE}-retentiond-0 -- retentiond audit" in told


@pytest.mark.parametrize("packaged", [True, False])
def test_the_notes_of_a_clones_chart_say_what_it_does_not_check(
    packaged: bool, tmp_path: Path
) -> None:
    told = notes("minimal", CHART if packaged else SOURCE, tmp_path)
    assert ("it does not check `config` and `policies`" in told) is not packaged


@pytest.mark.parametrize("release", ["no", "2024", "true"])
def test_a_release_whose_name_yaml_reads_as_something_else_has_labels_of_text(release: str) -> None:
    for document in template(values_named("minimal"), release=release):
        for value in document["metadata"].get("labels", {}).values():
            assert isinstance(value, str)
