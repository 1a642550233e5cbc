// Every two features of which the table of combinations says that they go together, together in a
// run of a few steps: a pair that fails here is a fault of the checks or of the program. Without
// those that need a GPU, whose code torch_cpu runs as well, or ranks of an MPI job.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <tuple>
#include <vector>

#include "tests/launch/hosted_run.h"
#include "tests/paths.h"
#include "tests/tiny_run.h"
#include "thinwire/launch/train.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/combinations.h"
#include "thinwire/model/torch_ops.h"

namespace thinwire::launch {
namespace {

using config::RecordKind;
using method::Command;
using method::Feature;

constexpr const char* kTemplate = "{% for m in messages %}{{ m.content }}{% endfor %}";

std::string lines_of(RecordKind records) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    if (records == RecordKind::kPrompts)
      lines += fmt::format(R"({{"prompt": "{}", "answer": " w"}})", i);
    if (records == RecordKind::kChats) {
      lines += fmt::format(R"({{"messages": [{{"role": "user", "content": "{}"}}, )"
                           R"({{"role": "assistant", "content": "w"}}]}})",
                           i);
    }
    if (records == RecordKind::kPreferences) {
      lines += fmt::format(R"({{"prompt": "{}", "chosen": " w", "rejected": " x"}})", i);
    }
    if (records == RecordKind::kLabels)
      lines += fmt::format(R"({{"text": "w {}", "label": {}}})", i, i % 2);
    if (records == RecordKind::kNumbers)
      lines += fmt::format(R"({{"text": "w {}", "label": 0.5}})", i);
    lines += "\n";
  }
  return lines;
}

