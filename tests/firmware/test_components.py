"""The component for ESP-IDF and the module for Zephyr are configured by their own CMakeLists.txt, with
stand-ins for what these systems offer. An application is linked with the component. Zephyr's sample
(samples/tern), over this machine's sockets, trains three rounds with a tern-aggregator, and names what is wrong when it
cannot.

Usage: test_components.py BUILD_DIR COMPILER NANOPB esp_idf|zephyr. NANOPB is the folder of pb.h. The test of Zephyr links what
that of ESP-IDF has compiled, in BUILD_DIR/component.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
TREE = HERE.parent.parent
COMPONENTS = {"esp_tls.h": "esp-tls", "esp_partition.h": "esp_partition",
              "esp_timer.h": "esp_timer", "sys/socket.h": "lwip", "nvs_flash.h": "nvs_flash",
              "esp_netif.h": "esp_netif", "esp_netif_sntp.h": "esp_netif", "esp_event.h": "esp_event",
              "protocol_examples_common.h": "protocol_examples_common"}
# The first release of ESP-IDF with a header; the others are in 5.0.
SINCE = {"esp_netif_sntp.h": (5, 1)}
SAMPLE = TREE / "firmware_port/zephyr/samples/tern"
sys.path.insert(0, str(HERE.parent / "end_to_end"))
from harness import Aggregator, Workspace, check


def run(*command, **more):
    done = subprocess.run([str(part) for part in command], text=True, check=False, timeout=800,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        sys.exit(f"FAILED: {command}:\n{done.stdout[-4000:]}")
    return done.stdout


def setting(build, name):
    match = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return match[1] if match else ""


def configure(build, folder, compiler, nanopb, system, *options):
    run("cmake", "-G", setting(build, "CMAKE_GENERATOR"), "-S", HERE / "components", "-B", folder,
        f"-DSYSTEM={system}", f"-DTERN_NANOPB={nanopb}", f"-DCMAKE_C_COMPILER={compiler}",
        f"-DCMAKE_C_COMPILER_LAUNCHER={setting(build, 'CMAKE_C_COMPILER_LAUNCHER')}",
        "-DCMAKE_C_FLAGS=-Og -Wall -Wextra -Werror", *options)  # -Og is ESP-IDF's default


def devicetree():
    """The overlay's nodes as definitions: TERN_TEST_DT_LABEL_PARENT, and TERN_TEST_DT_LABEL_P_PROPERTY for numbers."""
    overlay, stack, defines = (SAMPLE / "boards/mps2_an385.overlay").read_text(), [], []
    for label, name, key, number in re.findall(r"(?:([\w-]+): *)?([\w/@-]+) *{|([\w-]+) = <(\d+)>;|}", overlay):
        if name:
            node = f"TERN_TEST_DT_{label or name}"
            defines += [f"{node}_PARENT={stack[-1]}"] if stack else []
            stack.append(node)
        elif key:
            defines.append(f"{stack[-1]}_P_{key.replace('-', '_')}={number}")
        else:
            stack.pop()
    check(not stack and any("tern_partition_PARENT=" in define for define in defines), f"the overlay has {defines}")
    return defines


def headers_of_3_4(folder):
    """The stand-ins as Zephyr 3.4 has its headers: the random numbers under their old name, and fcntl()'s constants of POSIX."""
    folder = folder / "headers"
    shutil.copytree(HERE / "zephyr/zephyr", folder / "zephyr")
    (folder / "zephyr/random/random.h").rename(folder / "zephyr/random/rand32.h")
    (folder / "zephyr/posix").mkdir()
    (folder / "zephyr/posix/fcntl.h").write_text("#include <fcntl.h>\n")
    sockets = folder / "zephyr/net/socket.h"
    sockets.write_text(re.sub("#define ZVFS_.*\n|#include <fcntl.h>\n", "", sockets.read_text()))
    return f"-DHEADERS={folder}"


def sample_options(folder, port, join_code, ca, host="localhost"):
    """The sample's Kconfig options, and the nodes of its overlay."""
    (folder / "ca.inc").write_text(",".join(map(str, ca.read_bytes())))
    defines = [f'CONFIG_TERN_SAMPLE_HOST="{host}"', f"CONFIG_TERN_SAMPLE_PORT={port}", 'CONFIG_BOARD="pc"',
               f'CONFIG_TERN_SAMPLE_JOIN_CODE="{join_code}"',
               *devicetree()]
    return f"-DSAMPLE_CA={folder}", "-DSAMPLE_DEFINES=" + ";".join(defines)


