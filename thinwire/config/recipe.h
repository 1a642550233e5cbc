// A recipe: one TOML file that is a complete run. Every field has a type, a unit, a default, a
// range and a sentence. Unknown keys, wrong types, values out of range and contradictions are
// UsageErrors that name the file, the field, the value and what would be right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/config/fields.h"

namespace thinwire::config {

struct RunSection final : SectionOf<RunSection> {
  std::string name = "run";
  std::string dir;  // empty: runs/<name>
  int64_t seed = 1;
  void describe(Fields& fields) override;
};

struct DataSection final : SectionOf<DataSection> {
  std::string dir = "data/tokens";  // where prepared shards and vocabulary are
  StringList text;                  // source files or folders
  StringList validation_text;       // further validation sets, "name=path"
  std::string text_field = "text";  // the field of .jsonl lines that holds the document
  std::string document =
      "blank_line";  // what ends a document in .txt: blank_line | entry | line | file
  std::string invalid_utf8 = "error";        // error | replace
  std::string bad_lines = "error";           // of .jsonl: error | skip
  std::string vocabulary = "sentencepiece";  // sentencepiece | byte
  std::string vocabulary_model;              // an existing .model instead of training one
  std::string vocabulary_type = "bpe";       // bpe | unigram
  int64_t vocabulary_size = 4096;
  int64_t vocabulary_sample_bytes = 16'000'000;  // training text for the vocabulary
  double validation_fraction = 0.01;
  int64_t validation_block = 0;  // documents in one block of the interleaved split; 0: by the text
  int64_t shard_tokens = 100'000'000;
  void describe(Fields& fields) override;
};

struct ModelSection final : SectionOf<ModelSection> {
  std::string architecture = "llama";  // a name of method/architectures.h
  int64_t vocab = 0;                   // 0: the vocabulary's size
  int64_t hidden = 128;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 0;      // 0: as many as heads
  int64_t intermediate = 0;  // 0: 8/3 of hidden, rounded up to a multiple of 64
  double rope_theta = 10000;
  double norm_eps = 1e-5;
  bool tied = false;  // output head shares the embedding
  double init_std = 0.02;
  std::string recompute = "none";  // none | attention | block: what a backward pass computes again
  int64_t head_size() const { return hidden / heads; }
  void describe(Fields& fields) override;
};

struct TrainSection final : SectionOf<TrainSection> {
  int64_t steps = 1000;
  int64_t batch = 16;      // rows a step over all workers
  int64_t microbatch = 0;  // rows a forward pass of one worker; 0: its whole share
  int64_t sequence = 128;  // tokens a row
  int64_t workers = 1;
  int64_t threads = 1;             // compute threads a worker
  std::string engine = "local";    // local | mpi
  std::string device = "cpu";      // cpu | cuda | auto | torch_cpu
  std::string precision = "fp32";  // fp32 | bf16 | auto (bf16 where the device multiplies it)
  std::string init;  // start from this checkpoint or Hugging Face folder; empty: random
  void describe(Fields& fields) override;
};

struct OptimSection final : SectionOf<OptimSection> {
  std::string method = "adamw";  // adamw | muon
  double lr = 1e-3;              // peak learning rate
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;            // global gradient norm; 0: no clipping
  double muon_lr = 0;           // muon: peak learning rate of the matrices; 0: lr
  double muon_momentum = 0.95;  // muon
  void describe(Fields& fields) override;
};

struct ScheduleSection final : SectionOf<ScheduleSection> {
  std::string kind = "cosine";  // cosine | linear | constant | wsd
  int64_t warmup = 0;           // steps of linear warmup
  double final_ratio = 0.1;     // last learning rate over peak
  int64_t decay = 0;            // wsd: steps of the final decay
  void describe(Fields& fields) override;
};

struct SyncSection final : SectionOf<SyncSection> {
  std::string method = "allreduce";  // a name of method/registry.h
  std::string within = "none";       // none | allreduce | distro: what clusters do every step
  int64_t clusters = 0;              // 0: each worker is alone
  std::string shares = "equal";      // equal | speed: how a step's rows are divided
  StringList absent;                 // "MEMBER=FIRST-LAST": rounds without a worker
  double timeout_s = 1800;           // all waits for other workers derive from this
  void describe(Fields& fields) override;
};

struct EvalSection final : SectionOf<EvalSection> {
  int64_t every = 0;                 // steps between evaluations; 0: only at the end
  int64_t rows = 0;                  // rows of each validation set; 0: all
  std::string watch = "validation";  // the validation set that patience and checkpoint.best go by
  int64_t patience = 0;  // evaluations without a lower loss that end the run; 0: none do
  void describe(Fields& fields) override;
};

struct CheckpointSection final : SectionOf<CheckpointSection> {
  int64_t every = 0;   // steps between checkpoints; 0: none by steps
  double minutes = 5;  // one this long after the last, besides; 0: none by time
  int64_t keep = 2;    // newest checkpoints kept
  bool best = false;   // besides, that of the lowest validation loss
  void describe(Fields& fields) override;
};

struct LogSection final : SectionOf<LogSection> {
  int64_t every = 1;  // steps between progress updates of plain output
  bool tensorboard = true;
  void describe(Fields& fields) override;
};

// The network a run is reported for: what the wall-clock would have been over these links.
struct LinksSection final : SectionOf<LinksSection> {
  double down_bit_s = 100e6;
  double up_bit_s = 10e6;
  double delay_s = 0.02;
  double loss = 0;
  double step_s = 0;   // > 0: the links are simulated in virtual time
  bool paced = false;  // real bytes take as long as over the links
  StringList members;  // "MEMBER.FIELD=VALUE" where a member's link is another
  void describe(Fields& fields) override;
};

// Prototypes of the sections that methods bring, by table name.
using MethodSections = std::map<std::string, std::unique_ptr<Section>>;

struct Recipe {
  Recipe() = default;
  Recipe(const Recipe& other) { *this = other; }
  Recipe& operator=(const Recipe& other);
  Recipe(Recipe&&) = default;
  Recipe& operator=(Recipe&&) = default;

