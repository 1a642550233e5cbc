import json
import unittest

from tool_case import ToolCase

GOOD_HEADER = "inline int* none() { return nullptr; }\n"
BAD_HEADER = "inline int* none() { return 0; }\n"


class RunTidy(ToolCase):
    def setUp(self):
        super().setUp()
        self.write(".clang-tidy", "Checks: '-*,modernize-use-nullptr,modernize-use-using'\n"
                                  "WarningsAsErrors: '*'\nHeaderFilterRegex: '.*'\n")
        self.write("thinwire/a.h", GOOD_HEADER)
        sources = [
            self.write("thinwire/a.cpp", '#include "thinwire/a.h"\n'),
            self.write("thinwire/b.cpp", "int b;\n"),
            self.write("build/generated.cpp", "int* none = 0;\n"),
        ]
        commands = [
            {"directory": str(self.root), "file": str(source),
             "command": f"clang++-16 -I{self.root} -c {source}"}
            for source in sources
        ]
        self.write("build/compile_commands.json", json.dumps(commands))

    def tidy(self):
        return self.run_tool("run_tidy.py", "--build", self.root / "build")

    def test_checks_only_what_changed(self):
        self.assertIn("2 sources, 2 changed, 0 with findings", self.tidy().stdout)
        self.assertIn("2 sources, 0 changed, 0 with findings", self.tidy().stdout)
        self.write("thinwire/a.h", GOOD_HEADER + "\n")
        self.assertIn("2 sources, 1 changed, 0 with findings", self.tidy().stdout)

    def test_new_settings_check_everything_again(self):
        self.tidy()
        self.write(".clang-tidy", "Checks: '-*,modernize-use-override'\n")
        self.assertIn("2 sources, 2 changed", self.tidy().stdout)

    def test_a_folder_has_settings_of_its_own(self):
        self.write("thinwire/a.h", BAD_HEADER)
        self.assertEqual(self.tidy().returncode, 1)
        folder = self.write("thinwire/.clang-tidy",
                            "InheritParentConfig: true\nChecks: '-modernize-use-nullptr'\n")
        self.assertIn("2 sources, 2 changed, 0 with findings", self.tidy().stdout)
        folder.write_text("InheritParentConfig: true\n")
        self.assertIn("2 sources, 2 changed, 1 with findings", self.tidy().stdout)

    def test_fails_on_a_finding_until_it_is_gone(self):
        self.write("thinwire/a.h", BAD_HEADER)
        for _ in range(2):
            done = self.tidy()
            self.assertEqual(done.returncode, 1)
            self.assertIn("modernize-use-nullptr", done.stdout)
            self.assertIn("1 with findings", done.stdout)
        self.write("thinwire/a.h", GOOD_HEADER)
        self.assertEqual(self.tidy().returncode, 0)

    def test_sources_whose_names_collide_are_checked_apart(self):
        for name in "ab":
            self.write(f"thinwire/{name}.cpp", "namespace { int* none = nullptr; }\n")
        self.assertIn("2 sources, 2 changed, 0 with findings", self.tidy().stdout)
        self.write("thinwire/b.cpp", "namespace { int* none = 0; }\n")
        done = self.tidy()
        self.assertIn("b.cpp:1:25: error", done.stdout)
        self.assertIn("2 sources, 1 changed, 1 with findings", done.stdout)

    def test_a_finding_in_one_of_several_is_named(self):
        self.write("thinwire/a.cpp", "int* a = nullptr;\n")
        self.write("thinwire/b.cpp", "int* b = 0;\n")
        done = self.tidy()
        self.assertIn("b.cpp:1:10: error", done.stdout)
        self.assertIn("2 sources, 2 changed, 1 with findings", done.stdout)
        self.assertIn("2 sources, 1 changed, 1 with findings", self.tidy().stdout)
        self.assertEqual(list((self.root / "build").glob("tmp*")), [])


if __name__ == "__main__":
    unittest.main()
