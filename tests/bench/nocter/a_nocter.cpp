// nocter in benchmark A, over the C interface: two workers of the library's own, and one loop thread that submits,
// and takes jobs as they end, a batch a call.
#include <nocter.h>

#include "../peers/a/roundtrip.hpp"

namespace {

void need(nocter_status status, const char* what) {
  if (status == NOCTER_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, nocter_status_name(status), nocter_error_message());
  exit(3);
}

class Peer {
 public:
  explicit Peer(rt::Driver& driver) : driver_(driver) {
    nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
    options.maximum_jobs = driver.window() < rt::kWorkers ? rt::kWorkers : driver.window();
    options.workers = rt::kWorkers;
    need(nocter_blocking_create(&options, &blocking_), "create");
    nocter_workers* workers = nullptr;  // the process ends without stopping them
    need(nocter_blocking_serve(blocking_, run_job, nullptr, nullptr, &workers), "serve");
  }

  void submit(rt::Job* job) {
    nocter_owned input = {job, nullptr};
    nocter_job_id id;
    nocter_epoch epoch;
    need(nocter_blocking_submit(blocking_, &input, &id, &epoch), "submit");
  }

  void run() {
    const nocter_wait forever = {NOCTER_FOREVER, nullptr, 0, 0};
    nocter_taken taken[kBatch];
    while (!driver_.finished()) {
      size_t count = 0;
      need(nocter_blocking_take_many(blocking_, &forever, taken, kBatch, &count), "take_many");
      for (size_t i = 0; i < count; i++) {
        need(taken[i].status, "job");
        driver_.completed(*this, static_cast<rt::Job*>(taken[i].output.data));
      }
    }
  }

 private:
  static constexpr size_t kBatch = 256;

  static void run_job(void*, nocter_owned* input, nocter_owned* output, nocter_completion*) {
    rt::work(static_cast<rt::Job*>(input->data));
    *output = *input;
    *input = {};
  }

  rt::Driver& driver_;
  nocter_blocking* blocking_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) { return rt::main_for<Peer>("nocter", argc, argv); }