  RunSection run;
  DataSection data;
  ModelSection model;
  TrainSection train;
  OptimSection optim;
  ScheduleSection schedule;
  SyncSection sync;
  EvalSection eval;
  CheckpointSection checkpoint;
  LogSection log;
  LinksSection links;
  MethodSections methods;

  // The section a method brought; throws Error if the recipe was read without it.
  template <typename Options>
  const Options& section(const std::string& table) const {
    return dynamic_cast<const Options&>(method_section(table));
  }
  // Every section with its table name, in printing order.
  std::vector<std::pair<std::string, Section*>> sections();

 private:
  const Section& method_section(const std::string& table) const;
};

// Reads a recipe. Path empty: all defaults. Overrides are "table.field=value" with TOML values;
// bare strings need no quotes and numbers may carry a suffix (100M). Fills derived values that
// depend on the recipe alone (kv_heads, intermediate, run.dir) and checks ranges and
// contradictions.
Recipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides,
                   const MethodSections& methods);

// As load_recipe, from text; `origin` names it in errors.
Recipe parse_recipe(std::string_view toml, std::string_view origin,
                    std::span<const std::string> overrides, const MethodSections& methods);

// The complete recipe as TOML that load_recipe reads back to the same recipe.
std::string print_recipe(const Recipe& recipe);

// The fields whose values are not those of `from`, a line "table.field = value" each. Both recipes
// were read with the same method sections.
std::string print_changes(const Recipe& recipe, const Recipe& from);

// Every field with type, unit, default, range and sentence, one block a table.
std::string explain_recipe(const MethodSections& methods);

// Contradictions between fields; called by load_recipe and again when vocab becomes known.
void check_recipe(const Recipe& recipe);

}  // namespace thinwire::config
