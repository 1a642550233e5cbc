// Which requests the live page answers: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace thinwire::page {

// Whether a request with this Host header, with or without a port, is for the server that listens
// at `listen`: it names an IP address, localhost, `listen` itself or this machine (`own_name`, also
// followed by .local). Any other name may have been made to resolve to this machine by another web
// site (DNS rebinding), in order to read the page through its visitor's browser.
bool is_own_host(std::string_view host, std::string_view listen, std::string_view own_name);

}  // namespace thinwire::page
