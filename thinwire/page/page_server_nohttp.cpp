// Takes the place of page_server_http.cpp in a build without cpp-httplib.
#include "thinwire/base/error.h"
#include "thinwire/page/page_server.h"

namespace thinwire::page {

class PageServer::Impl {};

PageServer::PageServer(const PageAddress& /*address*/, std::function<std::string()> /*state*/) {
  throw UsageError(
      "--page: this program was built without cpp-httplib (Debian: libcpp-httplib-dev); configure "
      "and build again once it is installed");
}

PageServer::~PageServer() = default;

int PageServer::port() const { return 0; }

}  // namespace thinwire::page