def sample(build, folder, compiler, nanopb):
    """Runs the sample against an aggregator, with the right CA and, by the headers of Zephyr 3.4, with another one."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:64-6"},
                                            "round": {"min_clients": 1, "cohort": 1, "rounds": 3}}).start()
        options = sample_options(folder, aggregator.port, aggregator.join_code(), aggregator.ca)
        options += (f"-DBUILT={build / 'component/component/libcomponent.a'}",)
        configure(build, folder, compiler, nanopb, "zephyr", *options)
        run("cmake", "--build", folder)
        said = run(folder / "sample")
        check(said.count("uploaded") == 3 and "finished" in said and "ended: ok" in said, f"the sample says\n{said}")
        other = folder / "other.pem"
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
            "-subj", "/CN=other", "-keyout", "/dev/null", "-out", other)
        options = (*sample_options(folder, aggregator.port, aggregator.join_code(), other), headers_of_3_4(folder))
        configure(build, folder, compiler, nanopb, "zephyr", *options)
        run("cmake", "--build", folder)
        said = run(folder / "sample")
        check("ended: tls, last failed connection: certificate" in said, f"with another CA the sample says\n{said}")


def esp_idf_files():
    """The component names what its headers come from, the tree's version, and a configuration that checks dates."""
    folder = TREE / "firmware_port/esp_idf"
    needed = re.search(r'idf: ">=(\d+)\.(\d+)"', (folder / "tern/idf_component.yml").read_text())
    needed = tuple(map(int, needed.groups()))
    check(f"ESP-IDF {needed[0]}.{needed[1]} and later" in (TREE / "docs/PORTING.md").read_text(), f"PORTING names not {needed}")
    for source, rules in (("tern/tern_esp.c", "tern/CMakeLists.txt"),
                          ("examples/tern/main/main.c", "examples/tern/main/CMakeLists.txt")):
        included = re.findall(r"#include [<\"](.*)[>\"]", (folder / source).read_text())
        rules = (folder / rules).read_text()
        required = re.search(r"REQUIRES ([^)]*)", rules)[1].split()
        for header in set(included) & COMPONENTS.keys():
            check(SINCE.get(header, (5, 0)) <= needed, f"{source}: {header} is not in ESP-IDF {needed}")
            check(COMPONENTS[header] in required, f"{source}: {header} is of {COMPONENTS[header]}, which is not required")
    for name in re.findall(r"SRCS ([^\n]*)", rules)[0].split():
        check((folder / "examples/tern/main" / name).is_file(), f"the example has no {name}")
    defaults = (folder / "sdkconfig.defaults").read_text()
    table = re.search(r'CONFIG_PARTITION_TABLE_CUSTOM_FILENAME="(.*)"', defaults)[1]
    check(re.search(r"^tern, +data, +0x40, +, +64K$", (folder / "examples/tern" / table).read_text(), re.M),
          "the example has no partition for records")
    version = re.search(r"^project\(tern VERSION ([\d.]+)", (TREE / "CMakeLists.txt").read_text(), re.M)[1]
    check(f'version: "{version}"' in (folder / "tern/idf_component.yml").read_text(), f"the component is not {version}")
    check("while (esp_netif_sntp_sync_wait(" in (folder / "examples/tern/main/main.c").read_text(),
          "the example enrols without a date, which TLS refuses for good")
    check("CONFIG_MBEDTLS_HAVE_TIME_DATE=y" in (folder / "sdkconfig.defaults").read_text(), "dates are not checked")


def main():
    build, compiler, nanopb, system = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    if system == "zephyr":
        with tempfile.TemporaryDirectory(prefix="tern-components-") as name:
            sample(build, pathlib.Path(name), compiler, nanopb)
        return
    esp_idf_files()
    folder = build / "component"
    configure(build, folder, compiler, nanopb, system, "--fresh")
    run("cmake", "--build", folder)
    said = run(folder / "app")
    if said.split()[1:3] != ["bad-argument", "ok"]:
        sys.exit(f"FAILED: the application says {said}")


if __name__ == "__main__":
    main()
