"""The component for ESP-IDF and the module for Zephyr are configured by their own CMakeLists.txt, with
stand-ins for what these systems offer. An application is linked with the component.

Usage: test_components.py BUILD_DIR COMPILER NANOPB esp_idf|zephyr. NANOPB is the folder of pb.h.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
TREE = HERE.parent.parent


def run(*command, **more):
    done = subprocess.run([str(part) for part in command], text=True, check=False, timeout=250,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        sys.exit(f"FAILED: {command}:\n{done.stdout[-4000:]}")
    return done.stdout


def setting(build, name):
    match = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return match[1] if match else ""


def main():
    build, compiler, nanopb, system = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="tern-components-") as folder:
        run("cmake", "-G", setting(build, "CMAKE_GENERATOR"), "-S", HERE / "components", "-B", folder,
            f"-DSYSTEM={system}", f"-DTERN_NANOPB={nanopb}", f"-DCMAKE_C_COMPILER={compiler}",
            f"-DCMAKE_C_COMPILER_LAUNCHER={setting(build, 'CMAKE_C_COMPILER_LAUNCHER')}",
            "-DCMAKE_C_FLAGS=-Og -Wall -Wextra -Werror")  # -Og is ESP-IDF's default
        if system == "zephyr":
            return  # the sources are the same, and tests/firmware/test_zephyr.c compiles its port
        run("cmake", "--build", folder)
        said = run(pathlib.Path(folder) / "app")
        if said.split()[1:3] != ["bad-argument", "ok"]:
            sys.exit(f"FAILED: the application says {said}")


if __name__ == "__main__":
    main()
