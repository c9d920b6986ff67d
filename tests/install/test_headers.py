"""Every installed header stands on its own in C and in C++, from one include folder, beside headers of
the program's own that have the same names; and none of the macros that libtern is built with changes
what they say.

Usage: test_headers.py BUILD_DIR COMPILER
"""
import re
import subprocess
import sys

from prefix import Prefix, check, main, need_programs

LANGUAGES = {
    "C11": ["clang", "-std=c11", "-x", "c"],
    "C++11": ["clang++", "-std=c++11", "-x", "c++"],
}
STRICT = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
# What shared/build.h lets a build choose.
MACROS = re.compile(r"^#ifndef (TERN_(?!BUILD_H)\w+)", re.M)


def translate(command, text, **more):
    return subprocess.run([*command, *STRICT, "-"], input=text, capture_output=True, text=True, check=False,
                          **more)


def test():
    need_programs("clang", "clang++", "pkg-config")
    with Prefix(*sys.argv[1:]) as prefix:
        # A program's own headers of the same names, which are found first.
        own = prefix.scratch / "own"
        own.mkdir()
        for header in prefix.headers:
            (own / header.rsplit("/", 1)[1]).write_text("#error the program's own header\n")
        flags = [f"-I{own}", *prefix.pkg_config("--cflags", "tern-client")]
        check("tern/client.h" in prefix.headers, f"installed are {prefix.headers}")
        for name, command in LANGUAGES.items():
            for header in prefix.headers:
                done = translate([*command, *flags], f"#include <{header}>\n")
                check(done.returncode == 0, f"{header} does not stand on its own in {name}:\n{done.stderr}")
        # A function that is declared without extern "C" would have another name in C++.
        everything = "".join(f"#include <{header}>\n" for header in prefix.headers)
        done = subprocess.run(["clang++", "-std=c++11", "-x", "c++", *flags, "-fsyntax-only", "-Xclang",
                               "-ast-dump=json", "-"], input=everything + "int end;", capture_output=True,
                              text=True, check=False)
        mangled = set(re.findall(r'"mangledName": "(_Z(?!L)\w*tern_\w+)"', done.stdout))
        check(done.returncode == 0 and '"tern_client_init"' in done.stdout, f"no AST:\n{done.stderr}")
        check(not mangled, f"not declared in extern \"C\": {sorted(mangled)}")
        macros = MACROS.findall(prefix.find("build.h").read_text())
        check("TERN_SMALL" in macros, f"build.h has {macros}")
        for macro in [*macros, "TERN_BUILD_CONFIG", "TERN_WIRE_MESSAGE_MAX", "TERN_WIRE_DOWNLOADS_MAX",
                      "TERN_ERROR_STORAGE"]:
            done = translate([*LANGUAGES["C11"], *flags, f"-D{macro}=1"], "#include <tern/client.h>\n")
            check(done.returncode != 0 and "libtern is built" in done.stderr,
                  f"-D{macro}=1 is taken in silence:\n{done.stderr}")


main(test)
