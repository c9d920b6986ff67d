"""Whole federations under each train.schedule, with unequal devices: what each client was told
to train, as `tern-aggregator schedule` has it, is what its measured speed, its bytes, the losses or the
round say it must be, and is what it did."""
import json
import math
import pathlib
import re
import struct
import sys
import time

TESTS = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "end_to_end"), str(TESTS / "reference")]
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main  # noqa: E402
from tern_reference import draws  # noqa: E402

CLIENTS, STEPS, DENSITY, SEED = 4, 8, 0.2, 3
START = 4  # steps of the first rounds over those configured, by default
FLEET, DRAW_SPEED, DRAW_BUDGET = 64, 0, 1  # tern_prng's purpose, and numbers of a device's draws
RUNGS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002)  # that a budget may cut it to
NUMBER = "([0-9.]+)"
BYTES = "([0-9.]+ (?:B|KB|MB))"


def drawn(client, which, least, spread):
    """What the settings give a device (fleet/device.c), by the reference's random numbers."""
    draw = draws.block(SEED, FLEET, client, 0, 0)[which]
    return least * spread ** draws.uniform(draw)


def bytes_of(text):
    number, unit = text.split()
    return float(number) * {"B": 1, "KB": 1e3, "MB": 1e6}[unit]


class Federation:
    """One that has finished: what its clients were told, and what they did."""

    def __init__(self, policy, *settings, rounds=6, local_steps=STEPS, keys="", **timing):
        with Workspace() as workspace:
            aggregator = Aggregator(workspace, {
                "federation": {"model": "mlp:256-128-10", "seed": 5},
                "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS,
                          "rounds": rounds, "deadline": "10s", "come_back_min": "10ms",
                          "come_back_max": "50ms"} | timing,
                "train": {"local_steps": local_steps, "batch_size": 16, "learning_rate": 0.1, "schedule": policy + keys},
                "codec": {"codec": f"density:p={DENSITY},coder=range",
                          "codec_down": "density:p=0.05,coder=range"},
            }).start()
            results = workspace.path / "results.json"
            options = [part for setting in settings for part in ("--set", setting)]
            fleet = workspace.start(
                BIN / "tern-fleet", "run", "--results", results,
                "--set", f"fleet.server={aggregator.url}", "--set", f"fleet.ca={aggregator.ca}",
                "--set", f"fleet.join_code={aggregator.join_code(uses=CLIENTS + 1)}",
                "--set", f"fleet.clients={CLIENTS}", "--set", f"fleet.seed={SEED}",
                "--set", "data.source=digits:train=600,test=100,size=16,seed=1", *options,
                log="fleet")
            self.told = {client: [] for client in range(1, CLIENTS + 1)}
            end = time.monotonic() + PATIENCE
            while fleet.poll() is None:
                check(time.monotonic() < end, "the fleet does not end")
                self.look(aggregator, policy)
                time.sleep(0.05)
            check(fleet.returncode == 0, (workspace.path / "fleet.log").read_text())
            self.look(aggregator, policy)
            self.result = json.loads(results.read_text())
            self.losses = [row["median_loss"] for row in aggregator.json("rounds")]
        check(self.result["rounds"] == rounds, f"{policy}: {self.result}")
        self.steps = {}  # by version
        for version, client, steps in zip(self.result["record_version"],
                                          self.result["record_client"],
                                          self.result["record_steps"]):
            self.steps.setdefault(version, {})[client] = steps
        for client, rows in self.told.items():
            did = [steps[client] for _, steps in sorted(self.steps.items()) if client in steps]
            check(len(rows) > 0, f"{policy}: client {client} was told nothing")
            check(client not in self.steps[rounds] or did[-1] == rows[-1]["local_steps"],
                  f"{policy}: client {client} did {did}, and was told {rows[-1]}")
            check(policy == "budget" or {row["local_steps"] for row in rows} <= set(did),
                  f"{policy}: client {client} did {did}, and was told {rows}")

    def look(self, aggregator, policy):
        """Tasks are given too quickly to see all."""
        for row in aggregator.json("schedule"):
            check(row["policy"] == policy, f"{row}")
            rows = self.told[int(row["name"].removeprefix("fleet-"))]
            if not rows or rows[-1]["updated_ms"] != row["updated_ms"]:
                rows.append(row)

    def steps_of(self, version):
        """That all clients did."""
        check(len(self.steps[version]) == CLIENTS, f"round {version}: {self.steps}")
        steps = set(self.steps[version].values())
        check(len(steps) == 1, f"round {version}: {self.steps}")
        return steps.pop()


def matched(pattern, row):
    match = re.fullmatch(pattern, row["reason"])
    check(match is not None, f"not '{pattern}': {row}")
    return match.groups()


