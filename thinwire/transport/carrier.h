// What differs between transports: how frames reach members elsewhere, and when a started operation
// has arrived. A new transport is one of these, plus the code that moves its frames (Hub::deliver).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thinwire/base/wire.h"
#include "thinwire/transport/frame.h"

namespace thinwire::transport {

class Rendezvous;

enum class Collective : uint8_t { kAllGather, kAllReduce };

// Called with the hub's lock held, by any thread: must be quick, and must never call the hub. A
// carrier between threads of one process has nothing to do, because no member is elsewhere.
class Carrier {
 public:
  virtual ~Carrier() = default;

  // Sends to a member elsewhere; frames to it arrive in the order of sending.
  virtual void send(const FrameHead& /*head*/, std::span<const uint8_t> /*body*/) {}

  struct Start {
    Collective collective;
    Operation operation;
    int member;
    uint64_t payload_bytes;     // kAllGather
    SumFormats formats;         // kAllReduce
    size_t values;              // kAllReduce
    std::span<const int> from;  // who contributes; empty: the whole group
  };
  // A member here starts an operation, ...
  virtual void started(const Rendezvous& /*rendezvous*/, const Start& /*start*/) {}
  // ... which can be collected once it is complete and this returns true, ...
  virtual bool arrived(Collective, const Operation&) const { return true; }
  // ... and is collected or given up by a member here, and in the end by all members here
  // (forgotten).
  virtual void taken(Collective, const Operation&, int /*member*/) {}
  virtual void cancelled(const Rendezvous& /*rendezvous*/, Collective, const Operation&,
                         int /*member*/) {}
  virtual void forgotten(const Rendezvous& /*rendezvous*/, Collective, const Operation&) {}
  // A member left the run.
  virtual void left(const Rendezvous& /*rendezvous*/) {}
};

}  // namespace thinwire::transport
