"""Bytes that an idle device moves on each of its days: the wire bytes of a check-in on a new connection, as a
client's own meter counts them, times how often the round machine has it look in (bench-idle-day), as JSON.

usage: idle.py BUILD_DIR AGGREGATOR_INI SERVER CA JOIN_CODE STATE_DIR

AGGREGATOR_INI: the settings that devices are idle under, as tern-aggregator --settings prints them. Each
check-in resumes the TLS session of the one before and is held for a while, then answered with a time to come
back.
"""
import configparser
import json
import subprocess
import sys

CHECKINS = 5
HELD_MS = 500  # longer than TCP waits with an acknowledgement that travels alone
WAIT_MS = 30000  # the default of client.wait, whose number takes a byte more
NOTHING_TO_DO = 4
DAYS = 30
UNITS = {"ms": 1, "s": 1000, "m": 60000, "h": 3600000, "d": 86400000}


def milliseconds(duration):
    number = duration.rstrip("dhms")
    return int(number) * UNITS[duration[len(number):]]


def wire_bytes(client, options):
    shown = subprocess.run(client + ["meter", "--json"] + options, check=True, capture_output=True, text=True)
    meter = json.loads(shown.stdout)
    return sum(meter[direction]["total"]["wire"] for direction in ("up", "down"))


def bytes_of_a_checkin(build, server, ca, code, state):
    """Returns the wire bytes of a check-in in both directions, including the resumed handshake."""
    client = [f"{build}/bin/tern-client"]
    options = ["--set", f"client.server={server}", "--set", f"client.ca={ca}", "--set",
               f"client.state_dir={state}", "--set", f"client.wait={HELD_MS}ms", "--set",
               "data.source=digits:train=60,test=10,size=28,seed=1"]

    def look_in():
        done = subprocess.run(client + ["once"] + options, capture_output=True, text=True)
        if done.returncode != NOTHING_TO_DO:
            raise RuntimeError(f"the check-in ended with {done.returncode}: {done.stderr[-500:]}")

    subprocess.run(client + ["enroll", code] + options, check=True, capture_output=True)
    look_in()
    before = wire_bytes(client, options)
    for _ in range(CHECKINS):
        look_in()
    return (wire_bytes(client, options) - before) / CHECKINS + 1


def main(build, settings, *enrolling):
    parser = configparser.ConfigParser(comment_prefixes=("#", ";"))
    parser.read(settings)
    waits = [milliseconds(parser["round"][key]) for key in ("come_back_min", "come_back_max", "deadline")]
    checkin = bytes_of_a_checkin(build, *enrolling)
    days = json.loads(subprocess.run([f"{build}/bench-bin/bench-idle-day", *map(str, waits), str(WAIT_MS)],
                                     check=True, capture_output=True, text=True).stdout)
    result = {"idle_checkin_wire": round(checkin)}
    for way in ("lonely", "stuck"):
        first, second, all_days = (days[f"{way}_{key}"] for key in ("first_day", "second_day", f"{DAYS}_days"))
        result |= {f"idle_{way}_checkins_in_{DAYS}_days": all_days,
                   f"idle_{way}_first_day_wire": round(first * checkin),
                   f"idle_{way}_second_day_wire": round(second * checkin),
                   f"idle_{way}_later_day_wire": round((all_days - first - second) / (DAYS - 2) * checkin),
                   f"idle_{way}_mean_day_wire": round(all_days / DAYS * checkin)}
    print(json.dumps(result, indent=1))


main(*sys.argv[1:])
