"""The comparison of several federations that the [experiment] section of an experiment's file plans.

    compare.py plan CONFIG                      one line per run: id, label, seed, overrides (tabs)
    compare.py table CONFIG DIR [--json F] [--markdown F] [--svg F]
                                                from DIR/ID.json, the results of each run

The section:

    [experiment]
    seeds = 1 2
    targets = 0.8 0.84
    h1 = train.local_steps=1 | round.rounds=500        ; a named list of overrides
    groups = h1
    run = float32 | codec.codec=float32
    run = 3lc, H = 1 | @h1 | codec.codec=3lc:s=1

Runs with the same lists of `groups` are a table of their own, whose first run is what the others are
held against.
"""
import argparse
import json
import math
import os
import re
import statistics
import sys

COLOURS = ["#1b6ca8", "#c8553d"]


class Run:
    def __init__(self, label, group, overrides):
        self.label, self.group, self.overrides = label, group, overrides

    def id(self, seed):
        return "%s.seed%s" % (re.sub(r"[^A-Za-z0-9.=]+", "-", self.label).strip("-"), seed)


class Plan:
    """Reads the [experiment] section; exits with a sentence when it makes no sense."""

    def __init__(self, path):
        self.path, self.runs, self.seeds, self.targets = path, [], [], []
        self.lists, self.group_lists = {}, []
        for number, key, value in section(path, "experiment"):
            self.take(number, key, value)
        if not self.runs or not self.seeds:
            sys.exit("%s: [experiment] needs seeds and at least one run" % path)
        for name in self.group_lists:
            if name not in self.lists:
                sys.exit("%s: groups names '%s', which is no list" % (path, name))
        ids = [run.id("") for run in self.runs]
        for run in self.runs:
            if ids.count(run.id("")) > 1:
                sys.exit("%s: two runs are called '%s', or nearly so" % (path, run.label))

    def wrong(self, number, sentence):
        sys.exit("%s:%d: %s" % (self.path, number, sentence))

    def take(self, number, key, value):
        if key == "seeds":
            self.seeds = value.split()
            if len(set(self.seeds)) < len(self.seeds) or not all(map(str.isdigit, self.seeds)):
                self.wrong(number, "seeds are different whole numbers, not '%s'" % value)
        elif key == "targets":
            try:
                self.targets = [float(word) for word in value.split()]
            except ValueError:
                self.wrong(number, "targets are accuracies such as 0.80, not '%s'" % value)
        elif key == "groups":
            self.group_lists = value.split()
        elif key == "run":
            self.runs.append(self.run(number, [part.strip() for part in value.split("|")]))
        else:
            self.lists[key] = [part.strip() for part in value.split("|")]
            self.check_overrides(number, self.lists[key],
                                 "'%s' is none of seeds, targets, groups and run, and as a list: "
                                 % key)

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


def section(path, wanted):
    """(line number, key, value) of one section of an INI file; keys may repeat."""
    inside = False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if line.startswith("["):
                inside = line == "[%s]" % wanted
            elif inside and line and line[0] not in ";#":
                key, equals, value = line.partition("=")
                if not equals:
                    sys.exit("%s:%d: '%s' is not key = value" % (path, number, line))
                yield number, key.strip(), value.strip()


# --- Results


def bytes_to_reach(result, target):
    """Wire bytes per client of the fleet, both ways, until the accuracy is first reached."""
    spent = 0.0
    for accuracy, up, down in zip(result["accuracy"], result["round_wire_up"],
                                  result["round_wire_down"]):
        spent += (up + down) / result["clients"]
        if accuracy is not None and accuracy >= target:
            return spent
    return None


def mean_or_none(values):
    return None if None in values else statistics.fmean(values)


