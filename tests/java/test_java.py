"""The Java client against tern-aggregator.

Usage: test_java.py SCENARIO CLASSES LIBRARY_FOLDER JAVA
"""

import pathlib
import random
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "end_to_end"))
from harness import BIN, Aggregator, Workspace, check, main, run  # noqa: E402
from history import history  # noqa: E402

SCENARIO, CLASSES, LIBRARY, JAVA = sys.argv[1:5]
COLUMNS = 8


def write_table(folder, rows, seed):
    """Three classes around three points; every value is a float32. A table for Scenarios.java and, because tern-client
    shuffles the rows of tables, the same in a folder of IDX files. Returns the folder."""
    rng = random.Random(seed)
    folder.mkdir()
    labels = [i % 3 for i in range(rows)]
    values = [[round(rng.gauss(label * (j % 3 - 1), 1) * 64) / 64 for j in range(COLUMNS)] for label in labels]
    header = ",".join(f"c{j}" for j in range(COLUMNS)) + ",label"
    lines = [",".join(map(str, [*row, label])) for row, label in zip(values, labels)]
    (folder / "table.csv").write_text("\n".join([header, *lines]) + "\n")
    (folder / "train-images-idx2-float").write_bytes(
        struct.pack(">BBBBII", 0, 0, 13, 2, rows, COLUMNS) + b"".join(struct.pack(f">{COLUMNS}f", *row) for row in values))
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, rows) + bytes(labels))
    return folder


def java(scenario, aggregator, *arguments, code=None, options=(), timeout=240):
    """Runs a scenario of Scenarios.java; returns what it prints."""
    done = subprocess.run([JAVA, "-Xcheck:jni", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m",
                           f"-Djava.library.path={LIBRARY}", *options, "-cp", CLASSES, "Scenarios", scenario,
                           aggregator.url, str(aggregator.ca), str(aggregator.workspace.path),
                           code or aggregator.join_code(uses=10), *map(str, arguments)],
                          capture_output=True, text=True, timeout=timeout, check=False)
    check(done.returncode == 0 and f"passed {scenario}" in done.stdout,
          f"{scenario} exited {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def settings(model, rounds, clients=1, **sections):
    made = {
        "federation": {"model": model, "seed": 9},
        "round": {"cohort": clients, "quorum": clients, "min_clients": clients, "rounds": rounds,
                  "come_back_min": "10ms", "come_back_max": "50ms"},
        "train": {"local_steps": 5, "batch_size": 48, "momentum": 0.5},
        "codec": {"codec": "default", "codec_down": "default"},
    }
    for section, keys in sections.items():
        made[section].update(keys)
    return made


def rounds():
    """Two clients in one process of Java make the updates and models, bit for bit, of two tern-clients."""
    histories = []
    for kind in ("native", "java"):
        with Workspace() as workspace:
            aggregator = Aggregator(workspace, settings("mlp:8-16-3", 4, clients=2)).start()
            tables = [write_table(workspace.path / f"table{i}", 200, i) for i in (1, 2)]
            if kind == "java":
                java("rounds", aggregator, 2, *(table / "table.csv" for table in tables))
            else:
                native(aggregator, tables)
            aggregator.verb("verify")
            histories.append(history(aggregator))
    (updates, versions), (ours, our_versions) = histories
    check(len(updates) == 8, f"{len(updates)} updates were stored")
    for theirs, mine in zip(updates, ours):
        check(theirs == mine, f"round {theirs[0]}, client {theirs[1]}: another update than tern-client's:\n{theirs}\n{mine}")
    check(versions == our_versions, "other models than tern-client's")


def native(aggregator, tables):
    code = aggregator.join_code(uses=len(tables))
    commands = []
    for index, table in enumerate(tables, 1):
        keys = {"client.server": aggregator.url, "client.ca": aggregator.ca, "client.wait": "0",
                "client.state_dir": aggregator.workspace.path / f"client{index}",
                "data.source": f"idx:{table}"}
        options = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
        run(BIN / "tern-client", "enroll", code, *options)
        commands.append(options)
    started = [aggregator.workspace.start(BIN / "tern-client", "run", *options, log=f"client{index}")
               for index, options in enumerate(commands, 1)]
    for process in started:
        check(process.wait(timeout=240) == 0, "tern-client failed")


main({"rounds": rounds}[SCENARIO])
