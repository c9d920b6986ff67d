"""configs/compose as it is, by podman-compose: three aggregators on PostgreSQL behind nginx. A client trains through nginx; the leader is
killed, and a standby goes on. Debian's PostgreSQL and nginx stand in for the images of the registry, which is out of reach: their images
have a script and this machine's /usr. Name, port and model alone are others.
usage: test_compose.py FOLDER ARCH (./tern image --test; needs root)."""
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests" / "end_to_end"))
from harness import BIN, Workspace, check, main, make_certificates, run, wait_until  # noqa: E402
from ports import port_to_keep  # noqa: E402

FOLDER, ARCH = pathlib.Path(sys.argv[1]), sys.argv[2]
AGGREGATORS = ("one", "two", "three")
# What works within a container, too: no control groups of its own, and storage without overlays.
CONTAINERS = """[containers]
default_ulimits = ["nofile=512:512", "nproc=500:500"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
[network]
network_backend = "netavark"
"""
POSTGRES = """#!/bin/sh -e
if [ -e /opt/postgresql/lib ]; then
    export LD_LIBRARY_PATH=$(echo /opt/postgresql/lib/*-linux-gnu)
fi
PATH=/usr/bin:$(ls -d /opt/postgresql/lib/postgresql/*/bin /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
if [ ! -e $PGDATA/PG_VERSION ]; then
    echo "$POSTGRES_PASSWORD" >/tmp/password
    initdb -U "$POSTGRES_USER" --pwfile=/tmp/password -A scram-sha-256 $POSTGRES_INITDB_ARGS -D $PGDATA --locale=C >/dev/null
    echo "host all all all scram-sha-256" >>$PGDATA/pg_hba.conf
    echo "CREATE DATABASE \\"$POSTGRES_DB\\"" | postgres --single -D $PGDATA postgres >/dev/null
fi
exec postgres -D $PGDATA -c listen_addresses='*' -c unix_socket_directories=/tmp,/var/run/postgresql
"""
NGINX = """#!/bin/sh -e
exec /opt/nginx/sbin/nginx -p /tmp -e stderr -g 'load_module /opt/nginx/modules/ngx_stream_module.so; daemon off; pid /tmp/nginx.pid; error_log stderr;'
"""


