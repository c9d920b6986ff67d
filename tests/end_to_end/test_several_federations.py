#!/usr/bin/python3
"""Two federations on one machine: clients of both train through one port of HAProxy, and through one of nginx, which tell them apart
by name; `list` shows all; an idle service of one has little memory of its own."""
import json
import os
import re
import subprocess
import time

from harness import BIN, PATIENCE, SANITIZED, Aggregator, Workspace, check, main, make_certificates, run, wait_until
from ports import port_to_keep
from proxies import CONF, as_nobody, example, program_of, wait_for

IDLE_MOST = 8 * 2**20  # private bytes of an idle service
CLIENTS = 3
ROUNDS = 2


class Federation(Aggregator):
    def __init__(self, workspace, name, proxied):
        self.host = f"{name}.localhost"
        self.folder = workspace.path / name
        self.folder.mkdir()
        make_certificates(self.folder, name=self.host)
        super().__init__(workspace, {
            "federation": {"model": f"mlp:256-{16 if name == 'pumps' else 8}-10"},
            "server": {"certificate": self.folder / "server.crt", "private_key": self.folder / "server.key",
                       "proxy_from": "127.0.0.1" if proxied else ""},
            "round": {"cohort": CLIENTS, "min_clients": CLIENTS, "deadline": "10m", "rounds": ROUNDS, "come_back_min": "50ms"},
            "train": {"local_steps": 2, "batch_size": 8},
        }, name=f"aggregator-{name}")

    def client(self, number, port, verb, *arguments, ca=None, ok=0):
        settings = [f"client.server=https://{self.host}:{port}", f"client.ca={ca or self.folder / 'ca.crt'}",
                    f"client.state_dir={self.folder}/client{number}", "client.wait=1s", "client.retry_min=100ms",
                    "client.retry_max=1s", f"data.source=digits:train=60,test=20,size=16,seed={number + 1}"]
        done = subprocess.run([BIN / "tern-client", verb, *arguments, *(part for one in settings for part in ("--set", one))],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        check(done.returncode == ok, f"{verb} exited {done.returncode}: {done.stderr}")
        return done

    def train(self, port):
        code = self.join_code(CLIENTS)
        for number in range(CLIENTS):
            self.client(number, port, "enroll", code)
        runs = [self.workspace.start(BIN / "tern-client", "run", *(part for one in (
            f"client.server=https://{self.host}:{port}", f"client.ca={self.folder}/ca.crt",
            f"client.state_dir={self.folder}/client{number}", "client.wait=1s", "client.retry_min=100ms", "client.retry_max=1s",
            f"data.source=digits:train=60,test=20,size=16,seed={number + 1}") for part in ("--set", one)),
            log=f"{self.name}-client{number}") for number in range(CLIENTS)]
        wait_until("the rounds do not end", lambda: self.json("status")["rounds_committed"] == ROUNDS)
        for client in runs:
            check(client.wait(timeout=PATIENCE) == 0, "a client failed")


def start_haproxy(workspace, federations, port):
    folder = workspace.path / "haproxy"
    folder.mkdir()
    program, libraries = program_of("haproxy", folder)
    pumps, valves = federations
    (folder / "haproxy.cfg").write_text(example(
        "haproxy-several.cfg", bind=("bind :443", f"bind 127.0.0.1:{port}"), user=("    user haproxy\n    group haproxy\n", ""),
        files=("maxconn 20000", "maxconn 100"), log=("/dev/log", "127.0.0.1:9"), names=(".tern.example", ".localhost"),
        pumps=("127.0.0.1:8443", f"127.0.0.1:{pumps.port}"), valves=("127.0.0.1:8444", f"127.0.0.1:{valves.port}")))
    command = ["env", f"LD_LIBRARY_PATH={libraries}", program, "-db", "-f", folder / "haproxy.cfg"]
    return workspace.start(*as_nobody(workspace, folder, command), log="haproxy")


def start_nginx(workspace, federations, port):
    """The example of one site, for each."""
    folder = workspace.path / "nginx"
    folder.mkdir()
    program, _ = program_of("nginx", folder)
    sites = ""
    for one in federations:
        for file in ("server.crt", "server.key", "ca.crt"):
            (folder / f"{one.host}-{file}").write_bytes((one.folder / file).read_bytes())
        site = example("nginx.conf", v4=("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"), v6=("    listen [::]:443 ssl;\n", ""),
                       called=("server_name tern.example;", f"server_name {one.host};"), peer=("proxy_ssl_name localhost", f"proxy_ssl_name {one.host}"),
                       upstream=("127.0.0.1:8443", f"127.0.0.1:{one.port}"), group=("tern_aggregator", one.name.replace("-", "_")),
                       certificate=("/etc/ssl/tern.example.crt", folder / f"{one.host}-server.crt"),
                       key=("/etc/ssl/tern.example.key", folder / f"{one.host}-server.key"),
                       ca=("/etc/ssl/tern-aggregator-ca.crt", folder / f"{one.host}-ca.crt"))
        sites += site
    (folder / "nginx.conf").write_text(CONF.format(folder=folder, access="off", site=sites))
    return workspace.start(*as_nobody(workspace, folder, [program, "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "error.log"]),
                           log="nginx")


def listed(workspace, ok=0):
    rows = json.loads(run(BIN / "tern-aggregator", "list", workspace.path, "--json", ok=(ok,)))
    return {row["name"]: row for row in rows}


def private_bytes(process):
    text = open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii").read()
    return 1024 * sum(int(size) for size in re.findall(r"^Private_Dirty:\s+(\d+) kB", text, re.MULTILINE))


def expect_list(workspace, federations):
    """What each has by `status`; of one that cannot be read, why."""
    rows = listed(workspace)
    check(set(rows) == {"pumps", "valves"}, f"list has {list(rows)}")
    for one in federations:
        status = one.json("status")
        row = rows[one.host.removesuffix(".localhost")]
        check((row["service"], row["model"], row["round"], row["rounds"], row["rounds_committed"], row["clients"], row["error"]) ==
              ("ready", one.settings["federation"]["model"], ROUNDS, ROUNDS, status["rounds_committed"], CLIENTS, ""), f"list has {row}")
        check(row["wire_bytes"] > 1000 and row["settings"] == str(one.config), f"list has {row}")
    federations[1].kill()
    (workspace.path / "aggregator.ini").write_text("[round]\ncohort = many\n")
    (workspace.path / "aggregator-gone.ini").write_text(f"[federation]\nstate = {workspace.path}/gone\n")
    rows = listed(workspace, ok=1)
    check([rows[name]["service"] for name in ("pumps", "valves", "gone", "")] == ["ready", "stopped", "stopped", "unknown"], f"list has {rows}")
    check("cohort" in rows[""]["error"] and "gone" in rows["gone"]["error"] and "model" not in rows[""], f"list has {rows}")
    table = run(BIN / "tern-aggregator", "list", workspace.path, ok=(1,)).splitlines()
    check(len(table) == 5 and re.search(r"^pumps +ready +mlp:256-16-10 +2 of 2 +3 ", "\n".join(table), re.MULTILINE), f"list prints {table}")
    federations[0].settings["round"]["rounds"] = ROUNDS - 1  # more rounds than planned, as after a rollback
    federations[0].write_config()
    table = run(BIN / "tern-aggregator", "list", workspace.path, ok=(1,))
    check(re.search(r"^pumps +ready +mlp:256-16-10 +2 +3 ", table, re.MULTILINE), f"list prints {table}")
    for more, says in ((["--state", "x"], "unknown option --state"), (["--set", "round.rounds=1"], "not --set"), ([workspace.path / "pumps"], "has no aggregator.ini")):
        done = subprocess.run([BIN / "tern-aggregator", "list", *more], capture_output=True, text=True, check=False)
        check(done.returncode != 0 and says in done.stderr, f"list {more}: {done.stderr}")


def through(start, proxied):
    with Workspace() as workspace:
        federations = [Federation(workspace, name, proxied).start() for name in ("pumps", "valves")]
        port = port_to_keep()
        wait_for(start(workspace, federations, port), port)
        for one in federations:
            one.train(port)
        # The name alone decides: the other federation's CA does not fit.
        refused = federations[0].client(9, port, "enroll", federations[1].join_code(), ca=federations[1].folder / "ca.crt", ok=1)
        check("certificate" in refused.stderr, f"the other federation answers: {refused.stderr}")
        if proxied:
            if not SANITIZED:
                time.sleep(0.5)
                for one in federations:
                    check(private_bytes(one.process) <= IDLE_MOST, f"an idle service has {private_bytes(one.process)} private bytes")
                print(*(private_bytes(one.process) for one in federations), "private bytes of idle services")
            expect_list(workspace, federations)


def test():
    os.environ["PATH"] += ":/usr/sbin"
    through(start_haproxy, proxied=True)
    through(start_nginx, proxied=False)


if __name__ == "__main__":
    main(test)
