import shutil
import sys
import unittest

from tool_case import TOOLS, ToolCase

sys.path.insert(0, str(TOOLS))
from check_layers import MAY_INCLUDE  # noqa: E402


class CheckLayers(ToolCase):
    def setUp(self):
        super().setUp()
        # The whole table, every arrow used.
        for layer, others in MAY_INCLUDE.items():
            self.write(f"thinwire/{layer}/all.h",
                       "".join(f'#include "thinwire/{other}/all.h"\n' for other in others.split()))
        shutil.copy(TOOLS.parent / "thinwire/CMakeLists.txt", self.root / "thinwire")

    def check(self, name, text):
        self.write(name, text)
        return self.run_tool("check_layers.py")

    def assert_refused(self, name, text, reason):
        done = self.check(name, text)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"{name}:1: {reason}", done.stderr)

    def assert_accepted(self, name, text):
        done = self.check(name, text)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_accepts_includes_that_point_down(self):
        self.assert_accepted(
            "thinwire/codec/a.h", '#include <vector>\n#include "thinwire/tensor/b.h"\n'
        )

    def test_refuses_an_include_that_points_up(self):
        self.assert_refused(
            "thinwire/base/a.h", '#include "thinwire/config/b.h"\n', "base may not include config"
        )

    def test_refuses_an_include_between_siblings(self):
        self.assert_refused(
            "thinwire/optim/a.cpp", '# include "thinwire/codec/b.h"\n', "optim may not include codec"
        )

    def test_refuses_an_arrow_that_nothing_uses(self):
        done = self.check("thinwire/codec/all.h", '#include "thinwire/base/all.h"\n')
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing in codec includes tensor", done.stderr)

    def test_refuses_an_unknown_folder(self):
        done = self.check("thinwire/stray/a.h", "\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("folder stray is not in the table", done.stderr)

    def test_the_end_of_a_name_says_in_which_layer_a_file_of_a_room_is(self):
        tensors = '#include "thinwire/tensor/a.h"\n'
        self.assert_accepted("thinwire/methods/thin/thin.cpp", tensors)
        self.assert_accepted("thinwire/methods/thin/thin_spec.cpp", '#include "thinwire/config/a.h"\n')
        self.assert_refused("thinwire/methods/thin/thin_spec.h", tensors, "method may not include tensor")
        self.assert_refused("thinwire/methods/thin/thin_plan.cpp",
                            '#include "thinwire/methods/thin/thin.h"\n', "plan may not include sync")
        self.assert_refused("thinwire/codec/a.h", '#include "thinwire/methods/thin/thin.h"\n',
                            "codec may not include sync")

    def test_accepts_parsers_of_json_and_toml_in_their_files_only(self):
        self.assert_accepted("thinwire/base/json.cpp", "Json::parse(text);\n")
        self.assert_refused("thinwire/data/a.cpp", "auto a = nlohmann::json::parse(text);\n",
                            "only thinwire/base/json.cpp parses")
        self.assert_refused("thinwire/data/a.cpp", "toml::parse(text);\n",
                            "only thinwire/config/toml_document.cpp parses")

    def test_accepts_libtorch_in_its_files_only(self):
        include = "#include <ATen/ATen.h>\n"
        self.assert_accepted("thinwire/tensor/products/gemm_torch.cpp", include)
        for name in ("thinwire/tensor/products/gemm.cpp", "thinwire/tensor/a_torch.h",
                     "thinwire/train/a_torch.cpp"):
            self.assert_refused(name, include, "LibTorch's ATen/ATen.h belongs")

    def test_refuses_other_spellings(self):
        self.assert_refused("thinwire/base/a.cpp", '#include "b.h"\n', '"b.h" should be named')
        self.assert_refused("thinwire/base/c.cpp", "#include <thinwire/base/b.h>\n",
                            "<thinwire/base/b.h> is ours")

    def test_a_name_is_one_type_in_a_program(self):
        space = "namespace thinwire::train {{\n{}\n}}  // namespace thinwire::train\n"
        hidden = "namespace {\nstruct Part {};\n}  // namespace"
        twin = space.format("struct Part final : Base {\n};")
        self.assert_accepted("thinwire/train/a.h", space.format("enum class Part : int { kA };"))
        self.assert_accepted("thinwire/train/b.h", space.format("struct Part;\nclass Part::Inner {};"))
        self.assert_accepted("thinwire/train/c.cpp", space.format(hidden))
        self.assert_accepted("thinwire/sync/d.h", twin.replace("::train", "::sync"))
        self.assert_accepted("tests/data/e.h", twin.replace("Part", "Helper"))
        self.assert_accepted("tests/train/f.h", twin.replace("Part", "Helper"))
        for name in ("bench/train/g.cpp", "tests/train/h.h", "thinwire/train/i.h"):
            done = self.check(name, twin)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{name}:2: thinwire::train::Part is another type in thinwire/train/a.h:2",
                          done.stderr)

    def test_refuses_another_table_in_cmake(self):
        done = self.check("thinwire/CMakeLists.txt", "thinwire_layer(base DEPENDS cli LINK x)\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("DEPENDS of base in CMakeLists.txt differs", done.stderr)
        self.assertIn("layer cli is not in both", done.stderr)
        self.assertIn("ROOM methods of sync is not in both", done.stderr)


if __name__ == "__main__":
    unittest.main()
