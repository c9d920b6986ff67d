"""What serve refuses to start with, and how it says what to do."""
import stat
import subprocess

from cli import BIN, MODEL, USAGE, State, main


def a_model_that_does_not_fit_the_body_limit():
    state = State()
    state.run("init", "--model", "mlp:64-32-10")  # 2,410 values: 9.6 kB of float32
    small = ["--set", "limits.body_bytes=4Ki"]
    error = state.run("serve", *small, "--set", "codec.codec=float32", code=USAGE,
                      says="limits.body_bytes").error
    assert "codec.codec = float32" in error and "mlp:64-32-10" in error, error
    needed = error.split("set it to ")[1].split()[0]
    state.run("serve", "--set", f"limits.body_bytes={int(needed) - 1}", "--set",
              "codec.codec=float32", code=USAGE, says="limits.body_bytes")
    # What is enough, and what a denser codec leaves room for, only lacks the certificate.
    for enough in (["--set", f"limits.body_bytes={needed}", "--set", "codec.codec=float32"], small):
        assert "body_bytes" not in state.run("serve", *enough, code=USAGE).error


def a_missing_certificate_is_explained_and_the_advice_works():
    state = State()
    state.run("init", "--model", MODEL)
    error = state.run("serve", code=USAGE, says=str(state.path / "server.crt")).error
    assert "server.certificate" in error and "No such file" in error, error
    advice = "openssl" + error.split("openssl", 1)[1]
    subprocess.run(advice, shell=True, check=True, capture_output=True)
    (state.path / "server.key").unlink()
    state.run("serve", code=USAGE, says="server.private_key")
    subprocess.run(advice, shell=True, check=True, capture_output=True)
    command = [BIN / "tern-aggregator", "serve", "--state", state.path, "--set", "server.port=0",
               "--set", "admin.address="]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as served:
        announced = served.stdout.readline()
        served.terminate()
    assert announced.startswith(b"listening on"), announced


def a_damaged_certificate_is_named():
    state = State()
    state.run("init", "--model", MODEL)
    for name in ("server.crt", "server.key"):
        (state.path / name).write_text("no PEM\n")
    state.run("serve", "--set", "server.port=0", code=USAGE, says="is not a PEM file")


def a_lost_admin_token_is_made_anew_and_a_malformed_one_refused():
    state = State()
    state.run("init", "--model", MODEL)
    error = state.run("serve", code=USAGE, says=str(state.path / "server.crt")).error
    subprocess.run("openssl" + error.split("openssl", 1)[1], shell=True, check=True,
                   capture_output=True)
    token = state.path / "admin.token"
    ports = ["--set", "server.port=0", "--set", "admin.port=0"]
    token.write_text("short\n")
    state.run("serve", *ports, code=USAGE, says="delete it")
    assert token.read_text() == "short\n"
    token.unlink()
    command = [BIN / "tern-aggregator", "serve", "--state", state.path, *ports]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as served:
        announced = served.stdout.readline()
        served.terminate()
        log = served.communicate(timeout=30)[1]
    assert b", admin on" in announced, announced
    assert b"admin-token-made" in log, log
    assert len(token.read_text()) == 33 and stat.S_IMODE(token.stat().st_mode) == 0o600


main(a_model_that_does_not_fit_the_body_limit,
     a_missing_certificate_is_explained_and_the_advice_works,
     a_damaged_certificate_is_named,
     a_lost_admin_token_is_made_anew_and_a_malformed_one_refused)
