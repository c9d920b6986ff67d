#!/usr/bin/python3
"""configs/kubernetes without a cluster: what kubectl renders has the documented fields, its objects name what exists, pods have no
rights that they do not need, and figures that have their origin elsewhere are the same as there."""
import json
import math
import os
import pathlib
import re
import shlex
import sys
import tempfile

from objects import KUBERNETES, OVERLAYS, TREE, Objects, check, commands_of, container, kubectl, load
from schema import findings_of

sys.path.insert(0, str(TREE / "tests" / "end_to_end"))
from harness import BIN, make_certificates, run, main  # noqa: E402

CLIENTS = 10000  # for which resources are chosen
SUFFIXES = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def in_bytes(quantity):
    amount, suffix = re.fullmatch(r"(\d+)(\w*)", quantity).groups()
    return int(amount) * SUFFIXES[suffix]


def secrets_of(overlay, folder):
    """Those that the comment's commands make, by kubectl itself."""
    made = {}
    for line in commands_of(overlay):
        if " create secret " in line:
            words = shlex.split(line)
            given = [word.replace("=server.", f"={folder}/server.") for word in words[words.index("create"):]]
            secret, = load(kubectl(*given, "--dry-run=client", "-o", "yaml"))
            secret["metadata"].pop("creationTimestamp", None)
            check(not findings_of(secret), f"{findings_of(secret)}")
            check(words[words.index("-n") + 1] == "tern", f"another namespace: {line}")
            made[secret["metadata"]["name"]] = set(secret["data"])
    return made


def selects(selector, pod):
    return selector.items() <= pod["metadata"]["labels"].items()


def ports_of(pod):
    return {port["name"]: port["containerPort"] for one in pod["spec"]["containers"] for port in one.get("ports", [])}


def check_selectors(objects):
    for thing in objects.of("StatefulSet", "Deployment"):
        check(selects(thing["spec"]["selector"]["matchLabels"], thing["spec"]["template"]), f"{thing['metadata']['name']} does not select its pods")
    for thing in objects.of("Service", "NetworkPolicy", "PodDisruptionBudget"):
        name, spec = thing["metadata"]["name"], thing["spec"]
        selector = spec.get("podSelector", spec["selector"] if "selector" in spec else {})
        selected = [pod for pod in objects.pods().values() if selects(selector.get("matchLabels", selector), pod)]
        check(selected, f"{thing['kind']} {name} of {objects.overlay} selects no pod")
        wanted = [port["targetPort"] for port in spec.get("ports", [])]
        wanted += [port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]]
        for port in wanted:
            check(all(port in ports_of(pod) for pod in selected), f"{thing['kind']} {name} names port {port}, its pods have {selected}")
        for rule in spec.get("egress", []):
            for peer in rule.get("to", []):
                goal = [pod for pod in objects.pods().values() if selects(peer["podSelector"]["matchLabels"], pod)]
                check(goal and all(port["port"] in ports_of(pod) for pod in goal for port in rule["ports"]), f"{name} leads nowhere: {rule}")
        for rule in spec.get("ingress", []):
            for peer in rule.get("from", []):
                check("podSelector" not in peer or any(selects(peer["podSelector"]["matchLabels"], pod) for pod in objects.pods().values()),
                      f"{name} lets {peer} in, which is no pod")
    for thing in objects.of("ServiceMonitor"):
        services = [one for one in objects.of("Service") if thing["spec"]["selector"]["matchLabels"].items() <= one["metadata"].get("labels", {}).items()]
        check(len(services) == 1, f"the ServiceMonitor selects {len(services)} services")
        names = {port["name"] for port in services[0]["spec"]["ports"]}
        check(all(end["port"] in names for end in thing["spec"]["endpoints"]), f"the ServiceMonitor names a port that is not of {names}")


