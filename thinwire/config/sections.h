// The tables of a recipe and the choices that their fields offer. Tables of methods, optimizers and
// architectures are in method/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/aggregate.h"
#include "thinwire/base/number_format.h"
#include "thinwire/config/fields.h"

namespace thinwire::config {

// What the backward pass recomputes in every block instead of keeping it from the forward pass
// (Chen et al. 2016, arXiv 1604.06174): nothing; queries, keys, values and attention; or everything
// but the block's input. The gradients are the same, bit for bit.
enum class Recompute : uint8_t { kNone, kAttention, kBlock };
inline constexpr std::string_view kRecomputeNames[] = {"none", "attention", "block"};
constexpr std::span<const std::string_view> names_of(Recompute) { return kRecomputeNames; }

// The table [model] of a recipe: what the model computes, and the shape that models of every
// architecture have. Fields of one architecture alone are in a table of its name
// (method/architectures/architecture.h).
struct ModelSection : SectionOf<ModelSection> {
  std::string architecture = "llama";  // a name of method/architectures/architecture.h
  int64_t vocab = 0;                   // 0: the vocabulary's size
  int64_t hidden = 128;
  int64_t layers = 4;
  int64_t heads = 4;
  bool tied = false;  // output head shares the embedding
  double init_std = 0.02;
  Recompute recompute = Recompute::kNone;
  Precision block_inputs = Precision::kFp32;  // of what a block is recomputed from; not kAuto
  int64_t vocab_slabs = 1;                    // in which gradients of embedding and head are formed
  void describe(Fields& fields) override;
};

// The factors that are trained of matrices, if any; method/adapters/adapter.h says what each does.
enum class AdapterKind : uint8_t { kNone, kLora, kRelora, kLowRank };
inline constexpr std::string_view kAdapterKindNames[] = {"none", "lora", "relora", "low_rank"};
constexpr std::span<const std::string_view> names_of(AdapterKind) { return kAdapterKindNames; }

// The table [adapter] of a recipe: which part of the model a run trains, if not all of it.
struct AdapterSection final : SectionOf<AdapterSection> {
  AdapterKind kind = AdapterKind::kNone;
  int64_t rank = 8;   // r
  double alpha = 16;  // the product of the factors is scaled by alpha / rank
  StringList targets = {"*_proj"};
  StringList whole;  // further tensors to train, in full
  std::string init;  // start from this PEFT folder or run; empty: from new factors
  void describe(Fields& fields) override;
};

// What .jsonl lines hold: texts; prompts and their answers; chats; prompts with a preferred and a
// rejected answer; or texts with a class or a number.
enum class RecordKind : uint8_t { kText, kPrompts, kChats, kPreferences, kLabels, kNumbers };
inline constexpr std::string_view kRecordKindNames[] = {"text",        "prompts", "chats",
                                                        "preferences", "labels",  "numbers"};
constexpr std::span<const std::string_view> names_of(RecordKind) { return kRecordKindNames; }
// Whether an encoder learns them: a class or a number of each text.
constexpr bool is_labelled(RecordKind kind) {
  return kind == RecordKind::kLabels || kind == RecordKind::kNumbers;
}
// Whether a chat template turns them into text.
constexpr bool has_chats(RecordKind kind) {
  return kind == RecordKind::kChats || kind == RecordKind::kPreferences;
}

// What ends a document of a .txt file: a line without any visible character; such a line before
// one that is not indented (dictionaries); every line; the file's end; or a line such as
// "<|endoftext|>", which is left out.
enum class DocumentEnd : uint8_t { kBlankLine, kEntry, kLine, kFile, kSeparator };
inline constexpr std::string_view kDocumentEndNames[] = {"blank_line", "entry", "line", "file",
                                                         "separator"};
constexpr std::span<const std::string_view> names_of(DocumentEnd) { return kDocumentEndNames; }

// What is done with bytes that are not UTF-8, and with lines of .jsonl files that hold no document.
enum class InvalidUtf8 : uint8_t { kError, kReplace };
inline constexpr std::string_view kInvalidUtf8Names[] = {"error", "replace"};
constexpr std::span<const std::string_view> names_of(InvalidUtf8) { return kInvalidUtf8Names; }
enum class BadLines : uint8_t { kError, kSkip };
inline constexpr std::string_view kBadLinesNames[] = {"error", "skip"};
constexpr std::span<const std::string_view> names_of(BadLines) { return kBadLinesNames; }

// How text becomes tokens, and which kind of SentencePiece model is trained.
enum class VocabularyKind : uint8_t { kSentencePiece, kByteBpe, kByte };
inline constexpr std::string_view kVocabularyKindNames[] = {"sentencepiece", "byte_bpe", "byte"};
constexpr std::span<const std::string_view> names_of(VocabularyKind) {
  return kVocabularyKindNames;
}
enum class SentencePieceKind : uint8_t { kBpe, kUnigram };
inline constexpr std::string_view kSentencePieceKindNames[] = {"bpe", "unigram"};
constexpr std::span<const std::string_view> names_of(SentencePieceKind) {
  return kSentencePieceKindNames;
}

enum class FetchData : uint8_t { kAll, kNeeded };
inline constexpr std::string_view kFetchDataNames[] = {"all", "needed"};
constexpr std::span<const std::string_view> names_of(FetchData) { return kFetchDataNames; }

// The table [data] of a recipe: text, vocabulary and token shards.
struct DataSection final : SectionOf<DataSection> {
  std::string dir = "data/tokens";  // where the prepared shards and vocabulary are
  bool own = false;                 // members on many hosts train on their own text
  StringList text;                  // source files or folders
  StringList validation_text;       // further validation sets, "name=path"
  std::string text_field = "text";  // the field of .jsonl lines that holds the document
  RecordKind records = RecordKind::kText;
  std::string prompt_field = "prompt";
  std::string answer_field;  // empty: completion, or else answer
  std::string messages_field = "messages";
  std::string pair_field = "text_pair";
  std::string label_field = "label";
  StringList labels;          // names of the classes, in order; empty: labels are numbers
  std::string chat_template;  // a .jinja file; empty: the tokenizer's own
  DocumentEnd document = DocumentEnd::kBlankLine;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::kError;
  BadLines bad_lines = BadLines::kError;
  VocabularyKind vocabulary = VocabularyKind::kSentencePiece;
  std::string vocabulary_model;  // an existing file instead of training one
  SentencePieceKind vocabulary_type = SentencePieceKind::kBpe;
  int64_t vocabulary_size = 4096;
  int64_t vocabulary_sample_bytes = 16'000'000;  // training text for the vocabulary
  double validation_fraction = 0.01;
  int64_t validation_block = 0;  // documents in one block of the interleaved split; 0: chosen
  int64_t shard_tokens = 100'000'000;
  FetchData fetch = FetchData::kAll;
  int64_t fetch_cache = 64'000'000;  // bytes that are kept with FetchData::kNeeded
  void describe(Fields& fields) override;
};

// How records (data.records) become rows (recipe field train.long_records).

// A record of more tokens than a row: an error, its first tokens only, or left out.
enum class LongRecords : uint8_t { kError, kTruncate, kSkip };
inline constexpr std::string_view kLongRecordsNames[] = {"error", "truncate", "skip"};
constexpr std::span<const std::string_view> names_of(LongRecords) { return kLongRecordsNames; }

// When weights are updated, which norm gradients are clipped by, and in which coordinates gradients
// are formed (recipe fields train.update, optim.clip_by and optim.gradients).

// All weights once the step's gradients are complete, or each tensor during the backward pass.
enum class UpdateTime : uint8_t { kStep, kLayer };
inline constexpr std::string_view kUpdateTimeNames[] = {"step", "layer"};
constexpr std::span<const std::string_view> names_of(UpdateTime) { return kUpdateTimeNames; }

// The norm of the whole gradient in this step, that in the previous step, or each tensor's own.
enum class ClipBy : uint8_t { kStep, kPrevious, kTensor };
inline constexpr std::string_view kClipByNames[] = {"step", "previous", "tensor"};
constexpr std::span<const std::string_view> names_of(ClipBy) { return kClipByNames; }

// How the gradients of matrices that the optimizer projects are formed: whole, or projected from
// the start.
enum class GradientCoordinates : uint8_t { kWhole, kProjected };
inline constexpr std::string_view kGradientCoordinatesNames[] = {"whole", "projected"};
constexpr std::span<const std::string_view> names_of(GradientCoordinates) {
  return kGradientCoordinatesNames;
}

// The table [schedule] of a recipe: how the learning rate changes over the run.

// What the learning rate does after the warmup.
enum class ScheduleKind : uint8_t { kCosine, kLinear, kConstant, kWsd };
inline constexpr std::string_view kScheduleKindNames[] = {"cosine", "linear", "constant", "wsd"};
constexpr std::span<const std::string_view> names_of(ScheduleKind) { return kScheduleKindNames; }

struct ScheduleSection final : SectionOf<ScheduleSection> {
  ScheduleKind kind = ScheduleKind::kCosine;
  int64_t warmup = 0;        // steps of linear warmup
  double final_ratio = 0.1;  // last learning rate over peak
  int64_t decay = 0;         // wsd: steps of the final decay
  void describe(Fields& fields) override;
};

// The table [preference] of a recipe: how a model learns which of two answers is preferred.

// The loss of a pair of answers: DPO's (Rafailov et al. 2023, arXiv 2305.18290) or IPO's (Azar et
// al. 2023, arXiv 2310.12036).
enum class PreferenceLoss : uint8_t { kSigmoid, kIpo };
inline constexpr std::string_view kPreferenceLossNames[] = {"sigmoid", "ipo"};
constexpr std::span<const std::string_view> names_of(PreferenceLoss) {
  return kPreferenceLossNames;
}

struct PreferenceSection final : SectionOf<PreferenceSection> {
  double beta = 0.1;
  PreferenceLoss loss = PreferenceLoss::kSigmoid;
  double label_smoothing = 0;
  void describe(Fields& fields) override;
};

// The table [privacy] of a recipe: what a member's contributions may tell of its text. Only with
// data.own. docs/federated.md.
struct PrivacySection final : SectionOf<PrivacySection> {
  double clip = 0;      // S: largest norm of a contribution; 0: any
  double noise = 0;     // z: standard deviation of the noise, in units of clip; 0: none
  double sampling = 1;  // q: the probability with which a member contributes to a sum
  double delta = 1e-5;
  bool secure_sums = false;  // nobody sees what one member contributes
  bool noisy() const { return noise > 0; }
  // Whether a member says nothing of its text besides its contributions.
  bool hides_losses() const { return noisy() || secure_sums; }
  void describe(Fields& fields) override;
};

// The table [sync] of a recipe: how the workers stay in agreement.

// What the workers of a cluster do every step: nothing, because there are no clusters, or one of
// the methods of these names.
enum class Within : uint8_t { kNone, kAllReduce, kDistro };
inline constexpr std::string_view kWithinNames[] = {"none", "allreduce", "distro"};
constexpr std::span<const std::string_view> names_of(Within) { return kWithinNames; }

// How a step's rows are divided among workers: equally, by the speed that each of them showed, or
// by how many rows the text of a member's own has (data.own).
enum class RowShares : uint8_t { kEqual, kSpeed, kOwn };
inline constexpr std::string_view kRowSharesNames[] = {"equal", "speed", "own"};
constexpr std::span<const std::string_view> names_of(RowShares) { return kRowSharesNames; }

// What becomes of a contribution that arrives after its round was closed.
enum class LateContributions : uint8_t { kDrop, kCount };
inline constexpr std::string_view kLateContributionsNames[] = {"drop", "count"};
constexpr std::span<const std::string_view> names_of(LateContributions) {
  return kLateContributionsNames;
}

// On many hosts: who forms the sum of a commit's contributions.
enum class Sums : uint8_t { kAuto, kCoordinator, kMembers };
inline constexpr std::string_view kSumsNames[] = {"auto", "coordinator", "members"};
constexpr std::span<const std::string_view> names_of(Sums) { return kSumsNames; }

struct SyncSection final : SectionOf<SyncSection> {
  std::string method = "allreduce";  // a name of method/registry.h
  Within within = Within::kNone;
  int64_t clusters = 0;  // 0: no clusters
  RowShares shares = RowShares::kEqual;
  Aggregate aggregate = Aggregate::kMean;
  double trim = 0.1;       // with aggregate = trimmed_mean
  StringList absent;       // "MEMBER=FIRST-LAST": rounds without that worker
  double timeout_s = 600;  // all waits for other workers derive from this
  double quorum = 1;       // of members on many hosts
  LateContributions late = LateContributions::kDrop;  // of members on many hosts
  Sums sums = Sums::kAuto;                            // likewise
  bool clustered() const { return within != Within::kNone; }
  AggregateOptions aggregation() const { return {aggregate, trim}; }
  void describe(Fields& fields) override;
};

// Which workers are inactive in which rounds: the recipe field sync.absent.

// Rounds are counted from 1; both ends are included.
struct Absence {
  int member = 0;
  int64_t first = 1;
  int64_t last = 1;
};

// Throws UsageError naming an entry that is not "MEMBER=FIRST-LAST", or whose member or rounds are
// impossible.
std::vector<Absence> absences_of(const SyncSection& sync, int64_t workers);

bool is_absent(std::span<const Absence> absences, int member, int64_t round);

// The first round of the unbroken sequence up to `round` in which the member was as it is in
// `round`, active or inactive.
int64_t unchanged_since(std::span<const Absence> absences, int member, int64_t round);

// The table [links] of a recipe: the network for which a run's wall-clock time is reported.
struct LinksSection final : SectionOf<LinksSection> {
  double down_bit_s = 100e6;
  double up_bit_s = 10e6;
  double delay_s = 0.02;
  double loss = 0;
  double step_s = 0;   // > 0: the links are simulated in virtual time
  bool paced = false;  // real bytes are slowed down to these links
  StringList members;  // "MEMBER.FIELD=VALUE" where a member's link differs
  void describe(Fields& fields) override;
};

}  // namespace thinwire::config
