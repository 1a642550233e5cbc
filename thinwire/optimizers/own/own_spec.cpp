#include "thinwire/optimizers/own/own_spec.h"

namespace thinwire::method {
namespace {

// What contradicts it is in method/refusals.cpp.
void check(const config::Recipe&) {}

// The program's own business, as is where it keeps it.
std::vector<StatePiece> state(const OptimizerOptions&, const TensorSpec&) { return {}; }

}  // namespace

const OptimizerSpec kOwn = {
    .name = "own",
    .sentence =
        "The step of a program with a model of its own, which takes it itself (docs/python.md); "
        "for methods whose workers train independently.",
    .options = nullptr,
    .check = check,
    .state = state,
    .takes_gradients = false,
};

}  // namespace thinwire::method
