// The real service beside a model of it: every sequence of a few calls, and long random ones. After each call the answer, who
// owns the value, and all counts must be those of the model.
#include <nocter.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "nocter/blocking_rules.hpp"
#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;
using nocter::blocking::JobEvent;
using nocter::blocking::JobState;

namespace {

enum class Call { submit, claim, begin, complete, drop, take, cancel, completed, shutdown };
struct Op {
  Call call;
  size_t job;  // in the order of submission
};

struct ModelJob {
  nocter_job_id id;
  uint64_t value;
  JobState state = JobState::queued;
  bool lost = false;
  bool named = false;
  nocter_running_job* unbegun = nullptr;
  nocter_completion* completion = nullptr;
  bool has_guard() const { return unbegun != nullptr || completion != nullptr; }
};

class Mirror {
 public:
  Mirror(uint32_t maximum_jobs, uint32_t workers) : service_({.maximum_jobs = maximum_jobs, .workers = workers}) {
    expected_.accepting = 1;
    expected_.maximum_jobs = maximum_jobs;
    expected_.workers = workers;
  }
  // The guards that are out end at last.
  ~Mirror() {
    for (ModelJob& job : jobs_) {
      nocter_running_job_drop(job.unbegun);
      nocter_completion_drop(job.completion);
    }
  }

  size_t submitted() const { return jobs_.size(); }
  const ModelJob& job(size_t index) const { return jobs_[index]; }
  bool can(const Op& op) const {
    switch (op.call) {
      case Call::begin:
        return jobs_[op.job].unbegun != nullptr;
      case Call::complete:
        return jobs_[op.job].completion != nullptr;
      case Call::drop:
        return jobs_[op.job].has_guard();
      default:
        return true;
    }
  }

  bool play(const Op& op) {
    bool right = false;
    switch (op.call) {
      case Call::submit:
        right = submit_one();
        break;
      case Call::claim:
        right = claim_one();
        break;
      case Call::begin:
        right = begin_one(jobs_[op.job]);
        break;
      case Call::complete:
        right = end_one(jobs_[op.job], JobEvent::complete);
        break;
      case Call::drop:
        right = end_one(jobs_[op.job], JobEvent::lose);
        break;
      case Call::take:
        right = take_one(jobs_[op.job]);
        break;
      case Call::cancel:
        right = cancel_one(jobs_[op.job]);
        break;
      case Call::completed:
        right = completed_ones();
        break;
      case Call::shutdown:
        right = shut_down_all();
        break;
    }
    return right && counts_agree();
  }

 private:
  bool closed() const { return expected_.accepting == 0; }
  uint32_t in(JobState state) const {
    return static_cast<uint32_t>(
        std::count_if(jobs_.begin(), jobs_.end(), [=](const ModelJob& j) { return j.state == state; }));
  }
  uint32_t admitted() const { return static_cast<uint32_t>(jobs_.size()) - in(JobState::free); }

  void move(ModelJob& job, JobEvent event) {
    const auto step = nocter::blocking::step(job.state, event);
    HOLDS(step.allowed());
    expected_.epoch += nocter::blocking::frees_slot(job.state, step) ? 1 : 0;
    job.state = step.next;
  }

  bool submit_one() {
    const uint64_t value = 1000 + jobs_.size();
    nocter_owned input = payload(value);
    const Submitted submitted = submit(service_, input);
    if (submitted.status != NOCTER_OK) discard(input);
    if (closed()) return STATUS(submitted.status, NOCTER_CLOSED);
    if (admitted() == expected_.maximum_jobs) {
      expected_.saturated++;
      return STATUS(submitted.status, NOCTER_SATURATED);
    }
    expected_.accepted++;
    jobs_.push_back({.id = submitted.id, .value = value});
    return STATUS(submitted.status, NOCTER_OK);
  }

  bool claim_one() {
    const Claimed claimed = try_claim(service_);
    if (closed()) return STATUS(claimed.status, NOCTER_CLOSED);
    const auto oldest =
        std::find_if(jobs_.begin(), jobs_.end(), [](const ModelJob& j) { return j.state == JobState::queued; });
    const bool possible = oldest != jobs_.end() && in(JobState::running) + in(JobState::abandoned) < expected_.workers;
    if (!possible) return STATUS(claimed.status, NOCTER_EMPTY);
    if (!STATUS(claimed.status, NOCTER_OK)) return false;
    move(*oldest, JobEvent::claim);
    oldest->unbegun = claimed.job;
    return HOLDS(nocter_job_id_equal(nocter_running_job_id(claimed.job), oldest->id));
  }

  static bool begin_one(ModelJob& job) {
    const Begun begun = nocter_tests::begin(std::exchange(job.unbegun, nullptr));
    job.completion = begun.completion;
    return HOLDS(begun.value == job.value) &&
           HOLDS(nocter_completion_abandoned(job.completion) == (job.state == JobState::abandoned));
  }

