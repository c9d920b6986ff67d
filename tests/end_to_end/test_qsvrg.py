"""QSVRG in whole: logistic regression on tables, by clients of which each has rows of its own. Every version is that of a
reference in plain Python, which draws the same batches and rounds by the same draws, to 1e-6; the distance to the
optimum falls by a factor each epoch; uploads are within the paper's bits. Killed again and again, aggregator and clients
make the same bits. A client that joins amid an epoch waits for the next."""

import math
import pathlib
import random
import signal
import subprocess
import sys
import time

import safetensors_file
from harness import BIN, LONG, PATIENCE, SANITIZED, Aggregator, Workspace, check, main, run

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))
import tern_reference as ref  # noqa: E402
from tern_reference import draws, training  # noqa: E402

FEATURES, CLASSES = 12, 3
SPEC = f"softmax:{FEATURES}-{CLASSES}"
SIZES = (40, 60, 20)  # rows of the clients' tables
STEPS = 6  # T: five rounds an epoch
EPOCHS = 3
ROUNDS = EPOCHS * (STEPS - 1)
SEED, BATCH, RATE, DECAY = 5, 2, 0.125, 0.0625


def table(number):
    """Rows of numbers that float32 holds, and their class."""
    draw = random.Random(f"client {number}")
    rows = []
    for _ in range(SIZES[number % len(SIZES)]):
        label = draw.randrange(CLASSES)
        rows.append(([round((label - 1) * (i % 3 - 1) + draw.gauss(0, 1), 2) for i in range(FEATURES)], label))
    return rows


def as_read(rows):
    """The same in the order that a client numbers them, as float32."""
    rows, source = list(rows), draws.stream(1, 5, 2, 0)
    for i in range(len(rows), 1, -1):
        j = draws.below(source, i)
        rows[i - 1], rows[j] = rows[j], rows[i - 1]
    return [([ref.f32(value) for value in values], label) for values, label in rows]


# --- The reference


class Reference:
    def __init__(self):
        self.model = ref.Model(SPEC)
        self.data = [as_read(table(number)) for number in range(len(SIZES))]
        self.x = self.model.initial_weights(SEED)
        self.y = self.second = self.iterates = None
        self.levels = round(math.sqrt(self.model.count))
        self.codec = f"qsgd:levels={self.levels},bucket=268435456,norm=l2,coder=elias"

    def gradient(self, weights, examples):
        """Returns the gradient of mean loss and penalty, in the order of the flat vector."""
        total = [DECAY * w for w in weights]
        at_weight, at_bias = self.model.offsets[0], self.model.offsets[1]
        for values, label in examples:
            z = training.logits(self.model, SPEC, weights, values)
            peak = max(z)
            scores = [math.exp(value - peak) for value in z]
            for k, score in enumerate(scores):
                slope = (score / sum(scores) - (k == label)) / len(examples)
                total[at_bias + k] += slope
                for i, value in enumerate(values):
                    total[at_weight + k * FEATURES + i] += slope * value
        return total

    def loss(self, weights):
        rows = [row for data in self.data for row in data]
        losses = [training.loss(training.logits(self.model, SPEC, weights, values), label) for values, label in rows]
        return sum(losses) / len(rows) + DECAY / 2 * sum(w * w for w in weights)

    def optimum(self):
        """The least loss, by Newton's method's poor relative: gradient descent to the end."""
        rows, weights = [row for data in self.data for row in data], [0.0] * self.model.count
        for _ in range(4000):
            slope = self.gradient(weights, rows)
            if max(abs(value) for value in slope) < 1e-9:
                break
            weights = [w - 0.25 * g for w, g in zip(weights, slope)]
        return self.loss(weights)

    def update(self, number, round_number, step):
        data = self.data[number]
        if step == 0:
            return [-RATE * g for g in self.gradient(self.x, data)]
        drawn = next(training.batches(SEED, round_number, number + 1, len(data), BATCH))
        batch = [data[i] for i in drawn]
        here, there = self.gradient(self.x, batch), self.gradient(self.y, batch)
        change = [ref.f32(-RATE * (a - b) + (s - y)) for a, b, s, y in zip(here, there, self.second, self.y)]
        context = ref.Context(seed=SEED, round=round_number, client=number + 1)
        return ref.container.decode(self.model, ref.container.encode(self.codec, self.model, change, context)[0])

    def do_round(self, round_number):
        step = (round_number - 1) % (STEPS - 1)
        if step == 0:
            self.y, self.iterates = self.x, [self.x]
        updates = [self.update(number, round_number, step) for number in range(len(SIZES))]
        total = sum(SIZES)
        self.x = [w + sum(size * update[i] for size, update in zip(SIZES, updates)) / total
                  for i, w in enumerate(self.x)]
        self.iterates.append(self.x)
        if step == 0:
            self.second = self.x
        if len(self.iterates) == STEPS:
            self.x = [sum(values) / STEPS for values in zip(*self.iterates)]


