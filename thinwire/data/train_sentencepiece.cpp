#include <fmt/format.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

constexpr auto kWaitingInterval = std::chrono::milliseconds(50);

// Lines are the trainer's sentences, so that no piece contains a line break and words at the
// beginning of a line are learnt with the leading space that they have elsewhere.
std::vector<std::string> lines_of(const std::function<const std::string*()>& next) {
  std::vector<std::string> lines;
  while (const std::string* text = next()) {
    for (size_t at = 0; at < text->size();) {
      const size_t end = std::min(text->find('\n', at), text->size());
      if (end > at) lines.push_back(text->substr(at, end - at));
      at = end + 1;
    }
  }
  return lines;
}

class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& lines) : lines_(lines) {}

  bool done() const override { return at_ == lines_.size(); }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }
  void Next() override { ++at_; }

 private:
  const std::vector<std::string>& lines_;
  size_t at_ = 0;
};

std::unordered_map<std::string, std::string> trainer_settings(const SentencePieceOptions& options) {
  return {
      {"model_type", std::string(name_of(options.type))},
      {"vocab_size", std::to_string(options.size)},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},
      {"byte_fallback", "true"},
      {"character_coverage", "0.9995"},
      {"split_digits", "true"},
      {"allow_whitespace_only_pieces", "true"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "true"},
      {"max_sentence_length", "1073741824"},
      {"input_sentence_size", "0"},
      {"shuffle_input_sentence", "false"},
      {"num_threads", "4"},  // fixed: unigram sums floats in an order that depends on it
      {"minloglevel", "3"},
  };
}

// The trainer's message says how many pieces the text has: "... Please set it to a value <= 336."
[[noreturn]] void refuse_size(int64_t size, const std::string& why) {
  constexpr std::string_view kMost = "to a value <= ";
  const size_t at = why.find(kMost);
  // "Vocabulary size is smaller than required_chars. 100 vs 318. ..."
  constexpr std::string_view kLeast = "smaller than required_chars. ";
  const size_t least = why.find(kLeast);
  if (least != std::string::npos) {
    throw Error(
        fmt::format("data.vocabulary_size = {} is less than the number of characters in this text: "
                    "set at least {}, or data.vocabulary=byte, which needs no training",
                    size, std::stoll(why.substr(why.find(" vs ", least) + 4))));
  }
  if (at == std::string::npos) {
    throw Error(fmt::format(
        "cannot make a vocabulary of data.vocabulary_size = {} pieces from this text: {}", size,
        why));
  }
  throw Error(
      fmt::format("data.vocabulary_size = {} is more than the number of pieces in this text: set "
                  "at most {}, or data.vocabulary=byte, which needs no training",
                  size, std::stoll(why.substr(at + kMost.size()))));
}

std::string train(const std::vector<std::string>& lines, const SentencePieceOptions& options) {
  Sentences sentences(lines);
  std::string model;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train(trainer_settings(options), &sentences, &model);
  if (!status.ok()) refuse_size(options.size, status.ToString());
  return model;
}

}  // namespace

std::string train_sentencepiece(const std::function<const std::string*()>& next,
                                const SentencePieceOptions& options,
                                const std::function<void()>& waiting) {
  std::vector<std::string> lines = lines_of(next);
  if (lines.empty()) throw Error("there is no text to train a vocabulary on");
  std::packaged_task<std::string()> task(
      [lines = std::move(lines), options] { return train(lines, options); });
  std::future<std::string> model = task.get_future();
  std::thread trainer(std::move(task));
  try {
    while (model.wait_for(kWaitingInterval) != std::future_status::ready) {
      if (waiting) waiting();
    }
  } catch (...) {
    trainer.detach();  // nothing can stop it, and it owns all that it uses
    throw;
  }
  trainer.join();
  return model.get();
}

}  // namespace thinwire::data
