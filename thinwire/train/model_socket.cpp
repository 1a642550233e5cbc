#include "thinwire/train/model_socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/json.h"
#include "thinwire/base/names.h"
#include "thinwire/config/check.h"

namespace thinwire::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLookMs = 100;  // how often an interrupt is looked for

int64_t bytes_of(int64_t values) { return values * static_cast<int64_t>(sizeof(float)); }

Json describe(const tensor::Layout& layout) {
  Json tensors = Json::array();
  for (size_t i = 0; i < layout.size(); ++i) {
    const TensorSpec& spec = layout.specs()[i];
    tensors.push_back({{"name", spec.name},
                       {"shape", spec.shape},
                       {"role", name_of(spec.role)},
                       {"offset", bytes_of(layout.offset(i))}});
  }
  return {{"bytes", bytes_of(layout.total())}, {"tensors", std::move(tensors)}};
}

// Rows that follow each other as [first, count].
Json ranges_of(std::span<const uint64_t> rows) {
  Json ranges = Json::array();
  for (size_t i = 0; i < rows.size();) {
    size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    ranges.push_back(Json::array({rows[i], end - i}));
    i = end;
  }
  return ranges;
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

[[noreturn]] void refuse(std::string_view must, std::string_view line) {
  constexpr size_t kShown = 200;
  throw Error(
      fmt::format("the program with the model must {}, got {}", must, line.substr(0, kShown)));
}

// Sets what the peer says of its model.
void take_hello(const std::string& line, OwnModel& model) {
  const Json hello = try_parse_json<Json>(line);
  if (!hello.is_object() || !hello.contains("tensors") || !hello["tensors"].is_array()) {
    refuse("begin with {\"tensors\": […]}", line);
  }
  for (const Json& tensor : hello["tensors"]) {
    if (!tensor.is_string()) refuse("name its tensors as texts", line);
    model.tensors.push_back(tensor.get<std::string>());
  }
  const auto says = [&](const char* name) { return hello.contains(name) && hello[name] == true; };
  model.takes_tokens = says("tokens");
  model.sets_gradients = says("sets_gradients");
}

// Nothing: it is no answer.
std::optional<OwnAnswer> answer_in(const Json& said) {
  OwnAnswer answer;
  if (said.contains("loss")) {
    const Json& loss = said["loss"];
    if (!loss.is_number() && !loss.is_null()) return std::nullopt;
    answer.loss = loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.get<double>();
  }
  for (const char* name : {"learning_rate", "gradient_norm"}) {
    if (said.contains(name) && !(said[name].is_number() && said[name] >= 0)) return std::nullopt;
  }
  if (said.contains("learning_rate")) answer.learning_rate = said["learning_rate"].get<float>();
  if (said.contains("gradient_norm")) answer.gradient_norm = said["gradient_norm"].get<double>();
  return answer;
}

}  // namespace

ModelSocket::ModelSocket(int socket, const std::atomic<bool>& interrupted,
                         std::function<void()> left_early)
    : socket_(socket, "--model-socket"),
      interrupted_(interrupted),
      left_early_(std::move(left_early)) {
  const std::optional<std::string> hello = socket_.receive();
  if (!hello) throw Error("the program with the model has closed its socket");
  take_hello(*hello, model_);
  model_.worker = [this](const OwnWorker& worker) { return begin_worker(worker); };
  model_.initial = [this](tensor::Arena& weights) { set_initial(weights); };
  model_.memory = [this](const tensor::Layout& layout) { return make_memory(layout); };
  model_.gradient_memory = model_.memory;
  listener_ = std::thread([this] { listen(); });
}

ModelSocket::~ModelSocket() {
  closing_ = true;
  socket_.shut();
  listener_.join();
}

void ModelSocket::send(const Json& line, std::span<const int> files) {
  socket_.send(print_json(line, {.replace_invalid = true}), files);
}

void ModelSocket::listen() {
  try {
    while (!closing_) {
      if (interrupted_) stop_ = true;
      if (!socket_.wait(kLookMs)) continue;
      const std::optional<std::string> line = socket_.receive();
      if (closing_) return;
      if (!line) return end_answers("");
      take(*line);
    }
  } catch (const Error& error) {
    end_answers(error.what());
  }
}

void ModelSocket::take(const std::string& line) {
  const Json answer = try_parse_json<Json>(line);
  const Lock lock(mutex_);
  if (answer.is_object() && answer.contains("stop")) {
    stop_ = true;
  } else if (answer.is_object() && answer.contains("ready") && asks_ready_) {
    asks_ready_ = false;
    ready_ = true;
  } else if (answer.is_object() && answer.contains("worker")) {
    take_of_worker(answer);
  } else {
    refuse("answer with a loss, or say that it is ready or that the run is to stop", line);
  }
  changed_.notify_all();
}

void ModelSocket::take_of_worker(const Json& said) {
  const Json& worker = said["worker"];
  const auto question = questions_.find(worker.is_number_integer() ? worker.get<int>() : -1);
  const bool is_asked = question != questions_.end() && !question->second.answer &&
                        said.value("step", Json()) == question->second.step;
  const auto answer = answer_in(said);
  if (!is_asked || !answer) {
    refuse(
        "give a loss, a number or null, and rates and norms >= 0 to a worker that asks for it, "
        "with its step",
        print_json(said));
  }
  if (said.contains("changes")) {
    question->second.changes = true;
  } else {
    question->second.answer = answer;
  }
}

void ModelSocket::end_answers(const std::string& wrong) {
  const Lock lock(mutex_);
  ended_ = true;
  wrong_ = wrong;
  stop_ = true;
  changed_.notify_all();
  if (!begun_ && left_early_) left_early_();
}

