"""Starts and stops Tern's programs for the end-to-end tests.

Everything lives in one temporary directory, listens on loopback (or in a
network namespace the test made) and is stopped by process id on exit.
Programs are found in TERN_BIN_DIR, set by ctest.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from ports import port_to_keep

BIN = pathlib.Path(os.environ.get("TERN_BIN_DIR", "build/bin"))
HELPERS = pathlib.Path(os.environ.get("TERN_TEST_BIN_DIR", "build/tests"))
SANITIZED = os.environ.get("TERN_SANITIZED", "") != ""  # as tests/sanitized.h is for tests in C
NIGHT = os.environ.get("TERN_LONG_TESTS", "") != ""  # ./tern test --long and --all
LONG = NIGHT and not SANITIZED
SKIP = 77
PATIENCE = 240  # seconds for what takes one; ctest ends a test that takes too long


def within(seconds, beside=60):
    """The bound for what Tern does within `seconds`: ./tern test --long holds it. Beside other tests on slow cores it is
    `beside`, which is still less than the time without the behaviour under test."""
    return seconds if LONG else beside


class Failure(Exception):
    """The behaviour under test is wrong."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def wait_until(what, condition, seconds=PATIENCE):
    """Returns the first true value of the condition; `what` is the failure once the seconds have passed."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        check(time.monotonic() < deadline, what)
        time.sleep(0.02)
    return value


def run(*command, timeout=PATIENCE, ok=(0,)):
    """Runs a program to its end; returns its standard output."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=timeout)
    if done.returncode not in ok:
        raise Failure(f"{command[0]} {command[1:]} exited {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def make_certificates(directory, address="127.0.0.1", name="localhost"):
    """A throw-away CA and a server certificate for `name` and `address`."""
    directory = pathlib.Path(directory)
    (directory / "san.cnf").write_text(
        f"subjectAltName=DNS:{name},IP:{address}\nbasicConstraints=critical,CA:FALSE\n")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, stdout=subprocess.DEVNULL)

    # A request with a new key takes one process, where ecparam and req take two.
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout")
    openssl("req", "-x509", *key, "ca.key", "-subj", "/CN=ca", "-days", "2", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
            "-out", "ca.crt")
    openssl("req", *key, "server.key", "-subj", "/CN=t", "-out", "server.csr")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "san.cnf", "-out", "server.crt")


def with_free_port(script, port="$(cat port)"):
    """A script of the documents, which serves on port 8443, on a port that the system chooses: the
    server writes it to the file `port`, and is waited for by that instead of for two seconds. port: what
    the shell makes it of, where the script has 8443."""
    for shown, instead in (("tern-aggregator serve ", "tern-aggregator serve --set server.port=0 "
                            "--set server.port_file=port --set admin.address=unix:admin.sock "),
                           ("sleep 2\n", "until [ -s port ]; do kill -0 %1; sleep 0.02; done\n"),
                           ("8443", port)):
        check(script.count(shown) == 1, f"{shown!r} is not once in:\n{script}")
        script = script.replace(shown, instead)
    return script


