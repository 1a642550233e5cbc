// Scenarios of a run, as scripts: what happens to its members, coordinators and store, and after
// each `----` what the ledger records and what members tell their users meanwhile. scenarios/*.txt
// are read by people; THINWIRE_REWRITE_SCENARIOS=1 writes down what comes out, to be read again.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "simulated_run.h"
#include "tests/paths.h"
#include "thinwire/base/cases.h"
#include "thinwire/base/file.h"

namespace thinwire::membership {
namespace {

constexpr double kEndSeconds = 2000;  // of virtual time
constexpr const char* kAnswer = "----";
constexpr const char* kWithoutFolder = "without its folder";

std::string in_words(const Change& change) {
  return std::visit(
      Cases{[](const Founding&) -> std::string { return "founds the run"; },
            [](const Admission& one) { return fmt::format("admits member {}", one.member); },
            [](const PhaseChange& one) {
              std::string text = fmt::format("member {} {}", one.member, name_of(one.phase));
              if (one.phase == Phase::kCatchingUp) {
                text += one.snapshot ? fmt::format(" from snapshot {}", *one.snapshot)
                                     : " from where it is";
              }
              return text;
            },
            [](const Snapshot& one) {
              return fmt::format("member {} holds snapshot {}", one.member, one.sequence);
            },
            [](const Speed& one) {
              return fmt::format("member {} takes {:.2f} rows a second", one.member,
                                 one.rows_per_second);
            },
            [](const Offence& one) { return fmt::format("an offence of member {}", one.member); },
            [](const AgreedDigest& one) {
              return fmt::format("digest of round {} agreed", one.round);
            },
            [](const Evaluation& one) {
              return fmt::format("the evaluation after {} steps{}", one.step,
                                 one.ends ? " ends the run" : "");
            }},
      change);
}

// `reopened`: whether a round was opened before.
std::string in_words(const Record& record, const std::function<bool(uint64_t)>& reopened) {
  std::vector<std::string> parts;
  for (const Change& change : record.changes) {
    if (std::holds_alternative<Speed>(change)) continue;  // there are many, and they are measured
    parts.push_back(in_words(change));
  }
  if (record.closing) {
    std::string text = fmt::format("closes round {}", record.closing->round);
    if (!record.closing->missing.empty()) {
      text += fmt::format(" without {}", fmt::join(record.closing->missing, " "));
    }
    for (const Contribution& one : record.closing->commits.front().contributions) {
      if (one.round == record.closing->round) continue;
      text += fmt::format(", counting what member {} computed in round {}", one.member, one.round);
    }
    parts.push_back(std::move(text));
  }
  for (const Opening& opening : record.openings) {
    std::vector<int> roster;
    for (const Share& share : opening.roster) roster.push_back(share.member);
    parts.push_back(fmt::format("opens round {}{} for {}", opening.round,
                                reopened(opening.round) ? " again" : "", fmt::join(roster, " ")));
  }
  return fmt::format("record {}: {}", record.sequence, fmt::join(parts, ", "));
}

// One scenario as it runs.
class Play {
 public:
  // What the command gives; throws Error for one that is not understood.
  std::string carry_out(const std::string& line) {
    said_.clear();
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "run") {
      found(words);
    } else if (verb == "for") {
      double seconds = 0;
      words >> seconds;
      network_.run(network_.now() + seconds, [] { return false; });
    } else if (verb == "until") {
      uint64_t round = 0;
      words >> verb >> round;  // "round N"
      network_.run(kEndSeconds, [&] { return opened_ && *opened_ >= round; });
    } else if (line == "to the end") {
      end();
    } else if (verb == "store") {
      act_on_store(words);
    } else {
      act_on_host(verb, words);
    }
    return said_;
  }

