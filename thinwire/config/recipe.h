// A recipe: one TOML file that describes a complete run. Every field has a type, a unit, a default,
// a range and a sentence. Unknown keys, wrong types, values out of range and contradictions are
// UsageErrors that name the file, the field, the value and what would be right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/number_format.h"
#include "thinwire/config/fields.h"
#include "thinwire/config/sections.h"

namespace thinwire::config {

struct RunSection final : SectionOf<RunSection> {
  std::string name = "run";
  std::string dir;  // empty: runs/<name>
  int64_t seed = 1;
  void describe(Fields& fields) override;
};

// What computes loss and gradients: our own code on the CPU, or LibTorch's on a GPU or on the CPU.
// kAuto: on a GPU if there is one, else our own.
enum class DeviceChoice : uint8_t { kCpu, kCuda, kAuto, kTorchCpu };
inline constexpr std::string_view kDeviceChoiceNames[] = {"cpu", "cuda", "auto", "torch_cpu"};
constexpr std::span<const std::string_view> names_of(DeviceChoice) { return kDeviceChoiceNames; }

// What runs the workers: threads of this process, or the ranks of an MPI job.
enum class Launcher : uint8_t { kThreads, kMpi };
inline constexpr std::string_view kLauncherNames[] = {"threads", "mpi"};
constexpr std::span<const std::string_view> names_of(Launcher) { return kLauncherNames; }

struct TrainSection final : SectionOf<TrainSection> {
  int64_t steps = 1000;
  int64_t batch = 16;      // rows per step over all workers
  int64_t microbatch = 0;  // rows per forward pass of one worker; 0: its whole share
  int64_t sequence = 128;  // tokens per row
  int64_t workers = 1;
  int64_t threads = 1;  // compute threads per worker
  Launcher launcher = Launcher::kThreads;
  DeviceChoice device = DeviceChoice::kCpu;
  Precision precision = Precision::kFp32;
  WeightFormat weights = WeightFormat::kF32;
  UpdateTime update = UpdateTime::kStep;
  bool offload = false;             // weights and optimizer state are in files
  std::string offload_dir;          // where; empty: run.dir
  bool packing = false;             // several records in a row
  bool separate_documents = false;  // attention ends with a document or record
  LongRecords long_records = LongRecords::kError;
  std::string init;  // start from this checkpoint or Hugging Face folder; empty: random
  void describe(Fields& fields) override;
};

struct OptimSection final : SectionOf<OptimSection> {
  std::string method = "adamw";  // a name of method/optimizers/optimizer.h
  double lr = 1e-3;              // peak learning rate
  double weight_decay = 0.1;
  double clip = 1.0;  // largest gradient norm; 0: no clipping
  ClipBy clip_by = ClipBy::kStep;
  StateFormat state = StateFormat::kF32;
  StateFormat bases = StateFormat::kF32;
  GradientCoordinates gradients = GradientCoordinates::kWhole;
  void describe(Fields& fields) override;
};

struct EvalSection final : SectionOf<EvalSection> {
  int64_t every = 0;                 // steps between evaluations; 0: only at the end
  int64_t rows = 0;                  // rows of each validation set; 0: all
  std::string watch = "validation";  // the validation set for patience and checkpoint.best
  int64_t patience = 0;  // the run ends after this many evaluations without a lower loss; 0: never
  StringList tasks;      // names or files of tasks (eval/task.h)
  std::string data;      // folder of their data sets
  int64_t limit = 0;     // items of each task; 0: all
  void describe(Fields& fields) override;
};

struct CheckpointSection final : SectionOf<CheckpointSection> {
  int64_t every = 0;   // steps between checkpoints; 0: none by steps
  double minutes = 5;  // also one whenever the last is this old; 0: none by time
  int64_t keep = 2;    // newest checkpoints kept
  bool best = false;   // also keep the one with the lowest validation loss
  void describe(Fields& fields) override;
};

struct LogSection final : SectionOf<LogSection> {
  int64_t every = 0;  // steps between progress lines in plain output; 0: by time
  bool tensorboard = true;
  void describe(Fields& fields) override;
};

// Prototypes of the sections that methods, optimizers and architectures bring, by table name.
using MethodSections = std::map<std::string, std::unique_ptr<Section>>;

struct Recipe {
  // Defined once, in recipe.cpp: inline, each source that holds a recipe would compile those of
  // every section again.
  Recipe();
  ~Recipe();
  Recipe(const Recipe& other);
  Recipe& operator=(const Recipe& other);
  Recipe(Recipe&& other) noexcept;
  Recipe& operator=(Recipe&& other) noexcept;

  RunSection run;
  DataSection data;
  ModelSection model;
  AdapterSection adapter;
  TrainSection train;
  PreferenceSection preference;
  PrivacySection privacy;
  OptimSection optim;
  ScheduleSection schedule;
  SyncSection sync;
  EvalSection eval;
  CheckpointSection checkpoint;
  LogSection log;
  LinksSection links;
  MethodSections methods;
  // Notices for the recipe's author, one sentence each, about names that have changed. Not part of
  // the recipe's content.
  StringList notices;
  // The fields, as "table.field", that its file or an override sets, except those set to a value
  // that means "derive it". Not part of the recipe's content either.
  std::set<std::string> given;

  // The section that a method, an optimizer or an architecture brought; throws Error if the recipe
  // was read without it.
  const Section& section(const std::string& table) const;
  template <typename Options>
  const Options& section(const std::string& table) const {
    return dynamic_cast<const Options&>(section(table));
  }
  // Every section with its table name, in printing order.
  std::vector<std::pair<std::string, Section*>> sections();
};

// Reads a recipe. Path empty: all defaults. Overrides are "table.field=value" with TOML values;
// bare strings need no quotes and numbers may carry a suffix (100M). Fills in derived values that
// depend only on the recipe (run.dir, Section::fill_derived) and checks ranges and contradictions.
Recipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides,
                   const MethodSections& methods);

// Like load_recipe, from text; `origin` names the text in errors.
Recipe parse_recipe(std::string_view toml, std::string_view origin,
                    std::span<const std::string> overrides, const MethodSections& methods);

// The complete recipe as TOML, from which load_recipe reads the same recipe.
std::string print_recipe(const Recipe& recipe);

// The fields whose values differ from those of `from`, one line "table.field = value" each, with
// the first names that fields and values ever had (config/renamed.h): this identifies a run. Both
// recipes must have been read with the same method sections.
std::string print_changes(const Recipe& recipe, const Recipe& from);

// Every field with type, unit, default, range and sentence, one block per table.
std::string explain_recipe(const MethodSections& methods);

// Contradictions between fields; called by load_recipe and again when vocab becomes known.
void check_recipe(const Recipe& recipe);

}  // namespace thinwire::config
