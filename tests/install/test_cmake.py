"""A foreign project finds an install that was moved by find_package(tern), or takes the tree in by
add_subdirectory().

Usage: test_cmake.py BUILD_DIR COMPILER find|tree
"""
import sys

from prefix import HERE, TREE, Prefix, check, main, run


def build(prefix, source, libraries, *options):
    """Configures and builds the foreign project; the programs, one for each library."""
    folder = prefix.scratch / "foreign"
    run("cmake", "-G", prefix.setting("CMAKE_GENERATOR"), "-S", HERE / "foreign", "-B", folder,
        f"-DCMAKE_C_COMPILER={prefix.compiler}", f"-DSOURCE={HERE / source}",
        f"-DLIBRARIES={';'.join(libraries)}", *options)
    run("cmake", "--build", folder)
    return {library: folder / f"with_{library}" for library in libraries}


def finds(prefix):
    programs = build(prefix, "embedder.c", ["client", "client_static"], f"-DCMAKE_PREFIX_PATH={prefix.path}",
                     "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=ON")
    for program in programs.values():
        check(prefix.call(program).endswith(" bad-argument\n"), f"{program} does not work")


def takes_in(prefix):
    """As small as it gets: the client's core without its ports, and so without libcurl; unoptimized,
    for a test has to be quick."""
    programs = build(prefix, "outside.c", ["tern"], f"-DTERN_TREE={TREE}", "-DTERN_POSIX=OFF",
                     "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_C_COMPILER_LAUNCHER={prefix.setting('CMAKE_C_COMPILER_LAUNCHER')}")
    check(prefix.call(programs["tern"]).endswith(" 3lc:s=1.5 late\n"), "the program does not work")


def test():
    with Prefix(*sys.argv[1:3]) as prefix:
        {"find": finds, "tree": takes_in}[sys.argv[3]](prefix)


main(test)
