"""Prints the parts of an image as CycloneDX 1.5. usage: image_parts.py DEB... [NAME=VERSION...]
The first package is the program, others are libraries that it loads, and names are Debian's packages that a static program
holds."""
import json
import subprocess
import sys


def component(name, version, arch=None, kind="library"):
    url = f"pkg:deb/debian/{name}@{version}" + (f"?arch={arch}" if arch else "")
    return {"type": kind, "bom-ref": url, "name": name, "version": version, "purl": url}


def of_package(deb, kind="library"):
    command = ["dpkg-deb", "--show", "--showformat", "${Package} ${Version} ${Architecture}", deb]
    return component(*subprocess.run(command, check=True, capture_output=True, text=True).stdout.split(), kind)


def main(program, *parts):
    components = [of_package(part) if part.endswith(".deb") else component(*part.split("=", 1)) for part in parts]
    json.dump({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
               "metadata": {"component": of_package(program, "application")},
               "components": sorted(components, key=lambda part: part["bom-ref"])}, sys.stdout, indent=1)


main(*sys.argv[1:])
