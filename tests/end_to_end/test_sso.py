#!/usr/bin/python3
"""Single sign-on over configs/proxies/apache-sso.conf with the real Apache httpd and mod_auth_openidc; the provider of
OpenID Connect is played here. The role is that of the user's groups, whatever headers the browser sends."""

import base64
import hashlib
import hmac
import http.cookiejar
import http.server
import json
import os
import pathlib
import pwd
import shutil
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "browser"))
import webdriver  # noqa: E402
from harness import BIN, Aggregator, Workspace, check, main, neighbour, run  # noqa: E402
from proxies import as_nobody, example, port_to_keep, program_of, wait_for  # noqa: E402

SECRET = "a-secret-of-this-client-that-is-long-enough-for-hs256"
MODULE = "usr/lib/apache2/modules/mod_auth_openidc.so"
GROUPS = {"ann": ["staff"], "bob": ["staff", "ops"], "eve": ["others"]}
CONF = """ServerName localhost
ServerRoot {folder}
PidFile {folder}/httpd.pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/error.log
Listen 127.0.0.1:{port}
{modules}
{site}
"""


def in_base64(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data).encode()).rstrip(b"=")


class Provider(http.server.BaseHTTPRequestHandler):
    """Logs everybody in as the user `user`, without a question."""
    user = "ann"
    nonces = {}

    def log_message(self, *_):
        pass

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/metadata":
            self.answer({"issuer": self.url, "authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token",
                         "jwks_uri": f"{self.url}/jwks", "response_types_supported": ["code"], "subject_types_supported": ["public"],
                         "id_token_signing_alg_values_supported": ["HS256"],
                         "token_endpoint_auth_methods_supported": ["client_secret_basic"]})
        elif path == "/authorize":
            asked = dict(urllib.parse.parse_qsl(query))
            code = str(len(self.nonces))
            self.nonces[code] = (asked["nonce"], self.user)
            self.send_response(302)
            self.send_header("Location", asked["redirect_uri"] + "?" + urllib.parse.urlencode({"code": code, "state": asked["state"]}))
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.answer({"keys": []})

    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        nonce, user = self.nonces.pop(form["code"])
        now = int(time.time())
        signed = in_base64({"alg": "HS256", "typ": "JWT"}) + b"." + in_base64({
            "iss": self.url, "aud": "tern", "sub": f"id-{user}", "iat": now, "exp": now + 600, "nonce": nonce,
            "preferred_username": user, "groups": GROUPS[user]})
        token = signed + b"." + in_base64(hmac.digest(SECRET.encode(), signed, hashlib.sha256))
        self.answer({"access_token": "of-no-use", "token_type": "Bearer", "expires_in": 600, "id_token": token.decode()})


def start_apache(workspace, port, socket, provider):
    folder = workspace.path / "apache"
    folder.mkdir()
    program, libraries = program_of("apache2-bin", folder, called="apache2")
    module, root = neighbour("libapache2-mod-auth-openidc", MODULE)
    modules = folder / "usr/lib/apache2/modules" if libraries else module.parent
    if libraries:  # as program_of() does
        shutil.copytree(root / "usr", folder / "own/usr", symlinks=True, ignore=shutil.ignore_patterns("share"))
        shutil.copy(folder / "own" / MODULE, modules)
        libraries = ":".join([libraries, *(str(path) for path in folder.glob("own/usr/lib/*-linux-gnu*"))])
    origin = f"http://127.0.0.1:{port}"
    site = example("apache-sso.conf", listen=("*:443", f"127.0.0.1:{port}"), tls=("SSLEngine on", ""),
                   certificate=("SSLCertificateFile /etc/ssl/tern.example.crt", ""),
                   key=("SSLCertificateKeyFile /etc/ssl/tern.example.key", ""),
                   metadata=("https://id.example/.well-known/openid-configuration", f"http://127.0.0.1:{provider}/metadata"),
                   secret=("OIDCClientSecret change-me\n", f"OIDCClientSecret {SECRET}\n"),
                   back=("https://tern.example/oidc", f"{origin}/oidc"), socket=("/run/tern-aggregator/admin.sock|", f"{socket}|"))
    needed = ("mpm_event", "authn_core", "authz_core", "authz_user", "headers", "proxy", "proxy_http", "auth_openidc")
    (folder / "httpd.conf").write_text(CONF.format(
        folder=folder, port=port, site=site,
        modules="\n".join(f"LoadModule {name}_module {modules}/mod_{name}.so" for name in needed)))
    command = ["env", f"LD_LIBRARY_PATH={libraries}", program, "-X", "-f", folder / "httpd.conf"]
    return workspace.start(*as_nobody(workspace, folder, command), log="apache")


