// A member's own text: the part of run_data.h that prepares it.
#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/config/check.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/prepare_record.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/method/registry.h"

namespace thinwire::hosts {
namespace {

void check_records(const OwnText& text, const std::string& records) {
  if (records == name_of(text.records)) return;
  throw UsageError(
      fmt::format("--data {}: it has [data] records = \"{}\", and the run learns \"{}\"",
                  text.given.string(), records, name_of(text.records)));
}

void check_prepared(const OwnText& text, const RunDescription& description) {
  const fs::path& folder = text.given;
  // A folder from before there were kinds of records has text.
  check_records(text, data::load_record(folder).settings.value("records", std::string("text")));
  if (data::Vocabulary::load(folder)->digest() == description.vocabulary.value().digest) return;
  throw UsageError(fmt::format(
      "--data {}: it was prepared with another vocabulary than the run's; name its text "
      "instead, which is then prepared with the run's",
      folder.string()));
}

// What a recipe says about its text, or a text alone.
config::DataSection described_text(const OwnText& text) {
  if (text.given.extension() != ".toml") {
    config::DataSection data;
    data.text = {text.given.string()};
    data.records = text.records;
    return data;
  }
  config::DataSection data =
      config::load_recipe(text.given, {}, method::method_sections(), [](const config::Recipe&) {
      }).data;
  if (data.text.empty()) {
    throw UsageError(
        fmt::format("--data {}: its [data] names no text, which the run needs this member's of",
                    text.given.string()));
  }
  check_records(text, std::string(name_of(data.records)));
  return data;
}

// All of it is for training: the run's validation sets are the same for all members.
config::DataSection preparation(const OwnText& text, const fs::path& vocabulary) {
  config::DataSection data = described_text(text);
  data.dir = text.prepared.string();
  data.validation_text.clear();
  data.validation_fraction = 0;
  data.vocabulary = config::VocabularyKind::kSentencePiece;
  data.vocabulary_model = vocabulary.string();
  return data;
}

fs::path prepare(const OwnText& text, const fs::path& vocabulary,
                 const events::MessageSink& message) {
  const config::DataSection data = preparation(text, vocabulary);
  const bool changed =
      fs::exists(text.prepared / data::kRecordFile) && !data::preparation_changes(data).empty();
  const data::PrepareSummary summary = data::prepare(
      data, {.force = changed, .cancelled = [&] { return text.stop != nullptr && *text.stop; }});
  if (!summary.already_prepared) {
    message(fmt::format("prepared {} of {} into {}, which stays on this machine",
                        counted(summary.sets.front().tokens, "token"), text.given.string(),
                        text.prepared.string()));
  }
  return text.prepared;
}

}  // namespace

void add_own_text(const OwnText& text, const fs::path& folder, const RunDescription& description,
                  const events::MessageSink& message) {
  if (!fs::exists(text.given)) {
    throw UsageError(
        fmt::format("--data {}: there is no such file or folder", text.given.string()));
  }
  if (fs::exists(text.given / data::kRecordFile)) {
    check_prepared(text, description);
    return add_training_set(folder, description, text.given);
  }
  const fs::path vocabulary = folder / description.vocabulary.value().file;
  add_training_set(folder, description, prepare(text, vocabulary, message));
}

}  // namespace thinwire::hosts
