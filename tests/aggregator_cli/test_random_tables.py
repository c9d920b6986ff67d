"""A property: of a random table whose meaning is known, `init`, `check`, `run` and `predict` have the same and right
reading, or name what they refuse, by the cause that was planted. There is no silent third. The reader of run and predict is
asked about every table, and the programs themselves, in a federation of one client, about one in FEDERATED. 120 tables; 2,000
with TERN_LONG_TESTS or as the argument; `test_random_tables.py 1 SEED` shows one."""
import collections
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from cli import BIN, OK, TEST_BIN
from random_table import Table, close

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "end_to_end"))
from harness import make_certificates  # noqa: E402

FEDERATED = 25  # one federation for so many tables

LEFT_OUT = re.compile(r"'([^']*)', since")


class Wrong(Exception):
    pass


class Reader:
    """The reader of run and predict, kept running for all tables."""

    def __init__(self):
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen([TEST_BIN / "read_source"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, errors="replace")

    def read(self, mode, source):
        self.process.stdin.write(f"{mode} {os.getcwd()} {source}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=30) == 0


def program(*command):
    done = subprocess.run([BIN / command[0], *command[1:]], capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def demand(holds, what):
    if not holds:
        raise Wrong(what)


# The words of a refusal, by the quirk that causes it.
CAUSES = {
    "semicolons": "semicolons", "decimal_commas": "semicolons", "tabs": "tabs between|tabs seem|semicolons between|follows the closing quote|a quote inside",
    "sep_line": "a hint for spreadsheets", "title": r"line 1 \('Readings of March'\)", "comment_line": r"line 1 \('# logger 12'\)",
    "latin1_label": "iconv -f cp1252", "latin1_name": "line 1, .* iconv -f cp1252", "utf16": "UTF-16", "cr": "line end",
    "repeated_header": "header", "units_row": "unit", "numeric_header": "line 1 can be a row", "no_header": "line 1 can be a row",
    "trailing_commas": "end with a comma", "row_names": "row names", "ragged_line": r"line \d+ has \d+ fields?",
    "missing_labels": r"line \d+, column '[^']*': the label (is missing|.* can be a class or a missing label)", "missing_target": r"line \d+, column '[^']*': the target is missing",
    "cased_labels": "case|or the line may not be a row", "duplicate_names": "two columns|same name", "tab_in_name": "rename", "quoted_blanks": "blank|finite",
    "float_labels": "label", "quoted_line_end": "line end|quote", "empty_column": "differ", "index_column": "differ",
    "unix_time": "differ", "falling_time": "differ", "nameless_index": "differ", "shuffled_index": "differ", "patient_id": "differ",
    "time_in_ms": "differ", "doubtful_labels": "can be a class or a missing label|the label is missing",
    "total_row": "or the line may not be a row|is a text among", "units_of_label": "or the line may not be a row|is a text among|'label' is not a finite number",
    "thousands": "write 1234.5|differ", "other_case_header": "header",
}


def names_cause(table, sentence):
    """Whether a refusal names the cause that was planted, with the text of a cell and its column where that is one."""
    for quirk in table.quirks & {"bad_target_cell", "odd_feature_cell"}:
        column = table.label if quirk == "bad_target_cell" else table.names[0]
        if any(f"column '{column}'" in sentence and f"'{text}'" in sentence for text in table.spelling.values()):
            return True
    return any(re.search(CAUSES[quirk], sentence) for quirk in table.quirks & set(CAUSES))


def check_refusal(table, error, path):
    """init refused: by name, with nothing left behind; check finds a problem in the same file."""
    demand(table.refusable, f"refused: {error}")
    demand(names_cause(table, error), f"refused, and not for what was planted: {error}")
    refusal = [line for line in error.splitlines() if ": warning: " not in line]
    demand(path.name in error and len(refusal) <= 2, f"does not name the file in one sentence: {error}")
    left = sorted(p.name for p in pathlib.Path().iterdir() if p != path)
    demand(not left, f"init refused and left {left} behind")
    _, said, _ = program("tern-client", "check", "--offline", "--set", f"data.source=csv:{path}", "--set",
                         "client.server=https://127.0.0.1:9")
    demand(re.search(r"^(PROBLEM|WARNING) +(data|columns|classes|target|header|names)", said, re.M),
           f"init refuses and check is content\n{error}{said}")


def values_of(reading, statistics, position):
    mean, deviation = statistics[position]
    return [row[position] * deviation + mean for row in reading["train"]["rows"]]


def compare_features(table, reading, statistics, names, keep):
    for position, name in enumerate(names):
        if name in ("id", "time", "site", "fixed", "stamp", "", "note", "sex", "day", "t", "patient_id"):
            raise Wrong(f"column {name} became a feature, without a word")
        read = values_of(reading, statistics, position)
        meant = [value for value, kept in zip(table.column(name), keep) if kept]
        demand(len(read) == len(meant), f"{len(read)} rows of column {name}, and {len(meant)} are meant")
        for i, (value, truth) in enumerate(zip(read, meant)):
            truth = statistics[position][0] if truth is None else truth
            demand(close(value, truth), f"row {i} of column {name} is {value}, and {truth} is meant")


def compare_labels(table, reading, keep):
    meant = [label for label, kept in zip(table.labels(), keep) if kept]
    read = reading["train"]["labels"]
    if table.task == "number":
        demand(all(close(a, b) for a, b in zip(read, meant)), "targets are others than are meant")
        return
    classes = reading["classes"]
    read = [classes[label] if classes else str(label) for label in read]
    wrong = [(a, b) for a, b in zip(read, meant) if a != b]
    demand(not wrong, f"labels differ from what is meant: {wrong[:3]}")
    demand(not classes or set(classes) == set(meant), f"classes {classes}, and {sorted(set(meant))} are meant")


def compare_known_labels(table, reading):
    """Returns the labels that predict reads, row by row, of a table that run refuses for missing labels."""
    read, meant = reading["train"]["labels"], table.labels()
    demand(len(read) == len(meant), f"predict reads {len(read)} rows, and {len(meant)} are meant")
    classes = reading["classes"]
    for row, (value, truth) in enumerate(zip(read, meant)):
        if truth is not None:
            same = close(value, truth) if table.task == "number" else (classes[value] if classes else str(value)) == truth
            demand(same, f"row {row}: predict reads the label {value} of {classes}, and {truth} is meant")


def names_meaning(table, said):
    """Whether what init printed names what a person has to know of this table."""
    last = table.quirks & {"missing_labels", "missing_target", "bad_target_cell", "odd_feature_cell", "doubtful_labels"}
    named = not last or re.search(r"line \d+", said)
    return named and ("true_false_column" not in table.quirks or "'on'" in said)


def check_reading(table, said, reader):
    settings = pathlib.Path("client.ini").read_text(encoding="utf-8", errors="replace")
    source = re.search(r"^source = (.*)$", settings, re.M).group(1)
    code, checked, error = program("tern-client", "check", "--offline", "--config", "client.ini")
    demand("client.ini:" not in error, f"check does not read what init wrote: {error}")
    problem = re.search(r"^PROBLEM +(data|columns|classes|target|scale) .*$", checked, re.M)
    readings = {mode: reader.read(mode, source) for mode in ("run", "predict")}
    refusals = {mode: reading.get("why") for mode, reading in readings.items()}
    demand(names_meaning(table, said), f"a missing label or target is not named: {said}")
    if problem or refusals["run"]:
        demand(problem and refusals["run"], f"check: {problem and problem.group(0)}; run: {refusals['run']}")
        demand(table.refusable and re.search(r"WARNING|Warning|warning|line \d+", said),
               f"init is content, and the client refuses: {refusals['run']}\n{said}")
        demand(names_cause(table, refusals["run"]), f"the client refuses for something else: {refusals['run']}")
        compare_known_labels(table, readings["predict"])
        return "named"
    demand(not refusals["predict"], f"run reads what predict refuses: {refusals['predict']}")
    labels = table.labels()
    keep = [True] * len(labels)
    if readings["predict"]["features"] and len(readings["predict"]["train"]["rows"]) < len(labels):
        keep = [label is not None for label in labels]
    with open("scaling.csv", encoding="utf-8", errors="replace") as file:
        lines = list(csv.reader(file))[1:]
    features = readings["predict"]["features"]
    names = [line[0] for line in lines[:features]]
    statistics = [(float(line[1]), float(line[2])) for line in lines[:features]]
    silent = set(table.names) - set(names) - set(LEFT_OUT.findall(said))
    if table.quirks.isdisjoint({"no_header", "numeric_header", "duplicate_names", "tab_in_name"}):
        demand(not silent, f"columns {silent} are left out without a word\n{said}")
    if "duplicate_names" not in table.quirks:
        compare_features(table, readings["predict"], statistics, names, keep)
    if None not in [label for label, kept in zip(labels, keep) if kept]:
        compare_labels(table, readings["predict"], keep)
    run = readings["run"]
    rows = sorted(map(tuple, run["train"]["rows"] + run["test"]["rows"]))
    demand(rows == sorted(map(tuple, readings["predict"]["train"]["rows"])), "run and predict read other values")
    demand(code in (OK, 1), f"check ends with {code}")
    return "read"


class Federation:
    """Runs and predicts with one client on the table in the current folder, as a user does."""

    def __init__(self, certificates):
        settings = {"server.port": 0, "server.port_file": "port", "server.address": "127.0.0.1", "admin.address": "unix:admin.sock",
                    "server.certificate": certificates / "server.crt", "server.private_key": certificates / "server.key",
                    "train.local_steps": 1, "round.min_interval": "1ms", "round.min_clients": 1}
        self.options = ["--config", "aggregator.ini", *[word for pair in settings.items() for word in ("--set", f"{pair[0]}={pair[1]}")]]
        self.ca = certificates / "ca.crt"
        with open("log", "w", encoding="utf-8") as log:
            # pylint: disable-next=consider-using-with
            self.service = subprocess.Popen([BIN / "tern-aggregator", "serve", *self.options], stdout=log, stderr=log)

    def client(self, *arguments):
        port = pathlib.Path("port").read_text(encoding="utf-8").strip()
        code, out, error = program("tern-client", *arguments, "--config", "client.ini", "--set",
                                   f"client.server=https://127.0.0.1:{port}", "--set", f"client.ca={self.ca}")
        demand(code == OK, f"tern-client {arguments} ends with {code}: {error}")
        return out, error

    def __enter__(self):
        until = time.monotonic() + 30
        while not pathlib.Path("port").exists():
            demand(time.monotonic() < until and self.service.poll() is None,
                   f"the service does not start: {pathlib.Path('log').read_text(encoding='utf-8')}")
            time.sleep(0.02)
        self.client("enroll", program("tern-aggregator", "enroll-code", *self.options)[1].strip())
        return self

    def __exit__(self, *_):
        self.service.terminate()
        self.service.wait(timeout=30)


def ask_programs(table, path, certificates):
    """run trains on the rows that are meant, and predict returns a row and its label for each, in any order of columns."""
    with Federation(certificates) as federation:
        _, log = federation.client("once")
        answers = json.loads(federation.client("predict", "--json", str(path))[0])
        rows = [row.get("label", row.get("target")) for row in answers["rows"]]
        meant = table.labels()
        demand(len(rows) == len(meant), f"predict answers {len(rows)} rows, and {len(meant)} are meant")
        same = close if table.task == "number" else lambda a, b: a == b
        wrong = [(a, b) for a, b in zip(rows, meant) if b is not None and not same(a, b)]
        demand(not wrong, f"predict compares with other labels than are meant: {wrong[:3]}")
        read = [int(count) for count in re.search(r"event=data .* examples=(\d+) held_out=(\d+)", log).groups()]
        demand(sum(read) == len(meant) and min(read) > 0 and f"num_examples={read[0]}" in log, f"run reads other rows: {log}")
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = list(csv.reader(file))
        with open("turned.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([*reversed(line), "beside" if i == 0 else "x"] for i, line in enumerate(lines) if line)
        out, log = federation.client("predict", "--json", "turned.csv")
        turned = json.loads(out)
        demand("'beside' is left out" in log, f"a column that the model does not take is left out without a word: {log}")
        demand(turned["rows"] == answers["rows"], "predict answers otherwise when the columns stand in another order")


def compare_check(path, warnings):
    """`check --data FILE` of a file that init took without options: the same task, classes, features, and warnings."""
    code, said, error = program("tern-client", "check", "--json", "--data", str(path))
    demand(code == OK, f"init takes a file that check --data refuses: {said}{error}")
    said = json.loads(said)
    source = re.search(r"^source = (.*)$", pathlib.Path("client.ini").read_text(encoding="utf-8", errors="replace"), re.M).group(1)
    becomes = {column["column"]: column["becomes"] for column in said["columns"]}
    demand((",target=" in source) == ("the target" in becomes.values()), f"other tasks: {source} and {becomes}")
    with open("scaling.csv", encoding="utf-8", errors="replace") as file:
        names = [line[0] for line in csv.reader(file)][1:]
    features = [column["column"] for column in said["columns"]
                if column["becomes"].startswith("a feature") and "predicts nothing" not in column["becomes"]]
    demand(names[:len(features)] == features, f"init's features {names}, check's {features}")
    classes = re.search(r',classes=("[^"]*"|[^,]*)', source)
    found = [line["finding"] for line in said["findings"] if (line["area"], line["health"]) == ("classes", "good")]
    if classes:
        listed = classes.group(1).strip('"').split("|")
        demand(found[0].startswith(f"{len(listed)} in ") and all(f"{name} " in found[0] for name in listed[:10]),
               f"other classes: {listed} and {found}")
    warned = [line["finding"] for line in said["findings"] if line["health"] == "warning"]
    demand(warned == warnings, f"init warns of {warnings}, check of {warned}")


# Tables whose lines csv.reader reads as Tern does, with names that tell the columns apart.
PLAIN = {"crlf", "quote_all", "quote_text", "mixed_quotes", "missing_features", "signs_and_exponents", "constant_column",
         "text_column", "true_false_column", "date_column", "blank_in_name", "bom", "no_last_newline", "index_column", "unix_time"}


def try_table(seed, reader):
    table = Table(seed)
    path = pathlib.Path(f"t{seed}.csv")
    path.write_bytes(table.bytes())
    options = ("--task", "regression") if table.task == "number" and seed % 2 else ()
    options += ("--label", table.label) if "label_first" in table.quirks else ()
    code, said, error = program("tern-aggregator", "init", "--data", str(path), *options)
    said = said.partition("Made ")[0] + error
    if code != OK:
        check_refusal(table, error, path)
        return table, "refused"
    if not options and seed % 8 == 0:
        compare_check(path, re.findall(r"^tern-aggregator: warning: [^:]*: (.*)$", error, re.M))
    return table, check_reading(table, said, reader)


def main():
    long = "TERN_LONG_TESTS" in os.environ
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000 if long else 120
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    outcomes = collections.Counter()
    failures = []
    asked = 0
    certificates = tempfile.TemporaryDirectory(prefix="tern-certificates-")
    make_certificates(certificates.name)
    reader = Reader()
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory(prefix="tern-table-") as folder:
            os.chdir(folder)
            try:
                table, outcome = try_table(seed, reader)
                outcomes[outcome] += 1
                wanted = count == 1 or asked < count // FEDERATED
                if wanted and outcome == "read" and table.quirks <= PLAIN and seed % 2 == 0:
                    ask_programs(table, pathlib.Path(f"t{seed}.csv"), pathlib.Path(certificates.name))
                    asked += 1
            except Wrong as wrong:
                failures.append((seed, sorted(Table(seed).quirks), str(wrong).strip()))
            if count == 1:
                print(Table(seed).bytes()[:600].decode("latin-1"))
            os.chdir("/")
    reader.close()
    certificates.cleanup()
    print(f"{count} tables: {dict(outcomes)}, {asked} of them in a federation, {len(failures)} wrong")
    for seed, quirks, wrong in failures[:40]:
        print(f"table {seed}, {' and '.join(quirks) or 'plain'}: {wrong}\n", file=sys.stderr)
    kinds = collections.Counter(quirk for _, quirks, _ in failures for quirk in quirks)
    if failures:
        print(f"quirks of tables that fail: {kinds.most_common()}", file=sys.stderr)
    # A program that refused all would hold the property.
    too_few = count >= 100 and (outcomes["read"] < count // 2 or asked < count // FEDERATED)
    if too_few:
        print("fewer than half of the tables were read", file=sys.stderr)
    return 1 if failures or too_few else 0


sys.exit(main())