class Visitor:
    """With cookies of its own; the first page logs `user` in."""

    def __init__(self, port, user):
        self.origin = f"http://127.0.0.1:{port}"
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                                  urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        Provider.user = user
        status, page = self.ask("/", Accept="text/html")  # the module redirects browsers alone to the provider
        check(status == 200 and "<title>" in page, f"the page of {user}: {status} {page}")

    def ask(self, path, body=None, **headers):
        """headers: with _ as it is, which the module's own headers have."""
        request = urllib.request.Request(self.origin + path, data=body, headers=headers)
        try:
            with self.opener.open(request, timeout=20) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


def roles_are_those_of_groups(port):
    ann, bob, eve = (Visitor(port, user) for user in ("ann", "bob", "eve"))
    check(json.loads(ann.ask("/api/v1/session")[1]) == {"sso": True, "name": "sso:ann", "role": "viewer"}, "ann is no viewer")
    check(ann.ask("/api/v1/status")[0] == 200, "ann reads nothing")
    forged = {"OIDC_CLAIM_groups": "ops", "OIDC_CLAIM_preferred_username": "bob", "Origin": ann.origin}
    status, said = ann.ask("/api/v1/enroll-codes", b'{"uses": 1}', **forged)
    check(status == 403 and "needs the role operator, and sso:ann has the role viewer" in said, f"a forged header: {status} {said}")
    status, said = bob.ask("/api/v1/enroll-codes", b'{"uses": 1}', Origin="https://evil.example")
    check(status == 403 and "Origin" in said, f"a change by another page: {status} {said}")
    check(bob.ask("/api/v1/enroll-codes", b'{"uses": 1}', Origin=bob.origin)[0] == 201, "bob makes no code")
    status, said = eve.ask("/api/v1/session")
    check(status == 403 and "viewer=staff, operator=ops" in said, f"eve: {status} {said}")
    status, said = bob.ask("/api/v1/status", Authorization="Bearer of-no-use-here-at-all")
    check(status == 400 and "Send one of them" in said, f"two callers: {status} {said}")


def page_needs_no_login(port, log):
    """In Chromium, where there is one."""
    if not shutil.which("chromedriver") or not shutil.which("chromium"):
        return
    Provider.user = "ann"
    browser = webdriver.Browser(log)
    try:
        browser.open(f"http://127.0.0.1:{port}/")
        browser.wait("return performance.getEntriesByName('shown:overview').length", "the overview")
        shown = browser.run("return [...document.querySelectorAll('#caller, #login, #logout')].map(e => e.hidden ? '' : e.textContent)")
        check(shown == ["sso:ann, viewer", "", ""], f"the page shows {shown}")
    finally:
        browser.close()


def test():
    neighbour("libapache2-mod-auth-openidc", MODULE)
    with Workspace() as workspace, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider) as provider:
        port = port_to_keep()
        folder = workspace.path / "run"
        folder.mkdir()
        if os.geteuid() == 0:  # Apache runs as nobody then, and its group is the folder's and so the socket's
            os.chown(folder, 0, pwd.getpwnam("nobody").pw_gid)
            folder.chmod(0o2750)
        socket = folder / "admin.sock"
        aggregator = Aggregator(workspace, {"admin": {
            "address": f"unix:{socket}",
            "sso": "user=OIDC_CLAIM_preferred_username, groups=OIDC_CLAIM_groups, "
                   f"origin=http://127.0.0.1:{port}, viewer=staff, operator=ops"}}).start()
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        try:
            wait_for(start_apache(workspace, port, socket, provider.server_port), port)
            roles_are_those_of_groups(port)
            page_needs_no_login(port, workspace.path / "chromedriver.log")
        finally:
            provider.shutdown()
        rows = json.loads(run(BIN / "tern-aggregator", "audit", "--config", aggregator.config, "--json"))
        check([(row["who"], row["role"], row["result"]) for row in rows if row["action"] not in ("init", "start")] == [
            ("sso:ann", "viewer", "refused: needs the role operator"), ("sso:bob", "operator", "done")], f"the audit log has {rows}")


if __name__ == "__main__":
    sys.exit(main(test))
