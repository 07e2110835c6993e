/// @file nocter_asio_base.hpp
/// @brief What the services share on Boost.Asio: errors, and who waits on which execution context. Included by
/// nocter_asio.hpp.
#ifndef NOCTER_ASIO_BASE_HPP
#define NOCTER_ASIO_BASE_HPP

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "nocter_base.hpp"

namespace nocter {

// ---- Errors ------------------------------------------------------------------------------------------------------

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"  // Boost's base class has none
#endif
/// The category of the statuses that reach a handler as an error.
inline const boost::system::error_category& asio_category() noexcept {
  struct category final : boost::system::error_category {
    const char* name() const noexcept override { return "nocter"; }
    std::string message(int code) const override { return nocter_status_name(code); }
  };
  static const category only;
  return only;
}
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/// So that an error can be compared with a status: `error == nocter::status::closed`.
inline boost::system::error_code make_error_code(status code) noexcept {
  return {static_cast<int>(code), asio_category()};
}

}  // namespace nocter

/// @cond
template <>
struct boost::system::is_error_code_enum<nocter::status> : std::true_type {};
/// @endcond

namespace nocter::detail {

using error_code = boost::system::error_code;

inline error_code error_of(nocter_status code) noexcept { return make_error_code(static_cast<status>(code)); }

class asio_port;

// ---- One operation that waits --------------------------------------------------------------------------------------

// What an operation waits for decides when it is looked at again.
enum class awaits {
  name,    // until the service names what it waits for
  place,   // at every wake, oldest first, up to the first that still finds none
  change,  // at every wake
};

struct asio_name {
  std::uint64_t service, sequence;
  friend bool operator==(asio_name a, asio_name b) noexcept {
    return a.service == b.service && a.sequence == b.sequence;
  }
};

struct asio_name_hash {
  std::size_t operator()(asio_name name) const noexcept {
    return static_cast<std::size_t>(name.sequence * 0x9E3779B97F4A7C15u ^ name.service);
  }
};

class asio_operation {
 public:
  asio_operation() = default;
  asio_operation(const asio_operation&) = delete;
  asio_operation& operator=(const asio_operation&) = delete;
  virtual inline ~asio_operation();

  // Both are called under the lock of the switchboard, and only ask the service.
  virtual bool settle() = 0;   // whether it has ended
  virtual void give_up() = 0;  // asks for cancel; it has ended thereafter
  virtual awaits waits_for() const = 0;
  virtual asio_name name() const { return {}; }
  // Hands the outcome over, with no lock held.
  virtual void deliver() = 0;

 private:
  friend class asio_switchboard;
  friend class asio_ended;
  std::uint64_t serial_ = 0;
  std::shared_ptr<asio_port> port_;
  bool on_its_way_ = false;  // ended, and neither handed over nor destroyed yet
  std::unique_ptr<asio_operation> next_;
};

// Those that have ended, to be handed over once the lock is released.
class asio_ended {
 public:
  void add(std::unique_ptr<asio_operation> operation) noexcept {
    std::unique_ptr<asio_operation>& place = last_ == nullptr ? first_ : last_->next_;
    last_ = operation.get();
    place = std::move(operation);
  }
  void deliver() {
    while (first_) take_first()->deliver();
  }
  ~asio_ended() {
    while (first_) take_first();
  }

 private:
  std::unique_ptr<asio_operation> take_first() noexcept {
    std::unique_ptr<asio_operation> operation = std::move(first_);
    first_ = std::move(operation->next_);
    if (!first_) last_ = nullptr;
    return operation;
  }
  std::unique_ptr<asio_operation> first_;
  asio_operation* last_ = nullptr;
};

// What a handler is given beside an error.
template <class Result>
Result asio_nothing() {
  if constexpr (std::is_default_constructible_v<Result>) {
    return Result();
  } else {
    return Result(nullptr);
  }
}

// What a handler needs until it is called: an operation derives from it. The call comes by way of the executor of the
// port, as that of every operation of Asio's that has ended, and never inside what ended it.
template <class Handler, class... Results>
class asio_handler_of {
 protected:
  using executor_of_handler = boost::asio::associated_executor_t<Handler, boost::asio::any_io_executor>;

