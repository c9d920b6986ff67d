"""Connections that end, and an aggregator that is killed, while an update goes up or before its answer
comes down. The device sends the update again until it is answered, it is counted once, and the
model is the one that a PC comes to which nobody disturbs."""
import collections
import threading

from device import Device, examples, find, images
from harness import Aggregator, Workspace, check, main
from proxy import Cut, Proxy, Uploads
from test_federation import Computer, settings_of, wait_for

CHOSEN = {"an385-newlib-ecdsa": "default", "an386-newlib-psk": "float32"}  # updates of 0.1, 1.7 KB
DATA = examples(120, seed=5)

# What befalls the first attempts to send each update: (how much of its body has gone up, whether the
# aggregator is killed then). None: nothing; it is the one whose size on the wire is learnt.
WHOLE, ANSWERED = "whole", "answered"
FATES = [None, (0.0, False), (0.3, False), (0.7, False), (0.95, False), (WHOLE, False),
         (ANSWERED, False), (0.5, True), (WHOLE, True), (ANSWERED, True), None]
ROUNDS = len(FATES)
ATTEMPTS = 2  # the first on a connection that was kept, which is tried again at once, and one anew


def settings(codec):
    return {
        "federation": {"model": "softmax:64-6", "seed": 5},
        "codec": {"codec": codec},
        "round": {"cohort": 1, "min_clients": 1, "rounds": ROUNDS, "deadline": "1h",
                  "come_back_min": "10ms", "come_back_max": "50ms"},
        "train": {"local_steps": 6, "batch_size": 8, "learning_rate": 0.1},
        "tls": {"psk": "yes"},
    }


class Fates(Uploads):
    def __init__(self, aggregator):
        super().__init__()
        self.aggregator, self.lock = aggregator, threading.Lock()
        self.met = collections.Counter()  # attempts, by update
        self.around = 0  # bytes of the first update's records beside its body

    def _meet(self, which):
        with self.lock:
            if self.met[which] == ATTEMPTS:
                return
            self.met[which] += 1
            if FATES[which][1]:
                self.aggregator.kill()
                self.aggregator.start()
        raise Cut()

    def update(self, connection, data, which, size, sent):
        if which == 0:
            self.around = sent - size
        fate = FATES[which]
        if fate is None or self.met[which] == ATTEMPTS or fate[0] == ANSWERED:
            return
        if fate[0] == WHOLE:
            # Records are whole behind the head, too; the body may be a few bytes longer or shorter.
            if sent >= self.around + size - 8 and list(connection.records("up"))[-1][2]:
                self._send_then_meet(connection, which, data)
            return
        limit = self.around + int(fate[0] * size)
        if sent > limit:
            self._send_then_meet(connection, which, data[:len(data) - (sent - limit)])

    def _send_then_meet(self, connection, which, last):
        """The aggregator is not killed before it was sent the last bytes."""
        connection.server.sendall(last)
        self._meet(which)

    def answer(self, connection, which):
        if FATES[which] is not None and FATES[which][0] in (ANSWERED, WHOLE):
            self._meet(which)


def allowed_answers(fate):
    if fate is None or isinstance(fate[0], float):
        return {"accepted"}
    # What was sent as a whole may or may not have been applied when the connection ended.
    return {"duplicate"} if fate[0] == ANSWERED else {"accepted", "duplicate"}


def undisturbed(codec):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings(codec)).start()
        wait_for(Computer(workspace, aggregator, "pc", DATA).start(), "tern-client")
        return aggregator.json("status")["model_sha256"]


def check_answers(said):
    answers = [line["answer"] for line in find(said, "uploaded")]
    check(len(answers) == ROUNDS, f"{len(answers)} updates were answered")
    for which, (fate, answer) in enumerate(zip(FATES, answers)):
        check(answer in allowed_answers(fate), f"update {which}, {fate}, was answered {answer}")
    trained = len(find(said, "trained"))
    check(trained == ROUNDS, f"trained {trained} times for {ROUNDS} rounds")
    return answers


def with_fates(image, codec):
    expected = undisturbed(codec)
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings(codec)).start()
        fates = Fates(aggregator)
        with Proxy(aggregator, watcher=fates) as proxy:
            device = fates.device = Device(workspace, image, "device",
                                           **settings_of(image, workspace, aggregator))
            device.put_data(*DATA)
            said = device.run(proxy.port)
        disturbed = {which: ATTEMPTS for which, fate in enumerate(FATES) if fate is not None}
        check(fates.met == disturbed, f"attempts were disturbed: {fates.met}, not {disturbed}")
        troubles = len(find(said, "failure"))
        # Not each one: an attempt on a connection that was kept is repeated without a line in the log.
        check(troubles > len(disturbed) // 2, f"the device noticed {troubles} troubles")
        answers, status = check_answers(said), aggregator.json("status")
        check(status["updates_applied"] == ROUNDS, f"applied {status['updates_applied']} updates")
        check(status["model_sha256"] == expected,
              f"the model is {status['model_sha256']}, not {expected}")
        sizes = sorted({int(line["bytes"]) for line in find(said, "encoded")})
        print(f"{image.name}, codec {codec}: updates of {sizes[0]} to {sizes[-1]} bytes disturbed "
              f"{fates.met.total()} times, {answers.count('duplicate')} already applied")


def test():
    for image in images():
        if image.name in CHOSEN:
            with_fates(image, CHOSEN[image.name])


if __name__ == "__main__":
    main(test)
