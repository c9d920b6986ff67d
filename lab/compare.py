"""The comparison of several federations that the [experiment] section of an experiment's file plans.

    compare.py kind CONFIG [--set ...]          "planned" with such a section, else "single"; and "deep"
                                                where lab/deep/run.py makes runs of it, "secure" where
                                                lab/private/demo.py does
    compare.py run CONFIG DIR [OPTION]...       makes what DIR has no results of, and the table
      --set section.key=value                   for every run; experiment.key for the section itself
      --only TEXT                               only runs whose name contains TEXT (each TEXT given)
      --jobs N, --again, --tern F, --programs D
      --json F, --markdown F, --svg F           the table for programs and pages, and a picture
      --curves F                                accuracy against rounds and bytes, F.svg or F.png

    compare.py advise CONFIG [--set ...]        names settings that do not go together; exit code 2:
                                                with them the run would never end
    compare.py describe RESULTS CONFIG [--set ...]
                                                adds to a run's results the settings that made them
    compare.py differ RUN.json OTHER.json       the settings that two runs do not share
    compare.py curves OUT RUN.json...           accuracy against rounds and bytes, OUT.svg or OUT.png

The section:

    [experiment]
    seeds = 1 2
    vary_partition = yes   ; seeds share out the data anew, too: data.seed is the seed
    targets = 0.8 0.84
    h1 = train.local_steps=1 | round.rounds=500        ; a named list of overrides
    groups = h1
    run = float32 | codec.codec=float32
    run = 3lc, H = 1 | @h1 | codec.codec=3lc:s=1

A "|" within double quotes is part of a value: data.source=csv:pumps.csv,classes="good|worn".

Runs with the same lists of `groups` are a table of their own, whose first run is what the others are
held against; `against=LABEL` in a run names another.

Where tasks are crossed with what is tried on them, each task is a cell, and every run is made in every
cell; a cell is a table as a group is, and a summary has each run's mean and worst over the cells:

    cell = digits, iid | data.source=digits | data.partition=iid
    cell = fashion, unlike | data.source=idx | data.partition=dirichlet
    run = float32 | codec.codec=float32
    run = 3lc | codec.codec=3lc:s=1

    cell = digits, pilot | data.source=digits | tag=daily

has a tag: --only tag=daily takes the runs and cells that have it. A cell whose data is in a folder that nobody named is left out, and said to be. And where the defaults
do not do:

    columns = accuracy points bits speedup    ; of comparison/plan.py COLUMNS
    measure = global       ; which accuracy: trunk, of the replica that the evaluator holds; global, of
                           ; the global model; clients, the mean of the clients' own replicas; both,
                           ; trunk and global and the points between them. Of a model that tells
                           ; numbers it is R2, of one that finds anomalies AUC.
    last = 4               ; of the trunk, the mean of the last versions that were measured
    reference = float32    ; a run that those of all groups are held against too
    front = yes            ; the Pareto front of all groups, and one picture
    axis = time            ; of the picture: modelled time instead of bytes
    bandwidths = 10 1000   ; Mbit/s of each client's link, for modelled time
    device_second = 60     ; a second of fleet.speed and round.deadline stands for so many
"""
import argparse
import fcntl
import json
import os
import sys

from comparison.plan import Plan
from comparison.advice import advice, refusals
from comparison.rows import load, read_result, results_by_run, summaries
from comparison.runner import run_plan
from comparison.settings import differences, effective, has_section, is_deep, is_secure
from comparison.tables import markdown_table, text_table


def write(path, text):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def write_files(plan, options, groups, summary):
    rows = [row for _, group in groups for row in group]
    write(options.json, json.dumps({"rows": rows, "summary": summary}, indent=1) + "\n")
    write(options.markdown, markdown_table(plan, groups, summary))
    if groups and options.svg:
        from comparison.picture import picture  # needs matplotlib, which the tables do without
        write(options.svg, picture(plan, groups))
    if groups and options.curves:
        results_of = results_by_run(plan, options.directory)
        draw(options.curves, [
            (name if plan.cells else ", ".join(plan.overrides_of_group(name)),
             [(run.label, results_of[run.name]) for run in runs if results_of[run.name] is not None])
            for name, runs in plan.groups() if any(results_of[run.name] for run in runs)])


def name_of(row):
    return row["label"] if row["cell"] is None else "%s: %s" % (row["cell"], row["label"])


def lacking(rows):
    """"RUN has no global_r2" of each figure that a dash stands for."""
    return ["%s has no %s" % (name_of(row), key) for row in rows
            for figures in row["measures"].values() for key in figures["lacking"]]


