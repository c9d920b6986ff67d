"""What the tests of cut connections share: a federation of one client, whose connections go through a proxy."""
import signal
import subprocess

from harness import BIN, PATIENCE, check

VALUES_BYTES = 68_000 * 4  # of mlp:256-256-10 in float32, a little less than they are
WASTE = 65_536  # of a cut
BESIDE = 4_000  # of a connection: handshake, check-in, answers


def settings(**codec):
    return {
        "federation": {"model": "mlp:256-256-10", "seed": 3},
        "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "10m", "rounds": 9},
        "train": {"local_steps": 1, "batch_size": 8, "learning_rate": 0.05},
        "codec": codec,
    }


class CutClient:
    """A client behind a proxy (CuttingProxy) before its aggregator."""

    def __init__(self, workspace, aggregator, proxy):
        self.workspace, self.aggregator, self.proxy = workspace, aggregator, proxy
        subprocess.run(self.command("enroll", aggregator.join_code()), check=True, stdout=subprocess.DEVNULL)

    def command(self, verb, *arguments):
        chosen = [f"client.server=https://127.0.0.1:{self.proxy.port}", f"client.ca={self.aggregator.ca}",
                  f"client.state_dir={self.workspace.path}/client", "client.wait=0", "client.retry_min=100ms",
                  "client.retry_max=1s", "data.source=digits:train=200,test=50,size=16"]
        return [BIN / "tern-client", verb, *arguments, *(part for one in chosen for part in ("--set", one))]

    def once(self):
        done = subprocess.run(self.command("once"), capture_output=True, text=True, timeout=PATIENCE)
        check(done.returncode == 0, f"once exited {done.returncode}: {done.stderr}")
        check("answer=accepted" in done.stderr, f"the update was not accepted: {done.stderr}")

    def start_once(self):
        """Until the proxy, which then holds the connection, has passed on a piece."""
        self.proxy.hold = True
        process = self.workspace.start(*self.command("once"), log="client")
        check(self.proxy.held.wait(PATIENCE), "nothing long was sent")
        return process

    def let_go(self):
        self.proxy.hold = False
        self.proxy.held.clear()

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.let_go()
