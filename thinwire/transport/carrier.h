// What differs between transports: how frames get to members elsewhere, and when what was started
// has come through. A new transport is one of these and whatever moves its frames (Hub::deliver).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thinwire/base/wire.h"
#include "thinwire/transport/frame.h"

namespace thinwire::transport {

class Rendezvous;

enum class Collective : uint8_t { kAllGather, kAllReduce };

// Called with the hub's lock held, by any thread: to be quick, and never to call the hub. A carrier
// between threads of one process has nothing to do, for no member is elsewhere.
class Carrier {
 public:
  virtual ~Carrier() = default;

  // To a member elsewhere; frames to it arrive in the order of sending.
  virtual void send(const FrameHead& /*head*/, std::span<const uint8_t> /*body*/) {}

  struct Start {
    Collective collective;
    Operation operation;
    int member;
    uint64_t payload_bytes;     // kAllGather
    WireType type;              // kAllReduce
    size_t values;              // kAllReduce
    std::span<const int> from;  // who contributes; empty: the whole group
  };
  // A member here starts an operation, ...
  virtual void started(const Rendezvous& /*meeting*/, const Start& /*start*/) {}
  // ... which may be waited for once it is complete and this says so, ...
  virtual bool arrived(Collective, const Operation&) const { return true; }
  // ... is waited for, or given up, by a member here, and then by all here.
  virtual void taken(Collective, const Operation&, int /*member*/) {}
  virtual void cancelled(const Rendezvous& /*meeting*/, Collective, const Operation&,
                         int /*member*/) {}
  virtual void forgotten(const Rendezvous& /*meeting*/, Collective, const Operation&) {}
  // A member left the run.
  virtual void left(const Rendezvous& /*meeting*/) {}
};

}  // namespace thinwire::transport
