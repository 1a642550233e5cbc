// Serves the live page over HTTP: the page's own files, and /state.json. docs/page.md.
//
// Read only: GET and HEAD of four paths, everything else is refused. Nothing is fetched from
// elsewhere, and no other site's page may read it: no CORS header is sent, and a request must name
// this server in its Host header (below). A connection serves one request, of at most
// kMaxRequestBytes and within kRequestSeconds; beyond kMaxConnections, connections are closed at
// once. So all that a hostile client can take from the run is a few sleeping threads.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace thinwire::page {

inline constexpr size_t kMaxRequestBytes = 8 << 10;
inline constexpr size_t kMaxConnections = 16;  // served or queued at once
inline constexpr double kRequestSeconds = 5;

struct PageAddress {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: a free one
};

class PageServer {
 public:
  // Serves from here on, on threads of its own, until it is destroyed, which takes less than a
  // second whatever clients do. `state` makes the text of /state.json; any thread calls it, several
  // at once. Throws Error if it cannot listen there (naming --page, the address and the reason),
  // and UsageError if this program was built without cpp-httplib.
  PageServer(const PageAddress& address, std::function<std::string()> state);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  int port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The files of the live page, which are part of the program (cmake/EmbedPage.cmake).
struct PageFile {
  std::string_view path;  // "/page.css"; "/" is index.html
  std::string_view type;  // of its content
  std::string_view text;
};

std::span<const PageFile> page_files();

// Which requests the live page answers: pure functions.

// Whether a request with this Host header, with or without a port, is for the server that listens
// at `listen`: it names an IP address, localhost, `listen` itself or this machine (`own_name`, also
// followed by .local). Any other name may have been made to resolve to this machine by another web
// site (DNS rebinding), in order to read the page through its visitor's browser.
bool is_own_host(std::string_view host, std::string_view listen, std::string_view own_name);

}  // namespace thinwire::page
