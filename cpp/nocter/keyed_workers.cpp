// The library's own threads of a keyed queue: claim, make a pass, end it, over and over.
#include <new>

#include "nocter/keyed.hpp"

namespace nocter::keyed {

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
  // The pass at hand. However the thread leaves, it ends.
  struct Held {
    explicit Held(Service& s) : service(s) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    Service& service;
    Pass* pass = nullptr;
    ~Held() noexcept(false) {
      if (pass == nullptr || !forget_lent()) return;
      pass->tag.disarm();
      service.end_pass(*pass, KeyEvent::fail, 0, nullptr, nullptr);
    }
    // False when the function that was lent the pass has ended it itself.
    bool forget_lent() {
      base::ThreadState& thread = base::self();
      const bool consumed = thread.lent_consumed;
      thread.lent = nullptr;
      thread.lent_consumed = false;
      if (consumed) pass = nullptr;
      return !consumed;
    }
  };

  Service& service_;
  const Service::Run run_;
};

void Serving::run(Interrupt& stop) {
  Held held(service_);
  while (held.pass != nullptr || (held.pass = service_.claim_for_worker(stop)) != nullptr) {
    Pass& pass = *held.pass;
    base::self().lent = &pass;
    bool well = false;
    base::call_foreign(service_.exceptions(), [&] { well = run_.call(run_, service_.key_of(pass), pass); });
    if (!held.forget_lent()) continue;
    pass.tag.disarm();
    service_.end_pass(pass, well ? KeyEvent::complete : KeyEvent::fail, 0, &held.pass, &stop);
  }
}

base::Workers::Started Service::serve(const Run& run, base::ThreadOptions options, base::Workers*& out) {
  auto* serving = new (std::nothrow) Serving(*this, run);
  if (serving == nullptr) return {Status::memory, 0, ENOMEM};
  if (options.threads == 0) options.threads = shared_.workers;
  return base::Workers::start(*serving, options, out);
}

}  // namespace nocter::keyed
