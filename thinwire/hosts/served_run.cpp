#include "thinwire/hosts/served_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/data/token_sets.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/hosts/secrets.h"
#include "thinwire/hosts/shared_recipe.h"
#include "thinwire/member/initial_state.h"
#include "thinwire/member/member.h"
#include "thinwire/membership/room.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/initial_model.h"
#include "thinwire/train/resolve.h"

namespace thinwire::hosts {
namespace {

constexpr const char* kDescriptionFile = "description.json";
constexpr const char* kKeyFile = "coordinator.key";
constexpr const char* kLockFile = "lock";
constexpr double kServerEndsSeconds = 10;  // a nats-server ends within this time after its parent

// Fills in what depends on the prepared data. The fields of a machine get their defaults: they are
// each member's own choice, and the coordinator does not train.
void resolve(config::Recipe& recipe, const data::Vocabulary& vocabulary) {
  const config::TrainSection defaults;
  recipe.train.threads = defaults.threads;
  recipe.train.device = defaults.device;
  recipe.train.precision = defaults.precision;
  train::take_initial_model(recipe);
  train::resolve(recipe, vocabulary);
}

// In a mailbox everybody receives every contribution, so a sum would be one buffer more.
void resolve_sums(config::Recipe& recipe, Carrier carrier) {
  if (carrier != Carrier::kMailbox) return;
  if (recipe.sync.sums == config::Sums::kCoordinator) {
    throw UsageError(
        "[sync] sums must be \"members\" or \"auto\" with --mailbox, got \"coordinator\": "
        "everybody "
        "receives every contribution there");
  }
  recipe.sync.sums = config::Sums::kMembers;
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

// What differs between two recipes of a run, in one sentence.
std::string differences_of(const RunDescription& before, const std::string& origin,
                           const config::Recipe& now) {
  const auto differences = shared_differences(
      config::parse_recipe(before.recipe, origin, {}, method::method_sections()), now);
  return fmt::format("{}", fmt::join(differences, "; "));
}

// The run's description as it was founded. A later start must describe the same run.
RunDescription founded(const config::Recipe& recipe, const RunDescription& now) {
  const fs::path file = fs::path(recipe.run.dir) / kDescriptionFile;
  const std::string text = read_text_file(file);
  Result<RunDescription> before = decode_description(as_bytes(text));
  if (!before) throw Error(fmt::format("{}: {}", file.string(), before.error().message));
  const std::string differences = differences_of(*before, file.string(), recipe);
  if (!differences.empty()) {
    throw UsageError(
        fmt::format("{} holds a run of another recipe: {}; set it back, or choose another run.dir",
                    recipe.run.dir, differences));
  }
  if (before->sets != now.sets || before->vocabulary != now.vocabulary) {
    throw UsageError(fmt::format(
        "[data] dir: {} does not hold the tokens with which the run in {} started; set data.dir "
        "to the data of the run, or choose another run.dir",
        recipe.data.dir, recipe.run.dir));
  }
  return std::move(*before);
}

std::string_view how_served(Carrier carrier) {
  switch (carrier) {
    case Carrier::kOwnServer:
      return "has a server of its own; serve it without --nats and --mailbox";
    case Carrier::kCluster:
      return "is on a cluster; serve it with --nats and --creds";
    case Carrier::kMailbox:
      return "has a mailbox; serve it with --mailbox";
  }
  return "";
}

void check_carrier(const fs::path& folder, Carrier carrier) {
  const auto before = carrier_of(folder / kServerFolder);
  if (!before || *before == carrier) return;
  throw UsageError(fmt::format("the run in {} {}, or choose another run.dir", folder.string(),
                               how_served(*before)));
}

// Claims the folder for the run.
void take_folder(ServedRun& run, const fs::path& folder) {
  const fs::path server = folder / kServerFolder;
  if (fs::exists(folder) && !fs::is_empty(folder) && !fs::exists(server)) {
    throw UsageError(
        fmt::format("[run] dir {} holds something that is not a run of `thinwire serve`; "
                    "choose another folder",
                    folder.string()));
  }
  make_private_folder(server);
  run.lock = std::make_unique<FolderLock>(
      server / kLockFile, kServerEndsSeconds,
      fmt::format("another process serves the run in {}", folder.string()), Inherited::kYes);
}

// Makes the coordinator's key, unless the folder has one.
void make_key(const fs::path& folder, const std::optional<transport::AccountKey>& account,
              uint64_t run, const std::string& name) {
  const fs::path file = folder / kServerFolder / kKeyFile;
  if (fs::exists(file)) return;
  store_seed(file, account ? coordinators_seed(*account, run, name) : make_seed());
}

RunDescription describe_run(const config::Recipe& recipe, const data::Vocabulary& vocabulary,
                            const std::map<std::string, data::TokenSet>& sets) {
  RunDescription description;
  description.numerics = checkpoint::kNumericsVersion;
  description.recipe = shared_recipe_text(recipe);
  description.vocabulary = describe_vocabulary(vocabulary);
  description.sets = describe_sets(sets);
  return description;
}

uint64_t run_id(const config::Recipe& recipe, const data::Vocabulary& vocabulary,
                const std::map<std::string, data::TokenSet>& sets) {
  checkpoint::DataDigests digests;
  for (const auto& [name, tokens] : sets) digests.emplace(name, tokens.digest());
  return checkpoint::new_run_id({recipe, vocabulary.digest(), digests},
                                checkpoint::kNumericsVersion);
}

// Makes snapshot 0, and the founding if there is none yet.
void found(ServedRun& run, const config::Recipe& recipe, const data::Vocabulary& vocabulary,
           uint64_t id) {
  membership::Founding& founding = run.description.founding;
  member::InitialState initial =
      member::make_initial_state(recipe, vocabulary, sha256(as_bytes(run.description.recipe)), id,
                                 {make_signer(run.seed)->key()});
  if (!founding.coordinators.empty() && founding != initial.founding) {
    throw UsageError(
        fmt::format("{} holds a run that started with different weights or a different "
                    "coordinator.key; choose another run.dir",
                    recipe.run.dir));
  }
  founding = std::move(initial.founding);
  run.weights = std::move(initial.weights);
}

void store_description(const ServedRun& run, const config::Recipe& recipe) {
  const fs::path folder = recipe.run.dir;
  write_file(folder / checkpoint::kRecipeFile, config::print_recipe(recipe));
  AtomicFile file(folder / kDescriptionFile);
  file.write(encode_description(run.description));
  file.commit();
}

}  // namespace

Seed coordinator_seed(const fs::path& run_folder) {
  return load_seed(run_folder / kServerFolder / kKeyFile);
}

ServedRun open_served_run(config::Recipe recipe, Carrier carrier,
                          const std::optional<transport::AccountKey>& account) {
  check_servable(recipe);
  const auto vocabulary = data::Vocabulary::load(recipe.data.dir);
  resolve(recipe, *vocabulary);
  resolve_sums(recipe, carrier);
  check_room(recipe);
  const auto sets = data::open_sets(recipe.data.dir, vocabulary->digest());
  ServedRun run;
  run.description = describe_run(recipe, *vocabulary, sets);
  const fs::path folder = recipe.run.dir;
  const uint64_t id = run_id(recipe, *vocabulary, sets);
  take_folder(run, folder);
  check_carrier(folder, carrier);
  make_key(folder, account, id, recipe.run.name);
  run.seed = coordinator_seed(folder);
  const bool is_founded = fs::exists(folder / kDescriptionFile);
  if (is_founded) run.description = founded(recipe, run.description);
  found(run, recipe, *vocabulary, id);
  if (!is_founded) store_description(run, recipe);
  for (const DataFile& one : data_files(run.description)) {
    run.files.emplace(one.blob.name, fs::path(recipe.data.dir) / one.file);
  }
  run.recipe = std::move(recipe);
  return run;
}

void check_same_run(const ServedRun& run, const RunDescription& founded) {
  if (founded == run.description) return;
  const std::string differences = differences_of(founded, "the run's recipe", run.recipe);
  throw UsageError(fmt::format(
      "the cluster has a different run called {}: {}; undo the change, or choose another run.name",
      run.recipe.run.name,
      differences.empty() ? "its data or initial weights differ" : differences));
}

}  // namespace thinwire::hosts
