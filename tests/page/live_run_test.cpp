#include "thinwire/page/live_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "thinwire/base/json.h"

namespace thinwire::page {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class LiveRunTest : public testing::Test {
 protected:
  static RunFacts facts() {
    RunFacts facts;
    facts.command = "train";
    facts.name = "tiny";
    facts.method = "distro";
    facts.workers = 2;
    facts.steps = 100;
    facts.predicted = {1000, 1000, false};
    return facts;
  }
  Json shown() const { return parse_json<Json>(print_page_state(run_.state())); }

  void step(int64_t number, double loss) {
    events::StepEvent event;
    event.step = number;
    event.loss = loss;
    event.bytes_sent = 900;
    event.bytes_received = 800;
    event.seconds = {{"compute", 3}, {"exchange", 1}};
    run_.on_event(event);
  }

  double now_ = 1000;
  LiveRun run_{facts(), [this] { return now_; }};
};

TEST_F(LiveRunTest, SaysWhatIsNotKnownByNull) {
  const Json json = shown();
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["command"], "train");
  EXPECT_EQ(json["state"], "running");
  EXPECT_EQ(json["step"], 0);
  for (const char* unknown : {"round", "rounds", "step_s", "left_s", "last_step"}) {
    EXPECT_TRUE(json[unknown].is_null()) << unknown;
  }
  EXPECT_TRUE(json["bytes_per_step"]["sent"]["measured"].is_null());
  EXPECT_EQ(json["bytes_per_step"]["sent"]["predicted"], 1000);
  EXPECT_EQ(json["bytes_per_step"]["prediction_is_exact"], false);
}

TEST_F(LiveRunTest, FollowsStepsAndEvaluations) {
  for (int64_t number = 1; number <= 3; ++number) {
    now_ += 4;
    step(number, 5.0 - static_cast<double>(number));
  }
  run_.on_event(events::EvalEvent{3, "validation", 2.5});
  run_.on_event(events::EvalEvent{3, "arc_easy.acc", 0.25, 0, true});
  run_.on_event(events::MessageEvent{3, "a checkpoint"});
  const Json json = shown();
  EXPECT_EQ(json["step"], 3);
  EXPECT_EQ(json["step_s"], 4);
  EXPECT_EQ(json["left_s"], 4 * 97);
  EXPECT_THAT(json["loss"]["train"]["value"], ElementsAre(4, 3, 2));
  EXPECT_THAT(json["loss"]["validation"]["validation"]["step"], ElementsAre(3));
  EXPECT_EQ(json["loss"]["scores"]["arc_easy.acc"]["value"][0], 0.25);
  EXPECT_EQ(json["bytes_per_step"]["sent"]["measured"], 900);
  EXPECT_EQ(json["bytes_per_step"]["received"]["measured"], 800);
  EXPECT_EQ(json["seconds_per_step"]["exchange"], 1);
  EXPECT_EQ(json["messages"][0]["text"], "a checkpoint");
}

TEST_F(LiveRunTest, CountsEarlierStepsButTakesNoPaceFromThem) {
  events::StepEvent earlier;
  earlier.step = 40;
  earlier.loss = 3;
  earlier.bytes_sent = 500;
  earlier.time = 10;
  earlier.seconds = {{"compute", 1000}};
  run_.on_event(earlier);
  const Json json = shown();
  EXPECT_EQ(json["step"], 40);
  EXPECT_EQ(json["bytes_per_step"]["sent"]["measured"], 500);
  EXPECT_TRUE(json["step_s"].is_null());
  EXPECT_TRUE(json["seconds_per_step"].empty());
}

TEST_F(LiveRunTest, PutsAWorkersPartsOnItsTimeLine) {
  now_ += 4;
  run_.on_event(events::WorkerStep{1, 1, 3, 1});
  const Json json = shown();
  ASSERT_EQ(json["members"].size(), 1u);
  const Json& member = json["members"][0];
  EXPECT_EQ(member["id"], 1);
  EXPECT_EQ(member["doing"], "training");
  EXPECT_EQ(member["step"], 1);
  EXPECT_THAT(member["time_line"]["computing"], ElementsAre(100, 100, 100, 100, 100, 100, 0, 0));
  EXPECT_THAT(member["time_line"]["waiting"], ElementsAre(0, 0, 0, 0, 0, 0, 100, 100));
  EXPECT_FALSE(member["time_line"].contains("sending"));
}

