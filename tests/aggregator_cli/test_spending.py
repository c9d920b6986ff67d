"""What bounds the bytes of clients: a federation that nobody bounded pauses between its rounds, and init says what
a client is likely to spend."""
import pathlib
import signal
import sqlite3
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from cli import FAILED, USAGE, State  # noqa: E402
from hand_client import HandClient, container  # noqa: E402
from harness import Aggregator, Workspace, check, main  # noqa: E402
from protobuf import first, parse  # noqa: E402

VALUES = 18  # of softmax:8-2
HOUR_MS = 3600000

def init(*settings, model="mlp:784-128-10"):
    arguments = [word for setting in settings for word in ("--set", setting)]
    return State().run("init", "--model", model, *arguments, "--json").json["spending"]

def estimates_are_of_what_was_measured():
    """docs/BENCHMARKS.md and README.md: bytes on the wire of a participation, both ways."""
    usual = init("round.rounds=100")
    check(11000 < usual["round"] < 15500 and usual["day"] is None, f"of the default: {usual}")  # 14.4 KB
    plain = init("round.rounds=100", "codec.codec=float32")
    check(815000 < plain["round"] < 900000, f"of float32: {plain}")  # 816 KB
    small = init("round.rounds=30", model="mlp:24-4-8")
    check(900 < small["round"] < 1900, f"of a small model: {small}")  # 1,444 to 1,824 bytes
    paused = init("round.min_interval=30m")
    check(usual["round"] + 900 < paused["round"] < usual["round"] + 1500, f"no handshake in {paused}")
    check(paused["day"] == 48 * paused["round"] and paused["rounds"] == 0, f"a day is {paused}")
    for pace, interval_ms in (("auto", HOUR_MS), ("0", 0), ("1ms", 1)):
        spending = init(f"round.min_interval={pace}")
        check(spending["min_interval_ms"] == interval_ms, f"{pace} is {spending}")
        check((spending["day"] is None) == (interval_ms < 60000), f"of {pace}: {spending}")
    last = init("round.rounds=100", "downloads.final_model=all")  # 101,770 values
    check(last["round"] == usual["round"] and 407080 < last["final_model"] < 450000, f"the last download: {last}")
    for settings in ((), ("round.rounds=100",), ("downloads.final_model=all",)):
        check(init(*settings)["final_model"] is None, f"{settings} have no last download")
    rules = "tensors.rules=fc2.weight: compress, fc2.bias: dense, *: skip"
    frozen = init(rules)
    check(40 < frozen["tensors_up"] < 40 + usual["tensors_up"] / 50, f"frozen tensors count in {frozen}")

def accuracy_of(*settings, model="mlp:784-32-10"):
    arguments = [word for setting in settings for word in ("--set", setting)]
    return State().run("init", "--model", model, *arguments, "--json").json

def finer_codecs_are_for_federations_of_few_rounds():
    for model, expected in (
            ("mlp:784-32-10", {0: 20, 1: 1, 45: 45, 46: 15, 75: 15, 76: 14, 89: 1, 90: 0, 400: 0}),
            ("mlp:24-48-8", {0: 20, 45: 45, 46: 44, 60: 30, 90: 0})):
        early = {rounds: accuracy_of(f"round.rounds={rounds}", model=model)["early_rounds"] for rounds in expected}
        check(early == expected, f"early rounds of {model} are {early}")
    balanced = accuracy_of("round.rounds=10")
    check((balanced["early_codec_up"], balanced["early_codec_down"]) == ("uniform:error=0.05",) * 2, f"{balanced}")
    few = {rounds: accuracy_of(f"round.rounds={rounds}")["early_codec_up"] for rounds in (1, 8, 9, 0)}
    check(few == {1: "uniform:error=0.02", 8: "uniform:error=0.02", 9: "uniform:error=0.05", 0: "uniform:error=0.05"},
          f"codecs of few rounds are {few}")
    thrifty = accuracy_of("round.rounds=10", "codec.accuracy=thrifty")
    check(thrifty["early_rounds"] == 0 and thrifty["codec_up"].startswith("3lc"), f"thrifty is {thrifty}")
    careful = accuracy_of("round.rounds=400", "codec.accuracy=careful")
    check(careful["early_rounds"] == 0 and careful["codec_down"] == "uniform:error=0.02", f"careful is {careful}")
    bytes_of = [made["spending"]["round"] for made in (thrifty, balanced, careful)]
    check(bytes_of == sorted(bytes_of), f"thrifty, balanced and careful move {bytes_of} bytes")
    up = accuracy_of("round.rounds=10", "codec.codec_down=float32")
    check((up["early_codec_up"], up["early_codec_down"]) == ("uniform:error=0.05", "float32"), f"a set codec is {up}")
    down = accuracy_of("round.rounds=10", "codec.codec=int8", "codec.codec_down=default")
    check((down["early_codec_up"], down["early_codec_down"]) == ("int8", "uniform:error=0.05"), f"a set codec is {down}")
    both = accuracy_of("round.rounds=10", "codec.codec=int8")
    check(both["early_rounds"] == 0 and both["codec_down"] == "int8", f"set codecs are {both}")
    State().run("init", "--model", "softmax:8-2", "--set", "codec.accuracy=best", code=USAGE,
                says="is not known; allowed: thrifty | balanced | careful")

