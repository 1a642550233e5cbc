"""thinwire plan memory: ways to train a recipe within a memory limit."""

import unittest

from plan_case import PlanCase

MODEL = ["model.vocab=4096", "model.hidden=256", "model.layers=4", "model.heads=4", "train.batch=8",
         "train.sequence=128"]


class PlanMemory(PlanCase):
    def setUp(self):
        super().setUp()
        self.recipe = self.folder / "recipe.toml"
        self.recipe.write_text("[run]\nname = \"small\"\n")

    def test_lists_what_fits_the_best_first(self):
        all_json = self.plan_json("memory", self.recipe, *MODEL, "--limit", "1G")
        whole = next(one for one in all_json["fits"] if not one["fields"])
        self.assertEqual(all_json["fits"][0], whole)
        self.assertAlmostEqual(sum(whole["memory"].values()), whole["memory_bytes"])
        limit = 0.6 * whole["memory_bytes"]
        few = self.plan_json("memory", self.recipe, *MODEL, "--limit", f"{limit:.0f}")["fits"]
        self.assertLess(len(few), len(all_json["fits"]))
        self.assertTrue(all(one["memory_bytes"] <= limit for one in few))
        concessions = [one["concession"] for one in few]
        self.assertEqual(concessions, sorted(concessions))

    def test_what_it_lists_is_a_recipe_that_needs_as_much(self):
        fits = self.plan_json("memory", self.recipe, *MODEL, "--limit", "1G", "--flops", "1T")["fits"]
        one = min(fits, key=lambda fit: fit["memory_bytes"])
        fields = {field.split("=")[0]: field for field in [*MODEL, *one["fields"]]}
        again = self.plan_json("memory", self.recipe, *fields.values(), "--limit", "1G")
        same = next(two for two in again["fits"] if not two["fields"])
        # The program itself takes a little more or less from call to call.
        self.assertAlmostEqual(same["memory_bytes"] / one["memory_bytes"], 1, delta=0.03)
        self.assertAlmostEqual(one["compute_seconds_per_step"], one["flops_per_step"] / 1e12)

    def test_prints_a_table_and_the_fields_to_set(self):
        done = self.plan("memory", self.recipe, *MODEL, "--limit", "1G")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1: as it is\n", done.stdout)
        self.assertIn("optim.method=galore", done.stdout)

    def test_says_what_is_least_where_nothing_fits(self):
        done = self.plan("memory", self.recipe, *MODEL, "--limit", "1M")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Nothing fits. The least is", done.stdout)

    def test_takes_a_limit_in_powers_of_1024(self):
        self.assertEqual(self.plan_json("memory", self.recipe, *MODEL, "--limit", "16GiB")["limit_bytes"], 2**34)

    def test_refuses_a_limit_that_is_no_size(self):
        done = self.plan("memory", self.recipe, "--limit", "much")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--limit", done.stderr)


if __name__ == "__main__":
    unittest.main()
