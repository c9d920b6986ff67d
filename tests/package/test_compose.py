#!/usr/bin/python3
"""configs/compose, as far as it can be read without a container engine: what its files name of each other is there, the
aggregator takes the settings. tests/image/test_compose.py runs it.

Usage: test_compose.py BUILD_DIR
"""

import configparser
import pathlib
import re
import subprocess
import sys

SKIP = 77
TREE = pathlib.Path(__file__).parent.parent.parent
COMPOSE = TREE / "configs" / "compose"
KEYS = {  # of a service, that are used here
    "image", "restart", "stop_grace_period", "depends_on", "environment", "networks", "hostname", "volumes",
    "healthcheck", "ports"}


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def check_service(name, service, stack):
    check(set(service) <= KEYS, f"{name} has {set(service) - KEYS}")
    check(("image" in service) and set(service["networks"]) <= set(stack["networks"]), f"{name}: {service}")
    check(set(service.get("depends_on", [])) <= set(stack["services"]), f"{name} depends on {service.get('depends_on')}")
    for volume in service["volumes"]:
        source, target = volume.split(":")[:2]
        check(target.startswith("/"), f"{name} has {volume}")
        if source.startswith("./"):  # of certificates the operator makes the folder
            check((COMPOSE / source).exists() or source == "./certificates", f"{name}: there is no {source}")
        else:
            check(source in stack["volumes"], f"{name}: there is no volume {source}")


def check_aggregators(services, settings):
    aggregators = {name: service for name, service in services.items() if service["image"] == "tern-aggregator"}
    check(len(aggregators) == 3, f"there are {list(aggregators)}")
    states = set()
    for name, service in aggregators.items():
        check(service["hostname"] == name, f"{name} is called {service['hostname']}")
        places = {volume.split(":")[1]: volume.split(":")[0] for volume in service["volumes"]}
        states.add(places[settings["federation"]["state"]])
        check(places["/etc/tern/aggregator.ini"] == "./aggregator.ini", f"{name} has the settings {places}")
        certificates = pathlib.PurePath(settings["server"]["certificate"]).parent
        check(str(certificates) in places, f"{name} has no {certificates}")
    check(len(states) == 3, f"they share {states}")
    script = (TREE / "cmake" / "verbs" / "image.sh").read_text()
    state = re.search(r"^IMAGE_STATE=(.*)$", script, re.MULTILINE)[1]
    check(settings["federation"]["state"] == state, f"the image's volume is {state}")
    user = re.search(r"^IMAGE_USER=(.*)$", script, re.MULTILINE)[1]
    check(f"as the user {user}," in (COMPOSE / "compose.yml").read_text(), f"the image's user is {user}")
    return aggregators


def check_database(services, settings):
    user, host, database = re.fullmatch(r"postgresql://(\w+)@(\w+)/(\w+)", settings["store"]["url"]).groups()
    made = services[host]["environment"]
    check((user, database) == (made["POSTGRES_USER"], made["POSTGRES_DB"]), f"{host} makes {made}")
    password = made["POSTGRES_PASSWORD"]
    check(all(service["environment"]["PGPASSWORD"] == password for service in services.values()
              if service["image"] == "tern-aggregator"), "they have another password")


def check_proxy(services, settings, aggregators):
    text = (COMPOSE / "nginx.conf").read_text()
    port = settings["server"]["port"]
    servers = re.findall(r"server (\w+):(\d+)", text)
    check(servers == [(name, port) for name in aggregators], f"nginx knows {servers}")
    check(f"listen {services['nginx']['ports'][0].split(':')[1]};" in text, "nginx listens elsewhere")
    check("proxy_protocol on;" in text, "whose a connection is, nginx does not say")
    check(settings["server"]["proxy_from"] == "0.0.0.0/0, ::/0", "nginx has no fixed address")
    published = [name for name, service in services.items() if "ports" in service]
    check(published == ["nginx"], f"ports of {published} are published, and anybody could say whose a connection is")


def main():
    try:
        import yaml
    except ImportError:
        print("skipped: not installed: python3-yaml")
        return SKIP
    stack = yaml.safe_load((COMPOSE / "compose.yml").read_text())
    settings = configparser.ConfigParser()
    settings.read(COMPOSE / "aggregator.ini")
    for name, service in stack["services"].items():
        check_service(name, service, stack)
    aggregators = check_aggregators(stack["services"], settings)
    check_database(stack["services"], settings)
    check_proxy(stack["services"], settings, aggregators)
    program = pathlib.Path(sys.argv[1]) / "bin" / "tern-aggregator"
    done = subprocess.run([program, "serve", "--check", "--config", COMPOSE / "aggregator.ini"], capture_output=True, text=True,
                          check=False)
    check(done.returncode == 0, f"serve --check says {done.stdout}{done.stderr}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
