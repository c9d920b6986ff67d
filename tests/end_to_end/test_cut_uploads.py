#!/usr/bin/python3
"""A long update over connections that are cut: it goes on where it stopped, also when client or
aggregator were killed meanwhile, is accepted once, and each of its bytes is metered once."""

import signal
import sqlite3
import time

from cut_client import BESIDE, VALUES_BYTES, WASTE, CutClient, settings
from cutting_proxy import PIECE, CuttingProxy
from harness import PATIENCE, Aggregator, Workspace, check, main

UPDATE = VALUES_BYTES
UPLOAD = 4  # the purpose's number in the database


def killed_while_it_sends(client):
    """The proxy holds the connection, so that the client's end is not the aggregator's."""
    client.kill(client.start_once())


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


def metered(aggregator, where, table="meter"):
    with sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True) as database:
        return database.execute(f"select sum(up_tls), sum(up_payload) from {table} where {where}").fetchone()


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings(codec="float32")).start()
        proxy = CuttingProxy(aggregator.port)
        client = CutClient(workspace, aggregator, proxy)

        passed, most = measured(proxy, client.once)
        check(proxy.cuts >= 2, f"{proxy.cuts} cuts")
        check(UPDATE < passed < most, f"cut: {passed} bytes up, at most {most}")

        def kill_and_go_on():
            killed_while_it_sends(client)
            client.once()
        passed, most = measured(proxy, kill_and_go_on)
        check(UPDATE < passed < most, f"the client killed: {passed} bytes up, at most {most}")

        proxy.end(*proxy.hanging)
        end = time.monotonic() + PATIENCE
        while aggregator.metrics()["tern_http_connections_open"] > 0:  # it has not read all that the proxy passed on
            check(time.monotonic() < end, "connections that have ended stay open")
            time.sleep(0.01)
        aggregator.kill(signal.SIGTERM)
        whole, payload = metered(aggregator, "client = 1")
        uploads, _ = metered(aggregator, f"trains = 1 and purpose = {UPLOAD}", "purpose_totals")
        everybody, _ = metered(aggregator, "true")
        check(everybody == proxy.passed, f"{proxy.passed} bytes went up, {everybody} were metered")
        check(everybody - whole < BESIDE, f"{everybody - whole} bytes are counted for nobody")
        check(2 * UPDATE < payload < uploads < whole, f"payload {payload} of uploads {uploads} of {whole}")
        check(payload < 2 * UPDATE + 8_000, f"payload of two updates: {payload}")

        def kill_both_and_go_on():
            killed_while_it_sends(client)
            wait_for_file(aggregator)
            aggregator.kill()
            aggregator.start()
            client.once()
        aggregator.start()
        passed, most = measured(proxy, kill_both_and_go_on)
        check(UPDATE < passed < most, f"both killed: {passed} bytes up, at most {most}")

        def kill_the_aggregator_alone():
            """The client knows by itself that the connection broke, and asks."""
            process = client.start_once()
            wait_for_file(aggregator)
            with proxy.door:
                aggregator.kill()
                aggregator.start()
                client.let_go()
            check(process.wait(PATIENCE) == 0, "the client did not go on")
        passed, most = measured(proxy, kill_the_aggregator_alone)
        check(UPDATE < passed < most, f"the aggregator killed: {passed} bytes up, at most {most}")

        aggregator.kill(signal.SIGTERM)
        check(not list((aggregator.state / "uploads").iterdir()), "files are left of updates that are stored")
        aggregator.verb("verify")
        print(f"{proxy.cuts} cuts, {proxy.passed} bytes up for three updates of {UPDATE}")


main(test)
