// A run whose model another process computes (train/model_socket.h), and what it makes of a peer
// that errs. The Python package is a peer as it should be (tests/python).
#include "thinwire/train/model_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/errors.h"
#include "tests/paths.h"
#include "tests/tiny_run.h"
#include "thinwire/base/json.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr int64_t kSteps = 6;

class ModelSocketCase : public testing::Test {
 protected:
  // What the peer answers to a line of the program; an empty text: nothing.
  using Answers = std::function<std::string(const Json& line, LineSocket& socket)>;

  void TearDown() override { fs::remove_all(folder_); }

  // A well-behaved peer without gradients.
  static std::string answer(const Json& line) {
    if (line["kind"] == "initial") return R"({"ready": true})";
    if (line["kind"] != "rows") return "";
    return print_json(Json{{"worker", line["worker"]}, {"step", line["step"]}, {"loss", 1.5}});
  }

  TrainResult train(int socket, const std::vector<std::string>& more) const {
    const std::atomic<bool> interrupted = false;
    train::ModelSocket peer(socket, interrupted);
    std::vector<std::string> overrides = {"model.architecture=external",
                                          "external.tensors=[\"slope 1x2\", \"offset 1\"]",
                                          "train.sequence=1",
                                          "train.batch=8",
                                          "log.tensorboard=false",
                                          "train.steps=" + std::to_string(kSteps),
                                          "run.dir=" + (folder_ / "run").string()};
    overrides.insert(overrides.end(), more.begin(), more.end());
    TrainResult result;
    peer.report([&] {
      TrainOptions options;
      options.stop = &peer.stop();
      options.listen = [&](const config::Recipe&, int64_t) { return &peer; };
      options.display = peer.display();
      options.own_model = &peer.model();
      result = launch::train(method::load_recipe("", overrides), options);
      return events::RunResult{result.step, result.outcome != Outcome::kStopped, "",
                               result.summary};
    });
    return result;
  }

  // The error of a run with such a peer, or tests::kNoError.
  std::string run(const Answers& answers, const std::vector<std::string>& more = {},
                  const std::string& hello = R"({"tensors": []})") {
    std::array<int, 2> ends;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    std::thread peer([&] {
      LineSocket socket(ends[1], "the peer's end");
      socket.send(hello);
      while (const auto line = socket.receive()) {
        lines_.push_back(parse_json<Json>(*line));
        const std::string said = answers(lines_.back(), socket);
        if (!said.empty()) socket.send(said);
      }
    });
    const std::string error = tests::error_of([&] { result_ = train(ends[0], more); });
    peer.join();
    return error;
  }

  const fs::path folder_ = test_folder(tests::memory_folder());
  TrainResult result_;
  std::vector<Json> lines_;  // of the program
};

TEST_F(ModelSocketCase, AsksForEveryRowAndTellsWhatHappens) {
  const std::string error = run([](const Json& line, LineSocket&) { return answer(line); },
                                {"train.workers=2", "train.steps=3"});
  EXPECT_EQ(error, tests::kNoError);
  uint64_t rows = 0;
  std::vector<std::string> kinds;
  for (const Json& line : lines_) {
    kinds.push_back(line["kind"]);
    if (line["kind"] == "rows") rows += line["rows"][0][1].get<uint64_t>();
  }
  EXPECT_EQ(rows, 3 * 8);
  EXPECT_EQ(std::ranges::count(kinds, "worker"), 2);
  EXPECT_EQ(std::ranges::count(kinds, "step"), 3);
  EXPECT_EQ(std::ranges::count(kinds, "checkpoint"), 1);
  EXPECT_EQ(kinds.back(), "result");
  EXPECT_EQ(lines_.back()["end"]["summary"]["digest"], result_.summary.digest);
  const Json& memory = std::ranges::find(lines_, "worker", [](const Json& line) {
                         return line["kind"].get<std::string>();
                       })->at("memory");
  const Json& recipe = std::ranges::find(lines_, "worker", [](const Json& line) {
                         return line["kind"].get<std::string>();
                       })->at("recipe");
  EXPECT_EQ(recipe["train"]["steps"], 3);
  EXPECT_EQ(recipe["external"]["tensors"][1], "offset 1");
  EXPECT_EQ(
      memory["tensors"][1],
      (Json{{"name", "offset"}, {"shape", Json::array({1})}, {"role", "bias"}, {"offset", 64}}));
}

TEST_F(ModelSocketCase, StopsWhereItsPeerStops) {
  const auto leave_at_3 = [](const Json& line, LineSocket& socket) {
    if (line["kind"] != "rows" || line["step"] != 3) return answer(line);
    socket.shut();
    return std::string();
  };
  EXPECT_EQ(run(leave_at_3), tests::kNoError);
  EXPECT_EQ(result_.outcome, Outcome::kStopped);
  EXPECT_EQ(result_.step, 3);
  EXPECT_TRUE(
      checkpoint::is_checkpoint(folder_ / "run/checkpoints" / checkpoint::checkpoint_name(3)));

  EXPECT_EQ(run([](const Json& line, LineSocket&) { return answer(line); }), tests::kNoError);
  const auto first =
      std::ranges::find(lines_.rbegin(), lines_.rend(), "worker",
                        [](const Json& line) { return line["kind"].get<std::string>(); });
  EXPECT_EQ((first - 1)->at("step"), 3) << "resumed there";
  EXPECT_EQ(result_.step, kSteps);
}

