"""Checks that no more than three product files form a circle, and what their public names are.

Usage: check_objects.py SOURCE_DIR BUILD_DIR
One knows another when its object refers to a name that the other's object defines (nm), be it by
a call or in a table of functions, or when it includes it.
Every name with external linkage begins with tern_.
Prints what is found, of a circle what ties it, and exits with 1 when there is any.
"""
import json
import os
import re
import subprocess
import sys

from check_includes import INCLUDE, resolve, sources

LARGEST = 3
PRODUCT = ("shared/", "client/", "aggregator/", "firmware_port/")
DEFINED = re.compile(r"^(?:[0-9a-f]+)? +([A-Za-z]) (\S+)$")


def objects(root, build):
    """(source relative to root, object) of every product file that this build compiles."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    for command in commands:
        source = os.path.relpath(command["file"], root)
        words = command["command"].split()
        output = os.path.join(command["directory"], words[words.index("-o") + 1])
        if source.startswith(PRODUCT) and os.path.exists(output):
            yield source, output


def names_of(paths):
    """For each object the names that it defines and those that it refers to."""
    listing = subprocess.run(["nm", "--print-file-name", "--extern-only", *paths], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    names = {path: (set(), set()) for path in paths}
    for line in listing.splitlines():
        path, _, rest = line.partition(":")
        kind, name = DEFINED.match(rest).groups()
        names[path][kind in "Uwv"].add(name)
    return names


def calls(found):
    """(file, name, file that defines it), for each name that one object takes from another."""
    names = names_of([path for _, path in found])
    definers = {}
    for source, path in found:
        for name in names[path][0]:
            definers.setdefault(name, set()).add(source)
    for source, path in found:
        top = source.split("/", 1)[0] + "/"
        for name in names[path][1]:
            places = definers.get(name, set())
            # Ports have a name in the client and the same in firmware: each means its own.
            for place in {p for p in places if p.startswith(top)} or places:
                yield source, name, place


def unprefixed(found):
    """A line for each public name that says not whose it is."""
    names = names_of([path for _, path in found])
    for source, path in found:
        for name in sorted(names[path][0]):
            if not name.startswith("tern_") and name != "main":
                yield f"{source}: {name} has external linkage and no prefix tern_"


def includes(root):
    """(file, header, header), likewise."""
    for path in sources(root):
        if not path.startswith(PRODUCT):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for match in filter(None, map(INCLUDE.match, file)):
                target = resolve(root, path, match.group(2)) if match.group(1) == '"' else None
                if target:
                    yield path, os.path.basename(target), target


def circles(arrows):
    """The strongly connected components of more than one file (Tarjan), each sorted."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in arrows.get(node, ()):
            if other not in order:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10000)
    for node in sorted(arrows):
        if node not in order:
            visit(node)
    return [circle for circle in found if len(circle) > 1]


def ties_of(links):
    """{file: {other file: names}} of (file, name, other file)."""
    ties = {}
    for one, name, other in links:
        if one != other:
            ties.setdefault(one, {}).setdefault(other, set()).add(name)
    return ties


def too_large(links):
    """A report for each circle of more than LARGEST files."""
    ties = ties_of(links)
    for circle in circles(ties):
        if len(circle) > LARGEST:
            yield "\n".join([f"a circle of {len(circle)} files:"] + [
                f"  {one} -> {other}: {', '.join(sorted(ties[one][other]))}"
                for one in circle for other in sorted(ties.get(one, {})) if other in circle])


def main():
    root, build = sys.argv[1:]
    built = list(objects(root, build))
    if not built:
        raise SystemExit(f"check_objects: {build} holds no object of a product file")
    found = [*too_large([*calls(built), *includes(root)]),
             *sorted(set(unprefixed(built)))]
    print("\n".join(found) if found else "no large circle, and every public name is Tern's")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
