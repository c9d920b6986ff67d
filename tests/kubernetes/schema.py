"""The fields of Kubernetes objects that configs/kubernetes uses, written from the API reference (v1.32) and, for ServiceMonitor,
from the reference of the Prometheus operator. A field that is not here is a finding: add it after a look at its documentation."""
import re


def obj(required="", **fields):
    """An object with these fields, of which those in `required` must be there."""
    def judge(value, path):
        if not isinstance(value, dict):
            return [f"{path} is no object"]
        found = [f"{path} has the unknown field {name}" for name in value if name not in fields]
        found += [f"{path} lacks {name}" for name in required.split() if name not in value]
        for name in set(value) & set(fields):
            found += fields[name](value[name], f"{path}.{name}")
        return found
    return judge


def one_of(names, **fields):
    """An object that has exactly one of the fields `names`, for each word of it, and any of the others."""
    inner = obj(**fields)

    def judge(value, path):
        given = [name for name in names.split() if name in value]
        return inner(value, path) + ([] if len(given) == 1 else [f"{path} has {given}, not one of {names}"])
    return judge


def rows(of):
    return lambda value, path: ([f"{path} is no list"] if not isinstance(value, list) else
                                [one for at, row in enumerate(value) for one in of(row, f"{path}[{at}]")])


def matching(pattern, what):
    def judge(value, path):
        return [] if isinstance(value, str) and re.fullmatch(pattern, value) else [f"{path} is {value!r}, which is no {what}"]
    return judge


def either(*values):
    return lambda value, path: [] if value in values and isinstance(value, type(values[0])) else [f"{path} is {value!r}, not of {values}"]


def number(least, most):
    return lambda value, path: ([] if type(value) is int and least <= value <= most  # pylint: disable=unidiomatic-typecheck
                                else [f"{path} is {value!r}, not {least} to {most}"])


def any_of(*judges):
    return lambda value, path: [] if any(not judge(value, path) for judge in judges) else judges[0](value, path)


