import unittest

from tool_case import ToolCase


class CheckFormat(ToolCase):
    def test_accepts_formatted_code(self):
        self.write("thinwire/base/a.cpp", "int f() { return 1; }\n")
        self.assertEqual(self.run_tool("check_format.py").returncode, 0)

    def test_refuses_and_fixes_unformatted_code(self):
        path = self.write("tests/base/a_test.cpp", "int f( ) {return 1;}\n")
        refused = self.run_tool("check_format.py")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("a_test.cpp:1", refused.stderr)
        self.assertEqual(self.run_tool("check_format.py", "--fix").returncode, 0)
        self.assertEqual(path.read_text(), "int f() { return 1; }\n")


if __name__ == "__main__":
    unittest.main()