  asio_handler_of(Handler&& handler, const boost::asio::any_io_executor& port)
      : port_executor_(port),
        work_(boost::asio::get_associated_executor(handler, port)),
        handler_(std::move(handler)) {}

  void hand_over() {
    const auto allocator = boost::asio::get_associated_allocator(handler_);
    auto call = [handler = std::move(handler_), error = error_, results = std::move(results_)]() mutable {
      std::apply([&](auto&... result) { std::move(handler)(error, std::move(result)...); }, results);
    };
    boost::asio::post(
        port_executor_,
        boost::asio::bind_executor(work_.get_executor(), boost::asio::bind_allocator(allocator, std::move(call))));
  }

  error_code error_;
  std::tuple<Results...> results_{asio_nothing<Results>()...};

 private:
  const boost::asio::any_io_executor port_executor_;
  boost::asio::executor_work_guard<executor_of_handler> work_;
  Handler handler_;
};

// ---- All of a service ----------------------------------------------------------------------------------------------

// A notifier that is told of what may happen under the lock of a switchboard is told after it.
class asio_deferred {
 public:
  explicit asio_deferred(notifier told) : told_(std::move(told)) {}
  void wake() {
    if (held()) {
      due_ = true;
    } else if (told_.native().wake != nullptr) {
      told_.native().wake(told_.native().user);
    }
  }
  void wake_if_due() {
    if (due_.exchange(false)) wake();
  }
  // How many of them this thread holds the lock of.
  static unsigned& held() noexcept {
    static thread_local unsigned count = 0;
    return count;
  }

 private:
  notifier told_;
  std::atomic<bool> due_{false};
};

// Who waits for what of one service. Any of its ports may find that an operation has ended, whichever port that came by:
// all of them watch one descriptor.
class asio_switchboard {
 public:
  asio_switchboard(eventfd descriptor, std::shared_ptr<asio_deferred> work)
      : eventfd_(std::move(descriptor)), work_(std::move(work)) {}
  asio_switchboard(const asio_switchboard&) = delete;
  asio_switchboard& operator=(const asio_switchboard&) = delete;
  virtual ~asio_switchboard() = default;

  int fd() const noexcept { return eventfd_.fd(); }
  std::uint64_t next_serial() noexcept { return ++last_serial_; }

  inline void begin(asio_port& port, std::uint64_t serial, std::unique_ptr<asio_operation> operation);
  // Clear first, then look.
  void look() {
    eventfd_.clear();
    change([this](asio_ended& ended) { refresh(ended); });
  }
  void cancel(std::uint64_t serial) {
    change([this, serial](asio_ended& ended) {
      const auto found = operations_.find(serial);
      if (found == operations_.end()) return;  // it ended before
      found->second->give_up();
      ended.add(take_out(found));
    });
  }

  // Makes a change under the lock; what ended is handed over after it.
  template <class Change>
  void change(Change&& make) {
    asio_ended ended;
    {
      const holder lock(*this);
      make(ended);
    }
    if (work_) work_->wake_if_due();
    ended.deliver();
  }
  // All operations of a port. Called under the lock.
  void give_up_all(const asio_port& port, asio_ended& ended) {
    for (auto at = operations_.begin(); at != operations_.end();) {
      const auto next = std::next(at);
      if (at->second->port_.get() == &port) {
        at->second->give_up();
        ended.add(take_out(at));
      }
      at = next;
    }
  }

 protected:
  // Asks the service what has changed, and settles whom that concerns.
  virtual void refresh(asio_ended& ended) = 0;

  bool anything_named() const noexcept { return !named_.empty(); }
  void settle_named(asio_name name, asio_ended& ended) {
    const auto range = named_.equal_range(name);
    std::list<std::uint64_t> serials;
    for (auto at = range.first; at != range.second; ++at) serials.push_back(at->second);
    for (const std::uint64_t serial : serials) settle(serial, ended);
  }
  void settle_all_named(asio_ended& ended) {
    std::list<std::uint64_t> serials;
    for (const auto& each : named_) serials.push_back(each.second);
    for (const std::uint64_t serial : serials) settle(serial, ended);
  }
  void settle_others(asio_ended& ended) {
    for (auto at = changes_.begin(); at != changes_.end();) settle(*at++, ended);
    while (!places_.empty()) {
      const std::uint64_t oldest = *places_.begin();
      settle(oldest, ended);
      if (places_.count(oldest) != 0) return;
    }
  }

