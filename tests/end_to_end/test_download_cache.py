#!/usr/bin/python3
"""Downloads from nginx's cache, as configs/proxies/nginx-cache.conf has it: a federation whose clients have most of
them from there, with restarts of both; who gets nothing; and what a client can make of paths, headers and ranges."""

import collections
import json
import signal
import sys
import time

from cached_site import CachedSite, bytes_of, counts, expect, fills, final_model, no_cache, who_gets_nothing
from hand_client import HandClient
from harness import BIN, PATIENCE, Workspace, check, main
from http_by_hand import request_bytes
from proxies import start_nginx, wait_for

CLIENTS = 20


class Site(CachedSite):
    """An aggregator behind nginx with its cache."""

    def __init__(self, workspace, settings):
        super().__init__(workspace, settings)
        self.folder = workspace.path / "nginx"
        self.nginx = None
        self.start_nginx()

    def start_nginx(self):
        self.nginx = start_nginx(self.workspace, self.aggregator, self.port, "nginx-cache.conf",
                                 cache=("/var/cache/nginx/tern", self.folder / "cache"),
                                 log=("/var/log/nginx/tern-downloads.log", self.folder / "downloads.log"))
        wait_for(self.nginx, self.port)

    def restart_nginx(self):
        self.nginx.send_signal(signal.SIGQUIT)
        self.nginx.wait(timeout=PATIENCE)
        self.start_nginx()

    def sent(self):
        """What nginx's log has of downloads: (status, cache's, bytes, path)."""
        rows = [line.split() for line in (self.folder / "downloads.log").read_text().splitlines()]
        return [(int(status), cache, int(size), path) for _, status, cache, size, path in rows]


# --- A federation

def wait_for_round(site, number, fleet):
    deadline = time.monotonic() + PATIENCE
    while site.aggregator.json("status")["rounds_committed"] < number:
        check(fleet.poll() is None and time.monotonic() < deadline, f"round {number} is not done")
        time.sleep(0.05)


def run_fleet(site, between):
    results = site.workspace.path / "results.json"
    settings = {
        "fleet.server": f"https://127.0.0.1:{site.port}", "fleet.ca": site.aggregator.ca,
        "fleet.join_code": site.aggregator.join_code(uses=CLIENTS + 1), "fleet.clients": CLIENTS,
        "fleet.workers": 4, "fleet.evaluate_every": 100, "fleet.measure_replicas": 0,
        "data.source": "digits:train=1000,test=50,size=16",
    }
    fleet = site.workspace.start(BIN / "tern-fleet", "run", "--results", results,
                                 *(part for key, value in settings.items()
                                   for part in ("--set", f"{key}={value}")), log="fleet")
    between(fleet)
    check(fleet.wait(timeout=PATIENCE) == 0, "the fleet failed")
    return json.loads(results.read_text())


def metered_payload(site):
    """Returns the payload bytes that training clients downloaded; the last client evaluates."""
    rows = site.aggregator.json("report", "bytes", "--by", "client")["rows"]
    return sum(row["payload_down"] for row in rows if 0 < row["client"] <= CLIENTS)


def expect_hits(site):
    by_cache, names = collections.Counter(), set()
    for status, cache, size, path in site.sent():
        by_cache[cache] += size if status == 200 else 0
        names.update([path] if status == 200 else [])
    share = by_cache["HIT"] / sum(by_cache.values())
    print(f"{len(names)} downloads, {sum(by_cache.values())} bytes of them sent, {100 * share:.1f} % from the cache")
    check(share >= 0.9, f"from the cache come no more than {by_cache}")
    misses = collections.Counter(path for status, cache, _, path in site.sent() if status == 200 and cache == "MISS")
    check(max(misses.values()) == 1, f"a crowd had a download fetched more than once: {misses}")


