"""Each kind of call to the database fails at its k-th, for every k of a round or two, while clients work, of
a start and of a stop; or the process dies there, in the middle of what it writes. Afterwards rounds go on by
themselves, no update is missing or counted twice, and the history replays. A disk that fails is never taken
for a damaged database.

./tern test tries some ks of each kind; ./tern test --all every one.
"""

import random
import signal

from faults import CALLS, FAULTS, KILL, federation, wait_until
from harness import BIN, LONG, check, main, run

CALLS_OF_A_ROUND = {"write": 120, "sync": 16, "lock": 60, "truncate": 2}
CALLS_OF_A_STOP = {"delete": 2}
SAMPLE = {"read-eio": 3, "read-short": 3, "open-emfile": 6, "write-kill": 8, "sync-kill": 3}
SEED = 15


def ks_of(fault, most):
    """The calls of `most` to try: of kinds that hardly ever happen none but by ./tern test --all."""
    every = range(1, most + 1)
    sample = 0 if FAULTS[fault][0] == "truncate" else SAMPLE.get(fault, 1)
    return every if LONG else sorted(random.Random(f"{SEED} {fault}").sample(every, min(sample, most)))


def fail_once(running, fault, k):
    """Whether there was a k-th call; it failed then."""
    control = running.control
    control.arm(fault, k, k)
    reached = wait_until(lambda: control.failed > 0, 10)
    control.disarm()
    running.expect_progress(f"{fault} at call {k}")
    return reached


def expect_watched(running, stores):
    """What those who watch over the service are told: that it answers, and whether it can store."""
    status, why = running.ask("/readyz")
    check(status == (200 if stores else 503), f"readyz answered {status} {why}")
    check(stores or why.startswith("nothing can be stored: io: "), f"readyz says {why}")
    check(running.ask_in_public("/readyz") == ((200, "ok\n") if stores else (503, "nothing can be stored\n")),
          "the public readyz answers another thing")
    for ask in (running.ask, running.ask_in_public):
        check(ask("/healthz") == (200, "ok\n"), "the service is alive, whatever its disk does")
    status, text = running.ask("/metrics")
    check(status == 200, f"metrics were answered {status}")
    check(f"\ntern_store_writable {int(stores)}\n" in text, f"metrics of a store that stores: {stores}")
    check("\ntern_clients 3\n" in text, "the metrics have forgotten who is enrolled")


def fail_for_a_while(running, fault):
    """As a full disk does: all calls, until there is room again. Batches without anything to write go through
    meanwhile, and tell nobody that it was over."""
    control = running.control
    control.arm(fault, 1, 1 << 62)
    if FAULTS[fault][0] in ("write", "sync"):
        check(wait_until(lambda: running.ask("/readyz")[0] == 503, 10), "it claims to be ready")
        for _ in range(20):
            expect_watched(running, stores=False)
        found = running.aggregator.verb("doctor", "--json", ok=(1,))
        check("and stores what comes" not in found and "but nothing can be stored: io: " in found, found)
        shown = running.aggregator.json("status")
        check(shown["now"].startswith("nothing can be stored: io: ") and "make room" in shown["advice"], str(shown))
    wait_until(lambda: control.failed > 40, 1)
    control.disarm()
    running.expect_progress(f"{fault} for a while")
    check(wait_until(lambda: running.ask("/readyz")[0] == 200, 10), "it is not ready again")
    expect_watched(running, stores=True)


def die_once(running, fault, k):
    """As when the power goes: what was being written is there by half."""
    process = running.aggregator.process
    running.control.arm(fault, k, k)
    died = wait_until(lambda: process.poll() is not None, 10)
    running.control.disarm()
    running.aggregator.kill()  # where that call did not come
    running.start()
    running.expect_progress(f"{fault} at call {k}")
    return died


def calls_of_a_start(running):
    """How many there are of each kind, after a kill."""
    running.aggregator.kill(signal.SIGKILL)
    before = {call: running.control.seen(call) for call in CALLS}
    running.start()
    return {call: running.control.seen(call) - before[call] for call in CALLS}


def fail_at_start(running, fault, k):
    """The service either comes up, or says that it was the disk."""
    running.aggregator.kill(signal.SIGKILL)
    running.control.arm(fault, k, k)
    running.start()
    running.control.disarm()
    if running.aggregator.process.poll() is not None:
        running.start()
    running.expect_progress(f"{fault} at call {k} of a start")
    return running.control.failed > 0


def fail_at_stop(running, fault, k):
    """What is left over is in nobody's way."""
    running.control.arm(fault, k, k)
    running.aggregator.kill(signal.SIGTERM)
    running.control.disarm()
    running.start()
    running.expect_progress(f"{fault} at call {k} of a stop")
    return running.control.failed > 0


def try_all(running, fault, at_start):
    """The calls that failed, by when they did."""
    call, error, _ = FAULTS[fault]
    once = die_once if error == KILL else fail_once
    times = [("", once, CALLS_OF_A_ROUND), (" of a stop", fail_at_stop, CALLS_OF_A_STOP)]
    if error != KILL:
        times.append((" of a start", fail_at_start, at_start))
    return [f"{k}{when}" for when, fail, calls in times for k in ks_of(fault, calls.get(call, 0))
            if fail(running, fault, k)]


def start_at(running, state, fault, k):
    """Makes a federation beside the one that runs, and dies at that call; then makes it all the same."""
    running.control.arm(fault, k, k)
    command = [*running.aggregator.prefix, BIN / "tern-aggregator", "init", "--config",
               running.aggregator.config, "--state", state]
    run(*command, ok=(-signal.SIGKILL,))
    running.control.disarm()
    check(not (state / "tern.db").exists(), f"init leaves half a database: {fault} at call {k}")
    run(*command)
    run(BIN / "tern-aggregator", "verify", "--config", running.aggregator.config, "--state", state)


def die_while_a_federation_is_made(running):
    """Nothing is served meanwhile, so that all calls are those of init."""
    folder = running.aggregator.workspace.path
    running.aggregator.kill(signal.SIGTERM)
    before = running.control.seen("write")
    start_at(running, folder / "init0", "sync-kill", 1)
    writes = running.control.seen("write") - before
    for k in ks_of("write-kill", writes // 2) if LONG else (1, writes // 4, writes // 2):
        start_at(running, folder / f"init{k}", "write-kill", k)
    running.start()


def test():
    with federation() as running:
        running.expect_progress("nothing")
        at_start = calls_of_a_start(running)
        tried = {fault: try_all(running, fault, at_start) for fault in FAULTS}
        die_while_a_federation_is_made(running)
        for fault in [fault for fault in FAULTS if not fault.endswith("-kill")] if LONG else ("write-enospc",):
            fail_for_a_while(running, fault)
        updates = running.finish()
        log = running.log.read_text(errors="replace")
        print(f"{updates} updates are applied once; calls that failed: "
              + ", ".join(f"{fault} {len(ks)}" for fault, ks in tried.items()))
        for said in ("restore a backup", "event=halted"):
            check(said not in log, f"a failing disk was taken for damage: {said}")
        for fault in FAULTS:
            check(tried[fault] or fault == "truncate-eio", f"{fault}: no call was reached")


main(test)
