"""tern-client once, twice and more against a real aggregator: the TLS session outlives the process,
a session file that is no good costs a full handshake and nothing else, and no session stands in
for a verification that would fail."""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

HEAD = 80  # of a session file, which is: magic, format, CRC-32C, length, saved, expires, binding, two more times
TLS = sys.argv[1] if len(sys.argv) > 1 else "1.2"  # the client's; tickets of 1.3 count as its request's
# A full handshake takes more bytes of the stream, a resumed one less.
LIMITS = {"1.2": (700, 520, 1000), "1.3": (1000, 900, 1400)}
FULL, RESUMED, FULL_MAX = LIMITS[TLS]
# The longest ClientHello, without and with a ticket.
HELLO, HELLO_TICKET = {"1.2": (140, 265), "1.3": (280, 460)}[TLS]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sealed(file):
    """The file with the checksum that belongs to its bytes."""
    return file[:8] + crc32c(file[12:]).to_bytes(4, "little") + file[12:]


def with_number(file, at, value):
    return sealed(file[:at] + value.to_bytes(8, "little") + file[at + 8:])


def flipped(file, at):
    return file[:at] + bytes([file[at] ^ 0x55]) + file[at + 1:]


class Client:
    def __init__(self, workspace, aggregator):
        self.aggregator = aggregator
        self.state = workspace.path / "client"
        self.file = self.state / "tls-session"
        self.run("enroll", aggregator.join_code())
        self.handshakes = self.metered()

    def run(self, *arguments, code=0, ca=None, url=None, tls=TLS):
        options = ["--set", f"client.server={url or self.aggregator.url}",
                   "--set", f"client.ca={ca or self.aggregator.ca}",
                   "--set", f"client.state_dir={self.state}",
                   "--set", f"client.tls={tls}",
                   "--set", "data.source=digits:train=200,test=50,size=16",
                   "--set", "client.wait=0"]
        done = subprocess.run([BIN / "tern-client", *arguments[:1], *options, *arguments[1:]],
                              capture_output=True, text=True, timeout=PATIENCE)
        check(done.returncode == code,
              f"{arguments[0]}: exit {done.returncode}, not {code}: {done.stderr}")
        return done

    def metered(self):
        meter = json.loads(self.run("meter", "--json").stdout)
        return meter["up"]["handshake"]["tls"] + meter["down"]["handshake"]["tls"]

    def wire(self):
        """Bytes on the wire until now: of handshakes, and of everything."""
        meter = json.loads(self.run("meter", "--json").stdout)
        return [meter["up"][part]["wire"] + meter["down"][part]["wire"]
                for part in ("handshake", "total")]

    def once(self, **how):
        """Checks in once; returns the bytes of the handshakes that it took."""
        self.run("once", code=4, **how)
        before, self.handshakes = self.handshakes, self.metered()
        return self.handshakes - before

    def expect_full(self, why, **how):
        taken = self.once(**how)
        check(taken > FULL, f"{why}: {taken} bytes, so the session was used")

    def expect_resumed(self, why, **how):
        taken = self.once(**how)
        check(0 < taken < RESUMED, f"{why}: a handshake of {taken} bytes")


def session_outlives_the_process(client):
    check(FULL < client.handshakes < FULL_MAX, f"enrolling took a handshake of {client.handshakes}")
    before = client.file.stat()
    check(stat.S_IMODE(before.st_mode) == 0o600, f"the session has mode {before.st_mode:o}")
    for _ in range(3):
        client.expect_resumed("again")
    after = client.file.stat()
    check((before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns),
          "the session was written again though it is the same")
    names = sorted(path.name for path in client.state.iterdir())
    check(names == ["identity", "lock", "meter", "tls-session"], f"the state holds {names}")


def session_ends_with_the_certificate(client):
    """The aggregator's tickets live for three days, its certificate here for two."""
    expires = int.from_bytes(client.file.read_bytes()[24:32], "little")
    left = expires - time.time()
    check(2 * 86400 - 120 < left <= 2 * 86400, f"the session is good for {left} s")


