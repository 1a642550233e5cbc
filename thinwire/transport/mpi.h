// Members as ranks of an MPI job, started by mpirun or srun: rank i is member i. docs/mpi.md.
//
// A thread of its own makes all MPI calls of a process, so any MPI that can be called by one thread
// will do, and operations go on behind compute.
#pragma once

#include <memory>
#include <vector>

#include "thinwire/links/links.h"
#include "thinwire/transport/frame_hub.h"

namespace thinwire::transport {

class MpiJob {
 public:
  virtual ~MpiJob() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // This rank's end of the run: Peers (make_hub_peers) and notes between ranks. It is valid as long
  // as the job.
  virtual const std::shared_ptr<FrameHub>& hub() const = 0;
};

// Joins the job this process was started in, of one rank if it was started alone; once a process.
// The destructor waits until all ranks are done and leaves the job. With `links`, one a rank,
// frames leave and arrive no faster than these, and later by the mean delay of both ranks'. Throws
// UsageError in a program that was built without MPI.
std::unique_ptr<MpiJob> join_mpi_job(std::vector<links::Link> links);

}  // namespace thinwire::transport
