"""The dashboard's side of the admin listener, as a browser speaks: files and what they may do, login and
logout, what a session needs, what the page is told, and its actions."""
import http.client
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import time

for folder in ("end_to_end", "browser"):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / folder))
from harness import BIN, HELPERS, Aggregator, Workspace, check, main, run, wait_until  # noqa: E402
from large_federation import insert, open_round  # noqa: E402

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/OPERATIONS.md"
ROUNDS = 4
LAYERS = ("payload", "http", "tls", "wire")
UPDATES = 3  # of a round, see make_federation.c
TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


class Browser:
    def __init__(self, aggregator, port):
        self.port = port
        self.host = f"localhost:{port}"
        self.token = (aggregator.state / "admin.token").read_text().strip()
        self.cookie = ""
        self.key = ""

    def ask(self, method, path, body=None, **headers):
        """Status, headers and body; headers of None are left out."""
        sent = {"Host": self.host, "Cookie": f"theme=dark; {self.cookie}; other=1" if self.cookie else None,
                "Authorization": f"Session {self.key}" if self.key else None,
                "Origin": f"http://{self.host}" if method != "GET" else None, **headers}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body if body is None else json.dumps(body),
                           {name: value for name, value in sent.items() if value is not None})
        reply = connection.getresponse()
        found = reply.status, dict(reply.getheaders()), reply.read()
        connection.close()
        return found

    def status(self, method, path, body=None, **headers):
        return self.ask(method, path, body, **headers)[0]

    def json(self, method, path, body=None, expected=200):
        status, headers, text = self.ask(method, path, body)
        check(status == expected, f"{method} {path} answered {status}: {text}")
        check(headers["Cache-Control"] == "no-store", f"{path} may be kept")
        return json.loads(text)

    def log_in(self):
        status, headers, text = self.ask("POST", "/api/v1/session", {"token": self.token})
        check(status == 201, f"login answered {status}: {text}")
        self.cookie = headers["Set-Cookie"].partition(";")[0]
        self.key = json.loads(text)["key"]
        return headers["Set-Cookie"]


