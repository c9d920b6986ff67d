"""Mutual TLS: clients show a certificate of the CA in tls.client_ca beside their token, or do not come in; what is
wrong is said on both ends, SIGHUP takes another CA, and a certificate goes with tokens of its own name alone."""
import calendar
import json
import signal
import subprocess
import time

from authority import Authority
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run
from psk_link import PskConnection


class Device:
    def __init__(self, aggregator, name):
        self.aggregator = aggregator
        self.state = aggregator.workspace.path / name

    def run(self, verb, *arguments, certificate=None, code=0):
        """What the client says. certificate: of Authority.issue(); None: it shows none."""
        settings = {"client.server": self.aggregator.url, "client.ca": self.aggregator.ca,
                    "client.state_dir": self.state, "client.name": "what it calls itself", "client.wait": 0,
                    "data.source": "digits:train=20,test=5", **(certificate or {})}
        options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        done = subprocess.run([BIN / "tern-client", verb, *options, *arguments], capture_output=True,
                              text=True, timeout=PATIENCE)
        check(done.returncode == code, f"{verb}: exit {done.returncode}, not {code}: {done.stderr}")
        self.printed = done.stdout
        return done.stderr


def strangers_are_refused(aggregator, ours, theirs):
    """Neither without a certificate nor with one that is not good; both ends say why."""
    stranger = Device(aggregator, "stranger")
    code = aggregator.join_code()
    for certificate, reason, advice in (
            (None, "the client sent no certificate", "it may require a certificate of this client: client.certificate"),
            (theirs.issue("foreign", "/CN=valve 1"), "no CA in tls.client_ca has signed the client's certificate",
             "may not trust this client's certificate"),
            (ours.issue("old", "/CN=valve 1", days=-1), "the client's certificate, or a CA's certificate, has expired",
             "or the certificate has expired"),
            (ours.issue("server", "/CN=valve 1", usage="serverAuth"), "does not allow use by a client",
             "may not trust this client's certificate"),
            (ours.issue("long", "/CN=" + "n" * 64), "does not have exactly one common name of 1 to 63 bytes", "")):
        said = stranger.run("enroll", code, certificate=certificate, code=1)
        check(advice in said, f"no {advice!r} in: {said}")
        line = aggregator.log_line(reason)
        check("level=warn event=handshake-failed listener=clients peer=127.0.0.1 reason=" in line, line)
    refused = aggregator.metrics()["tern_http_client_certificates_refused_total"]
    check(refused >= 5, f"{refused} certificates were refused")
    check(aggregator.json("clients") == [], "a stranger has enrolled")


def names_go_together(aggregator, ours, device, certificate):
    """The certificate names the client, and its token is of no use beside another's."""
    device.run("enroll", aggregator.join_code(), certificate=certificate)
    names = [client["name"] for client in aggregator.json("clients")]
    check(names == ["valve 1"], f"the clients are {names}")
    device.run("once", certificate=certificate, code=4)
    check(aggregator.metrics()['tern_http_handshakes_total{kind="resumed"}'] == 1, "the session was not resumed")
    device.run("once", certificate=ours.issue("renewed", "/O=works/CN=valve 1"), code=4)
    device.run("once", certificate=ours.issue("other", "/CN=valve 2"), code=3)
    line = aggregator.log_line("event=certificate-name-mismatch")
    check("level=warn" in line and line.endswith('client=1 certificate="valve 2"'), line)
    check("event=authentication-failed" in aggregator.log_line("path=/v1/checkin"), "no line of the failure")


def its_own_end_is_told(ours, device, certificate):
    """In the log, `status` and `check`, as the file is now, also once it has expired."""
    shown = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-dateopt", "iso_8601", "-in",
                            certificate["client.certificate"]], capture_output=True, text=True, check=True).stdout
    end = calendar.timegm(time.strptime(shown.strip(), "notAfter=%Y-%m-%d %H:%M:%SZ"))
    device.run("status", "--json", certificate=certificate)
    check(json.loads(device.printed)["client_certificate_expires_s"] == end, f"status says {device.printed}")
    said = device.run("once", certificate=certificate, code=4)
    check("level=warn event=certificate-expires" in said and "this client's certificate expires in 9 d" in said, said)
    device.run("check", "--json", "--model", "softmax:256-10", certificate=certificate)
    rows = {row["area"]: row for row in json.loads(device.printed)}
    check(rows["server"]["health"] == "good", f"check says {rows}")
    check("this client's certificate expires in 9 d" in rows["expiry"]["finding"], f"check says {rows}")
    expired = ours.issue("expired", "/CN=valve 1", days=-1)
    check("this client's certificate has expired" in device.run("once", certificate=expired, code=1), "the log is silent")
    device.run("check", "--json", certificate=expired, code=1)
    rows = {row["area"]: row for row in json.loads(device.printed)}
    check(rows["expiry"]["health"] == "warning" and "client's certificate has expired" in rows["expiry"]["finding"],
          f"check says {rows}")
    device.run("status", "--json")
    check("client_certificate_expires_s" not in json.loads(device.printed), f"status says {device.printed}")


