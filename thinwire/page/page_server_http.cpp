#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/ip_address.h"
#include "thinwire/page/page_server.h"

namespace thinwire::page {
namespace {

constexpr size_t kThreads = 3;
constexpr int kPollMilliseconds = 100;  // between looks whether the server is to end
constexpr int kNotFound = 404;
constexpr int kWrongMethod = 405;
constexpr int kMisdirectedRequest = 421;
constexpr int kBroken = 500;
constexpr std::chrono::milliseconds kMoment(1);

const httplib::Headers kHeaders = {
    {"Cache-Control", "no-store"},
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
};

// One connection, within its limits of bytes and time.
class Connection final : public httplib::Stream {
 public:
  Connection(int socket, const std::atomic<bool>& ending) : socket_(socket), ending_(ending) {}

  bool is_readable() const override { return wait(POLLIN); }
  bool is_writable() const override { return wait(POLLOUT); }
  ssize_t read(char* to, size_t size) override {
    const size_t wanted = std::min(size, left_);
    if (wanted == 0 || !wait(POLLIN)) return -1;
    const ssize_t got = ::recv(socket_, to, wanted, 0);
    if (got > 0) left_ -= static_cast<size_t>(got);
    return got;
  }
  ssize_t write(const char* from, size_t size) override {
    if (!wait(POLLOUT)) return -1;
    return ::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return socket_; }

 private:
  bool wait(short what) const {
    while (!ending_ && monotonic_seconds() < deadline_) {
      pollfd one{.fd = socket_, .events = what, .revents = 0};
      if (::poll(&one, 1, kPollMilliseconds) > 0) return true;
    }
    return false;
  }

  const int socket_;
  const std::atomic<bool>& ending_;
  const double deadline_ = monotonic_seconds() + kRequestSeconds;
  size_t left_ = kMaxRequestBytes;
};

// Hands connections to a few threads; those beyond kMaxConnections are closed at once, by the
// accepting thread.
class Connections final : public httplib::TaskQueue {
 public:
  static bool refuses() { return refuses_; }

  void enqueue(std::function<void()> serve) override {
    if (count_ >= kMaxConnections) {
      refuses_ = true;
      serve();
      refuses_ = false;
      return;
    }
    ++count_;
    threads_.enqueue([this, serve = std::move(serve)] {
      serve();
      --count_;
    });
  }
  void shutdown() override { threads_.shutdown(); }

 private:
  static inline thread_local bool refuses_ = false;
  std::atomic<size_t> count_ = 0;
  httplib::ThreadPool threads_{kThreads};
};

class HttpServer final : public httplib::Server {
 public:
  void end() { ending_ = true; }

 private:
  bool process_and_close_socket(socket_t socket) override {
    bool served = false;
    if (!Connections::refuses()) {
      ::fcntl(socket, F_SETFD, FD_CLOEXEC);
      Connection connection(socket, ending_);
      bool closed = false;
      served = process_request(connection, true, closed, [](httplib::Request& request) {
        request.headers.erase(
            "Accept-Encoding");  // compressing would cost the run more than it saves
        request.headers.erase("Range");
        request.ranges.clear();
      });
      ::shutdown(socket, SHUT_WR);
    }
    ::close(socket);
    return served;
  }

  std::atomic<bool> ending_ = false;
};

std::string own_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

void answer(httplib::Response& response, int status, const std::string& text) {
  response.status = status;
  response.set_content(text + "\n", "text/plain; charset=utf-8");
}

// Not SO_REUSEPORT, with which two runs could share a port without noticing.
void set_options(socket_t socket) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
}

}  // namespace

class PageServer::Impl {
 public:
  Impl(const PageAddress& address, std::function<std::string()> state)
      : listen_(address.host), state_(std::move(state)) {
    declare();
    bind(address);
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      ended_ = true;
    });
  }

  // httplib can stop a server only once it runs.
  ~Impl() {
    server_.end();
    while (!server_.is_running() && !ended_) std::this_thread::sleep_for(kMoment);
    server_.stop();
    thread_.join();
  }

  int port() const { return port_; }

 private:
  void bind(const PageAddress& address) {
    errno = 0;
    port_ = address.port != 0 && server_.bind_to_port(address.host, address.port) ? address.port
            : address.port == 0 ? server_.bind_to_any_port(address.host)
                                : -1;
    if (port_ > 0) return;
    const std::string why =
        errno == 0 ? "no machine has this name" : listen_problem(errno, address.port);
    throw Error(fmt::format("--page: cannot listen at {}:{}: {}", address.host, address.port, why));
  }

  void declare() {
    server_.new_task_queue = [] { return new Connections; };
    server_.set_socket_options(set_options);
    server_.set_default_headers(kHeaders);
    server_.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          return refuse(request, response) ? httplib::Server::HandlerResponse::Handled
                                           : httplib::Server::HandlerResponse::Unhandled;
        });
    for (const PageFile& file : page_files()) {
      server_.Get(std::string(file.path), [&file](const auto&, httplib::Response& response) {
        response.set_content(file.text.data(), file.text.size(), std::string(file.type));
      });
    }
    server_.Get("/state.json", [this](const auto&, httplib::Response& response) {
      response.set_content(state_(), "application/json");
    });
    server_.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.status == kNotFound) answer(response, kNotFound, "there is no such page");
    });
    server_.set_exception_handler(
        [](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
          answer(response, kBroken, "the state of the run cannot be shown");
        });
  }

  bool refuse(const httplib::Request& request, httplib::Response& response) const {
    if (!is_own_host(request.get_header_value("Host"), listen_, own_name_)) {
      answer(response, kMisdirectedRequest, "this server goes by another name; use its IP address");
      return true;
    }
    if (request.method == "GET" || request.method == "HEAD") return false;
    response.set_header("Allow", "GET, HEAD");
    answer(response, kWrongMethod, "this page can only be read");
    return true;
  }

  const std::string listen_;
  const std::function<std::string()> state_;
  const std::string own_name_ = own_name();
  HttpServer server_;
  int port_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

PageServer::PageServer(const PageAddress& address, std::function<std::string()> state)
    : impl_(std::make_unique<Impl>(address, std::move(state))) {}

PageServer::~PageServer() = default;

int PageServer::port() const { return impl_->port(); }

}  // namespace thinwire::page
