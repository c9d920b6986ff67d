"""What a service says of its files at its start, and what it takes anew on SIGHUP."""
import pathlib
import shutil
import signal
import socket
import ssl
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import Aggregator, Workspace, check, main  # noqa: E402

# Of localhost, from 2020-01-01 to 2021-01-01.
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


def wait_for(aggregator, words, times=1):
    """The log line with these words, once it is there so many times."""
    log = aggregator.workspace.path / "aggregator.log"
    deadline = time.monotonic() + 60
    while True:
        lines = [line for line in log.read_text().splitlines() if words in line]
        if len(lines) >= times:
            return lines[-1]
        check(time.monotonic() < deadline, f"no {words} in the log:\n{log.read_text()}")
        time.sleep(0.02)


def shown_certificate(aggregator):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", aggregator.port), timeout=60) as raw, \
            context.wrap_socket(raw) as tls:
        return ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True))


def metric(aggregator, name):
    token = (aggregator.state / "admin.token").read_text().strip()
    with socket.socket(socket.AF_UNIX) as admin:
        admin.connect(str(aggregator.workspace.path / "admin.sock"))
        admin.sendall(f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
                      "Connection: close\r\n\r\n".encode())
        text = b"".join(iter(lambda: admin.recv(65536), b"")).decode()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))


def reload(aggregator, words, times=1):
    aggregator.process.send_signal(signal.SIGHUP)
    return wait_for(aggregator, words, times)


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:8-2"}})
        for name in ("server.crt", "server.key"):
            shutil.copy(workspace.path / name, workspace.path / f"good.{name}")
        (workspace.path / "server.crt").write_text(EXPIRED)
        (workspace.path / "server.key").write_text(EXPIRED_KEY)
        (workspace.path / "server.key").chmod(0o640)  # as of Debian's group ssl-cert
        aggregator.start()
        wait_for(aggregator, "event=certificate-expired")
        check("loose-permissions" not in (workspace.path / "aggregator.log").read_text(), "of tight files")
        aggregator.kill(signal.SIGTERM)
        loose = {workspace.path / "server.key": 0o644, aggregator.state / "tern.db": 0o666,
                 aggregator.state: 0o777, aggregator.state / "admin.token": 0o640}
        for path, mode in loose.items():
            path.chmod(mode)
        aggregator.start()
        for path, mode in loose.items():
            line = wait_for(aggregator, f"event=loose-permissions file={path} ")
            check("level=warn " in line and f"mode={mode:04o} advice=\"chmod " in line, line)

        line = wait_for(aggregator, "event=certificate-expired")
        check("level=error" in line and "2021-01-01" in line and "SIGHUP" in line, line)
        check("EXPIRED 2021-01-01" in aggregator.verb("status"), aggregator.verb("status"))
        check(metric(aggregator, "tern_certificate_expires_seconds") == 1609459200, "the metric of 2021")
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
        line = wait_for(aggregator, "level=warn event=certificate ")
        check("days=1" in line or "days=2" in line, line)
        ends = aggregator.json("status")["certificate_expires_ms"] // 1000
        check(0 < ends - time.time() <= 2 * 86400, f"status says {ends}")
        check(metric(aggregator, "tern_certificate_expires_seconds") == ends, "the metric says otherwise")

        aggregator.settings["round"] = {"cohort": 7}
        aggregator.settings["server"]["log"] = "chatty"
        aggregator.write_config()
        check("server.log = chatty" in reload(aggregator, "event=reload-failed", 2), "the level is not named")
        aggregator.settings["server"]["log"] = "warn"
        aggregator.write_config()
        reload(aggregator, "event=setting-needs-restart key=round.cohort")
        aggregator.kill(signal.SIGTERM)
        log = (workspace.path / "aggregator.log").read_text()
        check(log.count("event=reloaded") == 1 and log.count("event=stopping") == 1, "server.log is not warn")


main(test)
