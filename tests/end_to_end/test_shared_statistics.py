"""Three devices with raw tables of very different lengths, and nobody with a sample: they agree on one scaling of
their columns, learn by it, and keep it. The same without is warned of, and learns nothing. A number that is to be told
is scaled with the columns, and told in its own unit. Who scales by itself, too, is refused.
"""

import json
import math
import random
import re
import struct
import subprocess

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run
import safetensors_file

STATES = ("good", "worn", "dry")
COLUMNS = ("rpm", "leak", "drift")
ROWS = {"short": 40, "middle": 200, "long": 900}  # of each device


def rows_of(name, count):
    """rpm near 2950, a leak and a drift near 0.01; each device runs at its own speed."""
    rng = random.Random(name)
    speed = {"short": 2900, "middle": 2950, "long": 2985}.get(name, 2950)
    for _ in range(count):
        state = rng.randrange(3)
        yield (float(f"{rng.gauss(speed - 20 * (state == 1), 8):.1f}"),
               float(f"{rng.gauss(0.01 + 0.006 * (state == 2), 0.001):.5f}"),
               float(f"{rng.gauss(0.012 - 0.005 * (state == 1), 0.001):.5f}"), STATES[state])


def write_table(path, name, count):
    with open(path, "w", encoding="utf-8") as out:
        print(",".join((*COLUMNS, "state")), file=out)
        for row in rows_of(name, count):
            print(*row, sep=",", file=out)


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def pooled(tables):
    """Mean and deviation of each column over the rows of all."""
    for column in zip(*(row[:3] for table in tables for row in table)):
        values = [float32(value) for value in column]
        mean = math.fsum(values) / len(values)
        yield mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


class Device:
    def __init__(self, workspace, aggregator, name, rows, write=write_table,
                 options="label=state,classes=good|worn|dry,test=0", evaluator=False):
        self.workspace = workspace
        self.name = name
        self.config = workspace.path / f"{name}.ini"
        write(workspace.path / f"{name}.csv", name, rows)
        self.config.write_text(
            f"[client]\nserver = {aggregator.url}\nca = {aggregator.ca}\n"
            f"state_dir = {workspace.path}/{name}-state\nname = {name}\nevaluator = {'yes' if evaluator else 'no'}\n"
            f"[data]\nsource = csv:{workspace.path}/{name}.csv,{options}\n")

    def verb(self, *arguments, ok=(0,)):
        return run(BIN / "tern-client", *arguments, "--config", self.config, ok=ok)

    def enrolled(self, aggregator):
        self.verb("enroll", aggregator.join_code())
        return self

    def start(self):
        return self.workspace.start(BIN / "tern-client", "run", "--config", self.config, log=self.name)

    def log(self):
        return (self.workspace.path / f"{self.name}.log").read_text(encoding="utf-8")


def federation(workspace, model="mlp:3-16-3", train=(), **statistics):
    return Aggregator(workspace, {
        "federation": {"model": model, "seed": 5},
        "round": {"cohort": 3, "min_clients": 2, "rounds": 15, "come_back_min": "100ms"},
        "train": {"local_steps": 20, "batch_size": 16, **dict(train)},
        "statistics": statistics,
    }).start()


def aggregator_log(workspace):
    return (workspace.path / "aggregator.log").read_text(encoding="utf-8")


def losses(aggregator):
    return [row["mean_loss"] for row in aggregator.json("rounds")]


def scaling_of(workspace, exported, of="scaling"):
    metadata = safetensors_file.parse((workspace.path / exported).read_bytes())[1]
    return list(zip((float(x) for x in metadata[f"{of}_mean"].split()),
                    (float(x) for x in metadata[f"{of}_deviation"].split())))


def check_scaling(found):
    expected = list(pooled([list(rows_of(name, count)) for name, count in ROWS.items()]))
    check(len(found) == 3, f"columns {found}")
    for (mean, deviation), (true_mean, true_deviation) in zip(found, expected):
        check(math.isclose(mean, true_mean, rel_tol=1e-6) and
              math.isclose(deviation, true_deviation, rel_tol=1e-4), f"{found}, not {expected}")


