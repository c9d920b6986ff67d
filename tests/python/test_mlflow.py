"""The requests that MLflow's server is sent, as its REST API describes them, against a server that checks each:
/api/2.0/mlflow/experiments/get-by-name (GET) and create, runs/create, log-batch, update, get (GET)."""
import base64
import http.server
import json
import os
import threading
import unittest
import unittest.mock
import urllib.parse

import tern
from tern import mlflow

# Fields of each request: name to type, those that must be there first.
POSTED = {
    "experiments/create": ({"name": str}, {}),
    "runs/create": ({"experiment_id": str, "start_time": int}, {"tags": list}),
    "runs/log-batch": ({"run_id": str}, {"metrics": list, "params": list, "tags": list}),
    "runs/update": ({"run_id": str, "status": str}, {"end_time": int}),
}
METRIC = {"key": str, "value": (int, float), "timestamp": int, "step": int}
PAIR = {"key": str, "value": str}


class Refusal(Exception):
    pass


def fits(item, fields):
    if set(item) != set(fields) or not all(type(item[key]) in (kinds if isinstance(kinds, tuple) else (kinds,))
                                           for key, kinds in fields.items()):
        raise Refusal(400, "INVALID_PARAMETER_VALUE", f"{item} is not of {list(fields)}")


class Server:
    """What MLflow keeps, behind the paths and limits that it documents."""

    def __init__(self):
        self.experiments, self.runs, self.headers, self.requests = {}, {}, [], []
        self.fail_next = 0

    def post(self, path, body):
        required, optional = POSTED[path]
        for key, kind in (required | optional).items():
            if key in required and key not in body or key in body and type(body[key]) is not kind:
                raise Refusal(400, "INVALID_PARAMETER_VALUE", f"{path}: {key}")
        if set(body) - set(required) - set(optional):
            raise Refusal(400, "INVALID_PARAMETER_VALUE", f"{path}: {set(body)}")
        return getattr(self, path.replace("/", "_").replace("-", "_"))(body)

    def experiments_create(self, body):
        if body["name"] in self.experiments:
            raise Refusal(400, "RESOURCE_ALREADY_EXISTS", "it is there")
        self.experiments[body["name"]] = str(len(self.experiments) + 1)
        return {"experiment_id": self.experiments[body["name"]]}

    def runs_create(self, body):
        run_id = f"run{len(self.runs)}"
        for tag in body["tags"]:
            fits(tag, PAIR)
        self.runs[run_id] = {"info": {"run_id": run_id, "experiment_id": body["experiment_id"], "status": "RUNNING"},
                             "metrics": [], "params": {}, "tags": {tag["key"]: tag["value"] for tag in body["tags"]}}
        return {"run": {"info": self.runs[run_id]["info"], "data": {}}}

    def runs_log_batch(self, body):
        run = self.runs[body["run_id"]]
        for metric in body["metrics"]:
            fits(metric, METRIC)
        for pair in body["params"] + body["tags"]:
            fits(pair, PAIR)
        if len(body["metrics"]) + len(body["params"]) + len(body["tags"]) > 1000:
            raise Refusal(400, "INVALID_PARAMETER_VALUE", "more than 1000")
        run["metrics"] += body["metrics"]
        for param in body["params"]:
            if run["params"].setdefault(param["key"], param["value"]) != param["value"]:
                raise Refusal(400, "INVALID_PARAMETER_VALUE", "params do not change")
        run["tags"].update((tag["key"], tag["value"]) for tag in body["tags"])
        return {}

    def runs_update(self, body):
        if body["status"] not in ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"):
            raise Refusal(400, "INVALID_PARAMETER_VALUE", "status")
        self.runs[body["run_id"]]["info"] |= {"status": body["status"], "end_time": body["end_time"]}
        return {"run_info": self.runs[body["run_id"]]["info"]}

    def get(self, path, query):
        if path == "experiments/get-by-name":
            name = query["experiment_name"]
            if name not in self.experiments:
                raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", "Could not find it")
            return {"experiment": {"experiment_id": self.experiments[name], "name": name}}
        run = self.runs[query["run_id"]]
        assert path == "runs/get", path
        tags = [{"key": key, "value": value} for key, value in run["tags"].items()]
        return {"run": {"info": run["info"], "data": {"tags": tags}}}


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def answer(self, body):
        url = urllib.parse.urlsplit(self.path)
        kept = self.server.kept
        kept.requests.append((self.command, url.path))
        kept.headers.append(dict(self.headers))
        status = 200
        try:
            assert url.path.startswith("/api/2.0/mlflow/"), url.path
            path = url.path.removeprefix("/api/2.0/mlflow/")
            if kept.fail_next:
                kept.fail_next -= 1
                raise Refusal(503, "TEMPORARILY_UNAVAILABLE", "later")
            done = kept.get(path, dict(urllib.parse.parse_qsl(url.query))) if body is None else kept.post(path, body)
        except Refusal as refusal:
            status, done = refusal.args[0], {"error_code": refusal.args[1], "message": refusal.args[2]}
        text = json.dumps(done).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):  # noqa: N802
        self.answer(None)

    def do_POST(self):  # noqa: N802
        assert self.headers["Content-Type"] == "application/json"
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))


