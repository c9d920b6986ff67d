#!/usr/bin/env python3
"""How often a helper would refuse honest lists if it refused every list that differs from an earlier one by fewer than some
devices: docs/SECURITY.md, "Sums of many rounds". Devices drop out of 5 % of the rounds that they are drawn for.
"""
import random

ROUNDS, TRIALS, DROPOUTS = 100, 3, 0.05
FEDERATIONS = ((60, 60), (100, 100), (1000, 1000), (100, 80), (100, 50), (1000, 100))  # devices, cohort
LIMITS = (2, 3, 10, 50)


def refused(devices, cohort, limit):
    """The share of rounds whose list is near the list before, and near any earlier list."""
    draw = random.Random(34)
    last = anyone = 0
    for _ in range(TRIALS):
        lists = []
        for _ in range(ROUNDS):
            members = sum(1 << device for device in draw.sample(range(devices), cohort) if draw.random() >= DROPOUTS)
            near = [0 < bin(members ^ earlier).count("1") < limit for earlier in lists]
            last += bool(near) and near[-1]
            anyone += any(near)
            lists.append(members)
    return last / TRIALS / (ROUNDS - 1), anyone / TRIALS / (ROUNDS - 1)


def main():
    print("devices  cohort  limit  near the last  near any")
    for devices, cohort in FEDERATIONS:
        for limit in LIMITS:
            last, anyone = refused(devices, cohort, limit)
            print(f"{devices:>7}  {cohort:>6}  {limit:>5}  {last:>13.1%}  {anyone:>8.1%}")


if __name__ == "__main__":
    main()
