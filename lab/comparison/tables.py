"""A comparison as text and as markdown. Each of the plan's `columns` is one or more columns. A figure that is not
known is a dash."""
import re

from comparison.scores import TITLES

# The model whose figure a measure is.
MODELS = {"trunk": "replica", "global": "global", "clients": "clients' replicas"}


def size(value):
    if value is None:
        return "-"
    for unit, scale in (("MB", 1e6), ("KB", 1e3)):
        if value >= scale:
            return "%.*f %s" % (2 if value < 10 * scale else 1 if value < 100 * scale else 0,
                                value / scale, unit)
    return "%.0f B" % value


def duration(value):
    if value is None:
        return "-"
    for unit, scale in (("h", 3600), ("min", 60)):
        if value >= scale:
            return "%.1f %s" % (value / scale, unit)
    return "%.1f s" % value


def number(value, form):
    """Formats a known value; a value that rounds to 0 has no minus sign."""
    return "-" if value is None else re.sub(r"^-(?=[0.]+$)", "+" if "+" in form else "", form % value)


def times(value):
    return "-" if value is None else "%.*fx" % (0 if value >= 9.95 else 1, value)


def percent(value):
    return "-" if value is None else "%.0f %%" % (100 * value)


def with_spread(value, spread, form):
    """"+0.04 ± 0.12": a mean and the standard deviation over the seeds, where there are several."""
    mean = number(value, form)
    return mean if spread is None else "%s ± %s" % (mean, form.replace("+", "") % spread)


def bandwidth(mbit):
    return "%g Gbit/s" % (mbit / 1000) if mbit >= 1000 else "%g Mbit/s" % mbit


# For each column: a function that returns its headings for a plan, and one that returns a row's cell.

def score_cell(row, measure):
    """A figure other than the accuracy is named in the cell: "R2 0.9012"."""
    figures = row["measures"][measure]
    text = with_spread(figures["mean"], figures["spread"], "%.4f")
    return text if row["score"] == "accuracy" or text == "-" else "%s %s" % (TITLES[row["score"]], text)


def accuracy_columns(plan):
    for measure in plan.measures:
        yield ("accuracy (%s)" % MODELS[measure],
               lambda row, measure=measure: score_cell(row, measure))
    if plan.measure == "both":
        yield "global - replica", lambda row: number(row["gap"], "%+.2f")


def averaged_columns(plan):
    yield "averaged model", lambda row: number(row.get("averaged_accuracy"), "%.4f")


def points_cell(row, measure):
    figures = row["measures"][measure]
    return with_spread(figures["points_mean"], figures["points_spread"], "%+.2f")


def points_columns(plan):
    for measure in plan.measures:
        yield ("points (%s)" % MODELS[measure] if plan.measure == "both" else "points",
               lambda row, measure=measure: points_cell(row, measure))


def replicas_columns(plan):
    yield "global model", lambda row: number(row.get("global_accuracy"), "%.4f")
    yield "clients, mean", lambda row: number(row.get("clients_mean"), "%.4f")
    yield "clients, least", lambda row: number(row.get("clients_least"), "%.4f")


def scores_columns(plan):
    for heading, key in (("macro F1", "macro_f1"), ("least of a class", "class_least"),
                         ("least of a client", "client_least")):
        yield heading, lambda row, key=key: number(row.get(key), "%.4f")


def bits_columns(plan):
    yield "bits/value up", lambda row: number(row.get("bits_up"), "%.3f")
    yield "bits/value down", lambda row: number(row.get("bits_down"), "%.3f")


def payload_columns(plan):
    yield "payload up", lambda row: size(row["payload_up"])
    yield "payload down", lambda row: size(row["payload_down"])


def http_columns(plan):
    yield "HTTP up", lambda row: size(row["http_up"])
    yield "HTTP down", lambda row: size(row["http_down"])


