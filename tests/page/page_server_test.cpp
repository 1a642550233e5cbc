#include "thinwire/page/page_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire::page {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A client that sends exactly the given text.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool is_open() const { return is_open_; }
  // False once the server has closed the connection.
  bool send(const std::string& text) const {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // All that comes until the server closes the connection.
  std::string read_answer() const {
    std::string all;
    std::array<char, 4096> buffer{};
    for (;;) {
      const ssize_t got = ::recv(socket_, buffer.data(), buffer.size(), 0);
      if (got <= 0) return all;
      all.append(buffer.data(), static_cast<size_t>(got));
    }
  }

 private:
  const int socket_;
  bool is_open_ = false;
};

class PageServerTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      server_ =
          std::make_unique<PageServer>(PageAddress{}, [] { return std::string("{\"a\":1}"); });
    } catch (const UsageError& absent) {
      if (std::string(absent.what()).find("without cpp-httplib") == std::string::npos) throw;
      GTEST_SKIP() << absent.what();
    }
  }
  std::string ask(const std::string& request) const {
    const Client client(server_->port());
    EXPECT_TRUE(client.send(request));
    return client.read_answer();
  }
  std::string get(const std::string& path, const std::string& host = "127.0.0.1") const {
    return ask(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path, host));
  }

  std::unique_ptr<PageServer> server_;
};

TEST_F(PageServerTest, ServesItsFilesAndTheState) {
  EXPECT_GT(server_->port(), 0);
  const std::string page = get("/");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(page, HasSubstr("Content-Type: text/html"));
  EXPECT_THAT(page, HasSubstr("<title>Thinwire</title>"));
  for (const PageFile& file : page_files()) {
    EXPECT_THAT(get(std::string(file.path)), HasSubstr(std::string(file.text))) << file.path;
  }
  const std::string state = get("/state.json");
  EXPECT_THAT(state, HasSubstr("application/json"));
  EXPECT_THAT(state, HasSubstr("\r\n\r\n{\"a\":1}"));
  EXPECT_THAT(ask("HEAD /state.json HTTP/1.1\r\nHost: localhost\r\n\r\n"), Not(HasSubstr("{")));
}

TEST_F(PageServerTest, FetchesNothingFromElsewhereAndLetsNoOtherSiteRead) {
  for (const PageFile& file : page_files()) {
    EXPECT_THAT(std::string(file.text), Not(HasSubstr("https://"))) << file.path;
    EXPECT_THAT(std::string(file.text), Not(HasSubstr("innerHTML"))) << file.path;
  }
  const std::string state =
      ask("GET /state.json HTTP/1.1\r\nHost: localhost\r\nOrigin: http://example.com\r\n\r\n");
  EXPECT_THAT(state, Not(HasSubstr("Access-Control")));
  EXPECT_THAT(state, HasSubstr("Cross-Origin-Resource-Policy: same-origin"));
  EXPECT_THAT(state, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(get("/state.json", "example.com"), StartsWith("HTTP/1.1 421"));
  EXPECT_THAT(ask("GET /state.json HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 421"));
}

TEST_F(PageServerTest, RefusesOtherPathsAndMethods) {
  for (const char* path : {"/nothing", "/state.json/", "/../etc/passwd", "/%2e%2e/x", "//"}) {
    EXPECT_THAT(get(path), StartsWith("HTTP/1.1 404")) << path;
  }
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    const std::string answer = ask(fmt::format(
        "{} /state.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}", method));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405")) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD")) << method;
  }
  EXPECT_THAT(ask("nonsense\r\n\r\n"), Not(HasSubstr("200 OK")));
}

TEST_F(PageServerTest, ReadsNoMoreThanARequestMayHave) {
  const std::string long_path = "/" + std::string(2 * kMaxRequestBytes, 'a');
  EXPECT_THAT(get(long_path), Not(HasSubstr("200 OK")));
  std::string many_headers = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  while (many_headers.size() < 2 * kMaxRequestBytes) many_headers += "X-One: more\r\n";
  EXPECT_THAT(ask(many_headers + "\r\n"), Not(HasSubstr("200 OK")));
  EXPECT_THAT(get("/state.json"), HasSubstr("200 OK")) << "it continues";
}

TEST_F(PageServerTest, ServesOthersBesideClientsThatSayNothing) {
  const Client silent(server_->port()), half(server_->port());
  EXPECT_TRUE(half.send("GET / HTTP/1.1\r\nHo"));
  EXPECT_THAT(get("/state.json"), HasSubstr("200 OK"));
}

TEST_F(PageServerTest, ClosesConnectionsBeyondItsLimitAtOnce) {
  std::vector<std::unique_ptr<Client>> crowd;
  for (size_t i = 0; i < kMaxConnections; ++i) {
    crowd.push_back(std::make_unique<Client>(server_->port()));
  }
  // It may be closed before it has sent its request.
  const Client one_more(server_->port());
  static_cast<void>(one_more.send("GET /state.json HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_EQ(one_more.read_answer(), "");
}

TEST_F(PageServerTest, EndsAtOnceWhateverClientsDo) {
  std::vector<std::unique_ptr<Client>> crowd;
  for (size_t i = 0; i < kMaxConnections; ++i) {
    crowd.push_back(std::make_unique<Client>(server_->port()));
    EXPECT_TRUE(crowd.back()->send("GET / HT"));
  }
  server_.reset();
  for (const auto& one : crowd) EXPECT_EQ(one->read_answer(), "");
}

TEST_F(PageServerTest, SaysWhyItCannotListen) {
  const auto nothing = [] { return std::string(); };
  try {
    PageServer({"127.0.0.1", server_->port()}, nothing);
    FAIL() << "two servers share a port";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(),
              fmt::format("--page: cannot listen at 127.0.0.1:{0}: another program uses port {0}; "
                          "end that program or give another port (0: a free one)",
                          server_->port()));
  }
  EXPECT_THROW(PageServer({"192.0.2.1", 0}, nothing), Error);
}

TEST_F(PageServerTest, AFailureOfTheStateIsNoFailureOfTheServer) {
  const PageServer broken({}, []() -> std::string { throw Error("a secret path"); });
  const Client client(broken.port());
  EXPECT_TRUE(client.send("GET /state.json HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const std::string answer = client.read_answer();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(answer, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace thinwire::page