TEST_F(ModelSocketCase, SeveralWorkersCannotStopWithinAStep) {
  const auto leave_at_3 = [](const Json& line, LineSocket& socket) {
    if (line["kind"] != "rows" || line["step"] != 3) return answer(line);
    socket.shut();
    return std::string();
  };
  EXPECT_THAT(run(leave_at_3, {"train.workers=2"}), HasSubstr("has left in the midst of a step"));
}

TEST_F(ModelSocketCase, StopsAfterAStepThatIsFinishedWhenAsked) {
  const auto stop_at_3 = [](const Json& line, LineSocket& socket) {
    if (line["kind"] == "rows" && line["step"] == 3) socket.send(R"({"stop": true})");
    return answer(line);
  };
  EXPECT_EQ(run(stop_at_3, {"train.workers=2"}), tests::kNoError);
  EXPECT_EQ(result_.outcome, Outcome::kStopped);
  EXPECT_GE(result_.step, 4);
  EXPECT_LT(result_.step, kSteps);
}

TEST_F(ModelSocketCase, TakesTheRatesOfAPeerThatIsAloneAndALossThatItDoesNotKnow) {
  const auto with_rate = [](const Json& line, LineSocket&) {
    if (line["kind"] != "rows") return answer(line);
    return print_json(
        Json{{"worker", line["worker"]}, {"step", line["step"]}, {"learning_rate", 0.25}});
  };
  EXPECT_EQ(run(with_rate), tests::kNoError);
  const auto step = std::ranges::find(lines_.rbegin(), lines_.rend(), "step", [](const Json& line) {
    return line["kind"].get<std::string>();
  });
  EXPECT_EQ(step->at("learning_rate"), 0.25);
  EXPECT_TRUE(step->at("loss").is_null());
  fs::remove_all(folder_);
  EXPECT_THAT(run(with_rate, {"train.workers=2"}),
              HasSubstr("step 1: the program's own learning rate 0.25 needs a run of one worker"));
  fs::remove_all(folder_);
  EXPECT_THAT(run(with_rate, {"sync.method=distro", "distro.overlap=1"}),
              HasSubstr("needs distro.overlap = 0"));
}

// Its checkpoint after step 2 is followed by none with weights that are half changed.
TEST_F(ModelSocketCase, KeepsNoWeightsThatThePeerWasChanging) {
  const std::vector<std::string> own = {"optim.method=own", "sync.method=diloco",
                                        "checkpoint.every=2"};
  const auto leave = [](const Json& line, LineSocket& socket) {
    if (line["kind"] != "rows") return answer(line);
    socket.send(
        print_json(Json{{"worker", line["worker"]}, {"step", line["step"]}, {"changes", true}}));
    if (line["step"] == 3) socket.shut();
    return answer(line);
  };
  EXPECT_THAT(run(leave, own), HasSubstr("has left in the midst of a step"));
  const fs::path checkpoints = folder_ / "run/checkpoints";
  EXPECT_TRUE(checkpoint::is_checkpoint(checkpoints / checkpoint::checkpoint_name(2)));
  EXPECT_FALSE(checkpoint::is_checkpoint(checkpoints / checkpoint::checkpoint_name(3)));
}

// The second answer arrives while nobody waits for one, or while the next step waits for its own.
TEST_F(ModelSocketCase, NamesWhatAPeerSaidTwice) {
  EXPECT_THAT(run([](const Json& line, LineSocket& socket) {
                const std::string said = answer(line);
                if (line["kind"] == "rows" && line["step"] == 2) socket.send(said);
                return said;
              }),
              HasSubstr("to a worker that asks for it"));
}

TEST_F(ModelSocketCase, NamesWhatAPeerShouldNotHaveSaid) {
  const auto said = [&](const std::string& wrong) {
    return run([&](const Json& line, LineSocket&) {
      return line["kind"] == "rows" ? wrong : answer(line);
    });
  };
  EXPECT_THAT(said("{"), HasSubstr("must answer with a loss, or say that it is ready or that the "
                                   "run is to stop, got {"));
  EXPECT_THAT(said(R"({"kind": "rows"})"), HasSubstr("must answer with a loss"));
  EXPECT_THAT(said(R"({"ready": true})"), HasSubstr("must answer with a loss"));
  EXPECT_THAT(said(R"({"worker": 1, "step": 0, "loss": 1})"),
              HasSubstr("to a worker that asks for it"));
  EXPECT_THAT(said(R"({"worker": 0, "loss": 1})"), HasSubstr("with its step"));
  EXPECT_THAT(said(R"({"worker": 0, "step": 1, "loss": 1})"), HasSubstr("with its step"));
  EXPECT_THAT(said(R"({"worker": 0, "step": 0, "loss": "low"})"), HasSubstr("a number or null"));
  EXPECT_THAT(said(R"({"worker": 0, "step": 0, "loss": null})"),
              HasSubstr("the loss is nan on worker 0"));
  EXPECT_THAT(run([](const Json&, LineSocket&) { return std::string(); }, {}, "[]"),
              HasSubstr("must begin with {\"tensors\": […]}, got []"));
  EXPECT_THAT(run([](const Json&, LineSocket&) { return std::string(); }, {},
                  R"({"tensors": ["slope 1x2"]})"),
              HasSubstr("tensor 2 the run says \"offset 1\" and the model none"));
}

}  // namespace
}  // namespace thinwire::launch
