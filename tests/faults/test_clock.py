"""The time of day is set while clients work, and between two runs: rounds go on by themselves."""

import re
import signal

from faults import federation
from harness import LONG, check, main

DAYS = [-1, 400, -400, 0.05, 0] if LONG else [-1, 400, 0]


def test():
    with federation({"round": {"deadline": "10s", "min_interval": "200ms"}}) as running:
        running.expect_progress("nothing")
        for days in DAYS:
            running.control.set_clock(days)
            running.expect_progress(f"the clock is {days} days off", versions=2)
        for days in (400, 0, -1, 0):
            running.aggregator.kill(signal.SIGKILL)
            running.control.set_clock(days)
            running.aggregator.start()
            running.expect_progress(f"a start with the clock {days} days off", versions=2)
        running.finish()
        log = running.log.read_text(errors="replace")
        check("18446744" not in log, "a time below zero is in the log")
        steps = [int(step) for step in re.findall(r"event=clock-was-set seconds=(-?\d+)", log)]
        for days in (400, -400, -1, 1):
            check(any(abs(step - days * 86400) <= 1 for step in steps[-4:]), f"{days} days are not among {steps}")


main(test)
