#!/usr/bin/python3
"""The containers of configs/kubernetes as processes of this machine: the real aggregator with the settings of the ConfigMap and the
real HAProxy with its own, and what the kubelet, devices and Prometheus ask them. Paths and ports alone are others."""
import http.client
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys

from objects import TREE, Objects, check, container, skip

sys.path.insert(0, str(TREE / "tests" / "postgres"))
import cluster  # noqa: E402

sys.path.insert(0, str(TREE / "tests" / "end_to_end"))
from harness import BIN, PATIENCE, Workspace, main, make_certificates, run, wait_until  # noqa: E402
from ports import port_to_keep  # noqa: E402
from proxies import as_nobody, program_of  # noqa: E402


class Pod:
    """One of the aggregator's: its folder stands for its volumes."""

    def __init__(self, workspace, objects, name, url=""):
        self.workspace, self.name, self.spec = workspace, name, objects.aggregator()
        self.one = container(self.spec, "aggregator")
        self.port, self.admin = port_to_keep(), port_to_keep()
        self.folder = workspace.path / name
        self.folder.mkdir()
        for file, key in (("server.crt", "tls.crt"), ("server.key", "tls.key")):
            (self.folder / key).write_bytes((workspace.path / file).read_bytes())
            (self.folder / key).chmod(next(one["secret"]["defaultMode"] for one in self.spec["volumes"] if "secret" in one))
        self.folder.chmod(0o2777)  # as the kubelet makes a volume
        text = objects.named("ConfigMap", "tern-settings")["data"]["aggregator.ini"]
        self.config = self.folder / "aggregator.ini"
        self.config.write_text(re.sub(r"(?m)^(\w+) = (/.*)$", self.path, text))
        self.given = ["--config", self.config, "--set", f"admin.port={self.admin}", "--set", f"server.port={self.port}",
                      *(("--set", f"store.url={url}&application_name={name}") if url else ())]
        self.process = None

    def path(self, setting):
        """A setting whose path is in the pod's folder instead of in the volume that is mounted there."""
        name, path = setting.groups()
        mounts = [mount["mountPath"] for mount in self.one["volumeMounts"] if f"{path}/".startswith(mount["mountPath"] + "/")]
        check(len(mounts) == 1, f"{path} is in none of the volumes: {setting[0]}")
        return f"{name} = {self.folder}{path.removeprefix(mounts[0])}"

    def start(self):
        for init in self.spec["initContainers"]:
            run(BIN / "tern-aggregator", *init["args"], *self.given)
        self.process = self.workspace.start(BIN / "tern-aggregator", *self.one["args"], *self.given, log=self.name)
        return self

    def says(self, words):
        return self.times(words) > 0

    def times(self, words):
        return (self.workspace.path / f"{self.name}.log").read_text().count(words)

    def probe(self, name):
        """As the kubelet does, which checks no certificate. Whether it succeeds."""
        probe = self.one[name]
        if "exec" in probe:
            program, *arguments = probe["exec"]["command"]
            check(program == "/usr/bin/tern-aggregator", f"the image has no {program}")
            done = subprocess.run([BIN / "tern-aggregator", *arguments, *map(str, self.given)], capture_output=True, text=True,
                                  timeout=PATIENCE, check=False)
            check(done.returncode in (0, 1), f"{name}: {done.stderr}")
            return done.returncode == 0
        port = {port["name"]: self.port for port in self.one["ports"]}[probe["httpGet"]["port"]]
        return get(port, probe["httpGet"]["path"], tls=probe["httpGet"]["scheme"] == "HTTPS") == 200

    def probes(self):
        return {name: self.probe(name) for name in self.one if name.endswith("Probe")}


def get(port, path, tls=False, method="GET", **headers):
    """The status, or None where nobody answers."""
    context = ssl._create_unverified_context() if tls else None  # pylint: disable=protected-access
    connection = (http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context) if tls else
                  http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE))
    try:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def start_haproxy(workspace, name, text, **replaced):
    folder = workspace.path / name
    folder.mkdir()
    program, libraries = program_of("haproxy", folder)
    for shown, instead in replaced.values():
        check(text.count(shown) == 1, f"{name} has not one {shown!r}")
        text = text.replace(shown, instead)
    (folder / "haproxy.cfg").write_text(text)
    command = ["env", f"LD_LIBRARY_PATH={libraries}", program, "-db", "-f", folder / "haproxy.cfg"]
    return workspace.start(*as_nobody(workspace, folder, command), log=name)


def metrics_are_for_prometheus(workspace, overlay, pod):
    """With the token, and nothing else of the admin listener, with or without it."""
    objects, port = Objects(f"monitoring/{overlay}"), port_to_keep()
    sidecar = container(objects.aggregator(), "metrics")
    check([one["containerPort"] for one in sidecar["ports"]] == [9444], f"the sidecar's ports are {sidecar['ports']}")
    start_haproxy(workspace, "metrics", objects.named("ConfigMap", "tern-metrics")["data"]["haproxy.cfg"],
                  bind=("bind :9444", f"bind 127.0.0.1:{port}"), admin=("127.0.0.1:9443", f"127.0.0.1:{pod.admin}"))
    state = re.search(r"^state = (.*)$", pod.config.read_text(), re.MULTILINE)[1]
    token = {"Authorization": f"Bearer {pathlib.Path(state, 'admin.token').read_text().strip()}"}
    end = objects.of("ServiceMonitor")[0]["spec"]["endpoints"][0]
    wait_until("nobody gets metrics", lambda: get(port, end["path"], Host="tern-metrics", **token) == 200)
    check(get(port, end["path"]) == 401, "metrics are for anybody")
    for method, path in (("GET", "/api/v1/status"), ("GET", "/metrics/"), ("POST", "/metrics"), ("GET", "/")):
        check(get(port, path, method=method, **token) == 404, f"{method} {path} goes through")


