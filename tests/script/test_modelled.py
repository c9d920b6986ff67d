"""Modelled time, and the rows and curves made of results small enough to reckon by hand; what the
[experiment] section accepts, and which settings are advised against."""
import json
import os
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "lab"))
import compare  # noqa: E402
from comparison import (advice, curves, modelled, pace, picture, plan, planned, rows,  # noqa: E402
                        settings, tables)

MBIT = 125000  # bytes per second


def took(version, client, steps=1, up=0, down=0, train_ms=0.0, codec_ms=0.0, device_ms=0.0):
    return modelled.Participation(version, client, steps, up, down, train_ms, codec_ms, device_ms)


class Modelled(unittest.TestCase):
    def test_a_round_takes_as_long_as_its_slowest_client(self):
        compute = modelled.measured_compute(step=0.5, codec=0.25)
        clients = [took(1, 1, steps=2, up=MBIT, down=2 * MBIT),    # 3 s of link at 1 Mbit/s
                   took(1, 2, steps=10, up=10, down=10)]           # 5 s of steps
        self.assertAlmostEqual(modelled.client_seconds(clients[0], 1, compute), 3 + 1 + 0.25)
        self.assertAlmostEqual(modelled.round_seconds(clients, 1, compute), 5.25 + 160e-6)
        self.assertAlmostEqual(modelled.round_seconds(clients, 0.5, compute), 7.25)
        self.assertAlmostEqual(modelled.round_seconds(clients, 1000, compute), 5.25, places=3)

    def test_who_does_not_come_is_waited_for(self):
        compute = modelled.measured_compute(step=1, codec=0)
        clients = [took(1, 1), took(1, 2)]
        self.assertAlmostEqual(modelled.round_seconds(clients, 1, compute, 2, 60), 1)
        self.assertAlmostEqual(modelled.round_seconds(clients, 1, compute, 3, 60), 60)
        self.assertAlmostEqual(modelled.round_seconds(clients, 1, compute, 3, 0.5), 1)

    def test_rounds_follow_each_other(self):
        compute = modelled.measured_compute(step=1, codec=0)
        clients = [took(2, 1, steps=3), took(1, 1, steps=1), took(1, 2, steps=2), took(5, 1)]
        self.assertAlmostEqual(modelled.run_seconds(clients, 1, compute), 2 + 3 + 1)
        self.assertAlmostEqual(modelled.run_seconds(clients, 1, compute, until=2), 2 + 3)
        self.assertEqual(modelled.run_seconds([], 1, compute), 0)

    def test_a_devices_own_time_counts_instead(self):
        compute = modelled.device_compute(60)
        self.assertAlmostEqual(modelled.client_seconds(took(1, 1, device_ms=500), 1, compute), 30)

    def test_a_step_takes_the_median(self):
        result = result_of(train_ms=[4, 6, 100, 8], steps=[1, 2, 1, 2])
        self.assertAlmostEqual(modelled.step_seconds([result]), 0.004)
        clients = [took(1, 1, codec_ms=value) for value in (1, 2, 90)]
        self.assertAlmostEqual(modelled.codec_seconds(clients), 0.002)


def result_of(train_ms=(1, 1, 1, 1), steps=(1, 1, 1, 1), accuracy=(0.5, None, 0.9), **more):
    """Three rounds; two clients took part in the first, one in each other."""
    return {"accuracy": list(accuracy), "final_accuracy": accuracy[-1], "clients": 2, "cohort": 2,
            "codec": "float32", "values": 100, "payload_up": 50.0, "payload_down": 25.0,
            "http_up": 52.0, "http_down": 26.0, "tls_up": 55.0,
            "tls_down": 27.0, "wire_up": 60.0, "wire_down": 30.0, "encode_ms": 0.1, "round_wire_up": [10, 20, 30],
            "round_wire_down": [1, 2, 3], "round_trunk_down": [100, 200, 300],
            "replica_accuracy": [0.8, None], "replica_version": [30, 1], "global_accuracy": 0.85,
            "record_version": [1, 1, 2, 3], "record_client": [1, 2, 1, 2],
            "record_steps": list(steps), "record_payload_up": [50] * 4,
            "record_payload_down": [25] * 4, "record_wire_up": [MBIT] * 4,
            "record_wire_down": [0] * 4, "record_train_ms": list(train_ms),
            "record_codec_ms": [0] * 4, "record_device_ms": [2000] * 4, **more}


