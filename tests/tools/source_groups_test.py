import os
import unittest

from tool_case import ToolCase


class SourceGroups(ToolCase):
    def groups(self, *sources):
        """The sources that each line of the output stands for."""
        done = self.run_tool("source_groups.py", "--out", self.root / "out", "--name", "some", *sources)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = []
        for line in done.stdout.splitlines():
            if line.startswith(str(self.root / "out")):
                with open(line, encoding="utf-8") as written:
                    found.append([include.split('"')[1] for include in written])
            else:
                found.append([line])
        return [[os.path.basename(path) for path in group] for group in found]

    def groups_of_texts(self, *texts):
        return self.groups(*(self.write(f"{i}.cpp", text) for i, text in enumerate(texts)))

    def assert_apart(self, *texts):
        self.assertEqual(len(self.groups_of_texts(*texts)), len(texts), texts)

    def test_sources_that_share_no_name_are_one(self):
        self.assertEqual(
            self.groups_of_texts("int a() { return 0; }\n", "int b() {\n  int a = 0;\n  return a;\n}\n",
                                 "void A::a() {}\n", "#include <a>\n// int a;\n", "class A;\n"),
            [["0.cpp", "1.cpp", "2.cpp", "3.cpp", "4.cpp"]])

    def test_sources_that_define_the_same_are_kept_apart(self):
        for name in ("int a() {", "constexpr int a = 1;", "class a {", "struct a : public b {", "enum class a {",
                     "using a = int;", "#define a 1", "template <typename T>\nT a(T b) {",
                     "std::vector<int> a(int b,\n                   int c) {"):
            self.assert_apart(name + "\n", "int a() { return 0; }\n")

    def test_tests_of_one_suite_are_one_unless_they_have_one_name(self):
        self.assertEqual(len(self.groups_of_texts("TEST(A, B) {\n", "TEST_F(A, C) {\n")), 1)
        self.assert_apart("TEST(A, B) {\n", "TEST_P(A, B) {\n")

    def test_what_a_source_takes_from_elsewhere_is_not_defined_beside_it(self):
        self.assert_apart("using n::a;\n", "int a() { return 0; }\n")
        self.assertEqual(len(self.groups_of_texts("using n::a;\n", "using n::a;\n")), 1)
        self.write("in.h", "template <typename T>\nT a(T b) {\n")
        self.write("out.h", '#include "in.h"\nint b(int c);\n')
        self.assert_apart('#include "out.h"\n', "int a() { return 0; }\n")
        self.assertEqual(len(self.groups_of_texts('#include "out.h"\n', "int b(int c) {\n")), 1)

    def test_what_is_compiled_for_each_instruction_set_is_alone(self):
        self.assert_apart('#include "hwy/foreach_target.h"\n', "int a;\n", "#include <hwy/foreach_target.h>\n")

    def test_a_group_has_a_limit(self):
        texts = [f"int a{i};\n" + 499 * "//\n" for i in range(5)] + ["int b;\n" + 5000 * "//\n"]
        self.assertEqual(self.groups_of_texts(*texts),
                         [["0.cpp", "1.cpp"], ["2.cpp", "3.cpp"], ["4.cpp"], ["5.cpp"]])

    def test_a_group_that_stays_is_not_written_again(self):
        sources = [self.write(f"{name}.cpp", f"int {name};\n") for name in "ab"]
        self.groups(*sources)
        (group,) = (self.root / "out").iterdir()
        before = group.stat().st_mtime_ns
        self.groups(*sources)
        self.assertEqual(group.stat().st_mtime_ns, before)
        self.groups(*sources[::-1])
        self.assertIn('a.cpp"\n', group.read_text())
        self.assertGreater(group.stat().st_mtime_ns, before)


if __name__ == "__main__":
    unittest.main()
