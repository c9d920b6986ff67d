"""What a device sends to whom, and what becomes of it when connections end early. An image of each
way to verify talks to a real aggregator through a proxy that listens, and cuts when told to."""
import subprocess

from device import Device, examples, find, images
from harness import PATIENCE, Aggregator, Workspace, check, main, make_certificates, run
from proxy import DATA_RECORD, HANDSHAKE, Proxy

ROUNDS = 4
SETTINGS = {
    "federation": {"model": "softmax:64-6"},
    "round": {"cohort": 1, "min_clients": 1, "rounds": ROUNDS, "deadline": "10m",
              "come_back_min": "50ms"},
    "train": {"local_steps": 4, "batch_size": 8},
    "tls": {"psk": "yes"},
}
EXAMPLES = examples(60, seed=1)
RESUMED_MAX = 160  # bytes that the server needs to resume; in full it needs some 280 and more


def der(path):
    run("openssl", "x509", "-in", path, "-outform", "DER", "-out", path.with_suffix(".der"))
    return path.with_suffix(".der")


def identity_of(image, aggregator):
    """Provisioned: a reply to an enrolment that is lost would leave another client behind."""
    psk = image.tls == "psk"
    made = aggregator.json("provision", *(["--psk"] if psk else []))
    settings = {"id": made["client"], "token": made["token"], "model": made["model"],
                "seed": made["seed"]}
    return settings if psk else {**settings, "ca": der(aggregator.ca)}


def strangers(image, workspace, aggregator):
    """Settings with which the device must not trust this aggregator, or the other way round."""
    known = identity_of(image, aggregator)
    if image.tls == "ecdsa":
        other = workspace.path / "other"
        other.mkdir()
        make_certificates(other)
        yield "wrong-ca", {**known, "ca": der(other / "ca.crt")}
        yield "wrong-name", {**known, "host": "localhost.example"}
        yield "part-of-name", {**known, "host": "local"}
    else:
        yield "wrong-key", {**known, "token": "A" * 22}
        yield "unknown-client", {**known, "id": 4711}


def tell_nothing(image, workspace, aggregator, name, settings):
    """The device tries, but no byte of a request leaves it."""
    with Proxy(aggregator) as proxy:
        device = Device(workspace, image, name, **settings)
        device.put_data(*EXAMPLES)
        process = device.start(proxy.port)
        device.wait_until("failure", PATIENCE, 2)
        process.kill()
        process.wait()
        results = [line["result"] for line in find(device.lines(), "failure")]
        check(set(results) == {"tls"}, f"{name}: the device had {results}")
        check(len(proxy.connections) >= 2, f"{name}: {len(proxy.connections)} connections")
        for connection in proxy.connections:
            check(connection.record_bytes("up", HANDSHAKE) > 0, f"{name}: no handshake")
            sent = connection.record_bytes("up", DATA_RECORD)
            check(sent == 0, f"{name}: {sent} bytes were sent to a stranger")


def tell_nothing_to_strangers(image):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, SETTINGS).start()
        for name, settings in strangers(image, workspace, aggregator):
            tell_nothing(image, workspace, aggregator, name, settings)
        check(not aggregator.json("status")["updates_applied"], "an update came in")


def openssl(workspace, *arguments):
    subprocess.run(["openssl", *arguments], cwd=workspace.path, check=True, stdout=subprocess.DEVNULL)


def tell_nothing_to_the_expired(image):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, SETTINGS)
        openssl(workspace, "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "-1", "-extfile", "san.cnf", "-out", "server.crt")
        aggregator.start()
        tell_nothing(image, workspace, aggregator, "expired", identity_of(image, aggregator))


# In the handshake, in the answer behind a full one, behind a resumed one, in the handshake again.
CUTS = {"ecdsa": [400, 830, 860, 100, 200], "psk": [150, 320, 360, 100, 200]}


def go_on_after_cuts(image):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, SETTINGS).start()
        with Proxy(aggregator, CUTS[image.tls]) as proxy:
            device = Device(workspace, image, "device", **identity_of(image, aggregator))
            device.put_data(*EXAMPLES)
            said = device.run(proxy.port)
            cuts = sum(connection.cut for connection in proxy.connections)
            check(cuts >= 4, f"only {cuts} connections were cut")
            handshakes = [connection.record_bytes("down", HANDSHAKE)
                          for connection in proxy.connections]
            check(any(0 < size < RESUMED_MAX for size in handshakes),
                  f"no session was resumed: {handshakes} bytes of handshakes came down")
        check(find(said, "finished"), "the device did not finish")
        status = aggregator.json("status")
        check(status["updates_applied"] == ROUNDS, f"{status['updates_applied']} updates")


def survive_a_restart(image):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, SETTINGS).start()
        device = Device(workspace, image, "device", **identity_of(image, aggregator))
        device.put_data(*EXAMPLES)
        process = device.start(aggregator.port)
        device.wait_until("uploaded", PATIENCE)
        aggregator.kill()
        aggregator.start()
        check(process.wait(timeout=PATIENCE) == 0, "the device did not come back")
        check(aggregator.json("status")["version"] == ROUNDS, "a round is missing")


def use_long_chain(workspace):
    """A server's certificate with many names, from an intermediate CA."""
    names = ",".join(f"DNS:device-gateway-{i}.fleet.example.org" for i in range(8))
    (workspace.path / "int.cnf").write_text(
        "basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\n")
    (workspace.path / "leaf.cnf").write_text(
        f"subjectAltName={names},DNS:localhost\nbasicConstraints=critical,CA:FALSE\n"
        "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n")
    openssl(workspace, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "int.key")
    openssl(workspace, "req", "-new", "-key", "int.key", "-subj", "/O=Fleet/CN=int",
            "-out", "int.csr")
    for subject, issuer in (("int", "ca"), ("leaf", "int")):
        request = "int.csr" if subject == "int" else "server.csr"
        openssl(workspace, "x509", "-req", "-in", request, "-CA", f"{issuer}.crt",
                "-CAkey", f"{issuer}.key", "-CAcreateserial", "-days", "2",
                "-extfile", f"{subject}.cnf", "-out", f"{subject}.crt")
    parts = [(workspace.path / f"{part}.crt").read_text() for part in ("leaf", "int")]
    (workspace.path / "server.crt").write_text("".join(parts))


def verify_long_chain(image):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, SETTINGS)
        use_long_chain(workspace)
        aggregator.start()
        device = Device(workspace, image, "device", **identity_of(image, aggregator))
        device.put_data(*EXAMPLES)
        took = find(device.run(aggregator.port), "summary")[0]
        check(int(took["tls"]) < int(took["tls_given"]), f"memory for TLS: {took}")
        print(f"{image.name}: {took['tls']} of {took['tls_given']} bytes for an intermediate CA")


def test():
    one_of_each = {image.tls: image for image in reversed(images())}
    for image in one_of_each.values():
        tell_nothing_to_strangers(image)
        go_on_after_cuts(image)
        survive_a_restart(image)
        if image.tls == "ecdsa":
            verify_long_chain(image)
            tell_nothing_to_the_expired(image)
        print(f"{image.name}: strangers are told nothing, and cuts end nothing")


if __name__ == "__main__":
    main(test)