def show_table(plan, options):
    groups, missing = load(plan, options.directory)
    summary = summaries(plan, groups)
    write_files(plan, options, groups, summary)  # before what a reader may have turned away from
    print(text_table(plan, groups, summary))
    rows = [row for _, group in groups for row in group]
    bare = [name_of(row) for row in rows if not row["baseline_ran"]]
    for what, names in (("not run with these settings and every seed", missing),
                        ("without points, as what they are held against has not run", bare),
                        ("a dash stands for what a run's results lack", lacking(rows))):
        if names:
            print("\n%s: %s" % (what, "; ".join(names)))


# --- Of single runs


def draw(path, tables):
    from comparison.curves import curves  # needs matplotlib
    with open(path, "wb") as file:
        file.write(curves(tables, "svg" if path.endswith(".svg") else "png"))


def draw_runs(options):
    runs = []
    for path in options.results:
        result = read_result(path)
        runs.append(("%s, %s, seed %s" % (os.path.basename(path), result["codec"], result["seed"]),
                     [result]))
    draw(options.out, [("", runs)])


def advise(options):
    settings = effective(options.config, options.sets)
    for sentence in advice(settings):
        print("warning: " + sentence)
    for sentence in refusals(settings):
        sys.stderr.write("tern: %s\n" % sentence)
        sys.exit(2)


def describe(options):
    """Returns the settings of a run, without fleet.workers, which only changes the time."""
    result = read_result(options.results)
    settings = effective(options.config, options.sets)
    settings.pop("fleet.workers", None)
    result["settings"] = settings
    with open(options.results, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)


def differ(options):
    one, other = (read_result(path).get("settings") for path in (options.one, options.other))
    if one is None or other is None:
        print("what differs in their settings is not known: results of an older program, "
              "or of a run that was interrupted")
        return
    rows = differences(one, other)
    print("the settings that differ:" if rows else "the settings are the same")
    for key, mine, theirs in rows:
        print("  %s: %s, %s in the other" % (key, *("the default" if value is None else value
                                                    for value in (mine, theirs))))


# --- Options


def kind(path, sets):
    """A plan that is refused is of no other kind: the verb `run` prints the reason."""
    word, runs = "single", []
    if has_section(path, "experiment"):
        word = "planned"
        try:
            plan = Plan(path, sets)
            runs = [plan.settings(run, plan.seeds[0]) for run in plan.runs]
        except SystemExit:
            pass
    else:
        runs = [effective(path, sets)]
    return word + " deep" * any(map(is_deep, runs)) + " secure" * any(map(is_secure, runs))


def plan_of(options):
    try:
        return Plan(options.config, options.sets)
    except SystemExit as refused:
        sys.stderr.write("tern: %s\n" % refused.code)
        sys.exit(2)  # a usage error, of the tern script's exit codes


def options_of_run(parser):
    parser.add_argument("config")
    parser.add_argument("directory")
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    for option in ("--tern", "--programs"):
        parser.add_argument(option, required=True)
    for option in ("--json", "--markdown", "--svg", "--curves"):
        parser.add_argument(option)
    parser.set_defaults(act=run)


def options_of_one(verbs):
    """Options of the verbs for single runs."""
    for verb, act, names in (("advise", advise, ["config"]), ("differ", differ, ["one", "other"]),
                             ("describe", describe, ["results", "config"])):
        parser = verbs.add_parser(verb)
        parser.set_defaults(act=act)
        for name in names:
            parser.add_argument(name)
        parser.add_argument("--set", action="append", default=[], dest="sets")
    parser = verbs.add_parser("curves")
    parser.set_defaults(act=draw_runs)
    parser.add_argument("out")
    parser.add_argument("results", nargs="+")
    parser = verbs.add_parser("kind")
    parser.set_defaults(act=lambda options: print(kind(options.config, options.sets)))
    parser.add_argument("config")
    parser.add_argument("--set", action="append", default=[], dest="sets")


def alone(directory):
    """Holds the folder of results, until what is returned is closed: two that make runs in it would
    write the same files."""
    lock = open(os.path.join(directory, ".lock"), "w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("tern: another ./tern experiment makes runs in %s; wait until it has ended, or name another "
                 "folder by --keep DIR" % directory)
    return lock


def run(options):
    plan = plan_of(options)
    with alone(options.directory):
        finish(plan, options)


def finish(plan, options):
    whole = run_plan(plan, options.directory, options.tern, options.programs, options.jobs,
                     options.only, options.again)
    show_table(plan, options)
    sys.exit(0 if whole else 1)


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    options_of_run(verbs.add_parser("run"))
    options_of_one(verbs)
    options = parser.parse_args()
    try:
        options.act(options)
        sys.stdout.flush()
    except BrokenPipeError:  # of `head`, say, which has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
