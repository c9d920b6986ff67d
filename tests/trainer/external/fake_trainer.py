"""A trainer that does what its first argument says, right or wrong; the task is the last. It knows
nothing but the interface of docs/TRAINERS.md. What it "learns" is to add 1 to every weight."""
import json
import os
import signal
import struct
import subprocess
import sys
import time


def read_model(path):
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), bytearray(file.read())


def write_model(path, header, data):
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def add_one(data):
    count = len(data) // 4
    return struct.pack(f"<{count}f", *(v + 1 for v in struct.unpack(f"<{count}f", data)))


def write_result(task, text=None, **fields):
    right = {"num_examples": 7, "loss": 0.5} | ({"accuracy": 0.25} if task["kind"] == "evaluate"
                                                else {})
    with open(task["result"], "w", encoding="utf-8") as file:
        file.write(text if text is not None else json.dumps(right | fields))


def train(task, change=lambda header, data: (header, data), **fields):
    header, data = read_model(task["model"])
    if task["kind"] == "train":
        write_model(task["output"], *change(header, add_one(data)))
    write_result(task, **fields)


def renamed(header, data):
    header["other"] = header.pop("fc1.bias")
    return header, data


def left_out(header, data):
    last = max(header, key=lambda name: header[name]["data_offsets"][1])
    begin, _ = header.pop(last)["data_offsets"]
    return header, data[:begin]


def reshaped(header, data):
    header["fc1.weight"]["shape"].reverse()
    return header, data


def doubled(header, data):
    for entry in header.values():
        entry["dtype"] = "F64"
        entry["data_offsets"] = [2 * place for place in entry["data_offsets"]]
    return header, data + data


def halved(header, data):
    for entry in header.values():
        entry["dtype"] = "F16"
        entry["data_offsets"] = [place // 2 for place in entry["data_offsets"]]
    count = len(data) // 4
    return header, struct.pack(f"<{count}e", *struct.unpack(f"<{count}f", data))


def not_a_number(header, data):
    return header, data[:-4] + struct.pack("<f", float("nan"))


def endless(header, data):
    return header, data[:-4] + struct.pack("<f", float("inf"))


def huge(task):
    train(task)
    os.truncate(task["output"], 1 << 33)


def fifo(task):
    train(task)
    os.remove(task["output"])
    os.mkfifo(task["output"])


def link(task):
    train(task)
    os.rename(task["output"], task["output"] + ".real")
    os.symlink(task["output"] + ".real", task["output"])


def no_output(task):
    train(task)
    os.remove(task["output"])


def no_result(task):
    train(task)
    os.remove(task["result"])


def garbage(task):
    train(task)
    with open(task["output"], "wb") as file:
        file.write(os.urandom(1000))


def hang(_):
    print("I hang", flush=True)
    time.sleep(1000)


def stubborn(task):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang(task)


def flood(task):
    for _ in range(20000):
        print("x" * 99)
    sys.stdout.flush()  # what Python holds back would come behind the last line
    sys.stderr.write("the last line\n")
    train(task)
    sys.exit(3)


def quiet(task):
    sys.stdout.flush()
    os.close(1)
    os.close(2)
    time.sleep(0.3)
    train(task)


def grandchild(task):
    process = subprocess.Popen(["sleep", "1000"])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(str(process.pid))
    train(task)


def outlives(task):
    """Leaves a process in a group of its own that answers into the task's folder when `go` is
    there; then `done` is."""
    model = read_model(task["model"])  # gone with the folder, when this one has ended
    if os.fork() == 0:
        os.setsid()
        for fd in (1, 2):
            os.close(fd)
        if not os.fork():
            answer_late(task, model, sys.argv[2])
        os._exit(0)
    os.wait()
    train(task)


def answer_late(task, model, where):
    header, data = model
    wait_for(os.path.join(where, "go"))
    try:
        write_model(task["output"], header, data)
        write_result(task)
    finally:
        open(os.path.join(where, "done"), "w", encoding="utf-8").close()


def wait_for(path):
    for _ in range(1000):
        if os.path.exists(path):
            return
        time.sleep(0.02)


def lets_go(_):
    open(os.path.join(sys.argv[2], "go"), "w", encoding="utf-8").close()
    wait_for(os.path.join(sys.argv[2], "done"))


def own_files(task):
    folder = os.path.join(os.path.dirname(task["result"]), "cache", "deep")
    os.makedirs(folder)
    with open(os.path.join(folder, "file"), "w", encoding="utf-8") as file:
        file.write("x")
    train(task)


def raises(_):
    raise ValueError("my own mistake")


def environment(task):
    for name, value in task.items():
        assert os.environ[f"TERN_{name.upper()}"] == str(value), name
    assert os.environ["TERN_TASK"] == sys.argv[-1]
    assert os.stat(os.path.dirname(task["result"])).st_mode & 0o777 == 0o700
    files = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))
    assert files[:3] == [0, 1, 2] and len(files) == 4, files  # and the listing's own
    assert os.getpgid(0) == os.getpid()
    train(task)


