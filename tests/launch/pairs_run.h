// Pairs of answers to learn preferences from, for tests.
#pragma once

#include <fmt/format.h>

#include <string>

#include "tests/tiny_run.h"
#include "thinwire/base/file.h"
#include "thinwire/data/prepare.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {

// Pairs whose chosen answer speaks of wires and whose rejected one, longer or shorter, of ropes, as
// byte tokens, and beside them a model that has seen text only.
inline void prepare_pairs(const fs::path& folder, int pairs) {
  const auto words = [](const char* word, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += word;
    return text;
  };
  std::string lines;
  for (int i = 0; i < pairs; ++i) {
    lines += fmt::format("{{\"prompt\": \"{:02}\", \"chosen\": \"{}\", \"rejected\": \"{}\"}}\n", i,
                         words(" wire", 1 + i % 3), words(" rope", 1 + i * i % 3));
  }
  write_file(folder / "pairs.jsonl", lines);
  config::DataSection data;
  data.dir = (folder / "tokens").string();
  data.text = {(folder / "pairs.jsonl").string()};
  data.validation_text = {"same=" + (folder / "pairs.jsonl").string()};
  data.validation_fraction = 0;
  data.records = config::RecordKind::kPreferences;
  data.vocabulary = config::VocabularyKind::kByte;
  data::prepare(data, {.threads = 1});
  fs::create_directories(folder / "base");
  prepare_tiny_corpus(folder / "base", 100);
  train(tiny_recipe(folder / "base", {"train.steps=3"}), {});
}

}  // namespace thinwire::launch
