"""A federation of containers: an aggregator and five clients, by podman, each with a root that cannot be written and the
user 10001. The aggregator and a client are killed, the aggregator's container is replaced by a new one over the same volume,
as an upgrade does, and a backup is restored; rounds go on each time, and the history replays.
A health check by `probe` finds one that hangs. Images of another processor run by
qemu's user emulation, which the containers get as a file.
usage: test_image.py FOLDER ARCH (./tern image --test; needs root)."""
import json
import os
import pathlib
import platform
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import Workspace, check, main, make_certificates, wait_until  # noqa: E402

FOLDER, ARCH = pathlib.Path(sys.argv[1]), sys.argv[2]
USER = 10001
CLIENTS = 5
# What runs within a container, too: no control groups of its own, and storage without overlays.
PODMAN = ["podman", "--cgroup-manager", "cgroupfs", "--runtime", "runc", "--storage-driver", "vfs"]
RUN = ("--network", "host", "--read-only", "--cap-drop", "all", "--ulimit", "nofile=512:512", "--ulimit", "nproc=500:500")
# What goes before the program of another processor.
QEMU = [] if platform.machine() == {"amd64": "x86_64", "arm64": "aarch64"}[ARCH] else ["/qemu"]
EMULATOR = "/usr/bin/qemu-aarch64-static"
SETTINGS = """[federation]
model = mlp:256-16-10
[server]
address = 127.0.0.1
port = {port}
port_file = /var/lib/tern/port
[admin]
address = unix:/var/lib/tern/admin.sock
[round]
cohort = 3
min_clients = 5
deadline = 30s
rounds = 100000
min_interval = 200ms
come_back_min = 50ms
come_back_max = 1s
[limits]
requests_per_minute = 100000
"""


