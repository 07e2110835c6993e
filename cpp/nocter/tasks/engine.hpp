// An open store of tasks: the lane to it, those who wait for something of it, the runs that this process holds, and the keeper thread that
// renews their lease and does the upkeep.
//
//   engine.cpp         opening and closing, what a committed batch brings, reads and requests
//   engine_waits.cpp   claims, awaits, locks and events that wait
//   engine_keeper.cpp  the lease of this process, what comes due, rescue, purge, changes made by other processes
//   engine_serve.cpp   threads that claim and run
//
// Lock order: a clock's, then the engine's. The lane's is never held together with either.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nocter/base/monitor.hpp"
#include "nocter/base/threads.hpp"
#include "nocter/tasks/clock.hpp"
#include "nocter/tasks/lane.hpp"
#include "nocter/tasks/run.hpp"
#include "nocter/tasks/store.hpp"
#include "nocter/tasks/store_options.hpp"
#include "nocter/tasks/tables.hpp"
#include "nocter/tasks/waiters.hpp"

namespace nocter::tasks {

class Log {
 public:
  enum class Level : int32_t { warning = 1, information = 2 };
  virtual ~Log() = default;
  Log() = default;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  // From any thread, with no lock held.
  virtual void line(Level level, std::string_view text) = 0;
};

// With control characters escaped.
std::string printable(std::string_view text);

struct EngineOptions {
  std::string node;                   // its name for people
  std::vector<std::string> warnings;  // of the store, to be said once it is open
  int64_t lease_ms = 15'000;          // at least 100
  int64_t retention_ms = 0;           // 0: for ever
  int64_t event_retention_ms = 0;
  uint32_t poll_ms = 1'000;
  bool by_hand = false;    // no keeper
  bool own_keeper = true;  // a thread of its own; else whoever opens it runs a Keeper somewhere
  Limits limits;
  std::shared_ptr<Clock> clock;  // the store's
};

class Engine final : public std::enable_shared_from_this<Engine>, private Lane::Observer, private Clock::Watcher {
 public:
  using Types = std::vector<std::string>;

