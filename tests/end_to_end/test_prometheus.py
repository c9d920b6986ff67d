#!/usr/bin/python3
"""The alerts and the dashboard: every metric that they name is one of a running service, Prometheus's own
promtool takes them, each alert fires when it should and none does when all is well, and each is explained."""

import json
import pathlib
import re
import socket
import subprocess
import sys

import harness
from harness import Aggregator, Workspace, check, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALERTS = ROOT / "configs/prometheus/tern-alerts.yml"
DASHBOARD = ROOT / "configs/grafana/tern-aggregator.json"
SCRAPE = ROOT / "configs/prometheus/prometheus.yml"

# What a service that is well says every other minute: values by promtool's notation, N samples.
WELL = {
    'up{job="tern"}': "1x{n}",
    "tern_store_writable": "1x{n}",
    "tern_certificate_expires_seconds": "9000000x{n}",
    "tern_client_ca_expires_seconds": "9000000x{n}",
    "tern_version": "0+1x{n}",
    "tern_finished": "0x{n}",
    "tern_clients": "3x{n}",
    "tern_clients_revoked": "1x{n}",
    "tern_clients_evaluators": "0x{n}",
    "tern_clients_unreliable": "0x{n}",
    "tern_waiting_needs_help": "0x{n}",
    "tern_upstream_answers": "1x{n}",
    "tern_disk_free_bytes": "30000000x{n}",
    "tern_disk_room_bytes": "100000000x{n}",
    "tern_disk_needed_bytes": "90000000x{n}",
    "tern_refused_cohorts": "0x{n}",
    'tern_updates_total{status="accepted"}': "0+2x{n}",
    'tern_updates_total{status="late"}': "0+1x{n}",
    "tern_batches_failed_total": "3x{n}",
    "tern_database_checked_seconds": "180000x{n}",
    'tern_commit_seconds_bucket{le="0.008"}': "0+100x{n}",
    'tern_commit_seconds_bucket{le="1.024"}': "0+100x{n}",
    'tern_commit_seconds_bucket{le="+Inf"}': "0+100x{n}",
    "tern_queue_length": "10x{n}",
    "tern_http_connections_refused_total": "5x{n}",
    "tern_http_connections_displaced_total": "5x{n}",
    "tern_unauthorized_total": "0+3x{n}",
    'tern_http_handshakes_total{kind="full"}': "0+10x{n}",
    'tern_http_handshakes_total{kind="resumed"}': "0+10x{n}",
    'tern_http_handshakes_total{kind="failed"}': "0+10x{n}",
    'tern_error_anomalies_total{anomaly="cloned"}': "0x{n}",
    'tern_error_anomalies_total{anomaly="lost"}': "0+1x{n}",
}

# What goes wrong, and the alert that says so. A finished federation has no rounds and that is well.
WRONG = {
    "TernDown": {'up{job="tern"}': "0x{n}"},
    "TernCannotStore": {"tern_store_writable": "0x{n}"},
    "TernCertificateExpired": {"tern_certificate_expires_seconds": "86400x{n}"},
    "TernCertificateExpires": {"tern_certificate_expires_seconds": "1000000x{n}"},
    "TernClientCaExpires": {"tern_client_ca_expires_seconds": "1000000x{n}"},
    "TernNoRounds": {"tern_version": "7x{n}"},
    "TernNeedsHelp": {"tern_waiting_needs_help": "1x{n}"},
    "TernUpstreamSilent": {"tern_upstream_answers": "0x{n}"},
    "TernUpdatesRefused": {"tern_refused_cohorts": "2x{n}"},
    "TernUpdatesLate": {'tern_updates_total{status="late"}': "0+3x{n}"},
    "TernDiskFull": {"tern_disk_needed_bytes": "110000000x{n}"},
    "TernStorageFails": {"tern_batches_failed_total": "0+1x{n}"},
    "TernDatabaseNotChecked": {"tern_database_checked_seconds": "9000x{n}"},
    "TernSlow": {'tern_commit_seconds_bucket{le="0.008"}': "0+10x{n}", 'tern_commit_seconds_bucket{le="1.024"}': "0+98x{n}"},
    "TernConnectionsRefused": {"tern_http_connections_refused_total": "0+60x{n}"},
    "TernConnectionsDisplaced": {"tern_http_connections_displaced_total": "0+60x{n}"},
    "TernCredentialsGuessed": {"tern_unauthorized_total": "0+120x{n}"},
    "TernHandshakesFail": {'tern_http_handshakes_total{kind="failed"}': "0+60x{n}"},
    "TernClientsUnreliable": {"tern_clients_unreliable": "1x{n}"},
    "TernIdentityCloned": {'tern_error_anomalies_total{anomaly="cloned"}': "0x1515 1x{n}"},
}
FINE = {"tern_version": "7x{n}", "tern_finished": "1x{n}"}
CRITICAL = ("TernDown", "TernCannotStore", "TernCertificateExpired", "TernUpdatesRefused")


