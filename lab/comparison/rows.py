"""The rows of a comparison: means over the seeds of what the runs' results hold."""
import json
import statistics
import sys

from comparison import modelled, scores
from comparison.plan import seconds
from comparison.planned import Planned
from comparison.scores import points

CLIENT_BYTES = ("payload_up", "payload_down", "http_up", "http_down", "tls_up", "tls_down", "wire_up",
                "wire_down", "encode_ms")


def read_result(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        sys.exit("%s is damaged (%s); remove it to run it again" % (path, error))


def mean_or_none(values):
    values = list(values)
    return None if not values or None in values else statistics.fmean(values)


def ratio(one, other):
    """Returns a ratio; None: a value is unknown, or the divisor is 0."""
    return one / other if one is not None and other else None


# --- Figures of one run


def rounds_to_reach(result, target):
    """Returns the first measured version with this accuracy."""
    for version, accuracy in enumerate(scores.series(result), 1):
        if accuracy is not None and accuracy >= target:
            return version
    return None


def bytes_to_reach(result, target):
    """Returns the wire bytes per client, both directions, until this accuracy."""
    version = rounds_to_reach(result, target)
    if version is None:
        return None
    return total_wire(result, version)


def total_wire(result, until=None):
    spent = sum(result["round_wire_up"][:until]) + sum(result["round_wire_down"][:until])
    return spent / result["clients"]


def payload(result):
    """Returns the payload per client and round, both directions."""
    return result["payload_up"] + result["payload_down"]


def arrivals(result):
    """(joined, came back): lists of what each cost and is worth, beside the trunk's replica and beside
    the global model of the version at which it came."""
    joined, back = [], []
    names = ("version", "missed", "payload_down", "accuracy")
    rows = list(zip(*(result.get("arrival_" + name, []) for name in names)))
    of_global = result.get("arrival_global_accuracy", [None] * len(rows))
    trunks = scores.series(result)
    for (version, missed, payload, accuracy), newest in zip(rows, of_global):
        trunk = trunks[version - 1] if version > 0 else None
        chain = sum(result["round_trunk_down"][version - missed:version])
        (joined if missed == version else back).append({
            "payload": payload, "chain_share": payload / chain if chain > 0 else None,
            "to_trunk": points(accuracy, trunk), "to_global": points(accuracy, newest)})
    return joined, back


# --- Means of a run over its seeds


class Time:
    """Modelled seconds of a run, in total and until an accuracy."""

    def __init__(self, plan, run, results, step):
        self.rows = [modelled.participations(result) for result in results]
        self.results = results
        deadline = seconds(plan.setting(run, "round.deadline", "10m")) * plan.device_second
        self.waits = dict(expected=int(plan.setting(run, "round.cohort", "10")), deadline=deadline)
        self.devices = float(plan.setting(run, "fleet.speed", "0")) > 0
        self.device_second, self.step = plan.device_second, step

    def compute(self, rows):
        if self.devices:
            return modelled.device_compute(self.device_second)
        return modelled.measured_compute(self.step, modelled.codec_seconds(rows))

    def total(self, mbit, target=None):
        times = []
        for rows, result in zip(self.rows, self.results):
            until = None if target is None else rounds_to_reach(result, target)
            missed = target is not None and until is None
            times.append(None if missed else modelled.run_seconds(
                rows, mbit, self.compute(rows), until=until, **self.waits))
        return mean_or_none(times)


def mean_and_worst(arrived, key, worst):
    values = [each[key] for each in arrived if each[key] is not None]
    return (statistics.fmean(values), worst(values)) if values else (None, None)


def arrival_row(results):
    """Returns means over the arrivals of all seeds, and the worst one, which a guarantee must cover."""
    joined, back = [], []
    for result in results:
        one, other = arrivals(result)
        joined += one
        back += other
    row = {}
    for name, arrived in (("joined", joined), ("back", back)):
        for key, worst in (("payload", max), ("chain_share", max), ("to_trunk", min),
                           ("to_global", min)):
            row["%s_%s" % (name, key)], row["%s_%s_worst" % (name, key)] = mean_and_worst(
                arrived, key, worst)
    return row


def spread(values):
    """The sample's standard deviation; None of one value, and where one is not known."""
    return statistics.stdev(values) if len(values) > 1 and None not in values else None


def by_measure(measure, last, results, baseline):
    """The figures of a measure: of each seed, their mean, and points against the baseline's run of the same seed.
    A loss has no points, nor have figures of two kinds."""
    kinds = {scores.name_of(result) for result in results + (baseline or [])}
    comparable = baseline is not None and len(kinds) == 1 and kinds != {"loss"}
    values = [scores.measured(result, measure, last) for result in results]
    gaps = [points(mine, scores.measured(other, measure, last)) for mine, other in zip(
        values, baseline)] if comparable else None
    if gaps is not None and None in gaps:
        gaps = None
    return {"values": values, "mean": mean_or_none(values), "spread": spread(values),
            "points": gaps, "points_mean": gaps and statistics.fmean(gaps),
            "points_spread": None if baseline == results or gaps is None else spread(gaps),
            "lacking": sorted({scores.lacking(result, measure) for result, value in zip(results, values)
                               if value is None})}


def summarise(plan, run, results, baseline, step):
    """One row of the table: means over the seeds, and how far these lie apart. baseline: None while what it
    is held against has not run. A figure that a result lacks is None."""
    figures = {measure: by_measure(measure, plan.last, results, baseline) for measure in plan.measures}
    first = figures[plan.measures[0]]
    known = [value for value in first["values"] if value is not None]
    row = {"label": run.label, "group": run.group, "cell": run.cell,
           "against": plan.baseline(run).label, "overrides": run.overrides,
           "codec": results[0].get("codec"), "seeds": len(results),
           "score": scores.name_of(results[0]), "measures": figures, "baseline_ran": baseline is not None,
           "accuracy": first["mean"], "accuracies": first["values"], "accuracy_spread": first["spread"],
           "accuracy_least": min(known, default=None), "accuracy_most": max(known, default=None),
           "points_to_float32": first["points_mean"], "points": first["points"],
           "points_spread": first["points_spread"],
           "gap": mean_or_none(scores.gap(result) for result in results)}
    for key in CLIENT_BYTES:
        row[key] = mean_or_none(result.get(key) for result in results)
    row["total_wire"] = statistics.fmean(total_wire(result) for result in results)
    row["times_fewer_payload"] = baseline and ratio(
        statistics.fmean(payload(result) for result in baseline), row["payload_up"] + row["payload_down"])
    row["to_reach"] = {"%g" % target: mean_or_none(
        [bytes_to_reach(result, target) for result in results]) for target in plan.targets}
    row["rounds_to_reach"] = {"%g" % target: mean_or_none(
        [rounds_to_reach(result, target) for result in results]) for target in plan.targets}
    add_scores(results, row)
    add_measured(plan, run, results, step, row)
    return row


def least(values):
    """Returns the smallest known value."""
    return min((value for value in values or [] if value is not None), default=None)


def add_scores(results, row):
    """Adds the global model's F1, the recall of its worst class, and its accuracy at its worst client."""
    row["macro_f1"] = mean_or_none([result.get("macro_f1") for result in results])
    for name in ("class", "client"):
        row[name + "_least"] = mean_or_none([least(result.get(name + "_accuracy"))
                                             for result in results])


def add_measured(plan, run, results, step, row):
    """What only results with records have."""
    if step is None:
        return
    time = Time(plan, run, results, step)
    row["global_accuracy"] = mean_or_none([scores.of_global(result) for result in results])
    row["averaged_accuracy"] = mean_or_none([result.get("averaged_accuracy") for result in results])
    replicas = [scores.of_replicas(result) for result in results]
    row["clients_mean"] = mean_or_none([statistics.fmean(each) if each else None
                                        for each in replicas])
    row["clients_least"] = min((min(each) for each in replicas if each), default=None)
    row["bits_up"] = statistics.fmean(
        8 * result["payload_up"] / result["values"] for result in results)
    row["bits_down"] = statistics.fmean(
        8 * result["payload_down"] / result["values"] for result in results)
    row["steps"] = statistics.fmean(
        statistics.fmean(result["record_steps"]) for result in results)
    row["step_ms"] = 1e3 * step
    row["seconds"] = {"%g" % mbit: time.total(mbit) for mbit in plan.bandwidths}
    row["seconds_to_reach"] = {"%g" % target: time.total(plan.bandwidths[0], target)
                               for target in plan.targets}
    row.update(arrival_row(results))


# --- Rows of all runs


def measured_steps(results_of):
    """{model: seconds of a local step}, over all runs of it; None for a model when results are of an
    older program."""
    by_model = {}
    for results in results_of.values():
        for result in results or []:
            by_model.setdefault(result.get("model"), []).append(result)
    return {model: modelled.step_seconds(results)
            if all("record_train_ms" in result and "values" in result for result in results) else None
            for model, results in by_model.items()}


def results_by_run(plan, directory):
    """{name of a run: results of every seed, or None where one is missing or of other settings}."""
    results_of = {}
    for run in plan.runs:
        planned = [Planned(plan, run, seed, directory) for seed in plan.seeds]
        there = all(each.is_there() for each in planned)
        results_of[run.name] = [read_result(each.results) for each in planned] if there else None
    return results_of


def load(plan, directory):
    """The rows of every group, of the runs that are there, and the names of runs that are not."""
    results_of = results_by_run(plan, directory)
    steps = measured_steps(results_of)
    groups, missing = [], []
    for name, runs in plan.groups():
        rows = []
        for run in runs:
            results, baseline = results_of[run.name], results_of[plan.baseline(run).name]
            if results is None:
                missing.append(run.name)
                continue
            rows.append(summarise(plan, run, results, baseline, steps[results[0].get("model")]))
        if rows:
            groups.append((name, rows))
    add_reference(plan, groups)
    return groups, missing


def times_faster(row, other):
    """{bandwidth: how many times sooner a row ends than what it is held against}, where both are known."""
    theirs = (other or {}).get("seconds", {})
    return {name: theirs[name] / mine for name, mine in row.get("seconds", {}).items()
            if mine and theirs.get(name)}


def add_reference(plan, groups):
    """Beside what it is held against, each row is held against the plan's reference run. And the
    front: rows that no other beats in both accuracy and bytes."""
    rows = [row for _, group in groups for row in group]
    reference = next((row for row in rows if row["label"] == plan.reference), None)
    for _, group in groups:
        by_label = {row["label"]: row for row in group}
        for row in group:
            other = by_label.get(row["against"])
            row["times_fewer"] = other and ratio(other["total_wire"], row["total_wire"])
            row["times_faster"] = times_faster(row, other)
            if reference is not None:
                row["points_to_reference"] = points(row["accuracy"], reference["accuracy"])
                row["times_fewer_than_reference"] = ratio(reference["total_wire"], row["total_wire"])
            row["on_front"] = row["accuracy"] is not None and not any(
                other["total_wire"] < row["total_wire"] and other["accuracy"] >= row["accuracy"]
                for other in rows if other["accuracy"] is not None)


# --- Summaries over the cells


def summaries(plan, groups):
    """One per candidate of a plan with cells, over the cells that are there: how it does against what
    it is held against. Each cell counts as much as another; of ratios the mean is the geometric one."""
    if not plan.cells:
        return []
    rows_of = {}
    for _, rows in groups:
        for row in rows:
            if row["points_to_float32"] is not None:
                rows_of.setdefault(row["label"], []).append(row)
    return [summary_of(label, rows) for label, rows in rows_of.items()]


def worst_of(rows, measure):
    """(points, cell) of the cell that loses most by a measure."""
    row = min(rows, key=lambda row: row["measures"][measure]["points_mean"])
    return row["measures"][measure]["points_mean"], row["cell"]


def widest_gap(rows):
    """(points, cell) where the global model and the replica are farthest apart."""
    known = [(row["gap"], row["cell"]) for row in rows if row["gap"] is not None]
    return max(known, key=lambda each: abs(each[0]), default=(None, None))


def summary_of(label, rows):
    """rows: those that stand beside what they are held against."""
    measures = {measure: [row for row in rows if row["measures"][measure]["points"] is not None]
                for measure in rows[0]["measures"]}
    worst, cell = worst_of(rows, next(iter(measures)))
    spreads = [row["points_spread"] for row in rows if row["points_spread"] is not None]
    gap, gap_cell = widest_gap(rows)
    return {"label": label, "against": rows[0]["against"], "cells": len(rows),
            "accuracy": statistics.fmean(row["accuracy"] for row in rows),
            "points": statistics.fmean(row["points_to_float32"] for row in rows),
            "points_worst": worst, "cell_worst": cell,
            "measures": {measure: {"points": statistics.fmean(row["measures"][measure]["points_mean"]
                                                              for row in some),
                                   "worst": worst_of(some, measure)[0], "cell": worst_of(some, measure)[1]}
                         for measure, some in measures.items() if some},
            "gap": gap, "gap_cell": gap_cell,
            "points_spread": statistics.fmean(spreads) if spreads else None,
            "payload_up": statistics.fmean(row["payload_up"] for row in rows),
            "payload_down": statistics.fmean(row["payload_down"] for row in rows),
            "times_fewer_payload": geometric(row["times_fewer_payload"] for row in rows),
            "times_fewer": geometric(row["times_fewer"] for row in rows)}


def geometric(values):
    """Geometric mean; None where a value is not known."""
    values = list(values)
    return None if None in values else statistics.geometric_mean(values)