def agrees(workspace):
    aggregator = federation(workspace, columns="clients", min_clients=3)
    devices = {name: Device(workspace, aggregator, name, rows) for name, rows in ROWS.items()}
    first = [devices[name].enrolled(aggregator).start() for name in ("short", "middle")]
    for name in ("short", "middle"):
        aggregator.log_line(f"examples={ROWS[name]} bytes=")
    aggregator.log_line("event=statistics-awaited")
    said = devices["long"].enrolled(aggregator).verb("check")
    check("the federation's scaling does not exist yet" in said and "PROBLEM" not in said, f"check says: {said}")
    said = devices["long"].verb("check", "--set", "client.trainer=command", "--set", "client.trainer_command=/bin/true", ok=(1,))
    check("this client will get no tasks" in said, f"check of another trainer says: {said}")
    now = aggregator.json("status")["now"]
    check("waiting for the statistics of 1 more client" in now, f"status says: {now}")
    check(aggregator.json("rounds") == [], "a round opened without the third")
    last = devices["long"].start()
    for process in (*first, last):
        check(process.wait(timeout=PATIENCE) == 0, "a client failed")
    return aggregator, devices


def learns(workspace, aggregator, devices):
    found = losses(aggregator)
    check(len(found) == 15 and found[0] < 2 and found[-1] < 0.3, f"it does not learn: {found}")
    aggregator.verb("export", workspace.path / "global.safetensors")
    check_scaling(scaling_of(workspace, "global.safetensors"))
    devices["long"].verb("export", workspace.path / "held.safetensors")
    check(scaling_of(workspace, "held.safetensors") == scaling_of(workspace, "global.safetensors"),
          "a device holds another scaling than the aggregator")
    write_table(workspace.path / "new.csv", "new", 300)
    said = json.loads(devices["short"].verb("predict", workspace.path / "new.csv", "--json"))
    check(said["accuracy"] > 0.9, f"raw rows are not told: {said['accuracy']}")
    check("the federation's shared statistics" in devices["middle"].verb("check"), "check does not know the scaling")


def costs_what_is_documented(devices):
    """docs/PROTOCOL.md, "Statistics of columns": 8 bytes a column and a few more; the scaling likewise."""
    for name, count in ROWS.items():
        told = re.findall(rf"event=statistics num_examples={count} bytes=(\d+)", devices[name].log())
        check(told == [str(8 * 3 + 2 + (2 if count < 128 else 3))], f"{name} told {told}")
        scaled = re.findall(r"event=scaled bytes=(\d+)", devices[name].log())
        check(scaled == [str(8 * 3 + 2 + 2 + 3)], f"{name} fetched {scaled}")


