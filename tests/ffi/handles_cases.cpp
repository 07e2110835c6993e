// FFI-04, FFI-05: handles and identities that are no longer, or never were, what they are used as.
#include <csignal>
#include <cstring>
#include <vector>

#include "objects.hpp"

namespace {

constexpr nocter_job_id kNoJob = {0, 0};

bool is_zero(nocter_job_id id) { return nocter_job_id_equal(id, kNoJob); }

nocter_blocking* destroyed_service() {
  nocter_blocking* const gone = service();
  nocter_blocking_destroy(gone);
  return gone;
}
nocter_signal* destroyed_signal() {
  nocter_signal* out = nullptr;
  CHECK_STATUS(nocter_signal_create(&out), NOCTER_OK);
  nocter_signal_destroy(out);
  return out;
}
nocter_interrupt* destroyed_interrupt() {
  nocter_interrupt* out = nullptr;
  CHECK_STATUS(nocter_interrupt_create(&out), NOCTER_OK);
  nocter_interrupt_destroy(out);
  return out;
}
nocter_eventfd* destroyed_eventfd() {
  nocter_eventfd* out = nullptr;
  CHECK_STATUS(nocter_eventfd_create(&out), NOCTER_OK);
  nocter_eventfd_destroy(out);
  return out;
}

}  // namespace

CASE(ffi_04_destroyed_service, "FFI-04") {
  nocter_blocking* const gone = destroyed_service();
  nocter_owned input = payload(), output;
  const nocter_owned before = input;
  nocter_job_id id;
  nocter_epoch epoch;
  nocter_job_state state;
  size_t count;
  nocter_running_job* job;
  nocter_workers* workers;
  nocter_blocking_counts snapshot = NOCTER_BLOCKING_COUNTS_INIT;
  CHECK_STATUS(nocter_blocking_submit(gone, &input, &id, &epoch), NOCTER_E_ARGUMENT);
  CHECK(std::memcmp(&input, &before, sizeof input) == 0);
  CHECK_STATUS(nocter_blocking_claim(gone, nullptr, &job), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_blocking_take(gone, kNoJob, nullptr, &output), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_blocking_query(gone, kNoJob, &state), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_blocking_completed(gone, &id, 1, &count), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_blocking_cancel(gone, kNoJob, &state, nullptr), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_blocking_epoch(gone, &epoch), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_blocking_wait_epoch(gone, epoch, nullptr, &epoch), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_blocking_shutdown(gone, nullptr, nullptr), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_blocking_drained(gone, nullptr), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_blocking_count(gone, &snapshot), NOCTER_E_ARGUMENT);
  CHECK_STATUS(nocter_blocking_serve(gone, run_nothing, nullptr, nullptr, &workers), NOCTER_E_ARGUMENT);
  nocter_blocking_destroy(gone);
  drop(input);
  check_all_dropped();
}

CASE(ffi_04_destroyed_signal, "FFI-04") {
  nocter_signal* const gone = destroyed_signal();
  uint64_t version = 7;
  CHECK(nocter_signal_version(gone) == 0);
  CHECK_STATUS(nocter_signal_publish(gone, &version), NOCTER_E_ARGUMENT);
  CHECK(version == 0);
  CHECK_STATUS(nocter_signal_wait(gone, 1, nullptr, &version), NOCTER_E_ARGUMENT);
  CHECK(nocter_signal_notifier(gone).wake == nullptr);
  nocter_signal_close(gone);
  nocter_signal_destroy(gone);
}

CASE(ffi_04_destroyed_interrupt, "FFI-04") {
  nocter_interrupt* const gone = destroyed_interrupt();
  nocter_interrupt_raise(gone);
  CHECK(!nocter_interrupt_raised(gone));
  nocter_interrupt_clear(gone);
  nocter_interrupt_destroy(gone);
  nocter_wait wait = within(0);
  wait.interrupt = gone;
  nocter_blocking* const alive = service();
  nocter_running_job* job;
  CHECK_STATUS(nocter_blocking_claim(alive, &wait, &job), NOCTER_E_ARGUMENT);
  nocter_blocking_destroy(alive);
}

