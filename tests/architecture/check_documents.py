"""Checks that documents for who works on Tern name what is there.

Usage: check_documents.py SOURCE_DIR
docs/overview.dot names every folder of sources and no other, docs/overview.svg was made from it, the table at
the beginning of docs/DESIGN.md has the same folders, CONTRIBUTING.md names files that exist, docs/EMBEDDING.md
says how long its program is; headings and sections of documents that comments, tests and documents cite exist, and
so do the log events that documents name (which have all events of the aggregator) and the source files that documents and comments name by folder. The firmware's
sizes in docs/PORTING.md are those of firmware_port/sizes.json, and data in docs/MOBILE.md those of docs/BENCHMARKS.md. Prints one line per finding; exits with 1 on any.
"""
import html
import json
import os
import re
import sys

from check_text import TEXT, tracked

COMPONENTS = ("shared", "client", "aggregator", "helper", "ring", "firmware_port", "lab")
FOLDER = re.compile(r"\b(?:%s)/[a-z_]+(?![\w./])" % "|".join(COMPONENTS))
PATH = re.compile(r"`((?:[\w.-]+/)*[\w.-]*(?:/|\.(?:c|h|def|py|md|ini|txt|json|proto|options)))`")
# Line breaks within a comment or between strings of C; then citations: NAME.md, "Heading", NAME.md ("Heading"), and
# NAME.md, section 3.2. Constants in code look alike: without ".md" a heading starts with a capital, and a number follows
# the word "section" or FORMAT.
BREAK = re.compile(r'(?<!\\)"\s*\n\s*"|\s*\n\s*(?:(?://+|#+|\*|--|;)\s)?\s*')
HEADING = re.compile(r'\b([A-Z]+)(?:\.md(?:,? section|,)? \(?|,? \(?(?=\\?"[A-Z]))\\?"([^"\\]{3,80})')
NUMBER = r"(\d+(?:\.\d+)*)"
SECTION = re.compile(rf"\b(?:([A-Z]+)(?:\.md\)?)?,? sections? |(FORMAT) ){NUMBER}\b(?: (?:and|to) {NUMBER}\b)?")

SOURCE = re.compile(r"(?<![\w./-])((?:[a-z_0-9]+/)+[a-z_0-9]+\.[ch])\b")


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


# The columns of docs/PORTING.md's table of the firmware, and its rows: the text, the C library and the part in sizes.json.
IMAGES = ("an385-%s-ecdsa", "an385-%s-psk", "an386-%s-ecdsa", "an386-%s-psk")
ROWS = (("mbedTLS", "newlib", "mbedTLS"), ("lwIP", "newlib", "lwIP"), ("whole image", "newlib", "whole image"),
        ("Tern's own: shared, client, firmware_port", "newlib", "of it Tern"),
        ("whole image with picolibc", "picolibc", "whole image"))
GOAL = 24 * 1024  # TERN_GOAL of firmware_sizes.py
# Lines of the document with the difference between two whole images, in KB.
DIFFERENCES = (("| flash | %s KB more | |", "an385-newlib-ecdsa", "an385-newlib-psk"),
               ("| `-DTERN_TLS=psk` | %s KB of flash |", "an385-newlib-ecdsa", "an385-newlib-psk"),
               ("| `-DTERN_LIBC=picolibc` | %s KB of flash |", "an385-newlib-ecdsa", "an385-picolibc-ecdsa"),
               ("| `-DTERN_LOG=OFF` | %s KB of flash:", "an385-newlib-ecdsa", "an385-newlib-ecdsa-silent"),
               ("-DTERN_WITHOUT_UNIFORM` | %s KB of flash:", "an385-newlib-ecdsa", "an385-newlib-ecdsa-lean"),
               ("(%s KB of flash). There is no DNS", "an385-newlib-ecdsa-dhcp", "an385-newlib-ecdsa"))
BUDGETS = ("128 KB of flash",)  # of the image, as memory.ld has it


def firmware_size_findings(root):
    if not os.path.exists(os.path.join(root, "firmware_port/sizes.json")):
        return
    text = read(root, "docs/PORTING.md")
    sizes = json.loads(read(root, "firmware_port/sizes.json"))
    lines = []
    for label, libc, part in ROWS:
        cells = [sizes[image % libc][part] for image in IMAGES]
        lines.append(f"| {label} | " + " | ".join(f"{cell['flash']:,} / {cell['ram']:,}" for cell in cells) + " |")
    first = sizes["an385-newlib-ecdsa"]
    for part in ("whole image", "of it Tern"):
        lines.append(f"  {part:<16}{first[part]['flash']:>8}       ={first[part]['ram']:>9}       =")
    lines.append(f"the goal, {GOAL}, is missed by {first['of it Tern']['flash'] - GOAL}")
    for line, larger, smaller in DIFFERENCES:
        more = sizes[larger]["whole image"]["flash"] - sizes[smaller]["whole image"]["flash"]
        lines.append(line % f"{more / 1000:.1f}")
    secure = sizes["an385-newlib-psk-secure"]["whole image"]
    lines.append(f"takes {secure['flash']:,} / {secure['ram']:,}, and")
    known = "\n".join([*lines, *BUDGETS])
    for figure in re.findall(r"[\d.]+ KB of flash", text):
        if figure not in known:
            yield f"docs/PORTING.md gives a size that firmware_port/sizes.json does not have: {figure}"
    for line in lines:
        if line not in text:
            yield f"docs/PORTING.md does not have the sizes of firmware_port/sizes.json: {line.strip()}"


