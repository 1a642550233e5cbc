// What each command cannot do with a recipe.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/config/changes.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/refusals.h"
#include "thinwire/optimizers/galore/galore_spec.h"

namespace thinwire::method {
namespace {

// "[table] field must be RIGHT WHERE, got VALUE: WHY".
struct Refusal {
  Command command;
  std::string_view field;  // "table.field"
  std::string_view right;
  bool (*refuses)(const Recipe& recipe);
  std::string_view why;
};

std::string_view where(Command command) {
  constexpr std::array<std::string_view, 5> kWhere = {
      "without a coordinator", "for members on many hosts", "with --mailbox",
      "where the ranks of a site compute one worker's gradients", "for audits"};
  return kWhere[static_cast<size_t>(command)];
}

bool sends_projections(const Recipe& recipe) {
  if (local_updates(recipe)) return false;
  ModelSpec model(recipe);
  model.vocab = std::max<int64_t>(model.vocab, 1);  // may not be known yet, and does not matter
  const std::vector<TensorSpec> tensors = tensors_of(model);
  return !std::ranges::equal(gradient_tensors(optimizer_options(recipe), tensors), tensors, {},
                             &TensorSpec::shape, &TensorSpec::shape);
}

constexpr auto kTrain = Command::kTrain;
constexpr auto kServe = Command::kServe;
constexpr auto kMailbox = Command::kMailbox;
constexpr auto kSite = Command::kSite;
constexpr auto kAudit = Command::kAudit;

const Refusal kRefusals[] = {
    {kTrain, "sync.late", "\"drop\"",
     [](const Recipe& recipe) { return recipe.sync.late != config::LateContributions::kDrop; },
     "threads and ranks wait for all workers, so nothing is late; `thinwire serve` counts it"},
    {kTrain, "sync.quorum", "1", [](const Recipe& recipe) { return recipe.sync.quorum != 1; },
     "threads and ranks wait for all workers; `thinwire serve` closes rounds with a quorum"},
    {kTrain, "data.own", "false", [](const Recipe& recipe) { return recipe.data.own; },
     "the workers of one command read one prepared text; members of `thinwire serve` may each have "
     "their own"},
    {kTrain, "data.fetch", "\"all\"",
     [](const Recipe& recipe) { return recipe.data.fetch != config::FetchData::kAll; },
     "the data are on this machine; members of a run of many hosts fetch them"},
    {kServe, "sync.within", "\"none\"",
     [](const Recipe& recipe) { return recipe.sync.clustered(); },
     "machines that sum at every step are one member here, as the ranks of a site: `mpirun "
     "thinwire join` (docs/mpi.md)"},
    {kServe, "train.update", "\"step\"",
     [](const Recipe& recipe) {
       return recipe.train.update == config::UpdateTime::kLayer && !local_updates(recipe);
     },
     "each layer's sum is needed before the next layer's is sent, which would take a message there "
     "and back to the coordinator for each layer of every step; local_sgd and diloco update layer "
     "by "
     "layer between exchanges"},
    {kServe, "optim.gradients", "\"whole\"",
     [](const Recipe& recipe) {
       return projects(recipe) && !local_updates(recipe) && !draws_bases(recipe);
     },
     "the sums that renew a basis are needed one after another, which would take a message there "
     "and "
     "back to the coordinator for each; or galore with galore.basis = \"seeded\", which needs "
     "none"},
    {kServe, "sync.absent", "empty",
     [](const Recipe& recipe) { return !recipe.sync.absent.empty(); },
     "members join and leave by themselves"},
    {kServe, "links.step_s", "0", [](const Recipe& recipe) { return recipe.links.step_s > 0; },
     "simulated links need all workers in one process"},
    {kServe, "links.paced", "false", [](const Recipe& recipe) { return recipe.links.paced; },
     "members have lines of their own"},
    {kMailbox, "sync.sums", "\"members\" or \"auto\"",
     [](const Recipe& recipe) { return recipe.sync.sums == config::Sums::kCoordinator; },
     "everybody receives every contribution there"},
    {kSite, "optim.gradients", "\"whole\"", projects,
     "only rank 0 has the bases of the projections; whole gradients, also with train.update = "
     "\"layer\", are summed over the ranks"},
    {kSite, "model.architecture", "one that thinwire computes", is_external,
     "the other ranks compute gradients, too, and only the program has the model"},
    {kAudit, "model.architecture", "one that thinwire computes", is_external,
     "an auditor computes gradients itself, and only the program has the model"},
    {kAudit, "data.records", "another than \"preferences\"",
     [](const Recipe& recipe) { return recipe.data.records == config::RecordKind::kPreferences; },
     "what is learnt from pairs of answers is not compared"},
    {kAudit, "data.own", "false", [](const Recipe& recipe) { return recipe.data.own; },
     "an auditor computes the gradients of the rows that a member was given, and these are of the "
     "member's own text, which never leaves it"},
    {kAudit, "train.launcher", "\"threads\"",
     [](const Recipe& recipe) { return recipe.train.launcher == config::Launcher::kMpi; },
     "an auditor computes the gradients of single members, one after another"},
    {kAudit, "optim.gradients", "\"whole\"", sends_projections,
     "members would send projections of gradients, which are compared with nothing"},
};

void refuse(const Refusal& refusal, const Recipe& recipe) {
  const size_t dot = refusal.field.find('.');
  throw UsageError(fmt::format("[{}] {} must be {} {}, got {}: {}", refusal.field.substr(0, dot),
                               refusal.field.substr(dot + 1), refusal.right, where(refusal.command),
                               config::printed_value(recipe, refusal.field), refusal.why));
}

}  // namespace

void check_command(const Recipe& recipe, Command command) {
  for (const Refusal& refusal : kRefusals) {
    if (refusal.command == command && refusal.refuses(recipe)) refuse(refusal, recipe);
  }
}

void require_initial_model(const Recipe& recipe) {
  if (recipe.data.records != config::RecordKind::kPreferences || !recipe.train.init.empty()) return;
  throw UsageError(
      "[data] records = \"preferences\" needs [train] init: preferences are learnt against the "
      "model that training starts from");
}

}  // namespace thinwire::method
