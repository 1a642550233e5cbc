// Contradictions between the fields of a recipe.
#include "thinwire/config/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/config/sections.h"

namespace thinwire::config {
namespace {

// The largest number of tokens that all counters hold.
constexpr double kMaxTokens = 0x1.0p62;

template <typename... Values>
void require(bool holds, fmt::format_string<Values...> message, Values&&... values) {
  if (!holds) throw UsageError(fmt::format(message, std::forward<Values>(values)...));
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

void check_run(const RunSection& run) {
  require(is_plain_name(run.name) && run.name[0] != '.',
          "[run] name must be letters, digits, '-', '_' and '.' and not begin with '.', got '{}'",
          run.name);
}

void check_data(const DataSection& data) {
  require(!data.dir.empty(), "[data] dir must name a folder, got ''");
  std::set<std::string> names = {"validation", "train"};
  for (const std::string& set : data.validation_text) {
    const size_t equals = set.find('=');
    require(equals != std::string::npos && equals + 1 < set.size() &&
                is_plain_name(set.substr(0, equals)) && set[0] != '.',
            "[data] validation_text must hold entries like name=path, the name made of letters, "
            "digits, '-', '_' and '.', got '{}'",
            set);
    require(names.insert(set.substr(0, equals)).second,
            "[data] validation_text uses the name '{}' twice (the split's own sets are named "
            "train and validation)",
            set.substr(0, equals));
  }
  const std::set<std::string> classes(data.labels.begin(), data.labels.end());
  require(classes.size() == data.labels.size() && data.labels.size() != 1,
          "[data] labels must be at least two different names, got '{}'",
          fmt::join(data.labels, "', '"));
  require(data.vocabulary == VocabularyKind::kSentencePiece || data.vocabulary_model.empty(),
          "[data] vocabulary_model = '{}' needs vocabulary = sentencepiece, got {}",
          data.vocabulary_model, name_of(data.vocabulary));
}

void check_train(const TrainSection& train) {
  require(train.workers <= train.batch,
          "[train] workers must be <= batch, got workers {} and batch {}: more workers than batch "
          "rows",
          train.workers, train.batch);
  require(train.microbatch <= train.batch,
          "[train] microbatch must be <= batch, got microbatch {} and batch {}", train.microbatch,
          train.batch);
  const double tokens = static_cast<double>(train.steps) * static_cast<double>(train.batch) *
                        static_cast<double>(train.sequence);
  require(tokens < kMaxTokens, "[train] steps * batch * sequence must be < 2^62, got {}", tokens);
}

void check_preference(const Recipe& recipe) {
  if (recipe.data.records != RecordKind::kPreferences) return;
  const PreferenceSection& preference = recipe.preference;
  require(preference.loss == PreferenceLoss::kSigmoid || preference.label_smoothing == 0,
          "[preference] label_smoothing = {:g} needs loss = \"sigmoid\", got \"{}\"",
          preference.label_smoothing, name_of(preference.loss));
}

// Below the least values sums lose the noise in the rounding of fp32, or it hides nothing.
void check_privacy(const PrivacySection& privacy) {
  constexpr double kLeastClip = 1e-6, kLeastNoise = 0.01;
  require(privacy.clip == 0 || privacy.clip >= kLeastClip,
          "[privacy] clip must be 0 or at least {:g}, got {:g}", kLeastClip, privacy.clip);
  require(!privacy.noisy() || privacy.noise >= kLeastNoise,
          "[privacy] noise must be 0 or at least {:g}, got {:g}", kLeastNoise, privacy.noise);
  require(!privacy.noisy() || privacy.clip > 0,
          "[privacy] noise = {:g} needs clip > 0, got 0: noise hides what is bounded",
          privacy.noise);
  require(
      privacy.sampling == 1 || privacy.noisy(),
      "[privacy] sampling = {:g} needs noise > 0, got 0: who sends nothing but noise would send "
      "nothing",
      privacy.sampling);
}

void check_absent(const SyncSection& sync, int64_t workers) {
  const std::vector<Absence> absences = absences_of(sync, workers);
  require(absences.empty() || !sync.clustered(),
          "[sync] absent needs within = \"none\", got \"{}\": the workers of a cluster train the "
          "same weights at every step, and its first worker exchanges for all",
          name_of(sync.within));
  for (const Absence& one : absences) {
    const auto inactive = std::ranges::count_if(
        std::views::iota(int64_t{0}, workers),
        [&](int64_t member) { return is_absent(absences, static_cast<int>(member), one.first); });
    require(inactive < workers, "[sync] absent leaves no worker in round {}", one.first);
  }
}

void check_links(const LinksSection& links, Launcher launcher) {
  const bool simulated =
      links.step_s > 0 || std::ranges::any_of(links.members, [](const std::string& member) {
        return member.find(".step_s=") != std::string::npos;
      });
  require(!simulated || launcher == Launcher::kThreads,
          "[links] step_s needs [train] launcher = \"threads\", got \"{}\": the virtual clocks of "
          "all workers must be in one process; the run's bits are the same there",
          name_of(launcher));
  require(
      !links.paced || launcher == Launcher::kMpi,
      "[links] paced = true needs [train] launcher = \"mpi\", got \"{}\": threads of one process "
      "send nothing; step_s simulates links there",
      name_of(launcher));
}

void check_tasks(const Recipe& recipe) {
  if (recipe.eval.tasks.empty()) return;
  require(!recipe.eval.data.empty(), "[eval] tasks needs data, the folder of the tasks' data sets");
  require(recipe.adapter.kind == AdapterKind::kNone,
          "[eval] tasks needs [adapter] kind = \"none\", got \"{}\": score the exported model with "
          "`thinwire eval`",
          name_of(recipe.adapter.kind));
  require(recipe.train.weights == WeightFormat::kF32,
          "[eval] tasks needs [train] weights = \"fp32\", got \"{}\": score the finished run with "
          "`thinwire eval`",
          name_of(recipe.train.weights));
}

void check_eval(const EvalSection& eval, const CheckpointSection& checkpoint) {
  require(eval.patience == 0 || eval.every > 0,
          "[eval] patience = {} needs every > 0, got 0: only the end would be evaluated",
          eval.patience);
  require(
      !checkpoint.best || eval.every > 0,
      "[checkpoint] best = true needs [eval] every > 0, got 0: only the end would be evaluated");
}

void check_schedule(const ScheduleSection& schedule, int64_t steps) {
  require(schedule.warmup <= steps,
          "[schedule] warmup must be <= [train] steps, got warmup {} and steps {}", schedule.warmup,
          steps);
  if (schedule.kind != ScheduleKind::kWsd) return;
  require(schedule.decay >= 1, "[schedule] decay must be >= 1 for kind wsd, got {}",
          schedule.decay);
  require(
      schedule.decay <= steps - schedule.warmup,
      "[schedule] warmup + decay must be <= [train] steps for kind wsd, got {} + {} and steps {}",
      schedule.warmup, schedule.decay, steps);
}

}  // namespace

void check_recipe(const Recipe& recipe) {
  check_run(recipe.run);
  check_data(recipe.data);
  check_train(recipe.train);
  check_preference(recipe);
  check_privacy(recipe.privacy);
  check_absent(recipe.sync, recipe.train.workers);
  check_links(recipe.links, recipe.train.launcher);
  check_tasks(recipe);
  check_eval(recipe.eval, recipe.checkpoint);
  check_schedule(recipe.schedule, recipe.train.steps);
}

namespace {

std::string without_values(std::string_view message) {
  std::string text;
  bool quoted = false;
  for (const char character : message) {
    if (character == '"') quoted = !quoted;
    if (!quoted && (character < '0' || character > '9')) text += character;
  }
  return text;
}

}  // namespace

StringList blamed_overrides(StringList overrides, const Complaint& complaint) {
  const std::string contradiction = without_values(complaint(overrides));
  for (size_t i = 0; i < overrides.size();) {
    StringList others = overrides;
    others.erase(others.begin() + static_cast<ptrdiff_t>(i));
    if (without_values(complaint(others)) == contradiction) {
      overrides = std::move(others);
      i = 0;  // an earlier one may have been needed only beside it
    } else {
      ++i;
    }
  }
  return overrides;
}

}  // namespace thinwire::config
