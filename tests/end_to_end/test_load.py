"""A crowd of clients (lab/bench/bench_crowd.c) on one aggregator: none is refused or loses its connection, in a
closed loop and in an open one; memory stays as it is over many updates; more than the service can take is
answered 503 with Retry-After, and over once the load is; after a restart clients come back by their TLS
tickets; idle connections cost little.

./tern test has a small crowd, ./tern test --all 10,000 enrolled and 2,000 connected clients. It prints what they
waited for.
"""

import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import time

from harness import BIN, LONG, PATIENCE, Aggregator, Workspace, check, main

BENCH = BIN.parent / "bench-bin"
IDLE_KB = 60  # of an idle connection
ACCEPTED = 'tern_updates_total{status="accepted"}'
GROWTH_KB = 16384  # of memory over all updates: caches of SQLite and malloc's arenas
# The small crowd ends after ENOUGH updates; the large one runs for its whole time. A quarter of the deadline, after
# which silent members are replaced, is more than it takes until each has asked.
if LONG:
    ENROLLED, CONNECTED, WORKERS, MS, ENOUGH, RATE, DEADLINE = 10000, 2000, 50, 30000, 0, 1000, "30s"
    CREW, UPDATES, RETURNING, IDLE, TOO_MANY = 200, 1000000, 1000, 5000, 64
else:
    ENROLLED, CONNECTED, WORKERS, MS, ENOUGH, RATE, DEADLINE = 24, 16, 8, 120000, 8, 400, "1s"
    CREW, UPDATES, RETURNING, IDLE, TOO_MANY = 16, 160, 16, 16, 32


@contextlib.contextmanager
def service(settings=None):
    given = {
        "federation": {"model": "softmax:64-10", "seed": 1},
        "server": {"threads": 2},
        "round": {"cohort": CONNECTED // 4, "over_selection": 0.2, "min_clients": 2, "deadline": DEADLINE,
                  "rounds": 0, "come_back_min": "10ms", "eligible_within": "5s"},
        "codec": {"codec": "3lc:s=1"},
        "limits": {"requests_per_minute": 0, "enrollments_per_minute": 0, "connections_per_address": 10000,
                   "connections": 10000, "history_bytes": 1 << 20},
    }
    for section, keys in (settings or {}).items():
        given[section].update(keys)
    with Workspace() as workspace:
        yield Aggregator(workspace, given).start()


def start_crowd(aggregator, **options):
    code = aggregator.join_code(uses=options["enrolled"])
    process = subprocess.Popen(
        [BENCH / "bench-crowd", aggregator.address, str(aggregator.port), aggregator.ca, code,
         *(f"{name}={number}" for name, number in options.items())], stdout=subprocess.PIPE, text=True)
    aggregator.workspace.processes.append(process)
    check(process.stdout.readline() == "connected\n", "the crowd did not come")
    return process


def end_crowd(what, process):
    found = json.loads(process.stdout.read())
    check(process.wait() == 0, f"{what}: the crowd failed")
    print(f"{what}: {json.dumps(found)}", flush=True)
    check(found["refused"] == 0, f"{what}: {found['refused']} requests were refused")
    return found


def crowd(what, aggregator, **options):
    found = end_crowd(what, start_crowd(aggregator, **options))
    check(found["disconnected"] == 0, f"{what}: {found['disconnected']} connections were lost")
    check(found["updates"] > 0, f"{what}: no update was accepted")
    return found


