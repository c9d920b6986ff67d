"""Each kind of call to the database fails at its k-th, for every k of two rounds, while clients work, of a start
and of a stop; or the process dies there, in the middle of what it writes. Afterwards rounds go on by themselves,
no update is missing or counted twice, and the history replays. A disk that fails is never taken for a damaged
database.

./tern test tries some ks of each kind, at even distances; with its long tests every one, until a run needs no fault.
"""

import signal

from faults import CALLS, FAULTS, KILL, LONG, fail_at_every_call, federation, spread, wait_until
from harness import BIN, check, main, run

VERSIONS = 2  # that a run has
# Calls that are tried, where it is more than one.
SAMPLE = {"write-kill": 4, "sync-kill": 2, "write-enospc": 2, "sync-eio": 2}
READS_OF_A_START = 8
SAMPLE_OF_STARTS = {"read-eio": 3, "read-short": 3, "open-emfile": 3}

def run_of_rounds(running):
    first = running.version()
    wait_until(lambda: running.version() >= first + VERSIONS, 30)

def fail_once(running, fault, k):
    """Whether there was a k-th call before the run was over; it failed then."""
    control, first = running.control, running.version()
    control.arm(fault, k, k)
    wait_until(lambda: control.failed > 0 or running.version() >= first + VERSIONS, 30)
    control.disarm()
    running.expect_progress(f"{fault} at call {k}")
    return control.failed > 0

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
        check("and can store updates" not in found and "but nothing can be stored: io: " in found, found)
        shown = running.aggregator.json("status")
        check(shown["now"].startswith("nothing can be stored: io: ") and "free space" in shown["advice"], str(shown))
    wait_until(lambda: control.failed > 40, 1)
    control.disarm()
    running.expect_progress(f"{fault} for a while")
    check(wait_until(lambda: running.ask("/readyz")[0] == 200, 10), "it is not ready again")
    expect_watched(running, stores=True)

def die_once(running, fault, k):
    """As when the power goes: what was being written is there by half."""
    process, first = running.aggregator.process, running.version()
    running.control.arm(fault, k, k)
    wait_until(lambda: process.poll() is not None or running.version() >= first + VERSIONS, 30)
    running.control.disarm()
    running.aggregator.kill()  # where that call did not come
    running.start()
    running.expect_progress(f"{fault} at call {k}")
    return running.control.failed > 0

def start_again(running):
    running.aggregator.kill(signal.SIGKILL)
    running.start()

def stop_and_start(running):
    running.aggregator.kill(signal.SIGTERM)
    running.start()

def fail_at_start(running, fault, k):
    """The service either comes up, or says that it was the disk."""
    running.aggregator.kill(signal.SIGKILL)
    running.control.arm(fault, k, k)
    running.start()
    running.control.disarm()
    failed, process = running.control.failed > 0, running.aggregator.process
    if failed and FAULTS[fault][1] == KILL:
        process.wait(timeout=30)  # it may have said that it listens before that call
    if process.poll() is not None:
        running.start()
    running.expect_progress(f"{fault} at call {k} of a start")
    return failed

def fail_at_stop(running, fault, k):
    """What is left over is in nobody's way."""
    running.control.arm(fault, k, k)
    running.aggregator.kill(signal.SIGTERM)
    running.control.disarm()
    running.start()
    running.expect_progress(f"{fault} at call {k} of a stop")
    return running.control.failed > 0

def fail_at_reads_of_a_start(running):
    """Reads of the start after a stop, whose log of changes is empty: a failure may pass before the next read."""
    reads = running.control.seen_during(lambda: stop_and_start(running))["read"]
    for k in range(1, reads + 1) if LONG else spread(reads, READS_OF_A_START):
        running.aggregator.kill(signal.SIGTERM)
        running.control.arm("read-eio", k, k)
        running.start()
        running.control.disarm()
        if running.aggregator.process.poll() is not None:
            running.start()
    running.expect_progress("read-eio at each read of a start")

def try_all(running, fault, runs):
    """The calls that failed, by when they did. runs: what happens, how it fails, its calls by kind."""
    call, error, _ = FAULTS[fault]
    tried = []
    for when, fail, calls in runs:
        fail = die_once if fail is fail_once and error == KILL else fail
        sample = SAMPLE if fail in (fail_once, die_once) else SAMPLE_OF_STARTS
        ks = fail_at_every_call(lambda k: fail(running, fault, k), calls[call], sample.get(fault, 1))
        tried += [f"{k}{when}" for k in ks]
    return tried

def init_at(running, state, fault, k):
    """Makes a federation beside the one that runs, where the k-th call fails or kills; then, where that was in its
    way, makes it all the same. Whether there was a k-th call."""
    killed = FAULTS[fault][1] == KILL
    running.control.arm(fault, k, k)
    command = [*running.aggregator.prefix, BIN / "tern-aggregator", "init", "--config",
               running.aggregator.config, "--state", state]
    run(*command, ok=(0, -signal.SIGKILL if killed else 1))
    running.control.disarm()
    made = (state / "tern.db").exists()
    if made:
        run(BIN / "tern-aggregator", "verify", "--config", running.aggregator.config, "--state", state)
    else:
        run(*command)
    return running.control.failed > 0

def fail_while_a_federation_is_made(running):
    """Nothing is served meanwhile, so that all calls are those of init. A database that is there is a whole one."""
    folder = running.aggregator.workspace.path
    running.aggregator.kill(signal.SIGTERM)
    calls = running.control.seen_during(lambda: init_at(running, folder / "init", "write-eio", 0))
    for fault, (call, _, _) in FAULTS.items():
        fail_at_every_call(lambda k: init_at(running, folder / f"init-{fault}-{k}", fault, k), calls[call],
                           3 if call in ("read", "write") else 1)
    running.start()

def test():
    with federation() as running:
        running.expect_progress("nothing")
        runs = [(when, fail, running.control.seen_during(lambda: happens(running)))
                for when, fail, happens in (("", fail_once, run_of_rounds), (" of a start", fail_at_start, start_again),
                                            (" of a stop", fail_at_stop, stop_and_start))]
        tried = {fault: try_all(running, fault, runs) for fault in FAULTS}
        fail_at_reads_of_a_start(running)
        fail_while_a_federation_is_made(running)
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
