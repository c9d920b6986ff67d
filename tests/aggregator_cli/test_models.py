"""init --model FILE, rules, and export of what was imported: files of every kind, good and hostile.
A refused file leaves no state directory behind."""
import json
import pathlib
import sqlite3
import struct
import sys

from cli import FAILED, USAGE, State, main

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
import safetensors_file as st  # noqa: E402

GOOD = {
    "conv.weight": ("F32", [4, 3, 3, 3, 5], [i / 8 for i in range(540)]),
    "bn.running_mean": ("F16", [16], [1.5] * 16),
    "bn.running_var": ("BF16", [16], [0.25] * 16),
    "fc.bias": ("F32", [10], [-0.0] * 10),
    "fc.scale": ("F32", [], [2.0]),
    "fc.weight": ("BF16", [10, 100], [-1.25] * 1000),
}

def write(state, data, name="m.safetensors"):
    path = state.root / name
    path.write_bytes(data)
    return path

def init(state, data, *options):
    return state.json("init", "--model", write(state, data), *options)

def rules(made):
    return {tensor["name"]: tensor["rule"] for tensor in made["tensors"]}

def refuse(data, says, *options, code=FAILED):
    state = State()
    path = write(state, data)
    state.run("init", "--model", path, *options, code=code, says=says)
    assert not state.path.exists(), f"{says}: a refused model left {list(state.path.iterdir())}"

def exported(state, *options):
    path = state.root / "out.safetensors"
    state.run("export", path, *options)
    return st.parse(path.read_bytes())

# --- Good files

def a_file_comes_back_as_it_was():
    state = State()
    made = init(state, st.make(GOOD, {"format": "pt", "model_hash": "old", "note": "ünïcode"}))
    assert made["values"] == 540 + 16 + 16 + 10 + 1 + 1000 and made["kept"] == ""
    assert made["model"] == "tensors:" + made["model_hash"][:16]
    tensors, notes = exported(state)
    assert list(tensors) == list(GOOD)
    for name, (_, shape, values) in GOOD.items():
        assert tensors[name] == ("F32", shape, values), name
    assert notes["note"] == "ünïcode" and notes["model_hash"] == made["model_hash"], notes
    assert notes["version"] == notes["round"] == "0" and "strategy" not in notes
    again = State()
    back = again.json("init", "--model", state.root / "out.safetensors")
    assert back["model_hash"] == made["model_hash"]
    assert state.json("verify")["ok"]
    assert state.json("status")["model"] == made["model"]
    assert state.run("export", "-", "--format", "f32", "--version", 1, code=FAILED,
                     says="no version 1; the newest is 0")

def zeros_lose_their_sign():
    state = State()
    init(state, st.make({"w": ("F32", [2], [-0.0, 1.0])}))
    raw = state.run("export", "-", "--format", "f32").out
    assert raw == struct.pack("<2f", 0.0, 1.0)

def small_types_are_rounded_to_even():
    state = State()
    init(state, st.make({"w": ("F32", [4], [1 + 2**-11, 1 + 3 * 2**-11, 2**-24, 65519.0])}))
    assert exported(state, "--dtype", "f16")[0]["w"][2] == [1.0, 1 + 2**-9, 2**-24, 65504.0]
    assert exported(state, "--dtype", "BF16")[0]["w"][2] == [1.0, 1.0, 2**-24, 65536.0]
    state.run("export", state.root / "x.f32", "--dtype", "F16", code=USAGE, says="--dtype")
    state.run("export", state.root / "x.safetensors", "--dtype", "F64", code=USAGE, says="F64")
    large = State()
    init(large, st.make({"big": ("F32", [1], [65520.0])}))
    large.run("export", large.root / "x.safetensors", "--dtype", "F16", code=FAILED, says="'big'")
    assert not (large.root / "x.safetensors").exists()

KEPT = {
    "bn.num_batches_tracked": ("I64", [], [-5]),
    "mask": ("BOOL", [3], [True, False, True]),
    "positions": ("I16", [1, 3], [-1, 0, 32767]),
    "scale, of another time": ("F64", [2], [0.1, -0.0]),
    "none": ("U8", [0, 4], []),
    "of a newer dtype": ("F4_NEW", [3, 2], b"\x00\xff\x7f"),
}