CASE(ffi_04_destroyed_eventfd, "FFI-04") {
  const std::vector<int> before = descriptors();
  nocter_eventfd* const gone = destroyed_eventfd();
  CHECK(nocter_eventfd_fd(gone) == -1);
  nocter_eventfd_clear(gone);
  CHECK(nocter_eventfd_notifier(gone).wake == nullptr);
  nocter_eventfd_destroy(gone);
  CHECK(descriptors() == before);
}

CASE(ffi_04_eventfd_lives_on_in_its_notifier, "FFI-04") {
  nocter_eventfd* eventfd = nullptr;
  CHECK_STATUS(nocter_eventfd_create(&eventfd), NOCTER_OK);
  const std::vector<int> with_one = descriptors();
  const nocter_notifier notifier = nocter_eventfd_notifier(eventfd);
  nocter_eventfd_destroy(eventfd);
  CHECK(descriptors() == with_one);
  notifier.wake(notifier.user);
  notifier.drop(notifier.user);
  CHECK(descriptors().size() == with_one.size() - 1);
}

CASE(ffi_04_workers_destroyed_twice, "FFI-04") {
  nocter_blocking* const served = service();
  nocter_workers* const workers = serve(served, run_nothing, nullptr, 2);
  nocter_workers_destroy(workers);
  CHECK_STATUS(nocter_workers_stop(workers, nullptr), NOCTER_E_ARGUMENT);
  nocter_workers_destroy(workers);
  one_job(served);
  nocter_blocking_destroy(served);
}

CASE(ffi_04_running_job_used_twice, "FFI-04") {
  nocter_blocking* const of = service();
  const nocter_job_id id = submit(of);
  nocter_running_job* const job = claim(of);
  CHECK(nocter_job_id_equal(nocter_running_job_id(job), id));
  nocter_completion* const completion = begin(job);
  nocter_owned input = {&input, nullptr};
  nocter_completion* second = completion;
  CHECK_STATUS(nocter_running_job_begin(job, &input, &second), NOCTER_E_ARGUMENT);
  CHECK(second == nullptr && input.data == nullptr);
  nocter_running_job_drop(job);
  CHECK(is_zero(nocter_running_job_id(job)));
  CHECK(nocter_job_id_equal(nocter_completion_id(completion), id));
  complete(completion);
  CHECK_STATUS(take(of, id), NOCTER_OK);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_04_completion_used_twice, "FFI-04 B-21") {
  nocter_blocking* const of = service();
  const nocter_job_id id = submit(of);
  nocter_completion* const completion = begin(claim(of));
  complete(completion);
  nocter_owned output = payload();
  const nocter_owned before = output;
  CHECK_STATUS(nocter_completion_complete(completion, &output), NOCTER_E_ARGUMENT);
  CHECK(std::memcmp(&output, &before, sizeof output) == 0);
  nocter_completion_drop(completion);
  CHECK(is_zero(nocter_completion_id(completion)));
  CHECK(!nocter_completion_abandoned(completion));
  CHECK(nocter_completion_interrupt(completion) == nullptr);
  CHECK(counts(of).completed == 1 && counts(of).completed_ok == 1);
  CHECK_STATUS(take(of, id), NOCTER_OK);
  drop(output);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_04_guards_outlive_their_service, "FFI-04 B-19") {
  nocter_blocking* const of = service();
  submit(of);
  submit(of);
  nocter_running_job* const job = claim(of);
  nocter_completion* const completion = begin(claim(of));
  nocter_blocking_destroy(of);
  CHECK(nocter_completion_abandoned(completion));
  CHECK(nocter_interrupt_raised(nocter_completion_interrupt(completion)));
  nocter_running_job_drop(job);
  nocter_running_job_drop(job);  // the memory of guards is their service's, which the other one keeps
  complete(completion);
  check_all_dropped();
}

