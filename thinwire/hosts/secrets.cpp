#include "thinwire/hosts/secrets.h"

#include <fmt/format.h>

#include <string>

#include "thinwire/base/error.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

constexpr auto kKind = transport::NKeyKind::kUser;

}  // namespace

void make_private_folder(const fs::path& folder) {
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms::owner_all);
}

Seed load_or_make_seed(const fs::path& file) {
  if (!fs::exists(file)) {
    const Seed seed = make_seed();
    write_file(file, transport::encode_seed(kKind, seed) + "\n");
    return seed;
  }
  std::string text = read_text_file(file);
  text.erase(text.find_last_not_of(" \n\r\t") + 1);
  const auto seed = transport::decode_seed(kKind, text);
  if (!seed) {
    throw Error(
        fmt::format("{} does not hold the seed of a key, which begins with SU", file.string()));
  }
  return *seed;
}

}  // namespace thinwire::hosts
