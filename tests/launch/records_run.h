// Prompts with answers to train on, for tests.
#pragma once

#include <fmt/format.h>

#include <string>

#include "thinwire/base/file.h"
#include "thinwire/data/prepare.h"

namespace thinwire::launch {

// Prompts with answers of `words` words or, with 0, of 1 to 5, as byte tokens.
inline void prepare_records(const fs::path& folder, int records, int words = 0) {
  std::string lines;
  for (int i = 0; i < records; ++i) {
    std::string answer;
    for (int word = 0; word < (words == 0 ? 1 + i % 5 : words); ++word) answer += " wire";
    lines += fmt::format("{{\"prompt\": \"{:02} thin\", \"completion\": \"{}\"}}\n", i, answer);
  }
  write_file(folder / "lines.jsonl", lines);
  config::DataSection data;
  data.dir = (folder / "tokens").string();
  data.text = {(folder / "lines.jsonl").string()};
  data.validation_text = {"same=" + (folder / "lines.jsonl").string()};
  data.validation_fraction = 0;
  data.records = config::RecordKind::kPrompts;
  data.vocabulary = config::VocabularyKind::kByte;
  data::prepare(data, {.threads = 1});
}

}  // namespace thinwire::launch
