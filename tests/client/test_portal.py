"""What answers in the aggregator's place: a portal that speaks HTTP, and one with a certificate of its own. Both are named,
and a client that has met the aggregator before waits as without a network, until the way is free."""
import pathlib
import socket
import ssl
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

PAGE = b"HTTP/1.1 302 Found\r\nLocation: http://portal.example/\r\nContent-Length: 0\r\n\r\n"


class Portal:
    """Stands in front of the aggregator, and lets connections pass after `blocks` of them."""

    def __init__(self, port, context=None):
        self.target, self.context = port, context
        self.blocks = self.seen = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            self.seen += 1
            serve = self.block if self.seen <= self.blocks else self.let_pass
            threading.Thread(target=serve, args=(near,), daemon=True).start()

    def block(self, near):
        try:
            if self.context is not None:
                with self.context.wrap_socket(near, server_side=True) as stream:
                    stream.recv(4096)
            else:
                near.recv(4096)
                near.sendall(PAGE)
                near.close()
        except OSError:
            pass

    def let_pass(self, near):
        far = socket.create_connection(("127.0.0.1", self.target))
        threading.Thread(target=self.pump, args=(far, near), daemon=True).start()
        self.pump(near, far)

    @staticmethod
    def pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def foreign_context(folder):
    """A server's, with a certificate that it has issued itself, for the right name."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                    "portal.key", "-out", "portal.crt", "-days", "2", "-subj", "/CN=portal", "-addext",
                    "subjectAltName=IP:127.0.0.1"], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "portal.crt", folder / "portal.key")
    return context


class Device:
    def __init__(self, workspace, aggregator, name):
        self.settings = [f"client.ca={aggregator.ca}", "client.wait=0", "client.retry_min=100ms", "client.retry_max=1s",
                         f"client.state_dir={workspace.path}/{name}", "data.source=digits:train=60,test=20,size=16"]

    def run(self, portal, *words, code=0, blocks=0):
        portal.blocks, portal.seen = blocks, 0
        settings = [*self.settings, f"client.server=https://127.0.0.1:{portal.port}"]
        done = subprocess.run([BIN / "tern-client", *words, *(part for one in settings for part in ("--set", one))],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        check(done.returncode == code, f"{words} exited {done.returncode}, not {code}: {done.stderr}")
        check("wrong version number" not in done.stderr, f"said {done.stderr}")
        return done.stderr


def expect_named(said, why):
    check("what answers is not the aggregator" in said and "captive portal or proxy (sign in, or wait)" in said and why in said,
          f"a portal is not named: {said}")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:256-10"},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1}}).start()
        device, newcomer = (Device(workspace, aggregator, name) for name in ("client", "newcomer"))
        code = aggregator.join_code(2)
        plain = Portal(aggregator.port)
        foreign = Portal(aggregator.port, foreign_context(workspace.path))
        for portal, why in ((plain, "client.server has the wrong port"), (foreign, "client.ca is not the aggregator's CA")):
            said = newcomer.run(portal, "enroll", code, code=1, blocks=99)
            expect_named(said, why)
            check("used up" not in said, f"nothing was sent: {said}")
            check(portal.seen == 1, f"{portal.seen} connections for one request")
        device.run(plain, "enroll", code)
        for portal, why in ((plain, "speaks no TLS"), (foreign, "another CA has issued its certificate")):
            device.run(portal, "once")  # has met the aggregator at this address
            said = device.run(portal, "once", blocks=1)
            expect_named(said, why)
            check(said.count("event=failure result=network") == 1 and "answer=accepted" in said, f"it did not try again: {said}")
            said = device.run(portal, "once", code=1, blocks=99)
            check(2 <= portal.seen <= 9, f"{portal.seen} connections of a device that should come back later: {said}")


main(test)
