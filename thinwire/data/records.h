// Records to learn from: prompts with an answer, chats, pairs of answers to a prompt, and texts
// with a class or a number. A record becomes one text and the parts of it to learn; a pair becomes
// two, one behind the other.
//
// A prompt is followed directly by its answer, without anything in between. A chat is rendered by a
// template (chat/chat_template.h); what the assistant says is learnt, but for messages with
// "weight": 0 (as in OpenAI's format). A pair (preferences.h) has either kind of answer. Of a text
// with a class or a number (labels.h) only that is learnt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "thinwire/config/data_section.h"

namespace thinwire::data {

class ChatTemplate;

// Bytes [begin, end) of a text.
struct TextPart {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextPart&) const = default;
};

struct Record {
  std::string text;
  std::vector<TextPart> learnt;  // in order
  bool templated = false;        // a template has put before and after it what belongs there
  // Of a pair: where in `text` the rejected answer's prompt begins, behind the chosen answer; else
  // 0.
  size_t rejected = 0;
  // Of a text with a class or a number: the tokens that say it, which are all that is learnt;
  // `second`: where in `text` its second text begins.
  std::vector<int32_t> target = {};
  std::optional<size_t> second = {};
};

// Thread-safe.
class RecordReader {
 public:
  // chat: null with data.records = "prompts", "labels" and "numbers", and for preferences if there
  // is none that can be used, because of chat_fault: they may be of text alone.
  RecordReader(const config::DataSection& data, std::shared_ptr<const ChatTemplate> chat,
               std::string chat_fault = {})
      : data_(data), chat_(std::move(chat)), chat_fault_(std::move(chat_fault)) {}

  // A line of a .jsonl file; otherwise what is wrong with it, as in "line 3 <is not JSON>".
  tl::expected<Record, std::string> read(std::string_view line) const;

 private:
  const config::DataSection data_;
  const std::shared_ptr<const ChatTemplate> chat_;
  const std::string chat_fault_;
};

// Reads what data.records says; null for text. Throws Error, naming what is supported, for chats
// without a template or with one that cannot be read.
std::shared_ptr<const RecordReader> make_record_reader(const config::DataSection& data);

}  // namespace thinwire::data