def damaged_files_are_ignored(client):
    good = client.file.read_bytes()
    damaged = {f"cut to {size}": good[:size] for size in (0, 1, 11, HEAD, HEAD + 1, len(good) - 1)}
    damaged.update({f"byte {at} changed": flipped(good, at)
                    for at in (0, 4, 8, 12, 16, 24, 32, HEAD, len(good) - 1)})
    damaged["longer"] = good + b"\0"
    damaged["huge"] = b"\xff" * 1000000
    for what, file in damaged.items():
        client.file.write_bytes(file)
        client.expect_full(what)
        client.expect_resumed(f"after a file that was {what}")
    client.file.unlink()
    client.file.mkdir()
    client.expect_full("a directory in its place")
    client.file.rmdir()
    client.expect_full("no file")


def files_of_others_are_ignored(client):
    client.file.chmod(0o666)
    client.expect_full("a file that others may write")
    mode = stat.S_IMODE(client.file.stat().st_mode)
    check(mode == 0o600, f"its successor has mode {mode:o}")
    elsewhere = client.state.parent / "elsewhere"
    elsewhere.write_bytes(client.file.read_bytes())
    client.file.unlink()
    client.file.symlink_to(elsewhere)
    client.expect_full("a link")
    client.file.unlink()
    os.mkfifo(client.file)
    client.expect_full("a pipe, which nobody writes to")
    client.expect_resumed("after it")


def times_are_kept(client):
    good = client.file.read_bytes()
    client.file.write_bytes(sealed(good))
    client.expect_resumed("a file with its own checksum")
    now = int(time.time())
    client.file.write_bytes(with_number(good, 24, now - 1))
    client.expect_full("an expired session")
    client.file.write_bytes(with_number(good, 16, now + 3600))
    client.expect_full("a session of the future")


def wrong_sessions_fall_back(client):
    """Well-formed files whose session is not what the aggregator sealed into its ticket."""
    good = client.file.read_bytes()
    fell_back = 0
    for at in range(HEAD, len(good), 23):
        client.file.write_bytes(sealed(flipped(good, at)))
        fell_back += client.once() > FULL
    check(fell_back > 5, f"only {fell_back} wrong sessions cost a full handshake")
    client.file.write_bytes(sealed(good[:HEAD] + bytes(len(good) - HEAD)))
    client.expect_full("a session of zeros")


def bound_to_server_and_ca(client, workspace):
    same_host = f"https://localhost:{client.aggregator.port}"
    client.expect_full("another name of the server", url=same_host)
    client.expect_resumed("the same name again", url=same_host)
    more = workspace.path / "more.crt"
    more.write_text(client.aggregator.ca.read_text() * 2)
    client.expect_full("another CA file", ca=more, url=same_host)
    client.expect_full("the first name and CA")


def refused_tickets_fall_back(client):
    client.expect_resumed("before")
    client.aggregator.kill()
    (client.aggregator.state / "ticket.keys").unlink()
    client.aggregator.start()
    client.expect_full("a ticket under a lost key")
    client.expect_resumed("the new ticket")


def unwritable_session_is_no_error(client):
    """A folder that cannot be replaced by a file."""
    client.file.unlink()
    client.file.mkdir()
    (client.file / "thing").touch()
    client.expect_full("a full folder in its place")
    shutil.rmtree(client.file)
    client.expect_full("no file")


# --- Figures

class Tap:
    """A way to the aggregator that notes how long the first thing is that a client says."""

    def __init__(self, port):
        self.aggregator = ("127.0.0.1", port)
        self.hellos = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.listener.accept()[0]
            aggregator = socket.create_connection(self.aggregator)
            hello = client.recv(16384)  # libcurl writes it at once
            self.hellos.append(len(hello))
            aggregator.sendall(hello)
            for source, sink in ((client, aggregator), (aggregator, client)):
                threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    @staticmethod
    def carry(source, sink):
        while data := source.recv(16384):
            sink.sendall(data)
        with contextlib.suppress(OSError):  # the other side may be gone
            sink.shutdown(socket.SHUT_WR)