def keeps_it(workspace, aggregator, devices):
    """A restart fetches nothing again, and who joins later is given the same."""
    done = subprocess.run([BIN / "tern-client", "run", "--config", devices["short"].config],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    check(done.returncode == 0 and "event=finished" in done.stderr and "event=scaled" not in done.stderr,
          f"after a restart: {done.stderr}")
    late = Device(workspace, aggregator, "late", 50).enrolled(aggregator)
    check(late.start().wait(timeout=PATIENCE) == 0, "the late one failed")
    check("event=scaled" in late.log() and "event=statistics" not in late.log(), late.log())


FLOW = 3000  # what a pump moves, of a deviation of 40 about
NOISE = 4.0


def write_flow(path, name, count):
    rng = random.Random(f"flow {name}")
    with open(path, "w", encoding="utf-8") as out:
        print("rpm,leak,drift,flow", file=out)
        for rpm, leak, drift, _ in rows_of(name, count):
            flow = FLOW + 1.5 * (rpm - 2950) - 6000 * (leak - 0.01) + rng.gauss(0, NOISE)
            print(f"{rpm},{leak},{drift},{flow:.2f}", file=out)


def tells_a_number(workspace):
    """The loss is of scaled targets; every other figure is in the target's own unit."""
    aggregator = federation(workspace, model="mlp:3-16-1,loss=mse", train={"learning_rate": 0.01}, columns="clients", min_clients=3)
    devices = [Device(workspace, aggregator, name, rows, write_flow, "target=flow,test=0") for name, rows in ROWS.items()]
    devices.append(Device(workspace, aggregator, "looks", 300, write_flow, "target=flow,test=0.5", evaluator=True))
    for process in [device.enrolled(aggregator).start() for device in devices]:
        check(process.wait(timeout=PATIENCE) == 0, "a client failed")
    found = losses(aggregator)
    check(0.2 < found[0] < 3 and found[-1] < 0.1, f"it does not learn: {found}")
    figures = aggregator.json("status")["metrics"]
    check(NOISE**2 / 2 < figures["mse"] < 40 * NOISE**2 and figures["r2"] > 0.7, f"not in the flow's unit: {figures}")
    aggregator.verb("export", workspace.path / "global.safetensors")
    flows = [float(line.split(",")[3]) for name in ROWS
             for line in (workspace.path / f"{name}.csv").read_text().splitlines()[1:]]
    mean = math.fsum(flows) / len(flows)
    deviation = math.sqrt(math.fsum((flow - mean) ** 2 for flow in flows) / len(flows))
    (told_mean, told_deviation), = scaling_of(workspace, "global.safetensors", "target")
    check(math.isclose(told_mean, mean, rel_tol=1e-5) and math.isclose(told_deviation, deviation, rel_tol=1e-3),
          f"the target's scaling is {told_mean}, {told_deviation}, not {mean}, {deviation}")
    check(len(scaling_of(workspace, "global.safetensors")) == 3, "the target is among the columns")
    write_flow(workspace.path / "new.csv", "new", 100)
    said = json.loads(devices[0].verb("predict", workspace.path / "new.csv", "--json"))
    true = [float(line.split(",")[3]) for line in (workspace.path / "new.csv").read_text().splitlines()[1:]]
    off = [abs(row["value"] - flow) for row, flow in zip(said["rows"], true)]
    check(all(abs(row["target"] - flow) < 0.01 for row, flow in zip(said["rows"], true)), f"targets: {said['rows'][:3]}")
    check(sum(off) / len(off) < 5 * NOISE and said["mae"] < 5 * NOISE, f"off by {sum(off) / len(off)}, {said['mae']}")
    table = (workspace.path / "new.csv").read_text().splitlines()
    (workspace.path / "unknown.csv").write_text("\n".join(line.rsplit(",", 1)[0] for line in table) + "\n")
    blind = json.loads(devices[0].verb("predict", workspace.path / "unknown.csv", "--json"))
    check([row["value"] for row in blind["rows"]] == [row["value"] for row in said["rows"]], "without the target it tells else")
    text = devices[0].verb("check")
    check("PROBLEM" not in text and "targets have the size" in text, f"check says: {text}")


def is_not_scaled_twice(workspace):
    """By scale= of its own a client would tell statistics of other numbers than the others."""
    aggregator = federation(workspace, columns="clients", min_clients=2, wait="1s")
    twice = Device(workspace, aggregator, "short", 40, options="label=state,classes=good|worn|dry,scale=standard")
    said = twice.enrolled(aggregator).verb("check", ok=(1,))
    check("PROBLEM  scaling" in said and "remove scale=" in said, f"check says: {said}")

    def is_refused():
        done = subprocess.run([BIN / "tern-client", "run", "--config", twice.config], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        check(done.returncode == 2 and "remove scale=... from data.source" in done.stderr, f"run says: {done.stderr}")

    is_refused()
    check("event=statistics " not in aggregator_log(workspace), "its statistics were taken")
    raw = [Device(workspace, aggregator, name, 100).enrolled(aggregator) for name in ("middle", "long")]
    running = [device.start() for device in raw]
    aggregator.log_line("event=scaling-fixed")
    is_refused()
    is_refused()  # with the scaling in its records, too
    check("remove scale=" in twice.verb("check", ok=(1,)), "check with the scaling")
    text = twice.config.read_text()
    twice.config.write_text(text.replace(",scale=standard", ""))
    check(all(process.wait(timeout=PATIENCE) == 0 for process in (*running, twice.start())), "it does not go on")


def does_not_without(workspace):
    aggregator = federation(workspace, columns="none")
    devices = [Device(workspace, aggregator, name, rows) for name, rows in ROWS.items()]
    said = devices[0].verb("check")
    check("WARNING  scale" in said and "statistics.columns = clients" in said, f"check says: {said}")
    for device in devices:
        device.enrolled(aggregator)
    said = devices[0].verb("check", ok=(1,))
    check("PROBLEM  scale" in said and "statistics.columns = clients" in said, f"check says: {said}")
    check("event=authentication-failed" not in aggregator_log(workspace), "a check is taken for an attack")
    for process in [device.start() for device in devices]:
        check(process.wait(timeout=PATIENCE) == 0, "a client failed")
    found = losses(aggregator)
    check(not found[-1] < 0.9, f"the raw columns are learnt without statistics: {found}")


def test():
    with Workspace() as workspace:
        aggregator, devices = agrees(workspace)
        learns(workspace, aggregator, devices)
        costs_what_is_documented(devices)
        keeps_it(workspace, aggregator, devices)
    for part in (tells_a_number, is_not_scaled_twice, does_not_without):
        with Workspace() as workspace:
            part(workspace)


main(test)