 private:
  // run members=3 rounds=5 ...
  void found(std::istringstream& words) {
    std::map<std::string, double> values{{"members", 3}, {"coordinators", 1}, {"rounds", 5},
                                         {"overlap", 0}, {"fragments", 1},    {"quorum", 1},
                                         {"late", 0},    {"snapshots", 100}};
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      const auto value = values.find(word.substr(0, equals));
      if (equals == word.npos || value == values.end()) throw Error("unknown setting " + word);
      value->second = std::stod(word.substr(equals + 1));
    }
    RunSettings settings;
    settings.options.timeout_s = 40;
    settings.options.quorum = values["quorum"];
    settings.options.late_counts = values["late"] != 0;
    settings.options.snapshot_every = static_cast<uint64_t>(values["snapshots"]);
    settings.coordinators = static_cast<uint64_t>(values["coordinators"]);
    settings.seconds_per_row.assign(static_cast<size_t>(values["members"]), 0.3);
    plan_.emplace(static_cast<uint64_t>(values["overlap"]),
                  static_cast<uint32_t>(values["fragments"]),
                  static_cast<uint64_t>(values["rounds"]));
    run_.emplace(network_, *plan_, settings);
    run_->on_record = [this](const Record& record) {
      say(in_words(record, [this](uint64_t round) { return opened_ && round <= *opened_; }));
      for (const Opening& one : record.openings) opened_ = std::max(opened_.value_or(0), one.round);
    };
    run_->on_told = [this](int member, const std::string& text) {
      say(fmt::format("member {}: {}", member, text));
    };
  }

  void act_on_store(std::istringstream& words) {
    std::string state;
    std::getline(words >> std::ws, state);
    if (state == "is full") return network_.set_full(true);
    if (state == "has room") return network_.set_full(false);
    if (state == "syncs") return network_.sync();
    if (state == "loses power") return network_.restart_store(1, true);
    throw Error("the store cannot: " + state);
  }

  void act_on_host(const std::string& verb, std::istringstream& words) {
    std::string kind;
    words >> kind;
    std::vector<size_t> numbers;
    for (size_t number = 0; words >> number;) numbers.push_back(number);
    words.clear();
    std::string rest;
    std::getline(words >> std::ws, rest);
    const bool known = (kind == "coordinator" && rest.empty()) ||
                       (kind == "member" && (rest.empty() || rest == kWithoutFolder));
    if (!known || numbers.empty()) throw Error("nobody is called " + kind + " " + rest);
    for (const size_t number : numbers) {
      if (kind == "coordinator") {
        act_on(run_->coordinator(number), verb);
      } else {
        act_on(run_->member(number), verb, rest == kWithoutFolder);
      }
    }
  }

  void act_on(CoordinatorHost& host, const std::string& verb) {
    if (verb == "start") return host.start();
    if (verb == "kill") return host.stop();
    link(host, verb);
  }

  void act_on(SimulatedMember& member, const std::string& verb, bool without_folder) {
    if (verb == "start") return member.start(!without_folder);
    if (verb == "flip") return member.flip_a_bit();
    if (verb == "leave") return member.leave();
    if (verb == "kill") {
      member.stop();
    } else {
      link(member, verb);
    }
    if (verb != "connect") run_->tell_departed(member);
  }

  void link(Host& host, const std::string& verb) {
    if (verb != "connect" && verb != "disconnect") throw Error("nobody can " + verb);
    host.linked = verb == "connect";
    network_.update_connections();
  }

  void end() {
    network_.run(kEndSeconds, [&] { return run_->is_done() || !run_->violation().empty(); });
    run_->check_end();
    say(run_->violation().empty() ? "all have the same weights" : run_->violation());
  }

  void say(const std::string& text) { said_ += text + "\n"; }

  Network network_;
  std::optional<FakePlan> plan_;
  std::optional<SimulatedRun> run_;
  std::optional<uint64_t> opened_;
  std::string said_;
};

// The script with what comes out of it now: lines of commands, "----", the answer, and an empty
// line after that. Lines with # are kept.
std::string played(const std::string& script) {
  Play play;
  std::string result, answer;
  bool in_answer = false;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    if (in_answer) {
      in_answer = !line.empty();
      if (!in_answer) result += "\n";
      continue;
    }
    result += line + "\n";
    if (line == kAnswer) {
      result += std::exchange(answer, "");
      in_answer = true;
    } else if (!line.empty() && !line.starts_with('#')) {
      answer += play.carry_out(line);
    }
  }
  return result;
}

class Scenario : public testing::TestWithParam<std::string> {};

TEST_P(Scenario, GoesAsItIsWritten) {
  const fs::path file = tests::source_file("tests/membership/scenarios/" + GetParam() + ".txt");
  const std::string script = read_text_file(file);
  const std::string now = played(script);
  if (std::getenv("THINWIRE_REWRITE_SCENARIOS") != nullptr) write_file(file, now);
  EXPECT_EQ(now, script);
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& entry :
       fs::directory_iterator(tests::source_file("tests/membership/scenarios"))) {
    names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Scenario, testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace thinwire::membership