def metrics_of_a_service():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:8-2"}}).start()
        token = (aggregator.state / "admin.token").read_text().strip()
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(str(workspace.path / "admin.sock"))
            admin.sendall(f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
                          "Connection: close\r\n\r\n".encode())
            text = b"".join(iter(lambda: admin.recv(65536), b"")).decode()
    return set(re.findall(r"^(?:# TYPE )?(tern_\w+)", text, re.MULTILINE)), text


def expressions():
    """Those of the dashboard, with Grafana's variables filled in."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")
            for panel in panels for target in panel["targets"]]


def names_are_those_of_a_service():
    names, text = metrics_of_a_service()
    used = set(re.findall(r"\btern_\w+", ALERTS.read_text()))
    used |= {name for one in expressions() for name in re.findall(r"\btern_\w+", one)}
    check(used <= names, f"a service has no {used - names}")
    labels = set(re.findall(r'(\w+="\w+")', ALERTS.read_text())) - {'job="tern"'}
    check(all(label in text for label in labels), f"a service has not all of {labels}")


def promtool(*arguments):
    program, _ = harness.neighbour("prometheus", "usr/bin/promtool")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"promtool {arguments} says:\n{done.stdout}{done.stderr}")


def case(wrong, alerts):
    """What promtool is to play, and what must come of it. Two days and three hours, a sample in two minutes."""
    series = [{"series": re.sub(r"\{?((?:\w+=\"[^\"]*\")?)\}?$", lambda m: f'{{instance="a"{"," if m[1] else ""}{m[1]}}}', name, count=1),
               "values": values.format(n=1560)} for name, values in {**WELL, **wrong}.items()]
    expected = [{"eval_time": "51h", "alertname": name, "exp_alerts": [{"exp_labels": labels(name)}] if name in alerts else []}
                for name in WRONG]
    return {"interval": "2m", "input_series": series, "alert_rule_test": expected}


def labels(alert):
    # A federation is down when no aggregator of its job answers; all else is said of one.
    of = {"TernDown": {"job": "tern"}, "TernIdentityCloned": {"instance": "a", "anomaly": "cloned"}}.get(alert, {"instance": "a"})
    return {"severity": "critical" if alert in CRITICAL else "warning", **of}


def alerts_fire_when_they_should(folder):
    # The sentences are for people, and promtool wants them repeated.
    bare = re.sub(r"\n +annotations:\n +summary: .*", "", ALERTS.read_text())
    (folder / "rules.yml").write_text(bare)
    # All at once, since each has metrics of its own, but for the two about one certificate.
    most = {name: wrong for name, wrong in WRONG.items() if name != "TernCertificateExpires"}
    cases = [case({}, ()), case(FINE, ()), case(WRONG["TernCertificateExpires"], ("TernCertificateExpires",)),
             case({"tern_disk_free_bytes": "12000000x{n}"}, ("TernDiskFull",)),
             case({key: value for wrong in most.values() for key, value in wrong.items()}, most)]
    (folder / "test.yml").write_text(json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "20m", "tests": cases}))
    promtool("test", "rules", folder / "test.yml")


def test():
    alerts = re.findall(r"alert: (\w+)", ALERTS.read_text())
    check(sorted(alerts) == sorted(WRONG), f"{set(alerts) ^ set(WRONG)} are not both an alert and tried")
    operations = (ROOT / "docs/OPERATIONS.md").read_text()
    check(all(f"| `{name}` |" in operations for name in alerts), "OPERATIONS does not explain every alert")
    names_are_those_of_a_service()
    if harness.SANITIZED:
        return  # promtool does the same beside any build
    promtool("check", "config", "--syntax-only", SCRAPE)
    promtool("check", "rules", ALERTS)
    with Workspace() as workspace:
        rules = [{"record": f"panel:{i}", "expr": one} for i, one in enumerate(expressions())]
        (workspace.path / "panels.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
        promtool("check", "rules", workspace.path / "panels.yml")
        alerts_fire_when_they_should(workspace.path)


if __name__ == "__main__":
    sys.exit(main(test))
