#include "thinwire/train/agreement.h"

#include <algorithm>

namespace thinwire::train {

std::optional<int64_t> Agreement::reach(int64_t point) {
  const std::lock_guard lock(mutex_);
  if (point > limit_) return std::nullopt;
  latest_ = std::max(latest_, point);
  return agreed_;
}

void Agreement::settle_here() {
  const std::lock_guard lock(mutex_);
  if (agreed_ == kNone) agreed_ = latest_ + 1;
}

int64_t Agreement::promise(int64_t margin) {
  const std::lock_guard lock(mutex_);
  agreed_ = kNone;
  limit_ = latest_ + margin;
  return latest_;
}

void Agreement::settle(int64_t point) {
  const std::lock_guard lock(mutex_);
  agreed_ = point;
  limit_ = kNone;
}

void Agreement::all_reached(int64_t point) {
  const std::lock_guard lock(mutex_);
  if (agreed_ <= point) agreed_ = kNone;
}

}  // namespace thinwire::train
