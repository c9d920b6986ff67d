"""plan: what a federation would need and cost. docs/SCALE.md shows its output for three sizes."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from cli import SOURCE, USAGE, VALUES, State  # noqa: E402
from harness import check, main  # noqa: E402

SIZES = (("10000", "1h", "100000"), ("100000", "1h", "100000"), ("100000", "1d", "10000000"))


def documented_figures_are_those_of_plan():
    state = State()
    page = (SOURCE / "docs" / "SCALE.md").read_text()
    shown = {row[1]: row[2:5] for line in page.splitlines()
             if len(row := [cell.strip() for cell in line.split("|")]) == 6}
    for column, (cohort, interval, values) in enumerate(SIZES):
        printed = state.run("plan", "--clients", "1000000", "--cohort", cohort, "--interval", interval, "--values", values).text
        lines = [line.rsplit("  ", 1) for line in printed.split("\n\n")[0].splitlines()[1:]]
        check(len(lines) == 18, printed)
        for name, figure in lines[4:]:
            documented = shown.get(name.strip(), (None,) * 3)[column]
            check(documented == figure.strip(), f"{name.strip()}: plan prints {figure.strip()}, SCALE.md has {documented}")


def figures_follow_the_settings():
    state = State()
    usual = state.json("plan", "--interval", "1h")
    check(usual["clients"] == 1000 and usual["rounds_a_day"] == 24 and usual["warning"] == "", str(usual))
    for name in ("memory", "disk", "in_a_month", "out_a_month", "device_price", "devices_price", "round_seconds"):
        check(usual[name] > 0, f"{name} of {usual}")
    # Sums that can be made by hand: a round of ten clients an hour, and 1.9 KB a day of each client.
    month = 30 * (24 * 10 * usual["client_round"] + 1900 * 1000)
    check(abs(month / 1000 / usual["device_a_month"] - 1) < 1e-9, f"{month} bytes a month, not those of {usual}")
    check(abs(usual["in_a_month"] + usual["out_a_month"] - month) < 1, f"both directions are {month}, not those of {usual}")
    check(abs(month / 1e9 / usual["devices_price"] - 1) < 1e-9, f"the price of {usual}")
    dear = state.json("plan", "--interval", "1h", "--device-price", "4")
    check(abs(dear["devices_price"] / usual["devices_price"] - 4) < 1e-9, f"four times the price in {dear}")
    plain = state.json("plan", "--interval", "1h", "--set", "codec.codec=float32")
    check(plain["client_round"] > 5 * usual["client_round"], f"float32 in {plain}")
    check(plain["devices_price"] < 1.1 * usual["devices_float32_price"], f"float32 is {plain}, beside {usual}")
    measured = state.json("plan", "--interval", "1h", "--measure")
    ratio = measured["round_seconds"] / usual["round_seconds"]
    check(measured["slowness"] > 0 and abs(ratio / measured["slowness"] - 1) < 1e-6, f"{measured} beside {usual}")
    slow = state.json("plan", "--clients", "100000", "--cohort", "100000", "--interval", "1m", "--values", "1000000")
    check("longer than round.min_interval = 1 m 0 s" in slow["warning"], str(slow))


def the_unit_allows_what_it_says():
    """The number of clients in the unit's comment fits its MemoryMax; for more, plan prints another one."""
    state = State()
    unit = (SOURCE / "configs/systemd/tern-aggregator.service").read_text()
    clients, values, limit = re.search(r"# Enough for (\d+) clients of a model of (\d+) values\..*\nMemoryMax=(\d+)G$", unit, re.MULTILINE).groups()
    size = ("plan", "--interval", "1h", "--values", values, "--clients")
    check(state.json(*size, clients)["unit_memory_max"] == int(limit) << 30, f"{clients} clients do not fit the unit")
    check("MemoryMax" not in state.run(*size, clients).text, "the unit's own MemoryMax is printed")
    more = state.json(*size, "1000000")
    shown = int(re.search(r"MemoryMax=(\d+)M$", state.run(*size, "1000000").text, re.MULTILINE)[1]) << 20
    check(1.25 * more["memory"] <= shown == more["unit_memory_max"] < 1.5 * more["memory"], f"{shown} bytes for {more}")


def a_federation_gives_its_model_and_clients():
    state = State(rounds=3)
    found = state.json("plan", "--interval", "1h", "--set", "round.cohort=2")
    enrolled = len(state.json("clients"))
    check((found["values"], found["clients"]) == (VALUES, enrolled), f"{enrolled} clients, and {found}")
    check(state.json("plan", "--interval", "1h", "--clients", "77")["clients"] == 77, "the option does not override")


def what_has_no_month_is_refused():
    state = State()
    state.run("plan", "--interval", "0", code=USAGE, says="give the time from round to round")
    state.run("plan", "--set", "round.rounds=10", code=USAGE, says="give the time from round to round")
    state.run("plan", "--cohort", "1001", code=USAGE, says="lower --cohort, or raise --clients")
    state.run("plan", "--clients", "0", code=USAGE, says="--clients")
    state.run("plan", "--values", "0", code=USAGE, says="--values")
    for price in ("-1", "cheap", "1x", "nan", ""):
        state.run("plan", "--device-price", price, code=USAGE, says="must be a price in USD")
    check(not state.path.exists(), "plan made a state directory")


def test():
    documented_figures_are_those_of_plan()
    figures_follow_the_settings()
    the_unit_allows_what_it_says()
    a_federation_gives_its_model_and_clients()
    what_has_no_month_is_refused()


main(test)
