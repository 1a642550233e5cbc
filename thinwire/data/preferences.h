// Pairs of answers to the same prompt, of which one is preferred, in the formats of TRL:
//   {"prompt": "2+2=", "chosen": " 4", "rejected": " 5"}
//   {"prompt": [messages], "chosen": [messages], "rejected": [messages]}
//   {"chosen": [messages], "rejected": [messages]}: the prompt is what both begin with
// where messages are those of chats. What the assistant says in the prompt is not learnt.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tl/expected.hpp>

#include "thinwire/config/data_section.h"
#include "thinwire/data/records.h"

namespace thinwire::data {

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

}  // namespace thinwire::data
