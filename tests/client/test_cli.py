"""tern-client on the command line, without an aggregator: settings, exit codes, messages."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM, EXAMPLE = sys.argv[1:3]
sys.argv[1:3] = []


def run(*arguments, text=None):
    done = subprocess.run([PROGRAM, *arguments], input=text, capture_output=True, text=True,
                          timeout=300)
    return done.returncode, done.stdout, done.stderr


def table(rows=40, **changed):
    """A CSV of four sensors and a state, columns rpm near 2950; changed: fields of it, by line."""
    lines = ["seconds,rpm,flow,fixed,state"]
    for i in range(rows):
        lines.append(f"{1700000000 + i},{2950 + i % 7},{i % 5 / 4},3,{('good', 'worn')[i % 2]}")
    for line, fields in changed.items():
        lines[int(line[1:]) - 1] = fields
    return "\n".join(lines) + "\n"


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def check(self, text, options, *arguments):
        """Exit code, and the sentences of each thing that is not good."""
        path = os.path.join(self.folder, "pumps.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        code, out, error = run("check", "--offline", "--json", *arguments, "--set",
                               f"data.source=csv:{path}{options}", "--set",
                               "client.state_dir=" + os.path.join(self.folder, "state"))
        self.assertEqual(error, "")
        found = {}
        for line in json.loads(out):
            found.setdefault((line["area"], line["health"]), []).append(line["finding"])
        self.assertEqual(code, int(any(health == "problem" for _, health in found)))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "state")))
        return found

    def test_what_is_wrong_with_fields_is_named_with_line_and_column(self):
        bad = table(l3="1700000001,nan,1,3,worn", l5="1700000003,2951,,3,worn",
                    l7="1700000005,1e30,1,3,worn", l9="1,2", l10="1700000008,x,1,3,brokn")
        found = self.check(bad, ",label=state,classes=good|worn")
        for part in ("line 10, column 'rpm': 'x' is not a finite number (1 of",
                     "line 7, column 'rpm': '1e30' is a mark of a missing value", "line 9 has 2 fields, the first line 5"):
            self.assertEqual(len([s for s in found["data", "problem"] if part in s]), 1, (part, found))
        self.assertIn("2 values in 2 columns are missing, the first in line 3, column 'rpm'", found["missing", "warning"][0])
        self.assertIn("line 10, column 'state': the label 'brokn' (1 row)", found["classes", "problem"][0])
        self.assertEqual(len(found["classes", "problem"]), 1)

    def test_columns_that_cannot_be_learnt_from_are_named(self):
        found = self.check(table(), ",label=state,classes=good|worn|dry")
        scale = found["scale", "warning"][0]  # of a client that is not enrolled: its federation may scale them
        for part in ("2 of 4 columns are unscaled", "'rpm' (2953)", "unless the federation scales", "statistics.columns"):
            self.assertIn(part, scale)
        constant, rising = sorted(found["columns", "warning"])
        self.assertRegex(constant, "^1 column has one value in every row.*drop=fixed$")
        self.assertRegex(rising, "^column 'seconds' predicts nothing about new rows, since its values are times.*drop=seconds ")
        self.assertIn("32 examples to train on, 8 held out", found["data", "good"][0])
        self.assertIn("1 without an example to train on here (other clients may have some): dry",
                      found["classes", "warning"][0])

    def test_a_table_without_a_label_has_no_classes(self):
        found = self.check("a,b\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(40)), ",label=none")
        self.assertEqual(len(found["classes", "good"]), 1)
        self.assertIn("no label: every row counts as normal", found["classes", "good"][0])

    def test_one_file_is_shown_column_by_column(self):
        path = os.path.join(self.folder, "pumps.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write(table(l3="1700000001,,1,3,worn"))
        code, out, error = run("check", "--data", path, "--set", "data.source=csv:other.csv,label=state,classes=good|worn,drop=fixed")
        self.assertEqual((code, error), (0, ""))
        rows = {line.split()[0]: line for line in out.splitlines() if line}
        self.assertRegex(rows["seconds"], r"time +0 .* a feature that predicts nothing: its values are times or dates")
        self.assertRegex(rows["rpm"], r"number +1 +2950 +2952\.\d+ +2956 +7 +a feature, 1 filled with the mean")
        self.assertRegex(rows["fixed"], r"left out \(drop\)")
        self.assertRegex(rows["state"], r"text +0 +- +- +- +2 +the label")
        code, out, _ = run("check", "--json", "--data", "csv:" + path + ",label=state")
        self.assertEqual(code, 1)
        found = json.loads(out)
        self.assertEqual([column["missing"] for column in found["columns"]], [0, 1, 0, 0, 0])
        self.assertTrue(any("add classes=good|worn" in line["finding"] for line in found["findings"]), found)

    def check_file(self, text, *arguments):
        """Exit code, the table's columns, and the sentences by area and health of `check --data FILE` alone."""
        path = os.path.join(self.folder, "pumps.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        code, out, error = run("check", "--json", "--data", path, *arguments)
        self.assertEqual(error, "")
        said = json.loads(out)
        found = {}
        for line in said["findings"]:
            found.setdefault((line["area"], line["health"]), []).append(line["finding"])
        return code, {column["column"]: column for column in said["columns"]}, found

    def test_one_file_alone_is_judged_as_init_judges_it(self):
        code, _, found = self.check_file(table(), "--model", "mlp:3-8-2")
        self.assertEqual((code, found["classes", "good"]), (1, ["2 in column 'state', with their rows: good 20, worn 20"]))
        self.assertIn("40 rows of 2 features", found["data", "good"][0])
        self.assertIn("the examples are 2 values, the model takes 3", found["model", "problem"][0])

    def test_options_beside_the_labels_leave_the_judgement_to_init(self):
        statistics = os.path.join(self.folder, "scaling.csv")
        with open(statistics, "w", encoding="utf-8") as file:
            file.write("column,mean,deviation\nrpm,2953,2\nflow,0.5,0.35\n")
        source = "data.source=csv:other.csv,scale="
        code, _, found = self.check_file(table(), "--set", source + statistics)
        self.assertEqual((code, found["classes", "good"]), (0, ["2 in column 'state', with their rows: good 20, worn 20"]))
        self.assertIn("have the size that training expects", found["scale", "good"][0])
        code, _, found = self.check_file(table(), "--set", source + "none.csv")
        self.assertEqual(code, 1)
        self.assertIn("'none.csv' cannot be opened", found["data", "problem"][0])
        code, _, found = self.check_file(table(), "--set", "data.source=csv:other.csv,group=fixed,only=4")
        self.assertEqual(code, 1)
        self.assertIn("no row has '4' in column 'fixed'", found["data", "problem"][0])
        lines = [f"{i % 7},{i % 5},{i / 2}" for i in range(60)]
        with open(statistics, "w", encoding="utf-8") as file:
            file.write("column,mean,deviation\nrpm,295.3,0.2\nflow,0.5,0.35\n")  # of another unit
        code, out, _ = run("check", "--data", os.path.join(self.folder, "pumps.csv"), "--set", source + statistics)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"1 of 2 columns is large even after scaling \(root mean square\): 'rpm' .*\n +What to do: compare their units")
        code, _, found = self.check_file(table(), "--set", "data.source=csv:other.csv,scal=standard")
        self.assertEqual(code, 1)
        self.assertIn("no option 'scal'; known: label, target", found["data", "problem"][0])
        code, _, found = self.check_file("a,b,y\n" + "\n".join(lines) + "\n", "--set", "data.source=csv:other.csv,scale=standard")
        self.assertEqual((code, [area for area, _ in found if area == "classes"]), (0, []))

    def test_numbers_of_one_file_alone_are_a_target_where_init_predicts_them(self):
        for value in (lambda i: i / 2, lambda i: 3 * i % 61):
            lines = [f"{i % 7},{i % 5},{value(i)}" for i in range(60)] + ["1,2,-"]
            code, columns, found = self.check_file("a,b,y\n" + "\n".join(lines) + "\n")
            self.assertEqual((code, columns["y"]["becomes"], columns["y"]["missing"]), (0, "the target", 1))
            self.assertIn("the target is missing ('-') (1 of 61 rows)", found["target", "warning"][0])
            self.assertEqual([area for area, _ in found if area == "classes"], [])

    def test_what_has_a_problem_is_not_called_good(self):
        for flaw in ("1,2,1e30", "1,2,3,4", "1,<0.5,2.5", "1,1e30,0.5"):
            lines = [f"{i % 7},{i % 5},{i / 2}" for i in range(60)] + [flaw]
            code, _, found = self.check_file("a,b,y\n" + "\n".join(lines) + "\n")
            problems = [area for area, health in found if health == "problem"]
            self.assertEqual((code, [area for area in problems if (area, "good") in found]), (1, []), (flaw, found))

    def test_labels_of_one_file_alone_that_are_no_classes_are_one_problem(self):
        code, _, found = self.check_file("a,y\n" + "".join(f"{i % 7},note {i}\n" for i in range(60)))
        self.assertEqual((code, len(found["classes", "problem"])), (1, 1))
        self.assertIn("60 different values in 60 rows, probably too many for classes", found["classes", "problem"][0])

    def test_a_column_of_a_model_that_is_fixed_needs_another_init(self):
        found = self.check(table(), ",label=state,classes=good|worn", "--model", "mlp:4-8-2")
        self.assertTrue(any("run `tern-aggregator init --data FILE --drop seconds`" in line for line in found["columns", "warning"]), found)

    def test_scaled_columns_and_a_model_that_fits_pass(self):
        options = ",label=state,classes=good|worn,drop=seconds|fixed,scale=standard"
        self.assertEqual([key for key in self.check(table(), options, "--model", "mlp:2-8-2")
                          if key[1] != "good"], [])
        found = self.check(table(), options, "--model", "mlp:784-8-10")
        self.assertIn("mlp:784-8-10: the examples are 2 values, the model takes 784 values: change",
                      found["model", "problem"][0])

    def test_columns_that_their_statistics_make_almost_constant_are_named(self):
        """The statistics are those of a sample that one value spoiled."""
        rows = "a,b,c,y\n" + "".join(f"{20 + i % 23 / 7},{i % 5},3,{i % 37}\n" for i in range(40))
        scaling = os.path.join(self.folder, "scaling.csv")

        def scale(a, target):
            with open(scaling, "w", encoding="utf-8") as file:
                file.write(f"column,mean,deviation\na,{a}\nb,2,1.4\nc,3,1\ny,{target}\n")
            found = self.check(rows, f",target=y,scale={scaling}")
            return found.get(("scale", "warning"), []), ("scale", "good") in found, ("target", "good") in found

        self.assertEqual(scale("21.5,1", "18,10"), ([], True, True))
        (flat,), scales, targets = scale("2.5e6,5e7", "18,10")
        self.assertIn("1 of 4 columns is almost constant once scaled (standard deviation; training expects about 1): 'a' (", flat)
        self.assertEqual((scales, targets), (False, True))
        (flat,), _, targets = scale("2.5e13,5e14", "18,1e6")
        self.assertRegex(flat, r"^2 of 4 .*: 'a' \(0\), the target \(1\.\de-05\)\. ")
        self.assertFalse(targets)

    def test_a_state_folder_that_cannot_be_made_is_a_problem(self):
        """A file, a dangling link and /proc fail for every user, root included."""
        file = os.path.join(self.folder, "file")
        open(file, "w", encoding="utf-8").close()
        os.symlink("nowhere", os.path.join(self.folder, "link"))
        for state, says in ((file, "is not a folder"), (file + "/state", file + ": Not a directory"),
                            (os.path.join(self.folder, "link"), "Not a directory"),
                            ("/proc/tern/state", "cannot create it in /proc: ")):
            done = run("check", "--offline", "--json", "--set", "client.state_dir=" + state)
            found = [line for line in json.loads(done[1]) if line["area"] == "state"]
            self.assertEqual((done[0], found[0]["health"]), (1, "problem"), state)
            self.assertIn(says, found[0]["finding"])
            self.assertIn("client.state_dir", found[0]["advice"])

    def test_many_columns_leave_room_for_what_follows(self):
        names = [f"p{i}" for i in range(200)]
        rows = [",".join([str(i % 2)] * 50 + ["3"] * 50 + ["x"] * 50 + [""] * 50 + [str(i)]) for i in range(40)]
        found = self.check("\n".join([",".join([*names, "state"]), *rows]) + "\n",
                           ",label=state,classes=one|two|three|four|five|six")
        self.assertRegex(found["columns", "warning"][0], r"^50 columns have one value.*drop=p50\|p51\|p52\|p53\|p54\|\.\.\.$")
        self.assertIn("100 columns have such values; 5 are listed", found["data", "problem"])
        self.assertIn("40 labels are not in classes=; the first 5 are named above", found["classes", "problem"])
        self.assertIn(("clock", "good"), found)

    def test_conditions_that_cannot_be_read(self):
        state = os.path.join(self.folder, "state")
        run("enroll", "CODE", "--set", "client.server=https://127.0.0.1:1", "--set", "client.state_dir=" + state)
        code, out, _ = run("check", "--offline", "--set", "client.when=nightly", "--set", "client.state_dir=" + state)
        self.assertEqual(code, 1)
        self.assertRegex(out, "when.*nightly|nightly.*when")

    def test_names_of_classes_are_proposed(self):
        found = self.check(table(), "")
        self.assertIn("add classes=good|worn to data.source", found["classes", "problem"][0])

    def test_a_budget_without_room_for_a_round(self):
        path = os.path.join(self.folder, "state")
        code, out, _ = run("check", "--offline", "--set", "budget.per_round=500", "--set",
                           "client.state_dir=" + path)
        self.assertEqual(code, 1)
        self.assertRegex(out, r"PROBLEM +budget +budget.per_round = 500 is less than")

    def test_an_aggregator_that_is_not_there(self):
        path = os.path.join(self.folder, "state")
        code, out, _ = run("check", "--set", "client.server=https://127.0.0.1:1", "--set",
                           "client.state_dir=" + path)
        self.assertEqual(code, 1)
        self.assertRegex(out, r"PROBLEM +server +https://127.0.0.1:1: The connection failed")


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = os.path.join(folder.name, "state")
        self.sets = ["--set", "client.state_dir=" + self.state,
                     "--set", "client.server=https://127.0.0.1:1"]

    def test_example_file_is_what_the_program_documents(self):
        with open(EXAMPLE, encoding="utf-8") as example:
            self.assertEqual(run("--settings")[1], example.read())

    def test_example_file_loads(self):
        code, _, error = run("status", "--config", EXAMPLE, *self.sets)
        self.assertEqual(code, 1)
        self.assertIn(self.state, error)

    def test_no_server(self):
        for verb in (["run"], ["once"], ["enroll", "CODE"]):
            code, _, error = run(*verb, "--set", "client.state_dir=" + self.state)
            self.assertEqual(code, 2, error)
            self.assertIn("client.server", error)

    def test_plain_http_is_refused(self):
        code, _, error = run("once", *self.sets, "--set", "client.server=http://127.0.0.1:1")
        self.assertEqual(code, 2)
        self.assertIn("https://", error)

    def test_not_enrolled(self):
        code, _, error = run("run", *self.sets)
        self.assertEqual(code, 1)
        self.assertIn("enroll CODE", error)

    def test_settings_of_secure_rounds_that_do_not_fit_together(self):
        key = "B" + "A" * 86  # the first byte is that of an uncompressed point
        for sets, part in (
                (["secure.helper_key=abc", "secure.code=x"], "secure.helper_key = abc is not a helper's public key"),
                (["secure.helper_key=" + "A" * 87, "secure.code=x"], "is not a helper's public key"),
                (["secure.helper_key=" + key], "secure.helper_key is set without secure.code"),
                (["secure.code=x"], "secure.code is set without secure.helper_key, so updates would not be masked"),
                (["secure.helper_key=" + key, "secure.code=x", "client.evaluator=yes"], "remove one of them")):
            code, _, error = run("run", *self.sets, *[word for pair in sets for word in ("--set", pair)])
            self.assertEqual(code, 2, error)
            self.assertIn(part, error)

    def test_few_clients_of_a_sum_are_called_weak(self):
        sets = ["--set", "secure.helper_key=B" + "A" * 86, "--set", "secure.code=x", "--set", "secure.min_clients=10"]
        _, out, _ = run("check", "--offline", "--json", *self.sets, *sets)
        found = {line["area"]: line for line in json.loads(out)}
        self.assertEqual(found["secure"]["health"], "warning")
        self.assertIn("secure.min_clients = 10 is weak", found["secure"]["finding"])

    def test_empty_join_code(self):
        for code, text in (("", ""), ("-", ""), ("-", "\n")):
            status, _, error = run("enroll", *self.sets, code, text=text)
            self.assertEqual(status, 2)
            self.assertIn("join code is empty", error)

    def test_what_is_no_join_code(self):
        code, _, error = run("enroll", *self.sets, "For 1 client, until tomorrow. It is not shown again; see the codes")
        self.assertEqual(code, 2)
        self.assertIn("'For 1 client, until tomorrow. It is not ' is no join code: give the line alone", error)

    def test_unreachable_aggregator(self):
        code, _, error = run("enroll", *self.sets, "-", text="CODE\n")
        self.assertEqual(code, 1)
        self.assertIn("https://127.0.0.1:1", error)

    def test_meter_shows_what_the_failed_enrolment_cost(self):
        run("enroll", *self.sets, "CODE")
        code, out, error = run("meter", "--json", *self.sets)
        self.assertEqual(code, 0, error)
        self.assertIn('"handshake"', out)

    def test_state_directory_in_use(self):
        os.makedirs(self.state)
        import fcntl
        with open(os.path.join(self.state, "lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            code, _, error = run("run", *self.sets)
        self.assertEqual(code, 1)  # no peer refused anything
        self.assertIn("in use by another process", error)

    def test_wrong_usage(self):
        self.assertEqual(run("enroll", *self.sets)[0], 2)
        self.assertEqual(run("fly", *self.sets)[0], 2)
        self.assertEqual(run("run", "--set", "client.nonsense=1")[0], 2)
        self.assertEqual(run("--help")[0], 0)


if __name__ == "__main__":
    signal.alarm(380)
    unittest.main()