class Workspace:
    """A temporary directory whose processes die with it."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="tern-test-"))
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        if kind is None or kind is SystemExit:
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            for log in sorted(self.path.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
            shutil.rmtree(self.path, ignore_errors=True)

    def start(self, *command, log):
        with open(self.path / f"{log}.log", "ab") as sink:
            process = subprocess.Popen([str(part) for part in command], stdout=sink, stderr=sink,
                                       stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process


class Aggregator:
    """One tern-aggregator over its state directory; can be killed and started again. verb: that runs it."""

    def __init__(self, workspace, settings, address="127.0.0.1", prefix=(), name="aggregator", verb="serve"):
        self.workspace = workspace
        self.name, self.runs = name, verb
        own = "" if name == "aggregator" else f"{name}-"
        self.state = workspace.path / f"{own}state"
        self.address = address
        self.prefix = list(prefix)
        self.process = None
        if not own or not (workspace.path / "server.crt").exists():
            make_certificates(workspace.path, address)
        self.port_file = workspace.path / f"{own}port"
        self.config = workspace.path / f"{name}.ini"
        merged = {
            "federation": {"state": self.state},
            "server": {"address": address, "port": port_to_keep(), "threads": 1,
                       "certificate": workspace.path / "server.crt",
                       "private_key": workspace.path / "server.key",
                       "port_file": self.port_file},
            "admin": {"address": f"unix:{workspace.path}/{own}admin.sock"},
            "round": {"min_interval": "0"},
        }
        for section, keys in settings.items():
            merged.setdefault(section, {}).update(keys)
        self.settings = merged
        self.port = 0
        self.write_config()
        self.make()

    def make(self):
        run(BIN / "tern-aggregator", "init", "--config", self.config)

    def write_config(self):
        with open(self.config, "w") as out:
            for section, keys in self.settings.items():
                print(f"[{section}]", file=out)
                for key, value in keys.items():
                    if value is not None:  # None: the default
                        print(f"{key} = {value}", file=out)

    def start(self):
        """Starts serving, each time on the same port."""
        self.port_file.unlink(missing_ok=True)
        self.process = self.workspace.start(*self.prefix, BIN / "tern-aggregator", self.runs,
                                            "--config", self.config, log=self.name)
        deadline = time.monotonic() + PATIENCE
        while not self.port_file.exists() or not self.port_file.read_text().strip():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failure("the aggregator did not start")
            time.sleep(0.01)
        self.port = int(self.port_file.read_text())
        return self

    @property
    def url(self):
        return f"https://{self.address}:{self.port}"

    @property
    def ca(self):
        return self.workspace.path / "ca.crt"

    def kill(self, how=signal.SIGKILL):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
        if self.process is not None:
            self.process.wait(timeout=PATIENCE)

    def verb(self, *arguments, ok=(0,), timeout=PATIENCE):
        return run(BIN / "tern-aggregator", *arguments, "--config", self.config, ok=ok,
                   timeout=timeout)

    def json(self, *arguments):
        return json.loads(self.verb(*arguments, "--json"))

    def log_line(self, words, times=1):
        """The log line with these words, once it is there so many times."""
        log = self.workspace.path / f"{self.name}.log"
        deadline = time.monotonic() + PATIENCE
        while True:
            lines = [line for line in log.read_text().splitlines() if words in line]
            if len(lines) >= times:
                return lines[-1]
            check(time.monotonic() < deadline, f"no {words} in the log:\n{log.read_text()}")
            time.sleep(0.02)

    def admin(self, path):
        """The body of the admin listener's reply."""
        token = (self.state / "admin.token").read_text().strip()
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(str(self.settings["admin"]["address"]).removeprefix("unix:"))
            admin.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
                          "Connection: close\r\n\r\n".encode())
            return b"".join(iter(lambda: admin.recv(65536), b"")).decode().partition("\r\n\r\n")[2]

    def metrics(self):
        """The operators' metrics: name, with labels, to value."""
        text = self.admin("/metrics")
        return {name: float(value) for name, _, value in
                (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))}

    def join_code(self, uses=1, *options):
        """For clients of any kind."""
        return self.json("enroll-code", "--uses", str(uses), "--evaluator", *options)["code"]


class Gateway(Aggregator):
    """A gateway of another aggregator, which runs."""

    def __init__(self, workspace, upstream, name, settings, port=None):
        self.upstream = upstream
        merged = {"relay": {"server": f"https://localhost:{port or upstream.port}", "ca": upstream.ca, "name": name}}
        for section, keys in settings.items():
            merged.setdefault(section, {}).update(keys)
        super().__init__(workspace, merged, name=name, verb="relay")

    def make(self):
        run(BIN / "tern-aggregator", "join", self.upstream.join_code(), "--config", self.config)


def neighbour(package, program):
    """A program of Debian's that services run beside: installed, or unpacked into the build folder. Returns its
    path and the root that it was unpacked in."""
    # The build folder of the release, and of another variant within it.
    unpacked = [folder / package for folder in list(BIN.resolve().parents)[:2]]
    for root in (pathlib.Path("/"), *unpacked):
        if (root / program).is_file():
            return root / program, root
    return skip(f"there is no {program}; ./tern test unpacks Debian's {package} into the build folder")


def main(test):
    """Runs a test function and turns its outcome into ctest's exit codes."""
    try:
        test()
    except Failure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        sys.exit(1)


def skip(reason):
    print(f"skipped: {reason}", file=sys.stderr)
    sys.exit(SKIP)
