// The calls of the keyed queue with their answers, and the model that judges them one after the other.
#pragma once

#include <nocter.h>

#include <cstdint>
#include <string>

#include "support/keyed_model.hpp"

namespace lin {

enum class Did : uint8_t { notify, notify_later, claim, end, interrupted, count, quiet_count, drained, close };
inline const char* name_of(Did did) {
  static constexpr const char* kNames[] = {"notify", "notify later", "claim",   "end",  "interrupted",
                                           "count",  "quiet count",  "drained", "close"};
  return kNames[static_cast<int>(did)];
}

struct Event {
  explicit Event(Did what) : did(what) {}

  Did did;
  nocter_status status = NOCTER_OK;
  bool waited = false;
  uint32_t key = 0;
  uint32_t failures = 0;  // what the claimed pass said
  keyed_model::End how = keyed_model::End::complete;
  bool raised = false;   // what the pass said
  bool discard = false;  // how it was closed
  nocter_keyed_counts counts = NOCTER_KEYED_COUNTS_INIT;
};

class State {
 public:
  State(uint32_t maximum_keys, uint32_t workers, keyed_model::Broken broken = keyed_model::Broken::none)
      : queue_(maximum_keys, workers, broken) {}

  void key(std::string& to) const { queue_.key(to); }

  bool apply(const Event& e) {
    switch (e.did) {
      case Did::notify:
      case Did::notify_later:
        return queue_.notify(e.key, e.did == Did::notify_later) == e.status;
      case Did::claim:
        return claim(e);
      case Did::end:
        if (queue_.key(e.key).at != keyed_model::Queue::At::active) return false;
        queue_.end(e.key, e.how);
        return true;
      case Did::interrupted:
        return e.raised == queue_.interrupts();
      case Did::count: {
        // Those three change without a lock, so they may be a moment younger than the rest.
        nocter_keyed_counts counts = e.counts;
        queue_.fill_in_marks(counts);
        return e.status == NOCTER_OK && queue_.counts_are(counts);
      }
      case Did::quiet_count:
        return e.status == NOCTER_OK && queue_.counts_are(e.counts);
      case Did::drained:
        return e.status == queue_.drained_says();
      case Did::close:
        queue_.close(e.discard);
        return true;
    }
    return false;
  }

 private:
  bool claim(const Event& e) {
    const nocter_status says = queue_.claim_says(e.waited);
    if (says != NOCTER_OK) {
      return e.status == says ||
             (e.status == (e.waited ? NOCTER_TIMEOUT : NOCTER_EMPTY) && queue_.claim_may_say_not_yet());
    }
    if (e.status != NOCTER_OK || !queue_.may_claim(e.key) || queue_.key(e.key).failures != e.failures) return false;
    queue_.claim(e.key);
    return true;
  }

  keyed_model::Queue queue_;
};

}  // namespace lin
