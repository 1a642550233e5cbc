#include "thinwire/method/local_sgd.h"

namespace thinwire::method {
namespace {

constexpr char kTable[] = "local_sgd";
using Facts = OuterFacts<kTable>;

std::unique_ptr<config::Section> options() {
  auto options = std::make_unique<OuterOptions>();
  options->sync_every = 32;
  return options;
}

}  // namespace

const Method kLocalSgd = {
    kTable,
    "Trains the workers apart for some steps, then steps along their mean difference.",
    options,
    Facts::check,
    Facts::traffic,
    Facts::state,
    Facts::sync_every,
    true,
};

}  // namespace thinwire::method
