#include "thinwire/data/prepare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/base/threads.h"
#include "thinwire/data/chat/chat_template.h"
#include "thinwire/data/encoder.h"
#include "thinwire/data/labels.h"
#include "thinwire/data/prepare_record.h"
#include "thinwire/data/records.h"
#include "thinwire/data/set_writer.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/split.h"
#include "thinwire/data/text.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

constexpr const char* kSplitSet = "validation";
constexpr uint64_t kBatchBytes = uint64_t{4} << 20;  // text tokenised between two writes
constexpr double kProgressInterval = 0.1;            // seconds

// Reports progress to the caller, and stops when the caller asks for it.
class Reporter {
 public:
  explicit Reporter(const PrepareOptions& options) : options_(options) {}

  void begin(std::string phase, uint64_t total) {
    progress_ = {std::move(phase), 0, total, {}, {}};
    update(0, true);
  }
  void update(const DocumentSource& source, bool always = false) {
    if (progress_.skipped.count != source.skipped().count) progress_.skipped = source.skipped();
    progress_.note = source.separator_note();
    update(source.bytes_read(), always);
  }
  void update(uint64_t done, bool always = false) {
    const double now = monotonic_seconds();
    if (!always && now - last_ < kProgressInterval) return;
    last_ = now;
    if (options_.cancelled && options_.cancelled()) {
      throw Interrupted("interrupted; nothing was written");
    }
    progress_.done = done;
    if (options_.progress) options_.progress(progress_);
  }

 private:
  const PrepareOptions& options_;
  PrepareProgress progress_;
  double last_ = 0;
};

TextOptions make_text_options(const config::DataSection& data) {
  TextOptions options;
  options.records = make_record_reader(data);
  options.document = data.document;
  options.text_field = data.text_field;
  options.replace_invalid = data.invalid_utf8 == config::InvalidUtf8::kReplace;
  options.skip_bad_lines = data.bad_lines == config::BadLines::kSkip;
  return options;
}

// A preparation in progress, in the folder `out`.
class Preparation {
 public:
  Preparation(const config::DataSection& data, const PrepareOptions& options, fs::path out)
      : data_(data),
        text_(make_text_options(data)),
        out_(std::move(out)),
        report_(options),
        pool_(options.threads > 0 ? options.threads : available_cores()) {}

  void run(PrepareRecord& record) {
    choose_split();
    make_vocabulary();
    record.vocabulary_digest = vocabulary_->digest();
    record.summary.vocabulary_file = vocabulary_->file().filename().string();
    record.summary.vocabulary_size = vocabulary_->size();
    for (int thread = 0; thread < pool_.size(); ++thread) encoders_.emplace_back(*vocabulary_);
    write_training(record.summary);
    for (const NamedText& text : named_texts(data_)) write_named(text, record.summary);
    keep_chat_template();
  }

 private:
  // So that the models trained on the data can be given chats.
  void keep_chat_template() const {
    if (text_.records == nullptr || text_.records->chat() == nullptr) return;
    write_file(out_ / kChatTemplateFile, text_.records->chat()->source());
  }

  // Reads only as much of the text as the split depends on: only the beginning of a long one.
  void choose_split() {
    TextSize size;
    if (split_needs_more(data_, size)) {
      DocumentSource source(list_inputs(data_.text), text_);
      report_.begin("counting documents", source.total_bytes());
      while (split_needs_more(data_, size)) {
        const auto document = source.next();
        if (!document) break;
        ++size.documents;
        size.bytes += document->size();
        report_.update(source);
      }
      report_.update(source, true);
    }
    split_ = split_of(data_, size);
    if (size.documents == 1) check_split(1, 0);
  }

  void make_vocabulary() {
    const bool trains_bytes = data_.vocabulary == config::VocabularyKind::kByteBpe;
    fs::path file = out_ / (trains_bytes ? kTokenizerFile : kSentencePieceFile);
    if (data_.vocabulary == config::VocabularyKind::kByte) {
      file = out_ / kByteFile;
      write_file(file, byte_vocabulary_json());
    } else if (!data_.vocabulary_model.empty()) {
      // Loaded here, so that errors name this file.
      const auto given = Vocabulary::load_file(data_.vocabulary_model);
      file = out_ / given->stored_name();
      write_file(file, given->stored_text());
    } else {
      write_file(file, train_vocabulary());
    }
    vocabulary_ = Vocabulary::load_file(file);
    if (vocabulary_->eos() < 0) {
      throw Error(
          fmt::format("data.vocabulary_model = {} has no end-of-sequence piece, which every "
                      "document must end with; a tokenizer.json needs its "
                      "tokenizer_config.json beside it, with an eos_token",
                      data_.vocabulary_model));
    }
  }

