#!/usr/bin/env python3
"""Makes web pages of the documents, which can be read from a disk: no page fetches anything from elsewhere.

Usage: build_site.py OUTPUT MAN_PAGE...

README.md is the first page; its table of documents says which there are besides, in which order and what
for. MAN_PAGE: files as tern-client.1. A link to a file of the project takes the file along. A link that
leads nowhere, or to a heading that is not there, is an error: it is named, and OUTPUT stays as it was.
"""

import html
import os
import pathlib
import re
import shutil
import string
import subprocess
import sys
import tempfile
import urllib.parse

from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FILES = "files"  # folder of what pages link to and is no page
DOCUMENT = re.compile(r"^\| \[[^\]]*\]\((?P<path>[^)#]+\.md)\) \|", re.M)
TITLE = re.compile(r"^# (?P<title>.+)$", re.M)


def slug(heading):
    """The anchor that code forges give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class Page:
    """One document. path: within the project; None for a man page."""

    def __init__(self, name, title, path=None):
        self.name = name
        self.title = title
        self.path = path
        self.body = ""
        self.headings = []  # (level, anchor, text) of those below the title


class Site:
    def __init__(self, output):
        self.output = output
        self.pages = {}  # by path
        self.manuals = []
        self.links = []  # (page, path of the target page, anchor), looked at when all pages are known
        self.faults = []

    def add_documents(self):
        readme = read("README.md")
        self.add_document("README.md", "index.html", "Overview")
        for path in [*DOCUMENT.findall(readme), "CHANGELOG.md"]:
            title = TITLE.search(read(path))["title"]
            self.add_document(path, pathlib.PurePath(path).stem.lower() + ".html", title)
        for page in self.pages.values():
            self.render(page)

    def add_document(self, path, name, title):
        self.pages[path] = Page(name, title, path)

    # --- Markdown

    def render(self, page):
        parser = MarkdownIt("commonmark", {"html": False}).enable("table")
        parser.use(anchors_plugin, max_level=4, slug_func=slug)
        parser.add_render_rule("table_open", lambda *_: '<div class="scroll" tabindex="0"><table>\n')
        parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
        tokens = parser.parse(read(page.path))
        for i, token in enumerate(tokens):
            if token.type == "heading_open" and token.tag in ("h2", "h3"):
                page.headings.append((int(token.tag[1]), token.attrs["id"], plain(tokens[i + 1])))
            for child in token.children or []:
                for name in ("href", "src"):
                    if name in child.attrs:
                        line = token.map[0] + 1 if token.map else 1
                        child.attrs[name] = self.resolve(page, str(child.attrs[name]), line)
        page.anchors = {str(token.attrs["id"]) for token in tokens if "id" in token.attrs}
        page.body = parser.renderer.render(tokens, parser.options, {})

    def resolve(self, page, target, line):
        """Where a link of a document leads within the site."""
        parts = urllib.parse.urlsplit(target)
        if parts.scheme or parts.netloc:
            return target
        path = page.path
        if parts.path:
            path = os.path.normpath(os.path.join(os.path.dirname(page.path), urllib.parse.unquote(parts.path)))
        anchor = f"#{parts.fragment}" if parts.fragment else ""
        if path in self.pages:
            self.links.append((page, line, self.pages[path], parts.fragment))
            return self.pages[path].name + anchor if path != page.path else anchor or page.name
        source = ROOT / path
        if path.startswith("..") or not source.is_file():
            self.faults.append(f"{page.path}:{line}: {target} leads to no file")
            return target
        copy = pathlib.PurePath(FILES, path)
        (self.output / copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, self.output / copy)
        return copy.as_posix()

    def check_anchors(self):
        for page, line, target, anchor in self.links:
            if anchor and anchor not in target.anchors:
                self.faults.append(f"{page.path}:{line}: {target.path} has no heading #{anchor}")

    # --- Man pages

    def add_manual(self, path):
        name, section = path.name.rsplit(".", 1)
        page = Page(f"{path.name}.html", f"{name}({section})")
        made = subprocess.run(["mandoc", "-T", "html", "-O", "fragment,man=%N.%S.html", str(path)],
                              check=True, capture_output=True, text=True)
        body = re.sub(r"(</?h)([1-5])\b", lambda tag: f"{tag[1]}{int(tag[2]) + 1}", made.stdout)
        page.body = f"<h1>{page.title}</h1>\n{body}"
        self.manuals.append(page)

    # --- Output

    def navigation(self, current):
        def entries(pages):
            for page in pages:
                here = ' aria-current="page"' if page is current else ""
                yield f'<li><a href="{page.name}"{here}>{html.escape(page.title)}</a></li>'

        groups = (("Documents", self.pages.values()), ("Manual", self.manuals))
        return "\n".join(f"<h2>{title}</h2>\n<ul>\n" + "\n".join(entries(pages)) + "\n</ul>"
                         for title, pages in groups if pages)

    def write(self, version):
        template = string.Template((HERE / "page.html").read_text(encoding="utf-8"))
        for page in [*self.pages.values(), *self.manuals]:
            (self.output / page.name).write_text(template.substitute(
                title=html.escape(page.title), body=page.body, pages=self.navigation(page),
                contents=contents(page), version=version), encoding="utf-8")
        shutil.copyfile(HERE / "style.css", self.output / "style.css")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def plain(inline):
    return "".join(child.content for child in inline.children if child.type in ("text", "code_inline"))


def contents(page):
    """A page's own headings; nothing for a page of few."""
    of_page = [f'<li><a href="#{anchor}">{html.escape(text)}</a></li>'
               for level, anchor, text in page.headings if level == 2]
    if len(of_page) < 3:
        return ""
    return '<nav class="contents" aria-label="On this page">\n<h2>On this page</h2>\n<ul>\n' + \
        "\n".join(of_page) + "\n</ul>\n</nav>"


def put(made, output):
    """The new pages in the place of the old ones."""
    old = output.with_name(output.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if output.exists():
        output.rename(old)
    shutil.move(made, output)
    shutil.rmtree(old, ignore_errors=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    output = pathlib.Path(sys.argv[1]).resolve()
    if output.exists() and not (output / "index.html").exists():
        sys.exit(f"build_site: {output} is there and holds no site; it would be replaced")
    output.parent.mkdir(parents=True, exist_ok=True)
    version = re.search(r"VERSION (\d[\d.]*)", read("CMakeLists.txt").split("project(")[1])[1]
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        site = Site(pathlib.Path(folder, "site"))
        site.output.mkdir()
        site.add_documents()
        for path in sys.argv[2:]:
            site.add_manual(pathlib.Path(path))
        site.check_anchors()
        if site.faults:
            sys.exit("\n".join(site.faults))
        site.write(version)
        put(site.output, output)
    print(f"{output / 'index.html'}: {len(site.pages)} documents, {len(site.manuals)} man pages")


if __name__ == "__main__":
    main()
