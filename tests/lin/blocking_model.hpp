// The blocking service as one thread would see it: written from what it promises (tests/PROMISES.md), not from how it
// is built.
#pragma once

#include <nocter.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace lin {

enum class Did {
  submit,
  claim,
  complete,
  lose,
  take,
  cancel,
  query,
  epoch,
  wait_epoch,
  name,
  count,
  drained,
  shutdown
};
inline const char* name_of(Did did) {
  static constexpr const char* kNames[] = {"submit", "claim",      "complete", "lose",  "take",    "cancel",  "query",
                                           "epoch",  "wait_epoch", "name",     "count", "drained", "shutdown"};
  return kNames[static_cast<int>(did)];
}

// A call and its answer. Jobs are named by the sequence of their identity; a job whose input is n has the output n +
// kOutput.
inline constexpr int32_t kOutput = 100'000;
struct Event {
  explicit Event(Did what) : did(what) {}

  Did did;
  nocter_status status = NOCTER_OK;
  bool waited = false;
  uint64_t job = 0;
  int32_t value = 0;                   // what came back; the input of a submit
  nocter_job_state state = 0;          // was, is
  uint64_t epoch = 0, later_than = 0;  // of that moment
  uint32_t room = 0;                   // for the names of jobs that ended
  std::vector<uint64_t> names;         // the answer to it
  std::vector<int32_t> handed;         // by a shutdown, in its order
  uint32_t queued = 0, running = 0, completed = 0, abandoned = 0;
  uint64_t accepted = 0, taken = 0;
  bool accepting = false;
};

// Rules that are broken on purpose, to see that the checker would notice.
enum class Broken {
  none,
  youngest_first,
  one_slot_more,
  one_worker_more,
  abandoned_keeps_slot,
  cancel_moves_no_epoch,
  lost_is_ok
};
inline constexpr Broken kBroken[] = {Broken::youngest_first,        Broken::one_slot_more,
                                     Broken::one_worker_more,       Broken::abandoned_keeps_slot,
                                     Broken::cancel_moves_no_epoch, Broken::lost_is_ok};

class State {
 public:
  State(uint32_t maximum_jobs, uint32_t workers, Broken broken = Broken::none)
      : maximum_(maximum_jobs), workers_(workers), broken_(broken) {
    if (broken == Broken::one_slot_more) maximum_++;
    if (broken == Broken::one_worker_more) workers_++;
  }

  void key(std::string& to) const {
    const auto add = [&to](uint64_t number) { to.append(reinterpret_cast<const char*>(&number), sizeof number); };
    add(open_);
    add(epoch_);
    add(accepted_);
    add(taken_);
    for (const Job& job : jobs_) add(job.sequence * 32 + static_cast<uint64_t>(job.at) * 4 + job.lost * 2 + job.named);
    for (const uint64_t end : ends_) add(end);
  }

  bool apply(const Event& e) {
    switch (e.did) {
      case Did::submit:
        return submit(e);
      case Did::claim:
        return claim(e);
      case Did::complete:
      case Did::lose:
        return end(e);
      case Did::take:
        return take(e);
      case Did::cancel:
        return cancel(e);
      case Did::query: {
        const Job* job = find(e.job);
        if (job == nullptr || job->at == At::abandoned) return e.status == NOCTER_E_UNKNOWN;
        return e.status == NOCTER_OK && e.state == state_of(*job);
      }
      case Did::epoch:
        return e.status == NOCTER_OK && e.epoch == epoch_;
      case Did::wait_epoch:
        if (e.epoch != epoch_) return false;
        if (!open_) return e.status == NOCTER_CLOSED;
        if (epoch_ != e.later_than) return e.status == NOCTER_OK;
        return e.status == (e.waited ? NOCTER_TIMEOUT : NOCTER_PENDING);
      case Did::name:
        return name(e);
      case Did::count:
        return e.queued == number_of(At::queued) && e.running == number_of(At::running) &&
               e.completed == number_of(At::completed) && e.abandoned == number_of(At::abandoned) &&
               e.epoch + 1 == epoch_ && e.accepted == accepted_ && e.taken == taken_ && e.accepting == open_;
      case Did::drained:
        if (open_) return e.status == NOCTER_E_STATE;
        // Not yet may also be said while a value is being dropped, which is no state of a job.
        return e.status == NOCTER_PENDING || (e.status == NOCTER_OK && jobs_.empty());
      case Did::shutdown:
        return shutdown(e);
    }
    return false;
  }

 private:
  enum class At : uint8_t { queued = 1, running, completed, abandoned };
  struct Job {
    uint64_t sequence;
    int32_t input;
    At at = At::queued;
    bool lost = false, named = false;
  };

