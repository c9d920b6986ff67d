"""./tern docs: pages of all documents and man pages, which fetch nothing and whose links lead somewhere."""
import html.parser
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
MANUALS = {"tern-aggregator.1", "tern-client.1", "tern-codec.1", "tern-fleet.1", "tern-helper.1", "tern-ring.1",
           "tern-aggregator.ini.5", "tern-client.ini.5", "tern-fleet.ini.5", "tern-helper.ini.5", "tern-ring.ini.5"}
FETCHED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Reader(html.parser.HTMLParser):
    """What a page fetches, links to, and can be linked to by."""

    def __init__(self, path):
        super().__init__()
        self.fetched, self.links, self.ids, self.headings = [], [], set(), 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.headings += tag == "h1"
        if FETCHED.get(tag) in attributes:
            self.fetched.append(attributes[FETCHED[tag]])
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if "id" in attributes:
            self.ids.add(attributes["id"])


def build(source, output, *manuals):
    return subprocess.run(["/usr/bin/python3", source / "cmake/site/build_site.py", output, *manuals],
                          capture_output=True, text=True)


class Docs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.output = self.folder / "site"

    def test_pages_fetch_nothing_and_their_links_lead_somewhere(self):
        done = subprocess.run([SOURCE / "tern", "docs", "--output", self.output], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        pages = {path.name: Reader(path) for path in self.output.glob("*.html")}
        self.assertLessEqual({f"{name}.html" for name in MANUALS}, set(pages))
        documents = {path.stem.lower() + ".html" for path in (SOURCE / "docs").glob("*.md")}
        self.assertLessEqual(documents, set(pages), "README.md's table of documents lacks some")
        for name, page in pages.items():
            self.assertEqual(page.headings, 1, name)
            for target in page.fetched:
                self.assertTrue((self.output / target).is_file(), f"{name} fetches {target}")
            for target in page.links:
                self.expect_target(pages, name, target)

    def expect_target(self, pages, name, target):
        if target.startswith("https://"):
            return
        path, _, anchor = target.partition("#")
        path = path or name
        self.assertTrue((self.output / path).is_file(), f"{name} links to {target}")
        if anchor:
            self.assertIn(anchor, pages[path].ids, f"{name} links to {target}")

    def copy_of_documents(self):
        """The documents alone, to be damaged."""
        source = self.folder / "source"
        for path in subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "*.md", "*.svg", "docs", "configs",
                                    "cmake/site", "CMakeLists.txt", "LICENSE", "client/trainer",
                                    "bindings/swift"], cwd=SOURCE,
                                   capture_output=True, text=True, check=True).stdout.split():
            if (SOURCE / path).exists():
                (source / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(SOURCE / path, source / path)
        return source

    def test_links_that_lead_nowhere_are_named_and_change_nothing(self):
        source = self.copy_of_documents()
        self.assertEqual(build(source, self.output).returncode, 0)
        before = (self.output / "index.html").read_bytes()
        for link in ("docs/NOWHERE.md", "docs/FORMAT.md#no-such-heading"):
            readme = (SOURCE / "README.md").read_text()
            (source / "README.md").write_text(f"{readme}\nSee [this]({link}).\n")
            done = build(source, self.output)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"README.md:{len(readme.splitlines()) + 2}: ", done.stderr)
            self.assertEqual((self.output / "index.html").read_bytes(), before)

    def test_a_folder_that_holds_something_else_is_not_replaced(self):
        self.output.mkdir()
        (self.output / "mine.txt").write_text("kept")
        done = build(SOURCE, self.output)
        self.assertEqual(done.returncode, 1)
        self.assertIn("holds no site", done.stderr)
        self.assertEqual((self.output / "mine.txt").read_text(), "kept")


if __name__ == "__main__":
    unittest.main()
