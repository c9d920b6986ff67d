#!/usr/bin/env python3
"""Installs the packages, follows README.Debian to a federation, upgrades, removes and purges them.

Usage: life_of_packages.py PACKAGES NEXT_PACKAGES, started by test_packages.py in namespaces of its
own.
"""

import json
import pathlib
import pwd
import shutil
import sys

from isolated_root import (Failure, Service, check, fake_systemd, inside, make_root, owner,
                           real_systemctl, run, told_systemd, wait_for)

AGGREGATOR = ("runuser", "-u", "tern-aggregator", "--", "tern-aggregator")
CLIENT = ("runuser", "-u", "tern-client", "--", "tern-client")
PACKAGES = ("tern-client", "tern-aggregator", "tern-helper", "tern-dev", "libtern-client0", "python3-tern")
STATE = {name: f"/var/lib/tern-{name}" for name in ("aggregator", "client", "helper")}
UNITS = ("tern-aggregator.service", "tern-client.service", "tern-client-once.service",
         "tern-helper.service", "tern-client.timer")
# systemd-analyze counts exposure in tenths; what is left is the network, which both need.
MOST_EXPOSED = 15


def dpkg(*arguments):
    return run("dpkg", "--force-unsafe-io", "--force-confdef", "--force-confold", *arguments)


def install(folder):
    packages = sorted(pathlib.Path(folder).glob("*.deb"))
    target = inside("/tmp") / pathlib.Path(folder).name
    target.mkdir()
    for package in packages:
        shutil.copy(package, target)
    out = dpkg("--install", *(f"/tmp/{target.name}/{package.name}" for package in packages))
    shutil.rmtree(target)
    return out


def user_of(name):
    lines = inside("/etc/passwd").read_text().splitlines()
    fields = next((line.split(":") for line in lines if line.startswith(f"{name}:")), None)
    check(fields, f"the user {name} was not made")
    return pwd.struct_passwd([*fields[:2], int(fields[2]), int(fields[3]), *fields[4:]])


def contents(folder):
    base = inside(folder)
    return {str(path.relative_to(base)): path.read_bytes()
            for path in sorted(base.rglob("*")) if path.is_file()}


def enabled_units():
    systemctl = real_systemctl()
    return [unit for unit in UNITS if run(systemctl, "is-enabled", unit, ok=(0, 1)).strip() == "enabled"]


# --- What an installation leaves

def check_installed(out):
    for name, state in STATE.items():
        user = user_of(f"tern-{name}")
        check(owner(state) == (user.pw_uid, user.pw_gid, 0o700),
              f"{state} has owner and mode {owner(state)}")
        check(user.pw_shell.endswith("nologin"), f"tern-{name} has the shell {user.pw_shell}")
        check(f"/usr/share/doc/tern-{name}/README.Debian" in out, "no hint at what comes next")
        check(not Service(f"tern-{name}.service").may_start(), "a service without its state may start")
        page = run("man", "--warnings", "-P", "cat", f"tern-{name}")
        check("NAME" in page and "--config FILE" in page, f"no man page of tern-{name}")
        page = run("man", "--warnings", "-P", "cat", f"tern-{name}.ini")
        check(f"/etc/tern/{name}.ini" in page and "Allowed:" in page, f"no man page of {name}.ini")
    check("3lc" in run("tern-codec", "codecs"), "tern-codec of tern-dev does not work")


def check_neighbours():
    """What the aggregator's package brings for programs that it runs beside."""
    check(inside("/etc/fail2ban/filter.d/tern-aggregator.conf").is_file(), "no filter of fail2ban")
    examples = inside("/usr/share/doc/tern-aggregator/examples")
    for name in ("fail2ban/tern-aggregator.jail", "proxies/nginx.conf", "proxies/nginx-cache.conf", "proxies/haproxy.cfg",
                 "proxies/haproxy-several.cfg", "proxies/apache-sso.conf", "proxies/haproxy-varnish.cfg", "proxies/varnish.vcl", "systemd/tern-aggregator@.service",
                 "systemd/tern-gateway.service",
                 "prometheus/prometheus.yml", "prometheus/tern-alerts.yml", "grafana/tern-aggregator.json"):
        check((examples / name).is_file(), f"the package has no {name}")


