"""Figures of a measurement that was taken in turns: in_turns.py PREFIX TURNS BESIDE NAME=FIGURE...

Reads the flat JSON of each turn, PREFIX-this-TURN.json, and where BESIDE is 1 that of the other build,
PREFIX-beside-TURN.json. Prints one line of JSON: under NAME the median of FIGURE, and where there is another
build its median as beside_NAME, and the median of the quotients of one turn, this over the other, as
NAME_over_beside; what is the same in all turns of both is no figure of theirs, and printed once.
"""
import json
import statistics
import sys


def median(values):
    found = statistics.median(values)
    return values[0] if len(set(values)) == 1 else round(found, 4)


def figures(prefix, build, turns):
    return [json.load(open(f"{prefix}-{build}-{turn}.json")) for turn in range(1, turns + 1)]


def compared(name, mine, others):
    if len(set(mine + others)) == 1:
        return {name: mine[0]}
    found = {name: median(mine), f"beside_{name}": median(others)}
    if all(others):
        found[f"{name}_over_beside"] = round(statistics.median(a / b for a, b in zip(mine, others)), 3)
    return found


def main():
    prefix, turns, beside = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1"
    this = figures(prefix, "this", turns)
    other = figures(prefix, "beside", turns) if beside else None
    found = {}
    for pair in sys.argv[4:]:
        name, figure = pair.split("=")
        mine = [turn[figure] for turn in this]
        found.update(compared(name, mine, [turn[figure] for turn in other]) if other else {name: median(mine)})
    print(json.dumps(found))


main()
