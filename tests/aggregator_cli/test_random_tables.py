"""Random tables of known meaning: init reads each as it is meant, and check as init does, or both refuse it by name.

TERN_TABLES says how many; a seed that fails is printed, and TERN_TABLES_SEED repeats it alone."""
import csv
import json
import os
import pathlib
import random
import subprocess
import tempfile

from cli import BIN, main

TABLES = int(os.environ.get("TERN_TABLES", "40"))
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "?", "<NA>", " ", "  ")
CLASSES = (("ok", "worn"), ("good", "bad one", "dry"), ("0", "1"), ("0", "1", "2"), ("A", "B", "C", "D"), ("1.0", "2.0"),
           ("grün", "weiß"), ("yes", "no"), ("a,b", "c"), ("class 1", "class 2"))
BLANKS = ("", "", "", " ", "  ", "\t")


class Table:
    """What a table means, and its text."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        pick = self.random
        self.rows = pick.randint(24, 90)
        self.header = pick.random() < 0.75
        self.missing = pick.random() < 0.35
        self.task = pick.choice(("classes", "classes", "classes", "number"))
        self.blanks = pick.random() < 0.3
        self.quote = pick.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
        self.end = pick.choice(("\n", "\n", "\r\n", "\r"))
        self.filled = 0
        self.unlabelled = 0
        self.make_columns()
        self.lines = [list(row) for row in zip(*(values for _, values in self.columns))]
        self.special()

    def make_columns(self):
        pick = self.random
        count = pick.randint(2, 5)
        names = pick.sample(("temp", "vib", "rpm", "flow (l/min)", "°C", "p|q", "x;y", "a, b", "r2"), count)
        self.columns = [(name, self.measures()) for name in names]
        self.numbers = list(names)
        if pick.random() < 0.5:
            name, values = pick.choice((("ts", self.times()), ("", self.index()), ("site", self.texts()), ("fixed", ["3"] * self.rows),
                                        ("patient_id", self.ids())))
            self.columns.insert(pick.choice((0, 0, 1)), (name, values))
            if name == "patient_id" and not self.header:
                self.numbers.append(name)  # whole numbers, each once, which are warned of: no name tells that they are ids
        if self.task == "classes":
            self.classes = pick.choice(CLASSES)
            label = [self.classes[i % len(self.classes)] if i < 2 * len(self.classes) else pick.choice(self.classes)
                     for i in range(self.rows)]
        else:
            self.classes = ()
            label = [f"{pick.gauss(50, 10):.3f}" for _ in range(self.rows)]
        self.columns.append(("state", self.with_gaps(label, "unlabelled")))

    def with_gaps(self, values, counter):
        if not self.missing or self.random.random() < 0.5:
            return values
        # The first line says by itself whether it names the columns.
        for i in range(1, len(values)):
            if self.random.random() < 0.08:
                values[i] = self.random.choice(MISSING)
                setattr(self, counter, getattr(self, counter) + 1)
        return values

    def measures(self):
        digits = self.random.choice((0, 1, 3))
        scale = self.random.choice((1, 30, 3000))
        values = [f"{self.random.gauss(scale, scale / 2):{self.random.choice(('', '9'))}.{digits}f}" for _ in range(self.rows)]
        if len(set(values)) < 2:
            values[0] = "7.5"
        return self.with_gaps(values, "filled")

    def times(self):
        step = self.random.choice((-60, 1, 10, 3600))
        unit = self.random.choice((1, 1000, 1000000))
        values = [str((1700000000 + i // self.random.choice((1, 2)) * step) * unit) for i in range(self.rows)]
        if self.random.random() < 0.3:
            self.random.shuffle(values)
        return values

    def index(self):
        values = [str(i + self.rows % 2) for i in range(self.rows)]
        if self.random.random() < 0.5:
            self.random.shuffle(values)
        return values

    def texts(self):
        return [self.random.choice(("north", "south")) for _ in range(self.rows)]

    def ids(self):
        return [str(v) for v in self.random.sample(range(10000, 999999), self.rows)]

    def special(self):
        """One of what must be named, or read as nothing was there."""
        pick = self.random
        self.kind = pick.choice(("plain",) * 6 + ("repeat", "units", "empty", "semicolons", "latin", "ragged", "rownames", "commas",
                                                  "utf16", "sep", "title", "text", "target"))
        self.refused = None
        if self.kind in ("units", "repeat") and not self.header:
            self.kind = "plain"
        if self.kind == "latin":
            self.quote = csv.QUOTE_MINIMAL
        if self.kind == "target" and self.task == "classes":
            self.kind = "plain"

    def field(self, text):
        pad = self.random.choice
        quoted = self.quote == csv.QUOTE_ALL or any(c in text for c in ',"\n')
        text = '"' + text.replace('"', '""') + '"' if quoted else text
        return (pad(BLANKS) + text + pad(BLANKS)) if self.blanks else text

    def text(self):
        pick = self.random
        names = [name for name, _ in self.columns]
        lines = [list(row) for row in self.lines]
        at = pick.randint(5, len(lines) - 2)
        first = names.index(self.numbers[0])
        if self.kind == "text":
            lines[at][first] = pick.choice(("err", "<0.5", "1,5", "off"))
            self.refused = lines[at][first]
        if self.kind == "target":
            lines[at][-1] = pick.choice(("<0.5", "1,5", "over", "12 ms"))
            self.refused = lines[at][-1]
        if self.kind == "units":
            lines.insert(0, [pick.choice(("s", "m/s", "[-]")) for _ in names])
            if self.task == "classes":
                lines[0][-1] = pick.choice(("", "-", "class"))
        if self.kind == "repeat":
            lines.insert(at, names)
        if self.header:
            lines.insert(0, names)
        if self.kind == "empty":
            lines.insert(at, [""] * len(names))
            lines.append([])
        text = [",".join(map(self.field, line)) for line in lines]
        return self.damage(text, at)

    def damage(self, text, at):
        refused = {"semicolons": "semicolons", "ragged": f"line {at + 1} has {len(self.columns) + 1} fields", "utf16": "UTF-16",
                   "rownames": "row names", "commas": "end with a comma", "sep": "a hint for spreadsheets", "title": "a title",
                   "latin": "is not UTF-8 text"}
        if self.kind == "semicolons":
            text = [line.replace(".", "\0").replace(",", ";").replace("\0", ",") for line in text]
        if self.kind == "ragged":
            text[at] += ",7"
        if self.kind in ("rownames", "commas"):
            if not self.header:
                self.kind = "plain"
                return (self.end.join(text) + self.end).encode()
            text = text[:1] + [f'"{i}",{line}' if self.kind == "rownames" else line + "," for i, line in enumerate(text[1:])]
        if self.kind == "sep":
            text.insert(0, "sep=,")
        if self.kind == "title":
            text.insert(0, "Readings of March")
        if self.kind == "latin":
            text[at] = text[at].rstrip() + ("\xe4" if not text[at].rstrip().endswith('"') else ",\xe4")
        self.refused = refused.get(self.kind, self.refused)
        encoded = self.end.join(text) + self.end
        return encoded.encode({"latin": "latin-1", "utf16": "utf-16"}.get(self.kind, "utf-8"), "replace")


def init(folder, table):
    text = table.text()
    (folder / "t.csv").write_bytes(text)
    done = subprocess.run([BIN / "tern-aggregator", "init", "--data", "t.csv", "--json"], cwd=folder, capture_output=True, timeout=60,
                          check=False)
    assert done.returncode in (0, 1, 2), done
    return (json.loads(done.stdout)["data"] if done.returncode == 0 else None), done.stderr.decode()


def check(folder, *options):
    done = subprocess.run([BIN / "tern-client", "check", "--offline", "--json", *options], cwd=folder, capture_output=True, text=True,
                          timeout=60, check=False)
    found = {}
    for line in json.loads(done.stdout):
        found.setdefault((line["area"], line["health"]), []).append(line["finding"])
    return found


def compare(folder, table, made, error):
    """init's reading with what was meant, and check's with init's."""
    features = len(table.numbers)
    assert made["features"] == features, ("features", made, features)
    assert made["rows"] == table.rows, ("rows", made, table.rows)
    assert made["task"] == ("classification" if table.task == "classes" else "regression"), made
    assert made["classes"] == (len(table.classes) if table.task == "classes" else 0), (made, table.classes)
    assert ("header=no" in made["source"]) == (not table.header), made
    assert ("value" in error and "missing, the first" in error) == (table.filled > 0), (error, table.filled)
    if table.filled > 0:
        assert f"{table.filled} value" in error, (error, table.filled)
    assert ("(%d of %d rows)" % (table.unlabelled, table.rows) in error) == (table.unlabelled > 0), (error, table.unlabelled)
    found = check(folder, "--config", "client.ini", "--model", f"mlp:{features}-32-{len(table.classes)}" if table.classes
                  else f"mlp:{features}-32-1,loss=mse")
    problems = [line for (area, health), lines in found.items() if health == "problem" for line in lines]
    assert bool(problems) == (table.unlabelled > 0), (problems, table.unlabelled)
    if not problems:
        trained = int(found["data", "good"][0].split(" examples")[0].split()[-1])
        held = int(found["data", "good"][0].split(" held out")[0].split()[-1])
        assert trained + held == table.rows and f"of {features} values" in found["data", "good"][0], found