def check_template():
    """Several aggregators on one machine: as the one of the package but for names."""
    example = inside("/usr/share/doc/tern-aggregator/examples/systemd/tern-aggregator@.service")
    own = inside("/lib/systemd/system/tern-aggregator.service").read_text().partition("[Unit]")[2]
    text = example.read_text().partition("[Unit]")[2].replace("aggregator-%i", "aggregator").replace("aggregator %i,", "aggregator,")
    check(text == own, "tern-aggregator@.service differs from tern-aggregator.service in more than names")
    there = inside("/etc/systemd/system/tern-aggregator@.service")
    shutil.copy(example, there)
    out = run("sh", "-c", "systemd-analyze verify tern-aggregator@a.service 2>&1")
    check(out == "", f"systemd-analyze verify says:\n{out}")
    there.unlink()


def check_gateway():
    """The unit of a gateway: as hard as the one of the package, and what it is told to start exists."""
    example = inside("/usr/share/doc/tern-aggregator/examples/systemd/tern-gateway.service")
    own = inside("/lib/systemd/system/tern-aggregator.service").read_text().partition("[Unit]")[2]
    text = example.read_text().partition("[Unit]")[2]
    for theirs, ours in (("Tern gateway, one client for a site's devices", "Tern aggregator, the service of a federation"),
                         ("time-sync.target\n", "time-sync.target postgresql.service\n"),
                         ("ConditionPathExists=/var/lib/tern-gateway/upstream/identity", "ConditionDirectoryNotEmpty=/var/lib/tern-aggregator"),
                         ("relay --config /etc/tern/gateway.ini", "serve --config /etc/tern/aggregator.ini"),
                         ("StateDirectory=tern-gateway", "StateDirectory=tern-aggregator"),
                         (", and one that was revoked upstream stays so. ", ". "), ("ExitStatus=2 3\n", "ExitStatus=2\n")):
        check(text.count(theirs) == 1, f"tern-gateway.service has {theirs!r} {text.count(theirs)} times")
        text = text.replace(theirs, ours)
    check(text == own, "tern-gateway.service differs from tern-aggregator.service in more than it says")
    there = inside("/etc/systemd/system/tern-gateway.service")
    shutil.copy(example, there)
    out = run("sh", "-c", "systemd-analyze verify tern-gateway.service 2>&1")
    check(out == "", f"systemd-analyze verify says:\n{out}")
    out = run("systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED}", "tern-gateway.service")
    print(out.strip().splitlines()[-1])
    there.unlink()


def check_units():
    check(enabled_units() == [], f"the installation enabled {enabled_units()}: README.Debian says that"
          " it enables nothing, and the client's service and timer exclude each other")
    links = list(inside("/etc/systemd/system").rglob("tern-*"))
    check(not links, f"the installation left {links}")
    out = run("sh", "-c", "systemd-analyze verify \"$@\" 2>&1", "sh", *UNITS)
    check(out == "", f"systemd-analyze verify says:\n{out}")
    for unit in UNITS[:4]:
        out = run("systemd-analyze", "security", "--offline=true", "--no-pager",
                  f"--threshold={MOST_EXPOSED}", unit)
        print(out.strip().splitlines()[-1])


def check_library():
    """Outside programs are built against tern-dev alone; what is linked with the shared library needs
    libtern-client0, and dpkg-shlibdeps finds that."""
    for name, module, says in (("outside", "tern", "3lc:s=1.5 late"), ("embedder", "tern-client", "bad-argument")):
        shutil.copy(pathlib.Path(__file__).parent.parent / "install" / f"{name}.c", inside("/tmp"))
        out = run("sh", "-euc", f"cc -o /tmp/{name} /tmp/{name}.c $(pkg-config --cflags --libs {module})"
                  f" && /tmp/{name}")
        check(says in out, f"the program {name} printed {out}")
    inside("/tmp/debian").mkdir()
    inside("/tmp/debian/control").write_text("Source: outside\n\nPackage: outside\nArchitecture: any\n")
    out = run("sh", "-euc", "cd /tmp && dpkg-shlibdeps -O embedder")
    check("libtern-client0 (>= " in out, f"an embedder depends on {out}")


