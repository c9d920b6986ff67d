"""Programs outside of the tree, built by pkg-config alone against an install that was moved.

Usage: test_pkg_config.py BUILD_DIR COMPILER
"""
import sys

from prefix import HERE, Prefix, check, main, need_programs


def expect(printed, line):
    check(printed == line, f"an outside program printed {printed!r}, not {line!r}")


def test():
    need_programs("pkg-config")
    with Prefix(*sys.argv[1:]) as prefix:
        version = prefix.pkg_config("--modversion", "tern-client")[0]
        flags = prefix.pkg_config("--cflags", "--libs", "tern")
        check(any(str(prefix.path) in flag for flag in flags), f"tern.pc does not move along: {flags}")
        # The header of the client is there with its types, whatever is linked.
        expect(prefix.call(prefix.compile(HERE / "outside.c", "outside", *flags, *prefix.sanitizers())),
               f"{version} 3lc:s=1.5 late\n")
        static = prefix.pkg_config("--cflags", "--libs", "--static", "tern-client")
        shared = prefix.pkg_config("--cflags", "--libs", "tern-client")
        check("-lcurl" in static and "-lcurl" not in shared, "who links what the client needs?")
        static[static.index("-ltern-client")] = "-l:libtern-client.a"
        ways = {"static": [*static, *prefix.sanitizers()]}
        if prefix.setting("TERN_SHARED") == "ON":
            ways["shared"] = shared
        for name, flags in ways.items():
            program = prefix.compile(HERE / "embedder.c", f"embedder_{name}", *flags)
            expect(prefix.call(program), f"{version} bad-argument\n")


main(test)
