"""LGC beside Tern's codecs: the same clients, trainer and rounds under each scheme (bench-lgc), as a table.

    lgc.py BENCH_LGC DATA_SPEC [--task cnn|large]... [--rounds N] [--json OUT]

Each row: accuracy, and bits that a client sends of each value of the model, in the mean of all rounds with and without
the autoencoder's own weights, and of the coded rounds alone.
"""
import argparse
import json
import subprocess
import sys

# Rates follow a cosine down to 1 %. With momentum 0.9, a rate of 0.01 changes weights as much as 0.1 without.
PLAIN = {"rate": 0.1, "rate_final": 0.001}
WITH_MOMENTUM = {"rate": 0.01, "rate_final": 0.0001}

TASKS = {
    "cnn": {"model": "cnn:28x28x1-8-16-10", "clients": 10, "rounds": 1000, "density": 0.05, "exact": 100,
            "training": 200},
    "large": {"model": "mlp:784-2048-1792-10", "clients": 4, "rounds": 100, "density": 0.001, "exact": 15,
              "training": 35},
}


def schemes(task):
    """Returns names and options of the schemes."""
    share = "p=%g" % task["density"]
    coder = {"coder_rate": 0.01, "coder_momentum": 0.9, "coder_clip": 1}
    rows = [("float32", "codec:float32", PLAIN),
            ("density", "codec:density:" + share, PLAIN),
            ("sparse", "codec:sparse:" + share, PLAIN),
            ("dgc", "codec:dgc:%s,warmup=%d" % (share, task["exact"]), WITH_MOMENTUM)]
    for form in ("server", "ring-mean", "ring-gather"):
        rows.append(("lgc, " + form.replace("-", ", "), "lgc-" + form, {**WITH_MOMENTUM, **coder}))
    rows.append(("lgc, server, buffers cleared", "lgc-server", {**WITH_MOMENTUM, **coder, "feedback": "cleared"}))
    # Without compression: all clients send the values at the leader's indices as float32.
    rows.append(("lgc, server, no codes", "lgc-server", {**WITH_MOMENTUM, "accept": 0.000001, "width": 2}))
    return rows


def run(program, data, task, scheme, settings):
    words = {**task, "data": data, "scheme": scheme, "evaluate_every": task["rounds"], **settings}
    done = subprocess.run([program] + ["%s=%s" % pair for pair in words.items()], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("lgc: %s of %s: %s" % (scheme, task["model"], done.stderr))
    return json.loads(done.stdout)


def coded_bits(figures):
    """Returns the bits sent in coded rounds: the mean client's, or the leader's and the others'."""
    coded = figures.get("phases", {}).get("coded")
    if coded is None or coded["bits_up"] == 0:
        return "", ""
    if "leader_bits_up" in coded:
        both = (coded["leader_bits_up"], coded["follower_bits_up"])
        return "%.3f / %.3f" % both, " / ".join("%.0f" % (32 / bits) if bits else "-" for bits in both)
    return "%.3f" % coded["bits_up"], "%.0f" % (32 / coded["bits_up"]) if coded["bits_up"] else "-"


def row(name, figures, baseline):
    with_weights = figures["bits_up"] + figures["bits_autoencoder"]
    learned = ["%.4f" % figures["accuracy"], "%+.2f" % (100 * (figures["accuracy"] - baseline["accuracy"]))]
    if "diverged_in" in figures:
        learned = ["diverged in round %d" % figures["diverged_in"], "-"]
    return [name, *learned, "%.3f" % figures["bits_up"], "%.3f" % with_weights, "%.1f" % (32 / with_weights),
            *coded_bits(figures), "%.3f" % figures["bits_down"]]


def markdown(rows):
    yield ("| scheme | accuracy | points | bits up | with the autoencoder | times | coded rounds | times of these |"
           " bits down |")
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for cells in rows:
        yield "| %s |" % " | ".join(cells)


def measure(options, name):
    task = dict(TASKS[name])
    if options.rounds:
        task.update(rounds=options.rounds, exact=options.rounds // 10, training=options.rounds // 5)
    figures = {}
    for scheme, told, settings in schemes(task):
        figures[scheme] = run(options.program, options.data, task, told, settings)
        print("lgc: %s, %s: %.4f" % (name, scheme, figures[scheme]["accuracy"]), file=sys.stderr)
    print("%s, %d values, %d clients, %d rounds:" % (task["model"], figures["float32"]["values"], task["clients"],
                                                     task["rounds"]))
    print("\n".join(markdown(row(scheme, figures[scheme], figures["float32"]) for scheme in figures)) + "\n")
    return figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--task", action="append", choices=sorted(TASKS))
    parser.add_argument("--rounds", type=int, help="fewer, of which a tenth are exact and a fifth train")
    parser.add_argument("--json")
    options = parser.parse_args()
    figures = {name: measure(options, name) for name in options.task or sorted(TASKS)}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