 private:
  using operations = std::map<std::uint64_t, std::unique_ptr<asio_operation>>;

  struct holder {
    explicit holder(asio_switchboard& board) : lock(board.mutex_) { asio_deferred::held()++; }
    ~holder() { asio_deferred::held()--; }
    holder(const holder&) = delete;
    holder& operator=(const holder&) = delete;
    const std::lock_guard<std::mutex> lock;
  };

  void settle(std::uint64_t serial, asio_ended& ended) {
    const auto found = operations_.find(serial);
    const awaits before = found->second->waits_for();
    if (found->second->settle()) {
      remove_from(before, *found->second);
      ended.add(let_go(found));
    } else if (const awaits now = found->second->waits_for(); now != before) {
      remove_from(before, *found->second);
      add_to(now, *found->second);
    }
  }
  std::unique_ptr<asio_operation> take_out(operations::iterator at) {
    remove_from(at->second->waits_for(), *at->second);
    return let_go(at);
  }
  inline std::unique_ptr<asio_operation> let_go(operations::iterator at);

  void add_to(awaits what, const asio_operation& operation) {
    if (what == awaits::name) named_.emplace(operation.name(), operation.serial_);
    if (what == awaits::place) places_.insert(operation.serial_);
    if (what == awaits::change) changes_.insert(operation.serial_);
  }
  void remove_from(awaits what, const asio_operation& operation) {
    if (what == awaits::place) places_.erase(operation.serial_);
    if (what == awaits::change) changes_.erase(operation.serial_);
    if (what != awaits::name) return;
    const auto range = named_.equal_range(operation.name());
    for (auto at = range.first; at != range.second; ++at) {
      if (at->second != operation.serial_) continue;
      named_.erase(at);
      return;
    }
  }

  eventfd eventfd_;
  const std::shared_ptr<asio_deferred> work_;
  std::atomic<std::uint64_t> last_serial_{0};
  std::mutex mutex_;
  operations operations_;
  std::unordered_multimap<asio_name, std::uint64_t, asio_name_hash> named_;
  std::set<std::uint64_t> places_, changes_;
};

// ---- A service on one execution context ------------------------------------------------------------------------------

// The ports of an execution context, which it tells of its end.
class asio_ports final : public boost::asio::execution_context::service {
 public:
  using key_type = asio_ports;
  static inline boost::asio::execution_context::id id;
  explicit asio_ports(boost::asio::execution_context& context) : service(context) {}

  void add(const std::shared_ptr<asio_port>& port) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ports_[port.get()] = port;
  }
  void remove(asio_port* port) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ports_.erase(port);
  }

 private:
  inline void shutdown() override;
  std::mutex mutex_;
  std::map<asio_port*, std::weak_ptr<asio_port>> ports_;
};

// Watches the descriptor while one of its operations waits, so that the context has work for exactly as long.
class asio_port : public std::enable_shared_from_this<asio_port> {
 public:
  asio_port(boost::asio::any_io_executor executor, std::shared_ptr<asio_switchboard> board)
      : executor_(std::move(executor)), board_(std::move(board)), descriptor_(std::in_place, executor_) {}