def summarise(plan, run, results, baseline):
    """One row of the table: means over the seeds."""
    accuracies = [result["final_accuracy"] for result in results]
    gaps = [100 * (mine["final_accuracy"] - theirs["final_accuracy"])
            for mine, theirs in zip(results, baseline)]
    row = {"label": run.label, "group": run.group, "overrides": run.overrides,
           "codec": results[0]["codec"], "seeds": len(results),
           "accuracy": statistics.fmean(accuracies),
           "accuracy_least": min(accuracies), "accuracy_most": max(accuracies),
           "points_to_float32": statistics.fmean(gaps)}
    for key in ("payload_up", "payload_down", "wire_up", "wire_down", "encode_ms"):
        row[key] = statistics.fmean(result[key] for result in results)
    row["total_wire"] = statistics.fmean(
        sum(result["round_wire_up"] + result["round_wire_down"]) / result["clients"]
        for result in results)
    row["to_reach"] = {"%g" % target: mean_or_none(
        [bytes_to_reach(result, target) for result in results]) for target in plan.targets}
    return row


def read_result(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        sys.exit("%s is damaged (%s); remove it to run it again" % (path, error))


def load(plan, directory):
    """The rows of every group whose runs are all there, and the names of runs that are not."""
    groups, missing = [], []
    for name, runs in plan.groups():
        rows, baseline = [], None
        for run in runs:
            files = [os.path.join(directory, run.id(seed) + ".json") for seed in plan.seeds]
            absent = [path for path in files if not os.path.exists(path)]
            if absent or (baseline is None and rows):
                missing.append(run.label)
                continue
            results = [read_result(path) for path in files]
            baseline = baseline or results
            rows.append(summarise(plan, run, results, baseline))
        if rows:
            groups.append((name, rows))
    return groups, missing


# --- Text


def size(value):
    if value is None:
        return "-"
    for unit, scale in (("MB", 1e6), ("KB", 1e3)):
        if value >= scale:
            return "%.*f %s" % (2 if value < 10 * scale else 1 if value < 100 * scale else 0,
                                value / scale, unit)
    return "%.0f B" % value


def columns(plan):
    return (["run", "accuracy", "points", "payload up", "payload down", "wire up", "wire down"]
            + ["bytes to %g" % target for target in plan.targets] + ["encode"])


def cells(plan, row):
    return ([row["label"], "%.4f" % row["accuracy"], "%+.2f" % row["points_to_float32"]]
            + [size(row[key]) for key in ("payload_up", "payload_down", "wire_up", "wire_down")]
            + [size(row["to_reach"]["%g" % target]) for target in plan.targets]
            + ["%.2f ms" % row["encode_ms"]])


def text_table(plan, groups):
    lines = []
    for name, rows in groups:
        table = [columns(plan)] + [cells(plan, row) for row in rows]
        widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
        lines.append("")
        if name:
            lines.append("with " + ", ".join(
                override for key in name.split() for override in plan.lists[key]))
        for line in table:
            lines.append("  ".join([line[0].ljust(widths[0])]
                                   + [cell.rjust(width) for cell, width in
                                      zip(line[1:], widths[1:])]))
    return "\n".join(lines)


def markdown_table(plan, groups):
    lines = []
    for name, rows in groups:
        head = columns(plan)
        if name:
            lines += ["With %s:" % ", ".join(
                "`%s`" % override for key in name.split() for override in plan.lists[key]), ""]
        lines += ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
        lines += ["| " + " | ".join(cells(plan, row)) + " |" for row in rows] + [""]
    return "\n".join(lines)


# --- Picture


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Panel:
    """One group: accuracy against wire bytes per client, which are on a logarithmic axis."""
    LEFT, TOP, WIDTH, HEIGHT, LEGEND = 64, 40, 560, 420, 330

    def __init__(self, rows, top):
        self.rows, self.top = rows, top
        totals = [row["total_wire"] for row in rows]
        self.low = math.floor(math.log10(min(totals)) * 4) / 4
        self.high = math.ceil(math.log10(max(totals)) * 4) / 4 + 0.01
        best = max(row["accuracy"] for row in rows)
        self.most = math.ceil(best * 100 + 0.2) / 100
        worst = min(row["accuracy"] for row in rows)
        self.least = max(math.floor(worst * 50) / 50, self.most - 0.16)

    def x(self, value):
        return self.LEFT + self.WIDTH * (math.log10(value) - self.low) / (self.high - self.low)

    def y(self, accuracy):
        share = (max(accuracy, self.least) - self.least) / (self.most - self.least)
        return self.top + self.TOP + self.HEIGHT * (1 - share)

    def axes(self):
        parts = []
        for decade in range(math.floor(self.low), math.ceil(self.high) + 1):
            for factor in (1, 2, 5):
                value = factor * 10 ** decade
                if self.low <= math.log10(value) <= self.high:
                    parts.append(line(self.x(value), self.top + self.TOP, self.x(value),
                                      self.top + self.TOP + self.HEIGHT, "#e4e4e4"))
                    parts.append(label(self.x(value), self.top + self.TOP + self.HEIGHT + 16,
                                       size(value), "middle"))
        step = 0.01 if self.most - self.least <= 0.1 else 0.02
        for i in range(math.ceil(self.least / step), math.floor(self.most / step) + 1):
            parts.append(line(self.LEFT, self.y(i * step), self.LEFT + self.WIDTH,
                              self.y(i * step), "#e4e4e4"))
            parts.append(label(self.LEFT - 8, self.y(i * step) + 4, "%.2f" % (i * step), "end"))
        return parts

    def draw(self, subtitle):
        parts = [label(self.LEFT, self.top + 16, "Accuracy against wire bytes per client over the "
                       "whole run, both directions", "start", "bold"),
                 label(self.LEFT, self.top + 31, subtitle + "pale: below the axis", "start")]
        parts += self.axes()
        for number, row in enumerate(self.rows, 1):
            colour = COLOURS[number == 1]
            below = row["accuracy"] < self.least
            x, y = self.x(row["total_wire"]), self.y(row["accuracy"])
            parts.append('<circle cx="%.1f" cy="%.1f" r="4" fill="%s" fill-opacity="%s"/>'
                         % (x, y, colour, "0.3" if below else "0.9"))
            parts.append(label(x + 6, y - 5 + (number % 3) * 4, str(number), "start"))
            parts.append(label(self.LEFT + self.WIDTH + 20, self.top + self.TOP + 6 + 15 * number,
                               "%d  %s  (%.4f, %s)" % (number, row["label"], row["accuracy"],
                                                       size(row["total_wire"])), "start"))
        return parts


def line(x1, y1, x2, y2, colour):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>' % (x1, y1, x2, y2, colour)


def label(x, y, text, anchor, weight="normal"):
    return ('<text x="%.1f" y="%.1f" text-anchor="%s" font-weight="%s">%s</text>'
            % (x, y, anchor, weight, escape(text)))


def picture(plan, groups):
    parts, top = [], 0
    for name, rows in groups:
        panel = Panel(rows, top)
        overrides = [override for key in name.split() for override in plan.lists[key]]
        parts += panel.draw("".join(override + "; " for override in overrides))
        top += Panel.TOP + max(Panel.HEIGHT, 15 * len(rows)) + 60
    width = Panel.LEFT + Panel.WIDTH + Panel.LEGEND + 60
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
            'font-family="sans-serif" font-size="11">\n<rect width="100%%" height="100%%" '
            'fill="white"/>\n%s\n</svg>\n' % (width, top, "\n".join(parts)))


def write(path, text):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["plan", "table"])
    parser.add_argument("config")
    parser.add_argument("directory", nargs="?")
    for option in ("--json", "--markdown", "--svg"):
        parser.add_argument(option)
    options = parser.parse_args()
    plan = Plan(options.config)
    if options.verb == "plan":
        for run in plan.runs:
            for seed in plan.seeds:
                print("\t".join([run.id(seed), run.label, seed] + run.overrides))
        return
    groups, missing = load(plan, options.directory)
    print(text_table(plan, groups))
    if missing:
        print("\nnot run, or not with every seed: " + ", ".join(missing))
    write(options.json, json.dumps([row for _, rows in groups for row in rows], indent=1) + "\n")
    write(options.markdown, markdown_table(plan, groups))
    if groups:
        write(options.svg, picture(plan, groups))


if __name__ == "__main__":
    main()
