#!/usr/bin/python3
"""A long download over connections that are cut: it goes on where it stopped, also when client or
aggregator were killed meanwhile, and a cut costs 64 KB at most."""

import signal
import time

from cut_client import BESIDE, VALUES_BYTES, WASTE, CutClient, settings
from cutting_proxy import PIECE, CuttingProxy
from harness import PATIENCE, Aggregator, Workspace, check, main

DOWNLOAD = VALUES_BYTES


def killed_while_it_receives(client):
    """Killed once what the proxy passed on is in the file, but for a piece that is no whole TLS record."""
    process = client.start_once()
    file = client.workspace.path / "client" / "download.part"
    deadline = time.monotonic() + PATIENCE
    while not file.exists() or file.stat().st_size < PIECE - WASTE / 2:
        check(time.monotonic() < deadline, "what came of the download is in no file")
        time.sleep(0.01)
    client.kill(process)
    client.proxy.end(*client.proxy.hanging)


def measured(proxy, what, step):
    """At least two cuts, and no more bytes down than the download, what goes beside, and for each cut half of what
    one may waste: one that wastes all of its piece shows among three."""
    passed, cuts, connections = proxy.passed, proxy.cuts, proxy.connections
    step()
    passed, cuts = proxy.passed - passed, proxy.cuts - cuts
    most = DOWNLOAD + 4_000 + cuts * WASTE // 2 + (proxy.connections - connections) * BESIDE
    check(cuts >= 2, f"{what}: {cuts} cuts")
    check(DOWNLOAD < passed < most, f"{what}: {passed} bytes down in {cuts} cuts, at most {most}")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings(codec="3lc:s=1", codec_down="float32")).start()
        proxy = CuttingProxy(aggregator.port, down=True)
        client = CutClient(workspace, aggregator, proxy)
        client.once()  # from the seed, without a download
        check(proxy.cuts == 0, "a round without a download was cut")

        measured(proxy, "cut", client.once)

        def kill_and_go_on():
            killed_while_it_receives(client)
            client.once()
        measured(proxy, "the client killed", kill_and_go_on)

        def kill_both_and_go_on():
            killed_while_it_receives(client)
            aggregator.kill()
            aggregator.start()
            client.once()
        measured(proxy, "both killed", kill_both_and_go_on)

        aggregator.kill(signal.SIGTERM)
        aggregator.verb("verify")
        print(f"{proxy.cuts} cuts, {proxy.passed} bytes down for three downloads of {DOWNLOAD}")


main(test)
