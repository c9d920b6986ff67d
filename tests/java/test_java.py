"""The Java client against tern-aggregator.

Usage: test_java.py SCENARIO CLASSES LIBRARY_FOLDER JAVA
"""

import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "end_to_end"))
from harness import BIN, NIGHT, SANITIZED, Aggregator, Workspace, check, main, make_certificates, run, within  # noqa: E402
from history import history  # noqa: E402
from refusing_front import RefusingFront  # noqa: E402

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


def sanitizer():
    """The environment in which a JVM, which is not built with the sanitizers, loads a library that is. It handles SIGSEGV
    itself. lsan.supp names what a JVM never frees."""
    if not SANITIZED:
        return dict(os.environ)
    runtimes = [run("gcc", f"-print-file-name=lib{name}.so").strip() for name in ("asan", "ubsan")]
    return dict(os.environ, LD_PRELOAD=":".join(runtimes), UBSAN_OPTIONS="halt_on_error=1",
                ASAN_OPTIONS="handle_segv=0:handle_sigfpe=0:allow_user_segv_handler=1:detect_leaks=1:fast_unwind_on_malloc=0",
                LSAN_OPTIONS=f"suppressions={HERE / 'lsan.supp'}:print_suppressions=0:use_tls=0")


def refused(said):
    """What -Xcheck:jni reports of libternjni. A JVM reports its own libraries, too."""
    return [line for line in said.splitlines() if "in native method" in line]


