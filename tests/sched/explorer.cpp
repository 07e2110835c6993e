#include "sched/explorer.hpp"

#include <cxxabi.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <cstring>
#include <memory>

#include "sched/memory.hpp"

namespace sched {

using nocter::base::kForever;
using nocter::base::SchedulerMutex;
using nocter::base::Slept;
using nocter::base::ThreadState;

bool exploring = false;

namespace {

namespace context = boost::context;

constexpr int kOutside = 99;  // owner of a mutex that is locked during set-up or checks
constexpr int64_t kStart = 1'000'000'000'000;
// How long a yield takes: who stays awake for a time, and not for a number of looks, comes to its end.
constexpr int64_t kYield = 25'000;
// So many yields in a row of the only thread that could run: then a deadline passes rather than one more.
constexpr unsigned kPatienceAlone = 12;
// So many deadlines of one thread pass before their time at no cost. One that looks again every now and then, for ever, would otherwise do
// nothing else in some schedule.
constexpr unsigned kExpiresFreely = 3;

// A stack costs a map and an unmap; the explorer needs a handful of them a hundred thousand times.
class Stacks {
 public:
  static constexpr size_t kSize = 256 * 1024, kGuard = 4096;
  context::stack_context allocate() {
    void* base;
    if (free_.empty()) {
      base = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
      if (base == MAP_FAILED) throw std::bad_alloc();
      mprotect(base, kGuard, PROT_NONE);
    } else {
      base = free_.back();
      free_.pop_back();
    }
    context::stack_context stack;
    stack.size = kSize;
    stack.sp = static_cast<char*>(base) + kSize;
    return stack;
  }
  void deallocate(context::stack_context& stack) { free_.push_back(static_cast<char*>(stack.sp) - kSize); }