  static result<std::shared_ptr<asio_port>> make(const boost::asio::any_io_executor& executor,
                                                 std::shared_ptr<asio_switchboard> board) {
    auto port = std::make_shared<asio_port>(executor, std::move(board));
    // Its own copy: a context watches a descriptor once only, and may have several of these.
    const int copy = fcntl(port->board_->fd(), F_DUPFD_CLOEXEC, 0);
    error_code error;
    if (copy >= 0) port->descriptor_->assign(copy, error);
    if (copy < 0 || error) {
      if (copy >= 0) ::close(copy);
      return result<std::shared_ptr<asio_port>>(answer(NOCTER_E_MEMORY, "the descriptor cannot be watched"));
    }
    auto& context = boost::asio::query(executor, boost::asio::execution::context);
    port->ports_ = &boost::asio::use_service<asio_ports>(context);
    port->ports_->add(port);
    return port;
  }
  // Ends what waits here as a cancellation would.
  void close() {
    if (ports_ == nullptr) return;  // the context was sooner
    ports_->remove(this);
    board_->change([this](asio_ended& ended) {
      board_->give_up_all(*this, ended);
      descriptor_.reset();
    });
    until_handed_over();
  }
  // Nobody can be told any more: what waits is given up, and its handlers are destroyed.
  void context_ends() {
    ports_ = nullptr;
    {
      asio_ended nobody_is_told;
      board_->change([&](asio_ended&) {
        board_->give_up_all(*this, nobody_is_told);
        descriptor_.reset();
      });
    }
    until_handed_over();
  }

  const boost::asio::any_io_executor& executor() const noexcept { return executor_; }
  asio_switchboard& board() const noexcept { return *board_; }

  // Begins an operation; its handler's cancellation slot gives it up.
  template <class Operation, class Handler, class... Arguments>
  void begin(Handler&& handler, Arguments&&... arguments) {
    const std::uint64_t serial = board_->next_serial();
    if (auto slot = boost::asio::get_associated_cancellation_slot(handler); slot.is_connected()) {
      slot.assign([port = weak_from_this(), serial](boost::asio::cancellation_type type) {
        if (type == boost::asio::cancellation_type::none) return;
        if (const auto here = port.lock()) here->board_->cancel(serial);
      });
    }
    board_->begin(
        *this, serial,
        std::make_unique<Operation>(std::forward<Handler>(handler), executor_, std::forward<Arguments>(arguments)...));
  }

 private:
  friend class asio_switchboard;
  friend class asio_operation;

  // What another context found ended is posted to this one: a few statements on another thread.
  void until_handed_over() const noexcept {
    while (on_their_way_ != 0) std::this_thread::yield();
  }

  // All of these under the lock of the switchboard.
  void one_more() {
    if (waiting_++ == 0) watch();
  }
  void one_less() {
    if (--waiting_ == 0 && watching_) descriptor_->cancel();
  }
  void watch() {
    if (watching_ || !descriptor_) return;
    watching_ = true;
    descriptor_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                            [port = shared_from_this()](const error_code&) { port->woken(); });
  }
  void woken() {
    board_->change([this](asio_ended&) { watching_ = false; });
    board_->look();
    board_->change([this](asio_ended&) {
      if (waiting_ != 0) watch();
    });
  }

  const boost::asio::any_io_executor executor_;
  const std::shared_ptr<asio_switchboard> board_;
  asio_ports* ports_ = nullptr;
  std::optional<boost::asio::posix::stream_descriptor> descriptor_;
  std::size_t waiting_ = 0;
  bool watching_ = false;
  std::atomic<std::size_t> on_their_way_{0};
};

inline asio_operation::~asio_operation() {
  if (on_its_way_) port_->on_their_way_--;
}

inline void asio_ports::shutdown() {
  for (;;) {
    std::shared_ptr<asio_port> port;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (ports_.empty()) return;
      port = ports_.begin()->second.lock();
      ports_.erase(ports_.begin());
    }
    if (port) port->context_ends();
  }
}

inline void asio_switchboard::begin(asio_port& port, std::uint64_t serial, std::unique_ptr<asio_operation> operation) {
  operation->serial_ = serial;
  operation->port_ = port.shared_from_this();
  change([&](asio_ended& ended) {
    // Asked under the lock: what the service names from here on is met by an operation that is known.
    if (operation->settle()) return ended.add(std::move(operation));
    add_to(operation->waits_for(), *operation);
    operations_.emplace(serial, std::move(operation));
    port.one_more();
  });
}

inline std::unique_ptr<asio_operation> asio_switchboard::let_go(operations::iterator at) {
  std::unique_ptr<asio_operation> operation = std::move(at->second);
  operations_.erase(at);
  operation->port_->one_less();
  operation->port_->on_their_way_++;
  operation->on_its_way_ = true;
  return operation;
}

}  // namespace nocter::detail

#endif
