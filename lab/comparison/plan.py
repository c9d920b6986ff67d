"""Reads the [experiment] section of an experiment's file: which federations it plans."""
import math
import re
import sys

from comparison.settings import effective, is_override, section

MEASURES = ("trunk", "global", "clients", "both")
AXES = ("bytes", "time")
COLUMNS = ("accuracy", "averaged", "replicas", "scores", "points", "bits", "payload", "http", "tls",
           "wire", "total", "ratio", "reach", "rounds", "time", "speedup", "steps", "arrivals", "encode")
USUAL = ["accuracy", "points", "payload", "http", "tls", "wire", "reach", "encode"]
USUAL_OF_CELLS = ["accuracy", "points", "payload", "http", "tls", "wire", "ratio"]
DURATIONS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
REPEATING = ("run", "cell")
TAG = re.compile(r"tag=[a-z0-9_-]+")
BAR = r'\|(?=[^"]*(?:"[^"]*"[^"]*)*$)'  # outside double quotes, which a data source may have
WHAT_KEYS = "seeds, vary_partition, targets, groups, cell and run"
# Data sources that are read from a folder: the one in data.source, else data.dir.
FROM_FOLDER = ("idx", "cifar10")


class Run:
    """One federation but for its seed. group: the table that it stands in, the name of a cell or of
    lists; against: the label of the run of that table which it is held against, None = the first; tags: "tag=daily",
    of the run and its cell, for --only."""

    def __init__(self, label, group, overrides, against=None, cell=None, tags=()):
        self.label, self.group, self.overrides = label, group, overrides
        self.against, self.cell, self.tags = against, cell, tags

    @property
    def name(self):
        return self.label if self.cell is None else "%s: %s" % (self.cell, self.label)

    def is_meant(self, only):
        """Whether each text is part of its name or is one of its tags."""
        return all(text in self.tags if TAG.fullmatch(text) else text in self.name for text in only)

    def id(self, seed):
        return "%s.seed%s" % (re.sub(r"[^A-Za-z0-9.=]+", "-", self.name).strip("-"), seed)


