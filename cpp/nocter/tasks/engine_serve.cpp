// The library's own threads of a store: claim a task, run its round, see that it has ended, over and over.
#include <new>

#include "nocter/base/owned.hpp"
#include "nocter/tasks/engine.hpp"

namespace nocter::tasks {

using base::Interrupt;
using base::Locked;

class Serving final : public base::Work {
 public:
  Serving(const std::shared_ptr<Engine>& engine, std::vector<Engine::Handler> handlers)
      : engine_(engine), handlers_(std::move(handlers)) {
    types_.reserve(handlers_.size());
    for (const Engine::Handler& handler : handlers_) types_.push_back(handler.type);
  }
  void run(Interrupt& stop) override;
  const void* service() const override { return engine_.get(); }
  void stopping() override;
  void release() override { delete this; }
  base::Atomic<uint64_t>& exceptions() override { return exceptions_; }

 private:
  // The round at hand. However the thread leaves, it ends.
  struct Held {
    explicit Held(Run& r) : run(r) { run.hold(); }
    ~Held() noexcept(false) {
      if (run.header.tag.end(base::Kind::run)) run.drop(kind, message);
      run.release();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    Run& run;
    const char* kind = "WorkerLost";
    const char* message = "its thread ended";
  };

  void run_one(Run& run, Interrupt& stop);
  const Engine::Handler* handler_of(const std::string& type) const;

  const std::shared_ptr<Engine> engine_;
  const std::vector<Engine::Handler> handlers_;
  Engine::Types types_;
  base::Atomic<uint64_t> exceptions_;
};

const Engine::Handler* Serving::handler_of(const std::string& type) const {
  for (const Engine::Handler& handler : handlers_) {
    if (handler.type == type) return &handler;
  }
  return nullptr;
}

void Serving::run(Interrupt& stop) {
  constexpr int64_t kAfterError = 100'000'000;
  base::Wait wait;
  wait.interrupt = &stop;
  while (!stop.raised()) {
    Run* run = nullptr;
    size_t count = 0;
    Status status = Status::memory;
    try {
      status = engine_->claim(types_, 1, &wait, &run, count).status;
    } catch (const std::bad_alloc&) {  // there may be memory later
    }
    if (status == Status::closed) return;
    if (count != 0) {
      run_one(*run, stop);
    } else if (status < Status::ok) {
      base::EventCount nothing;
      base::Wait pause;
      pause.deadline_ns = base::now_ns() + kAfterError;
      pause.interrupt = &stop;
      nothing.wait(nothing.version(), pause, base::Patience{0, 0});
    }
  }
}

void Serving::run_one(Run& run, Interrupt& stop) {
  Held held(run);
  {
    const Locked lock(engine_->mutex_);
    run.served_by_ = this;
  }
  // Whoever stops these threads raises that first and looks for runs then.
  const Engine::Handler* const handler = handler_of(run.record().type);
  if (stop.raised() || handler == nullptr) {
    run.give_back();
    held.message = "it could not be handed back";
    return;
  }
  held.kind = "NoOutcome";
  held.message = "its handler returned without an outcome";
  if (!base::call_foreign(exceptions_, [&] { handler->call(*handler, run); })) {
    held.kind = "HandlerError";
    held.message = "its handler threw an exception";
  }
}

void Serving::stopping() {
  const Locked lock(engine_->mutex_);
  for (Run* first : engine_->runs_) {
    for (Run* run = first; run != nullptr; run = run->next_) {
      if (run->served_by_ == this) run->raise(Reason::stop);
    }
  }
}

base::Workers::Started Engine::serve(std::vector<Handler> handlers, base::ThreadOptions options, base::Workers*& out) {
  auto* serving = new Serving(shared_from_this(), std::move(handlers));
  return base::Workers::start(*serving, options, out);
}

}  // namespace nocter::tasks