def facts(task):
    train(task, metrics={name: task[name] for name in ("round", "learning_rate", "momentum",
                                                       "weight_decay", "prox_mu", "batch_size",
                                                       "local_steps", "seed")})


def colours(task):
    train(task, metrics={"\x1b[31mred": 1, "gr\u00fcn": 2})


def base_apart(task):
    assert task["base"] != task["model"]
    _, base = read_model(task["base"])
    _, start = read_model(task["model"])
    train(task, metrics={"base": struct.unpack("<f", base[:4])[0],
                         "start": struct.unpack("<f", start[:4])[0]})


MODES = {
    "good": train, "huge": huge, "fifo": fifo, "link": link, "no_output": no_output,
    "no_result": no_result, "garbage": garbage, "hang": hang, "stubborn": stubborn, "flood": flood,
    "quiet": quiet, "grandchild": grandchild, "own_files": own_files,
    "outlives": outlives, "lets_go": lets_go, "raises": raises,
    "environment": environment, "facts": facts, "base_apart": base_apart, "colours": colours,
    "segfault": lambda task: os.kill(os.getpid(), signal.SIGSEGV),
    "renamed": lambda task: train(task, renamed),
    "left_out": lambda task: train(task, left_out),
    "reshaped": lambda task: train(task, reshaped),
    "doubled": lambda task: train(task, doubled),
    "halved": lambda task: train(task, halved),
    "not_a_number": lambda task: train(task, not_a_number),
    "endless": lambda task: train(task, endless),
    "cut": lambda task: train(task, lambda header, data: (header, data[:-4])),
    "result": lambda task: train(task, text=sys.argv[2]),
}


def read_task(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def good_and_out(task):
    train(task)
    os.write(3, b"done\n")
    sys.exit(0)


# What a persistent trainer answers, and how it ends, where that is not "done".
ANSWERS = {"good": b"done\n", "refuses": b"failed: no data today\n", "babbles": b"well done\n",
           "slow": b"do", "endless_answer": b"x" * 2000}


def persist(modes):
    """Task by task by the modes, separated by commas; the last one for all further tasks."""
    for count, line in enumerate(sys.stdin):
        assert line.endswith("\n"), line
        mode = modes[min(count, len(modes) - 1)]
        if mode == "leaves":
            sys.exit(0)
        if mode == "closes":
            os.close(0)
            os.close(3)
            time.sleep(1000)
        task = read_task(line[:-1])
        if mode == "good_and_out":
            good_and_out(task)
        if mode not in ANSWERS:
            MODES[mode](task)
        elif mode != "refuses":
            train(task, metrics={"task": count + 1})
        os.write(3, ANSWERS.get(mode, b"done\n"))
        if mode == "slow":
            time.sleep(0.2)
            os.write(3, b"ne\n")


def main():
    if os.environ.get("TERN_PERSISTENT") == "1":
        persist(sys.argv[1].split(","))
    else:
        MODES[sys.argv[1]](read_task(sys.argv[-1]))


main()
