"""The rows of a comparison: means over the seeds of what the runs' results say."""
import json
import os
import statistics
import sys

from comparison import modelled
from comparison.plan import seconds

CLIENT_BYTES = ("payload_up", "payload_down", "wire_up", "wire_down", "encode_ms")


def read_result(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        sys.exit("%s is damaged (%s); remove it to run it again" % (path, error))


def mean_or_none(values):
    return None if None in values else statistics.fmean(values)


# --- Of one run


def took_part(result):
    """Accuracy of the clients' replicas that are not too old to have been measured."""
    return [accuracy for accuracy in result["replica_accuracy"] if accuracy is not None]


def accuracy_of(plan, result):
    if plan.measure == "global":
        return result["global_accuracy"]
    if plan.measure == "clients":
        return statistics.fmean(took_part(result))
    return result["final_accuracy"]


def rounds_to_reach(result, target):
    """The version that first reached the accuracy, of those that were measured."""
    for version, accuracy in enumerate(result["accuracy"], 1):
        if accuracy is not None and accuracy >= target:
            return version
    return None


def bytes_to_reach(result, target):
    """Wire bytes per client of the fleet, both ways, until the accuracy is first reached."""
    version = rounds_to_reach(result, target)
    if version is None:
        return None
    return total_wire(result, version)


def total_wire(result, until=None):
    spent = sum(result["round_wire_up"][:until]) + sum(result["round_wire_down"][:until])
    return spent / result["clients"]


def points(accuracy, reference):
    return None if reference is None else 100 * (accuracy - reference)


def arrivals(result):
    """(joined, came back): lists of what each cost and is worth, beside the trunk's replica and beside
    the global model of the version at which it came."""
    joined, back = [], []
    names = ("version", "missed", "payload_down", "accuracy")
    rows = list(zip(*(result.get("arrival_" + name, []) for name in names)))
    of_global = result.get("arrival_global_accuracy", [None] * len(rows))
    for (version, missed, payload, accuracy), newest in zip(rows, of_global):
        trunk = result["accuracy"][version - 1] if version > 0 else None
        chain = sum(result["round_trunk_down"][version - missed:version])
        (joined if missed == version else back).append({
            "payload": payload, "chain_share": payload / chain if chain > 0 else None,
            "to_trunk": points(accuracy, trunk), "to_global": points(accuracy, newest)})
    return joined, back


# --- Of one run over its seeds


class Time:
    """Modelled seconds of a run's results, and until they reach an accuracy."""

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
    """Of all arrivals of all seeds: means, and the worst, which is what a promise has to hold for."""
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


def summarise(plan, run, results, baseline, step):
    """One row of the table: means over the seeds."""
    accuracies = [accuracy_of(plan, result) for result in results]
    gaps = [100 * (accuracy_of(plan, mine) - accuracy_of(plan, theirs))
            for mine, theirs in zip(results, baseline)]
    row = {"label": run.label, "group": run.group, "overrides": run.overrides,
           "codec": results[0]["codec"], "seeds": len(results),
           "accuracy": statistics.fmean(accuracies),
           "accuracy_least": min(accuracies), "accuracy_most": max(accuracies),
           "points_to_float32": statistics.fmean(gaps)}
    for key in CLIENT_BYTES:
        row[key] = statistics.fmean(result[key] for result in results)
    row["total_wire"] = statistics.fmean(total_wire(result) for result in results)
    row["to_reach"] = {"%g" % target: mean_or_none(
        [bytes_to_reach(result, target) for result in results]) for target in plan.targets}
    row["rounds_to_reach"] = {"%g" % target: mean_or_none(
        [rounds_to_reach(result, target) for result in results]) for target in plan.targets}
    add_measured(plan, run, results, step, row)
    return row


def add_measured(plan, run, results, step, row):
    """What only results with records have."""
    if step is None:
        return
    time = Time(plan, run, results, step)
    row["global_accuracy"] = mean_or_none([result.get("global_accuracy") for result in results])
    row["clients_mean"] = statistics.fmean(
        statistics.fmean(took_part(result)) for result in results)
    row["clients_least"] = min(min(took_part(result)) for result in results)
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


# --- Of all runs


def measured_step(results_of):
    """Seconds of a local step over all runs, or None when results are of an older program."""
    results = [result for results in results_of.values() for result in results or []]
    has_records = results and all("record_train_ms" in result and "values" in result
                                  for result in results)
    return modelled.step_seconds(results) if has_records else None


def load(plan, directory):
    """The rows of every group whose runs are all there, and the names of runs that are not."""
    results_of = {}
    for run in plan.runs:
        files = [os.path.join(directory, run.id(seed) + ".json") for seed in plan.seeds]
        there = all(os.path.exists(path) for path in files)
        results_of[run.label] = [read_result(path) for path in files] if there else None
    step = measured_step(results_of)
    groups, missing = [], []
    for name, runs in plan.groups():
        baseline = results_of[runs[0].label]
        rows = [summarise(plan, run, results_of[run.label], baseline, step) for run in runs
                if baseline is not None and results_of[run.label] is not None]
        missing += [run.label for run in runs if baseline is None or results_of[run.label] is None]
        if rows:
            groups.append((name, rows))
    add_reference(plan, groups)
    return groups, missing


def add_reference(plan, groups):
    """Beside the first of its group, each row is held against the plan's reference run. And the
    front: rows that no other beats in both accuracy and bytes."""
    rows = [row for _, group in groups for row in group]
    reference = next((row for row in rows if row["label"] == plan.reference), None)
    for name, group in groups:
        for row in group:
            row["times_fewer"] = group[0]["total_wire"] / row["total_wire"]
            if reference is not None:
                row["points_to_reference"] = 100 * (row["accuracy"] - reference["accuracy"])
                row["times_fewer_than_reference"] = reference["total_wire"] / row["total_wire"]
            row["on_front"] = not any(
                other["total_wire"] < row["total_wire"] and other["accuracy"] >= row["accuracy"]
                for other in rows)
