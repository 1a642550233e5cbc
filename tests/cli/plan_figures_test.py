"""thinwire plan distro, efficiency, loss, utilization, fit: the papers' figures as commands."""

import json
import subprocess
import unittest

from plan_case import BINARY, PlanCase


class PlanFigures(PlanCase):
    def test_the_distro_report(self):
        result = self.plan_json("distro")
        self.assertEqual(result["all_reduce_bytes_per_step"], 74.4e9)
        self.assertEqual(result["distro_bytes_sent_per_step"], 2.8e6)
        self.assertAlmostEqual(result["distro_bytes_received_per_step"], 86.8e6)
        self.assertAlmostEqual(result["ratio"], 857.14, places=2)
        self.assertAlmostEqual(result["ratio_ring"], 53.57, places=2)
        self.assertAlmostEqual(result["seconds_down"], 6.944)
        self.assertAlmostEqual(result["seconds_up"], 2.24)
        self.assertIn("1.20 B parameters", self.plan("distro").stdout)

    def test_every_figure_is_drawn(self):
        for arguments in (["distro"], ["efficiency", "--scenario", "1"], ["loss"],
                          ["utilization"]):
            for ending in ("png", "svg"):
                file = self.folder / f"{arguments[0]}.{ending}"
                done = self.plan(*arguments, "--plot", file)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertGreater(file.stat().st_size, 5000)

    def test_the_eager_paper_has_90_cells_and_its_table_1(self):
        result = self.plan_json("utilization")
        self.assertEqual(len(result["table5"]), 90)
        possible = [cell for cell in result["table5"] if not cell["impossible"]]
        self.assertEqual(len(possible), 60)
        self.assertEqual(sum(abs(cell["grid_distance"]) <= 1 for cell in possible), 48)
        for row in result["table1"]:
            self.assertAlmostEqual(row["hours_fast"] / row["paper_hours_fast"], 1, delta=0.02)
            self.assertAlmostEqual(row["terabytes_counted"] / row["paper_terabytes"], 1, delta=0.03)

    def test_utilization_of_any_model(self):
        given = self.plan_json("utilization", "--parameters", "1G", "--layers",
                               "24", "--step-seconds", "0.1")
        parallel = given["methods"][0]
        self.assertEqual(parallel["method"], "Data-Parallel")
        table5 = self.plan_json("utilization")["table5"]
        self.assertAlmostEqual(parallel["required"][0]["bit_s"] / 1e9,
                               table5[0]["predicted_gbit_s"])
        recipe = self.plan_json("utilization", "model.layers=6", "--flops", "1T")
        self.assertEqual(recipe["layers"], 6)
        done = self.plan("utilization", "--parameters", "1G", "--layers", "4")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--step-seconds, or a recipe and --flops, must be given", done.stderr)

    def run_folder(self, method, params, loss, every=1, fields=(), steps=10, tokens=10):
        folder = self.folder / "-".join(map(str, [method, params, every, steps, tokens, *fields]))
        folder.mkdir()
        fields = [f"sync.method={method}", f"distro.local_steps={every}", *fields]
        if every > 1:
            fields.append("distro.client=stateless")
        recipe = subprocess.run([BINARY, "recipe", *fields], capture_output=True, text=True)
        self.assertEqual(recipe.returncode, 0, recipe.stderr)
        (folder / "recipe.toml").write_text(recipe.stdout)
        numbers = ("ratio_ring", "ratio_ring_sent", "ratio_report", "seconds",
                   "bytes_sent_per_worker_step", "bytes_received_per_worker_step",
                   "seconds_over_links", "link_down_bit_s", "link_up_bit_s", "tokens_per_second")
        summary = dict.fromkeys(numbers, 1.0)
        summary.update(name="run", method=method, workers=1, steps=steps, tokens=tokens, params=params,
                       params_non_embedding=params, train_loss=loss, peak_memory_bytes=1,
                       val_loss={"validation": loss}, digest="0" * 16)
        (folder / "summary.json").write_text(json.dumps(summary))
        return folder

    def test_fit_recovers_the_constants_of_runs(self):
        def law(params, steps=0):
            return (6.06e14 / params) ** 0.069 + 1.4e-4 * steps
        sizes = [100_000, 300_000, 1_000_000, 3_000_000]
        runs = [self.run_folder("allreduce", size, law(size)) for size in sizes]
        runs += [self.run_folder("distro", size, law(size, every), every)
                 for size in sizes[:3] for every in (1, 100)]
        large = self.run_folder("allreduce", 30_000_000, law(30e6))
        file = self.folder / "laws.toml"
        plot = self.folder / "fit.png"
        result = self.plan_json("fit", *runs, "--hold-out", large, "--save", file, "--plot", plot)
        laws = {entry["method"]: entry for entry in result["laws"]}
        for entry in laws.values():
            self.assertAlmostEqual(entry["scale"] / 6.06e14, 1, delta=0.01)
            self.assertAlmostEqual(entry["exponent"] / 0.069, 1, delta=0.01)
        self.assertAlmostEqual(laws["distro"]["loss_per_local_step"] / 1.4e-4, 1, delta=0.01)
        held_out = laws["allreduce"]["held_out"][0]
        self.assertAlmostEqual(held_out["predicted"] / held_out["loss"], 1, places=5)
        self.assertGreater(plot.stat().st_size, 5000)
        self.assertIn("0.0690", self.plan("fit", *runs).stdout)

        own = self.plan_json("model.vocab=512", "--flops", "1T", "--constants", file)
        self.assertEqual(own["methods"][0]["loss_basis"], "own runs")
        loss = self.plan_json("loss", "--parameters", "3G", "--constants", file)
        self.assertAlmostEqual(loss["loss_all_reduce"], law(3e9), places=5)

    def test_fit_of_runs_of_several_lengths_knows_their_tokens(self):
        def law(params, tokens):
            return 1.8172 + 482.01 / params ** 0.3478 + 2085.43 / tokens ** 0.3658
        sizes, lengths = (1_000_000, 4_000_000, 16_000_000), (10_000_000, 100_000_000, 1_000_000_000)
        runs = [self.run_folder("allreduce", size, law(size, tokens), tokens=tokens)
                for size in sizes for tokens in lengths]
        large = self.run_folder("allreduce", 64_000_000, law(64e6, 4e9), tokens=4_000_000_000)
        file, plot = self.folder / "lengths.toml", self.folder / "lengths.png"
        fitted = self.plan_json("fit", *runs, "--hold-out", large, "--save", file, "--plot", plot)["laws"][0]
        self.assertAlmostEqual(fitted["floor"], 1.8172, delta=0.001)
        self.assertAlmostEqual(fitted["tokens_exponent"], 0.3658, delta=0.001)
        held_out = fitted["held_out"][0]
        self.assertAlmostEqual(held_out["predicted"], held_out["loss"], delta=0.001)
        self.assertGreater(plot.stat().st_size, 5000)
        text = self.plan("fit", *runs).stdout
        self.assertIn("allreduce: loss = E + (Nc / N)^alpha + (Dc / D)^beta of N parameters without embeddings, D "
                      "tokens; 9 runs", text)

        loss = self.plan_json("loss", "--parameters", "1G", "--tokens", "20G", "--constants", file)
        self.assertAlmostEqual(loss["loss_all_reduce"], law(1e9, 20e9), delta=0.002)
        self.assertAlmostEqual(loss["loss_chinchilla"], law(1e9, 20e9), delta=1e-6)
        short, long = (self.plan_json("model.vocab=512", f"train.steps={steps}", "--flops", "1T", "--constants",
                                      file)["methods"][0]["loss"] for steps in (100, 10_000))
        self.assertGreater(short, long + 0.1)

    def covering_run(self, steps, k, loss, lr=1e-3):
        fields = (f"train.steps={steps}", f"distro.k={k}", f"optim.lr={lr}", "model.vocab=512")
        return self.run_folder("distro" if k else "allreduce", 1000, loss, 1,
                               fields if k else (fields[0], *fields[2:]), steps)

    def covering_runs(self, gap):
        """Runs that follow gap(coverage), and one to be held out."""
        all_reduce = {500: 3.2, 2000: 3.0, 8000: 2.9}
        runs = [self.covering_run(steps, 0, loss) for steps, loss in all_reduce.items()]
        for steps, k in ((500, 32), (2000, 8), (2000, 128)):
            runs.append(self.covering_run(steps, k, all_reduce[steps] + gap(steps * k / 4096)))
        return runs, self.covering_run(8000, 128, all_reduce[8000] + gap(250))

    def test_coverage_fits_the_gaps_to_all_reduce(self):
        runs, held_out = self.covering_runs(lambda coverage: 0.8 * coverage ** -0.5)
        runs.append(self.covering_run(2000, 0, 3.3, lr=1e-2))
        runs.append(self.covering_run(2000, 8, 4.5, lr=1e-2))
        plot = self.folder / "coverage.png"
        result = self.plan_json("coverage", *runs, "--hold-out", held_out, "--plot", plot)
        # Tiles that are not full keep a rounded share of k.
        self.assertAlmostEqual(result["exponent"], -0.5, delta=0.03)
        self.assertAlmostEqual(result["scale"], 0.8, delta=0.05)
        self.assertEqual([run["fitted"] for run in result["runs"]], [True] * 3 + [False] * 2)
        last = result["runs"][-1]
        self.assertTrue(last["held_out"])
        self.assertAlmostEqual(last["predicted"], last["gap"], delta=0.01)
        self.assertTrue(2000 < last["all_reduce_steps"] < 8000)
        self.assertGreater(plot.stat().st_size, 5000)
        text = self.plan("coverage", *runs, "--hold-out", held_out).stdout
        self.assertIn("held out", text)
        self.assertIn("another is better", text)

    def test_coverage_follows_runs_that_end_ahead(self):
        runs, held_out = self.covering_runs(lambda coverage: 0.8 * coverage ** -0.5 - 0.18)
        result = self.plan_json("coverage", *runs, "--hold-out", held_out, "--lead", "0.18")
        self.assertAlmostEqual(result["exponent"], -0.5, delta=0.03)
        self.assertEqual([run["fitted"] for run in result["runs"]], [True] * 3 + [False])
        self.assertLess(result["runs"][2]["gap"], 0)
        self.assertAlmostEqual(result["runs"][-1]["predicted"], result["runs"][-1]["gap"],
                               delta=0.01)
        text = self.plan("coverage", *runs, "--lead", "0.05").stderr
        self.assertIn("or ahead by less than --lead, of at least two coverages, got 2", text)

    # The planner's own runs: those with the longest runs held out predict their mean to 0.03 nats.
    def test_coverage_predicts_the_longest_runs_with_muon(self):
        name = "172 k, 41000 steps, k 3"
        result = self.plan_json("coverage", "--update", "muon", "--hold-out", name)
        held_out = [run for run in result["runs"] if run["held_out"]]
        self.assertEqual([run["run"] for run in held_out], [name] * 3)
        mean = sum(run["gap"] for run in held_out) / 3
        predicted = held_out[0]["predicted"]
        self.assertAlmostEqual(predicted, mean, delta=0.03)
        for run in held_out:
            self.assertLess(run["interval"][0], mean)
            self.assertLess(mean, run["interval"][1])
        done = self.plan("coverage", "--update", "sign")
        self.assertIn("gap = 0.587 coverage^-0.477, ", done.stdout)

    def test_coverage_wants_runs_or_an_update(self):
        done = self.plan("coverage")
        self.assertEqual(done.returncode, 2)
        self.assertIn("give run folders, or --update for the planner's own runs", done.stderr)
        done = self.plan("coverage", "--update", "muon", "--hold-out", "longest")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--hold-out: no run is called 'longest'", done.stderr)

    def test_coverage_names_what_is_missing(self):
        vocabulary = ("model.vocab=512",)
        distro = self.run_folder("distro", 1000, 4.0, fields=vocabulary)
        done = self.plan("coverage", distro)
        self.assertEqual(done.returncode, 2)
        self.assertIn("none of the runs by all-reduce has its model, text", done.stderr)
        all_reduce = self.run_folder("allreduce", 1000, 3.0, fields=vocabulary)
        done = self.plan("coverage", distro, all_reduce)
        self.assertIn("a law of coverage needs 3 runs by distro", done.stderr)
        done = self.plan("coverage", self.run_folder("diloco", 1000, 3.0))
        self.assertIn("compares runs by allreduce and distro, got one by diloco", done.stderr)

    def test_fit_names_what_is_missing(self):
        run = self.run_folder("allreduce", 1000, 4.0)
        done = self.plan("fit", run)
        self.assertEqual(done.returncode, 2)
        self.assertIn("models of at least 2 sizes", done.stderr)
        done = self.plan("fit", run, "--set", "kjv")
        self.assertIn("has no validation set 'kjv'; it has validation", done.stderr)
        done = self.plan("fit", self.folder)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
