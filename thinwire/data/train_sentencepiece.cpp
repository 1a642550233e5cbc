#include <fmt/format.h>
#include <sentencepiece_trainer.h>

#include "thinwire/base/error.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

// Lines are the trainer's sentences, so that no piece holds a line break and words at the beginning
// of a line are learnt with the leading space they have elsewhere.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::function<const std::string*()>& next) : next_(next), text_(next_()) {
    Next();
  }

  bool done() const override { return text_ == nullptr; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  void Next() override {
    line_.clear();
    while (text_ != nullptr && line_.empty()) {
      if (at_ >= text_->size()) {
        text_ = next_();
        at_ = 0;
        continue;
      }
      const size_t end = std::min(text_->find('\n', at_), text_->size());
      line_ = text_->substr(at_, end - at_);
      at_ = end + 1;
    }
  }

 private:
  const std::function<const std::string*()>& next_;
  const std::string* text_;
  size_t at_ = 0;
  std::string line_;
};

std::unordered_map<std::string, std::string> trainer_settings(const SentencePieceOptions& options) {
  return {
      {"model_type", options.type},
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

}  // namespace

std::string train_sentencepiece(const std::function<const std::string*()>& next,
                                const SentencePieceOptions& options) {
  Lines lines(next);
  if (lines.done()) throw Error("there is no text to train a vocabulary on");
  std::string model;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train(trainer_settings(options), &lines, &model);
  if (!status.ok()) {
    throw Error(
        fmt::format("cannot make a vocabulary of data.vocabulary_size = {} pieces from this "
                    "text: {}",
                    options.size, status.ToString()));
  }
  return model;
}

}  // namespace thinwire::data
