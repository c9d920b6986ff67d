"""A comparison as text and as markdown. Each of the plan's `columns` is one or more columns."""


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
    return "-" if value is None else form % value


def percent(value):
    return "-" if value is None else "%.0f %%" % (100 * value)


def bandwidth(mbit):
    return "%g Gbit/s" % (mbit / 1000) if mbit >= 1000 else "%g Mbit/s" % mbit


# Each: the headings for a plan, and the cells of a row beside the first of its group.

def accuracy_columns(plan):
    yield "accuracy", lambda row, first: "%.4f" % row["accuracy"]


def points_columns(plan):
    yield "points", lambda row, first: "%+.2f" % row["points_to_float32"]


def replicas_columns(plan):
    yield "global model", lambda row, first: number(row.get("global_accuracy"), "%.4f")
    yield "clients, mean", lambda row, first: number(row.get("clients_mean"), "%.4f")
    yield "clients, least", lambda row, first: number(row.get("clients_least"), "%.4f")


def bits_columns(plan):
    yield "bits/value up", lambda row, first: number(row.get("bits_up"), "%.3f")
    yield "bits/value down", lambda row, first: number(row.get("bits_down"), "%.3f")


def payload_columns(plan):
    yield "payload up", lambda row, first: size(row["payload_up"])
    yield "payload down", lambda row, first: size(row["payload_down"])


def wire_columns(plan):
    yield "wire up", lambda row, first: size(row["wire_up"])
    yield "wire down", lambda row, first: size(row["wire_down"])


def total_columns(plan):
    yield "bytes in all", lambda row, first: size(row["total_wire"])


def ratio_columns(plan):
    yield "fewer bytes", lambda row, first: "%.0fx" % row["times_fewer"]
    if plan.reference:
        yield "points to reference", lambda row, first: number(
            row.get("points_to_reference"), "%+.2f")
        yield "fewer than reference", lambda row, first: number(
            row.get("times_fewer_than_reference"), "%.0fx")


def by_target(plan, heading, key, form):
    for target in plan.targets:
        name = "%g" % target
        yield heading % name, lambda row, first, name=name: form(row.get(key, {}).get(name))


def reach_columns(plan):
    yield from by_target(plan, "bytes to %s", "to_reach", size)


def rounds_columns(plan):
    yield from by_target(plan, "rounds to %s", "rounds_to_reach",
                         lambda value: number(value, "%.0f"))


def time_columns(plan):
    yield from by_target(plan, "time to %s", "seconds_to_reach", duration)
    for mbit in plan.bandwidths:
        yield ("time at " + bandwidth(mbit), lambda row, first, name="%g" % mbit: duration(
            row.get("seconds", {}).get(name)))


def speedup_columns(plan):
    def speedup(row, first, name):
        mine, other = (each.get("seconds", {}).get(name) for each in (row, first))
        return "-" if not mine or not other else "%.2fx" % (other / mine)
    for mbit in plan.bandwidths:
        yield ("faster at " + bandwidth(mbit),
               lambda row, first, name="%g" % mbit: speedup(row, first, name))


def steps_columns(plan):
    yield "steps", lambda row, first: number(row.get("steps"), "%.1f")


def mean_and_worst(heading, key, form):
    return heading, lambda row, first: "%s / %s" % (form(row.get(key)), form(row.get(key + "_worst")))


def arrivals_columns(plan):
    for name in ("joined", "back"):
        yield mean_and_worst(name + ": down, mean / most", name + "_payload", size)
        if name == "back":
            yield mean_and_worst("back: of the chain, mean / most", "back_chain_share", percent)
        for other, key in (("trunk", "_to_trunk"), ("global model", "_to_global")):
            yield mean_and_worst("%s: points to the %s, mean / worst" % (name, other), name + key,
                                 lambda value: number(value, "%+.2f"))


def encode_columns(plan):
    yield "encode", lambda row, first: "%.2f ms" % row["encode_ms"]


MAKERS = {name[:-len("_columns")]: maker for name, maker in list(globals().items())
          if name.endswith("_columns")}


def table_of(plan, rows, first):
    """The heading and a line for each row."""
    chosen = [column for name in plan.columns for column in MAKERS[name](plan)]
    return ([["run"] + [heading for heading, _ in chosen]]
            + [[row["label"]] + [cell(row, first) for _, cell in chosen] for row in rows])


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


def sections(plan, groups):
    """(heading or None, table) of each part."""
    for name, rows in groups:
        yield plan.overrides_of_group(name), table_of(plan, rows, rows[0])
    if plan.front and groups:
        yield None, table_of(plan, front_of(groups), groups[0][1][0])


def text_table(plan, groups):
    lines = []
    for overrides, table in sections(plan, groups):
        lines.append("")
        if overrides is None:
            lines.append("the Pareto front: no other run has both fewer bytes and more accuracy")
        elif overrides:
            lines.append("with " + ", ".join(overrides))
        lines += text_lines(table)
    return "\n".join(lines)


def markdown_table(plan, groups):
    lines = []
    for overrides, table in sections(plan, groups):
        if overrides is None:
            lines += ["The Pareto front; no other run has both fewer bytes and more accuracy:", ""]
        elif overrides:
            lines += ["With %s:" % ", ".join("`%s`" % override for override in overrides), ""]
        lines += markdown_lines(table) + [""]
    return "\n".join(lines)
