"""A participation on a kept connection is a check-in and an update, and moves few bytes beside its tensors:
a fleet of which each round asks a part, read from the aggregator's meter as ./tern bench participation does."""
import pathlib
import signal
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "end_to_end"), str(ROOT / "lab" / "bench")]
from harness import BIN, Aggregator, Workspace, check, main, run  # noqa: E402
from participation import figures  # noqa: E402

CLIENTS, COHORT, ROUNDS = 10, 2, 14

# Requests, answers, TLS records and a segment each; acknowledgements that travel alone depend on the
# clock, and are left to the bench.
SEGMENT = 52
MOST = 885
# mlp:24-4-8 has 140 values: its snapshot and its shared delta take fewer bytes than a request for them.
TASKS = (("softmax:256-10", "digits:train=600,test=100,size=16,seed=1"),
         ("mlp:24-4-8", "sensors:train=600,test=100,seed=1"))


def settings(model):
    return {
        "federation": {"model": model, "seed": 5},
        "round": {"cohort": COHORT, "quorum": COHORT, "min_clients": CLIENTS, "rounds": ROUNDS,
                  "come_back_min": "10ms", "come_back_max": "50ms"},
        "train": {"local_steps": 4, "batch_size": 16, "learning_rate": 0.1},
        "limits": {"long_poll": "10m"},
    }


def measured(model, source):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings(model)).start()
        run(BIN / "tern-fleet", "run", "--results", workspace.path / "results.json",
            "--set", f"fleet.server={aggregator.url}", "--set", f"fleet.ca={aggregator.ca}",
            "--set", f"fleet.join_code={aggregator.join_code(uses=CLIENTS + 1)}",
            "--set", f"fleet.clients={CLIENTS}", "--set", "fleet.wait=10m",
            "--set", f"data.source={source}", "--set", f"round.rounds={ROUNDS}")
        aggregator.kill(signal.SIGTERM)  # with all that it has counted in the store
        return figures(next(workspace.path.rglob("tern.db")))


def test():
    for model, source in TASKS:
        found = measured(model, source)
        print(model, found)
        exchanges = found["participation_exchanges"]
        least = found["participation_tls_beyond_payload"] + exchanges * 2 * SEGMENT
        check(exchanges < 2.5, f"{model}: a participation is more than a check-in, an update and few downloads: {found}")
        check(least <= MOST, f"{model}: a participation moves {least:.0f} bytes beside its tensors, not {MOST}")


main(test)
