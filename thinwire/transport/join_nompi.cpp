#include "thinwire/base/error.h"
#include "thinwire/transport/mpi.h"

namespace thinwire::transport {

std::unique_ptr<MpiJob> join_mpi_job(int /*members*/, std::vector<links::Link>) {
  throw UsageError(
      "[train] launcher = \"mpi\" needs a program built with MPI: install libopenmpi-dev and "
      "openmpi-bin, configure and build again");
}

}  // namespace thinwire::transport
