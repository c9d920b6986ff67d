#!/usr/bin/env python3
"""The OpenWrt package as far as it can be tried without OpenWrt: its init script under the shells
that are at hand, with stand-ins for UCI and procd; what it renders read by the real tern-client; its
Makefile under make, with a stand-in for the SDK's rules.

Usage: test_openwrt.py BUILD_DIR VERSION
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
PACKAGE = HERE.parent.parent / "configs" / "openwrt" / "tern-client"
INIT = PACKAGE / "files" / "tern-client.init"
SHELLS = (("dash",), ("busybox", "ash"))
SKIP = 77


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


class Router:
    """A folder with a UCI configuration, and the init script over it."""

    def __init__(self, shell, folder, program):
        self.shell = shell
        self.folder = pathlib.Path(folder)
        self.program = program
        self.ini = self.folder / "var" / "tern-client.ini"
        self.state = self.folder / "state"

    def configure(self, **changes):
        """The shipped configuration, with options of these values."""
        text = (PACKAGE / "files" / "tern-client.config").read_text()
        changes = {"state_dir": self.state, **changes}
        for name, value in changes.items():
            text, count = re.subn(rf"(option {name}) '.*'", rf"\1 '{value}'", text)
            check(count == 1, f"the shipped configuration has {count} options {name}")
        (self.folder / "tern-client.config").write_text(text)

    def call(self, *command, ok=(0,)):
        """Runs a function of the init script; returns what procd was told."""
        log = self.folder / "procd.log"
        log.unlink(missing_ok=True)
        done = subprocess.run(
            [*self.shell, "-c", '. "$TERN_TEST_LIBRARY"; . "$TERN_TEST_INIT"; "$@"', "rc", *command],
            env={**os.environ, "TERN_TEST": str(self.folder), "TERN_TEST_INIT": str(INIT),
                 "TERN_TEST_LIBRARY": str(HERE / "openwrt" / "rc.common"),
                 "TERN_INI": str(self.ini), "TERN_PROGRAM": str(self.program)},
            capture_output=True, text=True, check=False, timeout=30)
        check(done.returncode in ok, f"{self.shell} {command} ended with {done.returncode}:\n"
                                     f"{done.stdout}{done.stderr}")
        self.stderr = done.stderr
        return log.read_text().splitlines() if log.exists() else []

    def client(self, *arguments):
        return subprocess.run([self.program, *arguments, "--config", self.ini], capture_output=True,
                              text=True, check=False, timeout=30)


def check_syntax(shell):
    done = subprocess.run([*shell, "-n", INIT], capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"{shell} does not read the init script:\n{done.stderr}")


def check_rendering(router):
    router.configure(source="digits:train=100,test=20,size=16,seed=3", per_month="1M")
    router.call("start_service")
    text = router.ini.read_text()
    expected = ("[client]\nserver = https://tern.example:8443\nca = /etc/tern/ca.crt\n"
                f"state_dir = {router.state}\n[budget]\nper_month = 1M\n"
                "[data]\nsource = digits:train=100,test=20,size=16,seed=3\n")
    check(text == expected, f"rendered:\n{text}\nnot:\n{expected}")
    check(router.ini.stat().st_mode & 0o077 == 0, "others may read the settings")
    done = router.client("status")
    check(done.returncode == 1 and str(router.state) in done.stderr,
          f"tern-client does not take what was rendered: {done.returncode} {done.stderr}")


def check_refusals(router):
    """What the client would not take is refused by it, and what would forge a section is left out."""
    router.configure(per_month="much")
    router.call("start_service")
    done = router.client("status")
    check(done.returncode == 2 and "per_month" in done.stderr, f"a bad value passes: {done.stderr}")
    router.configure(server="https://a:1\n[budget]\nper_month = 1T")
    router.call("start_service")
    check("per_month = 1T" not in router.ini.read_text(), "a value of two lines became two settings")
    check("server" in router.stderr, "a value was left out without a word")


def check_start(router):
    router.configure()
    check("open" not in router.call("start_service"), "a service that is not enabled was started")
    router.configure(enabled="1")
    told = router.call("start_service")
    check("open" not in told and any("not enrolled" in line for line in told),
          f"a client that is not enrolled was started: {told}")
    (router.state / "identity").touch()
    told = router.call("start_service")
    check(f"command {router.program} run --config {router.ini}" in told, f"procd was told {told}")
    check("user tern-client" in told, "the client runs as root")
    router.configure(enabled="1", interval="3600")
    told = router.call("start_service")
    check(f"command {router.program} once --config {router.ini}" in told
          and "respawn 3600 3600 0" in told, f"procd was told {told}")
    check(router.call("service_triggers") == ["reload tern-client"], "changes start nothing again")


def check_enroll(router):
    """The code goes to the real client, whose failure is the script's; the state is given back."""
    router.configure(server="https://127.0.0.1:1", ca="")
    told = router.call("enroll", "nocode", ok=(1, 3))
    check("https://127.0.0.1:1" in router.stderr, f"the client said: {router.stderr}")
    check(f"chown -R tern-client:tern-client {router.state}" in told, "the state stays root's")


def check_makefile(build, version):
    with tempfile.TemporaryDirectory(prefix="tern-openwrt-") as scratch:
        built = pathlib.Path(scratch, "built", "usr", "bin")
        built.mkdir(parents=True)
        shutil.copy(build / "bin" / "tern-client", built)
        root = pathlib.Path(scratch, "root")

        def make(target, **variables):
            done = subprocess.run(
                ["make", "--warn-undefined-variables", "-C", PACKAGE, target,
                 f"TOPDIR={HERE / 'openwrt'}", f"DESTINATION={root}",
                 f"PKG_BUILD_DIR={scratch}/tree", f"PKG_INSTALL_DIR={scratch}/built",
                 *(f"{name}={value}" for name, value in variables.items())],
                capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

        code, out = make("show")
        check(code == 0 and f"version {version}\n" in out, f"make shows:\n{out}")
        check("+libcurl" in out and "-DTERN_CURL_TLS=mbedtls" in out, f"make shows:\n{out}")
        code, out = make("prepare", NANOPB_SOURCE=f"{scratch}/none")
        check(code != 0 and "NANOPB_SOURCE" in out, f"nanopb is not missed:\n{out}")
        code, out = make("install")
        check(code == 0, f"make install failed:\n{out}")
        for path, mode in (("usr/bin/tern-client", 0o755), ("etc/init.d/tern-client", 0o755),
                           ("etc/config/tern-client", 0o600)):
            check((root / path).stat().st_mode & 0o777 == mode, f"{path} has another mode")


def main():
    build, version = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    missing = [name for name in ("dash", "busybox", "make") if shutil.which(name) is None]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}")
        return SKIP
    for shell in SHELLS:
        check_syntax(shell)
        for part in (check_rendering, check_refusals, check_start, check_enroll):
            with tempfile.TemporaryDirectory(prefix="tern-openwrt-") as folder:
                part(Router(shell, folder, build / "bin" / "tern-client"))
    check_makefile(build, version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