def mapping(of, keys=r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"):
    return lambda value, path: ([f"{path} is no object"] if not isinstance(value, dict) else
                                [f"{path} has the name {key}" for key in value if not re.fullmatch(keys, key)] +
                                [one for key, item in value.items() for one in of(item, f"{path}.{key}")])


TEXT = matching(r"(?s).*", "text")
NAME = matching(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "name of an object (RFC 1123)")
LABEL = matching(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "label (RFC 1123)")
PORT_NAME = matching(r"(?=.*[a-z])[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?", "name of a port (IANA, 15 characters)")
PORT = number(1, 65535)
PORT_OR_NAME = any_of(PORT, PORT_NAME)
BOOL = either(True, False)
QUANTITY = any_of(matching(r"\d+(\.\d+)?(m|k|[MGTPE]|Ki|[MGTPE]i)?", "quantity"), number(0, 2**62))
PATH = matching(r"/[^:]*", "absolute path")
PROTOCOL = either("TCP", "UDP", "SCTP")
LABELS = mapping(matching(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", "value of a label"))
SELECTOR = obj("matchLabels", matchLabels=LABELS)
IDS = number(1, 2**31 - 1)
META = obj("name", name=NAME, namespace=LABEL, labels=LABELS, annotations=mapping(TEXT))
KEY_OF = obj("name key", name=NAME, key=TEXT)

SECCOMP = obj("type", type=either("RuntimeDefault"))
PROBE = one_of("httpGet tcpSocket exec", httpGet=obj("port", path=PATH, port=PORT_OR_NAME, scheme=either("HTTP", "HTTPS")),
               tcpSocket=obj("port", port=PORT_OR_NAME), exec=obj("command", command=rows(TEXT)),
               periodSeconds=number(1, 3600), timeoutSeconds=number(1, 600), failureThreshold=number(1, 1000),
               successThreshold=number(1, 100), initialDelaySeconds=number(0, 3600))
CONTAINER = obj(
    "name image", name=LABEL, image=TEXT, args=rows(TEXT), command=rows(TEXT), env=rows(obj(
        "name", name=matching(r"[A-Za-z_][A-Za-z0-9_]*", "name of a variable"), value=TEXT, valueFrom=obj(secretKeyRef=KEY_OF))),
    ports=rows(obj("containerPort", name=PORT_NAME, containerPort=PORT, protocol=PROTOCOL)),
    livenessProbe=PROBE, readinessProbe=PROBE, startupProbe=PROBE,
    resources=obj(requests=mapping(QUANTITY), limits=mapping(QUANTITY)),
    securityContext=obj(allowPrivilegeEscalation=BOOL, readOnlyRootFilesystem=BOOL, runAsUser=IDS, runAsGroup=IDS,
                        capabilities=obj(drop=rows(TEXT), add=rows(TEXT))),
    volumeMounts=rows(obj("name mountPath", name=LABEL, mountPath=PATH, readOnly=BOOL)))
VOLUME = one_of("configMap secret emptyDir persistentVolumeClaim", name=LABEL, configMap=obj("name", name=NAME, defaultMode=number(0, 511)),
                secret=obj("secretName", secretName=NAME, defaultMode=number(0, 511)),
                emptyDir=obj(sizeLimit=QUANTITY, medium=either("", "Memory")),
                persistentVolumeClaim=obj("claimName", claimName=NAME))
POD = obj("metadata spec", metadata=obj("labels", labels=LABELS, annotations=mapping(TEXT)), spec=obj(
    "containers", containers=rows(CONTAINER), initContainers=rows(CONTAINER), volumes=rows(VOLUME),
    automountServiceAccountToken=BOOL, enableServiceLinks=BOOL, terminationGracePeriodSeconds=number(0, 3600),
    securityContext=obj(runAsNonRoot=BOOL, runAsUser=IDS, runAsGroup=IDS, fsGroup=IDS, seccompProfile=SECCOMP,
                        fsGroupChangePolicy=either("OnRootMismatch", "Always")),
    topologySpreadConstraints=rows(obj("maxSkew topologyKey whenUnsatisfiable", maxSkew=number(1, 100), topologyKey=TEXT,
                                       whenUnsatisfiable=either("ScheduleAnyway", "DoNotSchedule"), labelSelector=SELECTOR))))
CLAIM = obj("metadata spec", metadata=obj("name", name=NAME), spec=obj(
    "accessModes resources", accessModes=rows(either("ReadWriteOnce", "ReadWriteOncePod")), storageClassName=NAME,
    resources=obj("requests", requests=mapping(QUANTITY))))
POLICY_PORTS = rows(obj("port", port=PORT_OR_NAME, protocol=PROTOCOL))
PEERS = rows(obj(podSelector=SELECTOR, namespaceSelector=SELECTOR))


def kind(spec, required="spec", **more):
    head = {"apiVersion": TEXT, "kind": TEXT, "metadata": META}
    return obj("apiVersion kind metadata " + required, **head, **({"spec": spec} if spec else {}), **more)


KINDS = {
    ("v1", "ConfigMap"): kind(None, "data", data=mapping(TEXT)),
    ("v1", "Secret"): kind(None, "data", data=mapping(matching(r"[A-Za-z0-9+/]*={0,2}", "base64")), type=TEXT),
    ("v1", "Service"): kind(obj(
        "selector ports", selector=LABELS, type=either("LoadBalancer", "ClusterIP", "NodePort"), clusterIP=either("None"),
        externalTrafficPolicy=either("Local", "Cluster"), publishNotReadyAddresses=BOOL,
        ports=rows(obj("port", name=LABEL, port=PORT, targetPort=PORT_OR_NAME, protocol=PROTOCOL)))),
    ("apps/v1", "StatefulSet"): kind(obj(
        "selector template serviceName", replicas=number(0, 1000), serviceName=NAME, selector=SELECTOR, template=POD,
        volumeClaimTemplates=rows(CLAIM))),
    ("apps/v1", "Deployment"): kind(obj("selector template", replicas=number(0, 1000), selector=SELECTOR, template=POD)),
    ("policy/v1", "PodDisruptionBudget"): kind(one_of(
        "minAvailable maxUnavailable", minAvailable=number(0, 1000), maxUnavailable=number(0, 1000), selector=SELECTOR)),
    ("networking.k8s.io/v1", "NetworkPolicy"): kind(obj(
        "podSelector", podSelector=SELECTOR, policyTypes=rows(either("Ingress", "Egress")),
        ingress=rows(obj(**{"from": PEERS}, ports=POLICY_PORTS)), egress=rows(obj(to=PEERS, ports=POLICY_PORTS)))),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): kind(obj(
        "selector endpoints", selector=SELECTOR, endpoints=rows(obj(
            port=TEXT, path=PATH, interval=matching(r"\d+(s|m|h)", "duration"), scheme=either("http", "https"),
            authorization=obj(type=TEXT, credentials=KEY_OF))))),
}


def findings_of(thing):
    """What is wrong with an object."""
    judge = KINDS.get((thing.get("apiVersion"), thing.get("kind")))
    name = f"{thing.get('kind')} {thing.get('metadata', {}).get('name')}"
    return [f"{name}: no kind of {thing.get('apiVersion')} is known"] if judge is None else judge(thing, name)