def tls_columns(plan):
    yield "TLS up", lambda row: size(row["tls_up"])
    yield "TLS down", lambda row: size(row["tls_down"])


def wire_columns(plan):
    yield "wire up", lambda row: size(row["wire_up"])
    yield "wire down", lambda row: size(row["wire_down"])


def total_columns(plan):
    yield "bytes in all", lambda row: size(row["total_wire"])


def ratio_columns(plan):
    yield "fewer bytes", lambda row: times(row["times_fewer"])
    if plan.reference:
        yield "points to reference", lambda row: number(
            row.get("points_to_reference"), "%+.2f")
        yield "fewer than reference", lambda row: number(
            row.get("times_fewer_than_reference"), "%.0fx")


def by_target(plan, heading, key, form):
    for target in plan.targets:
        name = "%g" % target
        yield heading % name, lambda row, name=name: form(row.get(key, {}).get(name))


def reach_columns(plan):
    yield from by_target(plan, "bytes to %s", "to_reach", size)


def rounds_columns(plan):
    yield from by_target(plan, "rounds to %s", "rounds_to_reach",
                         lambda value: number(value, "%.0f"))


def time_columns(plan):
    yield from by_target(plan, "time to %s", "seconds_to_reach", duration)
    for mbit in plan.bandwidths:
        yield ("time at " + bandwidth(mbit), lambda row, name="%g" % mbit: duration(
            row.get("seconds", {}).get(name)))


def speedup_columns(plan):
    for mbit in plan.bandwidths:
        yield ("faster at " + bandwidth(mbit), lambda row, name="%g" % mbit: number(
            row["times_faster"].get(name), "%.2fx"))


def steps_columns(plan):
    yield "local steps", lambda row: number(row.get("steps"), "%.1f")


def mean_and_worst(heading, key, form):
    return heading, lambda row: "%s / %s" % (form(row.get(key)), form(row.get(key + "_worst")))


def arrivals_columns(plan):
    for name in ("joined", "back"):
        yield mean_and_worst(name + ": down, mean / most", name + "_payload", size)
        if name == "back":
            yield mean_and_worst("back: of the chain, mean / most", "back_chain_share", percent)
        for other, key in (("trunk", "_to_trunk"), ("global model", "_to_global")):
            yield mean_and_worst("%s: points to the %s, mean / worst" % (name, other), name + key,
                                 lambda value: number(value, "%+.2f"))


def encode_columns(plan):
    yield "encode", lambda row: number(row["encode_ms"], "%.2f ms")


MAKERS = {name[:-len("_columns")]: maker for name, maker in list(globals().items())
          if name.endswith("_columns")}


def columns_of(plan, groups):
    """The plan's, and the local steps where these differ in a table: equal rounds are then not equal work."""
    differ = any(len({number(row.get("steps"), "%.1f") for row in rows}) > 1 for _, rows in groups)
    return plan.columns + (["steps"] if differ and "steps" not in plan.columns else [])


def table_of(plan, rows, name="label", heading="run", columns=None):
    """The heading and a line for each row, which starts with what it is called."""
    chosen = [column for key in columns or plan.columns for column in MAKERS[key](plan)]
    return ([[heading] + [title for title, _ in chosen]]
            + [[row[name]] + [cell(row) for _, cell in chosen] for row in rows])


def text_lines(table):
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    return ["  ".join([line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in
                                                    zip(line[1:], widths[1:])]) for line in table]