def deadline():
    window, fraction, least, spread = 40, 0.05, 2, 20
    done = Federation("deadline", f"fleet.speed={least}", f"fleet.speed_spread={spread}",
                      keys=f":fraction={fraction}", deadline=f"{window}s")
    check(done.steps_of(1) == STEPS, "no speed was known before the first report")
    for client, rows in done.told.items():
        row = rows[-1]
        speed, left, share = map(float, matched(
            f"deadline: {NUMBER} steps/s x {NUMBER} s x {NUMBER}", row))
        check(abs(speed / drawn(client, DRAW_SPEED, least, spread) - 1) < 0.02, f"{row}")
        check(window / 2 < left <= window and share == fraction, f"{row}")
        check(abs(row["local_steps"] + 0.5 - speed * left * share) < 0.6, f"{row}")
    steps = [rows[-1]["local_steps"] for rows in done.told.values()]
    check(max(steps) > 3 * min(steps), f"unequal devices were given {steps} steps")


def bits(density):
    """Returns the entropy of a value that is sent, with its sign, with this probability."""
    zero = 1 - density
    return density - density * math.log2(density) - zero * math.log2(zero)


def expect_cut(row):
    """What a round takes is linear in the bits of a value, and the steps grow by as much as it falls."""
    match = re.fullmatch("density:p=([0-9.]+),coder=range", row["codec"])
    check(match is not None and float(match[1]) in RUNGS, f"{row}")
    check(row["local_steps"] > STEPS, f"{row}")
    if float(match[1]) > RUNGS[-1]:
        slope = (row["round_bytes"] - row["least_bytes"]) / (bits(float(match[1])) - bits(RUNGS[-1]))
        usual = row["least_bytes"] + slope * (bits(DENSITY) - bits(RUNGS[-1]))
        steps = STEPS * usual / row["round_bytes"]
        check(abs(row["local_steps"] + 0.5 - steps) < 1, f"{row}: {steps} steps")


def expect_within(row, most, rounds):
    """Returns what was left."""
    left, allowed, takes, dear, more = matched(
        f"budget: {BYTES} left, {BYTES} a round, takes {BYTES}(?: \\(estimated\\))?"
        f"(?:, so 1 of {NUMBER} rounds)?(, more steps for it)?", row)
    left, allowed, takes = map(bytes_of, (left, allowed, takes))
    check(left < most, f"{row} after {most}")
    to_go = round(left / allowed)
    check(1 <= to_go <= rounds and abs(left / allowed - to_go) < 0.02, f"{row}")
    check(abs(row["round_bytes"] - takes) < 6, f"{row}")
    check((dear is not None) == (takes > allowed), f"{row}")
    check(takes <= allowed or row["round_bytes"] == row["least_bytes"], f"{row}")
    check((more is not None) == (row["codec"] != ""), f"{row}")
    if row["codec"] != "":
        expect_cut(row)
    else:
        check(row["local_steps"] == STEPS, f"{row}")
    return left


def budget():
    least, spread, rounds = 8000, 20, 4
    # Rounds of more than a second, so that the bytes of one are counted before the next.
    done = Federation("budget", f"fleet.budget={least}", f"fleet.budget_spread={spread}",
                      rounds=rounds, quorum=CLIENTS - 1, deadline="2s", min_interval="1050ms",
                      keys=f":density={RUNGS[-1]}")
    budgets = {client: drawn(client, DRAW_BUDGET, least, spread) for client in done.told}
    for client, rows in done.told.items():
        left = budgets[client]
        for row in rows:
            left = expect_within(row, left, rounds)
    cut = {client for client, rows in done.told.items() if any(row["codec"] for row in rows)}
    check(min(budgets, key=budgets.get) in cut, f"none of {budgets} but {cut} was cut")
    check(max(budgets, key=budgets.get) not in cut, f"of {budgets} {cut} were cut")


def adaptive(most):
    """Returns whether losses stalled."""
    gamma = 0.9
    done = Federation("adaptive", local_steps=most // START, keys=f":interval=1,gamma={gamma}")
    first, *losses = [struct.unpack("f", struct.pack("f", loss))[0] for loss in done.losses]
    steps = [most, most]
    stalled = set()
    for loss in losses[:-1]:
        usual = math.ceil(math.sqrt(loss / first) * most)
        stalled.add(usual >= steps[-1])
        least = (most // START + 1) // 2
        steps.append(max(least, int(steps[-1] * gamma) if usual >= steps[-1] else usual))
    check([done.steps_of(version + 1) for version in range(len(steps))] == steps,
          f"{done.steps} by {done.losses}")
    for rows in done.told.values():
        check(rows[-1]["reason"] == f"adaptive: loss {losses[-2]:.2f} of {first:.2f}", f"{rows[-1]}")
    return stalled


def test():
    deadline()
    budget()
    check(adaptive(20) | adaptive(36) == {False, True}, "losses that fall fast and slowly")


main(test)
