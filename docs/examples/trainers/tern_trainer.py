"""What a Python trainer for tern-client needs beside its training: reads the task, models as
safetensors and IDX data sets. Only numpy; copy it beside your script. docs/TRAINERS.md has the
interface."""
import argparse
import functools
import gzip
import json
import os
import struct
import sys

import numpy


def read_task(path):
    """The task's fields as a dictionary. The client gives the path as the last argument."""
    with open(path, encoding="utf-8") as file:
        task = json.load(file)
    if task["interface"] != 1:
        sys.exit(f"this trainer knows interface 1, not {task['interface']}")
    return task


def serve(do):
    """Calls do(task) for the task that the command line ends with; of a persistent trainer
    (client.trainer_persistent), for one after the other until the client ends. A task that raises
    is answered with why."""
    if os.environ.get("TERN_PERSISTENT") != "1":
        do(read_task(sys.argv[-1]))
        return
    for line in sys.stdin:
        try:
            do(read_task(line.rstrip("\n")))
            answer = "done"
        except (Exception, SystemExit) as wrong:  # sys.exit("...") is how a trainer says no
            answer = "failed: " + " ".join(str(wrong).split())
        os.write(3, answer.encode() + b"\n")


def serve_idx(train, evaluate, prepare=lambda images, labels: (images, labels)):
    """The main() of a trainer on IDX files: calls train(task, images, labels) or evaluate(task, images, labels) for each
    task, with the data of the folder --data as prepare() makes it of read_idx()'s, read when it is first needed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="folder with IDX files, .gz or not")
    parser.add_argument("task", nargs="?", help="the client adds it, unless the trainer is persistent")
    arguments = parser.parse_args()
    data = functools.cache(lambda part: prepare(*read_idx(arguments.data, part)))
    serve(lambda task: train(task, *data("train")) if task["kind"] == "train"
          else evaluate(task, *data("t10k")))


def load_model(path):
    """{name: float32 array} of a safetensors file."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    model = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values = numpy.frombuffer(data[begin:end], dtype="<f4")
            model[name] = values.reshape(entry["shape"]).copy()
    return model


def save_model(path, model):
    """Writes {name: array} as float32 safetensors."""
    header, parts, at = {}, [], 0
    for name, values in model.items():
        part = numpy.ascontiguousarray(values, dtype="<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape),
                        "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def save_result(path, **fields):
    """num_examples, loss, for evaluations accuracy, and perhaps metrics={name: number}. A NaN ends
    the program: the client then drops the task, as it should."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(fields, file, allow_nan=False)


def read_idx(folder, part):
    """Images [n, pixels] from 0 to 1 and labels [n] of "train" or "t10k": MNIST and its kin."""
    images = _idx(os.path.join(folder, f"{part}-images-idx3-ubyte"))
    labels = _idx(os.path.join(folder, f"{part}-labels-idx1-ubyte"))
    return images.reshape(len(images), -1).astype(numpy.float32) / 255, labels.astype(numpy.int64)


def _idx(path):
    opened = gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb")
    with opened as file:
        dimensions = file.read(4)[3]
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        return numpy.frombuffer(file.read(), dtype=numpy.uint8).reshape(shape)
