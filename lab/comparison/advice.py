"""Settings that are known not to go together, by what docs/BENCHMARKS.md and docs/DESIGN.md measured, or
of which one says nothing beside the other."""
from comparison.pace import USUAL

WITHOUT_ERROR_BUFFER = ("float32", "float16", "bfloat16", "stochastic-ternary")


def number(settings, key, usual):
    try:
        return float(settings.get(key, usual))
    except ValueError:
        return float(usual)  # the programs refuse it


def name_of(spec):
    return spec.partition(":")[0]


def sparsity(spec):
    """s of a 3lc spec, 1 of others."""
    found = [part[2:] for part in spec.partition(":")[2].split(",") if part.startswith("s=")]
    return number({"s": found[0]}, "s", "1") if found and name_of(spec) == "3lc" else 1.0


class Settings:
    """The settings that the rules ask for; "" where the file leaves one to its default, which may be
    another one tomorrow."""

    def __init__(self, settings):
        self.of = settings
        self.codec = settings.get("codec.codec", "default")
        self.down = settings.get("codec.codec_down", "") or self.codec
        self.feedback = settings.get("error_feedback.policy", "")
        self.strategy = settings.get("strategy.name", "")

    def given(self, key):
        return key in self.of


def of_codecs(settings):
    if name_of(settings.codec) == "dgc" and number(settings.of, "train.momentum", 0) > 0:
        yield ("codec.codec = dgc has the momentum already: with train.momentum = %s steps are that "
               "much longer again" % settings.of["train.momentum"])
    several = number(settings.of, "train.local_steps", USUAL["train.local_steps"]) > 1
    if sparsity(settings.down) >= (1.5 if several else 1.9):
        yield ("downloads by %s lose so much that replicas do not follow the model (docs/BENCHMARKS.md); "
               "codec.codec_down=default does not" % settings.down)
    if settings.feedback not in ("", "keep") and name_of(settings.codec) in WITHOUT_ERROR_BUFFER:
        yield ("error_feedback.policy = %s says nothing: %s leaves nothing in an error buffer"
               % (settings.feedback, settings.codec))


def of_strategies(settings):
    named = (("strategy.server_momentum", ("fedavgm",)), ("strategy.prox_mu", ("fedprox",)),
             ("strategy.beta1", ("fedadam", "fedyogi")), ("strategy.beta2", ("fedadam", "fedyogi")),
             ("strategy.tau", ("fedadam", "fedadagrad", "fedyogi")),
             ("strategy.trim", ("fedtrimmedavg",)), ("strategy.staleness_max", ("fedbuff",)))
    for key, strategies in named:
        if settings.given(key) and settings.strategy and settings.strategy not in strategies:
            yield "%s says nothing: strategy.name is %s, not %s" % (
                key, settings.strategy, " or ".join(strategies))


def of_schedules(settings):
    if (settings.given("train.learning_rate_final")
            and settings.of.get("train.schedule", "constant") == "constant"):
        yield "train.learning_rate_final says nothing: train.schedule is constant"
    if settings.given("error_feedback.gamma") and settings.feedback not in ("", "decay"):
        yield "error_feedback.gamma says nothing: error_feedback.policy is %s" % settings.feedback
    if settings.of.get("data.partition", "iid") != "dirichlet" and settings.given("data.alpha"):
        yield "data.alpha says nothing: data.partition is %s" % settings.of.get("data.partition",
                                                                               "iid")


def of_fleet(settings):
    clients = number(settings.of, "fleet.clients", 10)
    late = len(settings.of.get("fleet.join", "").split())
    cohort = number(settings.of, "round.cohort", USUAL["round.cohort"])
    if cohort > clients:
        yield ("round.cohort = %d is more than fleet.clients = %d: every round waits for its deadline"
               % (cohort, clients))
    elif number(settings.of, "round.min_clients", 2) > clients - late:
        yield ("round.min_clients = %s is more than the clients that are there from the start, %d: no "
               "round begins" % (settings.of["round.min_clients"], clients - late))


def advice(settings):
    """Sentences about a run's settings, "section.key": value; none is the usual case."""
    known = Settings(settings)
    return [sentence for rule in (of_codecs, of_strategies, of_schedules, of_fleet)
            for sentence in rule(known)]