def figures(client):
    """The sizes that docs/BENCHMARKS.md names; they vary by a segment's headers."""
    tap = Tap(client.aggregator.port)
    for _ in range(2):
        client.once(url=tap.url)
    print(f"TLS {TLS}. ClientHello: {tap.hellos[0]} bytes, {tap.hellos[1]} with a ticket (5 of record header)")
    check(tap.hellos[0] < HELLO and tap.hellos[1] < HELLO_TICKET, f"ClientHellos of {tap.hellos} bytes")
    client.file.unlink()
    for kind in ("full", "resumed"):
        before = client.wire()
        stream = client.once()
        handshake, total = (after - early for after, early in zip(client.wire(), before))
        print(f"{kind} handshake: {stream} bytes of the stream, {handshake} on the wire; "
              f"an idle check-in by once {total}")


def versions_are_kept_apart(client):
    """What a client of one version kept is no use to one of the other, which starts anew."""
    other = {"1.2": "1.3", "1.3": "1.2"}[TLS]
    client.expect_resumed("before")
    check(client.once(tls=other) > LIMITS[other][0], f"TLS {other} resumed a session of {TLS}")
    client.expect_full("after a session of the other version")
    client.expect_resumed("either version", tls="auto")
    for version, curl in (("1.2", "--tls-max"), ("1.3", "--tlsv1.3")):
        command = ["curl", "-sS", "--cacert", client.aggregator.ca, "-o", "/dev/null", curl]
        command += [version] if curl == "--tls-max" else []
        done = subprocess.run([*command, f"{client.aggregator.url}/healthz"], capture_output=True,
                              text=True, timeout=PATIENCE)
        check(done.returncode == 0, f"curl by TLS {version}: {done.stderr}")


def settings_are_checked(client):
    said = client.run("once", code=2, tls="1.1").stderr
    check("tls = '1.1' is not known" in said, f"TLS 1.1: {said}")


# --- Verification

CA_SETTINGS = """[ca]
default_ca = here
[here]
database = index.txt
new_certs_dir = .
rand_serial = yes
certificate = ca.crt
private_key = ca.key
default_md = sha256
policy = name
[name]
commonName = supplied
"""