def other_types_are_kept():
    """Unchanged through export and import, whatever the weights are rounded to, and aligned."""
    odd = {"w": ("F32", [3], [1.0, 2.0, -3.0])}
    state = State()
    made = init(state, st.make(odd | KEPT, {"format": "pt"}))
    for name, (dtype, _, _) in KEPT.items():
        assert f"{name} ({dtype})" in made["kept"], made["kept"]
    assert made["values"] == 3 and rules(made) == {"w": "fuse"}
    assert made["model_hash"] == init(State(), st.make(odd))["model_hash"]
    path = state.root / "out.safetensors"
    for options, expected in (((), odd), (("--version", 0), odd),
                              (("--dtype", "F16"), {"w": ("F16", *odd["w"][1:])}),
                              (("--dtype", "BF16"), {"w": ("BF16", *odd["w"][1:])})):
        assert exported(state, *options)[0] == expected | KEPT, options
        places = st.places(path.read_bytes())
        for name, width in (("w", 4 if expected is odd else 2), ("bn.num_batches_tracked", 8),
                            ("scale, of another time", 8), ("positions", 2)):
            assert places[name] % width == 0, f"{name} lies at byte {places[name]}"
    again = State()
    assert init(again, path.read_bytes())["kept"].count("(") == len(KEPT)
    assert exported(again)[0] == odd | KEPT
    assert len(state.run("export", "-", "--format", "f32").out) == 12
    refuse(st.make({"n": ("I64", [2], [1, 2])}), "nothing to train")

def floats_without_a_value_are_kept():
    """As safetensors allows and PyTorch writes: an adapter of rank 0, an empty buffer."""
    some = {"w": ("F32", [3], [1.0, 2.0, -3.0])}
    empty = {"lora_B": ("F32", [0, 8], []), "half": ("F16", [4, 0, 2], []), "brain": ("BF16", [0], [])}
    state = State()
    said = state.run("init", "--model", write(state, st.make(empty | some))).out.decode()
    assert "Kept for export" in said and "lora_B (F32)" in said and "have no values" in said, said
    for options in ((), ("--version", 0)):
        assert exported(state, *options)[0] == some | empty, options

def counters_that_were_cast_to_float_are_warned_of():
    """A batch norm's counters, which are whole numbers, among the weights: named, unless the rules freeze them."""
    weight = {"w": ("F32", [2], [1.0, 2.0])}
    cast = {"bn1.num_batches_tracked": ("F32", [], [7.0]), "bn2.num_batches_tracked": ("F16", [1], [7.0])}
    state = State()
    said = state.run("init", "--model", write(state, st.make(weight | cast))).error
    assert "warning: " in said and "2 counters (bn1.num_batches_tracked) were cast to float" in said, said
    frozen = State()
    said = frozen.run("init", "--model", write(frozen, st.make(weight | cast)), "--rules", "bn2.*: skip").error
    assert "1 counter (bn1.num_batches_tracked) was cast to float" in said, said
    for tensors, options in ((weight | cast, ("--rules", "*num_batches_tracked: skip")),
                             (weight | {"bn1.num_batches_tracked": ("I64", [], [7])}, ())):
        good = State()
        said = good.run("init", "--model", write(good, st.make(tensors)), *options).error
        assert "warning" not in said, said

def what_is_kept_is_bounded():
    weight = {"w": ("F32", [1], [1.0])}
    most = {f"n{i}": ("I64", [], [i]) for i in range(1024)}
    state = State()
    init(state, st.make(weight | most))
    assert exported(state)[0] == weight | most
    mib = 2**20
    whole = State()
    init(whole, st.make(weight | {"m": ("NEW", [64 * mib - 8], bytes(64 * mib - 8)),
                                  "n": ("I64", [], [7])}))
    assert exported(whole)[0]["n"] == ("I64", [], [7])
    for kept, says in (({f"n{i}": ("I64", [], [i]) for i in range(1025)}, "'n1024' exceeds what is kept for export"),
                       ({"m": ("U8", [64 * mib + 1], bytes(64 * mib + 1))}, "and 64 MiB"),
                       ({"m": ("?" * 100000, [2], b"12")}, "'m' has an invalid type"),
                       ({"n" * 128: ("I64", [], [0])}, "longer than 127 bytes"),
                       ({"n": ("I64", [1] * 9, [0])}, "at most 8 dimensions"),
                       ({"n": ("I64", [0, 2**32], [])}, "at most 8 dimensions below 2^32")):
        refuse(st.make(weight | kept), says)

def damage_to_what_is_kept_is_found():
    state = State()
    init(state, st.make(GOOD | KEPT))
    assert state.json("verify")["ok"]
    db = sqlite3.connect(state.path / "tern.db")
    body = bytearray(db.execute("SELECT body FROM files WHERE name = 'kept'").fetchone()[0])
    body[-1] ^= 1
    db.execute("UPDATE files SET body = ? WHERE name = 'kept'", (bytes(body),))
    db.commit()
    db.close()
    state.run("export", state.root / "x.safetensors", code=FAILED, says="came with the model")
    assert not (state.root / "x.safetensors").exists()
    state.run("verify", code=FAILED, says="came with the model")