  bool end_one(ModelJob& job, JobEvent event) {
    if (job.state == JobState::abandoned) expected_.abandoned_retired++;
    move(job, event);
    const uint64_t dropped = Ledger::dropped();
    const bool unbegun = job.unbegun != nullptr;
    if (event == JobEvent::complete) {
      job.value += 1000;
      complete(std::exchange(job.completion, nullptr), job.value);
      expected_.completed_ok++;
      return HOLDS(Ledger::dropped() - dropped == (job.state == JobState::free ? 1u : 0u));
    }
    nocter_running_job_drop(std::exchange(job.unbegun, nullptr));
    nocter_completion_drop(std::exchange(job.completion, nullptr));
    job.lost = true;
    expected_.completed_lost++;
    return HOLDS(Ledger::dropped() - dropped == (unbegun ? 1u : 0u));
  }

  bool take_one(ModelJob& job) {
    const Taken taken = take(service_, job.id);
    switch (job.state) {
      case JobState::free:
        return STATUS(taken.status, NOCTER_E_UNKNOWN);
      case JobState::queued:
      case JobState::running:
        return STATUS(taken.status, NOCTER_PENDING);
      case JobState::abandoned:
        return STATUS(taken.status, closed() ? NOCTER_CLOSED : NOCTER_E_STATE);
      case JobState::completed:
        break;
    }
    move(job, JobEvent::take);
    expected_.taken++;
    return job.lost ? STATUS(taken.status, NOCTER_WORKER_LOST)
                    : STATUS(taken.status, NOCTER_OK) && HOLDS(taken.value == job.value);
  }

  bool cancel_one(ModelJob& job) {
    const Cancelled cancelled = cancel(service_, job.id);
    if (job.state == JobState::free) return STATUS(cancelled.status, NOCTER_E_UNKNOWN);
    if (job.state == JobState::abandoned) return STATUS(cancelled.status, NOCTER_E_STATE);
    if (!STATUS(cancelled.status, NOCTER_OK)) return false;
    const JobState was = job.state;
    move(job, JobEvent::cancel);
    if (was == JobState::running) return HOLDS(cancelled.was == NOCTER_JOB_RUNNING && cancelled.value == kNoValue);
    if (was == JobState::queued) {
      expected_.cancelled_queued++;
      return HOLDS(cancelled.was == NOCTER_JOB_QUEUED && cancelled.value == job.value);
    }
    expected_.cancelled_completed++;
    return HOLDS(cancelled.was == NOCTER_JOB_COMPLETED && cancelled.value == (job.lost ? kNoValue : job.value));
  }

  // The order of the ends is checked elsewhere; here that exactly the unnamed ones are named.
  bool completed_ones() {
    std::vector<nocter_job_id> ids(jobs_.size() + 1);
    size_t count = 0;
    bool right = STATUS(nocter_blocking_completed(service_, ids.data(), ids.size(), &count), NOCTER_OK);
    for (ModelJob& job : jobs_) {
      const bool is_named = std::any_of(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count),
                                        [&](nocter_job_id id) { return nocter_job_id_equal(id, job.id); });
      const bool should_be = job.state == JobState::completed && !job.named;
      right = HOLDS(is_named == should_be) && right;
      job.named |= is_named;
    }
    return right;
  }

  bool shut_down_all() {
    HandedBackList expected;
    for (ModelJob& job : jobs_) {
      if (job.state != JobState::queued) continue;
      expected.push_back({NOCTER_JOB_QUEUED, job.value});
      move(job, JobEvent::shut_down);
      expected_.shutdown_queued++;
    }
    for (ModelJob& job : jobs_) {
      if (job.state != JobState::completed) continue;
      if (!job.lost) expected.push_back({NOCTER_JOB_COMPLETED, job.value});
      move(job, JobEvent::shut_down);
      expected_.shutdown_completed++;
    }
    for (ModelJob& job : jobs_) {
      if (job.state == JobState::running) move(job, JobEvent::shut_down);
    }
    expected_.accepting = 0;
    return HOLDS(shut_down(service_) == expected) &&
           STATUS(nocter_blocking_drained(service_, nullptr), admitted() == 0 ? NOCTER_OK : NOCTER_PENDING);
  }