 private:
  std::vector<void*> free_;
};
Stacks stacks;
struct StackAllocator {
  context::stack_context allocate() { return stacks.allocate(); }
  void deallocate(context::stack_context& stack) { stacks.deallocate(stack); }
};

// What the C++ runtime keeps for each thread: which exceptions are being handled.
struct Handling {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};
Handling& handling_now() { return *reinterpret_cast<Handling*>(abi::__cxa_get_globals()); }

enum class State { ready, wants_mutex, sleeps, awaits, done };

struct Fiber {
  const char* name = "";
  context::fiber context;
  State state = State::ready;
  const SchedulerMutex* wanted = nullptr;
  const uint32_t* word = nullptr;
  const uint32_t* other = nullptr;
  int64_t deadline = kForever;
  uint64_t since = 0;  // sleepers are woken in the order in which they went to sleep, if nothing else is chosen
  Slept slept = Slept::woken;
  std::function<bool()> condition;
  uint32_t gives_way_to = 0;  // after a yield: who has to run first, one bit each
  unsigned yields_alone = 0;
  unsigned expired = 0;  // how many of its deadlines have passed
  unsigned locks = 0;
  ThreadState thread_state = {};
  Handling handling;
};

struct Step {
  int8_t thread;
  const char* where;
};

struct World {
  std::vector<Fiber> fibers;
  context::fiber outside;
  int current = -1;
  bool decided = false;
  Option decision = {};
  std::optional<std::string> failed;
  Strategy* strategy = nullptr;
  bool signals = false, idle_yields = false, memory_fails = false;
  int64_t time = kStart;
  uint64_t sleeps = 0;
  unsigned points = 0;
  std::vector<uint8_t> choices;
  Step steps[64] = {};
  unsigned locks_outside = 0;
  ThreadState state_outside = {};
};
World* world = nullptr;
ThreadState idle_state = {};
uint64_t points_total = 0;

struct Failed {};

// A failure outside of the fibers. It is remembered too, because a boundary may stop the exception on its way.
[[noreturn]] void fail_outside(const std::string& what) {
  if (world != nullptr && !world->failed) world->failed = what;
  throw Failed{};
}

Fiber& current() { return world->fibers[static_cast<size_t>(world->current)]; }

bool runnable(const Fiber& fiber) {
  switch (fiber.state) {
    case State::ready:
      return true;
    case State::wants_mutex:
      return fiber.wanted->owner == SchedulerMutex::kNobody;
    case State::awaits:
      return fiber.condition();
    default:
      return false;
  }
}

// The conditions of wait_until are judged outside of the threads, so that what they read is no scheduling point.
struct NotExploring {
  NotExploring() : before(exploring) { exploring = false; }
  ~NotExploring() { exploring = before; }
  bool before;
};

uint32_t runnable_now() {
  const NotExploring quiet;
  uint32_t all = 0;
  for (size_t i = 0; i < world->fibers.size(); i++) {
    if (runnable(world->fibers[i])) all |= 1u << i;
  }
  return all;
}

unsigned pick(const Option* options, unsigned size, int from) {
  if (size == 1) return 0;
  const Decision decision = {options, size, from};
  unsigned chosen = world->strategy->choose(decision);
  if (chosen >= size) chosen = 0;
  world->choices.push_back(static_cast<uint8_t>(chosen));
  return chosen;
}

// What happens next. `from` is the thread that asks; nobody, when it cannot go on.
enum class Next { chosen, finished, stuck };
Next decide(int from, bool yields) {
  const uint32_t can_run = runnable_now();
  uint32_t eligible = 0;
  for (size_t i = 0; i < world->fibers.size(); i++) {
    if ((can_run >> i & 1) != 0 && (world->fibers[i].gives_way_to & can_run) == 0) eligible |= 1u << i;
  }
  if (eligible == 0) eligible = can_run;

  Option options[4 * kMostThreads];
  unsigned size = 0;
  const bool goes_on = from >= 0 && (eligible >> from & 1) != 0;
  const uint8_t cost = goes_on && !yields ? 1 : 0;
  bool expires = false;
  for (const Fiber& fiber : world->fibers) expires |= fiber.state == State::sleeps && fiber.deadline != kForever;
  const bool must_expire = expires && goes_on && current().yields_alone > kPatienceAlone && eligible == 1u << from;
  if (goes_on && !must_expire) options[size++] = {Option::run, static_cast<uint8_t>(from), 0};
  for (uint8_t i = 0; i < world->fibers.size(); i++) {
    if ((eligible >> i & 1) != 0 && i != from) options[size++] = {Option::run, i, cost};
  }
  for (uint8_t i = 0; i < world->fibers.size(); i++) {
    const Fiber& fiber = world->fibers[i];
    if (fiber.state == State::sleeps && fiber.deadline != kForever) {
      const bool too_often = fiber.expired >= kExpiresFreely && eligible != 0;
      options[size++] = {Option::expire, i, static_cast<uint8_t>(must_expire ? 0 : too_often ? 1 : cost)};
    }
  }
  if (size == 0) {
    for (const Fiber& fiber : world->fibers) {
      if (fiber.state != State::done) return Next::stuck;
    }
    return Next::finished;
  }
  for (uint8_t i = 0; i < world->fibers.size(); i++) {
    if (world->fibers[i].state == State::sleeps) {
      options[size++] = {Option::spurious, i, 1};
      if (world->signals) options[size++] = {Option::signal, i, 1};
    }
  }
  world->decision = options[pick(options, size, goes_on ? from : -1)];
  return Next::chosen;
}

void note(int thread, const char* where) {
  world->steps[world->points % std::size(world->steps)] = {static_cast<int8_t>(thread), where};
  world->points++;
  points_total++;
}

// Leaves the running fiber for the loop in play().
void leave() {
  exploring = false;
  world->outside = std::move(world->outside).resume();
  exploring = true;
}

void step(const char* where, bool yields) {
  note(world->current, where);
  if (world->points > kLivelock) fail("livelock: " + std::to_string(kLivelock) + " points without an end");
  decide(world->current, yields);
  if (world->decision.kind == Option::run && world->decision.thread == world->current) return;
  world->decided = true;
  leave();
}

// The running thread cannot go on; its state says what it waits for.
void block(const char* where) {
  note(world->current, where);
  if (world->points > kLivelock) fail("livelock: " + std::to_string(kLivelock) + " points without an end");
  leave();
}

std::string describe_stuck() {
  std::string text = "deadlock:";
  for (const Fiber& fiber : world->fibers) {
    if (fiber.state == State::done) continue;
    text += std::string(" ") + fiber.name;
    if (fiber.state == State::sleeps) text += " sleeps for ever;";
    if (fiber.state == State::wants_mutex) text += " waits for a lock;";
    if (fiber.state == State::awaits) text += " waits for a condition of the scenario;";
  }
  return text;
}

void apply(const Option& option) {
  Fiber& fiber = world->fibers[option.thread];
  switch (option.kind) {
    case Option::run:
    case Option::wake:
      break;
    case Option::expire:
      world->time = std::max(world->time, fiber.deadline);
      fiber.slept = Slept::timed_out;
      fiber.expired++;
      note(option.thread, "(deadline passes)");
      break;
    case Option::spurious:
      fiber.slept = Slept::woken;
      note(option.thread, "(wakes for no reason)");
      break;
    case Option::signal:
      fiber.slept = Slept::signalled;
      note(option.thread, "(signal handler ran)");
      break;
  }
  if (option.kind != Option::run || fiber.state == State::awaits) fiber.state = State::ready;
}

void resume(int thread) {
  Fiber& fiber = world->fibers[static_cast<size_t>(thread)];
  for (Fiber& other : world->fibers) other.gives_way_to &= ~(1u << thread);
  if (thread != world->current && world->current >= 0) current().yields_alone = 0;
  world->current = thread;
  std::swap(handling_now(), fiber.handling);
  exploring = true;
  fiber.context = std::move(fiber.context).resume();
  exploring = false;
  std::swap(handling_now(), fiber.handling);
}

void start(Fiber& fiber, const Play::Thread& thread) {
  fiber.name = thread.name;
  // The body stays in the play, which outlives the fiber.
  fiber.context = context::fiber(std::allocator_arg, StackAllocator{}, [&fiber, &thread](context::fiber&& outside) {
    world->outside = std::move(outside);
    thread.body();
    exploring = false;
    fiber.state = State::done;
    note(static_cast<int>(&fiber - world->fibers.data()), "(ends)");
    return std::move(world->outside);
  });
}

void run_fibers(const Play& play) {
  world->fibers = std::vector<Fiber>(play.threads.size());
  for (size_t i = 0; i < play.threads.size(); i++) start(world->fibers[i], play.threads[i]);
  for (;;) {
    if (!world->decided) {
      const Next next = decide(-1, false);
      if (next == Next::finished) return;
      if (next == Next::stuck) {
        world->failed = describe_stuck();
        return;
      }
    }
    world->decided = false;
    const Option option = world->decision;
    apply(option);
    resume(option.thread);
    if (world->failed) return;
  }
}

std::string text_of_trace() {
  std::string text;
  const unsigned room = static_cast<unsigned>(std::size(world->steps));
  for (unsigned i = world->points > room ? world->points - room : 0; i < world->points; i++) {
    const Step& step = world->steps[i % room];
    const char* name = step.thread < 0 ? "?" : world->fibers[static_cast<size_t>(step.thread)].name;
    text += "    " + std::to_string(i) + "  " + name + ": " + step.where + "\n";
  }
  return text;
}

}  // namespace

// ---- What the seam calls --------------------------------------------------------------------------------------------

void point_in_fiber(const char* where) { step(where, false); }

void used_freed_memory() { fail("used freed memory"); }

void yield() {
  if (world != nullptr) world->time += kYield;
  if (!exploring || world->idle_yields) return;
  Fiber& fiber = current();
  fiber.gives_way_to = runnable_now() & ~(1u << world->current);
  fiber.yields_alone = fiber.gives_way_to == 0 ? fiber.yields_alone + 1 : 0;
  step("yield", true);
}

Slept sleep(const uint32_t* word, uint32_t expected, const uint32_t* other, uint32_t other_expected,
            int64_t deadline_ns) {
  point("sleep");
  if (*word != expected || (other != nullptr && *other != other_expected)) return Slept::woken;
  if (!exploring) {
    if (deadline_ns == kForever) fail_outside("sleeps for ever with no thread left to wake it");
    world->time = std::max(world->time, deadline_ns);
    return Slept::timed_out;
  }
  Fiber& fiber = current();
  fiber.state = State::sleeps;
  fiber.word = word;
  fiber.other = other;
  fiber.deadline = deadline_ns;
  fiber.since = world->sleeps++;
  block("(sleeps)");
  return fiber.slept;
}

void wake(const uint32_t* word, int count) {
  point("wake");
  if (world == nullptr) return;
  Option sleepers[kMostThreads];
  int size = 0;
  for (uint8_t i = 0; i < world->fibers.size(); i++) {
    const Fiber& fiber = world->fibers[i];
    if (fiber.state != State::sleeps || (fiber.word != word && fiber.other != word)) continue;
    int place = size++;
    for (; place > 0 && world->fibers[sleepers[place - 1].thread].since > fiber.since; place--) {
      sleepers[place] = sleepers[place - 1];
    }
    sleepers[place] = {Option::wake, i, 0};
  }
  for (; count > 0 && size > 0; count--) {
    const unsigned chosen = size > count ? pick(sleepers, static_cast<unsigned>(size), -1) : 0;
    Fiber& fiber = world->fibers[sleepers[chosen].thread];
    fiber.state = State::ready;
    fiber.slept = Slept::woken;
    std::copy(sleepers + chosen + 1, sleepers + size, sleepers + chosen);
    size--;
  }
}

int64_t now() { return world == nullptr ? kStart : world->time; }

ThreadState& thread_state() {
  if (world == nullptr) return idle_state;
  return exploring ? current().thread_state : world->state_outside;
}

void lock(SchedulerMutex& mutex) {
  if (!exploring) {
    if (mutex.owner != SchedulerMutex::kNobody) fail_outside("a lock was left locked");
    mutex.owner = kOutside;
    if (world != nullptr) world->locks_outside++;
    return;
  }
  point("lock");
  if (mutex.owner == static_cast<int>(0xdddddddd)) used_freed_memory();
  if (mutex.owner == world->current) fail("locks a lock that it holds already");
  if (mutex.owner != SchedulerMutex::kNobody) {
    Fiber& fiber = current();
    fiber.state = State::wants_mutex;
    fiber.wanted = &mutex;
    block("(waits for the lock)");
    fiber.state = State::ready;
  }
  mutex.owner = world->current;
  current().locks++;
}

void unlock(SchedulerMutex& mutex) {
  if (mutex.owner != (exploring ? world->current : kOutside)) fail("unlocks a lock that it does not hold");
  mutex.owner = SchedulerMutex::kNobody;
  if (!exploring) {
    if (world != nullptr) world->locks_outside--;
    return;
  }
  current().locks--;
  point("unlocked");
}

// ---- What scenarios call --------------------------------------------------------------------------------------------

void fail(const std::string& what) {
  if (!exploring) fail_outside(what);
  world->failed = std::string(current().name) + ": " + what;
  leave();
  std::abort();  // a failed schedule is never gone on with
}

void require(bool condition, const char* what) {
  if (!condition) fail(what);
}

void require_equal(int64_t found, int64_t wanted, const char* what) {
  if (found != wanted)
    fail(std::string(what) + ": found " + std::to_string(found) + ", wanted " + std::to_string(wanted));
}

void wait_until(std::function<bool()> condition) {
  if (!exploring) {
    if (!condition()) fail_outside("waits for a condition with no thread left to make it true");
    return;
  }
  Fiber& fiber = current();
  fiber.condition = std::move(condition);
  fiber.state = State::awaits;
  block("(waits for a condition)");
}

namespace {
const Fiber& named(const char* thread) {
  for (const Fiber& fiber : world->fibers) {
    if (std::strcmp(fiber.name, thread) == 0) return fiber;
  }
  fail(std::string("no thread is named ") + thread);
}
}  // namespace

bool asleep(const char* thread) {
  const State state = named(thread).state;
  return state == State::sleeps || state == State::done;
}

bool ended(const char* thread) { return named(thread).state == State::done; }

int64_t sleeps_until(const char* thread) {
  const Fiber& fiber = named(thread);
  return fiber.state == State::sleeps ? fiber.deadline : world->time;
}

bool locks_free() {
  for (const Fiber& fiber : world->fibers) {
    if (fiber.locks != 0) return false;
  }
  return true;
}

bool maybe(const char* mishap) {
  if (!exploring) return false;
  const uint8_t thread = static_cast<uint8_t>(world->current);
  const Option options[] = {{Option::run, thread, 0}, {Option::spurious, thread, 1}};
  if (pick(options, 2, world->current) == 0) return false;
  note(world->current, mishap);
  return true;
}

bool memory_refused() { return exploring && world->memory_fails && maybe("(no memory)"); }

unsigned locks_held() { return exploring ? current().locks : world->locks_outside; }

// ---- Playing --------------------------------------------------------------------------------------------------------

std::optional<Failure> play(const Scenario& scenario, Strategy& strategy) {
  auto whole = std::make_unique<World>();
  auto bodies = std::make_unique<Play>();
  world = whole.get();
  keep_freed();
  world->strategy = &strategy;
  world->signals = scenario.disturbance == Disturbance::signals;
  world->memory_fails = scenario.disturbance == Disturbance::memory;
  world->idle_yields = scenario.disturbance == Disturbance::idle_yields;
  try {
    scenario.make(*bodies);
    if (bodies->threads.size() > kMostThreads) fail_outside("more threads than the explorer has room for");
    strategy.begin(static_cast<unsigned>(bodies->threads.size()));
    run_fibers(*bodies);
    if (!world->failed) {
      for (const auto& check : bodies->checks) check();
      bodies.reset();
      if (!let_freed_go() && !world->failed) fail_outside("memory was written to after it was freed");
    }
  } catch (const Failed&) {
  }
  if (!world->failed) {
    world = nullptr;
    return std::nullopt;
  }
  let_freed_go();
  Failure failure = {*world->failed, written(world->choices), text_of_trace()};
  // Unwinding a fiber that stands somewhere under a lock would run destructors in an order that never happens.
  bodies.release();
  whole.release();
  world = nullptr;
  return failure;
}

std::string choices_so_far() { return world == nullptr ? "" : written(world->choices); }
std::string trace_so_far() { return world == nullptr ? "" : text_of_trace(); }
uint64_t points_so_far() { return points_total; }

}  // namespace sched