def told_by(name, replica, global_, **more):
    """A result of a model that tells no classes, as tern-fleet writes it."""
    result = result_of(accuracy=(None, None, None))
    for key in ("global_accuracy", "replica_accuracy"):
        del result[key]
    return result | {"final_accuracy": None, name: [None, 0.1, replica], "final_" + name: replica,
                     "global_" + name: global_, "replica_" + name: [replica, None],
                     "evaluated_loss": [None, 0.9, 0.5], "final_evaluated_loss": 0.5, "global_loss": 0.6} | more


def loss_alone(**more):
    """Returns the result of rows without known anomalies."""
    result = told_by("threshold", 17.5, 17.6) | more
    del result["replica_threshold"]
    return result


class Rows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def plan(self, *lines, before=""):
        path = self.folder / "plan.ini"
        path.write_text(before + "\n[experiment]\n" + "\n".join(("seeds = 1",) + lines) + "\n")
        return plan.Plan(str(path))

    def load(self, plan_, **results):
        for run in plan_.runs:
            made = planned.Planned(plan_, run, "1", str(self.folder))
            made.write(made.ini)
            pathlib.Path(made.results).write_text(json.dumps(results[run.label]))
        return rows.load(plan_, str(self.folder))

    def test_bytes_rounds_and_time_until_an_accuracy(self):
        plan_ = self.plan("targets = 0.5 0.7 0.95", "bandwidths = 1", "run = a",
                          before="[round]\ncohort = 2\ndeadline = 3s")
        groups, missing = self.load(plan_, a=result_of(train_ms=[1000] * 4))
        row = groups[0][1][0]
        self.assertEqual(missing, [])
        self.assertEqual(row["to_reach"], {"0.5": 5.5, "0.7": 33.0, "0.95": None})
        self.assertEqual(row["rounds_to_reach"], {"0.5": 1, "0.7": 3, "0.95": None})
        # A second of link and one of compute; where one of two is missing, the deadline.
        self.assertAlmostEqual(row["seconds"]["1"], 2 + 3 + 3)
        self.assertAlmostEqual(row["seconds_to_reach"]["0.5"], 2)
        self.assertIsNone(row["seconds_to_reach"]["0.95"])
        self.assertAlmostEqual(row["bits_up"], 4)
        self.assertAlmostEqual(row["bits_down"], 2)

    def test_devices_with_a_speed_take_their_own_time(self):
        plan_ = self.plan("device_second = 60", "bandwidths = 1", "run = a | fleet.speed=5",
                          before="[round]\ncohort = 1\n[fleet]\nspeed = 0")
        groups, _ = self.load(plan_, a=result_of())
        self.assertAlmostEqual(groups[0][1][0]["seconds"]["1"], 3 * (120 + 1))

    def test_each_measure_is_another_accuracy(self):
        for measure, expected in (("trunk", 0.9), ("global", 0.85), ("clients", 0.8)):
            groups, _ = self.load(self.plan(f"measure = {measure}", "run = a"), a=result_of())
            self.assertAlmostEqual(groups[0][1][0]["accuracy"], expected)

    def test_each_loss_has_a_table_under_each_measure(self):
        """Points are of figures of one kind; what a result lacks is a dash, and named."""
        for measure in plan.MEASURES:
            for one, other, title in ((result_of(), result_of(accuracy=(0.5, None, 0.8)), ""),
                                      (told_by("r2", 0.9, 0.85), told_by("r2", 0.8, 0.7), "R2 "),
                                      (told_by("auc", 0.9, 0.85), told_by("auc", 0.8, 0.7), "AUC "),
                                      (loss_alone(), loss_alone(), "loss ")):
                for lines in (("run = a", "run = b"), ("run = a", "run = b", "cell = c | data.alpha=1")):
                    plan_ = self.plan("measure = " + measure, "targets = 0.85", "bandwidths = 10",
                                      "columns = " + " ".join(plan.COLUMNS), *lines)
                    groups, _ = self.load(plan_, a=one, b=other)
                    summary = rows.summaries(plan_, groups)
                    text = tables.text_table(plan_, groups, summary)
                    tables.markdown_table(plan_, groups, summary)
                    picture.picture(plan_, groups)
                    head, line = tables.table_of(plan_, groups[0][1][1:])
                    cells = dict(zip(head, line))
                    models = [tables.MODELS[each] for each in plan_.measures]
                    for model in models:
                        self.assertRegex(cells["accuracy (%s)" % model], "^%s0|^-$" % title, text)
                    lacking = compare.lacking([row for _, rows_ in groups for row in rows_])
                    bare = title == "loss " and measure == "clients"
                    self.assertEqual(bool(lacking), bare, (title, measure))
                    self.assertEqual(groups[0][1][1]["points"] is None, title == "loss ")
                    curves.series(other)

    def test_a_figure_that_a_run_lacks_is_a_dash_and_is_named(self):
        bare = result_of(accuracy=(None, None, None))
        del bare["global_accuracy"]
        for measure, key in (("trunk", "accuracy"), ("global", "global_accuracy")):
            plan_ = self.plan("measure = " + measure, "front = yes", "reference = a", "run = a", "run = b",
                              "run = c")
            groups, _ = self.load(plan_, a=result_of(), b=bare, c=told_by("r2", 0.9, 0.8))
            self.assertEqual(compare.lacking(groups[0][1]), ["b has no " + key])
            text = tables.text_table(plan_, groups)
            self.assertRegex(text, r"\nb +- +- ")
            self.assertRegex(text, r"\nc +R2 0\.[89]000 +- ")  # no points between R2 and an accuracy
            picture.picture(plan_, groups)
        older = result_of()
        for key in ("encode_ms", "tls_up"):
            del older[key]
        plan_ = self.plan("run = a")
        groups, _ = self.load(plan_, a=older)
        self.assertIn("-", tables.table_of(plan_, groups[0][1])[1])

    def test_both_models_stand_side_by_side(self):
        """Replica: the mean of the last two versions measured; between the two models: of the end."""
        plan_ = self.plan("measure = both", "last = 2", "columns = accuracy points", "run = a", "run = b",
                          "cell = one | data.alpha=1", "cell = two | data.alpha=2")
        results = {"one: a": (0.8, 0.82), "one: b": (0.8, 0.79), "two: a": (0.8, 0.82), "two: b": (0.7, 0.83)}
        for run in plan_.runs:
            made = planned.Planned(plan_, run, "1", str(self.folder))
            made.write(made.ini)
            replica, global_ = results[run.name]
            pathlib.Path(made.results).write_text(json.dumps(result_of(
                accuracy=(replica - 0.1, None, replica), global_accuracy=global_)))
        groups, _ = rows.load(plan_, str(self.folder))
        summary = rows.summaries(plan_, groups)
        found = dict(tables.sections(plan_, groups, summary, ""))
        self.assertEqual(found["b"], [
            ["cell", "accuracy (replica)", "accuracy (global)", "global - replica", "points (replica)",
             "points (global)"],
            ["one", "0.7500", "0.7900", "-1.00", "+0.00", "-3.00"],
            ["two", "0.6500", "0.8300", "+13.00", "-10.00", "+1.00"]])
        told = dict(zip(*(found["Over the cells"][line] for line in (0, 2))))
        for heading, cell in (("points, mean (replica)", "-5.00"), ("worst (replica)", "-10.00"),
                              ("in the cell (replica)", "two"), ("points, mean (global)", "-1.00"),
                              ("worst (global)", "-3.00"), ("in the cell (global)", "one"),
                              ("widest global - replica", "+13.00"), ("in the cell (gap)", "two")):
            self.assertEqual(told[heading], cell, heading)
        self.assertEqual(found["Points from the replica to the global model, at the end"][2],
                         ["two", "+2.00", "+13.00"])

    def arrived(self, **more):
        """Two join at version 2, two come back at version 3."""
        return result_of(accuracy=(0.5, 0.7, 0.9), arrival_client=[7, 8, 9, 10],
                         arrival_version=[2, 3, 2, 3], arrival_missed=[2, 2, 2, 1],
                         arrival_payload_down=[600, 100, 400, 150],
                         arrival_accuracy=[0.69, 0.91, 0.71, 0.87], **more)

    def test_arrivals_are_held_against_the_chain_and_the_newest_model(self):
        arrived = self.arrived(arrival_global_accuracy=[0.72, 0.92, 0.72, 0.92])
        plan_ = self.plan("columns = arrivals", "run = a")
        groups, _ = self.load(plan_, a=arrived)
        row = groups[0][1][0]
        for key, mean, worst in (("joined_payload", 500, 600), ("joined_to_trunk", 0, -1),
                                 ("joined_to_global", -2, -3),
                                 ("back_chain_share", (100 / 500 + 150 / 300) / 2, 0.5),
                                 ("back_to_trunk", -1, -3), ("back_to_global", -3, -5)):
            self.assertAlmostEqual(row[key], mean, msg=key)
            self.assertAlmostEqual(row[key + "_worst"], worst, msg=key)
        head, line = tables.table_of(plan_, [row])
        cells = dict(zip(head, line))
        self.assertEqual(cells["joined: down, mean / most"], "500 B / 600 B")
        self.assertEqual(cells["back: of the chain, mean / most"], "35 % / 50 %")
        self.assertEqual(cells["joined: points to the global model, mean / worst"], "-2.00 / -3.00")
        self.assertEqual([tables.number(value, "%+.2f") for value in (-0.004, -0.006, 0, None)], ["+0.00", "-0.01", "+0.00", "-"])

    def test_arrivals_whose_global_models_were_not_measured(self):
        plan_ = self.plan("columns = arrivals", "run = a")
        groups, _ = self.load(plan_, a=self.arrived())
        head, line = tables.table_of(plan_, groups[0][1])
        cells = dict(zip(head, line))
        self.assertEqual(cells["back: points to the trunk, mean / worst"], "-1.00 / -3.00")
        self.assertEqual(cells["back: points to the global model, mean / worst"], "- / -")

    def test_scores_are_of_the_worst_class_and_client(self):
        plan_ = self.plan("columns = scores", "run = a")
        groups, _ = self.load(plan_, a=result_of(macro_f1=0.75, class_accuracy=[0.9, 0.6, None],
                                                 client_accuracy=[0.8, 0.7]))
        table = tables.table_of(plan_, groups[0][1])
        self.assertEqual(table, [["run", "macro F1", "least of a class", "least of a client"],
                                 ["a", "0.7500", "0.6000", "0.7000"]])
        groups, _ = self.load(plan_, a=result_of())  # of an older program
        self.assertEqual(tables.table_of(plan_, groups[0][1])[1][1:], ["-"] * 3)

    def test_what_a_run_is_held_against_may_not_have_run_yet(self):
        for lines in (("run = a", "run = b"), ("run = a", "run = b", "cell = c | round.rounds=1")):
            plan_ = self.plan("columns = accuracy points ratio speedup", "bandwidths = 1", *lines)
            made = planned.Planned(plan_, plan_.runs[1], "1", str(self.folder))
            made.write(made.ini)
            pathlib.Path(made.results).write_text(json.dumps(result_of()))
            groups, missing = rows.load(plan_, str(self.folder))
            self.assertEqual(missing, [plan_.runs[0].name])
            self.assertIsNone(groups[0][1][0]["points_to_float32"])
            summary = rows.summaries(plan_, groups)
            self.assertEqual(summary, [])
            text = tables.text_table(plan_, groups, summary)
            self.assertRegex(text, r"\n[bc] +0\.9000 +- +- +[-1]")

    def test_each_cell_is_held_against_the_same_cell_of_its_baseline(self):
        """In either cell b takes twice as long as a, and in the second both take three times as long."""
        plan_ = self.plan("columns = speedup", "bandwidths = 1000", "run = a", "run = b",
                          "cell = one | data.alpha=1", "cell = two | data.alpha=2", before="[round]\ncohort = 1")
        results = {run.name: result_of(train_ms=[1000 * steps] * 4, steps=[steps] * 4) for run, steps in zip(
            plan_.runs, (10, 20, 30, 60))}
        for run in plan_.runs:
            made = planned.Planned(plan_, run, "1", str(self.folder))
            made.write(made.ini)
            pathlib.Path(made.results).write_text(json.dumps(results[run.name]))
        groups, _ = rows.load(plan_, str(self.folder))
        found = {title: [line[1] for line in table[1:]] for title, table in tables.sections(
            plan_, groups, rows.summaries(plan_, groups), "") if table[0][0] == "cell"
            and table[0][1].startswith("faster")}
        self.assertEqual(found, {"a": ["1.00x", "1.00x"], "b": ["0.50x", "0.50x"]})

    def test_local_steps_stand_where_runs_differ_in_them(self):
        plan_ = self.plan("columns = accuracy", "run = a", "run = b")
        groups, _ = self.load(plan_, a=result_of(), b=result_of(steps=(2, 2, 1, 1)))
        lines = tables.text_table(plan_, groups).splitlines()
        self.assertEqual([line.split()[2] for line in lines[-2:]], ["1.0", "1.5"])
        groups, _ = self.load(plan_, a=result_of(), b=result_of())
        self.assertNotIn("local steps", tables.text_table(plan_, groups))

    def test_the_front_is_what_nothing_beats(self):
        plan_ = self.plan("front = yes", "reference = a", "columns = accuracy ratio", "run = a",
                          "run = b", "run = c", "run = d")
        results = {}
        for label, accuracy, wire in (("a", 0.9, 1000), ("b", 0.8, 100), ("c", 0.7, 200),
                                      ("d", 0.9, 500)):
            results[label] = result_of(accuracy=(accuracy,), round_wire_up=[wire],
                                       round_wire_down=[0], round_trunk_down=[0])
        groups, _ = self.load(plan_, **results)
        self.assertEqual([row["on_front"] for row in groups[0][1]], [False, True, False, True])
        self.assertAlmostEqual(groups[0][1][1]["times_fewer_than_reference"], 10)
        self.assertAlmostEqual(groups[0][1][1]["points_to_reference"], -10)
        text = tables.text_table(plan_, groups)
        self.assertEqual([line.split()[0] for line in text.splitlines()[-2:]], ["b", "d"])
        drawn = picture.picture(plan_, groups)
        self.assertEqual(picture.picture(plan_, groups), drawn)
        for number, row in enumerate((row for _, rows_ in groups for row in rows_), 1):
            self.assertIn("%d  %s  (%.4f, " % (number, row["label"], row["accuracy"]), drawn)
        self.assertEqual(drawn.count("stroke-dasharray"), 1)

    def test_every_column_has_its_headings_and_cells(self):
        plan_ = self.plan("targets = 0.5", "columns = " + " ".join(plan.COLUMNS), "run = a",
                          "run = b")
        self.assertEqual(set(tables.MAKERS), set(plan.COLUMNS))
        groups, _ = self.load(plan_, a=result_of(), b=result_of(train_ms=[1, 1, 1, 1]))
        table = tables.table_of(plan_, groups[0][1])
        self.assertEqual({len(line) for line in table}, {len(table[0])})
        self.assertEqual(len(set(table[0])), len(table[0]), table[0])
        self.assertIn("1.00x", table[2])

    def test_results_of_an_older_program_have_their_old_columns(self):
        old = {key: value for key, value in result_of().items() if not key.startswith("record_")}
        groups, _ = self.load(self.plan("targets = 0.5", "run = a"), a=old)
        self.assertIn("| a | 0.9000 | +0.00 |", tables.markdown_table(self.plan(
            "targets = 0.5", "run = a"), groups))

    def test_what_makes_no_sense_is_refused(self):
        for line, why in (("measure = best", "measure is of trunk, global, clients, both, not 'best'"),
                          ("columns = accuracy speed", "columns is of"),
                          ("axis = bytes time", "axis is of"),
                          ("bandwidths = 0", "bandwidths are Mbit/s"),
                          ("device_second = 1 2", "device_second are seconds"),
                          ("reference = b", "reference names 'b', which is no run")):
            with self.assertRaises(SystemExit) as refused:
                self.plan(line, "run = a")
            self.assertIn(why, str(refused.exception))