def federation(rounds, between, cut):
    """Each client checks the hash of what it gets, or the fleet would not come to its end. cut: payload that each client
    may have been counted for and not received."""
    with Workspace() as workspace:
        site = Site(workspace, {
            "federation": {"model": "mlp:256-64-10", "seed": 3},
            "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS, "rounds": rounds,
                      "come_back_min": "10ms", "come_back_max": "100ms"},
            "train": {"local_steps": 1, "batch_size": 8},
            "downloads": {"plan": "trunk", "final_model": "all"},
            "limits": {"enrollments_per_minute": 0, "requests_per_minute": 0}})
        found = run_fleet(site, lambda fleet: between(site, fleet))
        site.aggregator.kill(signal.SIGTERM)
        expect_hits(site)
        payload = round(found["payload_down"] * found["participations"])
        metered = metered_payload(site)
        print(f"payloads of downloads: {payload} bytes by the clients, {metered} by the aggregator")
        check(payload <= metered <= payload + CLIENTS * cut, "the aggregator has counted other payloads than clients have")


def restarted(site, fleet):
    wait_for_round(site, 2, fleet)
    site.restart_aggregator()
    wait_for_round(site, 4, fleet)
    site.restart_nginx()


# --- By hand

def ranges(site, path, blob, token):
    def part(header, status, body):
        _, found = expect(site, status, path, token, headers=(f"Range: {header}",))
        check(found == body, f"{header} brings other bytes")

    part("bytes=100-", 206, blob[100:])
    part("bytes=0-", 206, blob)
    part("bytes=5-9", 206, blob[5:10])
    part("bytes=-7", 206, blob[-7:])
    # A request with many ranges, which may overlap, is answered by the whole body once.
    part("bytes=" + ",".join(["0-"] * 40), 200, blob)
    part("bytes=0-1,2-3", 200, blob)
    status, headers, _ = site.ask(path, token, headers=(f"Range: bytes={len(blob)}-",))
    check(status == 416 and headers["content-range"] == f"bytes */{len(blob)}", f"{status} {headers}")
    status, headers, body = site.ask(path, token, headers=('If-None-Match: "1"',))
    check(status == 304 and not body, f"a download that is held already is answered {status}")


def tricks(site, path, blob, token):
    """Every way to one download leads to one entry, what is no canonical path to none, and no header to another."""
    name = path.rpartition("/")[2]
    before = fills(site)
    for same in (f"{path}?a=b", f"//v1//downloads/{name}", f"/v1/x/../downloads/{name}", f"/v1/%64ownloads/{name}",
                 f"/v1/downloads%2f{name}", f"/v1/downloads/%{ord(name[0]):02x}{name[1:]}"):
        _, body = expect(site, 200, same, token)
        check(body == blob, f"{same} leads elsewhere")
    other_case = name.swapcase()
    for none in (f"{path}/", f"{path}%0a", f"{path}%20", f"{path}=", f"/v1/downloads/{name[:-1]}", f"/V1/downloads/{name}",
                 f"/v1/downloads/{other_case}", f"/v1/downloads/{name}%2f..", f"/v1/downloads/..%2fauthorize/{name}",
                 f"/v1/authorize/{name}", f"/v1//authorize/{name}", f"/v1/%61uthorize/{name}", "/authorize", "//authorize"):
        expect(site, 404, none, token)
    with site.connect() as connection:
        connection.send(request_bytes("HEAD", path, token=token))
        check(b" 405 " in connection.tls.recv(65536), "HEAD, which the aggregator does not know, is answered")
    expect(site, 405, path, token, method="POST")
    for header in ("X-Forwarded-Host: evil", "X-Forwarded-For: 127.0.0.1", "X-Original-URL: /healthz", "Forwarded: for=1.2.3.4",
                   "X-Rewrite-URL: /v1/enroll", "Accept-Encoding: gzip", "Cache-Control: no-cache", "Pragma: no-cache",
                   "If-Range: \"2\"", "Cookie: a=b", "Authorization2: x", "Connection: Authorization"):
        _, body = expect(site, 200, path, token, headers=(header,))
        check(body == blob, f"{header} changes the bytes")
    with site.connect() as connection:  # another host in the request line, and in Host
        connection.send(request_bytes("GET", f"https://evil{path}", token=token).replace(b"Host: localhost", b"Host: evil"))
        check(connection.receive()[2] == blob, "another host has other bytes")
    check(fills(site) == before, "a trick had the download fetched again")