def one_with_sqlite():
    with Workspace() as workspace:
        make_certificates(workspace.path)
        pod = Pod(workspace, Objects("sqlite"), "tern-aggregator-0").start()
        wait_until("it does not get ready", lambda: all(pod.probes().values()))
        check(get(pod.port, "/no-such-path", tls=True) == 404, "every path is served")
        check(not pod.says("loose-permissions"), "others can read a secret")
        metrics_are_for_prometheus(workspace, "sqlite", pod)
        pod.process.terminate()
        check(pod.process.wait(timeout=PATIENCE) == 0, "it does not end in order")
        check(not any(pod.probes().values()), "a probe succeeds without a service")
        pod.start()  # as after an upgrade
        wait_until("it does not get ready again", lambda: all(pod.probes().values()))


def age(pod):
    """Sets the heartbeat back, instead of waiting for a minute."""
    (lock,) = pod.folder.glob("**/lock")
    os.utime(lock, (0, 0))


def reload(pod):
    """Returns after the end of a turn of its loop."""
    before = pod.times("event=reloaded")
    pod.process.send_signal(signal.SIGHUP)
    wait_until("it does not read its settings", lambda: pod.times("event=reloaded") > before)


def hangs_as_standby(pod, postgres):
    """The whole process, and then its watch of the leader alone, since the server does not answer that."""
    pod.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, pod.process.pid, os.WSTOPPED | os.WNOWAIT)
    age(pod)
    check(not any(pod.probes().values()), f"a standby that hangs is healthy: {pod.probes()}")
    pod.process.send_signal(signal.SIGCONT)
    wait_until("it does not get healthy again", lambda: all(pod.probes().values()))
    sessions = postgres.sql(f"SELECT pid FROM pg_stat_activity WHERE application_name = '{pod.name}' ORDER BY backend_start").split()
    check(len(sessions) == 2, f"a standby has {len(sessions)} sessions")
    watch = int(sessions[1])
    os.kill(watch, signal.SIGSTOP)
    try:
        reload(pod)
        age(pod)
        reload(pod)
        check(not any(pod.probes().values()), f"a standby that watches no leader is healthy: {pod.probes()}")
    finally:
        os.kill(watch, signal.SIGCONT)
    wait_until("it does not get healthy again", lambda: all(pod.probes().values()))


def two_with_postgresql():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    with cluster.Cluster() as postgres, Workspace() as workspace:
        make_certificates(workspace.path)
        objects = Objects("postgresql")
        one, two = (Pod(workspace, objects, name, postgres.url()) for name in ("one", "two"))
        front, health = port_to_keep(), port_to_keep()
        config = objects.named("ConfigMap", "tern-front")["data"]["haproxy.cfg"]
        server = re.search(r"    server-template aggregator \d+ tern-peers\.tern\.svc\.cluster\.local:8443 (.*) resolvers cluster init-addr none\n", config)
        check(server, "HAProxy has no servers")
        start_haproxy(workspace, "front", config, devices=("bind :8443", f"bind 127.0.0.1:{front}"), health=("bind :8404", f"bind 127.0.0.1:{health}"),
                      servers=(server[0], "".join(f"    server {pod.name} 127.0.0.1:{pod.port} {server[1]}\n" for pod in (one, two))),
                      files=("maxconn 10000", "maxconn 100"))
        wait_until("HAProxy does not miss a leader", lambda: get(health, "/readyz") == 503)
        one.start()
        wait_until("no aggregator leads", lambda: get(one.admin, "/readyz") == 200)
        two.start()
        wait_until("the second does not stand by", lambda: two.says("event=stands-by"))
        check(all(one.probes().values()) and all(two.probes().values()), f"{one.probes()}, {two.probes()}")
        check(not one.says("loose-permissions"), "others can read a secret")
        wait_until("HAProxy finds no leader", lambda: get(health, "/readyz") == 200)
        check(get(front, "/readyz", tls=True) == 200, "devices reach nobody")
        hangs_as_standby(two, postgres)
        one.process.kill()
        one.process.wait()
        wait_until("the standby does not lead", lambda: get(two.admin, "/readyz") == 200)
        wait_until("devices do not reach the new leader", lambda: get(front, "/readyz", tls=True) == 200)
        check(all(two.probes().values()), f"{two.probes()}")
        two.process.kill()
        two.process.wait()
        wait_until("HAProxy does not miss the leader", lambda: get(health, "/readyz") == 503)


def test():
    os.environ.setdefault("HOME", "/nonexistent")
    one_with_sqlite()
    two_with_postgresql()


if __name__ == "__main__":
    main(test)