def init_and_status_name_what_another_accuracy_costs():
    state = State()
    made = state.run("init", "--model", "mlp:784-32-10", "--set", "round.rounds=10").text
    check("in the first 10 rounds" in made and "codec.accuracy = balanced, about" in made, made)
    check("client and round (thrifty " in made and ", careful " in made, made)
    status = state.run("status", "--set", "round.rounds=10").text
    check("codec.accuracy = balanced, about" in status and "(thrifty " in status, status)
    check("what compression costs in accuracy is not measured here: `./tern experiment`" in status, status)
    check("what compression costs" not in state.run("status", "--set", "codec.codec=float32").text, "float32 costs nothing")
    costs = state.run("status", "--set", "round.rounds=10", "--json").json["codec_accuracies"]
    check([(row["accuracy"], row["in_force"]) for row in costs] == [("thrifty", False), ("balanced", True), ("careful", False)],
          f"{costs}")
    alone = [accuracy_of("round.rounds=10", f"codec.accuracy={row['accuracy']}")["spending"]["round"] for row in costs]
    check([row["round"] for row in costs] == alone, f"{costs}, but each by itself {alone}")
    check(state.run("status", "--set", "codec.codec=int8", "--json").json["codec_accuracies"] == [], "it has no effect")
    own = State().run("init", "--model", "softmax:8-2", "--set", "codec.codec=int8").text
    check("codec.accuracy" not in own, own)

def init_says_it():
    endless = State().run("init", "--model", "softmax:8-2").text
    check("At most one round opens every 1 h 0 m, without end (round.min_interval" in endless, endless)
    check("a day" in endless and "an estimate from the model, the codecs" in endless, endless)
    ended = State().run("init", "--model", "softmax:8-2", "--set", "round.rounds=5").text
    last = State().run("init", "--model", "softmax:8-2", "--set", "round.rounds=5", "--set",
                       "downloads.final_model=all").text
    check("at the end for the global model itself (downloads.final_model)" in last, last)
    check("without a pause, until 5 are done" in ended and "in all" in ended and "a day" not in ended, ended)

def change_rounds(path, search_us):
    with sqlite3.connect(path) as database:
        database.execute("UPDATE rounds SET search_us = ?", (search_us,))
    database.close()

def rounds_shorter_than_their_downloads_are_warned_of():
    model = "mlp:784-1290-10"  # 1,025,560 values: 10 clients take 256 ms
    for settings, expected in (
            (("round.min_interval=250ms",), "10 clients x 1025560 values x 25 ns), longer than round.min_interval = 250 ms: "
                                            "set downloads.plan = trunk, lower round.cohort"),
            (("round.deadline=250ms", "round.rounds=100"), "longer than round.deadline = 250 ms"),
            (("round.min_interval=200ms", "round.rounds=20"), "x 50 ns)"),  # `uniform` in all rounds
            (("round.min_interval=100ms", "downloads.plan=trunk"), "x 10 ns), longer than round.min_interval = 100 ms: lower round.cohort"),
            (("round.min_interval=500ms", "codec.codec=float32"), "x 68 ns)"),
            (("round.min_interval=250ms", "round.cohort=8", "round.over_selection=0.25"), "10 clients x"),
            (("round.min_interval=260ms",), None),
            (("round.min_interval=250ms", "round.cohort=9"), None),
            (("round.min_interval=0", "round.rounds=100"), None)):
        arguments = [word for setting in (f"federation.model={model}", *settings) for word in ("--set", setting)]
        state = State()
        made = state.run("init", *arguments, "--json")
        checked = state.run("serve", "--check", *arguments)
        status = state.run("status", *arguments)
        check(made.json["round_time"]["too_long"] == (expected is not None), f"{settings}: {made.json['round_time']}")
        for shown in (made.error, checked.error, status.text):
            check("keep the aggregator busy" not in shown if expected is None else expected in shown, f"{settings}: {shown}")

