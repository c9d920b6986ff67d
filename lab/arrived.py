"""What clients that arrived late are held against: the global model of the version at which each did.

    arrived.py RESULTS AGGREGATOR [OPTION]... -- FLEET [OPTION]...

No client holds a global model, so when a run has ended the aggregator makes those versions again from
the stored updates, and tern-fleet measures them. Adds the list arrival_global_accuracy to the results: R2 or AUC of
models that tell no classes."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

from comparison import scores


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit("%s%s failed" % (done.stdout, " ".join(command[:2])))


def accuracy_of_version(version, result, folder, aggregator, fleet):
    """aggregator, fleet: a program and its options."""
    weights = os.path.join(folder, "version.f32")
    measured = os.path.join(folder, "version.json")
    run(aggregator[0], "export", *aggregator[1:], "--global", "--version", str(version), weights)
    with open(weights, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(measured, "w", encoding="utf-8") as file:
        scaling = {key: result[key] for key in ("scaling",) if key in result}  # of columns
        json.dump({"model": result["model"], "clients": result["clients"],
                   "model_hash": digest, **scaling}, file)
    run(fleet[0], "evaluate", *fleet[1:], measured, weights)
    with open(measured, encoding="utf-8") as file:
        return scores.of_global(json.load(file))


def add_accuracies(path, aggregator, fleet):
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    arrived_at = result.get("arrival_version", [])
    with tempfile.TemporaryDirectory() as folder:
        measured = {version: accuracy_of_version(version, result, folder, aggregator, fleet)
                    for version in sorted(set(arrived_at)) if version > 0}
    if measured:
        result["arrival_global_accuracy"] = [measured.get(version) for version in arrived_at]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    words = sys.argv[2:]
    add_accuracies(sys.argv[1], words[:words.index("--")], words[words.index("--") + 1:])