def check_python():
    """Its example is a federation of the installed programs; pip knows it."""
    out = run("sh", "-euc", "cd /tmp && /usr/bin/python3 /usr/share/doc/python3-tern/examples/softmax.py")
    check(" after 8 rounds" in out, f"the example of python3-tern printed {out}")
    out = run("/usr/bin/python3", "-c", "import importlib.metadata, tern\n"
              "print(tern.__file__, tern.__version__ == importlib.metadata.version('tern'))")
    check(out == "/usr/lib/python3/dist-packages/tern/__init__.py True\n", f"Python's tern says {out}")
    check(list(inside("/usr/lib/python3/dist-packages/tern/__pycache__").iterdir()), "it was not compiled")


# --- A federation by README.Debian

def choose(name, **values):
    """Takes the ; from settings of a conffile, and gives them values."""
    path = inside(f"/etc/tern/{name}.ini")
    lines = path.read_text().splitlines()
    for key, value in values.items():
        at = next((i for i, line in enumerate(lines) if line.startswith(f"; {key} =")), None)
        check(at is not None, f"{name}.ini has no commented {key}")
        lines[at] = f"{key} = {value}"
    path.write_text("\n".join(lines) + "\n")


def make_federation():
    choose("aggregator", model="softmax:256-10", address="127.0.0.1", min_clients=1, cohort=1, min_interval="0",
           come_back_min="10ms", come_back_max="100ms")
    choose("client", server="https://localhost:8443", ca="/etc/tern/ca.crt", wait="0ms",
           source="digits:train=200,test=50,size=16,seed=1")
    config = ("--config", "/etc/tern/aggregator.ini")
    run(*AGGREGATOR, "init", *config)
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
        "-keyout", "/tmp/server.key", "-out", "/tmp/server.crt")
    for name in ("server.crt", "server.key"):
        run("install", "-m", "600", "-o", "tern-aggregator", "-g", "tern-aggregator", f"/tmp/{name}",
            f"{STATE['aggregator']}/{name}")
    run("install", "-m", "644", "/tmp/server.crt", "/etc/tern/ca.crt")


def check_helper():
    """The helper by its README.Debian: the service listens, and ends by a signal."""
    choose("helper", address="127.0.0.1", min_clients=5)
    helper = ("runuser", "-u", "tern-helper", "--", "tern-helper")
    run(*helper, "init", "--config", "/etc/tern/helper.ini")
    for name in ("server.crt", "server.key"):
        run("install", "-m", "600", "-o", "tern-helper", "-g", "tern-helper", f"/tmp/{name}", f"{STATE['helper']}/{name}")
    service = Service("tern-helper.service")
    process = service.start()
    wait_for("the helper", lambda: "event=listening" in service.text())
    token = run(*helper, "federation", "add", "north", "--config", "/etc/tern/helper.ini").split()[0]
    path = "https://localhost:8444/v1/epoch/" + 43 * "A"
    wait_for("the token", lambda: run("curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", "-H",
                                      f"Authorization: Bearer {token}", path) == "200")
    service.stop(process)


def serve():
    service = Service("tern-aggregator.service")
    process = service.start()

    def listens():
        check(process.poll() is None, f"the aggregator ended:\n{service.text()}")
        return run("curl", "-sk", "https://localhost:8443/healthz", ok=(0, 7, 35, 56)) != ""

    wait_for("the aggregator", listens)
    return service, process


def enroll():
    code = run(*AGGREGATOR, "enroll-code", "--config", "/etc/tern/aggregator.ini").split()[0]
    run(*CLIENT, "enroll", "-", feed=code + "\n")
    check(Service("tern-client.service").may_start(), "an enrolled client may not start")


def rounds_done():
    return json.loads(run(*AGGREGATOR, "status", "--json", "--config",
                          "/etc/tern/aggregator.ini"))["rounds_committed"]


