"""Peak memory of tern-client over some rounds of the MLP, and what of it is the client's own.

usage: client_memory.py BUILD_DIR SERVER CA JOIN_CODE STATE_DIR

Prints JSON. Private (anonymous) resident memory is sampled from /proc: the pages of shared libraries
are shared with whoever else uses them. What the trainer and its data take is computed by
bench-trainer-size.
"""
import json
import pathlib
import subprocess
import sys
import time

MODEL = "mlp:784-128-10"
DATA = "digits:train=600,test=100,size=28,seed=1"
ROUNDS = 5


def status_kb(pid):
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if value.endswith(" kB"):
            fields[key] = int(value.split()[0])
    return fields


def main(build, server, ca, code, state):
    client = [f"{build}/bin/tern-client"]
    options = ["--set", f"client.server={server}", "--set", f"client.ca={ca}", "--set",
               f"client.state_dir={state}", "--set", f"data.source={DATA}", "--set",
               "client.log=info"]
    subprocess.run(client + ["enroll", code] + options, check=True, capture_output=True)
    process = subprocess.Popen(client + ["run"] + options, stderr=subprocess.PIPE, text=True)
    peak = {"RssAnon": 0, "VmHWM": 0, "VmData": 0}
    end = time.monotonic() + 60
    log = pathlib.Path(state + ".log")
    with open(log, "w") as sink:
        import threading
        threading.Thread(target=lambda: [sink.write(line) or sink.flush()
                                         for line in process.stderr], daemon=True).start()
        while time.monotonic() < end and log.read_text().count("event=uploaded") < ROUNDS:
            for key, value in status_kb(process.pid).items():
                if key in peak:
                    peak[key] = max(peak[key], value)
            time.sleep(0.002)
        process.terminate()
        process.wait(timeout=30)
    trainer, weights = map(int, subprocess.run(
        [f"{build}/bench-bin/bench-trainer-size", MODEL, DATA], check=True, capture_output=True,
        text=True).stdout.split())
    private = peak["RssAnon"] * 1024
    print(json.dumps({
        "client_peak_resident_bytes": peak["VmHWM"] * 1024,
        "client_peak_private_bytes": private,
        "client_trainer_and_data_bytes": trainer,
        "client_weights_and_error_buffer_bytes": 2 * weights,
        "client_beyond_these_bytes": private - trainer - 2 * weights,
        "client_rounds_done": log.read_text().count("event=uploaded"),
    }))


main(*sys.argv[1:])
