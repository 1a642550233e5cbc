#include "thinwire/method/diloco.h"

namespace thinwire::method {
namespace {

constexpr char kTable[] = "diloco";
using Facts = OuterFacts<kTable>;

std::unique_ptr<config::Section> options() {
  auto options = std::make_unique<OuterOptions>();
  options->sync_every = 100;
  return options;
}

}  // namespace

const Method kDiloco = {
    kTable,
    "Trains the workers apart for many steps, then takes a Nesterov step along their mean "
    "difference.",
    options,
    Facts::check,
    Facts::traffic,
    Facts::state,
    Facts::sync_every,
    true,
};

}  // namespace thinwire::method
