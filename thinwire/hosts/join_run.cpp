#include "thinwire/hosts/join_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/units.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/folder_claim.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/fetched_shards.h"
#include "thinwire/hosts/final_weights.h"
#include "thinwire/hosts/member_connection.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/hosts/run_display.h"
#include "thinwire/hosts/self_check.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/hosts/shared_recipe.h"
#include "thinwire/hosts/store_need.h"
#include "thinwire/member/member.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/resolve.h"
#include "thinwire/train/worker.h"

namespace thinwire::hosts {

SiteRanks::SiteRanks(const events::MessageSink& message)
    : job_(transport::join_mpi_job(0, {})),
      ranks_(
          transport::make_hub_communicator(job_->hub(job_->rank()), job_->size(), job_->rank())) {
  if (!leads() || count() == 1) return;
  job_->hub(0)->tell_waits([message](const std::vector<int>& others, double seconds) {
    message(fmt::format("waits for rank{} {} of this site, for {} so far",
                        others.size() == 1 ? "" : "s", fmt::join(others, ", "),
                        format_seconds(seconds)));
  });
  site_.emplace(*ranks_);
}

namespace {

constexpr const char* kSummaryFile = "summary.json";
constexpr const char* kDataFolder = "data";
constexpr const char* kNeededFolder = "data-needed";  // has shards' headers only
constexpr double kUploadSeconds = 600;                // for a shard to reach the store
constexpr size_t kShownOfRun = 8;

fs::path folder_of(const JoinOptions& options, const config::Recipe& local) {
  if (local.given.contains("run.dir")) return local.run.dir;
  return fs::path("runs") /
         ((options.audits ? "audited-" : "joined-") + options.access.run.substr(1, kShownOfRun));
}

// A member's key, checkpoint and place in the ledger are of one run.
void check_run(const fs::path& folder, const Access& access) {
  const fs::path file = folder / kOwnFolder / kRunFile;
  if (!fs::exists(file)) return;
  if (read_text_file(file) == access.run) return;
  throw UsageError(fmt::format(
      "[run] dir {} holds a member of another run than the one at {}; choose another folder",
      folder.string(), access.address()));
}

// A file of the run, which the coordinator stores on request.
Bytes fetch_file(MemberConnection& connection, const JoinOptions& options,
                 const transport::BlobId& blob, const std::string& what) {
  const auto asked = connection.requests().ask(
      RequestKind::kData, Bytes(blob.name.bytes.begin(), blob.name.bytes.end()), kUploadSeconds);
  if (!asked) throw Error(fmt::format("{} cannot be fetched: {}", what, asked.error().message));
  return fetch_blob(connection.courier(), what, blob, options.access.founder,
                    options.access.patience(), options.stop);
}

// What the member's checkpoints keep for an export, by file name; received once.
std::map<std::string, std::string> model_files(MemberConnection& connection,
                                               const JoinOptions& options,
                                               const RunDescription& description,
                                               const fs::path& folder) {
  if (!description.model_files) return {};
  const fs::path file = folder / kModelFiles;
  const auto is_there = [&] {
    return fs::exists(file) &&
           transport::blob_id(as_bytes(read_text_file(file))) == *description.model_files;
  };
  if (!is_there()) {
    const Bytes bytes =
        fetch_file(connection, options, *description.model_files, "the files of the model");
    AtomicFile out(file);
    out.write(bytes);
    out.commit();
  }
  return {{kModelFiles, read_text_file(file)}};
}

// Fetches `what` from the run, "the run's data", and shows how far it is.
Reception receive(MemberConnection& connection, const JoinOptions& options,
                  const std::string& what) {
  const auto shown = std::make_shared<std::optional<events::Progress>>();
  return {[&connection, &options, what](const transport::BlobId& blob) {
            return fetch_file(connection, options, blob, what);
          },
          [what, shown, silent = !options.display.progress](uint64_t done, uint64_t all) {
            if (!*shown) {
              shown->emplace("receiving " + what, static_cast<int64_t>(all),
                             events::ProgressOptions{.bytes = true, .silent = silent});
            }
            (*shown)->update(static_cast<int64_t>(done), {});
          }};
}

// Whether this program can train the run's model, and the description has what the model needs.
void check_model(const config::Recipe& recipe, const RunDescription& description,
                 const JoinOptions& options) {
  train::check_own_model(recipe, options.own_model);
  if (recipe.data.own != description.own) {
    throw Error(
        "the run's description is malformed: its recipe says otherwise whose text is learnt");
  }
  if (method::is_external(recipe) == !description.vocabulary) return;
  throw Error(
      fmt::format("the run's description is malformed: it has {} vocabulary with [model] "
                  "architecture = \"{}\"",
                  description.vocabulary ? "a" : "no", recipe.model.architecture));
}

// Whose text the run is trained on.
void check_own_text(const config::Recipe& recipe, const JoinOptions& options,
                    config::FetchData fetch) {
  if (options.audits) method::check_command(recipe, method::Command::kAudit);
  if (recipe.data.own && fetch == config::FetchData::kNeeded) {
    throw UsageError(
        "[data] fetch must be \"all\" in a run with own = true, got \"needed\": the rows that this "
        "member trains on are of its own text, and never fetched");
  }
  const bool named = !options.own_text.empty();
  if (recipe.data.own == named) return;
  throw UsageError(named ? "--data: the run has a text that all members train on, which they "
                           "receive; leave it out"
                         : "--data is needed: the members of this run train on texts of their own "
                           "([data] own = true); name a text, a folder of texts, a recipe, or a "
                           "folder that `thinwire prepare` has made");
}

// What is received of the run's data, with this machine's own text.
fs::path find_own_data(MemberConnection& connection, const JoinOptions& options,
                       const RunDescription& description, const config::Recipe& recipe,
                       const fs::path& folder) {
  fs::path received = folder / kDataFolder;
  receive_data(received, description, receive(connection, options, "the run's vocabulary"));
  add_own_text({.given = options.own_text,
                .records = recipe.data.records,
                .prepared = folder / kOwnTextFolder,
                .stop = options.stop},
               received, description, options.display.message);
  return received;
}

// The run's data: in a folder; or `shards` has the tokens, of which the folder has the headers.
struct FoundData {
  fs::path folder;
  std::unique_ptr<FetchedShards> shards = {};
};

// With an external model there are none, and the folder is not used.
FoundData find_data(MemberConnection& connection, const JoinOptions& options,
                    const RunDescription& description, const config::Recipe& local,
                    const fs::path& folder) {
  if (!description.vocabulary) return {local.data.dir};
  fs::path received = folder / kDataFolder;
  if (local.given.contains("data.dir")) {
    const std::string why_not = differs_from(local.data.dir, description);
    if (why_not.empty()) return {local.data.dir};
    options.display.message(fmt::format("data.dir {} {}; the run's data is received into {}",
                                        local.data.dir, why_not, received.string()));
  }
  if (differs_from(received, description).empty()) return {received};
  if (local.data.fetch == config::FetchData::kNeeded) {
    const NeededData needed{folder / kNeededFolder, options.access.founder,
                            static_cast<uint64_t>(local.data.fetch_cache), options.stop};
    return {needed.folder, fetch_as_needed(connection, needed, description,
                                           receive(connection, options, "the run's vocabulary"),
                                           options.display.message)};
  }
  options.display.message(fmt::format("receives {} of data into {}",
                                      format_bytes(static_cast<double>(description.data_bytes())),
                                      received.string()));
  receive_data(received, description, receive(connection, options, "the run's data"));
  if (const std::string why = differs_from(received, description); !why.empty()) {
    throw Error(
        fmt::format("{} {}, although it was received from the run", received.string(), why));
  }
  return {received};
}

// Where the run's base is or will be: in a folder of this machine, or in what is received; empty if
// the run has none.
fs::path base_folder(const RunDescription& description, const config::Recipe& local,
                     const fs::path& folder) {
  if (description.base) {
    return local.train.init.empty() ? folder / kBaseFolder : fs::path(local.train.init);
  }
  if (local.train.init.empty()) return {};
  throw UsageError(
      fmt::format("[train] init must be empty for a run whose weights all come from "
                  "its coordinator, got \"{}\"",
                  local.train.init));
}

void find_base(MemberConnection& connection, const JoinOptions& options, const DescribedBase& base,
               const fs::path& folder) {
  if (fs::exists(folder)) return;
  options.display.message(
      fmt::format("receives {} of the base into {}; train.init=FOLDER names a "
                  "copy of this machine instead",
                  format_bytes(static_cast<double>(base.bytes())), folder.string()));
  receive_base(folder, base, receive(connection, options, "the run's base"));
}

void find_tasks(MemberConnection& connection, const JoinOptions& options,
                const RunDescription& description, const fs::path& run_folder) {
  const fs::path folder = run_folder / kTasksFolder;
  if (!description.tasks || fs::exists(folder)) return;
  receive_base(folder, *description.tasks, receive(connection, options, "the run's tasks"),
               "the run's tasks", "");
}

SelfCheck check_machine(MemberConnection& connection, const JoinOptions& options,
                        const membership::Founding& founding, const config::Recipe& recipe,
                        const SelfCheckOptions& limits) {
  const auto link =
      options.access.approach->measure(options.access, connection.courier(), connection.requests(),
                                       transport::BlobId{founding.weights, founding.weights_bytes});
  SelfCheck check = check_self(recipe, link, limits);
  for (const std::string& line : describe(check, recipe)) options.display.message("  " + line);
  return check;
}

// Returns whether the coordinator wants this member's weights. It does not matter if the summary
// does not arrive: the run's digest is in the ledger.
bool report_result(MemberConnection& connection, const member::MemberResult& result, double wait_s,
                   const events::MessageSink& message) {
  events::Summary summary = result.summary;
  if (result.is_private) {  // its own losses and weights tell of its text without noise
    summary.train_loss = std::numeric_limits<double>::quiet_NaN();
    std::erase_if(summary.val_loss,
                  [](const auto& one) { return one.first.ends_with(train::kOwnWeightsSuffix); });
  }
  const std::string text = events::print_summary(summary);
  const auto bytes = as_bytes(text);
  connection.requests().be_patient({});
  const auto taken =
      connection.requests().ask(RequestKind::kResult, Bytes(bytes.begin(), bytes.end()), wait_s);
  if (!taken) {
    message("the coordinator did not accept this member's result: " + taken.error().message);
    return false;
  }
  return *taken == Bytes{static_cast<uint8_t>(WeightsAnswer::kWanted)};
}

// The GPU is measured while there is such a meter.
EnergyMeter energy_meter(const EnergyRules& rules, config::DeviceChoice device) {
  const bool measured =
      rules.watts == 0 && device == config::DeviceChoice::kCuda && gpu_watts() >= 0;
  return {rules, measured ? std::make_unique<GpuMeter>(gpu_watts) : nullptr};
}

void check_energy(const EnergyRules& rules, config::Recipe local) {
  if (rules.grid_g_kwh == 0) return;
  train::resolve_machine(local);
  const std::string why = energy_meter(rules, local.train.device).why_unknown();
  if (why.empty()) return;
  throw UsageError(fmt::format(
      "--grid needs the energy that this machine uses, but {}; --watts says what it draws", why));
}

// Steps of the newest checkpoint.
int64_t steps_before(const fs::path& folder) {
  const auto newest = checkpoint::newest_checkpoint(folder / "checkpoints");
  return newest ? static_cast<int64_t>(checkpoint::CheckpointReader(*newest).meta().step) : 0;
}

// Takes part until the run is complete, or the member is told to stop or may not take part.
member::MemberResult take_part_with(MemberConnection& connection, const JoinOptions& options,
                                    const config::Recipe& local, const fs::path& folder,
                                    train::Site* site) {
  const RunDescription description = fetch_description(connection.courier(), options.access.founder,
                                                       options.access.patience(), options.stop);
  const SelfCheckOptions limits{.cap_bytes = options.memory_bytes,
                                .ranks = site == nullptr ? 1 : site->ranks(),
                                .audits = options.audits,
                                .message = options.display.message};
  const fs::path base = base_folder(description, local, folder);
  const config::Recipe unplaced =
      member_recipe(description.recipe, options.overrides, folder, {}, base);
  check_own_text(unplaced, options, local.data.fetch);
  if (!options.audits) {
    tell_privacy(connection.requests(), unplaced, folder, steps_before(folder),
                 options.most_epsilon, options.display.message);
  }
  check_model(unplaced, description, options);
  check_cap(unplaced, limits);
  const FoundData data =
      unplaced.data.own
          ? FoundData{find_own_data(connection, options, description, unplaced, folder)}
          : find_data(connection, options, description, local, folder);
  if (base == folder / kBaseFolder) find_base(connection, options, *description.base, base);
  find_tasks(connection, options, description, folder);
  const config::Recipe recipe =
      member_recipe(description.recipe, options.overrides, folder, data.folder, base);
  const SelfCheck check = check_machine(connection, options, description.founding, recipe, limits);
  const fs::path recipe_file = folder / checkpoint::kRecipeFile;
  if (!fs::exists(recipe_file)) write_file(recipe_file, config::print_recipe(recipe));
  ActivityDisplay display(options.display.message);
  member::MemberOptions member;
  member.recipe = recipe;
  member.founding = description.founding;
  member.shards = data.shards.get();
  member.model_files = model_files(connection, options, description, folder);
  if (description.base) member.base_digest = description.base->digest;
  member.down_bytes_s = check.link ? check.link->down_bytes_s : 0;
  member.row_seconds = options.row_seconds;
  member.most_epsilon = options.most_epsilon;
  EnergyMeter meter = energy_meter(options.energy, recipe.train.device);
  if (meter.why_unknown().empty() && !options.audits) {
    options.display.message("  " + meter.describe());
    member.spent_on = [&](double seconds) { return meter.spent(seconds); };
  }
  member.audits = options.audits;
  member.keeper = options.access.approach->keeper(options.access);
  member.site = site;
  member.stop = options.stop;
  member.hooks.activity = [&](const member::Activity& activity) { display.show(activity); };
  member.hooks.message = options.display.message;
  member.own_model = options.own_model;
  member.listener = options.listener;
  member.display = options.display;
  return member::run_member(connection.courier(), connection.signer(), std::move(member));
}

// Whether the folder's member has trained its run, which check_run has checked, to the end.
bool has_finished(const fs::path& folder) {
  return fs::exists(folder / kSummaryFile) && fs::exists(folder / kOwnFolder / kRunFile);
}

JoinResult finished_before(const JoinOptions& options, const fs::path& folder) {
  events::Summary summary = events::read_summary(folder / kSummaryFile);
  options.display.message(
      fmt::format("the run is complete: this member has finished it, and {} no longer answers",
                  options.access.address()));
  return {JoinOutcome::kFinished, folder, summary.steps, std::move(summary)};
}

// A member's connection and what it was asked for.
struct Attendance {
  const JoinOptions& options;
  const config::Recipe& local;
  const fs::path folder;
  train::Site* const site;
  const bool finished;  // before
  std::unique_ptr<MemberConnection> connection = {};

