#!/usr/bin/env python3
"""The packages of a build: made, checked by lintian, then lived with in an isolated root.

Usage: test_packages.py BUILD_DIR. Needs root, for the namespaces and the chroot.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import isolated_root

HERE = pathlib.Path(__file__).parent
NAMES = ("libtern-client0", "python3-tern", "tern-aggregator", "tern-client", "tern-dev",
         "tern-helper")
SKIP = 77


def reason_to_skip():
    if os.geteuid() != 0:
        return "needs root (namespaces, chroot, dpkg)"
    missing = [tool for tool in ("dpkg-shlibdeps", "lintian", "systemd-analyze", "ip", "openssl")
               if shutil.which(tool) is None]
    return f"not installed: {', '.join(missing)}" if missing else None


def make_packages(build, folder):
    # xz, of released packages, takes three times as long.
    done = subprocess.run(["cpack", "--config", build / "CPackConfig.cmake", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip",
                           "-G", "DEB", "-B", folder], capture_output=True, text=True, check=False)
    isolated_root.check(done.returncode == 0, f"cpack failed:\n{done.stdout}{done.stderr}")
    packages = sorted(folder.glob("*.deb"))
    names = [package.name.split("_")[0] for package in packages]
    isolated_root.check(names == sorted(NAMES), f"cpack made {names}")
    return packages


def make_next_version(package, folder):
    """The same package as version 9.0.0, with settings that changed."""
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    text = control.read_text()
    version = re.search(r"^Version: (.*)$", text, re.M)[1]
    text = text.replace(f"Version: {version}", "Version: 9.0.0-1").replace(f"(= {version})", "(= 9.0.0-1)")
    control.write_text(text)
    for settings in tree.glob("etc/tern/*.ini"):
        settings.write_text(settings.read_text() + "# New in version 9.\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, folder],
                   check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)


def check_by_lintian(packages):
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning",
                           "--tag-display-limit", "0", *packages],
                          capture_output=True, text=True, check=False)
    isolated_root.check(done.returncode == 0, f"lintian found:\n{done.stdout}{done.stderr}")


def main():
    reason = reason_to_skip()
    if reason:
        print(f"skipped: {reason}")
        return SKIP
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="tern-packages-") as scratch:
        now = pathlib.Path(scratch, "now")
        later = pathlib.Path(scratch, "later")
        later.mkdir()
        packages = make_packages(build, now)
        check_by_lintian(packages)
        for package in packages:
            make_next_version(package, later)
        return isolated_root.enter(HERE / "life_of_packages.py", now, later)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except isolated_root.Failure as failure:
        sys.exit(f"FAILED: {failure}")
