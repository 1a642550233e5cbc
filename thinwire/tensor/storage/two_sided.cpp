#include "thinwire/tensor/storage/two_sided.h"

namespace thinwire::tensor {

void TwoSided::mirror_on(const DevicePlace& device, std::span<std::byte> host) {
  if (mirror_ != nullptr) return;
  mirror_ = make_mirror(device, host);
  place_ = device;
  bytes_ = host.size();
  newest_ = Side::kHost;
}

void TwoSided::use(Side side, bool writes) const {
  if (newest_ == side) return;
  if (newest_ != Side::kBoth) {
    side == Side::kHost ? mirror_->download(0, bytes_) : mirror_->upload();
    newest_ = Side::kBoth;
  }
  if (writes) newest_ = side;
}

void TwoSided::read_host(size_t begin, size_t bytes) const {
  if (newest_ == Side::kDevice) mirror_->download(begin, bytes);
}

void TwoSided::clear_device() {
  mirror_->clear();
  newest_ = Side::kDevice;
}

}  // namespace thinwire::tensor
