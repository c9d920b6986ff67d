"""Reads the [experiment] section of an experiment's file."""
import math
import re
import sys

MEASURES = ("trunk", "global", "clients")
AXES = ("bytes", "time")
COLUMNS = ("accuracy", "replicas", "points", "bits", "payload", "wire", "total", "ratio", "reach",
           "rounds", "time", "speedup", "steps", "arrivals", "encode")
TODAY = ["accuracy", "points", "payload", "wire", "reach", "encode"]
DURATIONS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Run:
    def __init__(self, label, group, overrides):
        self.label, self.group, self.overrides = label, group, overrides

    def id(self, seed):
        return "%s.seed%s" % (re.sub(r"[^A-Za-z0-9.=]+", "-", self.label).strip("-"), seed)


class Plan:
    """Exits with a sentence when the section makes no sense."""

    def __init__(self, path):
        self.path, self.runs, self.seeds, self.targets = path, [], [], []
        self.lists, self.group_lists = {}, []
        self.measure, self.columns, self.axis, self.front = "trunk", TODAY, "bytes", False
        self.bandwidths, self.reference, self.device_second = [10.0, 100.0, 1000.0], None, 1.0
        for number, key, value in section(path, "experiment"):
            self.take(number, key, value)
        self.check()

    def check(self):
        if not self.runs or not self.seeds:
            sys.exit("%s: [experiment] needs seeds and at least one run" % self.path)
        for name in self.group_lists:
            if name not in self.lists:
                sys.exit("%s: groups names '%s', which is no list" % (self.path, name))
        labels = [run.label for run in self.runs]
        if self.reference is not None and self.reference not in labels:
            sys.exit("%s: reference names '%s', which is no run" % (self.path, self.reference))
        ids = [run.id("") for run in self.runs]
        for run in self.runs:
            if ids.count(run.id("")) > 1:
                sys.exit("%s: two runs are called '%s', or nearly so" % (self.path, run.label))

    def wrong(self, number, sentence):
        sys.exit("%s:%d: %s" % (self.path, number, sentence))

    def take(self, number, key, value):
        readers = {"seeds": self.take_seeds, "targets": self.take_numbers,
                   "bandwidths": self.take_numbers, "device_second": self.take_numbers,
                   "measure": self.take_words, "columns": self.take_words,
                   "axis": self.take_words, "front": self.take_words}
        if key in readers:
            readers[key](number, key, value)
        elif key == "groups":
            self.group_lists = value.split()
        elif key == "reference":
            self.reference = value
        elif key == "run":
            self.runs.append(self.run(number, [part.strip() for part in value.split("|")]))
        else:
            self.lists[key] = [part.strip() for part in value.split("|")]
            self.check_overrides(number, self.lists[key],
                                 "'%s' is none of seeds, targets, groups and run, and as a list: "
                                 % key)

    def take_seeds(self, number, _, value):
        self.seeds = value.split()
        if len(set(self.seeds)) < len(self.seeds) or not all(map(str.isdigit, self.seeds)):
            self.wrong(number, "seeds are different whole numbers, not '%s'" % value)

    def take_numbers(self, number, key, value):
        what = {"targets": "accuracies such as 0.80", "bandwidths": "Mbit/s such as 10 100",
                "device_second": "seconds such as 60"}[key]
        try:
            numbers = [float(word) for word in value.split()]
        except ValueError:
            numbers = []
        sound = all(math.isfinite(number) and number > 0 for number in numbers)
        if not numbers or not sound or (key == "device_second" and len(numbers) > 1):
            self.wrong(number, "%s are %s, not '%s'" % (key, what, value))
        setattr(self, key, numbers[0] if key == "device_second" else numbers)

    def take_words(self, number, key, value):
        known = {"measure": MEASURES, "columns": COLUMNS, "axis": AXES, "front": ("yes", "no")}[key]
        words = value.split()
        if not set(words) <= set(known) or not words or (key != "columns" and len(words) > 1):
            self.wrong(number, "%s is of %s, not '%s'" % (key, ", ".join(known), value))
        setattr(self, key, {"columns": words, "front": value == "yes"}.get(key, value))

    def check_overrides(self, number, overrides, where=""):
        for override in overrides:
            if not re.fullmatch(r"[a-z_]+\.[a-z_0-9]+=[^\t]*", override):
                self.wrong(number, "%s'%s' is not section.key=value" % (where, override))

    def run(self, number, parts):
        overrides, group = [], []
        for part in parts[1:]:
            if part.startswith("@"):
                if part[1:] not in self.lists:
                    self.wrong(number, "there is no list '%s' above this run" % part[1:])
                overrides += self.lists[part[1:]]
                group += [part[1:]] if part[1:] in self.group_lists else []
            else:
                overrides.append(part)
        self.check_overrides(number, overrides)
        if not parts[0] or "\t" in parts[0]:
            self.wrong(number, "a run starts with its label: run = LABEL | section.key=value")
        return Run(parts[0], " ".join(group), overrides)

    def groups(self):
        order = []
        for run in self.runs:
            if run.group not in order:
                order.append(run.group)
        return [(name, [run for run in self.runs if run.group == name]) for name in order]

    def overrides_of_group(self, name):
        return [override for key in name.split() for override in self.lists[key]]

    def setting(self, run, wanted, fallback):
        """What section.key is in a run: the last word about it."""
        value = fallback
        where, _, name = wanted.partition(".")
        for _, key, text in section(self.path, where):
            value = text if key == name else value
        for override in run.overrides:
            key, _, text = override.partition("=")
            value = text if key == wanted else value
        return value


def seconds(text):
    """Of a duration such as 90s or 500ms."""
    found = re.fullmatch(r"([0-9.]+)(ms|s|m|h|d)", text)
    return float(found.group(1)) * DURATIONS[found.group(2)] if found else 0.0


def header(line):
    """The name of the section that starts here, as the programs read it; None for other lines."""
    line = line.strip()
    return line[1:].partition("]")[0] if line.startswith("[") else None


def lines(path):
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        yield from enumerate(file, 1)


def has_section(path, wanted):
    return any(header(line) == wanted for _, line in lines(path))


def section(path, wanted):
    """(line number, key, value) of one section of an INI file; keys may repeat."""
    inside = False
    for number, line in lines(path):
        line = line.strip()
        if header(line) is not None:
            inside = header(line) == wanted
        elif inside and line and line[0] not in ";#":
            key, equals, value = line.partition("=")
            if not equals:
                sys.exit("%s:%d: '%s' is not key = value" % (path, number, line))
            yield number, key.strip(), value.strip()