def keys_take_their_place(aggregator):
    """A device with a pre-shared key shows no certificate."""
    facts = aggregator.json("provision", "--name", "valve 3", "--psk")
    with PskConnection(aggregator.port, facts["client"], facts["psk"]) as connection:
        status = connection.request("POST", "/v1/checkin", token=facts["token"], body=b"")[0]
    check(status == 200, f"status {status}")


def reload(aggregator, **tls):
    """Takes other settings of [tls] anew."""
    aggregator.settings["tls"].update(tls)
    aggregator.write_config()
    log = (aggregator.workspace.path / "aggregator.log").read_text()
    aggregator.process.send_signal(signal.SIGHUP)
    aggregator.log_line("event=reloaded", log.count("event=reloaded") + 1)


def what_is_asked_for_changes(aggregator, ours, theirs, device, certificate):
    bare = Device(aggregator, "bare")
    reload(aggregator, client_certificate="optional")
    bare.run("enroll", aggregator.join_code())
    bare.run("once", code=4)
    said = bare.run("once", certificate=ours.issue("late", "/CN=what it calls itself", days=-1), code=1)
    check("or the certificate has expired" in said, said)
    reload(aggregator, client_certificate="required")
    check("client.certificate and client.key" in bare.run("once", code=1), "a ticket stands in for a certificate")

    # A certificate must be of the CA that is trusted now, even in a session that began under the former CA.
    device.run("once", certificate=certificate, code=4)
    reload(aggregator, client_ca=theirs.file)
    check("certificate" in device.run("once", certificate=certificate, code=1), "the old CA is trusted")
    device.run("once", certificate=theirs.issue("moved", "/CN=valve 1"), code=4)
    aggregator.log_line(f"event=client-ca file={theirs.file} expires=")
    ends = aggregator.metrics()["tern_client_ca_expires_seconds"]
    check(19 * 86400 < ends - time.time() <= 20 * 86400, f"the CA ends {ends}")


def settings_are_checked(aggregator, device, certificate):
    said = run("sh", "-c", '"$@" 2>&1', "sh", BIN / "tern-aggregator", "serve", "--check", "--config",
               aggregator.config, "--set", "tls.client_certificate=maybe", ok=(2,))
    check("allowed: required | optional" in said, said)
    said = device.run("once", certificate={"client.certificate": certificate["client.certificate"]}, code=2)
    check("go together" in said, said)
    said = device.run("once", certificate={**certificate, "client.key": "/no/key"}, code=2)
    check("/no/key cannot be read" in said, said)
    for setting, other, what in (("key", "certificate", "private key"), ("certificate", "key", "certificate"),
                                 ("ca", "key", "certificate")):
        wrong = {**certificate, f"client.{setting}": certificate[f"client.{other}"]}
        said = device.run("once", certificate=wrong, code=2)
        check(f"client.{setting}: {wrong[f'client.{setting}']} has no {what} in PEM" in said, said)


def test():
    with Workspace() as workspace:
        ours, theirs = (Authority(workspace.path / name) for name in ("ours", "theirs"))
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:256-10"},
                                            "tls": {"client_ca": ours.file, "psk": "yes"},
                                            "round": {"min_clients": 100}}).start()
        device = Device(aggregator, "device")
        certificate = ours.issue("device", "/CN=valve 1")
        strangers_are_refused(aggregator, ours, theirs)
        names_go_together(aggregator, ours, device, certificate)
        its_own_end_is_told(ours, device, certificate)
        keys_take_their_place(aggregator)
        what_is_asked_for_changes(aggregator, ours, theirs, device, certificate)
        settings_are_checked(aggregator, device, certificate)


main(test)
