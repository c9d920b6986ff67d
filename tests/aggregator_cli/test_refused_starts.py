"""What serve refuses to start with, and how it says what to do."""
from cli import USAGE, State, main


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


main(a_model_that_does_not_fit_the_body_limit)