def many_tensors_fit():
    state = State()
    made = init(state, st.make({f"layer{i}.bias": ("F32", [2], [i, -i]) for i in range(1024)}))
    assert made["values"] == 2048
    assert exported(state)[0]["layer1023.bias"][2] == [1023.0, -1023.0]
    refuse(st.make({f"layer{i}.bias": ("F32", [2], [0, 1]) for i in range(1025)}),
           "at most 268435456 values in 1024 tensors")

# --- Rules

def rules_have_presets():
    assert rules(init(State(), st.make(GOOD))) == {
        "conv.weight": "compress", "bn.running_mean": "dense", "bn.running_var": "dense",
        "fc.bias": "fuse", "fc.scale": "fuse", "fc.weight": "compress"}

def the_first_rule_counts():
    made = init(State(), st.make(GOOD), "--rules",
                "fc.b*: dense, fc.*: skip; *.running_mean: compress , bn?running_*: fuse,")
    assert rules(made) == {
        "conv.weight": "compress", "bn.running_mean": "compress", "bn.running_var": "fuse",
        "fc.bias": "dense", "fc.scale": "skip", "fc.weight": "skip"}

def local_tensors_are_named():
    made = init(State(), st.make(GOOD), "--rules", "fc.*: local")
    assert {name for name, rule in rules(made).items() if rule == "local"} == {"fc.bias", "fc.scale", "fc.weight"}

def rules_name_the_model():
    hashes = {init(State(), st.make(GOOD), *options)["model_hash"]
              for options in ((), ("--rules", "fc.bias: fuse"), ("--rules", "fc.bias: skip"))}
    assert len(hashes) == 2  # the preset, said or not, is the same model

def bad_rules_are_refused():
    for text, says in (("fc.bias", "'fc.bias' is not a rule"), ("fc.bias: freeze", "is not a rule"),
                       ("*: skip", "no tensor is sent: all are skipped or local"), ("fc.*: local, *: skip", "no tensor is sent: all are skipped or local"),
                       (": skip", "is not a rule"), ("fc.bais: skip", "no tensor of the model matches"),
                       ("fc.bias: skip, x*: fuse", "'x*'")):
        refuse(st.make(GOOD), says, "--rules", text, code=USAGE)

def separators_in_names_are_escaped():
    odd = {name: ("F32", [600], [0.5] * 600)
           for name in ("a,b", "c;d*", "c;dx", "e: skip,f", "back\\slash")}
    made = init(State(), st.make(odd), "--rules",
                r"a\,b: skip, c\;d\*: dense; e: skip\,?: fuse,back\\slash: fuse")
    assert rules(made) == {"a,b": "skip", "c;d*": "dense", "c;dx": "compress",
                           "e: skip,f": "fuse", "back\\slash": "fuse"}
    state = State()
    settings = state.root / "rules.ini"
    settings.write_text("[tensors]\nrules = c\\;d*: skip, a\\,b: fuse\n")
    made = init(state, st.make(odd), "--config", settings)
    assert [rules(made)[name] for name in ("a,b", "c;d*", "c;dx")] == ["fuse", "skip", "skip"]
    refuse(st.make(odd), r"write a comma as \, and a semicolon as \;", "--rules", "a,b: skip", code=USAGE)
    refuse(st.make(odd), "no tensor of the model matches", "--rules", "back\\: skip", code=USAGE)

def built_in_models_take_rules():
    plain, same, other = State(), State(), State()
    first = plain.json("init", "--model", "mlp:40-20-3", "--seed", 5)
    second = same.json("init", "--model", "mlp:40-20-3", "--seed", 5, "--rules", "*.bias: fuse")
    assert first["model_hash"] == second["model_hash"]
    third = other.json("init", "--model", "mlp:40-20-3", "--seed", 5, "--rules",
                       "*.bias: dense, fc2.*: skip")
    assert third["model_hash"] != first["model_hash"] and third["model"] == "mlp:40-20-3"
    before, after = exported(plain)[0], exported(other)[0]
    assert before == after  # the seed's weights, wherever they lie
    provisioned = other.json("provision")
    assert provisioned["manifest"] > 0 and "manifest" not in plain.json("provision")

# --- Hostile files

def header(**changes):
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes
    return json.dumps({"w": entry}).encode()

