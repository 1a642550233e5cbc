#include "thinwire/hosts/served_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/config/automatic.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/hosts/run_servers.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/hosts/shared_recipe.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/member/member.h"
#include "thinwire/member/snapshot.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/automatic.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/privacy/privacy.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/initial_model.h"
#include "thinwire/train/resolve.h"
#include "thinwire/train/run_tasks.h"
#include "thinwire/train/task_files.h"

namespace thinwire::hosts {
namespace {

constexpr const char* kDescriptionFile = "description.json";
constexpr const char* kKeyFile = "coordinator.key";
constexpr double kServerEndsSeconds = 10;  // a nats-server ends within this time after its parent

// The prepared texts; neither for an external model, whose rows only the members' programs know.
struct PreparedText {
  std::unique_ptr<data::Vocabulary> vocabulary;
  std::map<std::string, data::TokenSet> sets;
};

std::vector<std::string> validation_names(const std::map<std::string, data::TokenSet>& sets) {
  std::vector<std::string> names;
  for (const auto& [name, tokens] : sets) {
    if (name != "train") names.push_back(name);
  }
  return names;
}

// Fills in what depends on the prepared data. The fields of a machine get their defaults: they are
// each member's own choice, and the coordinator does not train.
void resolve(config::Recipe& recipe, const data::Vocabulary* vocabulary) {
  const config::TrainSection defaults;
  recipe.train.threads = defaults.threads;
  recipe.train.device = defaults.device;
  if (recipe.train.weights == WeightFormat::kF32) recipe.train.precision = defaults.precision;
  if (vocabulary == nullptr) return train::resolve_machine(recipe);
  train::take_initial_model(recipe);
  train::resolve(recipe, *vocabulary);
}

// A run opens with train.workers members.
void check_room(const config::Recipe& recipe) {
  const membership::RecipePlan plan(recipe, method::tensors_of(recipe));
  const uint64_t room = room_for_members(plan, membership::options_of(recipe.sync));
  if (plan.workers() <= room) return;
  throw UsageError(fmt::format(
      "[train] workers must be at most {} on many hosts with sync.method = \"{}\", got {}: the "
      "ledger's records have room for no more",
      room, recipe.sync.method, plan.workers()));
}

// The description of the run in the folder as it was founded; none if no run was.
std::optional<RunDescription> founded_in(const fs::path& folder) {
  const fs::path file = folder / kDescriptionFile;
  if (!fs::exists(file)) return std::nullopt;
  const std::string text = read_text_file(file);
  Result<RunDescription> before = decode_description(as_bytes(text));
  if (!before) throw Error(fmt::format("{}: {}", file.string(), before.error().message));
  return std::move(*before);
}

config::Recipe recipe_of(const RunDescription& description, const std::string& origin) {
  return config::parse_recipe(description.recipe, origin, {}, method::method_sections());
}

// What differs between two recipes of a run, in one sentence.
std::string differences_of(const RunDescription& before, const std::string& origin,
                           const config::Recipe& now) {
  return fmt::format("{}", fmt::join(shared_differences(recipe_of(before, origin), now), "; "));
}

// A later start must describe the run as it was founded.
void check_founded(const RunDescription& before, const config::Recipe& recipe,
                   const RunDescription& now) {
  const std::string differences = differences_of(before, kDescriptionFile, recipe);
  if (!differences.empty()) {
    throw UsageError(
        fmt::format("{} holds a run of another recipe: {}; set it back, or choose another run.dir",
                    recipe.run.dir, differences));
  }
  if (before.sets != now.sets || before.vocabulary != now.vocabulary) {
    throw UsageError(fmt::format(
        "[data] dir: {} does not hold the tokens with which the run in {} started; set data.dir "
        "to the data of the run, or choose another run.dir",
        recipe.data.dir, recipe.run.dir));
  }
}

std::string_view how_served(ServedBy by) {
  switch (by) {
    case ServedBy::kOwnServer:
      return "has a server of its own; serve it without --nats and --mailbox";
    case ServedBy::kCluster:
      return "is on a cluster; serve it with --nats and --creds";
    case ServedBy::kMailbox:
      return "has a mailbox; serve it with --mailbox";
  }
  return "";
}

void check_served_by(const fs::path& folder, ServedBy by) {
  const auto before = served_by(folder / kServerFolder);
  if (!before || *before == by) return;
  throw UsageError(fmt::format("the run in {} {}, or choose another run.dir", folder.string(),
                               how_served(*before)));
}

// Claims the folder for the run.
void take_folder(ServedRun& run, const fs::path& folder) {
  run.claim = std::make_unique<checkpoint::FolderClaim>(folder, checkpoint::FolderOwner::kServe,
                                                        kServerEndsSeconds, Inherited::kYes);
  make_private_folder(folder / kServerFolder);
}

// Makes the coordinator's key, unless the folder has one.
void make_key(const fs::path& folder, const RunServers& servers, uint64_t run,
              const std::string& name) {
  const fs::path file = folder / kServerFolder / kKeyFile;
  if (!fs::exists(file)) store_seed(file, servers.new_seed(run, name));
}

RunDescription describe_run(const config::Recipe& recipe, const PreparedText& text) {
  RunDescription description;
  description.numerics = checkpoint::kNumericsVersion;
  description.recipe = shared_recipe_text(recipe);
  if (text.vocabulary) description.vocabulary = describe_vocabulary(*text.vocabulary);
  description.sets = describe_sets(text.sets, recipe.data.own);
  description.own = recipe.data.own;
  return description;
}

uint64_t run_id(const config::Recipe& recipe, const PreparedText& text) {
  if (!text.vocabulary) {
    return checkpoint::new_run_id({recipe, 0, checkpoint::kNoTexts}, checkpoint::kNumericsVersion);
  }
  checkpoint::DataDigests digests;
  for (const auto& [name, tokens] : text.sets) digests.emplace(name, tokens.digest());
  return checkpoint::new_run_id({recipe, text.vocabulary->digest(), digests},
                                checkpoint::kNumericsVersion);
}

// Describes the base in train.init, or checks that it is the one that is described.
void take_base(ServedRun& run, const config::Recipe& recipe, uint64_t digest,
               const events::MessageSink& message) {
  if (digest == 0) return;
  std::optional<DescribedBase>& base = run.description.base;
  const std::vector<fs::path> files = train::initial_model_files(recipe);
  const bool is_new = !base;
  if (is_new) base = describe_base(digest, files);
  if (base->digest != digest) {
    throw UsageError(fmt::format(
        "[train] init: the weights in {} have the digest {}, and those of the base with which the "
        "run in {} started {}; name the original one, or choose another run.dir",
        recipe.train.init, to_hex(digest), recipe.run.dir, to_hex(base->digest)));
  }
  const fs::path folder = files.front().parent_path();
  if (is_new || has_files(folder, *base)) {
    run.files.merge(base_parts(*base, folder));
    return;
  }
  message(
      fmt::format("[train] init: {} holds the base's weights in other files than those with which "
                  "the run started, so members cannot receive the base; they need a copy of their "
                  "own (train.init=FOLDER)",
                  recipe.train.init));
}

// Makes snapshot 0, and the founding if there is none yet.
void found(ServedRun& run, const config::Recipe& recipe, const data::Vocabulary* vocabulary,
           uint64_t id, const events::MessageSink& message) {
  membership::Founding& founding = run.description.founding;
  member::InitialState initial =
      member::make_initial_state(recipe, vocabulary, sha256(as_bytes(run.description.recipe)), id,
                                 {make_signer(run.seed)->key()}, message);
  if (!founding.coordinators.empty() && founding != initial.founding) {
    throw UsageError(
        fmt::format("{} holds a run that started with different weights or a different "
                    "coordinator.key; choose another run.dir",
                    recipe.run.dir));
  }
  founding = std::move(initial.founding);
  run.weights = std::move(initial.weights);
  take_base(run, recipe, initial.base_digest, message);
}

// Describes the tasks' files, or checks that they are those that are described.
void take_tasks(ServedRun& run, const config::Recipe& recipe, bool is_founded) {
  std::vector<NamedFile> files;
  for (const train::TaskFile& one : train::task_files(recipe))
    files.push_back({one.name, one.path});
  std::optional<DescribedBase> tasks;
  if (!files.empty()) {
    tasks = describe_files(0, files);
    run.files.merge(file_parts(*tasks, files));
  }
  if (is_founded && tasks != run.description.tasks) {
    throw UsageError(fmt::format(
        "[eval] data: the files of the tasks in {} are not those with which the run in {} started; "
        "put them back, or choose another run.dir",
        recipe.eval.data, recipe.run.dir));
  }
  run.description.tasks = std::move(tasks);
}

void store_description(ServedRun& run, const config::Recipe& recipe) {
  const fs::path folder = recipe.run.dir;
  for (const auto& [name, text] : train::origin_files(recipe, {})) {
    write_file(folder / name, text);
    run.description.model_files = transport::blob_id(as_bytes(text));
  }
  write_file(folder / checkpoint::kRecipeFile, config::print_recipe(recipe));
  AtomicFile file(folder / kDescriptionFile);
  file.write(encode_description(run.description));
  file.commit();
}

}  // namespace

fs::path served_folder(const config::Recipe& recipe) {
  if (recipe.given.contains("run.dir")) return recipe.run.dir;
  const std::string own = recipe.run.dir + "-served";
  const bool earlier = fs::exists(fs::path(recipe.run.dir) / kServerFolder) && !fs::exists(own);
  return earlier ? recipe.run.dir : own;
}

Seed coordinator_seed(const fs::path& run_folder) {
  return load_seed(run_folder / kServerFolder / kKeyFile);
}

ServedRun open_served_run(config::Recipe recipe, const RunServers& servers,
                          const events::MessageSink& message) {
  servers.check(recipe.run.dir);
  check_servable(recipe);
  if (const auto before = founded_in(recipe.run.dir)) {
    config::take_open_numbers(recipe, recipe_of(*before, kDescriptionFile));
  }
  for (const std::string& number : method::automatic_numbers(recipe)) {
    message(number);
  }
  if (const std::string privacy = method::planned_privacy(recipe); !privacy.empty())
    message(privacy);
  PreparedText text;
  if (!method::is_external(recipe)) text.vocabulary = data::Vocabulary::load(recipe.data.dir);
  resolve(recipe, text.vocabulary.get());
  servers.resolve(recipe);
  check_room(recipe);
  std::vector<std::string> scores;
  if (text.vocabulary) {
    text.sets = data::open_sets(recipe.data.dir, text.vocabulary->digest());
    train::check_watch(recipe, validation_names(text.sets));
    for (const train::RunTask& task : train::read_run_tasks(recipe, *text.vocabulary, {})) {
      if (!task.note.empty()) message(task.note);
      for (std::string& name : train::score_names(task)) scores.push_back(std::move(name));
    }
  }
  ServedRun run;
  run.description = describe_run(recipe, text);
  const fs::path folder = recipe.run.dir;
  const uint64_t id = run_id(recipe, text);
  take_folder(run, folder);
  check_served_by(folder, servers.served_by());
  make_key(folder, servers, id, recipe.run.name);
  run.seed = coordinator_seed(folder);
  auto before = founded_in(folder);
  const bool is_founded = before.has_value();
  if (is_founded) {
    check_founded(*before, recipe, run.description);
    run.description = std::move(*before);
  }
  // The model in train.init may have moved since.
  found(run, recipe, text.vocabulary.get(), is_founded ? run.description.founding.run : id,
        message);
  if (text.vocabulary) take_tasks(run, recipe, is_founded);
  if (!is_founded) store_description(run, recipe);
  for (const DataFile& one : data_files(run.description)) {
    run.files.emplace(one.blob.name,
                      FilePart{fs::path(recipe.data.dir) / one.file, 0, one.blob.bytes});
  }
  if (run.description.model_files) {
    const transport::BlobId& texts = *run.description.model_files;
    run.files.emplace(texts.name, FilePart{folder / kModelFiles, 0, texts.bytes});
  }
  run.recipe = std::move(recipe);
  run.scores = std::move(scores);
  return run;
}

namespace {

// What differs between descriptions whose recipes are equal.
std::string other_than_recipe(const RunDescription& now, const RunDescription& founded) {
  if (!now.base || !founded.base || now.base == founded.base) {
    return "its data or initial weights differ";
  }
  if (now.base->digest != founded.base->digest) return "the weights of its base differ";
  return "the files of its base in [train] init differ, although their weights are equal";
}

}  // namespace

void check_same_run(const ServedRun& run, const RunDescription& founded) {
  if (founded == run.description) return;
  const std::string differences = differences_of(founded, "the run's recipe", run.recipe);
  throw UsageError(fmt::format(
      "the cluster has a different run called {}: {}; undo the change, or choose another run.name",
      run.recipe.run.name,
      differences.empty() ? other_than_recipe(run.description, founded) : differences));
}

namespace {

void store(transport::Courier& courier, std::shared_ptr<const Bytes> blob, const char* what,
           const std::atomic<bool>* stop) {
  Waiting<void> stored;
  courier.put(std::move(blob), transport::Priority::kBulk, stored.setter());
  const Result<void> result = stored.wait(stop);
  if (!result) throw Error(fmt::format("cannot store {}: {}", what, result.error().message));
}

}  // namespace

bool publish_run(transport::Courier& courier, const Signer& coordinator, const ServedRun& run,
                 const std::atomic<bool>* stop) {
  store(courier, run.weights, "the initial weights", stop);
  const auto store_file = [&](const transport::BlobId& blob, const char* what) {
    store(courier, std::make_shared<const Bytes>(read_part(run.files.at(blob.name), blob.name)),
          what, stop);
  };
  if (run.description.vocabulary) store_file(run.description.vocabulary->blob, "the vocabulary");
  if (run.description.model_files) {
    store_file(*run.description.model_files, "the files of the model");
  }
  const auto description = std::make_shared<const Bytes>(encode_description(run.description));
  store(courier, description, "the run's description", stop);
  Waiting<uint64_t> appended;
  courier.append(kEntryStream, 0, encode_entry(transport::blob_id(*description), coordinator),
                 appended.setter());
  const Result<uint64_t> result = appended.wait(stop);
  if (result) return true;
  if (result.error().kind != FailureKind::kStaleRound) {
    throw Error("cannot publish the run's description: " + result.error().message);
  }
  check_same_run(run, fetch_description(courier, coordinator.key(), {}, nullptr));
  return false;
}

}  // namespace thinwire::hosts