# --- The federation


def make(workspace, pause="0"):
    """pause: between the openings of two rounds, for what a test does meanwhile."""
    return Aggregator(workspace, {
        "federation": {"model": SPEC, "seed": SEED},
        "round": {"strategy": f"qsvrg:epoch_steps={STEPS}", "min_interval": pause, "min_clients": len(SIZES), "cohort": len(SIZES), "quorum": len(SIZES),
                  "rounds": ROUNDS, "come_back_min": "20ms", "come_back_max": "1s"},
        "train": {"local_steps": 1, "batch_size": BATCH, "learning_rate": RATE, "weight_decay": DECAY},
        "downloads": {"final_model": "none"}})


def client(workspace, aggregator, number, *arguments):
    config = workspace.path / f"{number}.ini"
    if not config.exists():
        rows = workspace.path / f"{number}.csv"
        names = ",".join([f"x{i}" for i in range(FEATURES)] + ["state"])
        rows.write_text("\n".join([names] + [",".join(map(str, values + [label])) for values, label in table(number)]))
        config.write_text(
            f"[client]\nserver = {aggregator.url}\nca = {aggregator.ca}\nname = {number}\n"
            f"state_dir = {workspace.path}/{number}\nwait = 1s\nretry_min = 100ms\nretry_max = 1s\n"
            f"[data]\nsource = csv:{rows},label=state,test=0\n")
    return [BIN / "tern-client", *arguments, "--config", config]


def enroll(workspace, aggregator, numbers):
    code = aggregator.join_code(uses=len(numbers))
    for number in numbers:
        run(*client(workspace, aggregator, number, "enroll", code))


def start(workspace, aggregator, number):
    return workspace.start(*client(workspace, aggregator, number, "run"), log=f"client-{number}")


def finish(processes):
    for process in processes:
        check(process.wait(timeout=PATIENCE) == 0, "a client did not end with the federation")


def exported(workspace, aggregator, model, *arguments):
    path = workspace.path / "global.safetensors"
    aggregator.verb("export", path, *arguments)
    tensors, _ = safetensors_file.parse(path.read_bytes())
    flat = [0.0] * model.count
    for i, (name, dims, _) in enumerate(model.tensors):
        flat[model.offsets[i] : model.offsets[i] + math.prod(dims)] = tensors[name][2]
    return flat


# --- What is checked


def versions_are_the_references(workspace, aggregator):
    reference = Reference()
    excess = [reference.loss(reference.x) - reference.optimum()]
    for version in range(1, ROUNDS + 1):
        reference.do_round(version)
        found = exported(workspace, aggregator, reference.model, "--version", version)
        off = max(abs(a - b) for a, b in zip(found, reference.x))
        check(off < 1e-6, f"version {version} is {off} off the reference")
        if version % (STEPS - 1) == 0:
            excess.append(reference.loss(found) - reference.optimum())
    for before, after in zip(excess, excess[1:]):
        check(0 <= after < 0.9 * before, f"the loss above the optimum after each epoch: {excess}")


def rounds_say_what_they_are(aggregator):
    rounds = aggregator.json("rounds")
    check(len(rounds) == ROUNDS, f"{len(rounds)} rounds")
    for row in rounds:
        step = (row["round"] - 1) % (STEPS - 1)
        check(row["strategy_parameters"] == f"examples_bound=16,epoch_steps={STEPS},epoch_step={step}", f"{row}")
        check((row["codec_up"] == "float32") == (step == 0), f"{row}")


