"""A state directory has one service at a time: a second one is told so before it touches the
database, and may start once the first is gone, however that ended."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, Aggregator, Workspace, check, main  # noqa: E402

def serve_elsewhere(aggregator):
    """A second service on ports of its own."""
    return subprocess.run([BIN / "tern-aggregator", "serve", "--config", aggregator.config,
                           "--set", "server.port=0", "--set", "admin.address=",
                           "--set", f"server.port_file={aggregator.workspace.path}/other-port"],
                          capture_output=True, text=True, timeout=150, check=False)

def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:8-2"}}).start()
        try:
            second = serve_elsewhere(aggregator)
        except subprocess.TimeoutExpired:
            check(False, "a second service runs on the same state directory")
        check(second.returncode == 1, f"the second service ended with {second.returncode}")
        check(f"{aggregator.state} is served by another process {aggregator.process.pid}: stop" in second.stderr, f"it says {second.stderr!r}")
        check(not (workspace.path / "other-port").exists(), "the second service listened")
        check(aggregator.process.poll() is None, "the first service ended")

        aggregator.kill()
        aggregator.start()
        check(aggregator.json("status")["rounds_committed"] == 0, "it did not start after a kill")

main(test)
