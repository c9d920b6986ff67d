"""The comparison of several federations that the [experiment] section of an experiment's file plans.

    compare.py plans CONFIG                     yes or no: whether there is such a section
    compare.py plan CONFIG                      one line per run: id, label, seed, overrides (tabs)
    compare.py table CONFIG DIR [--json F] [--markdown F] [--svg F]
                                                from DIR/ID.json, the results of each run

The section:

    [experiment]
    seeds = 1 2
    targets = 0.8 0.84
    h1 = train.local_steps=1 | round.rounds=500        ; a named list of overrides
    groups = h1
    run = float32 | codec.codec=float32
    run = 3lc, H = 1 | @h1 | codec.codec=3lc:s=1

Runs with the same lists of `groups` are a table of their own, whose first run is what the others are
held against. And where the defaults do not do:

    columns = accuracy points bits speedup    ; of comparison/plan.py COLUMNS
    measure = global       ; which accuracy: of the trunk replica that the evaluator holds, of the
                           ; global model, or the mean of the clients' own replicas
    reference = float32    ; a run that those of all groups are held against too
    front = yes            ; the Pareto front of all groups, and one picture
    axis = time            ; of the picture: modelled time instead of bytes
    bandwidths = 10 1000   ; Mbit/s of each client's link, for modelled time
    device_second = 60     ; a second of fleet.speed and round.deadline stands for so many
"""
import argparse
import json

from comparison.plan import Plan, has_section
from comparison.rows import load
from comparison.tables import markdown_table, text_table


def write(path, text):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["plans", "plan", "table"])
    parser.add_argument("config")
    parser.add_argument("directory", nargs="?")
    for option in ("--json", "--markdown", "--svg"):
        parser.add_argument(option)
    options = parser.parse_args()
    if options.verb == "plans":
        print("yes" if has_section(options.config, "experiment") else "no")
        return
    plan = Plan(options.config)
    if options.verb == "plan":
        for run in plan.runs:
            for seed in plan.seeds:
                print("\t".join([run.id(seed), run.label, seed] + run.overrides))
        return
    groups, missing = load(plan, options.directory)
    print(text_table(plan, groups))
    if missing:
        print("\nnot run, or not with every seed: " + ", ".join(missing))
    write(options.json, json.dumps([row for _, rows in groups for row in rows], indent=1) + "\n")
    write(options.markdown, markdown_table(plan, groups))
    if groups and options.svg:
        from comparison.picture import picture  # needs matplotlib, which the tables do without
        write(options.svg, picture(plan, groups))


if __name__ == "__main__":
    main()