  std::string train_vocabulary() {
    DocumentSource source(list_inputs(data_.text), text_);
    report_.begin("reading", source.total_bytes());
    TextSample sample(static_cast<uint64_t>(data_.vocabulary_sample_bytes));
    for (uint64_t number = 0; auto document = source.next(); ++number) {
      if (!split_.for_validation(number)) sample.add(*document);
      report_.update(source);
    }
    report_.update(source, true);
    report_.begin("training the vocabulary", 0);
    const auto texts = sample.take();
    size_t at = 0;
    const auto next = [&] { return at < texts.size() ? &texts[at++] : nullptr; };
    const auto waiting = [&] { report_.update(0); };
    if (data_.vocabulary == config::VocabularyKind::kByteBpe)
      return train_byte_bpe(next, data_.vocabulary_size, waiting);
    return train_sentencepiece(next, {.type = data_.vocabulary_type, .size = data_.vocabulary_size},
                               waiting);
  }

  // A document on its way into a shard.
  struct Item {
    std::string text;
    SetWriter* set;
    Record record;  // if it is one; without its text
    std::vector<int32_t> tokens = {};
    std::vector<bool> learnt = {};  // of a record: of its tokens
    size_t chosen_tokens = 0;       // of a pair: of the chosen answer with its prompt
  };

  void write_training(PrepareSummary& summary) {
    SetWriter train(kTrainSet, set_folder(out_, kTrainSet), *vocabulary_, data_.shard_tokens);
    SetWriter validation(kSplitSet, set_folder(out_, kSplitSet), *vocabulary_, data_.shard_tokens);
    write_documents(data_.text, "tokenising", summary, [&](uint64_t number) {
      return split_.for_validation(number) ? &validation : &train;
    });
    summary.sets.push_back(train.finish());
    SetSummary held_out = validation.finish();
    check_split(summary.sets.back().documents, held_out.documents);
    if (held_out.documents > 0) summary.sets.push_back(std::move(held_out));
  }

  void check_split(uint64_t train, uint64_t validation) const {
    if (train > 0 && (validation > 0 || data_.validation_fraction == 0)) return;
    if (train + validation == 1) {
      throw Error(fmt::format(
          "the text is a single document, which cannot be both trained on and held out; {}"
          "data.validation_fraction=0 trains on all of it, "
          "data.validation_text=NAME=PATH measures the loss on another text",
          data_.document == config::DocumentEnd::kLine
              ? ""
              : "data.document=line makes every line a document, "));
    }
    throw Error(fmt::format(
        "the split leaves no document for {}: data.validation_fraction = {} of {} documents in "
        "blocks of data.validation_block = {}; set data.validation_block=0, which chooses a "
        "block that fits, or change the fraction (0: no split) or data.document (now {})",
        train == 0 ? "training" : "validation", data_.validation_fraction, train + validation,
        data_.validation_block, name_of(data_.document)));
  }

  void write_named(const NamedText& text, PrepareSummary& summary) {
    SetWriter set(text.name, set_folder(out_, text.name), *vocabulary_, data_.shard_tokens);
    write_documents({text.path}, fmt::format("tokenising {}", text.name), summary,
                    [&](uint64_t) { return &set; });
    summary.sets.push_back(set.finish());
  }

  // Tokenises every document into the set that choose(number) names, and counts in `summary` what
  // was replaced and skipped.
  template <typename Choose>
  void write_documents(const std::vector<std::string>& paths, std::string phase,
                       PrepareSummary& summary, const Choose& choose) {
    DocumentSource source(list_inputs(paths), text_);
    report_.begin(std::move(phase), source.total_bytes());
    std::vector<Item> batch;
    uint64_t batch_bytes = 0;
    for (uint64_t number = 0; auto document = source.next(); ++number) {
      batch_bytes += document->size();
      batch.push_back({std::move(*document), choose(number), source.record()});
      if (batch_bytes < kBatchBytes) continue;
      write_batch(batch);
      batch_bytes = 0;
      report_.update(source);
    }
    write_batch(batch);
    report_.update(source, true);
    summary.replaced += source.replaced();
    summary.skipped.add(source.skipped());
  }

  void encode(Item& item, Encoder& encoder) const {
    if (!item.record.target.empty()) return encode_labelled(item, encoder);
    const size_t rejected = item.record.rejected;
    if (rejected == 0) return encode_text(item, {0, item.text.size()}, encoder);
    encode_text(item, {0, rejected}, encoder);
    item.chosen_tokens = item.tokens.size();
    encode_text(item, {rejected, item.text.size()}, encoder);
  }