def try_table(seed):
    table = Table(seed)
    with tempfile.TemporaryDirectory(prefix="tern-tables-") as name:
        folder = pathlib.Path(name)
        made, error = init(folder, table)
        if table.refused is not None:
            assert made is None and table.refused in error, ("not refused", table.kind, table.refused, made, error)
            assert sorted(path.name for path in folder.iterdir()) == ["t.csv"], "something was left behind"
            found = check(folder, "--set", "data.source=csv:t.csv" + (",target=-1" if table.task == "number" else ""))
            assert any(table.refused in line for lines in found.values() for line in lines), ("check differs", table.refused, found)
        elif made is None:
            # A first line that can be read in two ways is asked about, and the answer is taken.
            assert "header=no or header=yes" in error, ("refused", error)
            return True
        else:
            compare(folder, table, made, error)
    return False


def tables_are_read_as_they_are_meant():
    only = os.environ.get("TERN_TABLES_SEED")
    asked = 0
    for seed in [int(only)] if only else range(TABLES):
        try:
            asked += try_table(seed)
        except AssertionError as error:
            raise AssertionError(f"TERN_TABLES_SEED={seed}: {error}") from error
    assert asked <= 1 + TABLES // 20, f"{asked} of {TABLES} first lines were asked about"


main(tables_are_read_as_they_are_meant)
