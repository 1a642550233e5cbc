#include "thinwire/hosts/site_ranks.h"

namespace thinwire::hosts {

SiteRanks::SiteRanks()
    : job_(transport::join_mpi_job(0, {})),
      ranks_(
          transport::make_hub_communicator(job_->hub(job_->rank()), job_->size(), job_->rank())) {
  if (leads() && count() > 1) site_.emplace(*ranks_);
}

}  // namespace thinwire::hosts
