// A tiny corpus and a tiny recipe for tests that train for real.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/rng.h"
#include "thinwire/data/prepare.h"
#include "thinwire/method/registry.h"

namespace thinwire {

// A folder only for this test, initially empty.
inline fs::path test_folder(const fs::path& root = testing::TempDir()) {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(info->test_suite_name()) + "." + info->name();
  for (char& c : name) c = c == '/' ? '_' : c;
  fs::path folder = root / "thinwire" / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

inline std::vector<std::string> few_words() {
  return {"thin", "wires", "carry", "small", "payloads", "far"};
}

// Sentences with a pattern to learn, as byte tokens, with validation sets "validation" and "other".
inline fs::path prepare_tiny_corpus(const fs::path& folder, int lines = 900,
                                    const std::vector<std::string>& words = few_words()) {
  std::string text;
  std::string other;
  Rng rng(1, 1);
  for (int line = 0; line < lines; ++line) {
    for (int word = 0; word < 6; ++word) text += words[rng.below(words.size())] + ' ';
    text += '\n';
    if (line % 10 == 0) other += "payloads carry wires far and small\n";
  }
  write_file(folder / "text.txt", text);
  write_file(folder / "other.txt", other);
  config::DataSection data;
  data.dir = (folder / "tokens").string();
  data.text = {(folder / "text.txt").string()};
  data.validation_text = {"other=" + (folder / "other.txt").string()};
  data.document = config::DocumentEnd::kLine;
  data.vocabulary = config::VocabularyKind::kByte;
  data.validation_fraction = 0.05;
  data.validation_block = 4;
  data::prepare(data, {.threads = 1});
  return data.dir;
}

// Two workers, 12 steps, a 2-block model; `overrides` come last.
inline config::Recipe tiny_recipe(const fs::path& folder, std::vector<std::string> overrides = {}) {
  std::vector<std::string> all = {"data.dir=" + (folder / "tokens").string(),
                                  "run.dir=" + (folder / "run").string(),
                                  "model.hidden=32",
                                  "model.layers=2",
                                  "model.heads=2",
                                  "llama.intermediate=64",
                                  "train.workers=2",
                                  "train.batch=4",
                                  "train.sequence=16",
                                  "train.steps=12",
                                  "optim.lr=0.003",
                                  "schedule.warmup=2",
                                  "log.tensorboard=false"};
  // Fields may be given by their old names, but not by both.
  const bool by_old_names = std::ranges::any_of(
      overrides, [](const std::string& one) { return one.starts_with("optim.beta"); });
  if (!by_old_names) all.insert(all.end(), {"adamw.beta1=0.9", "adamw.beta2=0.95"});
  all.insert(all.end(), overrides.begin(), overrides.end());
  return method::load_recipe("", all);
}

}  // namespace thinwire
