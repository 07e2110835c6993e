// The library's own threads of a blocking service: claim, begin, run, complete, over and over.
#include <new>

#include "nocter/blocking.hpp"

namespace nocter::blocking {

using base::Interrupt;

class Serving final : public base::Work {
 public:
  Serving(Service& service, const Service::Run& function) : service_(service), run_(function) { service_.hold(); }
  void run(Interrupt& stop) override;
  const void* service() const override { return &service_; }
  void release() override {
    service_.release();
    delete this;
  }
  base::Atomic<uint64_t>& exceptions() override { return service_.exceptions(); }

 private:
  // The job at hand. However the thread leaves, its values end and its waiter is told.
  struct Held {
    explicit Held(Service& s) : service(s) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    Service& service;
    Job* job = nullptr;
    Owned input, output;
    ~Held() noexcept(false) {
      if (job == nullptr) return;
      struct Lost {
        Held& held;
        ~Lost() noexcept(false) {
          if (held.job == nullptr) return;
          Owned none;
          held.job->completion().tag.disarm();
          held.service.end_guard(*held.job, JobEvent::lose, none);
        }
      } lost{*this};
      forget_lent();
      end_values();
    }
    void end_values() {
      input.end(service.exceptions());
      output.end(service.exceptions());
    }
    // False when the function that was lent the completion has ended the job itself.
    bool forget_lent() {
      base::ThreadState& thread = base::self();
      const bool consumed = thread.lent_consumed;
      thread.lent = nullptr;
      if (!consumed) [[likely]]
        return true;
      thread.lent_consumed = false;
      job = nullptr;
      return false;
    }
  };

  Service& service_;
  const Service::Run run_;
};

void Serving::run(Interrupt& stop) {
  Held held(service_);
  while (held.job != nullptr || (held.job = service_.claim_for_worker(stop)) != nullptr) {
    Job& job = *held.job;
    held.input = Service::begin_unseen(job);
    base::self().lent = &job.completion();
    const bool returned =
        base::call_foreign(service_.exceptions(), [&] { run_.call(run_, held.input, held.output, job.completion()); });
    if (!held.forget_lent()) {
      held.end_values();
      continue;
    }
    held.input.end(service_.exceptions());
    if (!returned) held.output.end(service_.exceptions());
    job.completion().tag.disarm();
    if (returned) [[likely]] {
      service_.complete_and_claim(held.job, held.output, stop);
    } else {
      Owned none;
      held.job = nullptr;
      service_.end_guard(job, JobEvent::lose, none);
    }
  }
}

base::Workers::Started Service::serve(const Run& run, base::ThreadOptions options, base::Workers*& out) {
  auto* serving = new (std::nothrow) Serving(*this, run);
  if (serving == nullptr) return {Status::memory, 0, ENOMEM};
  if (options.threads == 0) options.threads = shared_.workers;
  return base::Workers::start(*serving, options, out);
}

}  // namespace nocter::blocking
