"""A model that tells a number is measured on each client's own data: the client whose pump obeys another law is worst off,
and the whole test set's figures are the mean of the clients'."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, Aggregator, Workspace, check, main, run  # noqa: E402

CLIENTS, ROUNDS, ODD = 4, 8, 2
TRAIN, TEST = 240, 80  # rows of each client


def write_tables(folder):
    """y is 2 a - b, but of one client a + b."""
    for name, rows in (("train", TRAIN), ("test", TEST)):
        with open(folder / f"{name}.csv", "w", encoding="utf-8") as out:
            print("pump,a,b,y", file=out)
            for i in range(CLIENTS * rows):
                pump, a, b = i % CLIENTS, (i * 37 % 101 - 50) / 50, (i * 53 % 97 - 48) / 48
                print(f"p{pump},{a:.4f},{b:.4f},{a + b if pump == ODD else 2 * a - b:.4f}", file=out)


def measure(workspace, partition):
    results, model = workspace.path / f"{partition}.json", workspace.path / f"{partition}.f32"
    aggregator = Aggregator(workspace, {
        "federation": {"model": "linear:2-1,loss=mse", "seed": 5},
        "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS, "rounds": ROUNDS, "deadline": "1m",
                  "come_back_min": "10ms", "come_back_max": "50ms"},
        "train": {"local_steps": 20, "batch_size": 16, "learning_rate": 0.1},
    }).start()
    data = f"csv:{workspace.path}/train.csv,test_file={workspace.path}/test.csv,target=y,group=pump"
    options = ("--set", f"data.source={data}", "--set", f"fleet.clients={CLIENTS}", "--set", f"data.partition={partition}")
    run(BIN / "tern-fleet", "run", "--results", results, "--set", f"fleet.server={aggregator.url}",
        "--set", f"fleet.ca={aggregator.ca}", "--set", f"fleet.join_code={aggregator.join_code(uses=CLIENTS + 1)}",
        "--set", f"round.rounds={ROUNDS}", *options)
    aggregator.verb("export", "--global", model)
    run(BIN / "tern-fleet", "evaluate", results, model, *options)
    return json.loads(results.read_text())


def test():
    with Workspace() as workspace:
        write_tables(workspace.path)
        found = measure(workspace, "natural")
    check(len(found["scaling"]) == 3 * 2 * 8, f"a table without scale= is not standardised: {found.get('scaling')}")
    odd = found["client_groups"].index([f"p{ODD}"])
    for name in ("loss", "mae", "mse"):
        values = found[f"client_{name}"]
        check(len(values) == CLIENTS and max(values) == values[odd] > 2 * sorted(values)[-2], f"{name}: {values}")
        whole = found[f"global_{name}"]  # each client has as many test rows
        check(abs(sum(values) / CLIENTS - whole) < 1e-4 * max(1, abs(whole)), f"{name}: {values} are not {whole}")
    check(found["client_r2"][odd] == min(found["client_r2"]) < 0.9, f"{found['client_r2']}")
    with Workspace() as workspace:
        write_tables(workspace.path)
        found = measure(workspace, "iid")
    check("global_mae" in found and "client_mae" not in found, "whose test rows are which client's is not known")


main(test)