class Planned(unittest.TestCase):
    def plan(self, text, *sets):
        with tempfile.NamedTemporaryFile("w", suffix=".ini") as file:
            file.write(text)
            file.flush()
            return plan.Plan(file.name, sets)

    def test_the_command_line_says_last_what_the_section_holds(self):
        text = "[experiment]\nseeds = 1 2\nrun = a | train.momentum=0.5\n"
        self.assertEqual(self.plan(text, "experiment.seeds=3").seeds, ["3"])
        two = self.plan(text, "experiment.run=b | train.momentum=0.9", "round.rounds=7")
        self.assertEqual([run.label for run in two.runs], ["a", "b"])
        self.assertEqual(two.overrides(two.runs[1], "2"),
                         ["train.momentum=0.9", "federation.seed=2", "round.rounds=7"])
        with self.assertRaises(SystemExit) as refused:
            self.plan(text, "experiment.seeds=x")
        self.assertIn("--set experiment.seeds: seeds are different", str(refused.exception))

    def test_only_takes_names_and_tags(self):
        plan_ = self.plan("[experiment]\nseeds = 1\ncell = a, daily | data.alpha=1 | tag=often\n"
                          "cell = b | data.alpha=2 | tag=daily\nrun = x | tag=often\nrun = y\n")
        for only, names in ((["tag=daily"], ["b: x", "b: y"]), (["tag=often"], ["a, daily: x", "a, daily: y", "b: x"]),
                            (["tag=daily", "tag=often"], ["b: x"]), (["daily"], ["a, daily: x", "a, daily: y"]),
                            (["tag=rare"], [])):
            self.assertEqual([run.name for run in plan_.runs if run.is_meant(only)], names, only)
        self.assertEqual(plan_.runs[0].overrides, ["data.alpha=1"])

    def test_a_bar_in_quotes_belongs_to_a_data_source(self):
        source = 'data.source=csv:a.csv,classes="on|off",drop="x|y"'
        plan_ = self.plan("[experiment]\nseeds = 1\ncell = c | %s | data.alpha=1\nrun = a\n" % source)
        self.assertEqual(plan_.runs[0].overrides, [source, "data.alpha=1"])

    def test_a_plan_that_makes_no_sense_is_refused(self):
        start = "[experiment]\nseeds = 3 4\ntwo = round.rounds=2\ngroups = two\nrun = "
        for run, why in (("a | codec=3lc", "'codec=3lc' is not section.key=value"),
                         ("a | @none", "there is no list 'none'"),
                         ("| codec.codec=3lc", "a run starts with its label"),
                         ("a\nruns = b | codec.codec=3lc", "'runs' is none of seeds"),
                         ("a\nseeds = 1 1", "seeds are different whole numbers"),
                         ("a\ntargets = high", "targets are accuracies"),
                         ("a\ntargets = 0.5 nan", "targets are accuracies"),
                         ("a\nbandwidths = inf", "bandwidths are Mbit/s"),
                         ("a\ngroups = none", "groups names 'none'"),
                         ("a\nrun = b | against=c", "'b' is held against 'c', which is no run"),
                         ("a\nrun = a", "two runs are called 'a'"),
                         ("a\nlast = 0", "last is a number of versions from 1, not '0'"),
                         ("a\nlast = 2\nmeasure = global", "last says nothing with measure = global"),
                         ("a\nvary_partition = 1", "vary_partition is of yes, no, not '1'"),
                         ("a\ncell = one | data.alpha=1", "with those 'groups' says nothing"),
                         ("a\ncell = | data.alpha=1", "a cell starts with its label"),
                         ("a\nrun b", "'run b' is not key = value")):
            with self.assertRaises(SystemExit) as refused:
                self.plan(start + run + "\n")
            self.assertIn(why, str(refused.exception))

    def test_what_differs_is_told_and_the_rest_is_not(self):
        self.assertEqual(settings.differences({"a.b": "1", "a.c": "2"}, {"a.b": "1", "a.d": "3"}),
                         [("a.c", "2", None), ("a.d", None, "3")])
        one = {"a.b": "waves:height=2,count=3", "a.c": "csv:table.csv,label=on"}
        self.assertEqual(settings.differences(one, {**one, "a.b": "waves:count=3,height=2"}), [])
        self.assertEqual(len(settings.differences(one, {"a.b": "waves:count=2,height=3", "a.c": "csv:other.csv,label=on"})), 2)

    def test_the_time_to_go_knows_long_runs(self):
        short = {"round.rounds": "10"}
        long = {"round.rounds": "1000"}
        known = pace.Pace()
        self.assertIsNone(known.to_go([short], [], 1))
        known.ended(short, 2.0)
        self.assertAlmostEqual(known.to_go([short, short], [], 1), 4)
        self.assertAlmostEqual(known.to_go([long], [], 1), 200)        # as much as it has to do
        known.ended(long, 150.0)
        self.assertAlmostEqual(known.to_go([long], [], 1), 150)        # as much as one took
        self.assertAlmostEqual(known.to_go([long, short], [(long, 0.5, 9)], 2), 150)
        self.assertAlmostEqual(known.to_go([short], [(short, 0.5, 9)], 1), 3)
        self.assertEqual(pace.sentence(89.6), "; about 90 s to go")
        self.assertEqual(pace.sentence(600), "; about 10 min to go")

    def test_the_time_to_go_is_known_by_the_first_rounds(self):
        short, long, known = {"round.rounds": "10"}, {"round.rounds": "1000"}, pace.Pace()
        self.assertIsNone(known.to_go([long], [(short, 0, 5)], 1))
        self.assertAlmostEqual(known.to_go([long], [(short, 0.5, 5)], 1), 5 + 1000)
        self.assertAlmostEqual(known.to_go([], [(short, 0.2, 2), (short, 0, 1)], 2), 10)

    def test_work_goes_by_the_model(self):
        self.assertEqual(pace.model_work("mlp:10-20-5"), 300)
        self.assertGreater(pace.model_work("cnn:28x28x1-8-16-10"), pace.model_work("mlp:784-128-10"))
        self.assertGreater(pace.model_work("resnet.safetensors"), 0)