def check_volumes(objects, secrets):
    maps = {thing["metadata"]["name"]: set(thing["data"]) for thing in objects.of("ConfigMap")}
    used = set()
    for name, pod in objects.pods().items():
        spec = pod["spec"]
        owner = next(one for one in objects.of("StatefulSet", "Deployment") if one["metadata"]["name"] == name)
        claims = {claim["metadata"]["name"] for claim in owner["spec"].get("volumeClaimTemplates", [])}
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        check(not claims & set(volumes), f"{name} has volumes twice: {claims}")
        mounted = set()
        for one in spec["containers"] + spec.get("initContainers", []):
            places = [mount["mountPath"] for mount in one["volumeMounts"]]
            check(len(places) == len(set(places)), f"{name} mounts two volumes at one place: {places}")
            mounted |= {mount["name"] for mount in one["volumeMounts"]}
            for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
                get = one.get(probe, {}).get("httpGet", one.get(probe, {}).get("tcpSocket"))
                check(get is None or get["port"] in {port["name"] for port in one["ports"]}, f"{name}: {probe} names another port: {get}")
            for variable in one.get("env", []):
                key = variable["valueFrom"]["secretKeyRef"]
                check(key["key"] in secrets.get(key["name"], ()), f"{name} needs the secret {key}; the commands make {secrets}")
                used.add(key["name"])
        check(mounted == set(volumes) | claims, f"{name} mounts {mounted} and has {set(volumes) | claims}")
        for volume in volumes.values():
            if "configMap" in volume:
                check(volume["configMap"]["name"] in maps, f"{name} needs {volume}; there are {list(maps)}")
                used.add(volume["configMap"]["name"])
            if "secret" in volume:
                check(volume["secret"]["secretName"] in secrets, f"{name} needs {volume}; the commands make {secrets}")
                used.add(volume["secret"]["secretName"])
    for thing in objects.of("ServiceMonitor"):
        for end in thing["spec"]["endpoints"]:
            key = end["authorization"]["credentials"]
            check(key["key"] in secrets.get(key["name"], ()), f"the ServiceMonitor needs the secret {key}; the commands make {secrets}")
            used.add(key["name"])
    check(used == set(maps) | set(secrets), f"{objects.overlay}: nobody uses {(set(maps) | set(secrets)) - used}")