def java(scenario, aggregator, *arguments, code=None, options=(), timeout=within(60, 200)):
    """Runs a scenario of Scenarios.java; returns what it prints."""
    done = subprocess.run([JAVA, "-Xcheck:jni", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m",
                           f"-Djava.library.path={LIBRARY}", *options, "-cp", CLASSES, "Scenarios", scenario,
                           aggregator.url, str(aggregator.ca), str(aggregator.workspace.path),
                           code or aggregator.join_code(uses=10), *map(str, arguments)],
                          capture_output=True, text=True, timeout=timeout, env=sanitizer(), check=False)
    check(done.returncode == 0 and f"passed {scenario}" in done.stdout and not refused(done.stdout + done.stderr),
          f"{scenario} exited {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    check("in native method" not in done.stdout + done.stderr, f"-Xcheck:jni warns: {done.stdout}{done.stderr}")
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


def cancel():
    """Calls that are cancelled at random moments and repeated make the models of an undisturbed client."""
    cancelled = 200 if NIGHT else 20
    versions = []
    for count in (0, cancelled):
        with Workspace() as workspace:
            aggregator = Aggregator(workspace, settings("mlp:8-64-3", cancelled // 2, train={"local_steps": 400})).start()
            table = write_table(workspace.path / "table", 300, 3)
            print(java("cancel", aggregator, table / "table.csv", count))
            aggregator.verb("verify")
            versions.append(history(aggregator)[1])
    check(len(versions[0]) > cancelled // 2 and versions[0] == versions[1], "cancelled calls have changed the model")


def app():
    """A trainer, a transport, conditions and a listener of the app; exceptions in each."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings("softmax:8-3", 30, train={"evaluate": "yes"}, round={"deadline": "500ms"})).start()
        table = write_table(workspace.path / "table", 90, 4)
        java("app", aggregator, table / "table.csv")
        [client] = aggregator.json("clients")
        check(client["name"] == "phone \u00e9 \U0001f4f1", f"the name: {client}")
        check("training-failed" in (workspace.path / "aggregator.log").read_text(), "failures were not reported")


def predict():
    """Models of numbers: a regression, and an autoencoder of one layer."""
    for model, kind in (("linear:8-1,loss=mse", "number"), ("linear:8-8,loss=reconstruction", "reconstruction")):
        with Workspace() as workspace:
            aggregator = Aggregator(workspace, settings(model, 1)).start()
            java("predict", aggregator, write_table(workspace.path / "table", 60, 6) / "table.csv", kind)


def misuse():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings("softmax:8-3", 30, round={"come_back_max": "1h"})).start()
        # Every class of tern.jar, so that a new one is tried, too.
        with zipfile.ZipFile(CLASSES.rsplit(":", 1)[1]) as jar:
            names = [name[:-len(".class")].replace("/", ".") for name in jar.namelist() if name.endswith(".class")]
        java("misuse", aggregator, write_table(workspace.path / "table", 90, 5) / "table.csv", ",".join(names))


def refused_calls():
    """A busy server, a reset handshake, another CA, and a federation whose statistics this client lacks: by the built-in
    transport and an app's."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {**settings("softmax:8-3", 2), "statistics": {"columns": "clients"}}).start()
        other = workspace.path / "other"
        other.mkdir()
        make_certificates(other)
        fronts = [RefusingFront(workspace.path, resets=resets).url for resets in (False, True)]
        java("refused", aggregator, write_table(workspace.path / "table", 90, 5) / "table.csv", *fronts, other / "ca.crt")


def upload():
    """An update of 430 KB through an app's transport ends within 64 KB after the link has become metered, and goes on later."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings("mlp:8-9000-3", 1, train={"local_steps": 1},
                                                    codec={"codec": "float32", "codec_down": "float32"})).start()
        java("upload", aggregator, write_table(workspace.path / "table", 90, 5) / "table.csv")
        aggregator.verb("verify")
        check(aggregator.json("status")["rounds_committed"] == 1, "the update did not arrive")


def android():
    """Files for Android are of the one package that docs/MOBILE.md and Gradle name; the tests compile HttpsTransport in it."""
    tree = HERE.parent.parent
    text = (tree / "docs/MOBILE.md").read_text()
    package = re.search(r'namespace = "([\w.]+)"', (tree / "docs/examples/android/build.gradle.kts").read_text())[1]
    files = [*(tree / "docs/examples/android").glob("*.kt"), tree / "docs/examples/java/HttpsTransport.java"]
    for file in files:
        found = re.search(r"^package ([\w.]+)", file.read_text(), re.M)
        check(found and found[1] == package and f"/{file.name})" in text, f"{file.name}: its package is not {package}")
    check(package in text and (pathlib.Path(CLASSES.split(":")[0]) / package.replace(".", "/") / "HttpsTransport.class").is_file(),
          f"{package}: not in docs/MOBILE.md, or HttpsTransport is not compiled in it")
    check("android.permission.INTERNET" in text, "docs/MOBILE.md does not name the permission")
    worker = (tree / "docs/examples/android/TernWorker.kt").read_text()
    check("ExistingPeriodicWorkPolicy.UPDATE" in worker, "schedule() drops another join code")


def size():
    """tern.jar and the stripped libternjni keep the limit of ./tern java."""
    most = int(re.search(r"^JAVA_MOST_BYTES=(\d+)", (HERE.parent.parent / "cmake/verbs/java.sh").read_text(), re.M)[1])
    with Workspace() as workspace:
        run("strip", "-o", workspace.path / "stripped", pathlib.Path(LIBRARY) / "libternjni.so")
        parts = [workspace.path / "stripped", pathlib.Path(CLASSES.rsplit(":", 1)[1])]
        total = sum(part.stat().st_size for part in parts)
        print(f"{total} bytes, at most {most}")
        shown = re.search(r"^\| `tern.jar` \| (\d+) KB \|$", (HERE.parent.parent / "docs/MOBILE.md").read_text(), re.M)
        kb = parts[1].stat().st_size / 1000
        check(shown and abs(kb - int(shown[1])) <= 0.05 * kb, f"tern.jar has {kb:.1f} KB; docs/MOBILE.md gives {shown}")
        check(SANITIZED or total <= most, f"tern.jar and libternjni have {total} bytes, at most {most}")


def example():
    """Join.java, built and run by the commands of its comment and of docs/MOBILE.md, does the rounds of a federation."""
    android()
    size()
    tree = HERE.parent.parent
    source = (tree / "docs/examples/java/Join.java").read_text()
    commands = ["javac -cp tern.jar Join.java", "java -cp tern.jar:. -Djava.library.path=. Join https://localhost:8443 ca.crt CODE"]
    for command in commands:
        check(f"//   {command}\n" in source, f"Join.java says another command than {command}")
        check(f"{command}\n" in (tree / "docs/MOBILE.md").read_text(), f"docs/MOBILE.md says another command than {command}")
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings("softmax:2-2", 5)).start()
        (workspace.path / "Join.java").write_text(source)
        (workspace.path / "tern.jar").symlink_to(CLASSES.rsplit(":", 1)[1])
        (workspace.path / "libternjni.so").symlink_to(pathlib.Path(LIBRARY) / "libternjni.so")
        commands[1] = commands[1].replace("https://localhost:8443", aggregator.url).replace("CODE", aggregator.join_code())
        done = subprocess.run(["sh", "-euc", "\n".join(commands)], cwd=workspace.path, capture_output=True, text=True,
                              timeout=within(60, 200), check=False)
        check(done.returncode == 0, f"{commands}:\n{done.stdout}{done.stderr}")
        said = done.stdout.splitlines()
        check(sum(line.startswith("uploaded ") for line in said) == 5 and "bytes since" in said[-1], done.stdout)
        check(aggregator.json("status")["rounds_committed"] == 5, "the aggregator says otherwise")


main({"rounds": rounds, "cancel": cancel, "app": app, "predict": predict, "misuse": misuse, "refused": refused_calls,
      "upload": upload, "example": example}[SCENARIO])
