"""What the tests of the installation share: an install that was moved, as packages and boards' root
folders are, and compilers on it."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
TREE = HERE.parent.parent
SKIP = 77

sys.path.insert(0, str(HERE.parent / "end_to_end"))
from harness import Failure, check, main, run  # noqa: E402, F401


def need_programs(*names):
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}")
        sys.exit(SKIP)


class Prefix:
    """A build, installed into a folder that is then moved: nothing in it may know where it was. Gone at
    the end."""

    def __init__(self, build, compiler):
        self.build = pathlib.Path(build)
        self.compiler = compiler
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="tern-install-"))
        run("cmake", "--install", self.build, "--prefix", self.scratch / "first" / "usr")
        self.path = self.scratch / "moved"
        (self.scratch / "first" / "usr").rename(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.scratch)

    def find(self, name):
        found = next(self.path.rglob(name), None)
        check(found, f"{name} is not installed")
        return found

    @property
    def headers(self):
        folder = self.path / "include" / "tern"
        return sorted(str(path.relative_to(folder.parent)) for path in folder.rglob("*.h"))

    def pkg_config(self, *arguments):
        done = subprocess.run(["pkg-config", *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, "PKG_CONFIG_PATH": str(self.find("tern.pc").parent)})
        check(done.returncode == 0, f"pkg-config {arguments}: {done.stderr}")
        return shlex.split(done.stdout)

    def setting(self, name):
        """Returns a variable of the build's CMake cache."""
        match = re.search(rf"^{name}:\w+=(.*)$", (self.build / "CMakeCache.txt").read_text(), re.M)
        return match[1] if match else ""

    def sanitizers(self):
        """What archives of the build have to be linked with."""
        return {"": [], "address": ["-fsanitize=address,undefined"],
                "thread": ["-fsanitize=thread"]}[self.setting("TERN_SANITIZE")]

    def compile(self, source, output, *flags, compiler=None):
        """Builds a program of one source, with every warning an error."""
        run(*(compiler or [self.compiler, "-std=gnu11"]), "-Wall", "-Wextra", "-Werror", source,
            "-o", self.scratch / output, *flags)
        return self.scratch / output

    def call(self, program, *arguments, **more):
        """Runs a program with the shared library of the prefix; returns what it prints."""
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False,
                              timeout=120, cwd=self.scratch, **more,
                              env={**os.environ, "LD_LIBRARY_PATH": str(self.find("libtern.a").parent)})
        check(done.returncode == 0, f"{program}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout
