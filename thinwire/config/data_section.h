// The table [data] of a recipe: text, vocabulary and token shards.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/config/fields.h"

namespace thinwire::config {

struct DataSection final : SectionOf<DataSection> {
  std::string dir = "data/tokens";  // where the prepared shards and vocabulary are
  StringList text;                  // source files or folders
  StringList validation_text;       // further validation sets, "name=path"
  std::string text_field = "text";  // the field of .jsonl lines that holds the document
  std::string records = "text";  // text | prompts | chats | preferences | labels: of .jsonl lines
  std::string prompt_field = "prompt";
  std::string answer_field;  // empty: completion, or else answer
  std::string messages_field = "messages";
  std::string pair_field = "text_pair";
  std::string label_field = "label";
  StringList labels;          // names of the classes, in order; empty: labels are numbers
  std::string chat_template;  // a .jinja file; empty: the tokenizer's own
  std::string document =
      "blank_line";  // what ends a document in .txt: blank_line | entry | line | file
  std::string invalid_utf8 = "error";        // error | replace
  std::string bad_lines = "error";           // of .jsonl: error | skip
  std::string vocabulary = "sentencepiece";  // sentencepiece | byte_bpe | byte
  std::string vocabulary_model;              // an existing file instead of training one
  std::string vocabulary_type = "bpe";       // bpe | unigram
  int64_t vocabulary_size = 4096;
  int64_t vocabulary_sample_bytes = 16'000'000;  // training text for the vocabulary
  double validation_fraction = 0.01;
  int64_t validation_block = 0;  // documents in one block of the interleaved split; 0: chosen
  int64_t shard_tokens = 100'000'000;
  void describe(Fields& fields) override;
};

}  // namespace thinwire::config
