#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"
#include "thinwire/model/registry.h"
#include "thinwire/train/gradients.h"
#include "thinwire/train/params_digest.h"
#include "thinwire/train/reference.h"

namespace thinwire::train {
namespace {

constexpr double kShownEvery = 10;    // seconds
constexpr double kWrittenEvery = 60;  // seconds
constexpr const char* kTrain = "train";

// A set of the run, and what is known of it.
struct Set {
  UsedRows used;
  fs::path file;
  KnownPairs known;
  uint64_t rows = 0;  // whose pairs are known

  bool complete() const { return rows == used.count; }
};

uint64_t key_of(const ReferenceParts& parts, const std::string& name, uint64_t order) {
  const config::TrainSection& train = parts.recipe.train;
  const std::vector<uint64_t> facts = {
      parts.corpus.digests.at(name), static_cast<uint64_t>(train.sequence), uint64_t{train.packing},
      static_cast<uint64_t>(train.long_records), order};
  return hash_bytes(as_bytes(std::span<const uint64_t>(facts)));
}

// Training uses the rows of the first pass from its first on, validation rows from all of its set.
UsedRows rows_in_use(const ReferenceParts& parts, const std::string& name) {
  const config::Recipe& recipe = parts.recipe;
  if (name == kTrain) {
    const uint64_t all = parts.corpus.rows.count();
    const auto taken = static_cast<uint64_t>(recipe.train.steps * recipe.train.batch);
    const uint64_t count = std::min(all, taken);
    return {&parts.corpus.rows, count, count,
            key_of(parts, name, static_cast<uint64_t>(recipe.run.seed))};
  }
  const data::Rows& rows = parts.corpus.validation.at(name);
  const uint64_t count = evaluated_rows(recipe.eval, rows);
  return {&rows, count, rows.count(), key_of(parts, name, count)};
}

// Takes of what a file holds the whole rows in use.
void take(std::vector<PairLikelihoods> pairs, Set& set) {
  uint64_t taken = 0;
  for (; set.rows < set.used.count; ++set.rows) {
    const uint64_t count = set.used.rows->pairs_of(set.used.index(set.rows)).count;
    if (taken + count > pairs.size()) break;
    taken += count;
  }
  pairs.resize(taken);
  set.known.pairs = std::move(pairs);
}

std::map<std::string, Set> find_sets(const ReferenceParts& parts, std::optional<uint64_t> model) {
  std::map<std::string, Set> sets;
  for (const auto& [name, digest] : parts.corpus.digests) {
    Set& set = sets[name];
    set.used = rows_in_use(parts, name);
    set.file = parts.folder / "reference" / (name + ".pairs");
    auto known = read_known_pairs(set.file, set.used.key, parts.message);
    if (!known || (model && known->model != *model)) continue;
    set.known.model = known->model;
    take(std::move(known->pairs), set);
  }
  return sets;
}

uint64_t digest_of(const StartingWeights& weights, ThreadPool& threads) {
  std::vector<uint64_t> digests = {bytes_digest(std::as_const(*weights.trained).bytes(), threads)};
  if (weights.frozen) digests.push_back(bytes_digest(weights.frozen->values.bytes(), threads));
  return hash_bytes(as_bytes(std::span<const uint64_t>(digests)));
}

void check_model(const config::Recipe& recipe, const Set& set, uint64_t model) {
  if (set.rows == 0 || set.known.model == model) return;
  throw Error(fmt::format(
      "[train] init: {} no longer holds the weights that the run began with, which its reference "
      "in {} needs; put them back, or choose another run.dir",
      recipe.train.init, set.file.string()));
}

// Shown once, by the process that keeps the files.
void show(const ReferenceParts& parts, const std::string& text) {
  if (parts.writes) parts.message(text);
}

class Computation {
 public:
  Computation(const ReferenceParts& parts, StartingWeights& weights, ThreadPool& threads)
      : parts_(parts),
        batch_(static_cast<size_t>(method::rows_per_pass(parts.recipe.train))),
        model_(model::make_model(
            {method::ModelSpec(parts.recipe), parts.recipe.train.precision, parts.layout,
             *weights.trained, threads, static_cast<int64_t>(batch_), parts.recipe.train.sequence,
             model::placement_of(parts.recipe.train.device),
             weights.frozen ? &weights.frozen->values : nullptr, parts.recipe.adapter})) {
    model_->refresh();
  }

  void complete(const std::string& name, Set& set) {
    double shown = monotonic_seconds(), written = shown;
    while (!set.complete()) {
      add_rows(set);
      const double now = monotonic_seconds();
      if (now - shown > kShownEvery) {
        shown = now;
        const double done = static_cast<double>(set.rows) / static_cast<double>(set.used.count);
        show(parts_, fmt::format("reference of {}: {:.0f} %", name, 100 * done));
      }
      if (now - written < kWrittenEvery && !set.complete()) continue;
      written = now;
      if (parts_.writes) write_known_pairs(set.file, set.used.key, set.known);
    }
  }

 private:
  void add_rows(Set& set) {
    std::vector<uint64_t> indices(std::min<uint64_t>(batch_, set.used.count - set.rows));
    for (uint64_t& index : indices) index = set.used.index(set.rows++);
    const data::RowBlock block = set.used.rows->read(indices);
    PairScores pairs;
    model_->loss(block.tokens, std::ssize(indices), {block.weights, block.begins}, pairs);
    set.known.pairs.insert(set.known.pairs.end(), pairs.scores.begin(), pairs.scores.end());
  }

  const ReferenceParts& parts_;
  const size_t batch_;
  const std::unique_ptr<model::Model> model_;
};

void complete(const ReferenceParts& parts, StartingWeights& weights, ThreadPool& threads,
              uint64_t model, std::map<std::string, Set>& sets) {
  uint64_t rows = 0;
  for (const auto& [name, set] : sets) {
    check_model(parts.recipe, set, model);
    rows += set.used.count - set.rows;
  }
  show(parts,
       fmt::format("computing the reference, the log-likelihoods of {} with the model at the start",
                   counted(rows, "row")));
  const Stopwatch watch;
  Computation computation(parts, weights, threads);
  for (auto& [name, set] : sets) {
    set.known.model = model;
    computation.complete(name, set);
  }
  show(parts, fmt::format("computed in {}", format_seconds(watch.seconds())));
}

}  // namespace

std::shared_ptr<const Reference> make_reference(const ReferenceParts& parts) {
  if (!parts.corpus.rows.pairs()) return nullptr;
  ThreadPool threads(parts.threads);
  std::optional<StartingWeights> weights;
  std::optional<uint64_t> model;
  const auto load = [&] {
    weights = parts.start();
    model = digest_of(*weights, threads);
  };
  if (!parts.resumes) load();
  std::map<std::string, Set> sets = find_sets(parts, model);
  if (!std::ranges::all_of(sets, [](const auto& set) { return set.second.complete(); })) {
    if (!weights) load();
    complete(parts, *weights, threads, *model, sets);
  }
  auto reference = std::make_shared<Reference>();
  for (const auto& [name, set] : sets) reference->add(name, set.used, set.known.pairs);
  return reference;
}

}  // namespace thinwire::train