def smuggling(site, path, blob, token):
    """What stands behind a request is the next one, to nginx and to nobody behind it."""
    hidden = request_bytes("GET", "/healthz")
    for framing in ((f"Content-Length: {len(hidden)}",), ("Transfer-Encoding: chunked",),
                    ("Content-Length: 0", "Transfer-Encoding: chunked")):
        body = hidden if "Content-Length" in framing[-1] else b"%x\r\n%s\r\n0\r\n\r\n" % (len(hidden), hidden)
        with site.connect() as connection:
            connection.send(request_bytes("GET", path, token=token, headers=framing) + body)
            status, _, found = connection.receive()
            check(status in (400, 413), f"{framing} is answered {status}")
            check(blob[:8] not in found, "a refused request brings bytes")
    log = (site.workspace.path / "aggregator.log").read_text()
    check("path=/healthz" not in log, "a hidden request came through")


def not_from_a_cache(site, path, token):
    """The aggregator's own port, from another address and from nginx's."""
    authorize = path.replace("downloads", "authorize")

    def ask(address, authorization):
        with no_cache(site, address) as tls:
            tls.sendall(request_bytes("GET", authorize, token=authorization))
            return int(tls.recv(65536).split()[1])

    check(ask("127.0.0.9", token) == 403, "whoever likes may say what was sent")
    check(ask("127.0.0.9", None) == 403, "a stranger learns more than a client")
    check(ask("127.0.0.1", token) == 204, "the cache may not ask")
    check(ask("127.0.0.1", None) == 401, "a cache needs no token")


def metrics(site, path, token):
    """A download from the cache is one that was left to it; what was said for it is counted apart."""
    before = site.aggregator.metrics()
    expect(site, 200, path, token)
    after = site.aggregator.metrics()
    grown = {name: after[name] - before[name] for name in after}
    check(grown["tern_downloads_total"] == grown["tern_downloads_authorized_total"] == 1, "the download is not counted")
    check(grown["tern_cache_fills_total"] == 0, "the download was fetched")
    for direction in ("up", "down"):
        size = grown[f'tern_cache_wire_bytes_total{{direction="{direction}"}}']
        check(50 < size < 1000, f"the question was {size} bytes {direction}")


def restarts(site, path, blob, token):
    """Nothing is sent that nobody was asked about, and what is on the disk stays."""
    before = fills(site)
    site.restart_nginx()
    _, body = expect(site, 200, path, token)
    check(body == blob and fills(site) == before, "nginx has lost its cache")
    site.aggregator.kill()
    expect(site, 503, path, token)
    site.aggregator.start()
    _, body = expect(site, 200, path, token)
    check(body == blob and fills(site) == 0, "the download is not from the cache")


def over_the_rate(site, path, token):
    site.aggregator.settings["limits"]["requests_per_minute"] = 3
    site.aggregator.write_config()
    site.restart_aggregator()
    for _ in range(3):
        expect(site, 200, path, token)
    headers, _ = expect(site, 429, path, token)
    check(int(headers["retry-after"]) > 0, f"429 has {headers}")


def by_hand():
    with Workspace() as workspace:
        site = Site(workspace, {
            "federation": {"model": "mlp:256-64-10", "seed": 3},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "rounds": 1},
            "train": {"local_steps": 1, "batch_size": 8},
            "log": {"requests": "all"},
            "downloads": {"plan": "trunk", "final_model": "all"},
            "limits": {"enrollments_per_minute": 0, "requests_per_minute": 0}})
        hand = HandClient(site.port, site.aggregator.ca)
        path = final_model(site, hand)
        blob = bytes_of(site, path, hand.token)
        who_gets_nothing(site, path, blob, hand)
        ranges(site, path, blob, hand.token)
        tricks(site, path, blob, hand.token)
        smuggling(site, path, blob, hand.token)
        not_from_a_cache(site, path, hand.token)
        metrics(site, path, hand.token)
        counts(site, path, blob)
        restarts(site, path, blob, hand.token)
        over_the_rate(site, path, hand.token)


def test():
    by_hand()
    federation(2, lambda site, fleet: None, cut=0)
    federation(6, restarted, cut=2 * 4800)


if __name__ == "__main__":
    sys.exit(main(test))