def resident_kb(aggregator):
    status = pathlib.Path(f"/proc/{aggregator.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def metric(aggregator, name):
    token = (aggregator.state / "admin.token").read_text().strip()
    with socket.socket(socket.AF_UNIX) as admin:
        admin.connect(str(aggregator.workspace.path / "admin.sock"))
        admin.sendall("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                      f"Authorization: Bearer {token}\r\n\r\n".encode())
        text = b"".join(iter(lambda: admin.recv(65536), b"")).decode()
    return float(text.split(f"\n{name} ")[1].split()[0])


def expect_quick_answers(aggregator, what, rate):
    found = crowd(what, aggregator, enrolled=ENROLLED, connected=CONNECTED, workers=WORKERS, ms=MS,
                  updates=ENOUGH, rate=rate)
    check(found["shed"] == 0, f"{what}: {found['shed']} requests were shed")


def expect_flat_memory():
    """After a tenth of the updates there is what the process takes once."""
    with service({"round": {"cohort": CREW, "over_selection": 0}}) as aggregator:
        process = start_crowd(aggregator, enrolled=CREW, connected=CREW, workers=WORKERS, ms=3600000,
                              updates=UPDATES)
        while metric(aggregator, ACCEPTED) < UPDATES / 10:
            check(process.poll() in (None, 0), "the crowd has failed")
            time.sleep(0.05)
        first = resident_kb(aggregator)
        end_crowd(f"{UPDATES} updates", process)
        last = resident_kb(aggregator)
        print(f"resident: {first} KB after a tenth of {UPDATES} updates, {last} KB after all", flush=True)
        check(last - first < GROWTH_KB, f"memory grows from {first} to {last} KB")


def expect_shedding():
    with service({"limits": {"queue": 16}}) as aggregator:
        shed, deadline = 0, time.monotonic() + PATIENCE
        while not shed and time.monotonic() < deadline:
            found = crowd("too much", aggregator, enrolled=TOO_MANY, connected=TOO_MANY, workers=TOO_MANY,
                          ms=MS, updates=ENOUGH)
            shed = found["shed"]
        check(shed > 0, "nothing was shed")
        check(found["shed_with_retry_after"] == shed, "who is shed is not told when to come again")
        found = crowd("afterwards", aggregator, enrolled=8, connected=8, workers=8, ms=MS, updates=ENOUGH or 8,
                      rate=RATE)
        check(found["shed"] == 0, f"{found['shed']} requests were shed after the overload")


def handshakes(aggregator, kind):
    return metric(aggregator, f'tern_http_handshakes_total{{kind="{kind}"}}')


def expect_tickets(aggregator):
    process = start_crowd(aggregator, enrolled=RETURNING, connected=RETURNING, workers=WORKERS, ms=600000)
    aggregator.kill(signal.SIGTERM)
    aggregator.start()
    began, deadline = time.monotonic(), time.monotonic() + PATIENCE
    while handshakes(aggregator, "resumed") < RETURNING and time.monotonic() < deadline:
        time.sleep(0.02)
    seconds = time.monotonic() - began
    while metric(aggregator, ACCEPTED) == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    found = end_crowd("a restart", process)
    resumed, full = handshakes(aggregator, "resumed"), handshakes(aggregator, "full")
    print(f"after the restart: {resumed:.0f} handshakes by ticket in {seconds:.1f} s, {full:.0f} full ones",
          flush=True)
    check(found["reconnected"] >= RETURNING, f"only {found['reconnected']} of {RETURNING} clients came back")
    check(full <= RETURNING / 100, f"{full} full handshakes")


def expect_cheap_idleness(aggregator):
    """All are known, connected, and ask once in a while."""
    before = resident_kb(aggregator)
    process = start_crowd(aggregator, enrolled=IDLE, connected=IDLE, workers=WORKERS, rate=1, ms=600000)
    connections = metric(aggregator, "tern_http_connections_open")
    grown = resident_kb(aggregator) - before
    process.send_signal(signal.SIGINT)
    end_crowd("idle", process)
    print(f"{connections:.0f} idle connections, {grown} KB", flush=True)
    check(connections >= IDLE, f"only {connections:.0f} of {IDLE} are connected")
    check(grown < IDLE * IDLE_KB + GROWTH_KB, f"{IDLE} idle connections cost {grown} KB")


def test():
    with service() as aggregator:
        expect_quick_answers(aggregator, "closed loop", 0)
    with service() as aggregator:
        expect_quick_answers(aggregator, "open loop", RATE)
        expect_cheap_idleness(aggregator)
        expect_tickets(aggregator)
    expect_flat_memory()
    expect_shedding()


main(test)