class Plan:
    """Exits with a sentence when the section makes no sense. sets: overrides for all runs, and for the
    section itself (experiment.seeds=1; another experiment.run=... is one run more)."""

    def __init__(self, path, sets=()):
        self.path, self.seeds, self.targets = path, [], []
        self.candidates, self.cells = [], []
        self.lists, self.group_lists, self.columns = {}, [], None
        self.last = 1
        self.measure, self.axis, self.front, self.vary_partition = "trunk", "bytes", False, False
        self.bandwidths, self.reference, self.device_second = [10.0, 100.0, 1000.0], None, 1.0
        self.sets = [text for text in sets if not text.startswith("experiment.")]
        for where, key, value in self.entries(sets):
            self.take(where, key, value)
        self.columns = self.columns or (USUAL_OF_CELLS if self.cells else USUAL)
        self.check_cells()
        self.runs = self.all_runs()
        self.check()

    def entries(self, sets):
        """(where it stands, key, value): what --set says of the section takes the place of the file's,
        but for keys that may repeat."""
        said = [text.partition(".")[2].partition("=") for text in sets
                if text.startswith("experiment.")]
        replaced = {key.strip() for key, _, _ in said} - set(REPEATING)
        for number, key, value in section(self.path, "experiment"):
            if key not in replaced:
                yield "%s:%d" % (self.path, number), key, value
        for key, _, value in said:
            yield "--set experiment.%s" % key, key.strip(), value.strip()

    def check_cells(self):
        for key, given in (("groups", self.group_lists), ("reference", self.reference),
                           ("front", self.front)):
            if self.cells and given:
                sys.exit("%s: [experiment] has cells, each a table of its own, and with those "
                         "'%s' says nothing" % (self.path, key))

    def check(self):
        if not self.runs or not self.seeds:
            sys.exit("%s: [experiment] needs seeds and at least one run" % self.path)
        for name in self.group_lists:
            if name not in self.lists:
                sys.exit("%s: groups names '%s', which is no list" % (self.path, name))
        if self.reference is not None and self.reference not in [run.label for run in self.runs]:
            sys.exit("%s: reference names '%s', which is no run" % (self.path, self.reference))
        if self.last > 1 and "trunk" not in self.measures:
            sys.exit("%s: last says nothing with measure = %s, which is of the end of a run"
                     % (self.path, self.measure))
        ids = [run.id("") for run in self.runs]
        for run in self.runs:
            if ids.count(run.id("")) > 1:
                sys.exit("%s: two runs are called '%s', or nearly so" % (self.path, run.name))
            self.baseline(run)

    def take(self, where, key, value):
        readers = {"seeds": self.take_seeds, "last": self.take_last, "targets": self.take_numbers,
                   "bandwidths": self.take_numbers, "device_second": self.take_numbers,
                   "measure": self.take_words, "columns": self.take_words,
                   "axis": self.take_words, "front": self.take_words,
                   "vary_partition": self.take_words}
        parts = [part.strip() for part in re.split(BAR, value)]
        if key in readers:
            readers[key](where, key, value)
        elif key == "groups":
            self.group_lists = value.split()
        elif key == "reference":
            self.reference = value
        elif key == "run":
            self.candidates.append(self.run(where, parts))
        elif key == "cell":
            parts, tags = without_tags(parts)
            overrides, _ = self.expand(where, "cell", parts)
            self.cells.append((parts[0], overrides, tags))
        else:
            self.lists[key] = parts
            self.check_overrides(where, parts, "'%s' is none of %s, and as a list: "
                                 % (key, WHAT_KEYS))

    def take_seeds(self, where, _, value):
        self.seeds = value.split()
        if len(set(self.seeds)) < len(self.seeds) or not all(map(str.isdigit, self.seeds)):
            sys.exit("%s: seeds are different whole numbers, not '%s'" % (where, value))

    def take_last(self, where, _, value):
        if not re.fullmatch("[1-9][0-9]{0,5}", value):
            sys.exit("%s: last is a number of versions from 1, not '%s'" % (where, value))
        self.last = int(value)

    def take_numbers(self, where, key, value):
        what = {"targets": "accuracies such as 0.80", "bandwidths": "Mbit/s such as 10 100",
                "device_second": "seconds such as 60"}[key]
        try:
            numbers = [float(word) for word in value.split()]
        except ValueError:
            numbers = []
        sound = all(math.isfinite(number) and number > 0 for number in numbers)
        if not numbers or not sound or (key == "device_second" and len(numbers) > 1):
            sys.exit("%s: %s are %s, not '%s'" % (where, key, what, value))
        setattr(self, key, numbers[0] if key == "device_second" else numbers)

    def take_words(self, where, key, value):
        known = {"measure": MEASURES, "columns": COLUMNS, "axis": AXES}.get(key, ("yes", "no"))
        words = value.split()
        if not set(words) <= set(known) or not words or (key != "columns" and len(words) > 1):
            sys.exit("%s: %s is of %s, not '%s'" % (where, key, ", ".join(known), value))
        if key == "columns":
            value = words
        elif known == ("yes", "no"):
            value = value == "yes"
        setattr(self, key, value)

    def check_overrides(self, where, overrides, what=""):
        for override in overrides:
            if not is_override(override):
                sys.exit("%s: %s'%s' is not section.key=value" % (where, what, override))

    def expand(self, where, kind, parts):
        """Returns the overrides of a run or a cell with named lists expanded, and the names of these lists."""
        overrides, names = [], []
        if not parts[0] or "\t" in parts[0]:
            sys.exit("%s: a %s starts with its label: %s = LABEL | section.key=value"
                     % (where, kind, kind))
        for part in parts[1:]:
            if not part.startswith("@"):
                overrides.append(part)
                continue
            if part[1:] not in self.lists:
                sys.exit("%s: there is no list '%s' above this %s" % (where, part[1:], kind))
            overrides += self.lists[part[1:]]
            names.append(part[1:])
        self.check_overrides(where, overrides)
        return overrides, names

    def run(self, where, parts):
        parts, tags = without_tags(parts)
        against = [part for part in parts[1:] if re.match(r"against\s*=", part)]
        overrides, names = self.expand(where, "run",
                                       [part for part in parts if part not in against])
        group = " ".join(name for name in names if name in self.group_lists)
        return Run(parts[0], group, overrides,
                   against[-1].partition("=")[2].strip() if against else None, tags=tags)

    def all_runs(self):
        """Returns each run, or each run in each cell."""
        if not self.cells:
            return self.candidates
        return [Run(run.label, cell, overrides + run.overrides, run.against, cell, tags + run.tags)
                for cell, overrides, tags in self.cells for run in self.candidates]

    @property
    def measures(self):
        """Returns the measures; points, pictures and the front use the first."""
        return ("trunk", "global") if self.measure == "both" else (self.measure,)

    def groups(self):
        order = []
        for run in self.runs:
            if run.group not in order:
                order.append(run.group)
        return [(name, [run for run in self.runs if run.group == name]) for name in order]

    def baseline(self, run):
        """Returns the run that it is compared with."""
        beside = [other for other in self.runs if other.group == run.group]
        if run.against is None:
            return beside[0]
        for other in beside:
            if other.label == run.against:
                return other
        sys.exit("%s: the run '%s' is held against '%s', which is no run beside it"
                 % (self.path, run.name, run.against))

    def overrides_of_group(self, name):
        return [] if self.cells else [override for key in name.split()
                                      for override in self.lists[key]]

    def overrides(self, run, seed):
        """Returns all overrides of this run; those of the command line win."""
        partition = ["data.seed=" + seed] if self.vary_partition else []
        return run.overrides + ["federation.seed=" + seed] + partition + self.sets

    def settings(self, run, seed):
        return effective(self.path, self.overrides(run, seed))

    def setting(self, run, wanted, fallback):
        """Returns the value of section.key in a run."""
        return self.settings(run, self.seeds[0]).get(wanted, fallback)

    def lacks_folder(self, run):
        """Whether neither the file nor the command line names the folder of its data."""
        name = self.setting(run, "data.source", "").partition(",")[0]
        return name in FROM_FOLDER and not self.setting(run, "data.dir", "")


def without_tags(parts):
    """Returns the parts of a run or a cell, and its tags."""
    return [part for part in parts if not TAG.fullmatch(part)], [part for part in parts if TAG.fullmatch(part)]


def seconds(text):
    """Returns the seconds of a duration such as 90s or 500ms."""
    found = re.fullmatch(r"([0-9.]+)(ms|s|m|h|d)", text)
    return float(found.group(1)) * DURATIONS[found.group(2)] if found else 0.0
