#!/usr/bin/python3
"""A long update over connections that are cut: it goes on where it stopped, also when client or
aggregator were killed meanwhile, is accepted once, and each of its bytes is metered once."""

import signal
import sqlite3
import subprocess
import time

from cutting_proxy import PIECE, CuttingProxy
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

UPDATE = 68_000 * 4  # bytes, a little less than it has
WASTE = 65_536  # of a cut
UPLOAD = 4  # the purpose's number in the database
BESIDE = 4_000  # of a connection: handshake, check-in, the question


def command(workspace, aggregator, proxy, verb, *arguments):
    settings = [f"client.server=https://127.0.0.1:{proxy.port}", f"client.ca={aggregator.ca}",
                f"client.state_dir={workspace.path}/client", "client.wait=0", "client.retry_min=100ms",
                "client.retry_max=1s", "data.source=digits:train=200,test=50,size=16"]
    return [BIN / "tern-client", verb, *arguments, *(part for one in settings for part in ("--set", one))]


def once(workspace, aggregator, proxy):
    done = subprocess.run(command(workspace, aggregator, proxy, "once"), capture_output=True, text=True,
                          timeout=PATIENCE)
    check(done.returncode == 0, f"once exited {done.returncode}: {done.stderr}")
    check("answer=accepted" in done.stderr, f"the update was not accepted: {done.stderr}")
    return done.stderr


def killed_while_it_sends(workspace, aggregator, proxy):
    """The proxy holds the connection, so that the client's end is not the aggregator's."""
    proxy.hold = True
    process = workspace.start(*command(workspace, aggregator, proxy, "once"), log="client")
    check(proxy.held.wait(PATIENCE), "the update was not sent")
    process.send_signal(signal.SIGKILL)
    process.wait()
    proxy.hold = False
    proxy.held.clear()


def wait_for_file(aggregator):
    """What the proxy passed on is in a file, but for a piece that is no whole TLS record."""
    deadline = time.monotonic() + PATIENCE
    while not any(file.stat().st_size > PIECE - WASTE / 2 for file in (aggregator.state / "uploads").iterdir()):
        check(time.monotonic() < deadline, "what came of the update is in no file")
        time.sleep(0.01)


def measured(proxy, step):
    """Bytes that went up meanwhile, and an update's share of waste for each cut."""
    passed, cuts, connections = proxy.passed, proxy.cuts, proxy.connections
    step()
    return (proxy.passed - passed,
            UPDATE + 4_000 + (proxy.cuts - cuts) * WASTE + (proxy.connections - connections) * BESIDE)


def metered(aggregator, where):
    with sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True) as database:
        return database.execute(f"select sum(up_tls), sum(up_payload) from meter where {where}").fetchone()


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-256-10", "seed": 3},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "10m", "rounds": 9},
            "train": {"local_steps": 1, "batch_size": 8, "learning_rate": 0.05},
            "codec": {"codec": "float32"},
        }).start()
        proxy = CuttingProxy(aggregator.port)
        subprocess.run(command(workspace, aggregator, proxy, "enroll", aggregator.join_code()), check=True,
                       stdout=subprocess.DEVNULL)

        passed, most = measured(proxy, lambda: once(workspace, aggregator, proxy))
        check(proxy.cuts >= 2, f"{proxy.cuts} cuts")
        check(UPDATE < passed < most, f"cut: {passed} bytes up, at most {most}")

        def kill_and_go_on():
            killed_while_it_sends(workspace, aggregator, proxy)
            once(workspace, aggregator, proxy)
        passed, most = measured(proxy, kill_and_go_on)
        check(UPDATE < passed < most, f"the client killed: {passed} bytes up, at most {most}")

        proxy.end(*proxy.hanging)
        aggregator.kill(signal.SIGTERM)
        client, payload = metered(aggregator, "client = 1")
        uploads, _ = metered(aggregator, f"client = 1 and purpose = {UPLOAD}")
        everybody, _ = metered(aggregator, "true")
        check(everybody == proxy.passed, f"{proxy.passed} bytes went up, {everybody} were metered")
        check(everybody - client < BESIDE, f"{everybody - client} bytes are counted for nobody")
        check(2 * UPDATE < payload < uploads < client, f"payload {payload} of uploads {uploads} of {client}")
        check(payload < 2 * UPDATE + 8_000, f"payload of two updates: {payload}")

        def kill_both_and_go_on():
            killed_while_it_sends(workspace, aggregator, proxy)
            wait_for_file(aggregator)
            aggregator.kill()
            aggregator.start()
            once(workspace, aggregator, proxy)
        aggregator.start()
        passed, most = measured(proxy, kill_both_and_go_on)
        check(UPDATE < passed < most, f"both killed: {passed} bytes up, at most {most}")

        def kill_the_aggregator_alone():
            """The client knows by itself that the connection broke, and asks."""
            proxy.hold = True
            process = workspace.start(*command(workspace, aggregator, proxy, "once"), log="client")
            check(proxy.held.wait(PATIENCE), "the update was not sent")
            wait_for_file(aggregator)
            with proxy.door:
                aggregator.kill()
                aggregator.start()
                proxy.hold = False
                proxy.held.clear()
            check(process.wait(PATIENCE) == 0, "the client did not go on")
        passed, most = measured(proxy, kill_the_aggregator_alone)
        check(UPDATE < passed < most, f"the aggregator killed: {passed} bytes up, at most {most}")

        aggregator.kill(signal.SIGTERM)
        check(not list((aggregator.state / "uploads").iterdir()), "files are left of updates that are stored")
        aggregator.verb("verify")
        print(f"{proxy.cuts} cuts, {proxy.passed} bytes up for three updates of {UPDATE}")


main(test)
