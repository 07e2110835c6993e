#include "nocter/base/threads.hpp"

#include <csignal>
#include <cstring>
#include <new>

namespace nocter::base {

namespace {

// Their signals are the host's: a thread of ours must never run a handler of it.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Whose thread this is.
thread_local const Workers* member_of __attribute__((tls_model("initial-exec"))) = nullptr;

}  // namespace

Workers::Workers(Work& work, const ThreadOptions& options) : header(Kind::workers), work_(work), options_(options) {
  std::strncpy(name_, options.name != nullptr && options.name[0] != 0 ? options.name : "nocter", sizeof name_ - 1);
  name_[sizeof name_ - 1] = 0;
}

Workers::~Workers() {
  delete[] threads_;
  work_.release();
}

bool Workers::current_is_member() const { return member_of == this; }

void Workers::release() {
  if (references_.fetch_sub(1) == 1) end_handle<Kind::workers>(this);
}

Workers::Started Workers::start(Work& work, const ThreadOptions& options, Workers*& out) {
  Workers* made = make_handle<Workers, Kind::workers>(work, options);
  if (made == nullptr) {
    work.release();
    return {Status::memory, 0, ENOMEM};
  }
  Started result{Status::ok, 0, 0};
  made->threads_ = new (std::nothrow) pthread_t[options.threads];
  if (made->threads_ == nullptr) result = {Status::memory, 0, ENOMEM};
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) result = {Status::memory, 0, ENOMEM};
  if (result.status == Status::ok) {
    if (options.stack_size != 0) {
      if (const int error = pthread_attr_setstacksize(&attributes, options.stack_size); error != 0) {
        result = {Status::argument, 0, error};
      }
    }
    SignalsBlocked blocked;
    while (result.status == Status::ok && made->made_ < options.threads) {
      made->references_.fetch_add(1);
      const int error = pthread_create(&made->threads_[made->made_], &attributes, thread_main, made);
      if (error == 0) {
        made->made_++;
      } else {
        made->references_.fetch_sub(1);
        result = {Status::memory, 0, error};
      }
    }
    pthread_attr_destroy(&attributes);
  }
  {
    Wakes wakes;
    Locked lock(made->mutex_);
    while (made->reported_ < made->made_) made->changed_.wait(lock, Wait{}, default_patience());
    if (result.status == Status::ok && made->hook_failed_ != 0) {
      result.hook = made->hook_failed_;
      result.status = Status::state;
    }
    made->decision_ = result.status == Status::ok ? Decision::go : Decision::give_up;
    made->alive_ = made->made_;
    made->changed_.tell_all(wakes);
    lock.unlock();
    wakes.send();
  }
  if (result.status == Status::ok) {
    out = made;
    return result;
  }
  made->header.tag.disarm();
  made->join_all();
  made->release();
  return result;
}

void* Workers::thread_main(void* workers) {
  static_cast<Workers*>(workers)->body();
  return nullptr;
}

// Its frames are neither noexcept nor catch everything: a forced unwinding out of a callback passes through them.
void Workers::body() {
  struct Leaving {
    Workers& workers;
    bool reported = false;
    ~Leaving() {
      self().serving = nullptr;
      if (!reported) workers.report(static_cast<int32_t>(Status::internal));  // its start hook ended the thread
      workers.leave();
      workers.release();
    }
  } leaving{*this};
  struct Stopping {
    Workers& workers;
    bool started = false;
    ~Stopping() noexcept(false) {
      if (!started || workers.options_.stop == nullptr) return;
      call_foreign(workers.work_.exceptions(), [this] { workers.options_.stop(workers.options_.user); });
    }
  } stopping{*this};
  int ignored;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
  pthread_setname_np(pthread_self(), name_);
  member_of = this;
  int32_t hook = 0;
  if (options_.start != nullptr) {
    hook = static_cast<int32_t>(Status::internal);  // what a start hook that throws has said
    call_foreign(work_.exceptions(), [&] { hook = options_.start(options_.user); });
  }
  stopping.started = hook == 0;
  leaving.reported = true;
  if (!report(hook)) return;
  self().serving = work_.service();
  work_.run(stop_);
}

// True when all threads may begin.
bool Workers::report(int32_t hook) {
  Wakes wakes;
  Locked lock(mutex_);
  reported_++;
  if (hook != 0 && hook_failed_ == 0) hook_failed_ = hook;
  changed_.tell_all(wakes);
  lock.unlock();
  wakes.send();
  lock.lock();
  while (decision_ == Decision::none) changed_.wait(lock, Wait{}, default_patience());
  return decision_ == Decision::go;
}

void Workers::leave() {
  Wakes wakes;
  Locked lock(mutex_);
  if (alive_ > 0 && --alive_ == 0) changed_.tell_all(wakes);
  lock.unlock();
  wakes.send();
}

Status Workers::wait_for_end(const Wait* wait) {
  {
    Locked lock(mutex_);
    for (Woken why = Woken::changed; alive_ != 0;) {
      if (wait == nullptr) return Status::pending;
      if (why != Woken::changed) return status_of(why);
      why = changed_.wait(lock, *wait, default_patience());
    }
  }
  join_all();
  return Status::ok;
}

void Workers::join_all() {
  Locked lock(mutex_);
  while (joined_ == Joined::now) changed_.wait(lock, Wait{}, default_patience());
  if (joined_ == Joined::yes) return;
  joined_ = Joined::now;
  lock.unlock();
  for (uint32_t i = 0; i < made_; i++) pthread_join(threads_[i], nullptr);
  lock.lock();
  Wakes wakes;
  joined_ = Joined::yes;
  changed_.tell_all(wakes);
  lock.unlock();
}

void Workers::destroy() {
  ask_to_stop();
  if (current_is_member()) {
    Locked lock(mutex_);
    if (joined_ == Joined::no) {
      joined_ = Joined::yes;
      for (uint32_t i = 0; i < made_; i++) pthread_detach(threads_[i]);
    }
  } else {
    const Wait forever;
    wait_for_end(&forever);
  }
  release();
}

}  // namespace nocter::base
