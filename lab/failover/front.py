"""nginx before an aggregator and its standbys: it ends TLS, keeps what many clients download, and goes on to the next aggregator
where one does not answer. The site is configs/proxies/nginx-cache.conf with other ports and files."""
import collections
import pathlib

from failover.programs import check, free_port, listens, neighbour, wait_until

SOURCE = pathlib.Path(__file__).resolve().parents[2]

# nginx's configuration around a site. access: "off", or the file of the access log
CONF = """daemon off;
master_process off;
pid {folder}/nginx.pid;
worker_rlimit_nofile 8192;
events {{
    worker_connections 4096;
}}
http {{
    access_log {access};
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{site}
}}
"""


def example(folder, port, ports):
    text = (SOURCE / "configs/proxies/nginx-cache.conf").read_text(encoding="utf-8")
    for shown, instead in (
            ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"), ("    listen [::]:443 ssl;\n", ""),
            ("tern.example;", "localhost;"),
            ("    server 127.0.0.1:8443;\n",
             "".join(f"    server 127.0.0.1:{one} max_fails=0;\n" for one in ports)),
            ("/etc/ssl/tern.example.crt", f"{folder.parent}/server.pem"),
            ("/etc/ssl/tern.example.key", f"{folder.parent}/server.key"),
            ("/etc/ssl/tern-aggregator-ca.crt", f"{folder.parent}/ca.pem"),
            ("/var/cache/nginx/tern", f"{folder}/cache"),
            ("access_log /var/log/nginx/tern-downloads.log tern_downloads;",
             f"access_log {folder}/downloads.log tern_downloads;")):
        check(shown in text, f"configs/proxies/nginx-cache.conf has no {shown!r}")
        text = text.replace(shown, instead)
    return text


class Front:
    """An nginx that listens on `port` in front of a site's aggregators."""

    def __init__(self, site, build):
        self.folder = site.folder / "nginx"
        self.folder.mkdir()
        self.port = free_port()
        program, libraries = neighbour(build, "nginx", "usr/sbin/nginx")
        conf = self.folder / "nginx.conf"
        conf.write_text(CONF.format(folder=self.folder, access="off", site=example(
            self.folder, self.port, [node.port for node in site.nodes.values()])), encoding="utf-8")
        process = site.programs.start("env", f"LD_LIBRARY_PATH={libraries}", program, "-p", self.folder, "-c", conf,
                                      "-e", self.folder / "error.log", log=self.folder / "output.log")
        wait_until("nginx does not listen: see nginx/error.log",
                   lambda: process.poll() is not None or listens(self.port), 30)
        check(process.poll() is None, "nginx does not start: " + (self.folder / "error.log").read_text(encoding="utf-8"))

    def downloads(self):
        """Returns number and bytes of the downloads by cache status: HIT or MISS."""
        sent = collections.Counter()
        size = collections.Counter()
        for line in (self.folder / "downloads.log").read_text(encoding="utf-8").splitlines():
            _, status, cached, length, _ = line.split()
            if status in ("200", "206"):
                sent["HIT" if cached == "HIT" else "MISS"] += 1
                size["HIT" if cached == "HIT" else "MISS"] += int(length)
        return sent, size