// What the runs of this process share: prepared data of each kind, models to begin with, a task.
class Shared {
 public:
  Shared() : folder_(tests::memory_folder() / fmt::format("combinations.{}", getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    write_file(folder_ / "task.jsonl", "{\"a\": \"w\", \"b\": \"x\"}\n");
    write_file(folder_ / "task.toml",
               "[[source]]\nfile = \"task.jsonl\"\ncontexts = [\"thin\"]\n"
               "continuations = [\"{a}\", \"{b}\"]\nlabels = [\"1\", \"2\"]\nanswer = \"1\"\n");
    write_file(folder_ / "chat.jinja", kTemplate);
  }
  ~Shared() { fs::remove_all(folder_); }

  // The data of a recipe, prepared when it is first asked for.
  std::string data(RecordKind records) {
    const fs::path place = folder_ / name_of(records);
    if (fs::exists(place)) return (place / "tokens").string();
    fs::create_directories(place);
    if (records == RecordKind::kText) return prepare_tiny_corpus(place);
    write_file(place / "lines.jsonl", lines_of(records));
    config::DataSection data;
    data.dir = (place / "tokens").string();
    data.text = {(place / "lines.jsonl").string()};
    data.records = records;
    data.vocabulary =
        is_labelled(records) ? config::VocabularyKind::kByteBpe : config::VocabularyKind::kByte;
    data.vocabulary_size = 257;
    if (records == RecordKind::kChats) data.chat_template = (folder_ / "chat.jinja").string();
    data.validation_fraction = 0.1;
    data.validation_block = 4;
    data::prepare(data, {.threads = 1});
    return data.dir;
  }

  // A recipe whose run is quick and in `run`; it has what a few steps need.
  config::Recipe recipe(std::vector<std::string> overrides, const fs::path& run) {
    const config::Recipe asked = read(overrides);
    const auto& [architecture, optimizer, method, adapter] = std::tie(
        asked.model.architecture, asked.optim.method, asked.sync.method, asked.adapter.kind);
    overrides.insert(overrides.end(), {"model.hidden=32", "model.layers=2", "model.heads=2",
                                       "train.sequence=16", "train.steps=3", "optim.lr=0.003",
                                       "schedule.warmup=1", "eval.rows=2", "checkpoint.minutes=0",
                                       "log.tensorboard=false", architecture + ".intermediate=64"});
    if (method::find_method(method).local_updates) {
      overrides.push_back(method + (method == "streaming" ? ".sync_every=4" : ".sync_every=2"));
    }
    if (optimizer.ends_with("galore") || optimizer == "apollo" || optimizer == "fira") {
      overrides.push_back(optimizer + ".rank=4");
    }
    if (adapter != method::AdapterKind::kNone) overrides.emplace_back("adapter.rank=4");
    if (adapter == method::AdapterKind::kRelora) {
      overrides.insert(overrides.end(), {"relora.merge_every=2", "relora.rewarm=1"});
    }
    overrides.push_back("run.dir=" + run.string());
    overrides.push_back("data.dir=" + data(asked.data.records));
    if (!asked.train.init.empty()) overrides.push_back("train.init=" + model_for(asked));
    if (!asked.eval.tasks.empty()) {
      overrides.push_back("eval.tasks=" + (folder_ / "task.toml").string());
      overrides.push_back("eval.data=" + folder_.string());
    }
    return read(overrides);
  }

  fs::path folder() const { return folder_; }

 private:
  static config::Recipe read(const std::vector<std::string>& overrides) {
    return method::load_recipe("", overrides);
  }

  // A model of the shape and the vocabulary that the recipe wants.
  std::string model_for(const config::Recipe& asked) {
    const RecordKind records = asked.data.records;
    const bool encoded = is_labelled(records);
    const fs::path run =
        folder_ / fmt::format("model.{}.{}", name_of(encoded ? records : RecordKind::kText),
                              asked.model.tied);
    if (!fs::exists(run)) {
      std::vector<std::string> fields = {fmt::format("model.tied={}", asked.model.tied)};
      if (encoded) {
        fields.insert(
            fields.end(),
            {fmt::format("data.records={}", name_of(records)), "model.architecture=roberta",
             records == RecordKind::kLabels ? "roberta.labels=2" : "roberta.labels=1"});
      }
      train(recipe(fields, run), {});
    }
    return run.string();
  }

  const fs::path folder_;
};

Shared& shared() {
  static Shared all;
  return all;
}

class Combinations : public testing::TestWithParam<size_t> {
 protected:
  // Calls `run` for each pair of this feature and a later one that goes together.
  template <typename Run>
  void try_pairs(bool hosted, const Run& run) {
    const std::vector<Feature>& all = method::all_features();
    const Feature& one = all[GetParam()];
    for (size_t other = GetParam() + 1; other < all.size(); ++other) {
      const auto pair = method::combine(one, all[other]);
      if (!pair || !pair->works() || hosted != (pair->command != Command::kTrain)) continue;
      const config::Recipe asked = method::load_recipe("", pair->overrides);
      if (asked.train.device == config::DeviceChoice::kCuda ||
          asked.train.launcher == config::Launcher::kMpi)
        continue;
      // A program with LibTorch tries what needs it, one without all else.
      if ((asked.train.device == config::DeviceChoice::kTorchCpu) != model::has_torch_ops())
        continue;
      SCOPED_TRACE(
          fmt::format("{} and {}: {}", one.name, all[other].name, fmt::join(pair->overrides, " ")));
      const fs::path folder = shared().folder() / "pair";
      fs::remove_all(folder);
      fs::create_directories(folder);
      try {
        run(shared().recipe(pair->overrides, folder / "run"), folder, pair->command);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
};

TEST_P(Combinations, ThatGoTogetherTrain) {
  try_pairs(false, [](const config::Recipe& recipe, const fs::path&, Command) {
    const TrainResult result = train(recipe, {});
    EXPECT_EQ(result.outcome, Outcome::kFinished);
  });
}

TEST_P(Combinations, ThatGoTogetherTrainOnManyHosts) {
  try_pairs(true, [](const config::Recipe& recipe, const fs::path& folder, Command command) {
    constexpr int kAuditor = 9;
    membership::Options options = membership::options_of(recipe);
    HostedRun run(recipe, folder, options);
    if (command == Command::kAudit) {
      run.admit_auditor(kAuditor);
      run.start_auditor(kAuditor);
    }
    if (command == Command::kSite) {
      run.start_site(0, 2);
    } else {
      run.start(0);
    }
    for (const int number : {1, 2}) run.start(number);
    const member::MemberResult first = run.wait(0);
    EXPECT_EQ(first.outcome, member::MemberOutcome::kFinished) << first.why;
    for (const int number : {1, 2}) EXPECT_EQ(run.wait(number).digest, first.digest);
    if (command != Command::kAudit) return;
    EXPECT_EQ(run.wait(kAuditor).digest, first.digest);
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Combinations, testing::Range(size_t{0}, method::all_features().size()),
                         [](const auto& test) {
                           std::string name = method::all_features()[test.param].name;
                           for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace thinwire::launch
