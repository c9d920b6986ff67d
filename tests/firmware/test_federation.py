"""A microcontroller in a federation with a client on a PC, with every image that was built: it
enrols, or was provisioned, trains three rounds, and ends with the model that the aggregator has,
bit for bit the one that two PCs come to, one with an error buffer like the device's. Boards differ in the
codecs of updates and downloads. Within its budget of stack and of memory for TLS."""
import functools
import subprocess

from device import Device, every_image, examples, find, write_idx
from harness import BIN, Aggregator, Workspace, check, main

ROUNDS = 3
SETTINGS = {
    "federation": {"model": "softmax:64-6", "seed": 7},
    "round": {"cohort": 2, "min_clients": 2, "rounds": ROUNDS, "deadline": "1h",
              "come_back_min": "50ms", "come_back_max": "200ms"},
    "train": {"local_steps": 10, "batch_size": 8, "learning_rate": 0.1, "momentum": 0.9},
    "tls": {"psk": "yes"},
}
CODECS = {"mps2-an385": {"codec": "uniform:error=0.1", "codec_down": "uniform:error=0.03"},
          "mps2-an386": {"codec": "3lc:s=1,clip=4,coder=range",
                         "codec_down": "density:p=0.5,least=64,fit=yes,coder=range"}}
DATA = [examples(200, seed=1), examples(160, seed=2)]
LIMIT_S = 240


class Computer:
    """tern-client with data of the same kind."""

    def __init__(self, workspace, aggregator, name, data, storage="float32"):
        self.workspace, self.name = workspace, name
        folder = workspace.path / f"{name}-data"
        write_idx(folder, *data)
        self.options = ["--set", f"client.server={aggregator.url}",
                        "--set", f"client.ca={aggregator.ca}",
                        "--set", f"client.state_dir={workspace.path / name}",
                        "--set", f"client.error_buffer={storage}",
                        "--set", f"data.source=idx:{folder}"]
        subprocess.run([BIN / "tern-client", "enroll", *self.options, aggregator.join_code()],
                       check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)

    def start(self):
        return self.workspace.start(BIN / "tern-client", "run", *self.options, log=self.name)


def wait_for(process, what):
    check(process.wait(timeout=LIMIT_S) == 0, f"{what} failed")


def model_of(aggregator):
    status = aggregator.json("status")
    check(status["version"] == ROUNDS, f"the aggregator is at {status['version']}")
    check(status["updates_applied"] == 2 * ROUNDS, f"applied {status['updates_applied']} updates")
    return status["model_sha256"]


@functools.cache
def two_computers(storage, board):
    """The model that they come to under the codecs of that board; the first keeps its error buffer as `storage`."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {**SETTINGS, "codec": CODECS[board]}).start()
        computers = [Computer(workspace, aggregator, "pc0", DATA[0], storage),
                     Computer(workspace, aggregator, "pc1", DATA[1])]
        for process in [computer.start() for computer in computers]:
            wait_for(process, "tern-client")
        return model_of(aggregator)


def certificate(workspace):
    path = workspace.path / "ca.der"
    subprocess.run(["openssl", "x509", "-in", workspace.path / "ca.crt", "-outform", "DER",
                    "-out", path], check=True, stdout=subprocess.DEVNULL)
    return path


def settings_of(image, workspace, aggregator):
    """By certificate the device enrols; with a key it was provisioned."""
    if image.tls == "ecdsa":
        return {"ca": certificate(workspace), "join": aggregator.join_code()}
    made = aggregator.json("provision", "--psk")
    return {"id": made["client"], "token": made["token"], "model": made["model"],
            "seed": made["seed"]}


def check_summary(image, said, model):
    check(find(said, "finished")[0]["model_hash"] == model, "the device has another model")
    answers = [line["answer"] for line in find(said, "uploaded")]
    check(answers == ["accepted"] * ROUNDS, f"the device's updates were {answers}")
    losses = [float(line["loss"]) for line in find(said, "trained")]
    check(losses[-1] < losses[0], f"training does not help: {losses}")
    took = {key: int(value) for key, value in find(said, "summary")[0].items() if value.isdigit()}
    check(0 < took["stack"] < took["stack_given"], f"stack: {took}")
    check(0 < took["tls"] < took["tls_given"], f"memory for TLS: {took}")
    rounds = [int(line["round_wire_bytes"]) for line in find(said, "uploaded")]
    print(f"{image.name}: stack {took['stack']} of {took['stack_given']}, TLS {took['tls']} of "
          f"{took['tls_given']}, bytes on the wire per round {rounds}")


def with_a_device(image):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {**SETTINGS, "codec": CODECS[image.board]}).start()
        device = Device(workspace, image, "device", **settings_of(image, workspace, aggregator))
        device.put_data(*DATA[0])
        process = device.start(aggregator.port)
        device.wait_until("started", LIMIT_S)  # it is client 1, as the first PC was
        computer = Computer(workspace, aggregator, "pc", DATA[1]).start()
        wait_for(process, "the device")
        wait_for(computer, "tern-client")
        model = model_of(aggregator)
        check_summary(image, device.lines(), model)
        return model


def test():
    for image in every_image():
        model, known = with_a_device(image), two_computers(image.storage, image.board)
        check(image.storage == "float32" or known != two_computers("float32", image.board),
              "how errors are kept makes no difference")
        check(model == known, f"with {image.name} the model is {model}, without it {known}")


if __name__ == "__main__":
    main(test)