  // The text, then its class or number, which alone is learnt.
  void encode_labelled(Item& item, Encoder& encoder) const {
    const std::string_view text = item.text;
    const size_t end = item.record.second.value_or(text.size());
    std::optional<std::string_view> second;
    if (item.record.second) second = text.substr(end);
    item.tokens = classified_tokens(
        *vocabulary_, text.substr(0, end), second,
        [&](std::string_view part, std::vector<int32_t>& tokens) { encoder.encode(part, tokens); });
    const std::vector<int32_t>& target = item.record.target;
    item.tokens.insert(item.tokens.end(), target.begin(), target.end());
  }

  // Appends the tokens of a part of the item's text. A chat begins and ends as its template says.
  // Everything else ends with EOS; a prompt begins as the vocabulary says.
  void encode_text(Item& item, TextPart part, Encoder& encoder) const {
    const bool begins = text_.records != nullptr && !item.record.templated;
    if (begins && vocabulary_->begin() >= 0) {
      item.tokens.push_back(vocabulary_->begin());
      item.learnt.push_back(false);
    }
    std::vector<TextPart> learnt;
    for (const TextPart& one : item.record.learnt) {
      if (one.begin < part.begin || one.begin >= part.end) continue;
      learnt.push_back({one.begin - part.begin, one.end - part.begin});
    }
    const auto text = std::string_view(item.text).substr(part.begin, part.end - part.begin);
    encoder.encode(text, learnt, item.tokens, item.learnt);
    if (item.record.templated) return;
    item.tokens.push_back(vocabulary_->eos());
    item.learnt.push_back(true);
  }

  void write_batch(std::vector<Item>& batch) {
    const auto count = static_cast<int64_t>(batch.size());
    pool_.for_ranges(count, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) {
        Item& item = batch[static_cast<size_t>(i)];
        encode(item, encoders_[static_cast<size_t>(thread)]);
      }
    });
    for (const Item& item : batch) {
      item.set->add(item.tokens, item.text.size(), text_.records ? &item.learnt : nullptr,
                    item.chosen_tokens, item.record.target.size());
    }
    batch.clear();
  }

  const config::DataSection& data_;
  const TextOptions text_;
  fs::path out_;
  Split split_{0, 1};
  Reporter report_;
  ThreadPool pool_;
  std::unique_ptr<Vocabulary> vocabulary_;
  std::vector<Encoder> encoders_;
};

// Opens everything that a prepared folder should contain, and hashes its tokens as training does.
void check_complete(const fs::path& folder) {
  try {
    const auto vocabulary = Vocabulary::load(folder);
    open_sets(folder, vocabulary->digest());
  } catch (const Error& error) {
    throw Error(
        fmt::format("{}\n{} is damaged; --force prepares it again", error.what(), folder.string()));
  }
}

// The summary of what is at `folder` if it can be used; nullopt if it must be written.
std::optional<PrepareSummary> existing(const fs::path& folder, const PrepareRecord& wanted,
                                       bool force) {
  if (!fs::exists(folder) || (fs::is_directory(folder) && fs::is_empty(folder)))
    return std::nullopt;
  if (!fs::exists(folder / kRecordFile)) {
    throw Error(
        fmt::format("data.dir = {} exists and was not made by `thinwire prepare`; choose "
                    "another folder",
                    folder.string()));
  }
  if (force) return std::nullopt;
  PrepareRecord record = load_record(folder);
  const auto reasons = differences(record, wanted);
  if (!reasons.empty()) {
    throw Error(fmt::format("{} was prepared differently; --force replaces it:\n  {}",
                            folder.string(), fmt::join(reasons, "\n  ")));
  }
  check_complete(folder);
  record.summary.already_prepared = true;
  return record.summary;
}

}  // namespace

PrepareSummary prepare(const config::DataSection& data, const PrepareOptions& options) {
  PrepareRecord record = make_record(data);
  fs::path folder = fs::path(data.dir).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "tokens/" is "tokens"
  if (auto summary = existing(folder, record, options.force)) return *summary;
  PartialFolder partial(folder);
  Preparation(data, options, partial.path()).run(record);
  const auto changed = differences(record, make_record(data));
  if (!changed.empty()) {
    throw Error(fmt::format("the text changed while it was read: {}", fmt::join(changed, ", ")));
  }
  write_file(partial.path() / kRecordFile, print_record(record));
  partial.publish();
  record.summary.folder = std::move(folder);
  return record.summary;
}

fs::path set_folder(const fs::path& folder, const std::string& name) {
  return name == kTrainSet ? folder / name : folder / "validation" / name;
}

PrepareSummary read_prepared(const fs::path& folder) { return load_record(folder).summary; }

std::vector<std::string> preparation_changes(const config::DataSection& data) {
  if (data.text.empty()) return {};
  try {
    return differences(load_record(data.dir), make_record(data));
  } catch (const std::exception&) {  // the text need not be where training is
    return {};
  }
}

}  // namespace thinwire::data