  // Throws StoreError and std::bad_alloc. To be closed before it is let go of.
  static std::shared_ptr<Engine> open(std::unique_ptr<Store> store, const EngineOptions& options,
                                      const std::string& what, std::unique_ptr<Log>& log);
  Engine(std::unique_ptr<Store> store, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Ends all waits, hands back what is claimed, and lets go of the store once no call is inside it any more.
  void close();
  bool closed() const { return (users_.load() & kClosed) != 0; }

  const Limits& limits() const { return options_.limits; }
  Millis now() const { return options_.clock->now_ms(); }

  // One request, through the lane. It comes back with what the store wrote into it.
  template <class Demanded>
  Answer ask(Demanded& demand);
  // A read: read(store).
  template <class Read>
  Answer look(Read&& read);

  Answer children(const TaskId& id, std::vector<Record>& out);
  Answer cancel(const TaskId& id, uint64_t& touched);
  Answer retry(const TaskId& id, TaskId& out);
  Answer maintain();
  Answer purge(int64_t older_than_ms, uint64_t& removed);
  uint64_t runs() const;

  // ---- Waiting (engine_waits.cpp). `wait` may be null: then none of them waits.
  Answer claim(const Types& types, uint32_t most, const base::Wait* wait, Run** out, size_t& count);
  Answer await(const TaskId& id, const base::Wait* wait, Record& out);
  Answer acquire(LockAcquire& lock, const base::Wait* wait);
  Answer events(uint64_t after, size_t most, const base::Wait* wait, std::vector<Event>& out);

  // ---- The lease (engine_keeper.cpp)
  Answer renew(int64_t node);

  // ---- Serving (engine_serve.cpp)
  struct Handler {
    std::string type;
    void (*call)(const Handler& handler, Run& run) = nullptr;
    void (*function)() = nullptr;
    void* user = nullptr;
  };
  base::Workers::Started serve(std::vector<Handler> handlers, base::ThreadOptions options, base::Workers*& out);
  bool serves_here() const { return base::self().serving == this; }

  // ---- For runs
  void forget(Run& run);
  void lose_later(Run& run) noexcept;

 private:
  friend class Serving;
  friend class Keeper;
  friend class Spare;

  // A call that is inside: the store stays until it has left.
  class Use {
   public:
    explicit Use(Engine& engine) : engine_(engine), open_((engine.users_.fetch_add(kUser) & kClosed) == 0) {}
    ~Use() { engine_.leave(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const { return open_; }

   private:
    Engine& engine_;
    const bool open_;
  };
  static constexpr uint64_t kClosed = 1, kUser = 2;
  void leave();

  // A claim on its way to the store, with room for what it gets: filled in before anybody can hear of what happens to those runs then.
  struct ClaimRequest : Request {
    Run** room = nullptr;
    size_t filled = 0;
  };
  // ---- What a committed batch brings
  void committed(std::span<Request* const> batch, const Effects& effects) override;
  void enlist(ClaimRequest& request);
  void list(Run& run);
  void unlist(Run& run);
  void give_up_runs();
  void call_claimers(const std::string& type, size_t count);
  void call_enders(const TaskId& task);
  void call_lockers(std::string_view name);
  void cancel_here(const Claimed& claimed);
  void clock_moved() override;

  // ---- Waiting
  bool enter(Waiters& list, Waiter& waiter);
  void leave(Waiters& list, Waiter& waiter);
  // A wait that ends after `most_ms` at the latest; `cut` when that is sooner than it would by itself.
  struct Slice {
    base::Wait wait;
    bool cut;
  };
  static Slice slice_of(const base::Wait& wait, int64_t most_ms);
  // In a list for the length of a wait; in none when there is no wait.
  class Entered;
  // Looks, then sleeps for at most most_ms() at a time, until look(answer) says that it is over; without a wait one look, and `nothing`.
  template <class Look, class Most>
  Answer look_and_wait(Waiter& waiter, const base::Wait* wait, Status nothing, Most&& most_ms, Look&& look);
  int64_t until_due() const;
  Answer claim_once(ClaimRequest& request);
  Answer claim_waiting(ClaimRequest& request, ClaimWaiter& waiter, const base::Wait& wait);
  void pass_on(const ClaimWaiter& from);
  void sweep_claimers();   // one is to look, of each sort that waits
  void sweep_everybody();  // all are to look, for something has changed and nobody knows what
  Waiters& enders_of(const TaskId& task) { return enders_[task.bytes[15] % kEnders]; }

  // ---- Keeper
  class Tending;
  static constexpr int kMostTurns = 64;  // of upkeep in one go
  Millis lease_now() const;
  uint64_t next_number();
  Answer register_node();
  Answer ensure_node();
  void lost_node(int64_t node);
  void tell_keeper();
  Answer maintain_once(Maintain& maintain, bool purges);
  void lose_again();
  void say(Log::Level level, std::initializer_list<std::string_view> parts) noexcept;
  void speak();

  const EngineOptions options_;
  std::unique_ptr<Store> store_;
  std::optional<Lane> lane_;
  std::unique_ptr<Log> log_;
  base::Workers* keeper_ = nullptr;

  base::Atomic<uint64_t> users_;
  base::EventCount left_;

  mutable base::Mutex mutex_;  // of what follows
  static constexpr size_t kRunLists = 64, kEnders = 64;
  std::array<Run*, kRunLists> runs_{};  // by the last bits of their token
  uint64_t run_count_ = 0;
  Run* unheard_ = nullptr;  // lost, and the store has not heard of it
  bool given_up_ = false;   // closed, and the store has heard of every run
  Waiters claimers_, lockers_, readers_;
  std::array<Waiters, kEnders> enders_;
  std::vector<std::pair<Log::Level, std::string>> unsaid_;
  TaskId search_from_;  // how far the store has been searched for lost wakes, until that is done
  Millis fence_at_ = kNever, renew_at_ = kNever, over_at_ = kNever;  // by lease_now()

  base::Mutex registering_;
  base::Atomic<int64_t> node_;  // 0: not registered
  base::Atomic<int64_t> next_due_{kNever};
  base::Atomic<uint64_t> waiting_;  // waiters of every sort
  base::Atomic<uint64_t> random_;   // for claim numbers
  base::Atomic<bool> upkeep_wanted_, moved_, searched_, keeper_slow_;
  base::EventCount keeper_turn_;
};

template <class Demanded>
Answer Engine::ask(Demanded& demand) {
  const Use use(*this);
  if (!use) return {Status::closed, {}};
  struct Asked {
    explicit Asked(Demanded& of) : demand(of), request{std::move(of), {}} {}
    ~Asked() { demand = std::move(std::get<Demanded>(request.demand)); }
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;
    Demanded& demand;
    Request request;
  } asked(demand);
  lane_->execute(asked.request);
  return std::move(asked.request.answer);
}

template <class Read>
Answer Engine::look(Read&& read) {
  const Use use(*this);
  if (!use) return {Status::closed, {}};
  const base::NotCancelled whole;
  return std::forward<Read>(read)(*store_);
}

}  // namespace nocter::tasks