TEST_F(LiveRunTest, TakesThePaceOfAServedRunFromItsRounds) {
  for (int64_t number = 0; number < 3; ++number) {
    now_ += 4;
    ClosedRound round;
    round.first_step = 2 * number;
    round.steps = 2;
    if (number > 0) round.seconds = 4;  // the first was closed before this process
    run_.close(round);
  }
  run_.show_place(6, 3, "");
  EXPECT_EQ(shown()["step_s"], 2);
  EXPECT_EQ(shown()["left_s"], 2 * 94);
}

MemberNow member(int id, ActivityKind activity, const std::string& why = "") {
  MemberNow now;
  now.id = id;
  now.activity = activity;
  now.why = why;
  return now;
}

TEST_F(LiveRunTest, CountsTimeBetweenLooksAsWhatAMemberDidBefore) {
  run_.show({member(0, ActivityKind::kComputing)});
  now_ += 1;
  run_.show({member(0, ActivityKind::kWaiting, "waits for member 1 in round 3")});
  now_ += 0.5;
  run_.show({member(0, ActivityKind::kWaiting, "waits for member 1 in round 3")});
  const Json shows = shown()["members"][0];
  EXPECT_EQ(shows["doing"], "waiting");
  EXPECT_EQ(shows["why"], "waits for member 1 in round 3");
  EXPECT_EQ(shows["since"], 1001);
  EXPECT_THAT(shows["time_line"]["computing"], ElementsAre(100, 100, 0));
  EXPECT_THAT(shows["time_line"]["waiting"], ElementsAre(0, 0, 100));
}

TEST_F(LiveRunTest, ReckonsBytesOfAServedRunByItsRounds) {
  ClosedRound round;
  round.round = 7;
  round.steps = 2;
  round.bytes = {{0, 100}, {2, 300}};
  round.missing = {1};
  run_.close(round);
  const Json json = shown();
  // 400 bytes by three members in two steps; each fetched what the others sent.
  EXPECT_NEAR(json["bytes_per_step"]["sent"]["measured"].get<double>(), 400.0 / 6, 1e-3);
  EXPECT_NEAR(json["bytes_per_step"]["received"]["measured"].get<double>(), 800.0 / 6, 1e-3);
  const Json& shows = json["latest_rounds"][0];
  EXPECT_EQ(shows["round"], 7);
  EXPECT_EQ(shows["bytes"], 400);
  EXPECT_TRUE(shows["seconds"].is_null());
  EXPECT_THAT(shows["counted"], ElementsAre(0, 2));
  EXPECT_THAT(shows["missing"], ElementsAre(1));
  EXPECT_EQ(json["closed_rounds"], 1);
}

TEST_F(LiveRunTest, KeepsTheLatestFaults) {
  for (size_t i = 0; i <= LiveRun::kKept; ++i) run_.add_fault(3, "fault " + std::to_string(i));
  const Json faults = shown()["faults"];
  EXPECT_EQ(faults.size(), LiveRun::kKept);
  EXPECT_EQ(faults.front()["text"], "fault 1");
  EXPECT_EQ(faults.front()["member"], 3);
}

TEST_F(LiveRunTest, PrintsHostileNamesInPlainCharacters) {
  MemberNow hostile = member(0, ActivityKind::kLost, "\x1b[2J\x7f <script>");
  hostile.name = "\xff\xfe \xe2\x80\xae";
  run_.show({hostile});
  step(1, std::numeric_limits<double>::infinity());
  const std::string text = print_page_state(run_.state());
  for (const char c : text) ASSERT_TRUE(c >= ' ' && c <= '~') << static_cast<int>(c);
  EXPECT_THAT(text, HasSubstr("\\u001b[2J"));
  EXPECT_THAT(text, HasSubstr("\\u202e"));
  EXPECT_EQ(parse_json<Json>(text)["members"][0]["why"], "\x1b[2J\x7f <script>");
}

TEST_F(LiveRunTest, PrintsTheTimeLinesOfTheFirstMembersOnly) {
  std::vector<MemberNow> many;
  for (int id = 0; id < 200; ++id) many.push_back(member(id, ActivityKind::kComputing));
  run_.show(many);
  now_ += 1000;
  run_.show(many);
  const std::string text = print_page_state(run_.state());
  const Json members = parse_json<Json>(text)["members"];
  EXPECT_EQ(members.size(), 200u);
  EXPECT_TRUE(members[63].contains("time_line"));
  EXPECT_FALSE(members[64].contains("time_line"));
  EXPECT_LT(text.size(), 200u << 10);
}

}  // namespace
}  // namespace thinwire::page