def test_files(browser):
    status, headers, text = browser.ask("GET", "/")
    check(status == 200 and headers["Content-Type"] == "text/html; charset=utf-8", f"{status} {headers}")
    check(headers["Cache-Control"] == "no-cache", "an old page could stay")
    policy = dict(part.partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
    check(policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'" and
          policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'", f"{policy}")
    check(b"style=" not in text and b"<script>" not in text, "the policy refuses what stands in the page")
    paths = re.findall(r'(?:src|href)="(/[^"]+)"', text.decode())
    check(len(paths) == 3, f"the page names {paths}")
    while paths:
        path = paths.pop()
        status, headers, text = browser.ask("GET", path)
        check(status == 200 and headers["Content-Type"] == TYPES[path.rpartition(".")[2]], f"{path}: {headers}")
        check("immutable" in headers["Cache-Control"] and "ETag" in headers, f"{path} is asked for again")
        check(headers["X-Content-Type-Options"] == "nosniff", f"{path}: its type may be guessed")
        check(b"://" not in re.sub(rb"/\*.*?\*/|//.*|http://www.w3.org/\d+/\w+", b"", text, flags=re.S), f"{path} names another host")
        if path.endswith("main.js"):
            paths += [path.replace("main.js", name) for name in re.findall(r'from "\./([^"]+)"', text.decode())]
    check(browser.status("POST", "/") == 405 and browser.status("GET", "/page/") == 404, "what is no file")
    check(browser.status("GET", "/", Host="evil.example") == 421, "another name of this machine")


def test_login(browser):
    refused = [
        (401, {"token": browser.token + "x"}, {}),
        (422, {"token": 7}, {}),
        (422, [], {}),
        (403, {"token": browser.token}, {"Origin": None}),
        (403, {"token": browser.token}, {"Origin": "http://evil.example"}),
        (403, {"token": browser.token}, {"Origin": "null"}),
        (403, {"token": browser.token}, {"Origin": f"http://localhost:{browser.port + 1}"}),
        (421, {"token": browser.token}, {"Host": "evil.example", "Origin": "http://evil.example"}),
    ]
    for expected, body, headers in refused:
        status, said, _ = browser.ask("POST", "/api/v1/session", body, **headers)
        check(status == expected and "Set-Cookie" not in said, f"{body} {headers}: {status} {said}")
    cookie = browser.log_in()
    for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="):
        check(part in cookie, f"the cookie {cookie} lacks {part}")
    check("Secure" not in cookie, "a cookie for TLS alone does not come back by plain HTTP")
    behind_tls = browser.ask("POST", "/api/v1/session", {"token": browser.token}, Origin=f"https://{browser.host}")
    check("; Secure" in behind_tls[1]["Set-Cookie"], "the cookie may go by plain HTTP")
    check(browser.token not in cookie and browser.key not in cookie, "a secret is in the cookie")


def test_a_session_needs_both_halves(browser):
    path = "/api/v1/status"
    check(browser.status("GET", path) == 200, "with both")
    check(browser.status("GET", path, Cookie=None) == 401, "the key alone")
    check(browser.status("GET", path, Authorization=None) == 401, "the cookie alone")
    check(browser.status("GET", path, Authorization=f"Bearer {browser.key}") == 401, "the key as a token")
    check(browser.status("GET", path, Authorization=f"Session {browser.token}") == 401, "the token as a key")
    check(browser.status("GET", path, Cookie=browser.cookie[:-1]) == 401, "a part of the cookie")
    check(browser.status("GET", path, Cookie=f"a={browser.cookie}") == 401, "a cookie in another one")
    check(browser.status("GET", path, Authorization=f"Bearer {browser.token}", Cookie=None) == 200, "the token")
    check(browser.status("GET", "/metrics") == 200, "a session reads the metrics")


def test_changes_come_from_the_page(browser):
    for origin in (None, "null", "http://evil.example", f"http://evil.example/{browser.host}",
                   f"http://localhost:{browser.port + 1}", f"http://localhost.evil.example:{browser.port}"):
        for path in ("enroll-codes", "clients/1/revoke", f"rounds/{ROUNDS + 1}/close", "enroll-codes/00000000/cancel"):
            status = browser.status("POST", f"/api/v1/{path}", {}, Origin=origin)
            check(status == 403, f"{path} from {origin} answered {status}")
        check(browser.status("DELETE", "/api/v1/session", Origin=origin) == 403, f"logged out by {origin}")
    check(browser.json("GET", "/api/v1/enroll-codes") == [], "a code was made")
    program = Browser.__new__(Browser)
    program.__dict__.update(browser.__dict__, cookie="", key="")
    check(program.status("POST", "/api/v1/enroll-codes", {}, Origin=None,
                         Authorization=f"Bearer {browser.token}") == 201, "a program sends no origin")


def test_codes(browser):
    made = browser.json("POST", "/api/v1/enroll-codes", {"uses": 2, "label": "<i>"}, expected=201)
    listed = {code["id"]: code for code in browser.json("GET", "/api/v1/enroll-codes")}
    check(len(listed) == 2 and "code" not in listed[made["id"]], f"{listed}")
    check(listed[made["id"]]["state"] == "valid" and listed[made["id"]]["label"] == "<i>", f"{listed}")
    for valid in (True, False):
        done = browser.json("POST", f"/api/v1/enroll-codes/{made['id']}/cancel", {})
        check(done == {"id": made["id"], "was_valid": valid}, f"{done}")
    states = {code["id"]: code["state"] for code in browser.json("GET", "/api/v1/enroll-codes")}
    check(sorted(states.values()) == ["used up", "valid"] and states[made["id"]] == "used up", f"{states}")
    check(browser.status("POST", "/api/v1/enroll-codes/ffffffff/cancel", {}) == 404, "a code that is not there")


def test_the_status_has_the_cost_of_the_last_round(browser, aggregator):
    cost = browser.json("GET", "/api/v1/status")["last_round"]
    row = [row for row in aggregator.json("rounds", "--columns", "*") if row["state"] == "committed"][-1]
    check(cost == {name: row[name] for name in ("round", "took_ms", "service_share", "search_ms")}, f"{cost}, {row}")


def test_columns_are_the_lists(browser, aggregator):
    rounds = browser.json("GET", "/api/v1/rounds/columns")
    listed = aggregator.json("rounds")
    check(rounds["round"] == [row["round"] for row in listed], f"{rounds['round']}")
    for name in ("state", "applied", "target", "accuracy", "accuracy_model", "evaluated_loss", "metrics"):
        check(rounds[name] == [row.get(name) for row in listed], f"{name}: {rounds[name]}")
    told = [{name: value for name, value in (of or {}).items() if name != "loss"} for of in rounds["metrics"]]
    check(told == [{"f1_macro": 0.25, "mae": 2 + version} for version in range(1, ROUNDS + 1)] + [{}],
          f"{rounds['metrics']}")
    check(rounds["mean_loss"][-1] is None and rounds["closed_ms"][-1] == 0, "the open round has a result")
    by_round = {row["round"]: row for row in aggregator.json("report", "bytes", "--by", "round")["rows"]}
    for direction in ("up", "down"):
        for layer in LAYERS:
            name = f"{layer}_{direction}"
            expected = [by_round[i][name] for i in range(2, ROUNDS + 1)] # an evaluator's are in round 1, too
            check(rounds[name][1:ROUNDS] == expected, f"{name}: {rounds[name]}, not {expected}")
    check(rounds["participants"] == [UPDATES] * ROUNDS + [0], f"{rounds['participants']}")
    check(rounds["float32"] == [UPDATES * 4 * 172] * ROUNDS + [0], f"{rounds['float32']}")
    behind = browser.json("GET", "/api/v1/rounds/columns?after=2&limit=1")
    check(behind["round"] == [3] and behind["wire_up"] == [rounds["wire_up"][2]] and
          behind["accuracy"] == [rounds["accuracy"][2]] and behind["metrics"] == [rounds["metrics"][2]], f"{behind}")
    clients = browser.json("GET", "/api/v1/clients/columns")
    listed = aggregator.json("clients")
    for name in ("id", "name", "tags", "revoked", "evaluator", "last_seen_ms", "version"):
        check(clients[name] == [row[name] for row in listed], f"{name}: {clients[name]}")
    check(clients["error_norm"] == [0.25] * UPDATES + [None], f"{clients['error_norm']}")
    check(clients["budget_left"] == [None] * 4, f"{clients['budget_left']}")
    check(browser.json("GET", "/api/v1/clients/columns?after=4")["id"] == [], "there is no fifth")
    check(browser.json("GET", "/api/v1/clients?after=1&limit=2&columns=*") == listed[1:3], "a page of the same rows")
    told = [column["name"] for column in browser.json("GET", "/api/v1/views")["clients"]]
    check(told == list(clients) == list(listed[0]), f"{told} are described, {list(clients)} listed")
    check(browser.status("GET", "/api/v1/clients/columns?limit=1001") == 422, "more than a list may have")


def test_held_out_figures(browser, aggregator):
    """Clients 1 to 3 told 1, 2 and 6 of the model they began with, by 100, 100 and 200 examples."""
    path = "/api/v1/rounds?columns=round,base_version,held_out_*"
    rows = browser.json("GET", path)
    check([row["round"] for row in rows] == list(range(1, ROUNDS + 2)), f"{rows}")
    check([row["base_version"] for row in rows] == list(range(ROUNDS + 1)), f"{rows}")
    first, last = rows[0], rows[-1]
    check(first["held_out_clients"] == UPDATES and first["held_out_model"] == "replica", f"{first}")
    loss = [first[f"held_out_loss{kind}"] for kind in ("", "_mean", "_worst", "_worst_client", "_deviation")]
    check(loss == [3.75, 3, 6, 3, 2.1602468], f"{first}")
    check(first["held_out_f1_macro_worst"] == 0.125 and first["held_out_f1_macro_worst_client"] == 1, f"{first}")
    check(set(last) == set(first) and {last[name] for name in last if name.startswith("held_out")} == {None}, f"{last}")
    listed = aggregator.json("rounds")
    check([{name: row[name] for name in first} for row in listed] == rows, f"{listed} is not {rows}")
    check(browser.json("GET", f"{path}&after=2&limit=1") == [rows[2]], "a part of it")
    check(browser.json("GET", f"{path}&after={ROUNDS + 1}") == [], "there are no more")
    check("held_out_loss" not in browser.json("GET", "/api/v1/rounds")[0], "figures that nobody asked for are read")


def tell_figures(database):
    """What evaluators and clients tell beside loss and accuracy."""
    insert(database, "metrics", [
        {"version": version, "name": name, "client": 4, "of_evaluator": 1, "num_examples": 200, "value": value}
        for version in range(1, ROUNDS + 1) for name, value in (("f1_macro", 0.25), ("mae", 2 + version))])
    # Such a name cannot be told apart from the evaluation's own.
    insert(database, "metrics", [{"version": ROUNDS, "name": "loss", "client": 4, "of_evaluator": 1, "num_examples": 1}])
    insert(database, "metrics", [
        {"version": version, "name": name, "client": client, "num_examples": examples, "value": value / scale}
        for version in range(ROUNDS) for client, examples, value in ((1, 100, 1), (2, 100, 2), (3, 200, 6))
        for name, scale in (("loss", 1), ("f1_macro", 8))])


def test_waiting_and_status(browser, aggregator):
    waiting = browser.json("GET", "/api/v1/waiting")
    status = aggregator.json("status")
    check(waiting["now"] == status["now"] and waiting["waits_for"] == status["waits_for"], f"{waiting}")
    check(waiting["reason"] == "members" and waiting["needs_help"] is False, f"{waiting}")
    check([member["id"] for member in waiting["members"]] == [1, 2, 3], f"{waiting['members']}")
    check(waiting["members"][0]["has_task"] is False, f"{waiting['members']}")
    status = browser.json("GET", "/api/v1/status")
    check(status["values"] == 172 and status["float32_payload"] == 688, f"{status}")


def test_one_client(browser, aggregator):
    """Its row as the list has it, what it took in all, and its rounds, which come to that."""
    listed = browser.json("GET", "/api/v1/clients")[1]
    client = browser.json("GET", "/api/v1/clients/2")
    held_out = client.pop("held_out")
    check(held_out == {"version": ROUNDS - 1, "num_examples": 100, "metrics": {"loss": 2, "f1_macro": 0.25}}, f"{held_out}")
    check(browser.json("GET", "/api/v1/clients/4")["held_out"] is None, "an evaluator's figures are no client's own")
    ledger, schedule = client.pop("ledger"), client.pop("schedule")
    check(client == listed and ledger == browser.json("GET", "/api/v1/ledger?after=1&limit=1")[0], f"{client} {ledger}")
    check(ledger["round"] == ROUNDS and schedule is None, f"{ledger} {schedule}")
    rounds = browser.json("GET", "/api/v1/clients/2/rounds")
    check([(row["round"], row["state"]) for row in rounds] == [(i, "accepted") for i in range(1, ROUNDS + 1)] + [(ROUNDS + 1, "selected")], f"{rounds}")
    check(client["reported"] == ROUNDS, f"{client}")
    for way in ("up", "down"):
        for layer in LAYERS:
            summed = sum(row[f"{layer}_{way}"] for row in rounds)
            check(0 < summed <= client[f"{layer}_{way}"], f"{way} {layer}: {summed} in rounds, {client} in all")
    check(browser.json("GET", "/api/v1/clients/2/rounds?after=1&limit=1") == [rounds[1]], "a part of them")
    for path in ("/api/v1/clients/99", "/api/v1/clients/0", "/api/v1/clients/x", "/api/v1/clients/99/rounds"):
        check(browser.status("GET", path) == 404, path)
    check(browser.status("GET", "/api/v1/clients/2/rounds?limit=0") == 422, "no limit of 0")


def test_settings_in_force(browser, aggregator):
    """What --settings documents, with the values that the service goes by, also after SIGHUP."""
    def read():
        return {f"{row['section']}.{row['key']}": row for row in browser.json("GET", "/api/v1/settings")}
    settings = read()
    documented = len(re.findall(r"^;? ?\w+ =", run(BIN / "tern-aggregator", "--settings"), re.M))
    check(len(settings) == documented, f"{len(settings)} of {documented} settings")
    cohort = settings["round.cohort"]
    check((cohort["value"], cohort["default"], cohort["changed"], cohort["takes_effect"]) == ("3", "10", True, "live"), f"{cohort}")
    check(settings["server.certificate"]["changed"] and not settings["limits.norm"]["changed"], "what differs from the default")
    with_estimates = [name for name, row in settings.items() if "estimates" in row]
    check(with_estimates == ["codec.accuracy"], f"{with_estimates} have estimates")
    shell = json.loads(run(BIN / "tern-aggregator", "status", "--json", "--config", aggregator.config))["codec_accuracies"]
    check(settings["codec.accuracy"]["estimates"] == shell, f"{settings['codec.accuracy']} is not {shell}")
    aggregator.settings["round"]["cohort"] = 5
    aggregator.write_config()
    aggregator.process.send_signal(signal.SIGHUP)
    aggregator.log_line("event=reloaded")
    deadline = time.monotonic() + 20
    while read()["round.cohort"]["value"] != "5":
        check(time.monotonic() < deadline, "the new cohort is not shown")
        time.sleep(0.05)


def test_log(browser, aggregator):
    """The last lines of what goes to standard error."""
    lines = browser.json("GET", "/api/v1/log")["lines"]
    written = [line for line in (aggregator.workspace.path / f"{aggregator.name}.log").read_text().splitlines() if line.startswith("time=")]
    first = written.index(lines[0])
    check(lines == written[first:first + len(lines)] and any("event=reloaded" in line for line in lines), f"{lines} is not {written}")


def test_tools(browser, aggregator):
    """`doctor` and `export`, each by a process of its own: the same answers as in a shell."""
    findings = browser.json("GET", "/api/v1/doctor")
    shell = json.loads(run(BIN / "tern-aggregator", "doctor", "--json", "--config", aggregator.config))
    check([(row["area"], row["health"]) for row in findings] == [(row["area"], row["health"]) for row in shell], f"{findings} is not {shell}")
    status, headers, model = browser.ask("GET", "/api/v1/model")
    check(status == 200 and headers["Content-Disposition"] == 'attachment; filename="model.safetensors"' and
          headers["Cache-Control"] == "no-store", f"{status} {headers} {model[:200]}")
    exported = aggregator.state / "exported.safetensors"
    run(BIN / "tern-aggregator", "export", exported, "--config", aggregator.config)
    check(model == exported.read_bytes(), "the download is not what export writes")
    for path in ("doctor", "model", "settings", "log", "clients/2", "clients/2/rounds"):
        check(browser.status("GET", f"/api/v1/{path}", Authorization=None) == 401, f"{path} without a session")
        check(browser.status("POST", f"/api/v1/{path}", {}) == 405, f"POST of {path}")


def test_metrics(browser, aggregator):
    text = browser.ask("GET", "/metrics")[2].decode()
    for line in (f"tern_evaluated_version {ROUNDS}", 'tern_evaluated{metric="f1_macro",model="replica"} 0.25',
                 f'tern_evaluated{{metric="mae",model="replica"}} {2 + ROUNDS}',
                 'tern_evaluated{metric="accuracy",model="replica"} 0.5', 'tern_waiting{reason="members"} 1',
                 "tern_waiting_needs_help 0", "tern_clients_recent 3"):
        check(f"\n{line}\n" in text, f"{line} is not in {text}")
    names = re.findall(r"^(tern_\w+(?:{.*})?) ", text, re.M)
    check(len(names) == len(set(names)), "Prometheus takes no name twice")
    check("\ntern_round_mean_loss 0.25\n" in text, text)
    check(aggregator.json("status")["database_bytes"] > 0, "as the command line counts")


def test_errors_are_json(browser, aggregator):
    """Whoever refuses, under /api: the listener, the admission, the job. All else says a line of text."""
    del aggregator
    expected = [
        (401, "unauthorized", "GET", "/api/v1/status", None, {"Authorization": None}),
        (403, "forbidden", "POST", "/api/v1/enroll-codes", {}, {"Origin": "http://evil.example"}),
        (403, "forbidden", "POST", "/api/v1/session", {"token": browser.token}, {"Origin": None}),
        (404, "not-found", "GET", "/api/v1/nothing", None, {}),
        (404, "not-found", "POST", "/api/v1/clients/99/revoke", {}, {}),
        (405, "http", "DELETE", "/api/v1/status", None, {}),
        (404, "not-found", "POST", "/api/v1/rounds/77/close", {}, {}),
        (409, "bad-state", "POST", f"/api/v1/rounds/{ROUNDS}/close", {}, {}),
        (413, "too-large", "POST", "/api/v1/enroll-codes", {"label": "x" * 5000}, {}),
        (421, "http", "GET", "/api/v1/status", None, {"Host": "evil.example"}),
        (422, "bad-argument", "GET", "/api/v1/rounds?limit=0", None, {}),
    ]
    for status, name, method, path, body, headers in expected:
        found, said, text = browser.ask(method, path, body, **headers)
        check((found, said.get("Content-Type")) == (status, "application/json"), f"{method} {path}: {found} {said} {text}")
        error = json.loads(text)
        check(set(error) == {"error", "message"} and error["error"] == name, f"{method} {path}: {error}")
        check(error["message"].rstrip(".") != "", f"{method} {path}: {error}")
    for status, path, headers in ((401, "/metrics", {"Authorization": None}), (404, "/page/", {}), (421, "/", {"Host": "evil.example"})):
        found, said, text = browser.ask("GET", path, **headers)
        check((found, said.get("Content-Type")) == (status, "text/plain"), f"{path}: {found} {said}")
        check(text.isascii() and text.count(b"\n") == 1 and text.endswith(b".\n"), f"{path}: {text}")


def test_commands_of_the_document(browser, aggregator):
    """Those of OPERATIONS, "Admin API", as they stand there, in a shell that stops at the first that fails."""
    section = DOCUMENT.read_text().partition("### Admin API")[2].partition("\n### ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.S)
    check(len(blocks) == 2, f"{blocks}")
    said = []
    for block in blocks:
        commands = block.replace("127.0.0.1:9443", f"127.0.0.1:{browser.port}").replace("tern-state/", f"{aggregator.state}/")
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=aggregator.state, capture_output=True, text=True,
                              check=False, env={**os.environ, "no_proxy": "127.0.0.1"})
        check(done.returncode == 0, f"{commands} ended with {done.returncode}: {done.stdout}{done.stderr}")
        said.append([json.loads(line) for line in done.stdout.splitlines()])
    (waiting, code), (status, another) = said
    check(waiting["reason"] == "members" and code["uses"] == 10, f"{said[0]}")
    check(status["version"] == ROUNDS and another["uses"] == 1, f"{said[1]}")


def test_actions(browser, aggregator):
    check(browser.json("POST", "/api/v1/clients/1/revoke", {})["was_revoked"] is False, "revoked")
    check(aggregator.json("clients")[0]["revoked"] is True, "the client is not revoked")
    check(browser.status("POST", f"/api/v1/rounds/{ROUNDS}/close", {}) == 409, "a round that is not open")
    check(browser.status("POST", "/api/v1/rounds/x/close", {}) == 404, "no round at all")
    closed = browser.json("POST", f"/api/v1/rounds/{ROUNDS + 1}/close", {})
    check(closed == {"round": ROUNDS + 1, "reported": 0}, f"{closed}")
    aggregator.log_line("round-ended-by-hand")


def test_roles(browser, aggregator):
    """A session has the role of its token, and ends with it."""
    ann = Browser(aggregator, browser.port)
    ann.token = aggregator.json("token", "add", "ann", "--role", "viewer")["token"]
    wait_until("the service reads the token", lambda: ann.status("GET", "/metrics", Authorization=f"Bearer {ann.token}") == 200)
    session = ann.json("POST", "/api/v1/session", {"token": ann.token}, expected=201)
    check((session["name"], session["role"]) == ("ann", "viewer"), f"{session}")
    ann.log_in()
    check(ann.status("GET", "/api/v1/clients") == 200, "a viewer reads")
    status, _, text = ann.ask("POST", "/api/v1/clients/2/revoke", {})
    check(status == 403 and b"needs the role operator, and ann has the role viewer" in text, f"{status} {text}")
    check(ann.status("GET", "/api/v1/tokens") == 403, "a viewer lists tokens")
    rows = ann.json("GET", "/api/v1/audit?last=200")
    check(rows == aggregator.json("audit")[-200:], "the audit log of the page is another one")
    refused = [row["action"] for row in rows if row["who"] == "ann"]
    check(refused == ["POST /api/v1/clients/{}/revoke", "GET /api/v1/tokens"], f"{refused}")
    done = [row for row in rows if row["who"] == "admin.token" and row["action"] == "POST /api/v1/clients/{}/revoke"]
    check(len(done) == 1 and done[0]["subject"] == "client 1" and done[0]["address"] == "127.0.0.1", f"{rows}")
    aggregator.json("token", "revoke", "ann")
    wait_until("the session ends with its token", lambda: ann.status("GET", "/api/v1/clients") == 401)
    check(b"This token was revoked." in ann.ask("GET", "/api/v1/clients")[2], "why the session has ended")


def test_logout(browser):
    cookie, key = browser.cookie, browser.key
    status, headers, _ = browser.ask("DELETE", "/api/v1/session")
    check(status == 204 and "Max-Age=0" in headers["Set-Cookie"], f"{status} {headers}")
    check(browser.status("GET", "/api/v1/status", Cookie=cookie, Authorization=f"Session {key}") == 401,
          "the session goes on")


def test_guessing_is_held_back(browser):
    browser.cookie = browser.key = ""
    statuses = [browser.status("POST", "/api/v1/session", {"token": f"guess {i}"}) for i in range(12)]
    check(statuses[0] == 401 and statuses[-1] == 429, f"{statuses}")
    status, headers, _ = browser.ask("POST", "/api/v1/session", {"token": browser.token})
    check(status == 429 and 0 < int(headers["Retry-After"]) <= 60, f"{status} {headers}")
    check(browser.status("GET", "/api/v1/status", Authorization=f"Bearer {browser.token}") == 200,
          "programs are shut out by a person's mistakes")


def test():
    with Workspace() as workspace:
        port_file = workspace.path / "admin.port"
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:16-8-4", "seed": 7},
            "round": {"cohort": 3, "min_clients": 1, "eligible_within": "0"},
            "admin": {"address": "127.0.0.1", "port": 0, "port_file": port_file}})
        run(HELPERS / "make_federation", aggregator.state / "tern.db", ROUNDS)
        database = sqlite3.connect(aggregator.state / "tern.db")
        with database:
            database.execute("UPDATE clients SET tags = 'site=a' WHERE id = 2")
            tell_figures(database)
            open_round(database, ROUNDS, int(time.time() * 1000), [1, 2, 3])
        database.close()
        aggregator.start()
        aggregator.log_line("listening on")  # by then both ports are written
        browser = Browser(aggregator, int(port_file.read_text()))
        for part in (test_files, test_login, test_a_session_needs_both_halves, test_changes_come_from_the_page,
                     test_codes):
            part(browser)
        for part in (test_columns_are_the_lists, test_the_status_has_the_cost_of_the_last_round, test_held_out_figures,
                     test_waiting_and_status, test_one_client,
                     test_settings_in_force, test_log, test_tools, test_metrics, test_errors_are_json,
                     test_commands_of_the_document, test_actions, test_roles):
            part(browser, aggregator)
        test_logout(browser)
        test_guessing_is_held_back(browser)


main(test)
