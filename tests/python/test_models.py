"""Models as files: what comes back is what went in, by our own reader, by one written by hand, and by tern-aggregator."""
import dataclasses
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
import warnings

import numpy

import tern

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "end_to_end"))
import safetensors_file  # noqa: E402

AGGREGATOR = pathlib.Path(os.environ["TERN_BIN_DIR"]) / "tern-aggregator"
STATE_DICT = {
    "conv.weight": numpy.linspace(-2, 2, 2 * 3 * 4, dtype=numpy.float32).reshape(2, 3, 4),
    "bn.running_mean": numpy.array([0.5, -1], numpy.float16),
    "bn.num_batches_tracked": numpy.array(7, numpy.int64),
    "scale": numpy.float32(1.5),
    "mask": numpy.array([[True, False]]),
    "wide": numpy.array([1e300, -0.0]),
    "bytes": numpy.arange(3, dtype=numpy.uint8),
    "empty": numpy.zeros((0, 4), numpy.int16),
}


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "model.safetensors"

    def assert_same(self, found, expected):
        self.assertEqual(list(found), list(expected))
        for name, values in expected.items():
            values = numpy.asarray(values)
            self.assertEqual((found[name].dtype, found[name].shape), (values.dtype, values.shape), name)
            self.assertEqual(found[name].tobytes(), values.tobytes(), name)

    def test_every_dtype_and_shape_comes_back(self):
        tern.save_model(STATE_DICT, self.path, {"note": "ünïcode"})
        self.assert_same(tern.load_model(self.path), STATE_DICT)
        self.assertEqual(tern.load_metadata(self.path), {"note": "ünïcode"})
        by_hand, notes = safetensors_file.parse(self.path.read_bytes())
        self.assertEqual(by_hand["bn.num_batches_tracked"], ("I64", [], [7]))
        self.assertEqual(by_hand["scale"], ("F32", [], [1.5]))
        self.assertEqual(by_hand["mask"], ("BOOL", [1, 2], [True, False]))
        self.assertEqual(notes, {"note": "ünïcode"})
        self.assertEqual(safetensors_file.places(self.path.read_bytes())["conv.weight"] % 8, 0)

    def test_arrays_that_lie_otherwise_in_memory_are_written_row_by_row(self):
        rows = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
        tern.save_model({"t": rows.T, "big": rows.astype(">f4"), "part": rows[:, ::2]}, self.path)
        found = tern.load_model(self.path)
        self.assertEqual(found["t"].tolist(), [[0, 3], [1, 4], [2, 5]])
        self.assertEqual(found["big"].tolist(), rows.tolist())
        self.assertEqual(found["part"].tolist(), [[0, 2], [3, 5]])

    def test_a_loaded_model_may_be_changed(self):
        tern.save_model(STATE_DICT, self.path)
        model = tern.load_model(self.path)
        model["conv.weight"] += 1
        self.assertEqual(model["conv.weight"][0, 0, 0], -1)

    def test_bfloat16_becomes_float32(self):
        self.path.write_bytes(safetensors_file.make({"w": ("BF16", [3], [1.5, -2.0, 2**-100])}))
        found = tern.load_model(self.path)["w"]
        self.assertEqual((found.dtype, found.tolist()), (numpy.float32, [1.5, -2.0, 2**-100]))

    def test_what_the_format_has_not_is_refused_and_the_old_file_stays(self):
        self.path.write_bytes(b"before")
        for model, says in (({"w": numpy.array([1j])}, "'w' is of the type complex128"),
                            ({"w": numpy.array(["text"])}, "'w' is of the type"),
                            ({1: numpy.zeros(1)}, "cannot be named 1"),
                            ({"__metadata__": numpy.zeros(1)}, "cannot be named"), ([1, 2], "of the type list")):
            with self.assertRaisesRegex(tern.ModelError, says):
                tern.save_model(model, self.path)
        self.assertEqual(self.path.read_bytes(), b"before")
        self.assertEqual(list(self.folder.iterdir()), [self.path])

    def test_counters_that_were_cast_to_float_are_warned_of(self):
        with self.assertWarnsRegex(UserWarning, "'bn.num_batches_tracked' is of the type F32"):
            tern.save_model({name: numpy.float32(values) for name, values in STATE_DICT.items()}, self.path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tern.save_model(STATE_DICT, self.path)

    def test_damaged_files_are_refused_by_name(self):
        good = safetensors_file.make({"w": ("F32", [2], [1.0, 2.0])})

        def entry(**changed):
            whole = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changed
            return safetensors_file.from_header(json.dumps({"w": whole}).encode(), bytes(8))

        cases = ((b"", "is no safetensors file"), (b"\x01\x02", "is no safetensors file"), (good[:30], "is no safetensors file"),
                 (struct.pack("<Q", 2**60) + b"{}", "is no safetensors file"),
                 (safetensors_file.from_header(b"[]", b""), "is no safetensors file"), (good[:-1], "does not have its bytes"),
                 (entry(shape=[3]), "does not have its bytes"), (entry(shape=[-2]), "does not have its bytes"),
                 (entry(data_offsets=[-8, 0]), "does not have its bytes"), (entry(data_offsets=[8, 0]), "does not have"),
                 (entry(dtype="F8_E4M3"), "of the type F8_E4M3"), (entry(data_offsets=None), "lacks"), (entry(data_offsets=["a", "b"]), "lacks"), (entry(shape=None), "lacks"))
        for data, says in cases:
            self.path.write_bytes(data)
            with self.subTest(says=says, data=data[:40]), self.assertRaisesRegex(tern.ModelError, says):
                tern.load_model(self.path)
        with self.assertRaises(FileNotFoundError):
            tern.load_model(self.folder / "none")
        with self.assertRaises(ValueError):
            self.path.write_bytes(good)
            tern.load_model(self.path, "jax")

    def test_an_aggregator_takes_it_and_keeps_whole_numbers(self):
        tern.save_model(STATE_DICT, self.path)
        state, out = self.folder / "state", self.folder / "out.safetensors"
        done = subprocess.run([AGGREGATOR, "init", "--json", "--state", state, "--model", self.path],
                              capture_output=True, text=True, check=True)
        made = json.loads(done.stdout)
        self.assertIn("bn.num_batches_tracked (I64)", made["kept"])
        self.assertNotIn("cast to float", done.stderr)
        subprocess.run([AGGREGATOR, "export", out, "--state", state], check=True, capture_output=True)
        found = tern.load_model(out)
        for name, values in STATE_DICT.items():
            values = numpy.asarray(values)
            kept = numpy.float32 if values.dtype == numpy.float16 else values.dtype
            self.assertEqual((found[name].dtype, found[name].tolist()), (kept, values.tolist()), name)
        self.assertEqual(tern.load_metadata(out)["version"], "0")
        self.assertEqual(dataclasses.astuple(tern.load_inputs(out)), (None,) * 7)

    def test_an_exported_file_scales_rows_and_names_classes(self):
        table = self.folder / "pumps.csv"
        for target in (False, True):
            rows = [(20 + i % 7, 3000 + 2 * (i % 5), 7.5 + i % 11 if target else ("ok", "worn, dry")[i % 2]) for i in range(60)]
            table.write_text("temp,rpm,state\n" + "".join(f'{a},{b},"{c}"\n' for a, b, c in rows))
            for name in ("aggregator.ini", "client.ini", "scaling.csv"):
                (self.folder / name).unlink(missing_ok=True)
            state = ["--state", f"state-{target}"]
            for command in (["init", "--data", table, *state], ["export", self.path, *state]):
                subprocess.run([AGGREGATOR, *command], check=True, capture_output=True, cwd=self.folder)
            inputs = tern.load_inputs(self.path)
            values = numpy.array([row[:2] for row in rows], float)
            self.assertEqual((inputs.columns, inputs.classes), (["temp", "rpm"], None if target else ["ok", "worn, dry"]))
            numpy.testing.assert_allclose(inputs.scale(values), (values - values.mean(0)) / values.std(0), atol=1e-5)
            if target:
                numbers = numpy.array([row[2] for row in rows])
                self.assertEqual(inputs.target, "state")
                numpy.testing.assert_allclose(inputs.in_units((numbers - numbers.mean()) / numbers.std()), numbers, rtol=1e-6)

    def test_notes_that_are_none_of_tern_are_named(self):
        for notes, key in (({"classes": "ok, worn"}, "classes"), ({"scaling_mean": "1 x"}, "scaling_mean")):
            tern.save_model({"w": numpy.zeros(2, numpy.float32)}, self.path, notes)
            with self.assertRaisesRegex(tern.ModelError, f"'{key}' of"):
                tern.load_inputs(self.path)


class Tables(unittest.TestCase):
    table = tern.Table([{"round": 1, "loss": 0.5}, {"round": 2, "loss": 0.25, "note": "x"}])

    def test_rows_and_columns(self):
        self.assertEqual(self.table.columns, ["round", "loss", "note"])
        self.assertEqual(self.table.rows, [(1, 0.5, None), (2, 0.25, "x")])
        self.assertEqual(self.table[-1], {"round": 2, "loss": 0.25, "note": "x"})
        self.assertEqual(self.table["loss"], [0.5, 0.25])
        self.assertEqual(self.table[1:].rows, [(2, 0.25, "x")])
        self.assertEqual(self.table[["loss"]], tern.Table([{"loss": 0.5}, {"loss": 0.25}]))
        self.assertEqual((len(self.table), len(list(self.table))), (2, 2))
        for name in ("nothing", ["nothing"]):
            with self.assertRaisesRegex(KeyError, "there are round, loss, note"):
                self.table[name]

    def test_it_prints_as_a_table(self):
        self.assertEqual(repr(self.table), "round  loss  note\n    1   0.5     -\n    2  0.25     x")
        self.assertTrue(repr(tern.Table({"n": i} for i in range(50))).endswith("... 50 rows"))

    def test_pandas_where_it_is_there(self):
        """Which is no part of the set-up: what it is given."""
        pandas = types.SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns))
        with unittest.mock.patch.dict(sys.modules, {"pandas": pandas}):
            self.assertEqual(self.table.to_pandas(), ([(1, 0.5, None), (2, 0.25, "x")], ["round", "loss", "note"]))

    def test_csv(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "table.csv")
            self.table.to_csv(path)
            self.assertEqual(path.read_text(), "round,loss,note\n1,0.5,\n2,0.25,x\n")


if __name__ == "__main__":
    unittest.main()
