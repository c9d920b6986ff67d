"""Settings of a fleet and its data that do not go together, or of which one says nothing beside the other.
What the aggregator knows of its own settings, `tern-aggregator serve --check` says
(aggregator/cli/service_advice.c)."""

# The defaults of the programs' settings.
USUAL = {"fleet.clients": "10", "round.cohort": "10", "round.min_clients": "2", "round.rounds": "0"}


def number(settings, key):
    """Returns the number; None: not a number, which the programs refuse themselves."""
    try:
        return float(settings.get(key, USUAL[key]))
    except ValueError:
        return None


def is_more(a, b):
    return a is not None and b is not None and a > b


def of_data(settings):
    partition = settings.get("data.partition", "iid")
    if partition != "dirichlet" and "data.alpha" in settings:
        yield "data.alpha says nothing: data.partition is %s" % partition


def there_from_the_start(settings):
    late = {entry.partition(":")[0] for entry in settings.get("fleet.join", "").split()}
    clients = number(settings, "fleet.clients")
    return None if clients is None else clients - len(late)


def of_fleet(settings):
    clients = number(settings, "fleet.clients")
    cohort = number(settings, "round.cohort")
    if is_more(cohort, clients):
        yield ("round.cohort = %d is more than fleet.clients = %d: every round asks all of them"
               % (cohort, clients))
    least, there = number(settings, "round.min_clients"), there_from_the_start(settings)
    if is_more(there, least):
        yield ("round.min_clients = %d is fewer than the clients that are there from the start, %d: the first "
               "rounds draw from those that have enrolled by then, so runs of one seed differ" % (least, there))


def advice(settings):
    """Returns warnings about a run's settings, "section.key": value."""
    return [sentence for rule in (of_data, of_fleet) for sentence in rule(settings)]


def refusals(settings):
    """Returns the reasons why a run would never end."""
    if number(settings, "round.rounds") == 0:
        yield "round.rounds is not set: the run would have no end, and results come with the last round"
    least, there = number(settings, "round.min_clients"), there_from_the_start(settings)
    if is_more(least, there):
        yield ("round.min_clients = %d is more than the clients that are there from the start, %d: no "
               "round would begin" % (least, there))


def said_by(program):
    """Returns the sentences of a successful --check."""
    mark = "tern-aggregator: warning: "
    return [line[len(mark):] for line in program.stderr.splitlines() if line.startswith(mark)]
