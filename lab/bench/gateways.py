"""Bytes on the metered link of 5 sites with 10 devices each: all of them clients of one aggregator, or each site
behind a gateway. The same devices with the same examples, the same rounds, the same codecs on that link.

usage: gateways.py BUILD FASHION_MNIST WORK [ROUNDS]     prints a flat JSON object"""
import gzip
import json
import pathlib
import sqlite3
import struct
import subprocess
import sys
import time

SITES = 5
DEVICES = 10
EXAMPLES = 4000  # of a site
MODEL = "mlp:784-32-10"
TRAINING = {"train.local_steps": 10, "train.batch_size": 32, "train.learning_rate": 0.05}
SOON = {"round.come_back_min": "20ms", "round.come_back_max": "1s", "round.min_interval": "0", "round.deadline": "10m"}
PATIENCE = 3600


def split(source, target):
    """Makes a data set per site: its part of the examples, and the whole test set."""
    images = gzip.decompress((source / "train-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((source / "train-labels-idx1-ubyte.gz").read_bytes())
    for site in range(SITES):
        folder = target / f"data{site}"
        folder.mkdir(parents=True)
        first = site * EXAMPLES
        part = struct.pack(">4I", 0x803, EXAMPLES, 28, 28) + images[16 + first * 784:16 + (first + EXAMPLES) * 784]
        (folder / "train-images-idx3-ubyte").write_bytes(part)
        (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, EXAMPLES) +
                                                         labels[8 + first:8 + first + EXAMPLES])
        for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
            (folder / name).symlink_to((source / name).resolve())


class Run:
    def __init__(self, build, work, rounds):
        self.bin, self.work, self.rounds, self.processes = build / "bin", work, rounds, []
        work.mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout",
                        work / "server.key", "-out", work / "server.crt"], check=True, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()

    def start(self, log, *command):
        with open(self.work / f"{log}.log", "wb") as sink:
            self.processes.append(subprocess.Popen([str(part) for part in command], stdout=sink, stderr=sink))
        return self.processes[-1]

    def options(self, name, settings):
        every = {"federation.state": self.work / name, "server.port": 0, "server.port_file": self.work / f"{name}.port",
                 "server.certificate": self.work / "server.crt", "server.private_key": self.work / "server.key",
                 "admin.address": f"unix:{self.work}/{name}.sock", "limits.connections_per_address": 1000, **SOON,
                 **settings}
        return [part for key, value in every.items() for part in ("--set", f"{key}={value}")]

    def verb(self, verb, *arguments):
        return subprocess.run([self.bin / "tern-aggregator", verb, *arguments], check=True, text=True,
                              capture_output=True).stdout

    def code(self, options, uses):
        return json.loads(self.verb("enroll-code", "--uses", str(uses), "--evaluator", "--json", *options))["code"]

    def serve(self, name, verb, options):
        self.start(name, self.bin / "tern-aggregator", verb, *options)
        port = self.work / f"{name}.port"
        while not port.exists() or not port.read_text().strip():
            time.sleep(0.05)
        return f"https://localhost:{int(port.read_text())}"

    def upstream(self, clients):
        """Starts the upstream aggregator and an evaluator; returns its options and URL."""
        options = self.options("upstream", {
            "federation.model": MODEL, "round.cohort": clients, "round.quorum": clients, "round.min_clients": clients,
            "round.rounds": self.rounds, **TRAINING})
        self.verb("init", *options)
        url = self.serve("upstream", "serve", options)
        client = [part for key, value in {
            "client.server": url, "client.ca": self.work / "server.crt", "client.evaluator": "yes",
            "client.state_dir": self.work / "evaluator", "data.source": f"idx:{self.work.parent}/data0"}.items()
            for part in ("--set", f"{key}={value}")]
        subprocess.run([self.bin / "tern-client", "enroll", *client, self.code(options, 1)], check=True,
                       stdout=subprocess.DEVNULL)
        return options, url, self.start("evaluator", self.bin / "tern-client", "run", *client)

    def fleet(self, site, url, code):
        settings = {"fleet.clients": DEVICES, "fleet.server": url, "fleet.ca": self.work / "server.crt",
                    "fleet.join_code": code, "fleet.workers": 1, "fleet.evaluate_every": 1000000,
                    "data.source": f"idx:{self.work.parent}/data{site}"}
        return self.start(f"fleet{site}", self.bin / "tern-fleet", "run", "--no-table",
                          *[part for key, value in settings.items() for part in ("--set", f"{key}={value}")])

    def finish(self, evaluator):
        """Accuracy of the replica by version, on the whole test set, which the first client evaluates on; and what the link carried for those that train, by the aggregator's meter."""
        evaluator.wait(timeout=PATIENCE)
        with sqlite3.connect(f"file:{self.work}/upstream/tern.db?mode=ro", uri=True) as db:
            wire = db.execute("SELECT sum(up_wire), sum(down_wire), sum(up_payload), sum(down_payload) FROM meter WHERE"
                              " client NOT IN (SELECT id FROM clients WHERE evaluator)").fetchone()
            accuracy = dict(db.execute("SELECT version, accuracy FROM evaluations WHERE client = 1 AND model = 0"))
        return wire, accuracy


def direct(build, work, rounds):
    with Run(build, work, rounds) as run:
        options, url, evaluator = run.upstream(SITES * DEVICES)
        for site in range(SITES):
            run.fleet(site, url, run.code(options, DEVICES + 1))
        return run.finish(evaluator)


def behind_gateways(build, work, rounds):
    with Run(build, work, rounds) as run:
        options, url, evaluator = run.upstream(SITES)
        for site in range(SITES):
            own = run.options(f"gateway{site}", {
                "relay.server": url, "relay.ca": work / "server.crt", "relay.name": f"site{site}", "codec.codec": "float32",
                "round.cohort": DEVICES, "round.quorum": DEVICES, "round.min_clients": DEVICES})
            run.verb("join", *own, run.code(options, 1))
            run.fleet(site, run.serve(f"gateway{site}", "relay", own), run.code(own, DEVICES + 1))
        found = run.finish(evaluator)
        status = [json.loads(run.verb("status", "--json", "--set", f"federation.state={work}/gateway{site}"))
                  for site in range(SITES)]
        return *found, sum(one["gateway"]["wire_up"] + one["gateway"]["wire_down"] for one in status)


def main():
    build, source, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 40
    work.mkdir(parents=True)
    split(source, work)
    result = {"sites": SITES, "devices": SITES * DEVICES, "rounds": rounds}
    wire, accuracy = direct(build, work / "direct", rounds)
    gateways_wire, gateways_accuracy, own_meters = behind_gateways(build, work / "gateways", rounds)
    for name, (up, down, payload_up, payload_down), found in (("direct", wire, accuracy),
                                                              ("gateways", gateways_wire, gateways_accuracy)):
        result.update({f"{name}_wire_up": up, f"{name}_wire_down": down, f"{name}_wire": up + down,
                       f"{name}_payload_up": payload_up, f"{name}_payload_down": payload_down})
        for version in (rounds // 4, rounds // 2, rounds):
            result[f"{name}_accuracy_{version}"] = round(found.get(version, float("nan")), 4)
    result["gateways_own_meters"] = own_meters
    result["direct_over_gateways"] = round(result["direct_wire"] / result["gateways_wire"], 2)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
