// Four event loops with one face: each watches descriptors in the way its own manual says.
#pragma once

#include <glib-unix.h>
#include <glib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>

#include "support/check.hpp"
#include "support/thread.hpp"

namespace nocter_tests {

using Handler = std::function<void()>;

// What every loop does: watch() calls the handler in each turn that finds the descriptor readable, every_ms() calls one again
// and again, run() goes on until stop(), which a handler calls. Destroying a loop ends all watches.

template <uint32_t Events>
class EpollLoop {
 public:
  static constexpr const char* kName = Events & EPOLLET ? "epoll, edges" : "epoll";
  ~EpollLoop() {
    for (const int timer : timers_) close(timer);
    close(epoll_);
  }
  void watch(int fd, Handler handler) {
    handlers_.push_back(std::move(handler));
    epoll_event interest = {};
    interest.events = EPOLLIN | Events;
    interest.data.ptr = &handlers_.back();
    HOLDS(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &interest) == 0);
  }
  void every_ms(int ms, const Handler& handler) {
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    HOLDS(timer >= 0);
    timers_.push_back(timer);
    const timespec period = {ms / 1'000, ms % 1'000 * 1'000'000L};
    const itimerspec spec = {period, period};
    HOLDS(timerfd_settime(timer, 0, &spec, nullptr) == 0);
    watch(timer, [timer, handler] {
      uint64_t count = 0;
      if (read(timer, &count, sizeof count) == ssize_t{sizeof count}) handler();
    });
  }
  void run() {
    running_ = true;
    while (running_) {
      epoll_event events[8];
      const int count = epoll_wait(epoll_, events, 8, kLimitMs);
      if (!HOLDS(count > 0)) return;
      for (int i = 0; i < count && running_; i++) (*static_cast<Handler*>(events[i].data.ptr))();
    }
  }
  void stop() { running_ = false; }

 private:
  int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  bool running_ = false;
  std::list<Handler> handlers_;
  std::list<int> timers_;
};

class LibuvLoop {
 public:
  static constexpr const char* kName = "libuv";
  LibuvLoop() { HOLDS(uv_loop_init(&loop_) == 0); }
  ~LibuvLoop() {
    uv_walk(
        &loop_, [](uv_handle_t* handle, void*) { uv_close(handle, nullptr); }, nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    HOLDS(uv_loop_close(&loop_) == 0);
  }
  LibuvLoop(const LibuvLoop&) = delete;
  LibuvLoop& operator=(const LibuvLoop&) = delete;
  void watch(int fd, Handler handler) {
    Watched<uv_poll_t>& watched = polls_.emplace_back();
    watched.handler = std::move(handler);
    HOLDS(uv_poll_init(&loop_, &watched.handle, fd) == 0);
    watched.handle.data = &watched;
    const auto called = [](uv_poll_t* handle, int status, int) {
      STATUS(status, 0);
      static_cast<Watched<uv_poll_t>*>(handle->data)->handler();
    };
    HOLDS(uv_poll_start(&watched.handle, UV_READABLE, called) == 0);
  }
  void every_ms(int ms, Handler handler) {
    Watched<uv_timer_t>& watched = timers_.emplace_back();
    watched.handler = std::move(handler);
    HOLDS(uv_timer_init(&loop_, &watched.handle) == 0);
    watched.handle.data = &watched;
    const auto called = [](uv_timer_t* handle) { static_cast<Watched<uv_timer_t>*>(handle->data)->handler(); };
    const auto period = static_cast<uint64_t>(ms);
    HOLDS(uv_timer_start(&watched.handle, called, period, period) == 0);
  }
  void run() { uv_run(&loop_, UV_RUN_DEFAULT); }
  void stop() { uv_stop(&loop_); }

 private:
  template <class T>
  struct Watched {
    T handle;
    Handler handler;
  };
  uv_loop_t loop_;
  std::list<Watched<uv_poll_t>> polls_;
  std::list<Watched<uv_timer_t>> timers_;
};

class GlibLoop {
 public:
  static constexpr const char* kName = "GLib";
  ~GlibLoop() {
    for (GSource* source : sources_) {
      g_source_destroy(source);
      g_source_unref(source);
    }
    g_main_loop_unref(loop_);
    g_main_context_unref(context_);
  }
  // What g_unix_fd_add() does, on a context of our own.
  void watch(int fd, Handler handler) {
    GSource* const source = g_unix_fd_source_new(fd, G_IO_IN);
    const GUnixFDSourceFunc called = [](gint, GIOCondition, gpointer user) -> gboolean {
      (*static_cast<Handler*>(user))();
      return G_SOURCE_CONTINUE;
    };
    attach(source, reinterpret_cast<GSourceFunc>(reinterpret_cast<void (*)()>(called)), std::move(handler));
  }
  void every_ms(int ms, Handler handler) {
    const GSourceFunc called = [](gpointer user) -> gboolean {
      (*static_cast<Handler*>(user))();
      return G_SOURCE_CONTINUE;
    };
    attach(g_timeout_source_new(static_cast<guint>(ms)), called, std::move(handler));
  }
  void run() { g_main_loop_run(loop_); }
  void stop() { g_main_loop_quit(loop_); }

 private:
  void attach(GSource* source, GSourceFunc called, Handler handler) {
    g_source_set_callback(source, called, new Handler(std::move(handler)),
                          [](gpointer user) { delete static_cast<Handler*>(user); });
    g_source_attach(source, context_);
    sources_.push_back(source);
  }
  GMainContext* context_ = g_main_context_new();
  GMainLoop* loop_ = g_main_loop_new(context_, FALSE);
  std::list<GSource*> sources_;
};

class AsioLoop {
 public:
  static constexpr const char* kName = "Asio";
  ~AsioLoop() {
    for (Descriptor& descriptor : descriptors_) descriptor.release();  // it is nocter's
  }
  void watch(int fd, Handler handler) {
    wait_again(descriptors_.emplace_back(context_, fd), std::make_shared<Handler>(std::move(handler)));
  }
  void every_ms(int ms, Handler handler) {
    tick(timers_.emplace_back(context_), ms, std::make_shared<Handler>(std::move(handler)));
  }
  void run() {
    context_.restart();
    context_.run();
  }
  void stop() { context_.stop(); }

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;
  void wait_again(Descriptor& descriptor, const std::shared_ptr<Handler>& handler) {
    descriptor.async_wait(Descriptor::wait_read, [this, &descriptor, handler](boost::system::error_code error) {
      if (error) return;
      (*handler)();
      wait_again(descriptor, handler);
    });
  }
  void tick(boost::asio::steady_timer& timer, int ms, const std::shared_ptr<Handler>& handler) {
    timer.expires_after(std::chrono::milliseconds(ms));
    timer.async_wait([this, &timer, ms, handler](boost::system::error_code error) {
      if (error) return;
      (*handler)();
      tick(timer, ms, handler);
    });
  }
  boost::asio::io_context context_{1};
  std::list<Descriptor> descriptors_;
  std::list<boost::asio::steady_timer> timers_;
};

}  // namespace nocter_tests