  bool counts_agree() {
    const nocter_blocking_counts real = counts_of(service_);
    bool right = HOLDS(real.accepting == expected_.accepting && real.maximum_jobs == expected_.maximum_jobs &&
                       real.workers == expected_.workers);
    right = HOLDS(real.queued == in(JobState::queued) && real.running == in(JobState::running) &&
                  real.completed == in(JobState::completed) && real.abandoned == in(JobState::abandoned) &&
                  real.admitted == admitted()) &&
            right;
    right = HOLDS(real.epoch == expected_.epoch && real.accepted == expected_.accepted &&
                  real.saturated == expected_.saturated) &&
            right;
    right = HOLDS(real.taken == expected_.taken && real.cancelled_queued == expected_.cancelled_queued &&
                  real.cancelled_completed == expected_.cancelled_completed &&
                  real.shutdown_queued == expected_.shutdown_queued &&
                  real.shutdown_completed == expected_.shutdown_completed &&
                  real.abandoned_retired == expected_.abandoned_retired) &&
            right;
    right = HOLDS(real.completed_ok == expected_.completed_ok && real.completed_lost == expected_.completed_lost &&
                  real.exceptions == 0) &&
            right;
    for (const ModelJob& job : jobs_) {
      const int32_t state = state_of(service_, job.id);
      const int32_t should_be = job.state == JobState::queued      ? NOCTER_JOB_QUEUED
                                : job.state == JobState::running   ? NOCTER_JOB_RUNNING
                                : job.state == JobState::completed ? NOCTER_JOB_COMPLETED
                                                                   : int32_t{NOCTER_E_UNKNOWN};
      right = HOLDS(state == should_be) && right;
    }
    return right;
  }

  Service service_;
  std::deque<ModelJob> jobs_;
  nocter_blocking_counts expected_ = {};
};

const char* name_of(Call call) {
  constexpr const char* kNames[] = {"submit", "claim",  "begin",     "complete", "drop",
                                    "take",   "cancel", "completed", "shutdown"};
  return kNames[static_cast<size_t>(call)];
}

std::string text_of(const std::vector<Op>& sequence) {
  std::string text;
  for (const Op& op : sequence) text += std::string(name_of(op.call)) + "(" + std::to_string(op.job) + ") ";
  return text;
}

// Plays the sequence, and then every longer one up to the depth.
uint64_t play_all(std::vector<Op>& sequence, size_t depth) {
  std::vector<Op> next;
  {
    Mirror mirror(2, 1);
    for (const Op& op : sequence) {
      if (!mirror.play(op)) {
        BOOST_ERROR("after " << text_of(sequence));
        return 1;
      }
    }
    if (sequence.size() == depth) return 1;
    for (const Call call : {Call::submit, Call::claim, Call::completed, Call::shutdown}) next.push_back({call, 0});
    for (size_t job = 0; job < mirror.submitted(); job++) {
      for (const Call call : {Call::begin, Call::complete, Call::drop, Call::take, Call::cancel}) {
        if (mirror.can({call, job})) next.push_back({call, job});
      }
    }
  }
  uint64_t played = 1;
  for (const Op& op : next) {
    sequence.push_back(op);
    played += play_all(sequence, depth);
    sequence.pop_back();
  }
  return played;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(blocking_model_suite, EveryTest)

BOOST_AUTO_TEST_CASE(blk_10_every_short_sequence_of_calls_agrees_with_the_model,
                     *label("BLK-10") * label("GEN-12") * label("GEN-01") * label("BLK-04")) {
  // Two jobs, one worker: enough for every pair of states to meet.
  std::vector<Op> sequence;
  const uint64_t played = play_all(sequence, kSanitized ? 6 : 7);
  BOOST_TEST_MESSAGE(played << " sequences");
  BOOST_CHECK_GT(played, 1'000u);
}

BOOST_AUTO_TEST_CASE(blk_10_long_random_sequences_agree_with_the_model,
                     *label("BLK-10") * label("GEN-12") * label("GEN-01") * label("BLK-12")) {
  auto random = random_stream(10);
  for (uint64_t round = 0; round < rounds(400, 60); round++) {
    const uint32_t maximum_jobs = 1 + static_cast<uint32_t>(below(random, 8));
    const uint32_t workers = 1 + static_cast<uint32_t>(below(random, maximum_jobs));
    Mirror mirror(maximum_jobs, workers);
    std::vector<Op> played;
    for (int i = 0; i < 150; i++) {
      constexpr Call kCalls[] = {Call::submit, Call::submit, Call::submit,   Call::claim,    Call::claim,
                                 Call::begin,  Call::begin,  Call::complete, Call::complete, Call::drop,
                                 Call::take,   Call::take,   Call::cancel,   Call::completed};
      Op op = {i == 130 ? Call::shutdown : kCalls[below(random, std::size(kCalls))], 0};
      if (op.call != Call::submit && op.call != Call::claim && op.call != Call::completed &&
          op.call != Call::shutdown) {
        if (mirror.submitted() == 0) continue;
        // Mostly the young ones; now and then one long gone.
        const size_t back = below(random, 10) == 0 ? mirror.submitted() : std::min<size_t>(mirror.submitted(), 12);
        op.job = mirror.submitted() - 1 - below(random, back);
        if (!mirror.can(op)) continue;
      }
      played.push_back(op);
      if (!mirror.play(op)) {
        BOOST_ERROR("after " << text_of(played));
        break;
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
