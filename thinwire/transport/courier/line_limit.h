// Keeps a participant's own traffic within the rates that the owner of its machine allows: a token
// bucket for each direction. A message is let go once what went before has been paid for at the
// rate, and then owes its own bytes. What an idle line did not carry may follow for kCredit
// seconds, so that a busy machine, on which this code runs late, makes up for that. So over any
// time no more goes than the rate allows in it, and kCredit seconds, and one message. Messages that
// are too small to wait for, such as statements, only owe.
//
// A pure state machine: times are in seconds, from any clock that never goes back. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>

#include "thinwire/links/links.h"

namespace thinwire::transport {

class LineLimit {
 public:
  static constexpr double kCredit = 0.1;  // 5 % of two seconds

  // Only the rates count; 0: no limit.
  explicit LineLimit(const links::Link& link = {})
      : up_{link.up_bit_s / 8}, down_{link.down_bit_s / 8} {}

  // These bytes of a message go out, or have come in.
  void sent(double now, size_t bytes) { up_.take(now, on_the_line(bytes)); }
  void received(double now, size_t bytes) { down_.take(now, on_the_line(bytes)); }
  // So many bytes were requested and are on their way; or they need not be expected any more,
  // because they have come, and were received(), or because they do not come.
  void expect(double now, size_t bytes) { down_.take(now, on_the_line(bytes)); }
  void expect_no_more(size_t bytes) { down_.give_back(on_the_line(bytes)); }

  bool may_send(double now) const { return up_.free_at <= now; }
  bool may_request(double now) const { return down_.free_at <= now; }
  // From when on they may.
  double sends_at() const { return up_.free_at; }
  double requests_at() const { return down_.free_at; }

 private:
  // What TLS adds, and half of what TCP and IP do, 4 % where packets have 1,500 bytes: so the rate
  // is kept within 2 % with and without these.
  static constexpr double kHeaders = 1.02;
  static constexpr double kMessageBytes = 300;  // names, and the answer that it was stored

  static double on_the_line(size_t bytes) {
    return (static_cast<double>(bytes) + kMessageBytes) * kHeaders;
  }

  struct Bucket {
    double bytes_s = 0;
    double free_at = 0;  // when everything so far has been paid for

    void take(double now, double bytes) {
      if (bytes_s > 0) free_at = std::max(free_at, now - kCredit) + bytes / bytes_s;
    }
    void give_back(double bytes) {
      if (bytes_s > 0) free_at -= bytes / bytes_s;
    }
  };
  Bucket up_;
  Bucket down_;
};

}  // namespace thinwire::transport