def markdown_lines(table):
    head = table[0]
    return (["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
            + ["| " + " | ".join(line) + " |" for line in table[1:]])


def front_of(groups):
    """The rows that no other beats, cheapest first."""
    rows = [row for _, group in groups for row in group if row["on_front"]]
    return sorted(rows, key=lambda row: row["total_wire"])


# --- Tables of a plan with cells


def by_candidate(groups):
    """(candidate, its rows, one for each cell)."""
    rows_of = {}
    for _, rows in groups:
        for row in rows:
            rows_of.setdefault(row["label"], []).append(row)
    return rows_of.items()


def matrix(summary, groups, cell):
    """A line for each cell, a column for each candidate, by its number in the summary."""
    table = [["cell"] + ["[%d]" % place for place in range(1, len(summary) + 1)]]
    for name, rows in groups:
        of = {row["label"]: row for row in rows}
        table.append([name] + [cell(of[each["label"]]) if each["label"] in of else "-"
                               for each in summary])
    return table


def summary_columns(plan):
    """Heading and cell of each column behind the candidate's name."""
    yield "cells", lambda each: str(each["cells"])
    for measure in plan.measures:
        of = " (%s)" % MODELS[measure] if plan.measure == "both" else ""

        def told(each, key, form, measure=measure):
            return number(each["measures"].get(measure, {}).get(key), form)
        yield "points, mean" + of, lambda each, told=told: told(each, "points", "%+.2f")
        yield "worst" + of, lambda each, told=told: told(each, "worst", "%+.2f")
        yield "in the cell" + of, lambda each, told=told: told(each, "cell", "%s")
    if plan.measure == "both":
        yield "widest global - replica", lambda each: number(each["gap"], "%+.2f")
        yield "in the cell (gap)", lambda each: number(each["gap_cell"], "%s")
    yield "± over seeds", lambda each: number(each["points_spread"], "%.2f")
    yield "payload up", lambda each: size(each["payload_up"])
    yield "payload down", lambda each: size(each["payload_down"])
    yield "fewer payload bytes", lambda each: times(each["times_fewer_payload"])
    yield "fewer wire bytes", lambda each: times(each["times_fewer"])


def summary_table(plan, summary):
    columns = list(summary_columns(plan))
    return [["run"] + [heading for heading, _ in columns]] + [
        ["[%d] %s" % (place, each["label"])] + [cell(each) for _, cell in columns]
        for place, each in enumerate(summary, 1)]


def sections_of_cells(plan, groups, summary):
    columns = columns_of(plan, groups)
    for label, rows in by_candidate(groups):
        yield label, table_of(plan, rows, "cell", "cell", columns)
    if not summary:  # nothing stands beside what it is held against
        return
    for measure in plan.measures:
        yield ("Points against float32 or what a run is held against%s"
               % (", " + MODELS[measure] if plan.measure == "both" else "")), matrix(
            summary, groups, lambda row, measure=measure: points_cell(row, measure))
    if plan.measure == "both":
        yield "Points from the replica to the global model, at the end", matrix(
            summary, groups, lambda row: number(row["gap"], "%+.2f"))
    yield "Payload per client and round, up + down", matrix(
        summary, groups, lambda row: size(row["payload_up"] + row["payload_down"]))
    yield "Over the cells", summary_table(plan, summary)


# --- The complete text


def code(word, quote):
    return quote + word + quote


def sections(plan, groups, summary, quote):
    """(title or "", table) of each part."""
    if plan.cells:
        yield from sections_of_cells(plan, groups, summary)
        return
    columns = columns_of(plan, groups)
    for name, rows in groups:
        overrides = ", ".join(code(override, quote) for override in plan.overrides_of_group(name))
        yield "with " + overrides if overrides else "", table_of(plan, rows, columns=columns)
    if plan.front and groups:
        yield ("the Pareto front: no other run has both fewer bytes and more accuracy",
               table_of(plan, front_of(groups), columns=columns))


def text_table(plan, groups, summary=()):
    lines = []
    for title, table in sections(plan, groups, summary, ""):
        lines += [""] + ([title] if title else []) + text_lines(table)
    return "\n".join(lines)


def markdown_table(plan, groups, summary=()):
    lines = []
    for title, table in sections(plan, groups, summary, "`"):
        lines += [title[0].upper() + title[1:] + ":", ""] if title else []
        lines += markdown_lines(table) + [""]
    return "\n".join(lines)
