"""One run of a plan with one seed, and its files in the folder of results: ID.ini, its settings, which
are an experiment of its own; ID.log, what it printed; ID.json, its results. Those count when they are
whole and ID.ini says what the plan says."""
import os

from comparison.settings import as_ini, write


class Planned:
    def __init__(self, plan, run, seed, directory):
        self.run, self.seed, self.settings = run, seed, plan.settings(run, seed)
        self.ini, self.log, self.part, self.results = (
            os.path.join(directory, run.id(seed) + end) for end in (".ini", ".log", ".part", ".json"))
        self.name = "%s, seed %s" % (run.name, seed)

    def is_there(self):
        try:
            with open(self.ini, encoding="utf-8", errors="surrogateescape") as file:
                same = file.read() == as_ini(self.settings)
            return same and os.path.getsize(self.results) > 0
        except OSError:
            return False

    def write(self, path):
        write(path, self.settings)