  // Takes part until the run is complete or the member leaves. Nothing if it has to do so again: a
  // server that was just reloading its users admits it now.
  std::optional<JoinResult> take_part();
};

std::optional<JoinResult> Attendance::take_part() {
  if (!connection) connection = std::make_unique<MemberConnection>(options, folder);
  const member::MemberResult result = take_part_with(*connection, options, local, folder, site);
  if (result.outcome == member::MemberOutcome::kLeft) {
    return JoinResult{JoinOutcome::kLeft, folder, result.steps, {}};
  }
  if (result.outcome == member::MemberOutcome::kFinished) {
    const double answer_s = finished ? kTimeoutSeconds : options.access.patience().answer_s;
    if (!options.audits && report_result(*connection, result, answer_s, options.display.message)) {
      offer_weights(connection->courier(), connection->requests(),
                    {.run_folder = folder,
                     .digest = result.digest,
                     .answer_s = answer_s,
                     .stop = options.stop,
                     .message = options.display.message});
    }
    return JoinResult{JoinOutcome::kFinished, folder, result.steps, result.summary};
  }
  const bool denied = !connection->courier().denied().empty();
  if (denied) {
    // Whoever is no longer admitted learns why here.
    connection.reset();  // its folder is claimed
    connection = std::make_unique<MemberConnection>(options, folder);
  }
  if (!denied || site != nullptr) {
    throw Error(fmt::format("the run refuses this {}: {}", options.audits ? "auditor" : "member",
                            result.why));
  }
  return std::nullopt;
}

// With the pauses that the machine's owner wants. A pause also ends what is being received, which
// goes on later.
JoinResult take_part_between_pauses(Attendance& attendance, Pauses* pauses) {
  const auto denied = [&] {
    return attendance.connection && !attendance.connection->courier().denied().empty();
  };
  const auto left = [&] {
    return JoinResult{JoinOutcome::kLeft, attendance.folder, steps_before(attendance.folder), {}};
  };
  if (pauses != nullptr && !pauses->wait(denied)) return left();
  while (true) {
    std::optional<JoinResult> result;
    try {
      result = attendance.take_part();
    } catch (const Error&) {
      if (pauses == nullptr || !pauses->paused()) throw;
      result = left();
    }
    if (!result) continue;
    const bool pauses_now =
        result->outcome == JoinOutcome::kLeft && pauses != nullptr && pauses->wait(denied);
    if (!pauses_now) return *std::move(result);
  }
}

// Takes part, with the other ranks of its site if there are any.
JoinResult take_part(JoinOptions options, const config::Recipe& local, train::Site* site) {
  const fs::path folder = folder_of(options, local);
  check_energy(options.energy, local);
  std::optional<MachineWatch> machine;
  if (!options.pauses.empty()) machine.emplace(options.pauses);
  checkpoint::check_owner(folder, checkpoint::FolderOwner::kJoin);
  check_run(folder, options.access);
  options.access.approach->check_folder(options.access, folder);
  options.access.approach->check_fetch(local.data.fetch);
  options.access.approach->check_site(options.site);
  options.access.message = options.display.message;
  options.display.message(fmt::format("{} the run at {}", options.audits ? "audits" : "joins",
                                      options.access.address()));
  const bool finished = has_finished(folder);
  if (finished) options.access.wait_s = 0;  // its server may be gone for good
  Attendance attendance{options, local, folder, site, finished};
  try {
    attendance.connection = std::make_unique<MemberConnection>(options, folder);
  } catch (const Unreachable&) {
    if (!finished) throw;
    return finished_before(options, folder);
  }
  if (options.on_start) options.on_start();
  std::optional<Pauses> pauses;
  if (machine) {
    pauses.emplace(
        options.pauses, [&] { return machine->look(); }, options.stop, options.display.message,
        Pauses::Times());
    options.stop = pauses->leaves();
  }
  return take_part_between_pauses(attendance, pauses ? &*pauses : nullptr);
}

}  // namespace

JoinResult join_run(const JoinOptions& options) {
  check_local_overrides(options.overrides);
  const config::Recipe local = method::load_recipe({}, options.overrides);
  if (local.train.launcher != config::Launcher::kMpi) return take_part(options, local, nullptr);
  if (options.audits) method::check_command(local, method::Command::kAudit);
  if (!options.pauses.empty()) {
    throw UsageError(
        "[train] launcher must be \"threads\" with --hours or --pause-when, got \"mpi\": the "
        "processes of a job do not pause together");
  }
  SiteRanks ranks(options.display.message);
  if (!ranks.leads()) {
    if (options.on_start) options.on_start();
    ranks.help();
    return {JoinOutcome::kElsewhere, {}, 0, {}};
  }
  options.display.message(
      fmt::format("{} of a job are one member", counted(int64_t{ranks.count()}, "rank")));
  JoinResult result = take_part(options, local, ranks.site());
  result.ranks = ranks.count();
  return result;
}

}  // namespace thinwire::hosts