  static nocter_job_state state_of(const Job& job) { return static_cast<nocter_job_state>(job.at); }
  Job* find(uint64_t sequence) {
    for (Job& job : jobs_) {
      if (job.sequence == sequence) return &job;
    }
    return nullptr;
  }
  uint32_t number_of(At at) const {
    return static_cast<uint32_t>(
        std::count_if(jobs_.begin(), jobs_.end(), [at](const Job& job) { return job.at == at; }));
  }
  void gone(Job& job) {
    epoch_++;
    std::erase(ends_, job.sequence);
    jobs_.erase(jobs_.begin() + (&job - jobs_.data()));
  }
  Job* claimable() {
    if (number_of(At::running) + number_of(At::abandoned) >= workers_) return nullptr;
    Job* found = nullptr;
    for (Job& job : jobs_) {
      if (job.at == At::queued && (found == nullptr || broken_ == Broken::youngest_first)) found = &job;
    }
    return found;
  }

  bool submit(const Event& e) {
    if (e.epoch != epoch_) return false;
    if (!open_) return e.status == NOCTER_CLOSED;
    if (jobs_.size() >= maximum_) return e.status == NOCTER_SATURATED;
    if (e.status != NOCTER_OK || e.job <= last_) return false;
    last_ = e.job;
    accepted_++;
    jobs_.push_back({e.job, e.value});
    return true;
  }

  bool claim(const Event& e) {
    Job* job = claimable();
    if (job == nullptr) {
      if (!open_) return e.status == NOCTER_CLOSED;
      return e.status == (e.waited ? NOCTER_TIMEOUT : NOCTER_EMPTY);
    }
    if (e.status != NOCTER_OK || e.job != job->sequence || e.value != job->input) return false;
    job->at = At::running;
    return true;
  }

  bool end(const Event& e) {
    Job* job = find(e.job);
    if (job == nullptr) return false;
    if (job->at == At::abandoned) {
      if (broken_ == Broken::abandoned_keeps_slot) {
        job->at = At::completed;
      } else {
        gone(*job);
      }
      return true;
    }
    if (job->at != At::running) return false;
    job->at = At::completed;
    job->lost = e.did == Did::lose;
    ends_.push_back(job->sequence);
    return true;
  }

  bool take(const Event& e) {
    Job* job = find(e.job);
    if (job == nullptr) return e.status == NOCTER_E_UNKNOWN || (e.status == NOCTER_CLOSED && !open_ && e.waited);
    switch (job->at) {
      case At::queued:
      case At::running:
        return e.status == (e.waited ? NOCTER_TIMEOUT : NOCTER_PENDING);
      case At::abandoned:
        return e.status == (open_ ? NOCTER_E_STATE : NOCTER_CLOSED);
      case At::completed:
        break;
    }
    if (broken_ == Broken::lost_is_ok && job->lost) return false;
    if (e.status != (job->lost ? NOCTER_WORKER_LOST : NOCTER_OK)) return false;
    if (!job->lost && e.value != job->input + kOutput) return false;
    taken_++;
    gone(*job);
    return true;
  }

  bool cancel(const Event& e) {
    Job* job = find(e.job);
    if (job == nullptr) return e.status == NOCTER_E_UNKNOWN;
    if (job->at == At::abandoned) return e.status == NOCTER_E_STATE;
    if (e.status != NOCTER_OK || e.state != state_of(*job)) return false;
    if (job->at == At::running) {
      job->at = At::abandoned;
      return true;
    }
    const int32_t value = job->at == At::queued ? job->input : (job->lost ? 0 : job->input + kOutput);
    if (e.value != value) return false;
    gone(*job);
    if (broken_ == Broken::cancel_moves_no_epoch) epoch_--;
    return true;
  }

  // The oldest ends first, each once.
  bool name(const Event& e) {
    const size_t count = std::min<size_t>(e.room, ends_.size());
    if (e.names.size() != count || !std::equal(e.names.begin(), e.names.end(), ends_.begin())) return false;
    for (const uint64_t sequence : e.names) find(sequence)->named = true;
    ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(count));
    return true;
  }

  bool shutdown(const Event& e) {
    std::vector<int32_t> due;
    for (const Job& job : jobs_) {
      if (job.at == At::queued) due.push_back(job.input);
    }
    for (const Job& job : jobs_) {
      if (job.at == At::completed && !job.lost) due.push_back(job.input + kOutput);
    }
    if (!open_) return e.handed.empty();
    if (e.handed != due) return false;
    open_ = false;
    for (size_t i = jobs_.size(); i-- > 0;) {
      Job& job = jobs_[i];
      if (job.at == At::running) {
        job.at = At::abandoned;
      } else if (job.at != At::abandoned) {
        gone(job);
      }
    }
    return true;
  }

  uint32_t maximum_, workers_;
  Broken broken_;
  bool open_ = true;
  uint64_t epoch_ = 1;  // as the service says it, so one more than the slots that were freed
  uint64_t last_ = 0, accepted_ = 0, taken_ = 0;
  std::vector<Job> jobs_;       // in the order of their submits
  std::vector<uint64_t> ends_;  // completed and not yet named, oldest end first
};

}  // namespace lin
