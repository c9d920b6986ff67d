"""How long the runs that are left will take, from those that have ended, and before any has from the
rounds of those at work."""
import statistics

USUAL = {"federation.model": "mlp:784-128-10", "round.rounds": "100", "round.cohort": "10",
         "train.local_steps": "20", "train.batch_size": "32", "fleet.evaluate_every": "1",
         "data.source": "", "deep.width": "0"}
DEEP_WORK = 15000  # multiplications of an example, times the square of deep.width


def kind(settings):
    """Returns a run's kind: runs of one kind take about the same time."""
    return tuple(settings.get(key, usual) for key, usual in USUAL.items())


def products(sizes):
    return sum(one * other for one, other in zip(sizes, sizes[1:]))


def model_work(spec):
    """Returns about how many multiplications an example takes; for a model that is not built in, a guess."""
    name, _, shape = spec.partition(":")
    try:
        sizes = [[int(side) for side in part.split("x")] for part in shape.split("-")]
        if name == "cnn":
            (height, width, depth), (first,), (second,), (classes,) = sizes
            return height * width * (9 * depth * first + 9 * first * second // 4
                                     + second * classes // 16)
        return products([side for size in sizes for side in size])
    except ValueError:
        return 100000


def work(settings):
    """Returns a run's amount of work in an arbitrary unit, to compare runs of different kinds."""
    model, rounds, cohort, steps, batch, _, _, width = kind(settings)
    try:
        examples = int(cohort) * int(steps) * int(batch)
        return int(rounds) * (1e6 + examples * (DEEP_WORK * int(width) ** 2 or model_work(model)))
    except ValueError:
        return 1e9


class Pace:
    def __init__(self):
        self.took = {}      # kind: seconds of each run
        self.seconds = 0.0  # of all runs, and their work
        self.work = 0.0

    def ended(self, settings, seconds):
        self.took.setdefault(kind(settings), []).append(seconds)
        self.seconds += seconds
        self.work += work(settings)

    def expected(self, settings, running):
        """Returns the expected seconds of such a run; None: no round has ended."""
        alike = self.took.get(kind(settings))
        if alike:
            return statistics.median(alike)
        seconds, done = self.seconds, self.work
        if not done:
            seconds = sum(spent for _, share, spent in running if share)
            done = sum(work(other) * share for other, share, _ in running)
        return seconds * work(settings) / done if done else None

    def to_go(self, waiting, running, jobs):
        """Returns the seconds until all runs have ended. waiting: settings of each; running: (settings, share of its
        rounds that is done, seconds so far) of each."""
        left = [(self.expected(settings, running), 1) for settings in waiting]
        left += [(self.expected(settings, running), 1 - share) for settings, share, _ in running]
        if not left or left[0][0] is None:  # nothing is known of any
            return None
        seconds = [each * share for each, share in left]
        return max(sum(seconds) / jobs, max(seconds))


def sentence(seconds):
    """"; about 12 min to go"; nothing where it is not known."""
    if seconds is None:
        return ""
    if seconds >= 90:
        return "; about %d min to go" % round(seconds / 60)
    return "; about %d s to go" % round(seconds)