def hostile_files_are_refused():
    data = struct.pack("<2f", 1, 2)
    other = '{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},'
    for content, says in (
            (b"", "the length of the header"),
            (b"\xff" * 7, "the length of the header"),
            (struct.pack("<Q", 2**63) + b"{}", "truncated, or not safetensors"),
            (struct.pack("<Q", 100) + b"{}", "truncated, or not safetensors"),
            (st.from_header(b"{", b""), "not JSON"),
            (st.from_header(b"[]", b""), "not one JSON object"),
            (st.from_header(b'{"w":' + b"[" * 100000, b""), "not JSON"),
            (st.from_header(header() + b"x", data), "not one JSON object"),
            (st.from_header(b"{}", b""), "nothing to train"),
            (st.from_header(header(), data[:7]), "ends at byte 8"),
            (st.from_header(header(), data + b"1"), "belong to none"),
            (st.from_header(header(shape=[3]), data), "3 values of 4 bytes"),
            (st.from_header(header(shape=[-2]), data), "not a whole number from 0"),
            (st.from_header(header(shape=[1.5]), data), "not a whole number from 0"),
            (st.from_header(header(shape=[2**40, 2**40]), data), "too large"),
            (st.from_header(header(shape=[2, 0], data_offsets=[0, 0]), b""), "nothing to train"),
            (st.from_header(header(shape=[1] * 8 + [2]), data), "at most 8 dimensions"),
            (st.from_header(header(data_offsets=[0, 2**70]), data), "[begin, end]"),
            (st.from_header(header(data_offsets=[8, 0]), data), "[begin, end]"),
            (st.from_header(header(data_offsets=[4, 12]), data + b"1234"), "in front of tensor"),
            (st.from_header(header(dtype=7), data), "no dtype"),
            (st.from_header(other.encode() + b'"v":{"dtype":"F32","shape":[2],'
                            b'"data_offsets":[4,12]}}', data + data[:4]), "overlap"),
            (st.from_header(other.encode() + b'"w":{"dtype":"F32","shape":[2],'
                            b'"data_offsets":[8,16]}}', data * 2), "two tensors are named 'w'"),
            (st.from_header(header().replace(b'"w"', b'"\xff"'), data), "not UTF-8"),
            (st.from_header(header().replace(b'"w"', b'"\\u001b"'), data), "control characters"),
            (st.from_header(header().replace(b'"w"', b'"w\\u0000x"'), data), "would be cut"),
            (st.from_header(header().replace(b'"w"', b'""'), data), "cannot be part of a model"),
            (st.from_header(header().replace(b'"w"', b'"' + b"n" * 128 + b'"'), data),
             "longer than 127 bytes"),
            (st.from_header(b'{"__metadata__":[],' + header()[1:], data), "__metadata__"),
            (st.from_header(b'{"__metadata__":{"a":1},' + header()[1:], data), "__metadata__"),
            (st.from_header(header(), struct.pack("<2f", 1, float("nan"))),
             "value 1 of tensor 'w' is nan"),
            (st.make({"h": ("F16", [1], [float("inf")])}), "value 0 of tensor 'h' is inf"),
    ):
        refuse(content, says)

def a_missing_file_is_named():
    state = State()
    state.run("init", "--model", state.root / "none.safetensors", code=FAILED, says="No such file")
    state.run("init", "--model", "resnet:50", code=USAGE, says="or the name of a .safetensors file")
    assert not state.path.exists()

def small_models_send_a_larger_share():
    for model, up, down in (
            ("softmax:99-99", "3lc:s=1,clip=4,coder=range",
             "density:p=0.5,least=64,fit=yes,coder=range"),
            ("softmax:99-100", "3lc:s=1,clip=4,coder=range", "density:p=0.1,least=64,coder=range"),
            ("softmax:299-100", "3lc:s=1,clip=4,coder=range", "density:p=0.1,least=64,coder=range"),
            ("softmax:749-100", "3lc:s=1,clip=4.5,coder=range", "density:p=0.07,least=64,coder=range"),
    ):
        made = State().json("init", "--model", model)
        assert (made["codec_up"], made["codec_down"]) == (up, down), (model, made)
    made = State().json("init", "--model", "softmax:9-9", "--set", "codec.codec=3lc:s=1.5",
                        "--set", "codec.codec_down=default")
    assert made["codec_up"] == "3lc:s=1.5" and "p=0.5," in made["codec_down"], made

main(small_models_send_a_larger_share, a_file_comes_back_as_it_was, zeros_lose_their_sign, small_types_are_rounded_to_even,
     other_types_are_kept, floats_without_a_value_are_kept, counters_that_were_cast_to_float_are_warned_of, what_is_kept_is_bounded, damage_to_what_is_kept_is_found,
     many_tensors_fit, rules_have_presets, local_tensors_are_named, the_first_rule_counts,
     rules_name_the_model, bad_rules_are_refused,
     separators_in_names_are_escaped, built_in_models_take_rules,
     hostile_files_are_refused, a_missing_file_is_named)