CASE(ffi_04_the_interrupt_of_a_guard_is_its_own, "FFI-04") {
  nocter_blocking* const of = service(1, 1);
  const nocter_job_id id = submit(of);
  nocter_completion* const completion = begin(claim(of));
  nocter_interrupt* const interrupt = nocter_completion_interrupt(completion);
  CHECK(interrupt != nullptr);
  // Not ours to end, to raise or to clear.
  nocter_interrupt_destroy(interrupt);
  nocter_interrupt_raise(interrupt);
  CHECK(!nocter_interrupt_raised(interrupt) && !nocter_completion_abandoned(completion));
  nocter_job_state was;
  CHECK_STATUS(nocter_blocking_cancel(of, id, &was, nullptr), NOCTER_OK);
  CHECK(was == NOCTER_JOB_RUNNING);
  nocter_interrupt_clear(interrupt);
  CHECK(nocter_interrupt_raised(interrupt));
  nocter_completion_drop(completion);
  CHECK(nocter_completion_interrupt(completion) == nullptr);
  // Used after its guard, which the header forbids, it does no harm to the next job in the same place.
  nocter_interrupt_destroy(interrupt);
  nocter_interrupt_raise(interrupt);
  const nocter_job_id next = submit(of);
  nocter_completion* const second = begin(claim(of));
  CHECK(!nocter_completion_abandoned(second));
  CHECK(!nocter_interrupt_raised(nocter_completion_interrupt(second)));
  nocter_interrupt_raise(interrupt);
  CHECK(!nocter_completion_abandoned(second));
  complete(second);
  CHECK_STATUS(take(of, next), NOCTER_OK);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

// Freed handles of a type rest before their memory is used again.
CASE(ffi_04_a_dead_handle_rests, "FFI-04") {
  nocter_signal* const gone = destroyed_signal();
  nocter_interrupt* const gone_interrupt = destroyed_interrupt();
  for (int i = 0; i < 63; i++) {
    CHECK(destroyed_signal() != gone);
    CHECK(destroyed_interrupt() != gone_interrupt);
  }
  CHECK(nocter_signal_version(gone) == 0);
  CHECK(!nocter_interrupt_raised(gone_interrupt));
  nocter_signal_destroy(gone);
  nocter_interrupt_destroy(gone_interrupt);
}

CASE(ffi_04_a_guard_is_not_taken_for_the_next_one, "FFI-04") {
  nocter_blocking* const of = service(64, 64);
  submit(of);
  nocter_running_job* const first = claim(of);
  nocter_running_job_drop(first);
  submit(of);
  nocter_running_job* const second = claim(of);
  nocter_running_job_drop(first);
  CHECK(second != first);
  CHECK(counts(of).running == 1);
  nocter_running_job_drop(second);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

// ---- NOCTER_CHECK=1: the same mistakes end the process, and say which call and which kind of handle it was -----------

CASE_ENDING(ffi_04_check_destroyed_service, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_blocking_epoch", "nocter_blocking"}, .check = true}) {
  nocter_epoch epoch;
  CHECK_STATUS(nocter_blocking_epoch(destroyed_service(), &epoch), NOCTER_E_ARGUMENT);
}
CASE_ENDING(ffi_04_check_service_destroyed_twice, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_blocking_destroy"}, .check = true}) {
  nocter_blocking_destroy(destroyed_service());
}
CASE_ENDING(ffi_04_check_destroyed_signal, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_signal_version", "nocter_signal"}, .check = true}) {
  CHECK(nocter_signal_version(destroyed_signal()) == 0);
}
CASE_ENDING(ffi_04_check_interrupt_destroyed_twice, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_interrupt_destroy"}, .check = true}) {
  nocter_interrupt_destroy(destroyed_interrupt());
}
CASE_ENDING(ffi_04_check_destroyed_eventfd, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_eventfd_fd", "nocter_eventfd"}, .check = true}) {
  CHECK(nocter_eventfd_fd(destroyed_eventfd()) == -1);
}
CASE_ENDING(ffi_04_check_workers_destroyed_twice, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_workers_destroy"}, .check = true}) {
  nocter_workers* const workers = serve(service(), run_nothing, nullptr, 1);
  nocter_workers_destroy(workers);
  nocter_workers_destroy(workers);
}
CASE_ENDING(ffi_04_check_running_job_used_twice, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_running_job_drop", "nocter_running_job"}, .check = true}) {
  nocter_blocking* const of = service();
  submit(of);
  nocter_running_job* const job = claim(of);
  begin(job);
  nocter_running_job_drop(job);
}
CASE_ENDING(ffi_04_check_completion_used_twice, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_completion_complete", "nocter_completion"}, .check = true}) {
  nocter_blocking* const of = service();
  submit(of);
  nocter_completion* const completion = begin(claim(of));
  complete(completion);
  complete(completion);
}
CASE_ENDING(ffi_04_check_wrong_type, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_signal_close", "nocter_signal"}, .check = true}) {
  nocter_signal_close(reinterpret_cast<nocter_signal*>(service()));
}
CASE_ENDING(ffi_04_check_dead_interrupt_in_a_wait, "FFI-04",
            {.signal = SIGABRT, .says = {"nocter_blocking_claim", "nocter_interrupt"}, .check = true}) {
  nocter_wait wait = within(0);
  wait.interrupt = destroyed_interrupt();
  nocter_running_job* job;
  CHECK_STATUS(nocter_blocking_claim(service(), &wait, &job), NOCTER_E_ARGUMENT);
}
// NULL and numbers out of range are bad input, which a host may well pass on from its users: never an abort.
CASE_ENDING(ffi_04_check_leaves_bad_input_alone, "FFI-04 FFI-01", {.check = true}) {
  nocter_blocking_destroy(nullptr);
  nocter_running_job_drop(nullptr);
  nocter_completion_drop(nullptr);
  nocter_workers_destroy(nullptr);
  nocter_signal_destroy(nullptr);
  nocter_interrupt_destroy(nullptr);
  nocter_eventfd_destroy(nullptr);
  nocter_epoch epoch;
  CHECK_STATUS(nocter_blocking_epoch(nullptr, &epoch), NOCTER_E_ARGUMENT);
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  options.workers = 0;
  nocter_blocking* out;
  CHECK_STATUS(nocter_blocking_create(&options, &out), NOCTER_E_ARGUMENT);
  nocter_blocking* const of = service();
  one_job(of);
  nocter_owned output;
  CHECK_STATUS(nocter_blocking_take(of, kNoJob, nullptr, &output), NOCTER_E_UNKNOWN);
  nocter_blocking_destroy(of);
}

// ---- Identities ---------------------------------------------------------------------------------------------------------

CASE(ffi_05_a_stale_identity_stays_unknown, "FFI-05 GEN-03 B-28") {
  nocter_blocking* const of = service(2, 1);
  const nocter_job_id stale = submit(of);
  complete(begin(claim(of)));
  CHECK_STATUS(take(of, stale), NOCTER_OK);
  nocter_job_state state;
  for (int i = 0; i < 20'000; i++) {
    const nocter_job_id id = submit(of);
    CHECK(!nocter_job_id_equal(id, stale));
    CHECK(nocter_blocking_query(of, stale, &state) == NOCTER_E_UNKNOWN);
    CHECK(take(of, stale) == NOCTER_E_UNKNOWN);
    CHECK(nocter_blocking_cancel(of, stale, &state, nullptr) == NOCTER_E_UNKNOWN);
    CHECK(nocter_blocking_cancel(of, id, &state, nullptr) == NOCTER_OK);
  }
  CHECK(counts(of).cancelled_queued == 20'000);
  nocter_blocking_destroy(of);
  check_all_dropped();
}

CASE(ffi_05_foreign_identities_of_equal_sequence, "FFI-05 B-26 B-27") {
  nocter_blocking* const mine = service();
  nocter_blocking* const other = service();
  nocter_job_id ours[3], theirs[3];
  for (int i = 0; i < 3; i++) {
    ours[i] = submit(mine);
    theirs[i] = submit(other);
  }
  nocter_job_state state;
  for (int i = 0; i < 3; i++) {
    CHECK(!nocter_job_id_equal(ours[i], theirs[i]));
    CHECK_STATUS(nocter_blocking_query(mine, theirs[i], &state), NOCTER_E_FOREIGN);
    CHECK_STATUS(take(mine, theirs[i]), NOCTER_E_FOREIGN);
    CHECK_STATUS(nocter_blocking_cancel(mine, theirs[i], &state, nullptr), NOCTER_E_FOREIGN);
    CHECK_STATUS(nocter_blocking_query(other, theirs[i], &state), NOCTER_OK);
  }
  nocter_epoch here, there, out;
  CHECK_STATUS(nocter_blocking_epoch(mine, &here), NOCTER_OK);
  CHECK_STATUS(nocter_blocking_epoch(other, &there), NOCTER_OK);
  CHECK(here.sequence == there.sequence && !nocter_epoch_equal(here, there));
  CHECK_STATUS(nocter_blocking_wait_epoch(mine, there, nullptr, &out), NOCTER_E_FOREIGN);
  // Foreign stays foreign when its service is gone.
  nocter_blocking_destroy(other);
  CHECK_STATUS(take(mine, theirs[0]), NOCTER_E_FOREIGN);
  CHECK_STATUS(nocter_blocking_wait_epoch(mine, there, nullptr, &out), NOCTER_E_FOREIGN);
  nocter_blocking_destroy(mine);
  check_all_dropped();
}

CASE(ffi_05_zero_and_forged_identities, "FFI-05") {
  nocter_blocking* const of = service();
  const nocter_job_id real = submit(of);
  nocter_job_state state;
  CHECK_STATUS(nocter_blocking_query(of, kNoJob, &state), NOCTER_E_UNKNOWN);
  // Every single bit of a real identity turned over: never a hit.
  for (int bit = 0; bit < 128; bit++) {
    nocter_job_id forged = real;
    (bit < 64 ? forged.service : forged.sequence) ^= uint64_t{1} << (bit % 64);
    const nocter_status status = nocter_blocking_cancel(of, forged, &state, nullptr);
    CHECK(status == NOCTER_E_UNKNOWN || status == NOCTER_E_FOREIGN);
  }
  CHECK_STATUS(nocter_blocking_query(of, real, &state), NOCTER_OK);
  nocter_epoch epoch, out;
  CHECK_STATUS(nocter_blocking_epoch(of, &epoch), NOCTER_OK);
  epoch.sequence++;
  CHECK_STATUS(nocter_blocking_wait_epoch(of, epoch, nullptr, &out), NOCTER_E_ARGUMENT);
  nocter_blocking_destroy(of);
}

CASE(ffi_05_service_numbers_are_never_used_again, "FFI-05 GEN-03") {
  nocter_blocking* const keeper = service();
  const nocter_job_id first = submit(keeper);
  nocter_job_state state;
  for (int i = 0; i < 1'000; i++) {
    nocter_blocking* const next = service(1, 1);
    const nocter_job_id id = submit(next);
    CHECK(!nocter_job_id_equal(id, first));
    CHECK(nocter_blocking_query(next, first, &state) == NOCTER_E_FOREIGN);
    nocter_blocking_destroy(next);
  }
  nocter_blocking_destroy(keeper);
  check_all_dropped();
}
