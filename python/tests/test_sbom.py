"""The list of packages and licences is that of the locks, and holds no licence that nobody has looked at."""

from __future__ import annotations

import json
import unittest

from tools import sbom


class Sbom(unittest.TestCase):
    def setUp(self) -> None:
        self.components = json.loads(sbom.DOCUMENT.read_text("utf-8"))["components"]

    def test_it_holds_what_the_locks_hold(self) -> None:
        for lock in sbom.LOCKS.glob("*.txt"):
            listed = {
                (each["name"], each["version"])
                for each in self.components
                if {"name": "orch:environment", "value": lock.stem} in each["properties"]
            }
            packages = sbom.locked(lock)
            self.assertLessEqual(listed, set(packages), f"{lock.name}: run `just sbom`")
            everywhere = {package for package, is_everywhere in packages.items() if is_everywhere}
            self.assertLessEqual(everywhere, listed, f"{lock.name}: run `just sbom`")

    def test_it_holds_what_the_locks_of_npm_hold(self) -> None:
        listed = [each for each in self.components if each["purl"].startswith("pkg:npm/")]
        self.assertEqual(listed, sbom.npm_components(), "run `just sbom`")
        self.assertIn("@duckdb/node-bindings-linux-x64", {each["name"] for each in listed})

    def test_every_licence_is_one_that_was_looked_at(self) -> None:
        for each in self.components:
            self.assertLessEqual(sbom.parts(each["licenses"][0]["expression"]), sbom.ALLOWED, each["name"])

    def test_a_licence_is_read_from_what_old_and_new_metadata_say(self) -> None:
        for given, expected in (
            ({"license_expression": "MIT OR Apache-2.0", "license": "other"}, "MIT OR Apache-2.0"),
            ({"license": "Apache 2.0 License"}, "Apache-2.0"),
            ({"license": "MPL-2.0 AND MIT"}, "MPL-2.0 AND MIT"),
            ({"classifier": ["License :: OSI Approved :: MIT License"]}, "MIT"),
            ({"license": "Copyright (c) 2001\nall of it", "classifier": []}, None),
            ({"license": "AGPL-3.0"}, None),
        ):
            self.assertEqual(sbom.licence({"name": "some", **given}), expected)


if __name__ == "__main__":
    unittest.main()