def do_round():
    """One round by the client's oneshot unit. Where the client was stopped in mid-round, its first
    run may only learn that its update had come."""
    before = rounds_done()
    once = Service("tern-client-once.service")

    def one_more():
        process = once.start()
        check(process.wait(timeout=100) == 0, f"the client's round failed:\n{once.text()}")
        return rounds_done() > before

    wait_for("a round", one_more)


def client_number():
    return json.loads(run(*CLIENT, "status", "--json"))["client"]


def check_client_service():
    """The unit that stays does rounds too, and ends by a signal."""
    before = rounds_done()
    service = Service("tern-client.service")
    process = service.start()
    wait_for("rounds of the service", lambda: rounds_done() > before + 1)
    service.stop(process)


# --- Upgrade, removal, purge

def upgrade(folder, process):
    edited = {name: inside(f"/etc/tern/{name}.ini").read_text() for name in STATE}
    state = contents(STATE["client"])
    told_systemd()
    install(folder)
    for name, text in edited.items():
        check(inside(f"/etc/tern/{name}.ini").read_text() == text, f"{name}.ini was overwritten")
        check("New in version 9" in inside(f"/etc/tern/{name}.ini.dpkg-dist").read_text(),
              f"the new {name}.ini is not beside the edited one")
    check(contents(STATE["client"]) == state, "the client's state changed")
    check(process.poll() is None, "the running service did not outlive the upgrade")
    told = told_systemd()
    for unit in ("tern-aggregator.service", "tern-client.service", "tern-aggregator@a.service"):
        check(any("try-restart" in line and unit in line for line in told),
              f"{unit} is not restarted: {told}")
    check(not any(line.split()[0] in ("stop", "start", "restart") for line in told),
          f"an upgrade starts or stops: {told}")


def remove():
    state = {name: contents(folder) for name, folder in STATE.items()}
    run("systemctl", "enable", "tern-client.timer")
    told_systemd()
    dpkg("--remove", *PACKAGES)
    told = told_systemd()
    for unit in UNITS:
        check(any("stop" in line and unit in line for line in told), f"{unit} is not stopped: {told}")
    for name, folder in STATE.items():
        check(not inside(f"/usr/bin/tern-{name}").exists(), f"tern-{name} is still there")
        check(contents(folder) == state[name], f"removing changed {folder}")
        check(inside(f"/etc/tern/{name}.ini").exists(), f"removing took {name}.ini away")


def check_reinstalled(folder, number):
    """What was kept is taken up again, the enabled timer too."""
    install(folder)
    check(client_number() == number, "the client is another one after a removal")
    check(enabled_units() == ["tern-client.timer"],
          f"only the timer was enabled before the removal, and now {enabled_units()}")


def purge():
    dpkg("--purge", *PACKAGES)
    for folder in STATE.values():
        check(not inside(folder).exists(), f"purging left {folder}")
    left = [path for base in ("etc", "usr", "lib", "var/lib/systemd", "var/lib/dpkg/info")
            for path in inside(base).rglob("*tern-client*")]
    left += inside("/usr/lib/python3/dist-packages").glob("tern*")
    check(not left, f"purging left {left}")
    left = [path.name for path in inside("/etc/tern").glob("*")] if inside("/etc/tern").exists() else []
    check(left == ["ca.crt"], f"in /etc/tern is left: {left}")


def main():
    now, later = sys.argv[1:3]
    make_root()
    dpkg("--purge", *PACKAGES)  # those of this machine, if any
    check_installed(install(now))
    check_neighbours()
    check_units()
    check_template()
    check_gateway()
    check_library()
    check_python()
    make_federation()
    fake_systemd()
    check_helper()
    service, process = serve()
    enroll()
    number = client_number()
    do_round()
    check_client_service()
    upgrade(later, process)
    service.stop(process)
    service, process = serve()
    do_round()
    check(client_number() == number, "the client is another one after the upgrade")
    service.stop(process)
    remove()
    check_reinstalled(now, number)
    purge()


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"FAILED: {failure}")