def archive_of(folders, files):
    """A root with these folders (owner 999) and files, whose programs are in /usr."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as root:
        for name in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            root.addfile(link)
        for name in ("usr", "etc", "tmp", *folders):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755, 999, 999
            root.addfile(folder)
        for name, text in files.items():
            file = tarfile.TarInfo(name)
            file.size, file.mode = len(text), 0o755
            root.addfile(file, io.BytesIO(text))
    return stream.getvalue()


class Stack:
    """The compose file's services under a name of this process. All are removed at the end."""

    def __init__(self, path):
        self.path, self.name, self.port = path, f"tern{os.getpid()}", port_to_keep()
        self.env = {**os.environ, "CONTAINERS_CONF": str(path / "containers.conf"), "TERN_DATABASE_PASSWORD": "a-password"}
        (path / "containers.conf").write_text(CONTAINERS)
        options = ("--storage-driver", "vfs", "--root", path / "storage", "--runroot", path / "run", "--tmpdir", path / "run",
                   "--network-config-dir", path / "networks")
        self.podman_path = path / "podman"
        self.podman_path.write_text(f"#!/bin/sh\nexec podman {' '.join(map(str, options))} \"$@\"\n")
        self.podman_path.chmod(0o755)
        shutil.copytree(TREE / "configs" / "compose", path / "compose")
        certificates = path / "compose" / "certificates"
        certificates.mkdir()
        make_certificates(certificates)
        os.chown(certificates / "server.key", 10001, 10001)
        self.own_files()
        self.make_images()

    def own_files(self):
        for name, shown, instead in (("compose.yml", '"8443:8443"', f'"127.0.0.1:{self.port}:8443"'), (
                "aggregator.ini", "model = mlp:784-128-10\n", "model = mlp:256-16-10\n[round]\ncohort = 1\nmin_clients = 1\n"
                "min_interval = 200ms\ncome_back_min = 50ms\ncome_back_max = 1s\n")):
            file = self.path / "compose" / name
            check(file.read_text().count(shown) == 1, f"{name} has not one {shown!r}")
            file.write_text(file.read_text().replace(shown, instead))
        unpacked = FOLDER.parent / "postgresql" / "usr"
        more = f", '{unpacked}:/opt/postgresql:ro'" if unpacked.exists() else ""
        (self.path / "compose" / "usr.yml").write_text(
            f"services: {{postgres: {{volumes: ['/usr:/usr:ro'{more}]}}, nginx: {{volumes: ['/usr:/usr:ro']}}}}\n")

    def make_images(self):
        self.podman("load", "--quiet", "--input", FOLDER / f"tern-aggregator-{ARCH}.tar")
        self.podman("tag", "localhost/tern-aggregator:latest", "docker.io/library/tern-aggregator:latest")
        build = FOLDER.parent
        nginx = build / "nginx" if (build / "nginx").exists() else pathlib.Path("/")
        modules = build / "libnginx-mod-stream"
        users = b"postgres:x:999:999::/tmp:/bin/sh\nroot:x:0:0::/tmp:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n"
        groups = b"postgres:x:999:\nroot:x:0:\nnogroup:x:65534:\n"
        common = {"etc/passwd": users, "etc/group": groups}
        data = "var/lib/postgresql/data"
        self.make_image("postgres:15", archive_of(("opt", "opt/postgresql", "var", "var/lib", "var/lib/postgresql", data, "var/run", "var/run/postgresql"),
                                                  {**common, "run.sh": POSTGRES.encode()}),
                        "USER 999:999", f"ENV PGDATA=/{data}", f"VOLUME /{data}")
        self.make_image("nginx:1.26", archive_of(("opt", "opt/nginx", "opt/nginx/sbin", "opt/nginx/modules", "etc/nginx", "var", "var/lib", "var/lib/nginx"), {
            **common, "run.sh": NGINX.encode(), "opt/nginx/sbin/nginx": (nginx / "usr/sbin/nginx").read_bytes(),
            "opt/nginx/modules/ngx_stream_module.so": (modules / "usr/lib/nginx/modules/ngx_stream_module.so").read_bytes()}))

    def make_image(self, name, root, *changes):
        file = self.path / "root.tar"
        file.write_bytes(root)
        words = [word for change in ('ENTRYPOINT ["/run.sh"]', *changes) for word in ("--change", change)]
        self.podman("import", "--quiet", *words, file, f"docker.io/library/{name}")

    def run(self, *command, ok=(0,)):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, check=False, env=self.env,
                              cwd=self.path / "compose")
        check(done.returncode in ok, f"{' '.join(map(str, command))} exited {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def podman(self, *arguments, ok=(0,)):
        return self.run(self.podman_path, *arguments, ok=ok)

    def compose(self, *arguments, ok=(0,)):
        return self.run("podman-compose", "--podman-path", self.podman_path, "-p", self.name, "-f", "compose.yml", "-f", "usr.yml",
                        *arguments, ok=ok)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            for name in ("postgres", "nginx", *AGGREGATORS):
                print(f"--- {name}", file=sys.stderr, flush=True)
                subprocess.run([self.podman_path, "logs", "--tail", "8", self.container(name)], env=self.env, check=False, stdout=sys.stderr)
        self.compose("down", "--volumes", ok=(0, 1, 125))

    def container(self, service):
        return f"{self.name}_{service}_1"

    def verb(self, service, *command):
        return self.podman("exec", self.container(service), "tern-aggregator", *command)

    def roles(self):
        """Names of the aggregators, and whether one leads; nothing while the first does not run."""
        done = subprocess.run([self.podman_path, "exec", self.container("one"), "tern-aggregator", "status", "--json"], capture_output=True,
                              text=True, check=False, env=self.env)
        rows = json.loads(done.stdout)["aggregators"] if done.returncode == 0 else []
        return {node["name"].split()[1]: node["leads"] for node in rows}  # "tern-aggregator one (1a0bde11)"

    def committed(self, service):
        return json.loads(self.verb(service, "status", "--json"))["rounds_committed"]


def test():
    with Workspace() as workspace, Stack(workspace.path) as stack:
        stack.compose("up", "-d", "postgres")
        wait_until("PostgreSQL does not start", lambda: subprocess.run(
            [stack.podman_path, "exec", stack.container("postgres"), "/usr/bin/pg_isready", "-q", "-h", "127.0.0.1"], env=stack.env, check=False,
            capture_output=True).returncode == 0, 60)
        stack.compose("run", "--rm", "one", "init")
        stack.compose("up", "-d")
        wait_until("not all aggregators are there", lambda: len(stack.roles()) == len(AGGREGATORS))
        leader, = (name for name, leads in stack.roles().items() if leads)
        client = ["--set", f"client.server=https://localhost:{stack.port}", "--set", f"client.ca={stack.path}/compose/certificates/ca.crt",
                  "--set", f"client.state_dir={stack.path}/client", "--set", "client.wait=1s", "--set", "client.retry_min=100ms",
                  "--set", "client.retry_max=1s", "--set", "data.source=digits:train=60,test=20,size=16,seed=1"]
        code = json.loads(stack.verb("one", "enroll-code", "--json"))["code"]
        run(BIN / "tern-client", "enroll", code, *client)
        workspace.start(BIN / "tern-client", "run", *client, log="client")
        standby = next(name for name in AGGREGATORS if name != leader)
        wait_until("no round ends", lambda: stack.committed(standby) >= 2)
        stack.podman("kill", "--signal", "KILL", stack.container(leader))
        before = stack.committed(standby)
        wait_until("no round ends after the leader was killed", lambda: stack.committed(standby) > before + 1)
        print(f"{stack.committed(standby)} rounds through nginx, on PostgreSQL; {leader} was killed, and another one leads")


if __name__ == "__main__":
    main(test)
