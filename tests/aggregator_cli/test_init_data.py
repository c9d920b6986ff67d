"""init --data: what it proposes for a sample, what it writes, and what it refuses."""
import csv
import os
import re
import subprocess
import zipfile

from cli import BIN, FAILED, USAGE, State, main

OPTIONS = ("--data", "pumps.csv")

def table(rows=60, header=True, label=lambda i: ("worn", "good", "dry, hot")[i % 3]):
    """time, site, rpm near 2950, flow, a constant and the label."""
    lines = ["time,site,rpm,flow,fixed,state"] if header else []
    lines += [f'{1700000000 + i},{"ab"[i % 2]},{2950 + i % 7},{i % 5 / 4},3,"{label(i)}"' for i in range(rows)]
    return "\n".join(lines) + "\n"

class Folder(State):
    """A state directory beside a sample, and commands that are run there, without a terminal."""

    def __init__(self, text):
        super().__init__()
        (self.root / "pumps.csv").write_text(text)

    def run(self, *arguments, **expected):
        before = os.getcwd()
        os.chdir(self.root)
        try:
            return super().run(*arguments, state=False, **expected)
        finally:
            os.chdir(before)

    def written(self):
        return sorted(path.name for path in self.root.iterdir() if path.name != "pumps.csv")

def a_sample_becomes_a_model_and_settings():
    folder = Folder(table())
    said = folder.run("init", *OPTIONS, "--label", "state").text
    assert re.search(r"\n  5\. What compression costs.*\n.*\n     TERN/tern experiment aggregator.ini --set fleet.clients=2 --set 'data.source=csv:pumps.csv,[^']*' "
                     r"--json default.json\n.* --set codec.codec=float32 --baseline default.json\n", said), said
    assert folder.written() == ["aggregator.ini", "client.ini", "scaling.csv", "tern-state"]
    for part in ("'time' is left out: its values are times or dates", "'site' is left out: its values are two different texts", "'fixed' is left out: it has one value",
                 "60 rows, 2 columns to learn from, 3 classes"):
        assert part in said, (part, said)
    assert "model = mlp:2-32-3\n" in (folder.root / "aggregator.ini").read_text()
    assert 'classes="dry, hot|good|worn",drop=time|site|fixed,scale=scaling.csv' in \
        (folder.root / "client.ini").read_text()
    with open(folder.root / "scaling.csv", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    values = [2950 + i % 7 for i in range(60)]
    mean = sum(values) / 60
    deviation = (sum((value - mean) ** 2 for value in values) / 60) ** 0.5
    assert rows[0] == ["column", "mean", "deviation"] and [row[0] for row in rows[1:]] == ["rpm", "flow"]
    assert abs(float(rows[1][1]) - mean) < 1e-5 and abs(float(rows[1][2]) - deviation) < 1e-6

def a_number_that_is_a_name_is_taken_as_the_name():
    """The answer names the column, and clients read the same one from the proposed data.source."""
    rows = "".join(f"{i % 7}.5,{i % 5},{i % 3},{i % 2}\n" for i in range(60))
    for label, said, source in (("4", "2 classes in column '4' (number 3 from 0)", "label=4,header=yes"),
                                ("2", "5 classes in column '2' (number 1 from 0)", "label=2,header=yes"),
                                ("-1", "2 classes in column '4' (number 3 from 0)", "label=4,header=yes")):
        folder = Folder("1,2,3,4\n" + rows)
        text = folder.run("init", *OPTIONS, "--label", label).text
        assert said in text, (said, text)
        assert source in (folder.root / "client.ini").read_text(), source

def the_proposed_client_names_the_device():
    """By a name that each device makes of its own, since one file is copied to all of them."""
    folder = Folder(table())
    folder.run("init", *OPTIONS)
    assert "\nname = auto\n" in (folder.root / "client.ini").read_text()

def arrays_are_no_table():
    folder = Folder(table())
    with zipfile.ZipFile(folder.root / "pumps.csv", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\1\0")
    folder.run("init", *OPTIONS, code=FAILED, says="a client reads it by data.source = npz:FILE")
    assert folder.written() == [], folder.written()

def settings_of_other_programs_are_refused():
    folder = Folder(table())
    folder.run("init", *OPTIONS, "--set", "client.name=pump-17", code=USAGE,
               says="section [client] is read by tern-client, and tern-aggregator would ignore it: set it there")
    (folder.root / "client.ini").write_text("[client]\nserver = https://localhost:8443\n")
    folder.run("status", "--config", "client.ini", code=USAGE,
               says="client.ini:2: the file has no setting of tern-aggregator: section [client] is read by tern-client")

def clients_read_what_was_written():
    folder = Folder(table())
    folder.run("init", *OPTIONS)
    done = subprocess.run([BIN / "tern-client", "check", "--offline", "--config", "client.ini", "--model",
                           "mlp:2-32-3"], cwd=folder.root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "PROBLEM" not in done.stdout and "WARNING" not in done.stdout, done.stdout

def the_labels_say_what_is_learnt():
    for values, options, model, key in (
            (21, (), "mlp:2-32-1,loss=mse", "target=state"),
            (20, (), "mlp:2-32-20", "label=state"),
            (2.5, (), "mlp:2-32-1,loss=mse", "target=state"),
            (2.5, ("--task", "classification"), "mlp:2-32-5", "label=state"),
            (3, ("--task", "regression"), "mlp:2-32-1,loss=mse", "target=state"),
            (21, ("--task", "classification"), "mlp:2-32-21", "label=state"),
            (21, ("--task", "anomaly"), "mlp:3-32-2-32-3,loss=reconstruction", "label=none"),
            (2, ("--task", "anomaly", "--label", "state"), "mlp:2-32-1-32-2,loss=reconstruction", "label=state")):
        folder = Folder(table(rows=90, label=lambda i, values=values: i * 11 % values))
        made = folder.run("init", *OPTIONS, *options, "--json").json
        assert made["model"] == model and f",{key}," in made["data"]["source"], (values, options, made)
        settings = (folder.root / "aggregator.ini").read_text()
        rate = 0.1 if "reconstruction" in model else 0.01 if "mse" in model else 0.02
        assert f"learning_rate = cosine:rate={rate},warmup=" in settings and ("momentum = 0.9" in settings) == ("reconstruction" not in model), settings
        names = [line.split(",")[0] for line in (folder.root / "scaling.csv").read_text().splitlines()[1:]]
        assert names == ['"rpm"', '"flow"'] + ['"state"'] * ("state" in key and "mse" in model or "none" in key), names

def a_table_without_names():
    folder = Folder(table(header=False, label=lambda i: i % 2))
    made = folder.run("init", *OPTIONS, "--json").json
    assert made["model"] == "mlp:2-32-2"
    assert made["data"]["source"] == "csv:pumps.csv,label=5,header=no,drop=0|1|4,scale=scaling.csv", made["data"]

def columns_that_no_setting_can_name_go_by_their_number():
    lines = ['0,"site\n(old)",a,a,rpm'] + [f"{i % 2},north,{i % 3},3,{i % 5}" for i in range(60)]
    folder = Folder("\n".join(lines) + "\n")
    folder.run("init", *OPTIONS, "--label", "0", code=USAGE, says="line 1 can be a row ('0') or the columns' names ('rpm')")
    made = folder.run("init", *OPTIONS, "--label", "0", "--header", "yes", "--json").json
    assert made["data"]["source"] == "csv:pumps.csv,label=0,header=yes,drop=1|3,scale=scaling.csv", made["data"]
    assert made["model"] == "mlp:2-32-2"

def groups_and_dropped_columns_are_no_features():
    folder = Folder(table())
    made = folder.run("init", *OPTIONS, "--group", "site", "--drop", "rpm", "--json").json
    assert made["data"]["drop"] == "rpm|time|fixed" and made["model"] == "mlp:1-32-3"
    assert ",group=site," in made["data"]["source"]

def no_device_trains_alone():
    """Devices are started in turn: the first one must not finish the federation by itself."""
    folder = Folder(table())
    said = folder.run("init", *OPTIONS).text
    assert settings(folder)["round.min_clients"] == "2", said
    assert "(rounds begin with 2 clients: before the devices start, set round.min_clients" in said, said

def settings_of_ones_own_stay():
    folder = Folder(table())
    (folder.root / "mine.ini").write_text("[federation]\nstate = mine\n[round]\nmin_clients = 7\n")
    said = folder.run("init", *OPTIONS, "--config", "mine.ini").text
    assert folder.written() == ["client.ini", "mine", "mine.ini", "scaling.csv"]
    assert "ca = mine/server.crt\n" in (folder.root / "client.ini").read_text()
    assert "rounds begin with 7 clients" in said and "serve --config mine.ini" in said
    assert "The file of --config was not changed" in said and "    round.rounds=60\n" in said, said

def settings(folder):
    """aggregator.ini as section.key = value."""
    found = {}
    section = None
    for line in (folder.root / "aggregator.ini").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith(";"):
            key, value = line.split(" = ", 1)
            found[f"{section}.{key}"] = value
    return found

def what_was_set_is_written():
    """Every key of --set and every option: the commands that follow need none of them again."""
    sets = {"codec.codec": "float32", "round.rounds": "7", "round.min_clients": "3", "train.learning_rate": "0.01",
            "train.evaluate": "no", "tensors.rules": "fc1*: dense, *: compress", "server.port": "8555",
            "round.deadline": "90s", "round.cohort": "10", "round.strategy": "fedavg", "limits.disk": "32Mi"}
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    folder = Folder(table())
    said = folder.run("init", *OPTIONS, *words, "--seed", "9", "--state", "here",
                      "--set", "error_feedback=reset:after=3").text
    found = settings(folder)
    for key, value in sets.items():
        want = {"round.deadline": ("90s", "90000ms", "90000"), "limits.disk": ("32Mi", "32MiB", "33554432")}.get(key, (value,))
        assert found[key] in want, (key, found)
    assert found["federation.seed"] == "9" and found["federation.state"] == "here", found
    assert found["codec.error_feedback"] == "reset:after=3", found  # a key that is in one section alone
    assert "train.momentum" not in found, found  # it is of the proposed rate
    assert "updates are sent with float32" in said and "--set" not in said, said
    again = folder.run("schedule", "--config", "aggregator.ini", "--json")
    assert again.code == 0, again

def a_value_that_the_file_cannot_hold_is_refused():
    """A line of settings has an end; a value that was cut would be another one."""
    rules = "fc1*: dense, " * 76 + "fc2.weight: compress, *: dense"
    folder = Folder(table())
    folder.run("init", *OPTIONS, "--rules", rules, code=USAGE, says="longer than 1023 bytes")
    assert folder.written() == [], folder.written()
    folder.run("init", *OPTIONS, "--rules", rules[13 * 2:])
    assert settings(folder)["tensors.rules"] == rules[13 * 2:]

def rounds_follow_from_rows_and_steps():
    for rows, sets, rounds in ((60, (), 60), (600, (), 141), (5000, (), 200), (600, ("train.local_steps=40",), 71),
                               (600, ("train.batch_size=16",), 200)):
        folder = Folder(table(rows=rows))
        words = [word for one in sets for word in ("--set", one)]
        made = folder.run("init", *OPTIONS, *words, "--json").json
        found = settings(folder)
        assert found["round.rounds"] == str(rounds) and made["spending"]["rounds"] == rounds, (rows, sets, found)
        assert found["train.learning_rate"] == "cosine:rate=0.02,warmup=10" and found["train.evaluate"] == "yes", found
    folder = Folder(table())
    folder.run("init", *OPTIONS, "--set", "round.rounds=0")
    assert settings(folder)["train.learning_rate"] == "0.02", "a course of a federation without end"
    folder = Folder(table())
    folder.run("init", *OPTIONS, "--set", "round.rounds=5")
    assert settings(folder)["train.learning_rate"] == "cosine:rate=0.02,warmup=0", settings(folder)

def a_number_is_learnt_with_more_momentum_at_the_server():
    """In a long run with the strategy that has it; in short ones it does harm."""
    def number(i, a, b, c):
        return f"{a},{b},{c},{i / 3}"

    def label(i, a, b, c):
        return f"{a},{b},{c},{'xy'[i % 2]}"

    more = "fedavgm:server_momentum=0.8"
    for row, changed, strategy in ((number, "round.rounds=200", more), (number, "round.rounds=0", more),
                                   (number, "round.rounds=10", None), (number, "round.strategy=fedavg", "fedavg"),
                                   (label, "round.rounds=200", None)):
        folder = write(row, 60)
        said = folder.run("init", *OPTIONS, "--label", "state", "--set", changed)
        assert settings(folder).get("round.strategy") == strategy, (changed, settings(folder))
        assert "is reduced to about" not in said.error and "has no effect" not in said.error, said.error

def values_that_are_far_off_halve_the_rate():
    text = table(rows=400).replace(",2951,", ",9999999,", 1)
    folder = Folder(text)
    folder.run("init", *OPTIONS)
    assert settings(folder)["train.learning_rate"] == "cosine:rate=0.01,warmup=10", settings(folder)
    folder = Folder(text)
    folder.run("init", *OPTIONS, "--set", "train.learning_rate=0.02")
    assert settings(folder)["train.learning_rate"] == "0.02", settings(folder)

def a_model_of_set_is_made():
    folder = Folder(table())
    assert folder.run("init", *OPTIONS, "--set", "federation.model=mlp:2-8-3", "--json").json["model"] == "mlp:2-8-3"
    Folder(table()).run("init", *OPTIONS, "--set", "federation.model=mlp:9-8-3", code=USAGE, says="does not fit pumps.csv")

def a_name_with_an_equals_sign_is_read_back():
    folder = Folder("")
    (folder.root / "a=b.csv").write_text(table())
    folder.run("init", "--data", "a=b.csv")
    done = subprocess.run([BIN / "tern-client", "check", "--offline", "--config", "client.ini"], cwd=folder.root,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "PROBLEM" not in done.stdout, done.stdout

def nothing_is_left_of_what_is_refused():
    cases = (
        (table(), ("--label", "sate"), USAGE, "has no column 'sate'"),
        (table(rows=300, label=lambda i: f"no {i}"), (), USAGE, "has 300 different values"),
        (table(rows=300, label=lambda i: i / 2), ("--task", "classification"), USAGE, "has 300 different values"),
        (table(), ("--task", "regression"), USAGE, "column 'state' of pumps.csv has no different numbers"),
        (table(), ("--task", "clustering"), USAGE, "--task is classification, regression or anomaly"),
        (table(), ("--task", "anomaly", "--model", "mlp:2-32-3"), USAGE, "does not fit pumps.csv"),
        (table(rows=90, label=lambda i: i), ("--model", "mlp:2-32-90"), USAGE, "a number in column 'state': use mlp:2-32-1"),
        (table(label=lambda i: "one"), (), USAGE, "has 1 different value,"),
        (table(label=lambda i: "err" if i in (7, 9) else i % 3), (), USAGE, "line 9, column 'state': 'err' is a text among numbers (2 of"),
        (table(label=lambda i: "<0.5" if i == 7 else i % 2), (), USAGE, "line 9, column 'state': '<0.5' is a text among numbers (1 of"),
        (table(label=lambda i: ("a", "b|c")[i % 2]), (), USAGE, "line 3, column 'state': a list of classes cannot have the label 'b|c'"),
        (table(label=lambda i: f"{i % 9:063}"), (), USAGE, "the 9 labels in column 'state' of pumps.csv do not fit into a list"),
        (table(label=lambda i: f"${i / 4}"), (), USAGE, "texts such as $0.0 (write 1234.5 alone)"),
        (table(label=lambda i: 1e9 + i / 4), (), USAGE, "are equal in 32 bits: subtract a constant"),
        (table(label=lambda i: i * 10 ** 16), (), USAGE, "line 3, column 'state': '10000000000000000' is 1e15 or more, which marks a missing value"),
        (table(label=lambda i: i / 4), ("--classes", "0.0|0.25"), USAGE, "is not one of those in classes=0.0|0.25"),
        (table(label=lambda i: i / 4), ("--task", "regression", "--classes", "1|2"), USAGE, "regression has no classes"),
        (table(), ("--task", "anomaly", "--label", "none", "--classes", "good|*"), USAGE, "Leave out one of them"),
        (table(), ("--drop", "rpm|flow"), USAGE, "has no column to learn from"),
        (table(), ("--drop", "time|site|rpm|flow|fixed"), FAILED, "Drop fewer columns"),
        (table(), ("--model", "mlp:784-32-10"), USAGE, "does not fit pumps.csv, which has 2 features and 3 classes"),
        (table(), ("--set", "codec.codec=4lc"), USAGE, "codec.codec = 4lc"),
        ("", (), FAILED, "has no rows of data"),
    )
    for text, options, code, says in cases:
        folder = Folder(text)
        folder.run("init", *OPTIONS, *options, code=code, says=says)
        assert folder.written() == [], (options, folder.written())
    folder.run("init", "--data", "none.csv", code=USAGE, says="none.csv")
    folder.run("init", "--label", "state", code=USAGE, says="need --data")

def files_and_states_that_are_there_stay():
    folder = Folder(table())
    (folder.root / "client.ini").write_text("mine")
    folder.run("init", *OPTIONS, code=USAGE, says="the file client.ini exists and would be overwritten")
    assert folder.written() == ["client.ini"] and (folder.root / "client.ini").read_text() == "mine"
    folder = Folder(table())
    folder.run("init", "--model", "mlp:2-4-3")
    folder.run("init", *OPTIONS, code=FAILED, says="already holds a federation")
    assert folder.written() == ["tern-state"]

def clients_that_share_statistics_scale_nothing_themselves():
    folder = Folder(table(rows=90, label=lambda i: i))
    (folder.root / "scaling.csv").write_text("another's")
    said = folder.run("init", *OPTIONS, "--set", "statistics.columns=clients", "--set", "statistics.min_clients=3").text
    assert folder.written() == ["aggregator.ini", "client.ini", "scaling.csv", "tern-state"]
    assert (folder.root / "scaling.csv").read_text() == "another's"
    settings = (folder.root / "aggregator.ini").read_text()
    assert "[statistics]" in settings and "\ncolumns = clients\nmin_clients = 3\n" in settings, settings
    assert "scale=" not in (folder.root / "client.ini").read_text()
    assert "Clients compute the scaling of the columns together" in said and "scaling.csv" not in said, said
    folder.run("status", "--config", "aggregator.ini")  # the file can be read
    folder = Folder(table())
    (folder.root / "scaling.csv").write_text("another's")
    folder.run("init", *OPTIONS, "--set", "statistics.columns=clients", "--set", "codec.codec=4lc", code=USAGE,
               says="codec.codec = 4lc")
    assert folder.written() == ["scaling.csv"], "what is not init's was taken back"

def statistics_are_not_for_models_that_come_as_files():
    folder = Folder(table())
    header = b'{"w":{"dtype":"F32","shape":[600],"data_offsets":[0,2400]}}'
    (folder.root / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(2400))
    folder.run("init", "--model", "model.safetensors", "--set", "statistics.columns=clients", code=USAGE,
               says="statistics.columns = clients needs a built-in model")
    assert folder.written() == ["model.safetensors"], folder.written()
    said = folder.run("init", "--model", "model.safetensors").text
    assert "--set client.trainer=command" in said and "docs/TRAINERS.md" in said, said

def anomalies_need_no_label():
    folder = Folder(table())
    said = folder.run("init", *OPTIONS, "--task", "anomaly", "--label", "none").text
    for part in ("all rows count as normal", "evaluation reports the loss", "AUC and F1 need --label"):
        assert part in said, (part, said)
    assert ",label=none," in (folder.root / "client.ini").read_text()
    folder = Folder(table())  # whose classes are listed: other rows than good ones must not count as normal
    source = folder.run("init", *OPTIONS, "--task", "anomaly", "--classes", "good|*", "--json").json["data"]["source"]
    assert "label=state,classes=good|*," in source, source
    folder = Folder(table())
    folder.run("init", *OPTIONS, "--label", "none", code=USAGE, says="only --task anomaly learns without labels: add --task anomaly")
    folder.run("init", *OPTIONS, "--label", "none", "--task", "regression", code=USAGE, says="only --task anomaly learns without labels")

def a_port_that_is_chosen_later_is_not_made_up():
    folder = Folder(table())
    said = folder.run("init", *OPTIONS, "--set", "server.port=0").text
    assert "localhost:0" not in said and "the service chooses PORT when it starts" in said, said
    assert "server = https://localhost:PORT\n" in (folder.root / "client.ini").read_text()
    folder = Folder(table())
    said = folder.run("init", "--model", "mlp:2-4-3", "--set", "server.port=0").text
    assert "client.server=https://localhost:PORT" in said and "localhost:0" not in said, said

def data_of_the_clients_is_named():
    for model, data in (("mlp:2-4-3", "csv:FILE,label=COLUMN"), ("linear:2-1,loss=mae", "csv:FILE,target=COLUMN"),
                        ("mlp:4-2-4,loss=reconstruction", "csv:FILE,label=none"), ("mlp:256-64-10", "digits")):
        folder = Folder(table())
        said = folder.run("init", "--model", model).text
        lines = [line for line in said.splitlines() if re.match(" +tern-client (check|run)", line)]
        assert len(lines) == 2 and all(f"--set data.source={data}" in line for line in lines), (model, said)

def comparing_a_device_with_the_federation_is_a_step():
    """Where clients hold out rows, and train a model that their program knows."""
    folder = Folder(table())
    assert re.search("status.*\n.*\n +tern-client compare --config client.ini\n", folder.run("init", *OPTIONS).text)
    for evaluate in ("yes", "no"):
        said = Folder(table()).run("init", "--model", "mlp:2-4-3", "--set", f"train.evaluate={evaluate}").text
        assert ("tern-client compare --set client.server=https://localhost" in said) == (evaluate == "yes"), said
    assert "tern-client compare" not in Folder(table()).run("init", *OPTIONS, "--set", "train.evaluate=no").text

def write(kind, rows, names="temp,vib,rpm,state", end="\n", encoding="utf-8"):
    """A table of the kind: its text may differ in one way from what init reads without a word."""
    folder = Folder("")
    lines = [names] if names else []
    lines += [kind(i, f"{i * 7 % 11 / 4:.2f}", f"{i * 5 % 13 / 8:.3f}", f"{40 + i * 3 % 17}") for i in range(rows)]
    (folder.root / "pumps.csv").write_bytes((end.join(lines) + end).encode(encoding))
    return folder

def ordinary_files_are_read_as_they_are_meant():
    state = ("ok", "worn")
    cases = (
        (lambda i, a, b, c: f"{a}, {b}, {c}, {state[i % 2]}", {}, "ok|worn"),
        (lambda i, a, b, c: f"{a:>8},{b:>9}, {c}\t,{state[i % 2]} ", {"names": "temp , vib,rpm, state"}, "ok|worn"),
        (lambda i, a, b, c: f"{a},{b},{c},{state[i % 2]}", {"end": "\r"}, "ok|worn"),
        (lambda i, a, b, c: f"{a},{b},{c},{state[i % 2]}", {"end": "\r\n"}, "ok|worn"),
        (lambda i, a, b, c: f'"{a}","{b}","{c}","{state[i % 2]}"', {}, "ok|worn"),
        (lambda i, a, b, c: f"{a},{b},{c},{'' if i % 9 == 4 else state[i % 2]}", {}, "ok|worn"),
        (lambda i, a, b, c: f"{a},{b},{c},{('NA', '?', 'null', 'NaN')[i % 4] if i % 9 == 4 else state[i % 2]}", {}, "ok|worn"),
        (lambda i, a, b, c: f"{a},{b},{c},{'' if i % 9 == 4 else i % 2}", {}, ""),
    )
    for kind, options, classes in cases:
        folder = write(kind, 60, **options)
        done = folder.run("init", *OPTIONS, "--json")
        made = done.json["data"]
        assert made["features"] == 3 and made["classes"] == 2 and made["rows"] == 60, made
        assert (f"classes={classes}" in made["source"]) == (classes != ""), made
        text = (folder.root / "pumps.csv").read_text(encoding="utf-8")
        gaps = len(re.findall(r",(NA|\?|null|NaN|)$", text, re.MULTILINE))
        assert (f"line 6, column 'state': the label is missing" in done.error) == (gaps > 0), done.error
        assert gaps == 0 or f"({gaps} of 60 rows)" in done.error, (gaps, done.error)

def what_cannot_be_read_leaves_nothing_behind():
    cases = (
        (lambda i, a, b, c: f"{a},{b},{c},{('grün', 'weiß')[i % 2]}", {"encoding": "cp1252"}, "iconv -f cp1252 -t utf-8"),
        (lambda i, a, b, c: f"{a},{b},{c},{i % 2}", {"encoding": "utf-16"}, "iconv -f utf-16"),
        (lambda i, a, b, c: f'"{i}",{a},{b},{c},{i % 2}', {}, "R's write.table writes it"),
        (lambda i, a, b, c: f"{a},{b},{c},{i % 2},", {}, "lines end with a comma"),
        (lambda i, a, b, c: f"{a},{b},{c},{i % 2}", {"names": "sep=,\ntemp,vib,rpm,state"}, "a hint for spreadsheets"),
        (lambda i, a, b, c: f"{a},{b},{c},{i % 2}".replace(".", ","), {}, "are decimals written with commas"),
        (lambda i, a, b, c: f"{a},{b},{c},{'<0.5' if i == 7 else a}", {}, "line 9, column 'state': the target '<0.5' is not a finite number"),
        (lambda i, a, b, c: f"{a},{b},{c},note {i}", {}, "has 60 different values in 60 rows, probably too many for classes"),
        (lambda i, a, b, c: f"{a},{b},{c},{('rare', 'ok', 'worn')[i and 1 + i % 2]}", {"names": ""}, "add header=no or header=yes"),
    )
    for kind, options, says in cases:
        folder = write(kind, 60, **options)
        done = subprocess.run([BIN / "tern-aggregator", "init", *OPTIONS], cwd=folder.root, capture_output=True, text=True, timeout=60,
                              check=False)
        assert done.returncode in (FAILED, USAGE) and says in done.stderr, (says, done.stderr)
        assert folder.written() == [], folder.written()

def names_that_no_setting_can_hold_go_by_number_and_are_read_back():
    for name, listed in (('"dev\tname"', "2"), ('" padded"', "2"), ('"a ;b"', "2"), ('"a|b"', "2"), ("7", "7"), ('"a, ""b"""', 'a, "b"')):
        folder = write(lambda i, a, b, c: f"{a},{b},{'xy'[i % 2]},{('ok', 'worn')[i // 2 % 2]}", 60, names=f"temp,vib,{name},state")
        drop = folder.run("init", *OPTIONS, "--json").json["data"]["drop"]
        assert drop == listed, (name, drop)
        done = subprocess.run([BIN / "tern-client", "check", "--offline", "--config", "client.ini"], cwd=folder.root, capture_output=True,
                              text=True, timeout=60, check=False)
        assert "48 examples to train on" in done.stdout and "PROBLEM" not in done.stdout, (name, done.stdout + done.stderr)

def all_rows_may_be_normal():
    folder = write(lambda i, a, b, c: f"{a},{b},{c},ok", 60)
    folder.run("init", *OPTIONS, code=USAGE, says="or detect anomalies with --task anomaly")
    folder.run("init", *OPTIONS, "--task", "anomaly", "--drop", "temp,vib,state", code=USAGE,
               says="has one column to learn from, and --task anomaly needs two or more")
    made = folder.run("init", *OPTIONS, "--task", "anomaly", "--label", "state", "--json").json
    assert made["model"] == "mlp:3-32-2-32-3,loss=reconstruction" and "label=state,classes=ok|*" in made["data"]["source"], made
    path = folder.root / "pumps.csv"  # of a client that has an anomaly
    path.write_text(path.read_text().replace(",ok\n", ",crack\n", 1))
    done = subprocess.run([BIN / "tern-client", "check", "--offline", "--config", "client.ini", "--model", made["model"]],
                          cwd=folder.root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "PROBLEM" not in done.stdout, done.stdout + done.stderr
    folder = write(lambda i, a, b, c: f"{a},{b},{c},{i % 2}", 60)
    assert folder.run("init", *OPTIONS, "--drop", "temp,vib", "--json").json["data"]["drop"] == "temp|vib"

def numbers_that_32_bits_cannot_tell_apart_are_left_out():
    folder = write(lambda i, a, b, c: f"{a},{3e8 + i % 7 / 8},{(i % 7) * 1e-50},{'xy'[i % 2]}", 60)
    said = folder.run("init", *OPTIONS, "--label", "state").text
    for name in ("vib", "rpm"):
        assert f"Column '{name}' is left out: its values differ too little for 32-bit numbers" in said, said

def labels_that_may_be_none_are_asked_about():
    folder = Folder(re.sub(r"(?m)^(1700000007,.*),\"[^\"]*\"$", r"\1,unknown", table()))
    asked = "line 9, column 'state': the label 'unknown' (1 row) can be a class or a missing label"
    folder.run("init", *OPTIONS, code=USAGE, says=asked)
    assert folder.written() == []
    said = folder.run("init", *OPTIONS, "--classes", "good|worn|dry, hot", says="the label is missing ('unknown')").text
    assert "Rows without a label or target: 1." in said and "add\n,missing=skip-unlabelled to data.source" in said, said
    assert len(re.findall(r",missing=skip-unlabelled' --", said)) == 2, said  # the experiments of step 5 read the same file
    assert 'classes="good|worn|dry, hot"' in (folder.root / "client.ini").read_text()
    folder = Folder(re.sub(r"(?m)^(1700000007,.*),\"[^\"]*\"$", r"\1,unknown", table()))
    assert folder.run("init", *OPTIONS, "--classes", "good|worn|dry, hot|unknown", "--json").json["data"]["classes"] == 4

def what_is_missing_is_counted_and_what_is_no_number_is_refused():
    folder = Folder(re.sub(r"(?m)^(1700000007,.),2950", r"\1,nan", table()))
    folder.run("init", *OPTIONS, says="1 value in 1 column is missing, the first in line 9, column 'rpm'")
    folder = Folder(re.sub(r"(?m)^(1700000007,.),2950", r"\1,fast", table()))
    folder.run("init", *OPTIONS, code=FAILED, says="line 9, column 'rpm': 'fast' is not a finite number (1 of its 60 values)")
    assert folder.written() == []

main(a_sample_becomes_a_model_and_settings, a_number_that_is_a_name_is_taken_as_the_name, the_proposed_client_names_the_device, arrays_are_no_table,
     settings_of_other_programs_are_refused, clients_read_what_was_written, the_labels_say_what_is_learnt, a_table_without_names,
     columns_that_no_setting_can_name_go_by_their_number,
     groups_and_dropped_columns_are_no_features, no_device_trains_alone, a_model_of_set_is_made, a_name_with_an_equals_sign_is_read_back, settings_of_ones_own_stay, nothing_is_left_of_what_is_refused,
     files_and_states_that_are_there_stay, clients_that_share_statistics_scale_nothing_themselves,
     statistics_are_not_for_models_that_come_as_files, labels_that_may_be_none_are_asked_about,
     numbers_that_32_bits_cannot_tell_apart_are_left_out, anomalies_need_no_label, a_port_that_is_chosen_later_is_not_made_up,
     data_of_the_clients_is_named, comparing_a_device_with_the_federation_is_a_step, ordinary_files_are_read_as_they_are_meant,
     what_cannot_be_read_leaves_nothing_behind, names_that_no_setting_can_hold_go_by_number_and_are_read_back, all_rows_may_be_normal, what_is_missing_is_counted_and_what_is_no_number_is_refused, what_was_set_is_written,
     a_value_that_the_file_cannot_hold_is_refused, rounds_follow_from_rows_and_steps, values_that_are_far_off_halve_the_rate,
     a_number_is_learnt_with_more_momentum_at_the_server)