def uploads_are_within_the_papers_bits(rounds):
    """Payloads of a client and an epoch: below (F + 2.8 n)(T + 1) + F n bits, F = 32, whatever heads add."""
    n = ref.Model(SPEC).count
    for epoch in range(EPOCHS):
        rows = [row for row in rounds if (row["round"] - 1) // (STEPS - 1) == epoch]
        bits = sum(8 * row["payload_up"] for row in rows) / len(SIZES)
        check(bits <= (32 + 2.8 * n) * (STEPS + 1) + 32 * n, f"epoch {epoch}: {bits} bits")


def undisturbed():
    with Workspace() as workspace:
        aggregator = make(workspace).start()
        enroll(workspace, aggregator, range(len(SIZES)))
        finish([start(workspace, aggregator, number) for number in range(len(SIZES))])
        aggregator.kill(signal.SIGTERM)
        aggregator.verb("verify")
        versions_are_the_references(workspace, aggregator)
        rounds_say_what_they_are(aggregator)
        uploads_are_within_the_papers_bits(aggregator.json("rounds"))
        return exported(workspace, aggregator, ref.Model(SPEC))


def killed(expected, seed):
    """kill -9 of anybody at any time, until the federation is done."""
    draw = random.Random(seed)
    with Workspace() as workspace:
        aggregator = make(workspace, "300ms").start()
        enroll(workspace, aggregator, range(len(SIZES)))
        clients = [start(workspace, aggregator, number) for number in range(len(SIZES))]
        kills, deadline = 0, time.monotonic() + PATIENCE
        while any(process.poll() is None for process in clients):
            check(time.monotonic() < deadline, "the federation does not end")
            time.sleep(draw.uniform(0.02, 0.15))
            victim = draw.randrange(len(SIZES) + 1)
            if kills >= (10 if SANITIZED else 40):
                continue
            if victim == len(SIZES):
                aggregator.kill()
                aggregator.start()
                kills += 1
            elif clients[victim].poll() is None:
                clients[victim].kill()
                clients[victim].wait()
                clients[victim] = start(workspace, aggregator, victim)
                kills += 1
        finish(clients)
        check(kills >= 10, f"only {kills} kills")
        aggregator.kill(signal.SIGTERM)
        aggregator.verb("verify")
        check(exported(workspace, aggregator, ref.Model(SPEC)) == expected, "kills have left a trace in the model")
        log = (workspace.path / "aggregator.log").read_text()
        check("epoch-ended-early" not in log, "an epoch ended early")


def joined_later():
    """Who comes amid an epoch has no task before the next one."""
    with Workspace() as workspace:
        aggregator = make(workspace, "300ms").start()
        enroll(workspace, aggregator, range(len(SIZES)))
        clients = [start(workspace, aggregator, number) for number in range(len(SIZES))]
        aggregator.log_line(" round=1 of=")
        aggregator.settings["round"].update({"cohort": 4, "quorum": 4})
        aggregator.write_config()
        aggregator.process.send_signal(signal.SIGHUP)
        late = len(SIZES)
        enroll(workspace, aggregator, [late])
        clients.append(start(workspace, aggregator, late))
        finish(clients)
        applied = [row["applied"] for row in sorted(aggregator.json("rounds"), key=lambda row: row["round"])]
        epochs = [set(applied[at : at + STEPS - 1]) for at in range(0, ROUNDS, STEPS - 1)]
        check(all(len(updates) == 1 for updates in epochs), f"updates of the rounds: {applied}")
        check(epochs[0] == {3} and epochs[-1] == {4}, f"updates of the rounds: {applied}")


def settings_are_refused():
    with Workspace() as workspace:
        for section, key, value, advice in (
                ("train", "local_steps", 2, "train.local_steps = 1"),
                ("train", "momentum", 0.9, "train.momentum = 0"),
                ("train", "learning_rate", "step", "train.learning_rate to a number alone"),
                ("train", "schedule", "deadline", "train.schedule = fixed"),
                ("round", "strategy", "qsvrg:epoch_steps=0", "epoch_steps is 3 to 1000000"),
                ("round", "strategy", "qsvrg:server_learning_rate=0.5", "unknown key"),
                ("codec", "codec", "3lc:s=1", "codec.codec = default"),
                ("codec", "codec_down", "3lc:s=1", "codec.codec_down = float32")):
            aggregator = make(workspace) if section == "train" and key == "local_steps" else aggregator
            kept = {name: dict(keys) for name, keys in aggregator.settings.items()}
            aggregator.settings.setdefault(section, {})[key] = value
            aggregator.write_config()
            done = subprocess.run([BIN / "tern-aggregator", "serve", "--config", aggregator.config],
                                  capture_output=True, text=True, timeout=PATIENCE)
            check(done.returncode not in (0, -9) and advice in done.stderr,
                  f"{section}.{key} = {value} exits {done.returncode} with {done.stderr}")
            aggregator.settings = kept


def test():
    expected = undisturbed()
    for seed in range(2 if LONG else 1):
        killed(expected, seed)
    joined_later()
    settings_are_refused()


main(test)