class Rounds:
    """A federation that has done so many rounds."""

    def __init__(self, count):
        self.count = count

    def rounds(self):
        committed = [{"round": number, "state": "committed", "opened_ms": 1000 * number, "closed_ms": 1000 * number + 500,
                      "mean_loss": 1 / number, "median_loss": 0.5, "applied": 3, "strategy": "fedavgm", "codec_up": "3lc",
                      "accuracy": None if number == 1 else 0.9, "finished": True, "evaluated_r2": 0.5, "held_out_mae_worst": 2.0,
                      "held_out_mae_worst_client": 7} for number in range(1, self.count + 1)]
        return tern.Table([*committed, {"round": self.count + 1, "state": "open", "mean_loss": None}])


class Mlflow(unittest.TestCase):
    def setUp(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.kept = server.kept = Server()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.uri = f"http://127.0.0.1:{server.server_address[1]}"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
        patch = unittest.mock.patch.dict(os.environ, clean, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def steps(self, run, key):
        return [metric["step"] for metric in self.kept.runs[run.run_id]["metrics"] if metric["key"] == key]

    def test_a_federation_becomes_a_run(self):
        run = mlflow.log(Rounds(3), self.uri + "/", "pumps & valves", run_name="first")
        self.assertEqual(self.kept.requests, [(method, "/api/2.0/mlflow/" + path) for method, path in (
            ("GET", "experiments/get-by-name"), ("POST", "experiments/create"), ("POST", "runs/create"),
            ("POST", "runs/log-batch"))])
        kept = self.kept.runs[run.run_id]
        self.assertEqual(self.kept.experiments, {"pumps & valves": kept["info"]["experiment_id"]})
        self.assertIn({"key": "mean_loss", "value": 0.5, "timestamp": 2500, "step": 2}, kept["metrics"])
        self.assertEqual({metric["key"] for metric in kept["metrics"]}, {"mean_loss", "median_loss", "applied", "accuracy", "evaluated_r2",
                                                                      "held_out_mae_worst"})
        self.assertEqual(self.steps(run, "mean_loss"), [1, 2, 3])
        self.assertEqual(self.steps(run, "accuracy"), [2, 3])
        self.assertEqual(kept["params"], {"strategy": "fedavgm", "codec_up": "3lc"})
        self.assertEqual(kept["tags"], {"mlflow.runName": "first", "mlflow.source.name": "tern", "tern.last_round": "3"})

    def test_later_rounds_are_logged_once(self):
        federation = Rounds(2)
        run = mlflow.log(federation, self.uri, "pumps")
        self.assertEqual(run.update(), 0)
        federation.count = 4
        self.assertEqual(run.update(), 2)
        federation.count = 5
        again = mlflow.log(federation, self.uri, "pumps", run_id=run.run_id)
        self.assertEqual(self.steps(again, "mean_loss"), [1, 2, 3, 4, 5])
        federation.count = 6
        again.finish()
        self.assertEqual(self.steps(again, "mean_loss"), [1, 2, 3, 4, 5, 6])
        self.assertEqual((len(self.kept.runs), self.kept.runs[run.run_id]["info"]["status"]), (1, "FINISHED"))
        second = mlflow.log(federation, self.uri, "pumps")
        self.assertEqual((len(self.kept.experiments), second.run_id != run.run_id), (1, True))

    def test_many_rounds_go_in_requests_of_a_thousand(self):
        run = mlflow.log(Rounds(700), self.uri, "long")
        self.assertEqual(self.steps(run, "mean_loss"), list(range(1, 701)))
        self.assertEqual([path for _, path in self.kept.requests].count("/api/2.0/mlflow/runs/log-batch"), 5)

    def test_what_failed_is_sent_again_and_nothing_twice(self):
        federation = Rounds(700)
        with self.assertRaisesRegex(mlflow.MlflowError, "503 TEMPORARILY_UNAVAILABLE: later"):
            self.kept.fail_next = 1
            mlflow.log(federation, self.uri, "long")
        run = mlflow.log(Rounds(0), self.uri, "long")
        run._federation = federation  # pylint: disable=protected-access
        sent = []

        def refuse_second(body):
            sent.append(body)
            if len(sent) == 2:
                raise Refusal(500, "INTERNAL_ERROR", "once")
            return Server.runs_log_batch(self.kept, body)

        self.kept.runs_log_batch = refuse_second
        with self.assertRaises(mlflow.MlflowError):
            run.update()
        run.update()
        self.assertEqual(self.steps(run, "mean_loss"), list(range(1, 701)))

    def test_names_and_passwords(self):
        with unittest.mock.patch.dict(os.environ, {"MLFLOW_TRACKING_USERNAME": "ann", "MLFLOW_TRACKING_PASSWORD": "secret"}):
            mlflow.log(Rounds(1), self.uri, "pumps")
        self.assertEqual({headers["Authorization"] for headers in self.kept.headers},
                         {"Basic " + base64.b64encode(b"ann:secret").decode()})
        with unittest.mock.patch.dict(os.environ, {"MLFLOW_TRACKING_TOKEN": "token"}):
            mlflow.log(Rounds(1), self.uri, "pumps")
        self.assertEqual(self.kept.headers[-1]["Authorization"], "Bearer token")

    def test_no_server(self):
        with self.assertRaisesRegex(mlflow.MlflowError, "no answer of MLflow's"):
            mlflow.log(Rounds(1), "http://127.0.0.1:1", "pumps")
        with self.assertRaisesRegex(ValueError, "tracking_uri"):
            mlflow.log(Rounds(1), "file:///tmp/mlruns", "pumps")


if __name__ == "__main__":
    unittest.main()
