"""client.proxy: through a CONNECT proxy of this test's own a round goes, and its bytes count; without the setting the
environment is not obeyed; and each failure of a proxy is named."""
import base64
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

USER, PASSWORD = "valve", "s3cret:x"
CREDENTIALS = f"{USER}:s3cret%3Ax"  # as a URL has them


class ConnectProxy:
    """Opens connections for CONNECT, with Basic authentication if it requires that, or answers `status`. Counts the bytes of
    its clients' connections."""

    def __init__(self, requires=False, status=None, closes=False):
        self.requires, self.status, self.closes = requires, status, closes
        self.up = self.down = self.connects = 0
        self.targets = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def answer(self, near, line, *headers):
        reply = "".join(f"{one}\r\n" for one in (f"HTTP/1.1 {line}", *headers, "")).encode()
        self.down += len(reply)
        near.sendall(reply)

    def serve(self, near):
        head = b""
        while b"\r\n\r\n" not in head:
            data = near.recv(4096)
            if not data:
                return
            self.up += len(data)
            head += data
        lines = head.decode().split("\r\n")
        method, target, _ = lines[0].split(" ")
        self.connects += method == "CONNECT"
        self.targets.add(target)
        check(not any("Bearer" in line for line in lines), "the proxy was sent the client's token")
        proof = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.closes:
            near.close()
        elif self.status:
            self.answer(near, self.status, "Content-Length: 0")
        elif self.requires and f"Proxy-Authorization: Basic {proof}" not in lines:
            self.answer(near, "407 Proxy Authentication Required", 'Proxy-Authenticate: Basic realm="x"', "Content-Length: 0")
        else:
            far = socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2])))
            self.answer(near, "200 OK")
            threading.Thread(target=self.pump, args=(far, near, "down"), daemon=True).start()
            self.pump(near, far, "up")

    def pump(self, source, sink, name):
        try:
            while data := source.recv(65536):
                setattr(self, name, getattr(self, name) + len(data))
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Device:
    def __init__(self, workspace, aggregator, name="client"):
        self.settings = [f"client.server=https://localhost:{aggregator.port}", f"client.ca={aggregator.ca}", "client.wait=0",
                         "client.retry_min=100ms", "client.retry_max=1s", f"client.state_dir={workspace.path}/{name}",
                         "data.source=digits:train=60,test=20,size=16"]

    def run(self, *words, proxy=None, code=0, **environment):
        settings = [*self.settings, *([f"client.proxy={proxy}"] if proxy is not None else [])]
        variables = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        done = subprocess.run([BIN / "tern-client", *words, *(part for one in settings for part in ("--set", one))],
                              capture_output=True, text=True, timeout=PATIENCE, check=False, env={**variables, **environment})
        check(done.returncode == code, f"{words} through {proxy} exited {done.returncode}, not {code}: {done.stderr}")
        check("s3cret" not in done.stderr, f"the password is in the log: {done.stderr}")
        return done.stderr if words[-1] != "--json" else json.loads(done.stdout)

    def bytes(self):
        """Those of the connections' streams, in each direction."""
        meter = self.run("meter", "--json")
        return tuple(meter[way]["total"]["tls"] for way in ("up", "down"))


def bytes_are_metered(device, aggregator):
    proxy = ConnectProxy(requires=True)
    url = f"http://{CREDENTIALS}@127.0.0.1:{proxy.port}"
    device.run("enroll", aggregator.join_code(), proxy=url)
    check("answer=accepted" in device.run("once", proxy=url), "no round went through the proxy")
    check(proxy.connects >= 2 and proxy.targets == {f"localhost:{aggregator.port}"}, f"{proxy.connects} to {proxy.targets}")
    check(device.bytes() == (proxy.up, proxy.down), f"metered {device.bytes()}, the proxy saw {proxy.up, proxy.down}")
    handshake = device.run("meter", "--json")["up"]["handshake"]
    check(handshake["http"] > 100 and handshake["tls"] > handshake["http"], f"CONNECT is not in {handshake}")


def environment_is_obeyed_where_it_is_wanted(device, proxy):
    dead = "http://127.0.0.1:1"
    url = f"127.0.0.1:{proxy.port}"  # without a scheme, as in many environments
    said = device.run("once", https_proxy=dead, HTTPS_PROXY=dead, ALL_PROXY=dead)
    check("answer=accepted" in said and proxy.connects == 0, f"the environment was obeyed unasked: {said}")
    said = device.run("once", proxy="environment", https_proxy=url)
    check("answer=accepted" in said and proxy.connects == 1, f"https_proxy was not obeyed: {said}")
    said = device.run("once", proxy="environment", https_proxy=dead, no_proxy="localhost")
    check("answer=accepted" in said, f"no_proxy was not obeyed: {said}")
    said = device.run("once", proxy=f"http://{url}", no_proxy="localhost")
    check("answer=accepted" in said and proxy.connects == 2, f"no_proxy overrode client.proxy: {said}")
    said = device.run("once", proxy="environment")
    check("answer=accepted" in said and proxy.connects == 2, f"an empty environment failed: {said}")


def failures_are_named(device):
    open_one, picky = ConnectProxy(status="403 Forbidden"), ConnectProxy(requires=True)
    closing = ConnectProxy(closes=True)
    for proxy, words in (
            (f"http://127.0.0.1:{picky.port}", f"the proxy 127.0.0.1:{picky.port} requires a user and a password (HTTP 407)"),
            (f"http://valve:wrong@127.0.0.1:{picky.port}", "refused the user or the password in client.proxy (HTTP 407)"),
            (f"http://127.0.0.1:{open_one.port}", f"the proxy 127.0.0.1:{open_one.port} answered HTTP 403, and did not connect"),
            (f"http://127.0.0.1:{closing.port}", f"the proxy 127.0.0.1:{closing.port} ended the connection before it answered"),
            ("http://127.0.0.1:1", "the proxy 127.0.0.1:1 of client.proxy cannot be reached"),
            ("http://nowhere.invalid:3128", "the name of the proxy nowhere.invalid:3128 has no address (DNS)")):
        said = device.run("enroll", "CODE", proxy=proxy, code=1)
        check(words in said and "used up" not in said, f"{proxy}: {said}")
    said = device.run("enroll", "CODE", proxy="environment", code=1, https_proxy="nowhere.invalid:3128")
    check("check the environment variable https_proxy" in said, f"the variable is not named: {said}")
    for proxy, words in (("https://valve:s3cret@127.0.0.1:1", "its scheme is not http"), ("http://127.0.0.1", "it has no port"),
                         ("127.0.0.1:3128", "it is no such URL"), ("http://127.0.0.1:1/x", "it goes on after the port")):
        said = device.run("enroll", "CODE", proxy=proxy, code=2)
        check(f"client.proxy must be http://[user:password@]host:port, environment, or empty: {words}" in said, f"{proxy}: {said}")


def a_name_without_address_is_named_alone(workspace, aggregator):
    device = Device(workspace, aggregator, "lost")
    device.settings[0] = "client.server=https://nowhere.invalid:8443"
    said = device.run("enroll", "CODE", code=1)
    check("nowhere.invalid (DNS)" in said and "used up" not in said and "try again" not in said, f"said {said}")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:256-10"},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1}}).start()
        device = Device(workspace, aggregator)
        bytes_are_metered(device, aggregator)
        environment_is_obeyed_where_it_is_wanted(device, ConnectProxy())
        failures_are_named(Device(workspace, aggregator, "other"))
        a_name_without_address_is_named_alone(workspace, aggregator)


main(test)