void ModelSocket::begin() {
  const Lock lock(mutex_);
  begun_ = true;
}

void ModelSocket::await(const std::function<bool()>& is_there) {
  while (!ended_ && !is_there()) changed_.wait(mutex_);
  if (is_there()) return;
  if (!wrong_.empty()) throw Error(wrong_);
  throw NotComputed(
      "the program with the model has left in the midst of a step; the run goes on from its last "
      "checkpoint");
}

std::span<float> ModelSocket::make_memory(const tensor::Layout& layout) {
  const auto memory = std::make_shared<SharedMemory>(static_cast<size_t>(bytes_of(layout.total())));
  const Lock lock(mutex_);
  unclaimed_.push_back(memory);
  return {reinterpret_cast<float*>(memory->bytes().data()), static_cast<size_t>(layout.total())};
}

ModelSocket::Memory ModelSocket::claim(const tensor::Arena& arena) {
  const void* const first = arena.all().data();
  const auto found = std::ranges::find_if(
      unclaimed_, [&](const Memory& memory) { return memory->bytes().data() == first; });
  Memory memory = *found;
  unclaimed_.erase(found);
  return memory;
}

OwnLoss ModelSocket::begin_worker(const OwnWorker& worker) {
  {
    const Lock lock(mutex_);
    const Memory weights = claim(worker.weights), gradients = claim(worker.gradients);
    const std::array files = {weights->file(), gradients->file()};
    send({{"kind", "worker"},
          {"worker", worker.id},
          {"memory", describe(worker.weights.layout())},
          {"recipe", parse_json<Json>(config::recipe_json(worker.recipe))}},
         files);
    claimed_[worker.id] = {weights, gradients};
  }
  return [this, id = worker.id](const OwnStep& step) { return ask(id, step); };
}

OwnAnswer ModelSocket::ask(int worker, const OwnStep& step) {
  const Lock lock(mutex_);
  const Question& question = questions_[worker] = {.step = step.step};
  Json line = {{"kind", "rows"},
               {"worker", worker},
               {"step", step.step},
               {"learning_rate", step.learning_rate},
               {"rows", ranges_of(step.rows)}};
  if (step.begins) line["begins"] = true;
  send_question(std::move(line), step);
  try {
    await([&]() REQUIRES(mutex_) { return question.answer.has_value(); });
  } catch (const NotComputed& error) {
    if (question.changes) throw Error(error.what());
    throw;
  }
  const OwnAnswer answer = *question.answer;
  questions_.erase(worker);
  return answer;
}

void ModelSocket::send_question(Json line, const OwnStep& step) {
  if (step.tokens.empty()) return send(line);
  const std::span bytes = std::as_bytes(step.tokens);
  const SharedMemory memory(bytes.size());
  std::ranges::copy(bytes, memory.bytes().begin());
  line["tokens"] = Json::array({std::ssize(step.rows), step.sequence + 1});
  const std::array files = {memory.file()};
  send(line, files);
}

void ModelSocket::set_initial(tensor::Arena& weights) {
  const tensor::Layout& layout = weights.layout();
  const SharedMemory memory(static_cast<size_t>(bytes_of(layout.total())));
  const std::span values(reinterpret_cast<float*>(memory.bytes().data()),
                         static_cast<size_t>(layout.total()));
  std::ranges::copy(std::as_const(weights).all(), values.begin());
  const Lock lock(mutex_);
  asks_ready_ = true;
  const std::array files = {memory.file()};
  send({{"kind", "initial"}, {"memory", describe(layout)}}, files);
  await([&]() REQUIRES(mutex_) { return ready_; });
  for (size_t i = 0; i < layout.size(); ++i) {
    const std::span<float> tensor = weights.tensor(i);
    std::ranges::copy(values.subspan(static_cast<size_t>(layout.offset(i)), tensor.size()),
                      tensor.begin());
  }
}

events::Display ModelSocket::display() {
  return {.message = [this](std::string_view text) {
    send({{"kind", "message"}, {"text", text}});
  }};
}

std::string ModelSocket::what_was_wrong() {
  const Lock lock(mutex_);
  return wrong_;
}

void ModelSocket::report(const std::function<events::RunResult()>& run) {
  try {
    const events::RunResult end = run();
    const std::string wrong = end.finished ? "" : what_was_wrong();
    if (!wrong.empty()) throw Error(wrong);
    send({{"kind", "result"}, {"end", parse_json<Json>(events::result_line(end))}});
  } catch (const std::exception& error) {
    send({{"kind", "error"}, {"message", plain_message(error)}});
    throw;
  }
}

void ModelSocket::on_event(const events::StepEvent& event) {
  if (event.time > 0) return;  // it was read back from the log of a resumed run
  send({{"kind", "step"},
        {"step", event.step},
        {"loss", finite_or_null(event.loss)},
        {"learning_rate", event.learning_rate},
        {"gradient_norm", finite_or_null(event.gradient_norm)},
        {"rows", event.tokens},
        {"rows_per_second", finite_or_null(event.tokens_per_second)},
        {"bytes_sent", event.bytes_sent},
        {"bytes_received", event.bytes_received}});
}

void ModelSocket::on_event(const events::EvalEvent& event) {
  if (event.time > 0) return;
  send({{"kind", "evaluation"},
        {"step", event.step},
        {"name", event.name},
        {"loss", finite_or_null(event.loss)}});
}

void ModelSocket::on_checkpoint(const events::CheckpointEvent& event) {
  send({{"kind", "checkpoint"}, {"step", event.step}, {"folder", event.folder}});
}

}  // namespace thinwire::train