def mobile_findings(root):
    """The data that docs/MOBILE.md gives for a phone are those of docs/BENCHMARKS.md."""
    if not os.path.exists(os.path.join(root, "docs/MOBILE.md")):
        return
    text, measured = read(root, "docs/MOBILE.md"), read(root, "docs/BENCHMARKS.md")
    round_kb = float(re.search(r"a client moves .* and ([\d.]+) KB a round", measured)[1])
    up, down = map(float, re.search(r"^\| float32, each (?:\|[^|]*){5}\| ([\d.]+) KB \| ([\d.]+) KB", measured, re.M).groups())
    idle_kb = float(re.search(r"device that no round needs moves [^;]* and ([\d.]+) KB a day", measured)[1])
    for line in (f"a round takes **{round_kb:.0f} KB**", f"plain float32 takes {up + down:.0f} KB",
                 f"| Tern | {30 * round_kb / 1000:.1f} MB", f"| float32 | {30 * (up + down) / 1000:.0f} MB |",
                 f"never selected, {idle_kb} KB a day | {30 * idle_kb / 1000:.1f} MB |"):
        if line not in text:
            yield f"docs/MOBILE.md does not have the data of docs/BENCHMARKS.md: {line}"


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


def headings(root):
    """The headings of each document by its name in capitals."""
    for name in sorted(os.listdir(os.path.join(root, "docs"))):
        if name.endswith(".md"):
            yield name[:-3], re.findall(r"^#+ (.*?)#*$", read(root, f"docs/{name}"), re.M)


def is_heading(cited, heading):
    """The beginning of a heading, up to a comma, is enough; so is a heading without its number."""
    heading = re.sub(r"^[\d.]+ ", "", heading)
    return heading == cited or heading.startswith(f"{cited},")


def citation_findings(root):
    """Citations of a document's heading or section that the document does not have."""
    documents = dict(headings(root))
    for path in tracked(root):
        if not path.endswith((*TEXT, ".sv")) or not os.path.isfile(os.path.join(root, path)):
            continue
        text = BREAK.sub(lambda found: "" if '"' in found[0] else " ", read(root, path))
        for name, cited in HEADING.findall(text):
            if name in documents and not any(is_heading(cited, heading) for heading in documents[name]):
                yield f'{path} cites docs/{name}.md, "{cited}", which is not there'
        for name, only, *numbers in SECTION.findall(text):
            for number in filter(None, numbers):
                if not any(re.match(rf"{re.escape(number)}[. ]", heading)
                           for heading in documents.get(name or only, [number + " "])):
                    yield f"{path} cites docs/{name or only}.md, section {number}, which is not there"


def event_findings(root):
    """Log events that a document names and no program logs."""
    paths = [path for path in tracked(root) if os.path.isfile(os.path.join(root, path))]
    logged = {word for path in paths if path.endswith((".c", ".h", ".def")) and not path.startswith("tests/")
              for word in re.findall(r'"([a-z0-9-]+)"', read(root, path))}
    for path in paths:
        if path.endswith(".md") and path != "CHANGELOG.md":
            for name in sorted(set(re.findall(r"\bevent=([a-z0-9-]+)", read(root, path))) - logged):
                yield f"{path} names event={name}, which no program logs"


def arguments_of(call):
    """The arguments at the start of a text of C, up to the parenthesis that ends them."""
    depth, arguments = 0, [""]
    for token in re.findall(r'"(?:\\.|[^"\\])*"|.', call, re.S):
        depth += (token in "([{") - (token in ")]}")
        if depth < 0:
            break
        if token == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += token
    return arguments


def undocumented_event_findings(root):
    """Log events of the aggregator that no document names."""
    paths = [path for path in tracked(root) if os.path.isfile(os.path.join(root, path))]
    documents = "\n".join(read(root, path) for path in paths if re.fullmatch(r"docs/\w+\.md", path))
    documented = set(re.findall(r"`([a-z0-9-]+)`|\bevent=([a-z0-9-]+)", documents))
    documented = {name for names in documented for name in names}
    for path in paths:
        if path.startswith("aggregator/") and path.endswith((".c", ".h")):
            for call in read(root, path).split("tern_log(")[1:]:
                for name in re.findall(r'"([a-z0-9-]+)"', (arguments_of(call) + [""])[1]):
                    if name not in documented:
                        yield f"{path} logs event={name}, which no document names: add it to docs/OPERATIONS.md, \"Logs\""


def source_findings(root):
    """Files of C that a document or a comment names, as federation/round.c, and that no folder of that name has."""
    paths = [path for path in tracked(root) if os.path.isfile(os.path.join(root, path))]
    there = "\n".join(f"/{path}" for path in paths) + "\n"
    folders = {folder for path in paths for folder in path.split("/")[:-1]} - {"tern"}  # tern/client.h is installed
    for path in paths:
        if path.endswith(".md") and path != "CONTRIBUTING.md":  # contributing_findings() reads that
            text = read(root, path)
        elif path.endswith((".c", ".h")):
            text = "\n".join(re.findall(r"//.*", read(root, path)))
        else:
            continue
        for name in sorted(set(SOURCE.findall(text))):
            if name.split("/")[0] in folders and f"/{name}\n" not in there:
                yield f"{path} names {name}, which is not there"


def findings(root):
    yield from overview_findings(root)
    yield from table_findings(root)
    yield from contributing_findings(root)
    yield from embedding_findings(root)
    yield from citation_findings(root)
    yield from event_findings(root)
    yield from undocumented_event_findings(root)
    yield from source_findings(root)
    yield from firmware_size_findings(root)
    yield from mobile_findings(root)


def main():
    found = list(findings(sys.argv[1]))
    print("\n".join(found) if found else "nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
