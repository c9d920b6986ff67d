"""The comparison of several federations that the [experiment] section of an experiment's file plans.

    compare.py plans CONFIG                     yes or no: whether there is such a section
    compare.py run CONFIG DIR [OPTION]...       makes what DIR has no results of, and the table
      --set section.key=value                   for every run; experiment.key for the section itself
      --only TEXT                               only runs whose name contains TEXT (each TEXT given)
      --jobs N, --again, --tern F, --programs D
      --json F, --markdown F, --svg F           the table for programs and pages, and a picture

The section:

    [experiment]
    seeds = 1 2
    vary_partition = yes   ; seeds share out the data anew, too: data.seed is the seed
    targets = 0.8 0.84
    h1 = train.local_steps=1 | round.rounds=500        ; a named list of overrides
    groups = h1
    run = float32 | codec.codec=float32
    run = 3lc, H = 1 | @h1 | codec.codec=3lc:s=1

Runs with the same lists of `groups` are a table of their own, whose first run is what the others are
held against; `against=LABEL` in a run names another.

Where tasks are crossed with what is tried on them, each task is a cell, and every run is made in every
cell; a cell is a table as a group is, and a summary has each run's mean and worst over the cells:

    cell = digits, iid | data.source=digits | data.partition=iid
    cell = fashion, unlike | data.source=idx | data.partition=dirichlet
    run = float32 | codec.codec=float32
    run = 3lc | codec.codec=3lc:s=1

A cell whose data is in a folder that nobody named is left out, and said to be. And where the defaults
do not do:

    columns = accuracy points bits speedup    ; of comparison/plan.py COLUMNS
    measure = global       ; which accuracy: of the trunk replica that the evaluator holds, of the
                           ; global model, or the mean of the clients' own replicas
    last = 4               ; of the trunk, the mean of the last versions that were measured
    reference = float32    ; a run that those of all groups are held against too
    front = yes            ; the Pareto front of all groups, and one picture
    axis = time            ; of the picture: modelled time instead of bytes
    bandwidths = 10 1000   ; Mbit/s of each client's link, for modelled time
    device_second = 60     ; a second of fleet.speed and round.deadline stands for so many
"""
import argparse
import json
import sys

from comparison.plan import Plan
from comparison.rows import load, summaries
from comparison.runner import run_plan
from comparison.settings import has_section
from comparison.tables import markdown_table, text_table


def write(path, text):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def show_table(plan, options):
    groups, missing = load(plan, options.directory)
    summary = summaries(plan, groups)
    print(text_table(plan, groups, summary))
    if missing:
        print("\nnot run with these settings and every seed, or what it is held against: "
              + "; ".join(missing))
    rows = [row for _, group in groups for row in group]
    write(options.json, json.dumps({"rows": rows, "summary": summary}, indent=1) + "\n")
    write(options.markdown, markdown_table(plan, groups, summary))
    if groups and options.svg:
        from comparison.picture import picture  # needs matplotlib, which the tables do without
        write(options.svg, picture(plan, groups))


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
    for option in ("--json", "--markdown", "--svg"):
        parser.add_argument(option)


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("plans").add_argument("config")
    options_of_run(verbs.add_parser("run"))
    options = parser.parse_args()
    if options.verb == "plans":
        print("yes" if has_section(options.config, "experiment") else "no")
        return
    plan = plan_of(options)
    whole = run_plan(plan, options.directory, options.tern, options.programs, options.jobs,
                     options.only, options.again)
    show_table(plan, options)
    sys.exit(0 if whole else 1)


if __name__ == "__main__":
    main()
