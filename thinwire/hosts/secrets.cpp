#include "thinwire/hosts/secrets.h"

#include <fmt/format.h>

#include <string>

#include "thinwire/base/error.h"

namespace thinwire::hosts {

void make_private_folder(const fs::path& folder) {
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms::owner_all);
}

void store_seed(const fs::path& file, const Seed& seed, transport::NKeyKind kind) {
  write_file(file, transport::encode_seed(kind, seed) + "\n");
}

Seed load_or_make_seed(const fs::path& file, transport::NKeyKind kind) {
  if (!fs::exists(file)) store_seed(file, make_seed(), kind);
  return load_seed(file, kind);
}

Seed load_seed(const fs::path& file, transport::NKeyKind kind) {
  std::string text = read_text_file(file);
  text.erase(text.find_last_not_of(" \n\r\t") + 1);
  const auto seed = transport::decode_seed(kind, text);
  if (!seed) {
    throw Error(fmt::format("{} does not hold the seed of a key, which begins with {}",
                            file.string(), transport::encode_seed(kind, {}).substr(0, 2)));
  }
  return *seed;
}

}  // namespace thinwire::hosts