def check_power(objects):
    user = int(re.search(r"^IMAGE_USER=(.*)$", (TREE / "cmake/verbs/image.sh").read_text(), re.MULTILINE)[1])
    for name, pod in objects.pods().items():
        spec = pod["spec"]
        check(spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", f"{name}: {spec['securityContext']}")
        check(spec["automountServiceAccountToken"] is False, f"{name} has a token of the cluster")
        for one in spec["containers"] + spec.get("initContainers", []):
            power = one["securityContext"]
            check(power["allowPrivilegeEscalation"] is False and power["readOnlyRootFilesystem"] is True and power["capabilities"] == {"drop": ["ALL"]},
                  f"{name}: {one['name']} has {power}")
            check("limits" in one["resources"] and "requests" in one["resources"], f"{name}: {one['name']} has no resources")
            if "tern-aggregator" in one["image"]:
                check(power.get("runAsUser", spec["securityContext"]["runAsUser"]) == user, f"{name} runs as another user than the image's")
    check(objects.aggregator()["securityContext"]["fsGroup"] == user, "the volume is another group's")


def settings_of(objects, folder):
    path = pathlib.Path(folder) / "aggregator.ini"
    path.write_text(objects.named("ConfigMap", "tern-settings")["data"]["aggregator.ini"])
    return path


def check_figures(objects):
    """Requests are what plan estimates, rounded up; the limit is that of the systemd unit, as are the times of probes."""
    unit = (TREE / "configs/systemd/tern-aggregator.service").read_text()
    one = container(objects.aggregator(), "aggregator")
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of(objects, folder)
        plan = json.loads(run(BIN / "tern-aggregator", "plan", "--json", "--clients", CLIENTS, "--config", settings, "--state", f"{folder}/none",
                              "--set", "store.url="))
        run(BIN / "tern-aggregator", "serve", "--check", "--config", settings)
    check(f"plan --clients {CLIENTS}`" in "".join(path.read_text() for path in (KUBERNETES / objects.overlay.split("/")[-1]).glob("*.yaml")),
          "the number of clients is another")
    step = 64 * 2**20
    needs = math.ceil(plan["memory"] / step) * step
    check(in_bytes(one["resources"]["requests"]["memory"]) == needs, f"memory of {needs} bytes is planned: {one['resources']}")
    check(float(one["resources"]["requests"]["cpu"].rstrip("m")) / 1000 >= plan["cores"], f"{plan['cores']} cores are planned")
    limit = re.search(r"^MemoryMax=(\d+)G$", unit, re.MULTILINE)[1]
    check(one["resources"]["limits"]["memory"] == f"{limit}Gi", f"the unit has MemoryMax={limit}G: {one['resources']}")
    for thing in objects.of("StatefulSet"):
        claim, = thing["spec"]["volumeClaimTemplates"]
        size = in_bytes(claim["spec"]["resources"]["requests"]["storage"])
        check(plan["disk"] <= size <= 2 * plan["disk"], f"disk of {plan['disk']} bytes is planned, the volume has {size}")
    minutes = {"livenessProbe": int(re.search(r"^WatchdogSec=(\d+)min$", unit, re.MULTILINE)[1]),
               "startupProbe": int(re.search(r"^TimeoutStartSec=(\d+)min$", unit, re.MULTILINE)[1])}
    for name, wanted in minutes.items():
        probe = one.get(name)
        check(probe is None or probe["periodSeconds"] * probe["failureThreshold"] == 60 * wanted, f"{name} is not of {wanted} minutes: {probe}")
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[1]
    check(objects.aggregator()["terminationGracePeriodSeconds"] == int(stop), f"the unit has TimeoutStopSec={stop}")


def check_kinds(objects):
    kinds = sorted(thing["kind"] for thing in objects)
    check(objects.overlay.startswith("monitoring") == ("ServiceMonitor" in kinds), f"{objects.overlay} has {kinds}")
    if objects.overlay.endswith("sqlite"):
        check([thing["spec"]["replicas"] for thing in objects.of("StatefulSet", "Deployment")] == [1], "SQLite has one aggregator")
    else:
        check(all(thing["spec"]["replicas"] == 2 for thing in objects.of("Deployment")), "there is no standby")
        for budget in objects.of("PodDisruptionBudget"):
            check(budget["spec"]["minAvailable"] == 1, f"{budget} blocks a node's drain, or protects nothing")
        check(len(objects.of("PodDisruptionBudget")) == len(objects.of("Deployment")), "a Deployment has no budget")
    for one in {thing["metadata"].get("namespace") for thing in objects}:
        check(one == "tern", f"an object of {objects.overlay} is in the namespace {one}")


def check_default_deny(objects):
    """The aggregator's other ports are closed, and the admin listener's metrics are for the namespace monitoring."""
    policy = objects.named("NetworkPolicy", "tern-aggregator")["spec"]
    check(policy["ingress"] == [] and policy["egress"] == [] and policy["policyTypes"] == ["Ingress", "Egress"], f"{policy} is open")
    for thing in objects.of("NetworkPolicy"):
        for rule in thing["spec"].get("ingress", []):
            ports = {port["port"] for port in rule["ports"]}
            if "from" not in rule:
                check(ports == {"devices"}, f"anybody reaches {ports}")
            elif "metrics" in ports:
                check(rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}] and ports == {"metrics"},
                      f"metrics are open to {rule}")


def check_alike():
    """The pods of both overlays are the same in all but what their databases make different."""
    pods = [Objects(name).aggregator() for name in OVERLAYS[:2]]
    for name in ("securityContext", "terminationGracePeriodSeconds", "automountServiceAccountToken", "enableServiceLinks"):
        check(pods[0][name] == pods[1][name], f"{name} differs")
    for name in ("image", "args", "securityContext", "resources", "volumeMounts"):
        for kind in ("containers", "initContainers"):
            first, second = ([one[name] for one in pod[kind]] for pod in pods)
            check(first == second, f"{name} of {kind} differs: {first}, {second}")


def test():
    with tempfile.TemporaryDirectory() as folder:
        make_certificates(folder)
        for overlay in OVERLAYS:
            objects = Objects(overlay)
            findings = [one for thing in objects for one in findings_of(thing)]
            check(not findings, f"{overlay}: " + "; ".join(findings))
            check_kinds(objects)
            check_selectors(objects)
            check_volumes(objects, secrets_of(overlay, folder))
            check_power(objects)
            check_figures(objects)
            check_default_deny(objects)
    check_alike()


if __name__ == "__main__":
    os.environ.setdefault("HOME", tempfile.gettempdir())  # kubectl keeps a cache there
    main(test)
