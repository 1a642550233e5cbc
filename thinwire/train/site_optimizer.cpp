// The steps of a site's optimizer, which its ranks share: each updates some of the tensors, for
// which it has the state, and gives the others their new values.
#include <algorithm>
#include <cstring>
#include <utility>

#include "thinwire/base/digest.h"
#include "thinwire/base/offload.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/optim/state_memory.h"
#include "thinwire/train/site.h"

namespace thinwire::train {
namespace {

method::OptimizerOptions options_of(int rank, method::OptimizerOptions options,
                                    std::span<const int> ranks) {
  options.elsewhere.clear();
  for (const int one : ranks) options.elsewhere.push_back(one != rank);
  return options;
}

std::span<const uint8_t> gradient_bytes(const tensor::Arena& grads, size_t tensor) {
  return as_bytes(grads.tensor(tensor));
}

}  // namespace

OptimizerPart::OptimizerPart(SiteExchange& site, const method::OptimizerOptions& options,
                             const tensor::Layout& layout)
    : site_(site),
      ranks_(method::step_ranks(options, layout.specs(), site.count())),
      optimizer_(optim::make_optimizer(options_of(site.rank(), options, ranks_), layout)) {}

void OptimizerPart::update(tensor::Arena& params, const tensor::Arena& grads,
                           const optim::OptimizerStep& step, const optim::Optimizer::ScaleOf& scale,
                           ThreadPool& threads) {
  optimizer_->step(params, grads, step, scale, threads);
  site_.gather(ranks_, params);
}

void OptimizerPart::send_state() {
  for (size_t tensor = 0; tensor < ranks_.size(); ++tensor) {
    if (!updates(tensor)) continue;
    for (const auto& part : optimizer_->state_of(tensor)) site_.send(kWorker, part);
  }
}

void OptimizerPart::receive_state() {
  for (size_t tensor = 0; tensor < ranks_.size(); ++tensor) {
    if (!updates(tensor)) continue;
    for (const auto& part : optimizer_->state_of(tensor)) site_.receive(kWorker, part);
  }
}

void OptimizerPart::take_step(ByteReader reader, tensor::Arena& params, tensor::Arena& grads,
                              ThreadPool& threads) {
  const auto step = reader.get<optim::OptimizerStep>();
  const auto scales = get_values<float>(reader);
  const auto sent = get_values<uint8_t>(reader);
  if (!reader.at_end() || scales.size() != ranks_.size() || sent.size() != ranks_.size()) {
    throw Error("the worker of this site sent a damaged step of the optimizer");
  }
  for (size_t tensor = 0; tensor < ranks_.size(); ++tensor) {
    if (!updates(tensor) || sent[tensor] == 0) continue;
    const std::span<float> values = grads.tensor(tensor);
    site_.receive(kWorker, {reinterpret_cast<uint8_t*>(values.data()), values.size_bytes()});
  }
  update(
      params, grads, step, [&](size_t tensor) { return scales[tensor]; }, threads);
}

// Rank 0's part, and what it has of the others'.
class SiteOptimizer final : public optim::SharedOptimizer {
 public:
  SiteOptimizer(Site& site, const method::OptimizerOptions& options, const tensor::Layout& layout,
                ThreadPool& threads, const fs::path& folder)
      : site_(site),
        threads_(threads),
        part_(site.exchange_, options, layout),
        whole_(in_file(options, folder), layout) {
    site_.gradients_held_.assign(layout.size(), 0);
    collect();
  }
  ~SiteOptimizer() override { site_.gradients_held_.clear(); }

  void step(tensor::Arena& params, const tensor::Arena& grads, const optim::OptimizerStep& step,
            const optim::Optimizer::ScaleOf& scale) override {
    if (collected_) drop();
    site_.begin_step();
    site_.send_changed(SiteMessage::kWeights, params, site_.sent_weights_);
    const size_t count = part_.ranks().size();
    std::vector<float> scales;
    std::vector<uint8_t> sent;
    for (size_t tensor = 0; tensor < count; ++tensor) {
      scales.push_back(scale(tensor));
      sent.push_back(is_known(grads, tensor) ? 0 : 1);
    }
    Bytes message = Site::message_of(SiteMessage::kUpdate);
    ByteWriter writer(message);
    writer.put(step);
    put_values(writer, std::span<const float>(scales));
    put_values(writer, std::span<const uint8_t>(sent));
    site_.exchange_.tell(std::move(message));
    for (size_t tensor = 0; tensor < count; ++tensor) {
      if (part_.updates(tensor) || sent[tensor] == 0) continue;
      site_.exchange_.send(part_.ranks()[tensor], gradient_bytes(grads, tensor));
    }
    part_.update(params, grads, step, scale, threads_);
    site_.remember(params, site_.sent_weights_);
    site_.end_step();
  }

