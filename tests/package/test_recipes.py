#!/usr/bin/env python3
"""The recipes of Buildroot, Yocto and OpenWrt, as far as they can be read without these systems: each names
options that the build has, and files and a licence that are there; packages have the names that these systems give them.

Usage: test_recipes.py BUILD_DIR
"""

import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

SKIP = 77
TREE = pathlib.Path(__file__).parent.parent.parent
CONFIGS = TREE / "configs"
BUILDROOT = CONFIGS / "buildroot"
YOCTO = CONFIGS / "yocto" / "meta-tern"
# Recipes of meta-oe, by whether the release is kirkstone.
YOCTO_NAMES = {True: {"libinih", "cjson", "nanopb", "nanopb-native"},
               False: {"libinih", "cjson", "nanopb-runtime", "nanopb-generator-native"}}
OPTIONAL = {"dbus", "mbedtls"}  # of the client
SHOW = ("cmake-package = \n-include $(MK)\nshow:\n\t@echo '$(TERN_CLIENT_CONF_OPTS)'\n"
        "\t@echo '$(TERN_CLIENT_SITE)'\n\t@echo '$(TERN_CLIENT_DEPENDENCIES)'\n")


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def buildroot():
    """What make makes of the package's variables."""
    package = BUILDROOT / "package" / "tern-client"
    options, site, depends = subprocess.run(
        ["make", "--warn-undefined-variables", "-s", "-f", "-", "show", f"MK={package / 'tern-client.mk'}",
         f"BR2_EXTERNAL_TERN_PATH={BUILDROOT}", "BR_BUILDING=", "BR2_PACKAGE_TERN_CLIENT="],
        input=SHOW, text=True, check=True, stdout=subprocess.PIPE).stdout.splitlines()
    check(pathlib.Path(site).resolve() == TREE.resolve(), f"Buildroot's site is {site}")
    selected = re.findall(r"select BR2_PACKAGE_(\w+)", (package / "Config.in").read_text())
    check("LIBCURL_FORCE_TLS" in selected, "libcurl may be built without TLS")
    selected.remove("LIBCURL_FORCE_TLS")
    built = [name for name in depends.split() if not name.startswith("host-")]
    check(sorted(name.lower() for name in selected) == sorted(built), f"selected {selected}, built after {built}")
    own = {path.parent.name for path in BUILDROOT.glob("package/*/*.mk")}
    check({"nanopb", "tern-python-protobuf"} <= own, f"Buildroot has no nanopb, and the external tree has {own}")
    listed = set(re.findall(r"package/([\w-]+)/Config.in", (BUILDROOT / "Config.in").read_text()))
    check(listed == {path.parent.name for path in BUILDROOT.glob("package/*/Config.in")}, f"Config.in lists {listed}")
    for building, chosen, refused in (("y", "", True), ("y", "y", False), ("", "", False)):
        done = subprocess.run(
            ["make", "-s", "-f", "-", "show", f"MK={package / 'tern-client.mk'}", "BR2_PACKAGE_TERN_CLIENT=y",
             f"BR_BUILDING={building}", f"BR2_PACKAGE_LIBCURL_OPENSSL={chosen}"],
            input=SHOW, text=True, check=False, capture_output=True)
        check((done.returncode != 0) == refused, f"building={building!r} with OpenSSL={chosen!r}: {done.stderr}")
    return options


def yocto_depends(text, release):
    """The recipe's DEPENDS in a release of Yocto."""

    class Data:
        def getVar(self, name):
            return release if name == "LAYERSERIES_CORENAMES" else None

    joined = text.replace("\\\n", "")
    expression = re.search(r'^TERN_NANOPB = "\$\{@(.*)\}"$', joined, re.M)[1]
    nanopb = eval(expression, {"d": Data()})  # as BitBake does
    return re.search(r'^DEPENDS = "(.*)"$', joined, re.M)[1].replace("${TERN_NANOPB}", nanopb).split()


def yocto():
    text = next(YOCTO.rglob("*.bb")).read_text()
    license_md5 = re.search(r"md5=(\w+)", text)[1]
    check(hashlib.md5((TREE / "LICENSE").read_bytes()).hexdigest() == license_md5, "the recipe's licence is another")
    layer = (YOCTO / "conf" / "layer.conf").read_text()
    check("meta-python" in re.search(r'^LAYERDEPENDS_tern = "(.*)"$', layer, re.M)[1].split(),
          "the layer does not name meta-python, without which meta-oe has no nanopb")
    for release in re.search(r'^LAYERSERIES_COMPAT_tern = "(.*)"$', layer, re.M)[1].split():
        depends = yocto_depends(text, release)
        check(YOCTO_NAMES[release == "kirkstone"] <= set(depends) and "inih" not in depends, f"{release}: {depends}")
    up = re.search(r'^TERN_TREE := "\$\{LAYERDIR\}/(.*)"$', layer, re.M)[1]
    check((YOCTO / up).resolve() == TREE.resolve(), f"TERN_TREE is not the tree: {up}")
    return re.search(r'EXTRA_OECMAKE = "([^"]*)"', text)[1]


def needed_libraries():
    """What the client's CMake names of the -dev packages of configs/packages.txt, without Debian's affixes."""
    listed = re.findall(r"^build +(?:lib)?([a-z]{3,})[a-z0-9-]*-dev ", (CONFIGS / "packages.txt").read_text(), re.M)
    rules = "\n".join((TREE / folder / "CMakeLists.txt").read_text() for folder in ("shared", "client", "client/cli"))
    return {name for name in listed if name not in OPTIONAL and re.search(rf"\b{name}(?:\b|_)", rules, re.I)}


def main():
    if shutil.which("make") is None:
        print("skipped: not installed: make")
        return SKIP
    cache = (pathlib.Path(sys.argv[1]) / "CMakeCache.txt").read_text()
    known = re.findall(r"^(TERN_\w+):\w+=", cache, re.M)
    openwrt = (CONFIGS / "openwrt" / "tern-client" / "Makefile").read_text()
    check(len(needed_libraries()) >= 5, f"the client needs {needed_libraries()}")
    for name, text in (("Buildroot", buildroot()), ("Yocto", yocto()), ("OpenWrt", openwrt)):
        recipe = "\n".join(path.read_text() for path in (CONFIGS / name.lower()).rglob("*") if path.is_file() and "tern-client" in str(path))
        depends = " ".join(re.findall(r"DEPEND\w* *:?\+?= *\"?(.*)", recipe) + re.findall(r"NANOPB.*", recipe)).lower()
        for library in needed_libraries():
            check(library in depends, f"{name} does not depend on {library}")
        options = re.findall(r"-D(TERN_\w+)=", text)
        check(len(options) >= 4, f"{name} sets {options}")
        for option in options:
            check(option in known, f"{name} sets {option}, which the build does not know")
    return 0


if __name__ == "__main__":
    sys.exit(main())
