// A store and the model of it, side by side: every operation is done to both, every answer compared, and now and then everything that a
// reader can see.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/model.hpp"
#include "model/ops.hpp"
#include "nocter/tasks/clock.hpp"
#include "nocter/tasks/store.hpp"
#include "nocter/tasks/store_options.hpp"

namespace tasks_model {

inline constexpr size_t kTypes = 3, kKeys = 3, kScopes = 3, kNames = 2;

struct Setup {
  Limits limits;
  uint64_t seed = 1;
  bool events = true;
  bool lasting = false;  // what the store keeps outlives it
  size_t processes = 1;  // that have it open and take turns, 1 or 2
  Broken broken = Broken::none;
};
// `fresh`: what an earlier store there has left is removed first.
using Opener = std::function<std::unique_ptr<nocter::tasks::Store>(const nocter::tasks::StoreOptions&, bool fresh)>;

class World {
 public:
  enum Side : int { kStore, kModel };
  struct Run {
    TaskId id;
    Claimed claimed[2];
    Ref node = kNone;
  };
  struct Place {  // a process that has opened the store
    int64_t number[2] = {};
    bool paused = false, crashed = false;
  };

  World(const Opener& opener, const Setup& setup);

  // False: they differ, and failure() says in what.
  bool play(const Op& op);
  // Whatever happened, all that is left comes to its end, and nothing of it stays (I-14).
  bool finish();
  const std::string& failure() const { return failure_; }

  const Model& model() const { return model_; }
  const std::map<Ref, TaskId>& tasks() const { return tasks_; }
  const std::map<Ref, Run>& runs() const { return runs_; }
  const std::map<Ref, Place>& places() const { return places_; }
  Millis now() const { return std::max(clock_->now_ms(), model_.now()); }  // of the store: it does not go back

 private:
  struct Pending {
    Op op;
    nocter::tasks::Request store;
    Demand model;
  };
  struct Told {  // by the model, of one batch
    std::set<TaskId> ended, asked;
    std::set<std::string> ready;  // types
  };
  struct Late {
    Pending request;
    int64_t after = 0;
    Status status = Status::ok;  // what it was answered the first time
  };

  nocter::tasks::Store& store() { return *stores_[turn_]; }
  nocter::tasks::StoreOptions how_to_open() const {
    return {setup_.limits, clock_, random_, setup_.events, nocter::tasks::Durability::normal};
  }
  bool say(const std::string& what);
  bool same(const char* what, const std::string& store, const std::string& model);
  template <class Value>
  bool same_number(const char* what, Value store, Value model);

  std::optional<TaskId> task(Ref ref) const;
  std::optional<Claimed> claimed(Ref ref, Side side) const;
  std::optional<int64_t> place(Ref ref, Side side) const;
  bool asleep(const Op& op) const;
  bool demand(const Op& op, Side side, Demand& out);
  bool demand_submit(const Op& op, Side side, Demand& out);
  bool demand_settle(const Op& op, Side side, Demand& out);

  bool play_by_hand(const Op& op, bool& done);
  bool execute(std::vector<Pending>& batch);
  Answer apply(Demand& demand, Told& told);
  bool go_on_with_upkeep(Pending& request, nocter::tasks::Effects& effects, Told& told);
  bool repeat(Pending request, bool must_be_idle);
  bool adopt_drawn();
  void keep(const Pending& request);
  bool deliver_late();

  bool same_answers(Pending& request, const Answer& model);
  bool same_claims(const nocter::tasks::Claim& store, const nocter::tasks::Claim& model);
  bool same_records(const Record& store, const Record& model);
  bool same_messages(const std::vector<Message>& store, const std::vector<Message>& model);
  bool same_effects(const nocter::tasks::Effects& effects, const Told& told);
  bool same_events();
  bool same_list(const nocter::tasks::Filter& filter);
  bool same_everything();

  const Opener opener_;
  const Setup setup_;
  std::shared_ptr<nocter::tasks::SteerableClock> clock_;
  std::shared_ptr<nocter::tasks::Random> random_;
  std::unique_ptr<nocter::tasks::Store> stores_[2];
  size_t turn_ = 0;  // of whose process it is
  Model model_;
  std::string failure_;

  std::map<Ref, TaskId> tasks_;
  std::map<Ref, nocter::tasks::Submission> submissions_;
  std::map<Ref, Run> runs_;
  std::map<Ref, Place> places_;
  std::set<std::string> scopes_;  // that somebody has put something in
  std::vector<Pending> joined_;
  std::vector<Late> late_;
  uint64_t events_seen_[2] = {};
  size_t played_ = 0;
  Status last_status_ = Status::ok;
};

// Everything that the model knows, as text: equal texts, equal models.
std::string digest(const Model& model);

}  // namespace tasks_model