  // Of rank 0.
  uint64_t state_bytes() { return part_.optimizer().state_bytes(); }

  std::vector<optim::OptimizerState> state() override { return whole_.all(); }

  void collect() override {
    if (std::exchange(collected_, true)) return;
    tell(SiteMessage::kCollect);
    for (size_t tensor = 0; tensor < part_.ranks().size(); ++tensor) {
      const auto to = whole_.memory_of(tensor);
      const auto own = part_.optimizer().state_of(tensor);
      for (size_t i = 0; i < to.size(); ++i) {
        if (part_.updates(tensor)) {
          std::ranges::copy(own[i], to[i].begin());
        } else {
          site_.exchange_.receive(part_.ranks()[tensor], to[i]);
        }
      }
    }
    site_.end_step();
  }

  void spread() override {
    tell(SiteMessage::kSpread);
    for (size_t tensor = 0; tensor < part_.ranks().size(); ++tensor) {
      const auto from = whole_.memory_of(tensor);
      const auto own = part_.optimizer().state_of(tensor);
      for (size_t i = 0; i < from.size(); ++i) {
        if (part_.updates(tensor)) {
          std::ranges::copy(from[i], own[i].begin());
        } else {
          site_.exchange_.send(part_.ranks()[tensor], from[i]);
        }
      }
    }
    site_.end_step();
    drop();
  }

  void reset() override {
    drop();
    tell(SiteMessage::kReset);
    part_.optimizer().reset();
    site_.end_step();
  }

 private:
  static method::OptimizerOptions in_file(method::OptimizerOptions options,
                                          const fs::path& folder) {
    fs::create_directories(folder);
    options.offload = std::make_shared<Offload>(folder, 0);
    return options;
  }

  void tell(SiteMessage message) {
    site_.begin_step();
    site_.exchange_.tell(Site::message_of(message));
  }

  // What was collected need not be in memory.
  void drop() {
    collected_ = false;
    for (const optim::OptimizerState& part : whole_.all()) {
      release_offloaded(part.bytes.data(), part.bytes.size());
    }
  }

  // Whether the rank that updates the tensor has this gradient of it.
  bool is_known(const tensor::Arena& grads, size_t tensor) {
    if (part_.updates(tensor)) return true;
    const uint64_t digest = hash_bytes(gradient_bytes(grads, tensor));
    return std::exchange(site_.gradients_held_[tensor], digest) == digest;
  }

  Site& site_;
  ThreadPool& threads_;
  OptimizerPart part_;
  optim::StateMemory whole_;
  bool collected_ = false;
};

std::unique_ptr<optim::SharedOptimizer> Site::share_optimizer(
    const method::OptimizerOptions& options, const tensor::Layout& layout, ThreadPool& threads,
    const fs::path& folder) {
  begin_step();
  exchange_.tell(message_of(SiteMessage::kOptimizer));
  state_bytes_.clear();
  for (const transport::Delivery& one : exchange_.answer(Bytes(sizeof(uint64_t)))) {
    state_bytes_.push_back(ByteReader(*one.payload).get<uint64_t>());
  }
  end_step();
  auto optimizer = std::make_unique<SiteOptimizer>(*this, options, layout, threads, folder);
  state_bytes_[kWorker] = optimizer->state_bytes();
  return optimizer;
}

void Site::remember_gradients(const tensor::Arena& gradients) {
  for (size_t tensor = 0; tensor < gradients_held_.size(); ++tensor) {
    gradients_held_[tensor] = hash_bytes(gradient_bytes(gradients, tensor));
  }
}

}  // namespace thinwire::train
