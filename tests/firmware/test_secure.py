"""A microcontroller in secure rounds, with a helper and a client on a PC: it seals its ticket, masks its updates, loses its power
after the first one, and ends with the model, bit for bit, that two PCs come to."""
from device import Device, every_image, find
from harness import Aggregator, Workspace, check, main, skip
from helper import Helper
from test_federation import DATA, LIMIT_S, ROUNDS, SETTINGS, Computer, check_summary, model_of, settings_of, wait_for


def start_federation(workspace):
    helper = Helper(workspace, min_clients=2).start()
    settings = {**SETTINGS, **helper.settings_of_aggregator()}
    settings["round"] = {**SETTINGS["round"], "strategy": "fedavg:norm_bound=0", "min_interval": "1ms"}
    return helper, Aggregator(workspace, settings).start()


def computer(workspace, aggregator, helper, name, data):
    made = Computer(workspace, aggregator, name, data)
    made.options += ["--set", f"secure.helper_key={helper.key}", "--set", f"secure.code={helper.code()}",
                     "--set", "secure.min_clients=2"]
    return made


def two_computers():
    with Workspace() as workspace:
        helper, aggregator = start_federation(workspace)
        computers = [computer(workspace, aggregator, helper, f"pc{i}", DATA[i]) for i in (0, 1)]
        for process in [made.start() for made in computers]:
            wait_for(process, "tern-client")
        return model_of(aggregator)


def with_a_device(image):
    with Workspace() as workspace:
        helper, aggregator = start_federation(workspace)
        device = Device(workspace, image, "device", helper_key=helper.key, helper_code=helper.code(), min_clients=2,
                        **settings_of(image, workspace, aggregator))
        device.put_data(*DATA[0])
        process = device.start(aggregator.port)
        device.wait_until("started", LIMIT_S)  # it is client 1, as the first PC was
        pc = computer(workspace, aggregator, helper, "pc", DATA[1]).start()
        device.wait_until("uploaded", LIMIT_S)
        process.kill()
        process.wait()
        process = device.start(aggregator.port)
        wait_for(process, "the device")
        wait_for(pc, "tern-client")
        model = model_of(aggregator)
        check_summary(image, device.lines(), model)
        settled = [int(line["round"]) for line in find(device.lines(), "settled")]
        check(settled == list(range(1, ROUNDS + 1)), f"settled: {settled}")
        rounds = aggregator.json("rounds")
        check(all(row["mode"] == "secure" for row in rounds), f"{rounds}")
        return model


def test():
    images = [image for image in every_image() if image.secure]
    if not images:
        skip("./tern firmware --secure has built no image with secure rounds")
    known = two_computers()
    for image in images:
        model = with_a_device(image)
        check(model == known, f"with {image.name} the model is {model}, without it {known}")


if __name__ == "__main__":
    main(test)
