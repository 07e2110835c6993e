// The library's own threads, as every `serve` makes them: all made by the call itself, signals blocked, cancellation off.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "nocter/base/handle.hpp"
#include "nocter/base/monitor.hpp"
#include "nocter/base/owned.hpp"
#include "nocter/base/status.hpp"

namespace nocter::base {

struct ThreadOptions {
  uint32_t threads = 0;
  size_t stack_size = 0;
  const char* name = nullptr;
  int32_t (*start)(void*) = nullptr;
  void (*stop)(void*) = nullptr;
  void* user = nullptr;
};

// A thread that is cancelled does not end inside of this.
class NotCancelled {
 public:
  NotCancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() {
    int ignored;
    pthread_setcancelstate(before_, &ignored);
  }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_ = 0;
};

// What the threads do, and what must live as long as they do.
class Work {
 public:
  // Returns when `stop` is raised or there will be nothing more to do.
  virtual void run(Interrupt& stop) = 0;
  // What self().serving is on these threads.
  virtual const void* service() const = 0;
  // They are asked to stop, perhaps not for the first time: for work that is more than one step.
  virtual void stopping() {}
  virtual void release() = 0;
  virtual Atomic<uint64_t>& exceptions() = 0;

 protected:
  ~Work() = default;
};

class Workers {
 public:
  struct Started {
    Status status;
    int32_t hook;  // what a failing start hook said, else 0
    int error;     // errno of a thread that could not be made, else 0
  };
  // Takes the work over and releases it when the last thread has ended; when it fails nothing is left and the work is released
  // too.
  static Started start(Work& work, const ThreadOptions& options, Workers*& out);
  Workers(Work& work, const ThreadOptions& options);

  void ask_to_stop() {
    stop_.raise();
    work_.stopping();
  }
  // `ok` once all threads have ended: then they are joined too, so that none of them runs code of the host any more.
  Status wait_for_end(const Wait* wait);
  bool is_mine() const { return self().serving == work_.service() && current_is_member(); }
  // The handle's end: stops, waits (from one of its own threads: does not), frees.
  void destroy();

  Header header;

 private:
  friend void end_handle<Kind::workers, Workers>(Workers*);
  ~Workers();
  static void* thread_main(void* workers);
  void body();
  bool report(int32_t hook);
  void leave();
  void join_all();
  bool current_is_member() const;
  void release();

  Work& work_;
  ThreadOptions options_;
  char name_[16];
  Interrupt stop_;
  Mutex mutex_;
  Condition changed_;  // a thread reported its start or ended; go or not was decided; the threads were joined
  pthread_t* threads_ = nullptr;
  uint32_t made_ = 0, reported_ = 0, alive_ = 0;
  int32_t hook_failed_ = 0;
  enum class Joined : uint8_t { no, now, yes } joined_ = Joined::no;
  enum class Decision : uint8_t { none, go, give_up } decision_ = Decision::none;
  Atomic<uint32_t> references_{1};  // the handle and each thread
};

}  // namespace nocter::base
