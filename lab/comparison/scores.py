"""The figure that a run is judged by: the accuracy of a model that tells classes, R2 of one that tells a number,
AUC of one that finds anomalies. A model with none of them has a loss only. More is better, but for the loss."""
import statistics

TITLES = {"accuracy": "accuracy", "r2": "R2", "auc": "AUC", "loss": "loss"}


def keys_of(name):
    """The keys of a result: of its versions, of the last one, of the global model, of the clients' replicas."""
    if name == "loss":
        return "evaluated_loss", "final_evaluated_loss", "global_loss", None
    return name, "final_" + name, "global_" + name, "replica_" + name


def is_there(result, name):
    versions, _, of_global, _ = keys_of(name)
    return of_global in result or any(value is not None for value in result.get(versions) or [])


def name_of(result):
    """Which figure it is, a key of TITLES; "accuracy" where the result has none of them."""
    return next((name for name in TITLES if is_there(result, name)), "accuracy")


def series(result):
    """The figure of each version of the evaluator's replica; None where it was not measured."""
    return result.get(keys_of(name_of(result))[0]) or []


def last_of(result, count=1):
    """Mean of the last versions that were measured; None where none was."""
    measured = [value for value in series(result) if value is not None]
    return (statistics.fmean(measured[-count:]) if measured
            else result.get(keys_of(name_of(result))[1]))


def of_global(result):
    return result.get(keys_of(name_of(result))[2])


def of_replicas(result):
    """Returns the accuracies of the clients' replicas, without replicas too old to be measured."""
    return [value for value in result.get(keys_of(name_of(result))[3]) or [] if value is not None]


def measured(result, measure, last=1):
    """The figure by a measure of the plan; None where the result lacks it."""
    if measure == "global":
        return of_global(result)
    if measure == "clients":
        replicas = of_replicas(result)
        return statistics.fmean(replicas) if replicas else None
    return last_of(result, last)


def lacking(result, measure):
    """The key that the result would need for the measure."""
    versions, _, global_, replicas = keys_of(name_of(result))
    return {"trunk": versions, "global": global_, "clients": replicas or "replica_loss"}[measure]


def points(figure, reference):
    return None if figure is None or reference is None else 100 * (figure - reference)


def gap(result):
    """Points from the evaluator's last replica to the global model of the end: what an export is ahead of what
    clients hold."""
    return None if name_of(result) == "loss" else points(of_global(result), last_of(result))
