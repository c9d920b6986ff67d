"""Peers of a ring as processes: a CA, a certificate and a settings file for each, and what became of them."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "end_to_end"))
from ports import port_to_keep  # noqa: E402

BIN = pathlib.Path(os.environ["TERN_BIN_DIR"])
PATIENCE = 120  # seconds, on a machine that does much else


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def make_ca(folder, name="ca"):
    openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", f"{name}.key", "-subj", f"/CN={name}", "-days", "30", "-out", f"{name}.crt")


def make_certificate(folder, name, file=None, ca="ca"):
    file = file or name
    openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
            f"{file}.key", "-subj", f"/CN={name}", "-out", f"{file}.csr")
    openssl(folder, "x509", "-req", "-in", f"{file}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key",
            "-CAcreateserial", "-days", "30", "-out", f"{file}.crt")


class Certificates:
    """The CA and the certificates of p0, p1, ... that all rings of a program share."""
    folder = None

    @classmethod
    def copy_to(cls, folder, names):
        if cls.folder is None:
            cls.folder = tempfile.TemporaryDirectory(prefix="tern-ring-certificates-")
            make_ca(cls.folder.name)
        for name in names:
            if not pathlib.Path(cls.folder.name, f"{name}.crt").exists():
                make_certificate(cls.folder.name, name)
        shutil.copytree(cls.folder.name, folder, dirs_exist_ok=True)


def free_ports(count):
    ports = set()
    while len(ports) < count:
        ports.add(port_to_keep())
    return list(ports)


class Ring:
    """count peers p0, p1, ... on loopback; values: settings of all of them."""

    def __init__(self, count, groups=None, **values):
        """groups: a group's name for each peer, or None."""
        self.groups = groups
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tern-ring-"))
        self.names = [f"p{i}" for i in range(count)]
        self.ports = free_ports(count)
        self.values = {"ring.model": "mlp:24-32-8", "ring.codec": "float32", "ring.rounds": 5,
                       "data.source": "sensors:train=2000,test=500,devices=50,seed=1",
                       "ring.timeout": "20s", "ring.start_wait": "60s"} | values
        self.processes = {}
        Certificates.copy_to(self.folder, self.names)
        self.write_peers()

    def write_peers(self, file="peers.txt", names=None):
        groups = self.groups or [""] * len(self.names)
        (self.folder / file).write_text("".join(
            f"{name} 127.0.0.1 {port} {group}\n" for name, port, group in zip(names or self.names, self.ports, groups)))

    def command(self, name, verb="run", *arguments, **values):
        index = self.names.index(name)
        settings = {"ring.peers": "peers.txt", "ring.ca": "ca.crt", "ring.certificate": f"{name}.crt",
                    "ring.key": f"{name}.key", "ring.state_dir": f"state-{name}",
                    "data.shard": f"{index + 1}/{len(self.names)}"} | self.values | values
        sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        return [BIN / "tern-ring", verb, "--json", *arguments, *sets]

    def start(self, *names, **values):
        for name in names or self.names:
            with open(self.folder / f"{name}.log", "a") as log, open(self.folder / f"{name}.out", "w") as out:
                self.processes[name] = subprocess.Popen(self.command(name, **values), cwd=self.folder, stdout=out,
                                                        stderr=log)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def rounds(self, name):
        """The hashes of the models that a peer has said it holds, by version."""
        return {int(version): model for version, model in
                re.findall(r"event=round version=(\d+) .* model=(\w+)", self.log(name))}

    def wait_for(self, name, text, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while text not in self.log(name):
            assert time.monotonic() < end, f"{name} did not log {text!r}:\n{self.log(name)}"
            assert self.processes[name].poll() is None or text in self.log(name), self.log(name)
            time.sleep(.05)

    def finish(self, *names, code=0):
        """What peers print at their end."""
        said = {}
        for name in names or self.names:
            found = self.processes[name].wait(PATIENCE)
            assert found == code, f"{name} ended with {found}:\n{self.log(name)}"
            text = (self.folder / f"{name}.out").read_text()
            said[name] = json.loads(text) if text else None
        return said

    def verb(self, name, verb, *arguments, **values):
        return subprocess.run(self.command(name, verb, *arguments, **values), cwd=self.folder, capture_output=True,
                              text=True, timeout=PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        for process in self.processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
