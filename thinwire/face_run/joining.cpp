#include "thinwire/joining.h"

#include <optional>
#include <utility>

#include "thinwire/face_run/run_parts.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/join_run.h"

namespace thinwire {

JoiningResult join_run(const JoiningOptions& options) {
  std::optional<train::OwnModel> own;
  if (options.own_model != nullptr) own.emplace(inner_model(*options.own_model));
  Callbacks callbacks(options);
  hosts::JoinOptions join;
  join.access = hosts::parse_access(options.address, options.token, {});
  join.access.wait_s = options.wait_s;
  join.overrides = options.overrides;
  if (!options.folder.empty()) join.overrides.push_back("run.dir=" + options.folder.string());
  join.own_text = options.own_text;
  join.most_epsilon = options.most_epsilon;
  join.stop = options.stop;
  join.own_model = own ? &*own : nullptr;
  join.listener = &callbacks;
  join.display = callbacks.display();
  hosts::JoinResult joined = hosts::join_run(join);
  JoiningResult result;
  result.steps = joined.steps;
  result.finished = joined.outcome == hosts::JoinOutcome::kFinished;
  result.folder = std::move(joined.folder);
  result.train_loss = joined.summary.train_loss;
  result.bytes_sent_per_step = joined.summary.bytes_sent_per_worker_step;
  result.digest = std::move(joined.summary.digest);
  return result;
}

}  // namespace thinwire
