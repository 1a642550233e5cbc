// A model of one's own: a small network learns a sine. All that Thinwire knows of it are three
// tensors; rows are numbers, here from 0 to 2 pi.
//
//   own_model_example FOLDER                  trains it by two workers, with every method
//   own_model_example FOLDER ADDRESS TOKEN    takes part in a run of recipe.toml, which
//                                             `thinwire serve recipe.toml` serves
#include <thinwire/joining.h>
#include <thinwire/training.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <numbers>
#include <string>
#include <vector>

namespace {

constexpr int kHidden = 32;

const std::vector<std::string> kTensors = {"in 32x1", "offset 32", "out 1x32"};

// y = out . tanh(in x + offset), and the loss is the square of what it is off.
thinwire::OwnModel::Loss network(const std::vector<thinwire::OwnTensor>& weights,
                                 const std::vector<thinwire::OwnTensor>& gradients) {
  return [=](std::span<const uint64_t> rows) {
    const auto in = weights[0].values, offset = weights[1].values, out = weights[2].values;
    double sum = 0;
    for (const uint64_t row : rows) {
      const auto x = static_cast<float>(2 * std::numbers::pi * std::fmod(row * 0.618034, 1.0));
      float hidden[kHidden];
      float y = 0;
      for (int i = 0; i < kHidden; ++i)
        y += out[i] * (hidden[i] = std::tanh(in[i] * x + offset[i]));
      const float error = y - std::sin(x);
      sum += error * error;
      const float dy = 2 * error / static_cast<float>(rows.size());
      for (int i = 0; i < kHidden; ++i) {
        const float inner = dy * out[i] * (1 - hidden[i] * hidden[i]);
        gradients[0].values[i] += inner * x;
        gradients[1].values[i] += inner;
        gradients[2].values[i] += dy * hidden[i];
      }
    }
    return sum / static_cast<double>(rows.size());
  };
}

void train(const thinwire::OwnModel& model, const std::string& folder) {
  for (const std::string& method : thinwire::method_names()) {
    const thinwire::Recipe recipe(
        "", {"model.architecture=external",
             "external.tensors=[\"in 32x1\", \"offset 32\", \"out 1x32\"]", "model.init_std=0.5",
             "train.sequence=1", "train.workers=2", "train.batch=64", "train.steps=400",
             "optim.lr=0.01", "schedule.warmup=10", "sync.method=" + method, "run.name=" + method,
             "run.dir=" + folder + "/" + method});
    double first = 0, last = 0;
    thinwire::TrainingOptions options;
    options.own_model = &model;
    options.on_step = [&](const auto& step) { (step.step == 1 ? first : last) = step.loss; };
    const thinwire::TrainingResult result = thinwire::train_model(recipe, options);
    std::printf("%-12s loss %.4f -> %.4f, %8.1f B a step, weights %s\n", method.c_str(), first,
                last, result.bytes_sent_per_step, result.digest.c_str());
  }
}

void join(const thinwire::OwnModel& model, const std::string& folder, const std::string& address,
          const std::string& token) {
  double first = -1, last = 0;
  thinwire::JoiningOptions options;
  options.address = address;
  options.token = token;
  options.folder = folder;
  options.own_model = &model;
  options.on_step = [&](const auto& step) { (first < 0 ? first : last) = step.loss; };
  const thinwire::JoiningResult result = thinwire::join_run(options);
  std::printf("loss %.4f -> %.4f, %.1f B a step, weights %s\n", first, last,
              result.bytes_sent_per_step, result.digest.c_str());
}

}  // namespace

int main(int count, char** words) try {
  const std::string folder = count > 1 ? words[1] : "runs/own";
  thinwire::OwnModel model;
  model.worker = network;
  model.tensors = kTensors;  // so that no run with others is joined
  count > 3 ? join(model, folder, words[2], words[3]) : train(model, folder);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
