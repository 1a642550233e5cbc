#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <thread>

#include "thinwire/base/clock.h"
#include "thinwire/transport/nats/courier_nats.h"

namespace thinwire::transport {
namespace {

constexpr double kMillisecond = 1000;  // in a second
constexpr int kFatalAlert = SSL3_AL_FATAL << 8;

thread_local ConnectBound* current = nullptr;

// What is kept with a context.
struct Limit {
  double seconds;
};

// What is kept with a connection.
struct Handshake {
  std::thread::id thread;  // nobody's until it begins
  double deadline = 0;
};

// Indices of what is kept; registering them has OpenSSL call new_context and new_connection.
int context_index();
int connection_index();

void new_context(void*, void*, CRYPTO_EX_DATA* kept, int index, long, void*) {
  if (current == nullptr) return;
  CRYPTO_set_ex_data(kept, index, new Limit{current->seconds()});
}

void free_context(void*, void* kept, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<Limit*>(kept);
}

bool readable_by(int socket, double deadline) {
  while (true) {
    const double left = std::max(deadline - monotonic_seconds(), 0.0);
    const double ms =
        std::min(std::ceil(left * kMillisecond), 1.0 * std::numeric_limits<int>::max());
    pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(ms));
    if (ready > 0) return monotonic_seconds() < deadline;
    if (ready == 0 && left == 0) return false;
  }
}

// OpenSSL calls this before and after each use of a connection's socket.
long on_socket(BIO* bio, int operation, const char*, size_t, int, long, int result, size_t*) {
  if (operation != BIO_CB_READ) return result;
  const auto& handshake = *reinterpret_cast<Handshake*>(BIO_get_callback_arg(bio));
  if (handshake.thread != std::this_thread::get_id()) return result;
  const auto socket = static_cast<int>(BIO_get_fd(bio, nullptr));
  if (readable_by(socket, handshake.deadline)) return result;
  ::shutdown(socket, SHUT_RDWR);  // the read that follows finds the end
  if (current != nullptr) current->expire();
  return result;
}

// OpenSSL calls this when a handshake begins, and after each alert.
void on_progress(const SSL* connection, int what, int value) {
  auto* const ssl = const_cast<SSL*>(connection);
  auto& handshake = *static_cast<Handshake*>(SSL_get_ex_data(ssl, connection_index()));
  if ((what & SSL_CB_HANDSHAKE_START) != 0 && handshake.thread == std::thread::id()) {
    const auto* limit =
        static_cast<Limit*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), context_index()));
    handshake = {std::this_thread::get_id(), monotonic_seconds() + limit->seconds};
    BIO_set_callback_ex(SSL_get_rbio(ssl), on_socket);
    BIO_set_callback_arg(SSL_get_rbio(ssl), reinterpret_cast<char*>(&handshake));
  }
  // This side gives the connection up. Otherwise reads would go on to fail, which the library does
  // not notice; now they find the end.
  if (what == SSL_CB_WRITE_ALERT && (value & kFatalAlert) != 0) {
    SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN);
  }
}

void new_connection(void* made, void*, CRYPTO_EX_DATA* kept, int index, long, void*) {
  auto* const ssl = static_cast<SSL*>(made);
  if (SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), context_index()) == nullptr) return;
  CRYPTO_set_ex_data(kept, index, new Handshake);
  SSL_set_info_callback(ssl, on_progress);
}

void free_connection(void*, void* kept, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<Handshake*>(kept);
}

int context_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, new_context, nullptr, free_context);
  return index;
}

int connection_index() {
  static const int index =
      SSL_get_ex_new_index(0, nullptr, new_connection, nullptr, free_connection);
  return index;
}

}  // namespace

ConnectBound::ConnectBound(double seconds) : seconds_(seconds) {
  assert(current == nullptr);
  (void)context_index();
  (void)connection_index();
  current = this;
}

ConnectBound::~ConnectBound() { current = nullptr; }

}  // namespace thinwire::transport
