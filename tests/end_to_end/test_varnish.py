#!/usr/bin/python3
"""Downloads from Varnish's cache, as configs/proxies/varnish.vcl and haproxy-varnish.cfg have it: it compiles, who may
have a download gets it and nobody else, a crowd makes one request, and a round is done."""

import concurrent.futures
import shutil
import sys

from cached_site import CachedSite, bytes_of, counts, expect, fills, final_model, who_gets_nothing
from hand_client import HandClient
from harness import Workspace, check, main
from proxies import as_nobody, example, port_to_keep, program_of, wait_for

CROWD = 12


class Site(CachedSite):
    """An aggregator behind HAProxy, Varnish and HAProxy again."""

    def __init__(self, workspace, settings):
        super().__init__(workspace, settings)
        self.varnish_port, self.behind = port_to_keep(), port_to_keep()
        self.start_varnish()
        self.start_haproxy()

    def start_varnish(self):
        folder = self.workspace.path / "varnish"
        folder.mkdir()
        program, libraries = program_of("varnish", folder, "varnishd")
        vcl = folder / "default.vcl"
        vcl.write_text(example("varnish.vcl", port=('.port = "8081"', f'.port = "{self.behind}"')))
        options = [f"-a127.0.0.1:{self.varnish_port}", "-smalloc,64m", "-jnone", f"-n{folder}/work", f"-f{vcl}"]
        (folder / "work").mkdir()
        command = ["env", f"LD_LIBRARY_PATH={libraries}", program, "-F", *options]
        varnish = self.workspace.start(*as_nobody(self.workspace, folder, command), log="varnish")
        wait_for(varnish, self.varnish_port)

    def start_haproxy(self):
        folder = self.workspace.path / "haproxy"
        folder.mkdir()
        program, libraries = program_of("haproxy", folder)
        shutil.copy(self.workspace.path / "ca.crt", folder)
        (folder / "site.pem").write_text("".join((self.workspace.path / name).read_text()
                                                 for name in ("server.crt", "server.key")))
        (folder / "haproxy.cfg").write_text(example(
            "haproxy-varnish.cfg", bind=("bind :443 ", f"bind 127.0.0.1:{self.port} "),
            user=("    user haproxy\n    group haproxy\n", ""), files=("maxconn 20000", "maxconn 100"),
            log=("/dev/log", "127.0.0.1:9"), varnish=("127.0.0.1:6081", f"127.0.0.1:{self.varnish_port}"),
            behind=("127.0.0.1:8081", f"127.0.0.1:{self.behind}"),
            server=("127.0.0.1:8443", f"127.0.0.1:{self.aggregator.port}"),
            pem=("/etc/ssl/tern.example.pem", folder / "site.pem"),
            ca=("/etc/ssl/tern-aggregator-ca.crt", folder / "ca.crt")))
        command = ["env", f"LD_LIBRARY_PATH={libraries}", program, "-db", "-f", folder / "haproxy.cfg"]
        haproxy = self.workspace.start(*as_nobody(self.workspace, folder, command), log="haproxy")
        wait_for(haproxy, self.port)


def crowd(site, path, blob, token):
    before = fills(site)
    with concurrent.futures.ThreadPoolExecutor(CROWD) as pool:
        found = list(pool.map(lambda _: site.ask(path, token), range(CROWD)))
    check(all(status == 200 and body == blob for status, _, body in found), "not all of a crowd have the download")
    check(fills(site) == before + 1, f"a crowd made {fills(site) - before} requests")


def paths_and_headers(site, path, blob, token):
    name = path.rpartition("/")[2]
    before = fills(site)
    for header, status, body in (("Range: bytes=100-", 206, blob[100:]), ("Range: bytes=5-9", 200, blob),
                                 ("Range: bytes=0-,0-,0-", 200, blob), ('If-None-Match: "1"', 200, blob),
                                 ("X-Tern-Name: " + "A" * 43, 200, blob), ("X-Forwarded-Host: evil", 200, blob),
                                 ("Cache-Control: no-cache", 200, blob), ("Cookie: a=b", 200, blob)):
        check(expect(site, status, path, token, headers=(header,))[1] == body, f"{header} changes the bytes")
    check(expect(site, 200, f"{path}?a=b", token)[1] == blob, "a query leads elsewhere")
    status, _, _ = site.ask(path, token, headers=(f"Range: bytes={len(blob)}-",))
    check(status == 416, f"behind the end the answer is {status}")
    check(fills(site) == before, "a trick had the download fetched again")
    for none in (f"{path}/", f"{path}%0a", f"/v1/downloads/{name[:-1]}", f"/v1/downloads/../authorize/{name}",
                 f"/v1/authorize/{name}", f"/v1/downloads//{name}"):
        expect(site, 404, none, token)
    expect(site, 405, path, token, method="POST")
    status, _, body = site.ask(path, token, headers=("Connection: Authorization",))
    check(status in (400, 401) and len(body) < 300, "a request whose token is for one hop alone is served")


def test():
    with Workspace() as workspace:
        site = Site(workspace, {
            "federation": {"model": "mlp:256-64-10", "seed": 3},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "rounds": 1},
            "train": {"local_steps": 1, "batch_size": 8},
            "downloads": {"plan": "trunk", "final_model": "all"},
            "limits": {"enrollments_per_minute": 0, "requests_per_minute": 0}})
        hand = HandClient(site.port, site.aggregator.ca)
        path = final_model(site, hand)
        blob = bytes_of(site, path, hand.token)
        crowd(site, path, blob, hand.token)
        who_gets_nothing(site, path, blob, hand)
        paths_and_headers(site, path, blob, hand.token)
        counts(site, path, blob)
        site.aggregator.kill()
        expect(site, 503, path, hand.token)


if __name__ == "__main__":
    sys.exit(main(test))
