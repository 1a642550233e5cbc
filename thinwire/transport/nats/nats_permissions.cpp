#include "thinwire/transport/nats/nats_permissions.h"

#include "thinwire/transport/courier/courier.h"

namespace thinwire::transport {
namespace {

void let_coordinate(NatsPermissions& may, const NatsSubjects& subjects,
                    const std::vector<std::string>& streams) {
  // For coordinators only: it reveals the addresses of others.
  may.subscribe.push_back(NatsSubjects::arrivals());
  may.subscribe.push_back(NatsSubjects::departures());
  const std::string chunks = subjects.chunk_store("*");
  may.publish.push_back(subjects.purge(chunks));
  may.publish.push_back(subjects.create(chunks));
  may.publish.push_back(subjects.info(chunks));
  if (subjects.sites()) may.publish.push_back(NatsSubjects::list());
  for (const std::string& stream : streams) {
    may.publish.push_back(subjects.create(subjects.record_store(stream)));
    may.publish.push_back(subjects.record(stream));
  }
}

}  // namespace

NatsPermissions permissions_of(const NatsUser& user, const NatsSubjects& subjects,
                               const std::vector<std::string>& streams) {
  check_courier_name("a user", user.name);
  NatsPermissions may;
  const std::string& name = user.name;
  may.subscribe = {NatsSubjects::inbox(name) + ".>", NatsSubjects::elected("*")};
  if (user.role == NatsRole::kNewcomer) {
    may.publish = {subjects.statement(name, "*")};
    may.subscribe.push_back(subjects.statement("*", name));
    return may;
  }
  for (const std::string& stream : streams) {
    may.publish.push_back(subjects.get_record(stream));
    may.publish.push_back(subjects.info(subjects.record_store(stream)));  // for its end
  }
  may.subscribe.push_back(subjects.statement("*", "*"));
  may.subscribe.push_back(subjects.stored_record("*"));
  if (user.role == NatsRole::kObserver) return may;
  may.publish.push_back(subjects.statement(name, "*"));
  may.publish.push_back(subjects.get_chunk("*", "*"));
  if (user.role == NatsRole::kAuditor) return may;
  may.publish.push_back(subjects.chunk(name, "*"));
  if (user.role == NatsRole::kCoordinator) let_coordinate(may, subjects, streams);
  return may;
}

}  // namespace thinwire::transport
