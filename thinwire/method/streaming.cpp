#include "thinwire/method/streaming.h"

namespace thinwire::method {
namespace {

constexpr char kTable[] = "streaming";
using Facts = OuterFacts<kTable>;

std::unique_ptr<config::Section> options() {
  auto options = std::make_unique<OuterOptions>();
  options->sync_every = 100;
  options->fragment_layers = 3;
  options->wire = "fp4";
  options->overlap = "inner";
  return options;
}

}  // namespace

const Method kStreaming = {
    kTable,
    "Trains the workers apart and steps along their mean difference a few layers at a time, while "
    "training goes on.",
    options,
    Facts::check,
    Facts::traffic,
    Facts::state,
    Facts::sync_every,
    true,
};

}  // namespace thinwire::method