class Curves(unittest.TestCase):
    def test_a_point_is_what_was_measured_at_what_it_had_cost(self):
        self.assertEqual(curves.series(result_of()), [(1, 5.5, 0.5), (3, 33.0, 0.9)])
        self.assertEqual(curves.over_seeds([result_of(), result_of(accuracy=(0.7, None, 0.8))]),
                         [(1, 5.5, 0.6, 0.5, 0.7), (3, 33.0, 0.8500000000000001, 0.8, 0.9)])

    def test_pictures_of_both_kinds(self):
        tables_ = [("a cell", [("float32", [result_of()]), ("3lc", [result_of(), result_of()])])]
        svg = curves.curves(tables_, "svg")
        self.assertEqual(curves.curves(tables_, "svg"), svg)
        for words in ("a cell", "float32", "3lc", "rounds", "wire bytes per client, both ways"):
            self.assertIn(words, svg.decode())
        self.assertTrue(curves.curves(tables_, "png").startswith(b"\x89PNG"))


class Advice(unittest.TestCase):
    def test_what_is_usual_is_left_alone(self):
        for path in sorted((SOURCE / "configs/experiments").glob("*.ini")):
            if "[experiment]" in path.read_text():
                plan_ = plan.Plan(str(path))
                for run in plan_.runs:
                    for sentence in advice.advice(plan_.settings(run, plan_.seeds[0])):
                        # A key that some of the runs have no use for.
                        self.assertRegex(sentence, "says nothing", run.name)
                    self.assertEqual(list(advice.refusals(plan_.settings(run, plan_.seeds[0]))), [])
            elif path.name != "bench.ini":  # for the load test, which has no fleet
                given = settings.effective(str(path), [])
                self.assertEqual(advice.advice(given) + list(advice.refusals(given)), [], path.name)

    def test_what_does_not_go_together_is_named(self):
        for given, words in (
                ({"data.alpha": "0.5"}, "data.partition is iid"),
                ({"round.cohort": "20"}, "every round asks all of them"),
                ({"round.min_clients": "9"}, "runs of one seed differ")):
            found = advice.advice({"round.min_clients": "10"} | given)
            self.assertEqual(len(found), 1, (given, found))
            self.assertIn(words, found[0])
        for given in ({"round.cohort": "many"}, {"round.min_clients": "8", "fleet.join": "3 5"}):
            self.assertEqual(advice.advice({"round.min_clients": "10"} | given), [])

    def test_a_run_in_which_no_round_would_begin_is_refused(self):
        for given, count in (({"round.min_clients": "11"}, "11"), ({"fleet.clients": "1"}, "2"),
                             ({"round.min_clients": "10", "fleet.join": "9:3 10:4"}, "10")):
            found = list(advice.refusals({"round.rounds": "5", **given}))
            self.assertEqual(len(found), 1, given)
            self.assertIn("round.min_clients = %s is more" % count, found[0])
        for given in ({}, {"round.min_clients": "8", "fleet.join": "9:3 10:4 9:5"},
                      {"fleet.clients": "many"}):
            self.assertEqual(list(advice.refusals({"round.rounds": "5", **given})), [])

    def test_a_run_without_an_end_is_refused(self):
        for given in ({}, {"round.rounds": "0"}):
            self.assertIn("would have no end", list(advice.refusals(given))[0])
        for given in ({"round.rounds": "ten"}, {"round.rounds": "5", "round.min_clients": "all"}):
            self.assertEqual(list(advice.refusals(given)), [])  # the programs name these


if __name__ == "__main__":
    unittest.main()
