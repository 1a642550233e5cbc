// What goes with what. A feature is a value of a recipe's field that is not the default one, or a
// command that runs a recipe. Whether two go together is asked of the checks that the parser and
// the commands themselves make, so that the answer cannot differ from what they do.
// `thinwire recipe --combinations` prints it, docs/combinations.md holds it, and a test trains
// every pair of which it says yes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/recipe.h"

namespace thinwire::method {

// What runs a recipe: threads or MPI ranks of one job; a coordinator and members on many hosts; the
// same over a mailbox, with a member that is a site of several ranks, or with an auditor.
enum class Command : uint8_t { kTrain, kServe, kMailbox, kSite, kAudit };

// Throws UsageError for the first two features of the recipe that do not go together.
void check_pairs(const config::Recipe& recipe);

// Throws UsageError for what the command cannot do with the recipe, beyond what the other hosted
// commands and kServe cannot.
void check_command(const config::Recipe& recipe, Command command);
// Throws UsageError for a run that needs a model to begin with and has none. check_command does not
// ask for it, because members of a run receive its weights.
void require_initial_model(const config::Recipe& recipe);

using Overrides = std::vector<std::string>;  // "table.field=value"

struct Feature {
  std::string name;   // "adapter.kind = lora", "thinwire serve"
  std::string field;  // "adapter.kind"; empty for a command
  Overrides sets;     // empty for a command
  std::optional<Command> command;
  // What else must be set for it to mean something, in one of these ways; the first is preferred.
  // Where something else sets such a field, that value counts.
  std::vector<Overrides> needs = {{}};
};

// Every value but the default of each field with named values, fields of the same kind with numbers
// or lists, and commands. Fields that only describe text, model or schedule are no features.
const std::vector<Feature>& all_features();

struct Combination {
  // Empty if the two go together; else why they do not, in one sentence.
  std::string refusal;
  // One has no effect beside the other: no error, but of no use.
  bool idle = false;
  // What has to be set besides, beyond what each of them needs.
  Overrides besides = {};
  // A recipe in which they are together, as changes of the default one, and what runs it.
  Overrides overrides = {};
  Command command = Command::kTrain;

  bool works() const { return refusal.empty(); }
};

// nullopt for two values of one field, or two commands, of which a run has one.
std::optional<Combination> combine(const Feature& one, const Feature& other);

// All features and what does not go together, with reasons; or what the features of the given name,
// field or table go with and what not. Throws UsageError if there are none of that name.
std::string print_combinations(std::string_view which);

// The same as the page docs/combinations.md.
std::string combinations_page();

}  // namespace thinwire::method
