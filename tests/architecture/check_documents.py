"""Checks that documents for who works on Tern name what is there.

Usage: check_documents.py SOURCE_DIR
docs/overview.dot names every folder of sources and no other, docs/overview.svg was made from it, the table at
the beginning of docs/DESIGN.md has the same folders, CONTRIBUTING.md names files that exist, and docs/EMBEDDING.md
says how long its program is. Prints one line per finding; exits with 1 on any.
"""
import html
import os
import re
import sys

COMPONENTS = ("shared", "client", "aggregator", "ring", "firmware_port", "lab")
FOLDER = re.compile(r"\b(?:%s)/[a-z_]+(?![\w./])" % "|".join(COMPONENTS))
PATH = re.compile(r"`((?:[\w.-]+/)*[\w.-]*(?:/|\.(?:c|h|def|py|md|ini|txt|json|proto|options)))`")


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def folders(root):
    """Those directly in a component that hold sources, themselves or below."""
    for component in COMPONENTS:
        for name in sorted(os.listdir(os.path.join(root, component))):
            path = os.path.join(component, name)
            if any(file.endswith((".c", ".py")) for _, _, files in os.walk(os.path.join(root, path))
                   for file in files):
                yield path


def edges(source):
    """Those of a .dot file that are drawn, as graphviz titles them: "a->b", also of "a -> b -> c"."""
    for statement in re.findall(r"^ *(\w+(?: -> \w+)+)", source.split("edge [style=invis]")[0], re.M):
        nodes = statement.split(" -> ")
        yield from (f"{a}->{b}" for a, b in zip(nodes, nodes[1:]))


def overview_findings(root):
    source = read(root, "docs/overview.dot")
    drawn, there = set(FOLDER.findall(source.replace("\\n", " "))), set(folders(root)) - {"firmware_port/template"}
    for path in sorted(there - drawn):
        yield f"docs/overview.dot does not have {path}"
    for path in sorted(drawn - there):
        yield f"docs/overview.dot has {path}, which is not there"
    picture = html.unescape(read(root, "docs/overview.svg")).replace("\N{NO-BREAK SPACE}", " ")
    for label in re.findall(r'label="([^"]*)"', source):
        for line in label.split("\\n"):
            if f">{line}<" not in picture:
                yield f"docs/overview.svg was not made from overview.dot: it has no '{line}'"
    for edge in sorted(set(edges(source)) ^ set(re.findall(r"<title>(\w+->\w+)</title>", picture))):
        yield f"docs/overview.svg was not made from overview.dot: one of them has no {edge}"


def table_findings(root):
    text = read(root, "docs/DESIGN.md")
    rows = re.findall(r"^\| ([a-z_]+/[a-z_]*) \|", text[:text.find("\n## ")], re.M)
    for path in rows:
        if not os.path.isdir(os.path.join(root, path)):
            yield f"docs/DESIGN.md: there is no folder {path}"
    for path in folders(root):
        if path.startswith(("shared/", "client/", "aggregator/")) and path not in rows:
            yield f"docs/DESIGN.md: its table of folders does not have {path}"


def contributing_findings(root):
    # What is in build/ is made, in a clone not at all and with TERN_BUILD_DIR elsewhere.
    paths = [path for path in PATH.findall(read(root, "CONTRIBUTING.md"))
             if "NAME" not in path and not path.startswith("build/")]
    if not paths:
        yield "CONTRIBUTING.md names no file"
    for path in paths:
        if not os.path.exists(os.path.join(root, path)):
            yield f"CONTRIBUTING.md names {path}, which is not there"


def embedding_findings(root):
    """The number of lines that EMBEDDING.md gives of its program: those that are neither empty nor a comment."""
    code = [line for line in read(root, "docs/examples/embedding/join.c").split("\n")
            if line.strip() and not line.lstrip().startswith("//")]
    said = re.findall(r"has (\d+) lines of code", read(root, "docs/EMBEDDING.md"))
    if said != [str(len(code))]:
        yield f"docs/EMBEDDING.md says {' and '.join(said) or 'nothing'} of join.c, which has {len(code)} lines of code"


def findings(root):
    yield from overview_findings(root)
    yield from table_findings(root)
    yield from contributing_findings(root)
    yield from embedding_findings(root)


def main():
    found = list(findings(sys.argv[1]))
    print("\n".join(found) if found else "nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
