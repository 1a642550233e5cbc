#include "thinwire/links/links.h"

#include <algorithm>

namespace thinwire::links {
namespace {

constexpr double kBitsPerByte = 8;

double line_seconds(double bytes, double bit_s) {
  return bytes == 0 ? 0 : bytes * kBitsPerByte / bit_s;
}

}  // namespace

double transfer_seconds(const Link& link, double bytes_sent, double bytes_received, double turns) {
  return std::max(line_seconds(bytes_sent, link.up_bit_s),
                  line_seconds(bytes_received, link.down_bit_s)) +
         turns * link.delay_s;
}

}  // namespace thinwire::links
