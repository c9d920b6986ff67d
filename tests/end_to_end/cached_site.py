"""An aggregator with a cache of downloads before it, whichever that is, and what holds of all of them."""

import base64
import contextlib
import signal
import socket
import ssl

from hand_client import HandClient
from harness import PATIENCE, Aggregator, check
from http_by_hand import Connection, request_bytes
from protobuf import first, parse
from proxies import port_to_keep, run_client

HEAD = 200  # bytes, more than caches' heads have over the aggregator's: Server, Date, Connection, Accept-Ranges


class CachedSite:
    """An aggregator behind a cache, which listens on `port`."""

    def __init__(self, workspace, settings):
        self.workspace = workspace
        self.aggregator = Aggregator(workspace, {**settings, "server": {"cache_from": "127.0.0.1"}}).start()
        self.port = port_to_keep()

    def restart_aggregator(self):
        self.aggregator.kill(signal.SIGTERM)
        self.aggregator.start()

    def connect(self):
        return Connection(self.port, self.aggregator.ca)

    def ask(self, path, token=None, method="GET", headers=()):
        with self.connect() as connection:
            return connection.request(method, path, token=token, headers=headers)

    def downloads_of(self, client):
        """What the aggregator has counted for a client, once it has written that."""
        self.restart_aggregator()
        rows = self.aggregator.json("report", "bytes", "--by", "client")["rows"]
        return next(row for row in rows if row["client"] == client)


def final_model(site, hand):
    """Path and bytes of the global model after a round."""
    run_client(site.workspace, site.aggregator, site.port, "enroll", site.aggregator.join_code())
    run_client(site.workspace, site.aggregator, site.port, "once")
    hand.enroll(site.aggregator.join_code())
    with Connection(site.aggregator.port, site.aggregator.ca) as connection:
        _, _, reply = hand.checkin(connection)
        check(6 in reply, f"there is no final model in {reply}")
        name = base64.urlsafe_b64encode(first(parse(first(reply, 6)), 1)).decode().rstrip("=")
    return f"/v1/downloads/{name}"


@contextlib.contextmanager
def no_cache(site, address="127.0.0.9"):
    """A connection from there to the aggregator's own port."""
    context = ssl.create_default_context(cafile=site.aggregator.ca)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    with socket.create_connection(("127.0.0.1", site.aggregator.port), timeout=PATIENCE,
                                  source_address=(address, 0)) as raw, \
            context.wrap_socket(raw, server_hostname="localhost") as tls:
        yield tls


def bytes_of(site, path, token):
    """Past the cache, from an address that is no cache's."""
    with no_cache(site) as tls:
        tls.sendall(request_bytes("GET", path, token=token, headers=("Connection: close",)))
        head, _, body = b"".join(iter(lambda: tls.recv(65536), b"")).partition(b"\r\n\r\n")
    check(b" 200 " in head, f"{head}")
    return body


def expect(site, status, path, token=None, **named):
    """The answer, which has no bytes of a download unless it is to have them."""
    found, headers, body = site.ask(path, token, **named)
    check(found == status, f"{named} {path} is answered {found}, not {status}")
    check(status < 300 or len(body) < 200, f"{path} has a body of {len(body)} bytes with status {found}")
    check(status < 300 or headers.get("cache-control", "no-cache") == "no-cache", f"a refusal may be kept: {headers}")
    return headers, body


def fills(site):
    return site.aggregator.metrics()["tern_cache_fills_total"]


def who_gets_nothing(site, path, blob, hand):
    """Before it is in the cache, and after."""
    bad = hand.token[:-2] + ("AA" if hand.token[-2:] != "AA" else "QQ")
    unknown = "/v1/downloads/" + "A" * 43
    for _ in range(2):
        expect(site, 401, path)
        expect(site, 401, path, bad)
        expect(site, 401, path, bad, headers=("Range: bytes=7-", 'If-None-Match: "1"'))
        expect(site, 401, unknown, bad)
        _, body = expect(site, 404, unknown, hand.token)
        check(body.startswith(b"\n\tnot-found"), f"404 says {body}")
        headers, body = expect(site, 200, path, hand.token)
        check(body == blob, "these are other bytes")
        check(headers["cache-control"] == "public, max-age=31536000, immutable", f"{headers}")
    revoked = HandClient(site.port, site.aggregator.ca).enroll(site.aggregator.join_code())
    expect(site, 200, path, revoked.token)
    site.aggregator.verb("revoke", str(revoked.client_id))
    expect(site, 401, path, revoked.token)
    expect(site, 401, path, revoked.token, headers=("Range: bytes=7-",))


def counts(site, path, blob):
    """What a client is counted for: the payload as it is, HTTP but for the cache's own headers."""
    client = HandClient(site.port, site.aggregator.ca).enroll(site.aggregator.join_code())
    before = site.downloads_of(client.client_id)
    received = 0
    for header in ((), ("Range: bytes=1000-",)):
        with site.connect() as connection:
            connection.send(request_bytes("GET", path, token=client.token, headers=(*header, "Connection: close")))
            received += sum(len(piece) for piece in iter(lambda: connection.tls.recv(65536), b""))
    after = site.downloads_of(client.client_id)
    found = {key: after[key] - before[key] for key in after}
    print(f"by hand: {received} bytes received, counted {found}")
    check(found["exchanges"] == 2, "two downloads are not two exchanges")
    check(found["http_down"] <= received <= found["http_down"] + 2 * HEAD, "HTTP bytes are far off")
    sent = sum(len(request_bytes("GET", path, token=client.token, headers=header))
               for header in ((), ("Range: bytes=1000-",)))
    check(found["http_up"] == sent, f"{sent} bytes of requests were sent")
    check(len(blob) < found["payload_down"] + 100 < found["http_down"] < found["tls_down"] < found["wire_down"],
          "a layer does not have the one before it")
