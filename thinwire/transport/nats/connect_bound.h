// A limit to how long the NATS client library may take to connect over TLS. It has none of its own
// there: libnats 3.4 waits without limit for a handshake to go on (nats.c issue 906), and if its
// server then answers nothing within the time-out, or answers what is no TLS, it reads again and
// again, with a whole core and ever more memory (issue 706). Later versions need no limit, but have
// no harm from one.
#pragma once

namespace thinwire::transport {

// While it exists, OpenSSL contexts that the calling thread creates are limited: on each of their
// connections, also if it is made much later by another thread, reading ends `seconds` after the
// handshake began for the thread that began it, as if the peer had closed the connection, and after
// what is no TLS. The library reads in another thread once it is connected, which is not limited.
// A thread has one of these at a time.
class ConnectBound {
 public:
  explicit ConnectBound(double seconds);
  ~ConnectBound();
  ConnectBound(const ConnectBound&) = delete;
  ConnectBound& operator=(const ConnectBound&) = delete;

  double seconds() const { return seconds_; }
  // Whether a handshake that the calling thread began meanwhile had no answer in time.
  bool expired() const { return expired_; }
  void expire() { expired_ = true; }

 private:
  const double seconds_;
  bool expired_ = false;
};

}  // namespace thinwire::transport
