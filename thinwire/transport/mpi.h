// Members on the ranks of an MPI job, started by mpirun or srun: consecutive members on each rank,
// divided as evenly as possible. docs/mpi.md.
//
// A separate thread makes all MPI calls of a process, so any MPI that can be called from one thread
// will do, and operations proceed during computation.
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
  // Rank r has members [first_member(r), first_member(r + 1)).
  virtual int first_member(int rank) const = 0;
  // The hub of one of this rank's members, for its communicator (make_hub_communicator) and for
  // notes between members. It is valid as long as the job.
  virtual const std::shared_ptr<FrameHub>& hub(int member) const = 0;
};

// Joins the job in which this process was started (of one rank if it was started alone) for a run
// of `members` (0: one on each rank); only once per process. With more ranks than members some have
// none. The destructor waits until all ranks are done and leaves the job. `links` has one link per
// member, of which a rank uses its first member's; frames between ranks then leave and arrive no
// faster than these, and later by the mean of both ranks' delays. Throws UsageError in a program
// built without MPI.
std::unique_ptr<MpiJob> join_mpi_job(int members, std::vector<links::Link> links);

}  // namespace thinwire::transport
