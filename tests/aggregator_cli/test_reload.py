"""What a service says of its files at its start, and what it takes anew on SIGHUP."""
import contextlib
import pathlib
import shutil
import signal
import socket
import ssl
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import Aggregator, Workspace, check, main  # noqa: E402

# A certificate for localhost, valid from 2020-01-01 to 2021-01-01.
EXPIRED = """-----BEGIN CERTIFICATE-----
MIIBUzCB+qADAgECAgEBMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMMCWxvY2FsaG9z
dDAeFw0yMDAxMDEwMDAwMDBaFw0yMTAxMDEwMDAwMDBaMBQxEjAQBgNVBAMMCWxv
Y2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABC4Eta1SZCTF09zlWmd1
diC4FIF4eSIjcO8BNQovMgka9IFk6Xo1VmOFScmLFXEQ0dKPL1tu2iW5LdVPUocz
D9GjPTA7MBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAdBgNVHQ4EFgQUOxSh
uPSQ4ysZ3A/lfL5UhmGa68cwCgYIKoZIzj0EAwIDSAAwRQIhAI36ImIFQKX3r5dC
hB64/frqOpkXsCw9dADmHwYHckyLAiBKXAPLMKVSHjWgOPZm+kdbPIv+sCN50pR6
bjGq3Tw0lA==
-----END CERTIFICATE-----
"""
EXPIRED_KEY = """-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIAM/wDE0F4RDkq2BrjV376fKRnQHbvEfm60gGZ8M2pLIoAoGCCqGSM49
AwEHoUQDQgAELgS1rVJkJMXT3OVaZ3V2ILgUgXh5IiNw7wE1Ci8yCRr0gWTpejVW
Y4VJyYsVcRDR0o8vW27aJbkt1U9ShzMP0Q==
-----END EC PRIVATE KEY-----
"""


def connect(aggregator):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection(("127.0.0.1", aggregator.port), timeout=60))


def shown_certificate(aggregator):
    with connect(aggregator) as tls:
        return ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True))


def reload(aggregator, words, times=1):
    aggregator.process.send_signal(signal.SIGHUP)
    return aggregator.log_line(words, times)


def open_files(aggregator):
    """The soft limit of the running service."""
    lines = pathlib.Path(f"/proc/{aggregator.process.pid}/limits").read_text().splitlines()
    return int(next(line.split()[3] for line in lines if line.startswith("Max open files")))


