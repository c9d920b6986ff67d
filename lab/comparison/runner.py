"""Runs what a plan has no results of yet, several federations at once.

Each is made by `./tern experiment DIR/ID.ini` in a process group of its own, with a port, state and
certificates of its own."""
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent import futures

from comparison import scores
from comparison.advice import advice, refusals, said_by
from comparison.pace import Pace, sentence
from comparison.planned import Planned
from comparison.settings import OF_FLEET, as_ini, is_deep, of_aggregator, without_secure, write
from comparison.tables import size

LOOK_SECONDS = 0.1
TELL_SECONDS = 60
EARLY_SECONDS = 10  # of the first runs, before which their start weighs too much
ROUND = re.compile(r"\[ROUND (\d+)/(\d+)\]")
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def say(text):
    print(text, flush=True)


def interrupted(*_):
    sys.stderr.write("tern: interrupted: stopping all programs\n")
    sys.exit(5)


class Process:
    """A run at work. noted: notes that a run of the plan has printed."""

    noted = set()

    def __init__(self, planned, tern, options):
        self.planned, self.started, self.told = planned, time.monotonic(), time.monotonic()
        self.round, self.rounds, self.line = 0, 1, ""
        if os.path.exists(planned.results):
            os.remove(planned.results)
        planned.write(planned.ini)
        with open(planned.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [tern, "experiment", planned.ini, "--json", planned.part] + options, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, "TERN_SKIP_BUILD": "1", "TERN_PLANNED": "1"})
        self.output = open(planned.log, encoding="utf-8", errors="replace")

    def seconds(self):
        return time.monotonic() - self.started

    def new_lines(self):
        """Whole lines that came since the last call."""
        while True:
            here = self.output.tell()
            line = self.output.readline()
            if not line.endswith("\n"):
                self.output.seek(here)
                return
            yield line.rstrip("\n")

    def share(self):
        """Returns the share of rounds that are committed."""
        return self.round / self.rounds

    def look(self, to_go):
        """Tells warnings at once, and every minute how far it is. to_go: says how long all will take."""
        for line in self.new_lines():
            found = ROUND.match(line)
            if found:
                self.round, self.rounds, self.line = int(found[1]), int(found[2]), line
            elif line.startswith("warning: "):
                say("   %s: %s" % (self.planned.name, line))
            elif line.startswith("note: ") and line not in self.noted:
                self.noted.add(line)
                say("   %s: %s" % (self.planned.name, line))
        if self.line and time.monotonic() - self.told >= TELL_SECONDS:
            self.told = time.monotonic()
            say("   %s: %s%s" % (self.planned.name, self.line, to_go()))

    def close(self, to_go):
        self.look(to_go)
        self.output.close()

    def stop(self):
        """Asks it to end; the script that it is stops and removes all that it started."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)


def programs_digest(folder):
    """Returns a hash of the programs that make the results."""
    digest = hashlib.sha256()
    for name in ("tern-aggregator", "tern-fleet"):
        with open(os.path.join(folder, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


class Runner:
    def __init__(self, tern, programs, jobs):
        self.tern, self.programs, self.jobs = tern, programs, jobs
        self.digest = programs_digest(programs)
        # Runs at the same time share the cores: each has one worker. The number of workers changes no result.
        self.options = ["--set", "fleet.workers=1"] if jobs > 1 else []
        self.pace, self.working, self.failed, self.ended = Pace(), [], [], 0

    # --- Checks before the first run

    def check(self, todo, plan):
        """Refuses what the programs would refuse of a run when its turn comes, hours from now. Returns
        (name of a run, sentence) of settings that they accept and advise against."""
        advised = []
        with tempfile.TemporaryDirectory() as folder, \
                futures.ThreadPoolExecutor(self.jobs) as pool:
            jobs = [(name, pool.submit(subprocess.run, command, capture_output=True, text=True))
                    for name, command in self.checks(todo, folder)]
            for name, job in jobs:
                if job.result().returncode != 0:
                    for _, other in jobs:
                        other.cancel()
                    self.refuse(name, job.result().stderr)
                advised += [(name, sentence) for sentence in said_by(job.result())]
        for planned in todo:
            for sentence in refusals(planned.settings):
                self.refuse(planned.run.name, "tern: %s\n" % sentence)
        return advised

    @staticmethod
    def refuse(name, why):
        sys.stderr.write(why)
        sys.stderr.write("tern: the run '%s' cannot be made; no run was started\n" % name)
        sys.exit(2)

    def checks(self, todo, folder):
        """(name of a run, command) of each that is not as one before."""
        seen = set()
        for number, planned in enumerate(todo):
            path = os.path.join(folder, "%d.ini" % number)
            deep = is_deep(planned.settings)
            if deep:  # whose section and data the programs do not have
                write(path, of_aggregator(planned.settings))
            else:
                write(path, without_secure(planned.settings))  # once: a program may be reading it when the next command is made
            for program, words in (("tern-aggregator", ["serve"]), ("tern-fleet", ["run"]))[:1 if deep else 2]:
                settings = {key: value for key, value in without_secure(planned.settings).items()
                            if key.startswith(OF_FLEET) == (program == "tern-fleet")
                            or key == "federation.model"} if not deep else of_aggregator(planned.settings)
                for seed in ("federation.seed", "data.seed"):
                    settings.pop(seed, None)
                if (program, as_ini(settings)) not in seen:
                    seen.add((program, as_ini(settings)))
                    yield (planned.run.name, [os.path.join(self.programs, program)] + words
                           + ["--check", "--config", path])

    # --- Running and interrupting

    def run(self, todo):
        """All of them; whatever ends this ends the runs that are at work."""
        for sign in STOPS:
            signal.signal(sign, interrupted)
        try:
            self.work(todo)
        finally:
            for sign in STOPS:
                signal.signal(sign, signal.SIG_IGN)
            for process in self.working:
                process.stop()
            for process in self.working:
                process.process.wait()

    def work(self, todo):
        waiting = list(todo)
        told = bool(self.pace.took)  # how long it will take, as runs that were there before know

        def to_go():
            return self.to_go(waiting)

        while waiting or self.working:
            while waiting and len(self.working) < self.jobs:
                planned = waiting.pop(0)
                number = len(todo) - len(waiting)
                say("== run %d of %d: %s%s" % (number, len(todo), planned.name,
                                               self.to_go([planned] + waiting)))
                self.working.append(Process(planned, self.tern, self.options))
            time.sleep(LOOK_SECONDS)
            for process in list(self.working):
                process.look(to_go)
                if process.process.poll() is not None:
                    self.working.remove(process)
                    process.close(to_go)
                    self.take(process, waiting)
            if not told and self.seen_enough():
                told = True
                say("   all runs, by their first rounds%s" % to_go())

    def seen_enough(self):
        """Whether the runs at work have come far enough to say how long they take, and are not done."""
        return self.working and all(EARLY_SECONDS <= process.seconds() and 0 < process.share() < 1
                                    for process in self.working)

    def to_go(self, waiting):
        running = [(process.planned.settings, process.share(), process.seconds())
                   for process in self.working]
        return sentence(self.pace.to_go([planned.settings for planned in waiting], running,
                                        self.jobs))

    def take(self, process, waiting):
        """What a run that has ended left."""
        planned = process.planned
        if process.process.returncode != 0:
            self.failed.append(planned)
            say("   %s: failed; the end of its log, %s:" % (planned.name, planned.log))
            with open(planned.log, encoding="utf-8", errors="replace") as file:
                say("".join("      " + line for line in file.readlines()[-12:]).rstrip("\n"))
            return
        with open(planned.part, encoding="utf-8") as file:
            result = json.load(file)
        result["programs"] = self.digest
        with open(planned.part, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
        os.replace(planned.part, planned.results)
        self.ended += 1
        self.pace.ended(planned.settings, process.seconds())
        figure = scores.last_of(result)  # None: the run ended before a version that is measured
        say("   %s: %s %s (replica), payload %s up %s down, in %.0f s%s" % (
            planned.name, scores.TITLES[scores.name_of(result)],
            "not measured" if figure is None else "%.4f" % figure, size(result["payload_up"]),
            size(result["payload_down"]), process.seconds(), self.to_go(waiting)))

    # --- Results of an earlier call

    def remember(self, there):
        """What earlier runs took is what such runs will take. How many are of other programs."""
        others = 0
        for planned in there:
            try:
                with open(planned.results, encoding="utf-8") as file:
                    result = json.load(file)
            except ValueError:
                continue  # the table says so
            others += result.get("programs", self.digest) != self.digest
            self.pace.ended(planned.settings, result["seconds"])
        return others


def lacking(plan, wanted):
    """Takes out the cells whose data nobody named the folder of; says which."""
    absent = sorted({planned.run.cell for planned in wanted
                     if planned.run.cell is not None and plan.lacks_folder(planned.run)})
    for cell in absent:
        say("== left out, as its data is in no given folder (--data-dir DIR; docs/EXPERIMENTS.md lists where "
            "Fashion-MNIST is): " + cell)
    return [planned for planned in wanted if planned.run.cell not in absent]


def warn_of(advised):
    """Each sentence once, with the first run that has such settings."""
    told = {}
    for name, sentence in advised:
        told.setdefault(sentence, []).append(name)
    for sentence, names in told.items():
        more = len(set(names)) - 1
        say("   warning: %s%s: %s" % (names[0], ", and %d more" % more if more else "", sentence))


def run_plan(plan, directory, tern, programs, jobs, only, again):
    """Whether all that was asked for is there now."""
    runner = Runner(tern, programs, jobs)
    every = [Planned(plan, run, seed, directory) for run in plan.runs for seed in plan.seeds]
    wanted = [planned for planned in every if planned.run.is_meant(only)]
    if not wanted:
        sys.stderr.write("tern: no run of %s has '%s' in its label or as its tag\n" % (plan.path, "', '".join(only)))
        sys.exit(4)
    wanted = lacking(plan, wanted)
    there = [] if again else [planned for planned in wanted if planned.is_there()]
    todo = [planned for planned in wanted if planned not in there]
    warn_of(runner.check(todo, plan) + [(planned.run.name, sentence) for planned in todo
                                        for sentence in advice(planned.settings)])
    others = runner.remember(there)
    if others:
        say("== %d results are of programs that have changed since; --again makes them anew" % others)
    runner.run(todo)
    say("== %d runs done, %d were there before or not asked for%s" % (
        runner.ended, len(every) - len(todo),
        "; %d failed: %s" % (len(runner.failed), "; ".join(each.name for each in runner.failed))
        if runner.failed else ""))
    return not runner.failed
