#!/usr/bin/python3
"""A long download over connections that are cut: it goes on where it stopped, also when client or
aggregator were killed meanwhile, and a cut costs 64 KB at most."""

import signal
import subprocess
import time

from cutting_proxy import PIECE, CuttingProxy
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

DOWNLOAD = 68_000 * 4  # bytes, a little less than it has
WASTE = 65_536  # of a cut
BESIDE = 4_000  # of a connection: handshake, answers


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


def killed_while_it_receives(workspace, aggregator, proxy):
    """Killed once what the proxy passed on is in the file, but for a piece that is no whole TLS record."""
    proxy.hold = True
    process = workspace.start(*command(workspace, aggregator, proxy, "once"), log="client")
    check(proxy.held.wait(PATIENCE), "the download was not sent")
    file = workspace.path / "client" / "download.part"
    deadline = time.monotonic() + PATIENCE
    while not file.exists() or file.stat().st_size < PIECE - WASTE / 2:
        check(time.monotonic() < deadline, "what came of the download is in no file")
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    proxy.hold = False
    proxy.held.clear()
    proxy.end(*proxy.hanging)


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
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-256-10", "seed": 3},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "10m", "rounds": 9},
            "train": {"local_steps": 1, "batch_size": 8, "learning_rate": 0.05},
            "codec": {"codec": "3lc:s=1", "codec_down": "float32"},
        }).start()
        proxy = CuttingProxy(aggregator.port, down=True)
        subprocess.run(command(workspace, aggregator, proxy, "enroll", aggregator.join_code()), check=True,
                       stdout=subprocess.DEVNULL)
        once(workspace, aggregator, proxy)  # from the seed, without a download
        check(proxy.cuts == 0, "a round without a download was cut")

        measured(proxy, "cut", lambda: once(workspace, aggregator, proxy))

        def kill_and_go_on():
            killed_while_it_receives(workspace, aggregator, proxy)
            once(workspace, aggregator, proxy)
        measured(proxy, "the client killed", kill_and_go_on)

        def kill_both_and_go_on():
            killed_while_it_receives(workspace, aggregator, proxy)
            aggregator.kill()
            aggregator.start()
            once(workspace, aggregator, proxy)
        measured(proxy, "both killed", kill_both_and_go_on)

        aggregator.kill(signal.SIGTERM)
        aggregator.verb("verify")
        print(f"{proxy.cuts} cuts, {proxy.passed} bytes down for three downloads of {DOWNLOAD}")


main(test)
