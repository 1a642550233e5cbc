// Records to learn from: prompts with an answer, chats, pairs of answers to a prompt, and texts
// with a class or a number. A record becomes one text and the parts of it to learn; a pair becomes
// two, one behind the other.
//
// A prompt is followed directly by its answer, without anything in between. A chat is rendered by a
// template (chat/chat_template.h); what the assistant says is learnt, but for messages with
// "weight": 0 (as in OpenAI's format). A pair (below) has either kind of answer. For a text
// with a class or a number (labels.h), only that is learnt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "thinwire/config/sections.h"

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
  // In a pair, where in `text` the rejected answer's prompt begins, behind the chosen answer; else
  // 0.
  size_t rejected = 0;
  // For a text with a class or a number: the tokens that say it, which are all that is learnt;
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

  const ChatTemplate* chat() const { return chat_.get(); }  // null: none

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

// Pairs of answers to the same prompt, of which one is preferred, in the formats of TRL:
//   {"prompt": "2+2=", "chosen": " 4", "rejected": " 5"}
//   {"prompt": [messages], "chosen": [messages], "rejected": [messages]}
//   {"chosen": [messages], "rejected": [messages]}: the prompt is what both begin with
// where messages are those of chats. What the assistant says in the prompt is not learnt.

class ChatTemplate;

// A template, or null and why there is none.
struct PairTemplate {
  const ChatTemplate* chat;
  const std::string& fault;
};

// A pair as a record: the chosen answer with its prompt, then the rejected one with the same prompt
// (Record::rejected); otherwise what is wrong with it.
tl::expected<Record, std::string> read_preference(const nlohmann::ordered_json& json,
                                                  const config::DataSection& data,
                                                  const PairTemplate& with);

// Reads the fields of records from JSON lines. Private to this folder's .cpp files, since it
// includes the JSON library.
tl::unexpected<std::string> wrong(std::string why);

bool is_blank_text(std::string_view text);

// The text of a field; otherwise what is wrong. field: the recipe field that names it, or empty.
tl::expected<std::string, std::string> text_of(const nlohmann::ordered_json& json,
                                               const std::string& name, std::string_view field);

// What is wrong with the messages of a chat; empty: nothing.
std::string fault_of_chat(const nlohmann::ordered_json& messages);

}  // namespace thinwire::data