def test_open_files():
    """As many files as 100 connections need, or a warning; none where the clients there are need no more."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:8-2"},
                                            "limits": {"connections": 100, "unfinished": 1000}},
                                prefix=("prlimit", "--nofile=300:4000"))
        log = workspace.path / "aggregator.log"
        aggregator.start()
        check(open_files(aggregator) == 2 * 100 + 100 + 64, f"{open_files(aggregator)} files")
        check("few-files" not in log.read_text(), "a warning where the hard limit is enough")
        aggregator.kill(signal.SIGTERM)
        aggregator.prefix = ["prlimit", "--nofile=200:300"]
        aggregator.start()
        check("few-files" not in log.read_text(), "a warning where 300 files are enough without a client")
        aggregator.kill(signal.SIGTERM)
        aggregator.prefix = ["prlimit", "--nofile=200:250"]
        aggregator.start()
        check(open_files(aggregator) == 250, f"{open_files(aggregator)} files")
        line = aggregator.log_line("event=few-files limit=250 needed=")
        check("level=warn " in line and "LimitNOFILE" in line, line)


def test_files():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:8-2"}})
        for name in ("server.crt", "server.key"):
            shutil.copy(workspace.path / name, workspace.path / f"good.{name}")
        (workspace.path / "server.crt").write_text(EXPIRED)
        (workspace.path / "server.key").write_text(EXPIRED_KEY)
        (workspace.path / "server.key").chmod(0o640)  # as of Debian's group ssl-cert
        aggregator.start()
        aggregator.log_line("event=certificate-expired")
        check("loose-permissions" not in (workspace.path / "aggregator.log").read_text(), "of tight files")
        aggregator.kill(signal.SIGTERM)
        loose = {workspace.path / "server.key": 0o644, aggregator.state / "tern.db": 0o666,
                 aggregator.state: 0o777, aggregator.state / "admin.token": 0o640}
        for path, mode in loose.items():
            path.chmod(mode)
        aggregator.start()
        for path, mode in loose.items():
            line = aggregator.log_line(f"event=loose-permissions file={path} ")
            check("level=warn " in line and f"mode={mode:04o} advice=\"chmod " in line, line)

        line = aggregator.log_line("event=certificate-expired")
        check("level=error" in line and "2021-01-01" in line and "SIGHUP" in line, line)
        check("EXPIRED 2021-01-01" in aggregator.verb("status"), aggregator.verb("status"))
        check(aggregator.metrics()["tern_certificate_expires_seconds"] == 1609459200, "the metric of 2021")
        check(shown_certificate(aggregator) == EXPIRED, "another certificate is shown")

        # Half of a renewal is none: the key is still that of the old certificate.
        shutil.copy(workspace.path / "good.server.crt", workspace.path / "server.crt")
        line = reload(aggregator, "event=reload-failed")
        check("does not belong to the certificate" in line, line)
        check(shown_certificate(aggregator) == EXPIRED, "a failed renewal changed something")

        shutil.copy(workspace.path / "good.server.key", workspace.path / "server.key")
        reload(aggregator, "event=reloaded")
        check(shown_certificate(aggregator).strip() in (workspace.path / "good.server.crt").read_text(),
              "the new certificate is not shown")
        line = aggregator.log_line("level=warn event=certificate ")
        check("days=1" in line or "days=2" in line, line)
        ends = aggregator.json("status")["certificate_expires_ms"] // 1000
        check(0 < ends - time.time() <= 2 * 86400, f"status says {ends}")
        check(aggregator.metrics()["tern_certificate_expires_seconds"] == ends, "the metric says otherwise")

        aggregator.settings["server"]["threads"] = 3
        aggregator.settings["log"] = {"level": "chatty"}
        aggregator.write_config()
        check("level = 'chatty' is not known" in reload(aggregator, "event=reload-failed", 2), "the level is not named")
        aggregator.settings["log"]["level"] = "warn"
        aggregator.settings["federation"]["state"] = str(workspace.path / "elsewhere")
        aggregator.write_config()
        reload(aggregator, 'event=setting-not-taken key=server.threads from=1 to=3 reason="needs a restart"')
        line = aggregator.log_line("event=setting-not-taken key=federation.state ")
        check(line.rstrip().endswith(f'to={workspace.path / "elsewhere"} reason="needs a restart"'), line)
        aggregator.kill(signal.SIGTERM)
        log = (workspace.path / "aggregator.log").read_text()
        check(log.count("event=reloaded") == 1 and log.count("event=stopping") == 1, "log.level is not warn")


def ask(tls, headers=""):
    """The status of /healthz, with more headers."""
    tls.sendall(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
    return int(tls.recv(65536).split()[1])


def is_let_in(aggregator):
    try:
        with connect(aggregator) as tls:
            return ask(tls) == 200
    except (ConnectionError, ssl.SSLError):
        return False


def is_ended(tls):
    try:
        return tls.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def test_limits():
    """Those of the door hold for what begins from then on; connections stay."""
    long = f"X-Long: {'x' * 1000}\r\n"
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:8-2"}}).start()
        with contextlib.ExitStack() as connections:
            first, second = (connections.enter_context(connect(aggregator)) for _ in range(2))
            check(ask(first) == ask(second) == ask(second, long) == 200, "it is not served")
            aggregator.settings["limits"] = {"connections_per_address": 2, "header_bytes": 512}
            aggregator.write_config()
            reload(aggregator, "event=reloaded")
            check(is_let_in(aggregator), "a third connection is shut out")
            check(is_ended(first), "the longest-idle stranger kept its place")
            first = connections.enter_context(connect(aggregator))
            check(ask(first) == 200, "a connection within the limit is not served")
            check(ask(second, long) == 431, "a long header is taken")
            aggregator.settings["limits"] = {"connections_per_address": 3, "enrollments_per_minute": 1, "queue": 17}
            aggregator.write_config()
            reload(aggregator, "event=reloaded", 2)
            line = aggregator.log_line("event=setting-changed key=limits.header_bytes from=512 to=4096")
            check("level=info" in line, line)
            audited = {(row["subject"], row["before"], row["after"]) for row in aggregator.json("audit") if row["action"] == "SIGHUP"}
            check(("limits.header_bytes", "512", "4096") in audited and len(audited) == 6, f"{audited}")
            check(is_let_in(aggregator), "nobody is let in any more")
            check(ask(first, long) == 200, "the limit of headers is not what it was")
            enroll = "POST /v1/enroll HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
            first.sendall((enroll * 2).encode())
            answers = b""
            while answers.count(b"HTTP/1.1") < 2:
                answers += first.recv(65536)
            check(b"HTTP/1.1 429" in answers, f"two enrolments a minute: {answers}")


def test_audit():
    """A start is in the audit log with the settings that differ from the last ones in force, and with a new admin.token."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:8-2"}, "round": {"cohort": 7}})

        def started():
            aggregator.start()
            rows = [row for row in aggregator.json("audit") if row["action"] == "start"]
            aggregator.kill(signal.SIGTERM)
            return [(row["subject"], row["before"], row["after"]) for row in rows]

        started()  # the harness has a port from here on
        rows = started()
        check(aggregator.json("audit", "--last", "1000")[0]["action"] == "init", "init is no row")
        check(("round.cohort", "10", "7") in rows, f"{rows}")
        check([row[1] for row in rows if row[0] == "admin.token"] == [""], f"{rows}")
        check(started() == rows, "a start without changes adds rows")
        aggregator.settings["round"].pop("cohort")
        aggregator.settings["round"]["strategy"] = "fedavg"
        aggregator.write_config()
        token = (aggregator.state / "admin.token").read_text()
        (aggregator.state / "admin.token").write_text(token[1:].strip() + "AB\n")
        new = started()[len(rows):]
        check([row[0] for row in new] == ["round.cohort", "round.strategy", "admin.token"], f"{new}")
        check(new[0][1:] == ("7", "10") and new[1][2] == "fedavg", f"{new}")
        check(new[2][1] == next(row[2] for row in rows if row[0] == "admin.token") != new[2][2], f"{new}")
        check(len(new[2][2]) == len("SHA-256 0123..."), f"{new}")


def test():
    test_audit()
    test_open_files()
    test_files()
    test_limits()


main(test)
