// Members on the ranks of an MPI job, started by mpirun or srun: consecutive ones on each, as even
// as can be. docs/mpi.md.
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
  // Rank r has members [first_member(r), first_member(r + 1)).
  virtual int first_member(int rank) const = 0;
  // The end of the run of one of this rank's members: its communicator (make_hub_communicator) and
  // notes between members. It is valid as long as the job.
  virtual const std::shared_ptr<FrameHub>& hub(int member) const = 0;
};

// Joins the job this process was started in, of one rank if it was started alone, for a run of
// `members`; once a process. With more ranks than members some have none. The destructor waits
// until all ranks are done and leaves the job. With `links`, one a member, of which a rank has its
// first member's, frames between ranks leave and arrive no faster than these, and later by the mean
// delay of both ranks'. Throws UsageError in a program that was built without MPI.
std::unique_ptr<MpiJob> join_mpi_job(int members, std::vector<links::Link> links);

}  // namespace thinwire::transport
