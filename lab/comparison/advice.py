"""Settings of a fleet and its data that do not go together, or of which one says nothing beside the other.
What the aggregator knows of its own settings, `tern-aggregator serve --check` says
(aggregator/cli/service_advice.c)."""
from comparison.pace import USUAL


def number(settings, key, usual):
    try:
        return float(settings.get(key, usual))
    except ValueError:
        return float(usual)  # the programs refuse it


def of_data(settings):
    partition = settings.get("data.partition", "iid")
    if partition != "dirichlet" and "data.alpha" in settings:
        yield "data.alpha says nothing: data.partition is %s" % partition


def of_fleet(settings):
    clients = number(settings, "fleet.clients", 10)
    late = len(settings.get("fleet.join", "").split())
    cohort = number(settings, "round.cohort", USUAL["round.cohort"])
    if cohort > clients:
        yield ("round.cohort = %d is more than fleet.clients = %d: every round waits for its deadline"
               % (cohort, clients))
    elif number(settings, "round.min_clients", 2) > clients - late:
        yield ("round.min_clients = %s is more than the clients that are there from the start, %d: no "
               "round begins" % (settings["round.min_clients"], clients - late))


def advice(settings):
    """Sentences about a run's settings, "section.key": value; none is the usual case."""
    return [sentence for rule in (of_data, of_fleet) for sentence in rule(settings)]


def said_by(program):
    """The sentences of a --check that came to an end."""
    mark = "tern-aggregator: warning: "
    return [line[len(mark):] for line in program.stderr.splitlines() if line.startswith(mark)]
