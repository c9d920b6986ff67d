"""The package as such: its version is Tern's, and all of its public names are there, typed and described."""
import inspect
import os
import pathlib
import subprocess
import sys
import tomllib
import types
import unittest

import tern

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "python"


def public_functions(module):
    """Functions and methods that users call, by name."""
    for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType) or getattr(value, "__module__", "").partition(".")[0] != "tern":
            continue
        if inspect.isclass(value):
            yield name, value
            yield from ((f"{name}.{key}", method) for key, method in vars(value).items()
                        if inspect.isfunction(method) and not key.startswith("_"))
        elif callable(value):
            yield name, value


class Package(unittest.TestCase):
    def test_its_version_is_terns(self):
        self.assertEqual(tern.__version__, os.environ["TERN_VERSION"])

    def test_pyproject_names_what_is_there(self):
        project = tomllib.loads((FOLDER / "pyproject.toml").read_text())
        self.assertEqual(project["tool"]["setuptools"]["packages"], ["tern"])
        self.assertEqual(project["tool"]["setuptools"]["dynamic"]["version"]["attr"], "tern._version.__version__")
        self.assertEqual(project["project"]["dependencies"], ["numpy"])
        self.assertTrue((FOLDER / "tern" / "py.typed").exists())
        self.assertTrue((FOLDER / project["project"]["readme"]).exists())

    def test_public_names_are_there_described_and_typed(self):
        self.assertLessEqual(set(tern.__all__), set(dir(tern)))
        names = dict(public_functions(tern)) | {f"flower.{name}": value for name, value in public_functions(tern.flower)} | \
            {f"mlflow.{name}": value for name, value in public_functions(tern.mlflow)}
        self.assertIn("Federation.history", names)
        for name, value in names.items():
            self.assertTrue(inspect.getdoc(value), f"{name} has no description")
            if inspect.isfunction(value):
                signature = inspect.signature(value)
                self.assertIsNot(signature.return_annotation, inspect.Signature.empty, f"{name}'s result has no type")
                for parameter in list(signature.parameters.values()):
                    self.assertTrue(parameter.name == "self" or parameter.annotation is not inspect.Parameter.empty,
                                    f"{name}: {parameter.name} has no type")
        with self.assertRaises(AttributeError):
            tern.nothing  # pylint: disable=pointless-statement

    def test_devices_import_little(self):
        """What a trainer needs starts neither HTTP nor processes."""
        program = ("import sys, numpy; before = set(sys.modules); import tern; "
                   "print({'http', 'ssl', 'subprocess', 'torch', 'pandas'} & set(sys.modules) - before)")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "set()")


if __name__ == "__main__":
    unittest.main()