def podman(*arguments, ok=(0,)):
    done = subprocess.run(list(map(str, [*PODMAN, *arguments])), capture_output=True, text=True, timeout=300, check=False)
    check(done.returncode in ok, f"podman {' '.join(map(str, arguments))} exited {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


class Containers:
    """Of one federation: names begin with those of this process. All are removed at the end."""

    def __init__(self, path):
        self.path, self.prefix = path, f"tern-test-{os.getpid()}"
        PODMAN.extend(("--root", path / "storage", "--runroot", path / "run", "--tmpdir", path / "run"))
        self.images = {name: self.load(name) for name in ("aggregator", "client")}
        make_certificates(path)
        self.port = 0
        self.write_settings()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        names = podman("ps", "--all", "--quiet", "--filter", f"name={self.prefix}").split()
        if kind is not None:
            for name in names:
                print(podman("logs", "--tail", "5", name, ok=(0, 125)), file=sys.stderr)
        if names:
            podman("rm", "--force", "--time", "0", *names)

    def load(self, name):
        return podman("load", "--quiet", "--input", FOLDER / f"tern-{name}-{ARCH}.tar").split()[-1]

    def write_settings(self):
        (self.path / "aggregator.ini").write_text(SETTINGS.format(port=self.port))

    def volume(self, name):
        """A folder that the container's user may write to."""
        folder = self.path / name
        folder.mkdir(exist_ok=True)
        folder.chmod(0o700)
        os.chown(folder, USER, USER)
        return folder

    def options(self, name):
        mounted = {"aggregator.ini": "/etc/tern/aggregator.ini", "ca.crt": "/etc/tern/ca.crt"}
        return [*RUN, "--volume", f"{self.volume(name)}:/var/lib/tern",
                *[word for file, inside in mounted.items() for word in ("--volume", f"{self.path / file}:{inside}:ro")]]

    def program(self, image, *command):
        """An image's options, name and command, by the emulator where it needs one."""
        before = ["--entrypoint", QEMU[0], "--volume", f"{EMULATOR}:{QEMU[0]}:ro"] if QEMU else []
        return [*before, self.images[image], *([f"/usr/bin/tern-{image}"] if QEMU else []), *command]

    def once(self, name, *command, image="aggregator"):
        return podman("run", "--rm", *self.options(name), *self.program(image, *command))

    def start(self, name, *command, image="aggregator"):
        podman("rm", "--force", "--time", "0", self.named(name), ok=(0, 1))
        health = ["--health-interval", "disable", "--health-cmd", json.dumps([*QEMU, f"/usr/bin/tern-{image}", "probe", "ready"])]
        podman("run", "--detach", "--name", self.named(name), *(health if image == "aggregator" else ()), *self.options(name),
               *self.program(image, *command))

    def named(self, name):
        return f"{self.prefix}-{name}"

    def verb(self, *command):
        return podman("exec", self.named("aggregator"), *QEMU, "/usr/bin/tern-aggregator", *command)

    def is_healthy(self):
        """Whether the health check of the image's own program succeeds."""
        return podman("healthcheck", "run", self.named("aggregator"), ok=(0, 1)).strip() == ""

    def serve(self):
        port = self.path / "aggregator" / "port"
        port.unlink(missing_ok=True)
        self.start("aggregator", "serve")
        wait_until("the aggregator does not listen", lambda: port.exists() and port.read_text().strip())
        self.port = int(port.read_text())
        self.write_settings()

    def committed(self):
        return sum(row["state"] == "committed" for row in json.loads(self.verb("rounds", "--json")))

    def expect_rounds(self, after):
        first = self.committed()
        wait_until(f"no rounds after {after}", lambda: self.committed() >= first + 2)


def of_client(containers, number):
    return [word for setting in (
        f"client.server=https://localhost:{containers.port}", "client.ca=/etc/tern/ca.crt", "client.state_dir=/var/lib/tern/client",
        "client.wait=1s", "client.retry_min=100ms", "client.retry_max=1s",
        f"data.source=digits:train=60,test=20,size=16,seed={number + 1}") for word in ("--set", setting)]


def start_client(containers, number):
    containers.start(f"client{number}", "run", *of_client(containers, number), image="client")


def expect_little_power(containers):
    """The program's user, and a root that it cannot write."""
    process = podman("inspect", "--format", "{{.State.Pid}}", containers.named("aggregator")).strip()
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    check(f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}" in status, status)
    check("CapEff:\t0000000000000000" in status, status)
    root = [line.split() for line in pathlib.Path(f"/proc/{process}/mounts").read_text().splitlines() if line.split()[1] == "/"][-1]
    check("ro" in root[3].split(","), f"the root is mounted {root[3]}")


def expect_health(containers):
    check(containers.is_healthy(), "the aggregator is not healthy")
    podman("kill", "--signal", "STOP", containers.named("aggregator"))
    check(not containers.is_healthy(), "an aggregator that hangs is healthy")
    podman("kill", "--signal", "CONT", containers.named("aggregator"))
    wait_until("it does not get healthy again", containers.is_healthy)


def copy_certificates(containers):
    state = containers.path / "aggregator" / "tern-state"
    for name in ("server.crt", "server.key"):
        file = state / name
        file.write_bytes((containers.path / name).read_bytes())
        os.chown(file, USER, USER)


def expect_named_volume(containers):
    """The image's own settings and a new volume of the engine: what the documents show first."""
    volume = containers.named("volume")
    try:
        for verb, says in (("init", '"state":"/var/lib/tern/state"'), ("status", '"rounds_committed":0')):
            shown = podman("run", "--rm", *RUN, "--volume", f"{volume}:/var/lib/tern", *containers.program("aggregator", verb, "--json"))
            check(says in shown, f"{verb} prints {shown}")
    finally:
        podman("volume", "rm", "--force", volume)


def expect_parts():
    for name in ("aggregator", "client"):
        parts = json.loads((FOLDER / f"tern-{name}-{ARCH}.cdx.json").read_text())
        names = {part["name"] for part in parts["components"]}
        check(parts["metadata"]["component"]["name"] == f"tern-{name}", str(parts["metadata"]))
        check(any("mbedtls" in part for part in names) and all(part["version"] for part in parts["components"]), str(names))


def test():
    expect_parts()
    with Workspace() as workspace, Containers(workspace.path) as containers:
        expect_named_volume(containers)
        containers.once("aggregator", "init")
        copy_certificates(containers)
        containers.serve()
        code = json.loads(containers.verb("enroll-code", "--uses", CLIENTS, "--json"))["code"]
        for number in range(CLIENTS):
            containers.once(f"client{number}", "enroll", code, *of_client(containers, number), image="client")
            start_client(containers, number)
        wait_until("no round ends", lambda: containers.committed() >= 2)
        expect_little_power(containers)
        expect_health(containers)
        podman("kill", "--signal", "KILL", containers.named("client0"))
        start_client(containers, 0)
        podman("kill", "--signal", "KILL", containers.named("aggregator"))
        containers.serve()
        containers.expect_rounds("a kill")
        containers.verb("backup", "/var/lib/tern/backup")
        podman("stop", "--time", "30", containers.named("aggregator"))
        containers.serve()
        containers.expect_rounds("an upgrade")
        podman("stop", "--time", "30", containers.named("aggregator"))
        containers.once("aggregator", "restore", "/var/lib/tern/backup")
        containers.serve()
        containers.expect_rounds("a restored backup")
        containers.verb("verify")
        print(f"{containers.committed()} rounds of {CLIENTS} clients in containers; killed, upgraded, restored, and the history replays")


main(test)
