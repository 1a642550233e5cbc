// Answers what participants ask of a run's coordinator (desk_message.h).
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/sha256.h"
#include "thinwire/events/summary.h"
#include "thinwire/hosts/desk.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/transport/courier.h"

namespace thinwire::hosts {

// Used by one thread.
class FrontDesk {
 public:
  struct Duties {
    // Enrols a key for whoever is connected with a token's key. Returns why not, or an empty string
    // once the server knows the key.
    std::function<std::string(const PublicKey& token, const PublicKey& key)> enrol;
    std::function<std::string()> status;  // one line of JSON
    std::function<std::string()> recipe;  // its text
    // The result of a member whose run is complete.
    std::function<void(const PublicKey& member, const events::Summary& summary)> result;
  };

  // `files`: what may be asked for, by blob name. All references must outlive it.
  FrontDesk(transport::Courier& courier, const Signer& coordinator,
            const std::map<Sha256, fs::path>& files, Duties duties);

  // Answers what has been asked; waits up to `patience_s` for something.
  void attend(double patience_s);

 private:
  struct Upload {
    Sha256 name;
    Waiting<void> stored;
    std::vector<Desk::Visitor> visitors;
  };

  void answer(const Desk::Visitor& visitor);
  void enrol(const Desk::Visitor& visitor);
  void answer_probe(const Desk::Visitor& visitor);
  void provide(const Desk::Visitor& visitor);
  void take_result(const Desk::Visitor& visitor);
  void finish_uploads();

  transport::Courier& courier_;
  const std::map<Sha256, fs::path>& files_;
  const Duties duties_;
  std::set<Sha256> provided_;
  std::list<Upload> uploads_;
  Desk desk_;
};

}  // namespace thinwire::hosts