def renew_authority(aggregator):
    """The CA with another certificate, which expired yesterday, and a server certificate that has not. By their names
    and keys either CA's certificate goes with either."""
    sign(aggregator, "IP:127.0.0.1", 2)
    folder = aggregator.workspace.path
    (folder / "san.cnf").write_text("basicConstraints=critical,CA:TRUE\n")
    start, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() - 86400 * day)) for day in (9, 1))
    for command in (["req", "-new", "-key", "ca.key", "-subj", "/CN=ca", "-out", "old_ca.csr"],
                    ["ca", "-batch", "-notext", "-config", "ca.cnf", "-selfsign", "-in", "old_ca.csr",
                     "-startdate", start, "-enddate", end, "-extfile", "san.cnf", "-out", "old_ca.crt"]):
        subprocess.run(["openssl", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "old_ca.crt"


def sign(aggregator, san, days, key=("ecparam", "-name", "prime256v1", "-genkey", "-noout")):
    """Gives the running aggregator another certificate."""
    folder = aggregator.workspace.path
    (folder / "san.cnf").write_text(f"subjectAltName={san}\nbasicConstraints=critical,CA:FALSE\n")
    (folder / "ca.cnf").write_text(CA_SETTINGS)
    (folder / "index.txt").write_text("")
    start, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + 86400 * day))
                  for day in (-2, days))
    for command in ([*key, "-out", "server.key"],
                    ["req", "-new", "-key", "server.key", "-subj", "/CN=t", "-out", "server.csr"],
                    ["ca", "-batch", "-notext", "-config", "ca.cnf", "-in", "server.csr",
                     "-startdate", start, "-enddate", end, "-extfile", "san.cnf",
                     "-out", "server.crt"]):
        subprocess.run(["openssl", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    aggregator.kill()
    aggregator.start()


def expect_refusal(client, what, words, **how):
    """Fails by TLS at once, says why, and keeps no session of it."""
    client.file.unlink(missing_ok=True)
    said = client.run("once", code=1, **how).stderr
    check("result=tls" in said, f"{what}: {said}")
    check(any(word in said for word in words), f"{what}: does not say {words}: {said}")
    check(not client.file.exists(), f"{what}: a session was kept")


def verification_is_mandatory(client, workspace):
    folder = workspace.path
    for command in (["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "other.key"],
                    ["req", "-x509", "-new", "-key", "other.key", "-subj", "/CN=other",
                     "-days", "2", "-out", "other.crt"]):
        subprocess.run(["openssl", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    client.expect_resumed("before")
    good = client.file.read_bytes()
    client.run("once", code=1, ca=folder / "other.crt")
    check(client.file.read_bytes() == good, "a failed verification changed the session")
    expect_refusal(client, "wrong CA", ("another CA has issued its certificate",),
                   ca=folder / "other.crt")
    expect_refusal(client, "no CA of this machine's", ("another CA has issued its certificate",),
                   ca="/etc/ssl/certs/ca-certificates.crt")
    client.run("once", code=2, ca="/nonexistent/ca.crt")
    sign(client.aggregator, "DNS:elsewhere.example,IP:127.0.0.2", 2)
    expect_refusal(client, "wrong address", ("does not name the host", "no alternative certificate"))
    sign(client.aggregator, "DNS:127.0.0.2,IP:127.0.0.1", 2)
    expect_refusal(client, "wrong name", ("does not name the host", "no alternative certificate"),
                   url=f"https://localhost:{client.aggregator.port}")
    client.expect_full("the address that the certificate names")
    sign(client.aggregator, "IP:127.0.0.1", -1)
    expect_refusal(client, "expired", ("the aggregator's certificate has expired", "certificate has expired"))
    expect_refusal(client, "a CA that expired", ("a CA of the aggregator's certificate has expired",
                                                 "SSL certificate problem: certificate has expired"),
                   ca=renew_authority(client.aggregator))


def rsa_certificates_work(client):
    sign(client.aggregator, "IP:127.0.0.1", 2, key=("genrsa",))
    client.expect_full("an RSA certificate")
    client.expect_resumed("after an RSA certificate")


def lasting_certificates_work(client):
    """One that outlives 32 bits of seconds does not end the session before its ticket."""
    sign(client.aggregator, "IP:127.0.0.1", 20000)
    client.file.unlink()
    client.expect_full("a certificate of 54 years")
    client.expect_resumed("after a certificate of 54 years")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-16-10", "seed": 3},
            "round": {"cohort": 2, "quorum": 2, "min_clients": 2, "deadline": "5m", "rounds": 3},
            "train": {"local_steps": 2, "batch_size": 8, "learning_rate": 0.05},
        }).start()
        client = Client(workspace, aggregator)
        session_outlives_the_process(client)
        session_ends_with_the_certificate(client)
        damaged_files_are_ignored(client)
        files_of_others_are_ignored(client)
        times_are_kept(client)
        wrong_sessions_fall_back(client)
        bound_to_server_and_ca(client, workspace)
        refused_tickets_fall_back(client)
        unwritable_session_is_no_error(client)
        figures(client)
        settings_are_checked(client)
        if TLS == "1.3":
            versions_are_kept_apart(client)
        verification_is_mandatory(client, workspace)
        rsa_certificates_work(client)
        lasting_certificates_work(client)


main(test)
