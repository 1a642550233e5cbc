// The ranks of an MPI job as one member of a run of many hosts (train/site.h).
#pragma once

#include <memory>
#include <optional>

#include "thinwire/train/site.h"
#include "thinwire/transport/communicator.h"
#include "thinwire/transport/mpi.h"

namespace thinwire::hosts {

class SiteRanks {
 public:
  // Joins the job in which this process was started; once per process. Throws UsageError in a
  // program built without MPI.
  SiteRanks();

  int count() const { return job_->size(); }
  bool leads() const { return job_->rank() == 0; }
  // Of rank 0: what the member computes with; null if it is the only rank.
  train::Site* site() { return site_ ? &*site_ : nullptr; }
  // Of the others: computes for rank 0 until that has ended.
  void help() { train::help_site(*ranks_); }

 private:
  const std::unique_ptr<transport::MpiJob> job_;
  const std::unique_ptr<transport::Communicator> ranks_;
  std::optional<train::Site> site_;  // destroyed first
};

}  // namespace thinwire::hosts