def measured_seconds_replace_the_estimate():
    state = State(rounds=4)
    slow = ("--set", "round.min_interval=5s")
    check("WARNING: the clients' downloads" not in state.run("status", *slow).text, "5 s are enough")
    change_rounds(state.path / "tern.db", 6000000)
    shown = state.run("status", *slow).text
    check("busy for 6.0 s in a round (measured in the last committed round), longer than round.min_interval = 5.0 s" in shown, shown)
    check("search for\n            downloads took 2e+03 ms of processor time an update" in shown, shown)
    figures = state.json("status", *slow)
    check(figures["round_time"] == {"seconds": 6, "measured": True, "limit_ms": 5000, "too_long": True}, f"{figures['round_time']}")
    check(figures["last_round"]["search_ms"] == 2000, f"{figures['last_round']}")  # of 3 updates
    check("busy for 6.0 s in a round (measured" in state.run("doctor", *slow, code=FAILED).text, "doctor does not warn")
    change_rounds(state.path / "tern.db", 1)
    check("WARNING" not in state.run("status", *slow).text, "a measured microsecond is short")

def told(client, replica):
    """The task, and when to come back where there is none."""
    with client.connect() as connection:
        status, _, reply = client.checkin(connection, replica=replica)
        check(status == 200, f"check-in answered {status}")
        task = first(reply, 1)
        return None if task is None else parse(task), first(reply, 2)

def do_round(client, number, replica):
    task, _ = told(client, replica)
    check(task is not None and first(task, 2) == number, f"no task of round {number}")
    body = client.update_body(task, container([0.01] * VALUES, lambda v: b"\x01" + struct.pack(f"<{len(v)}f", *v)))
    with client.connect() as connection:
        answer = connection.request("PUT", f"/v1/updates/{number}/{number}", token=client.token, body=body)
        check(answer[0] == 200, f"the update was answered {answer}")
    return first(task, 3)

def a_federation_without_end_pauses():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:8-2"},
            "round": {"cohort": 1, "min_clients": 1, "come_back_min": "10ms", "min_interval": "auto"},
            "codec": {"codec": "float32"},
        }).start()
        client = HandClient(aggregator.port, aggregator.ca).enroll(aggregator.join_code())
        replica = do_round(client, 1, client.seed_replica())
        task, come_back_ms = told(client, replica)
        check(task is None and HOUR_MS - 300000 < come_back_ms < 1.1 * HOUR_MS, f"{task}, come back in {come_back_ms} ms")
        now = aggregator.json("status")["now"]
        check("opens in 59 m" in now and "round.min_interval = auto, because round.rounds sets no end" in now, f"status says {now}")
        log = (workspace.path / "aggregator.log").read_text()
        check("event=spending" in log and "min_interval_ms=3600000 rounds=0" in log, log)

        aggregator.kill(signal.SIGTERM)
        aggregator.settings["round"]["rounds"] = 2  # an end is a bound as well
        aggregator.write_config()
        change_rounds(aggregator.state / "tern.db", 700000000)
        aggregator.start()
        log = (workspace.path / "aggregator.log").read_text()
        check("busy for 11 m 40 s in a round (measured" in log and "event=settings" in log, log)
        do_round(client, 2, replica)
        check(aggregator.json("status")["rounds_committed"] == 2, "the second round was not done")

def test():
    estimates_are_of_what_was_measured()
    finer_codecs_are_for_federations_of_few_rounds()
    init_and_status_name_what_another_accuracy_costs()
    init_says_it()
    rounds_shorter_than_their_downloads_are_warned_of()
    measured_seconds_replace_the_estimate()
    a_federation_without_end_pauses()

main(test)
