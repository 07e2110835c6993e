/*
 * One page as a durable task. Its first round fetches the page and submits a child for every link that nobody has seen; then it is
 * parked, without a thread, until the last of them has ended; its last round adds up what they came to.
 */
#ifndef CRAWL_PAGE_H
#define CRAWL_PAGE_H

#include "crawl_fetch.h"

#define TYPE "crawl.page"
#define STEP "page"
#define TRIES 3

/* ---- Ends of a round ------------------------------------------------------------------------------------------------ */

/* Whether the outcome was taken, in which case the run has ended. */
static bool ended(nocter_status status) {
  return status == NOCTER_OK || status == NOCTER_CANCELLED || status == NOCTER_E_LEASE_LOST;
}

/* This process stops, or somebody cancelled the task: the round is made again, or never. */
static void give_back(nocter_run *run) {
  if (!ended(nocter_run_hand_back(run))) nocter_run_drop(run);
}

static void fail(nocter_run *run, const char *kind, const char *reason, int32_t retry) {
  nocter_failure failure = NOCTER_FAILURE_INIT;
  failure.kind = nocter_text_of(kind);
  failure.message = nocter_text_of(reason);
  failure.retry = retry;
  if (!ended(nocter_run_fail(run, &failure))) nocter_run_drop(run);
}

/* The store did not do what it was asked. What it cannot do at all must not be tried for ever. */
static void refused(nocter_run *run, nocter_status status) {
  char reason[256];
  if (status > 0 || status == NOCTER_E_UNAVAILABLE || status == NOCTER_E_STORE) {
    give_back(run);
  } else if (status == NOCTER_E_LEASE_LOST) {
    nocter_run_drop(run);
  } else {
    snprintf(reason, sizeof reason, "%s", nocter_error_message());
    fail(run, nocter_status_name(status), reason, NOCTER_RETRY_BY_POLICY);
  }
}

static void finish(nocter_run *run, struct totals *totals) {
  struct text result = {NULL, 0, 0};
  sort_strings(&totals->broken);
  write_totals(&result, totals);
  const nocter_status status = nocter_run_done(run, view(&result));
  if (!ended(status)) refused(run, status);
  free(result.data);
}

/* ---- The first round ------------------------------------------------------------------------------------------------ */

/* What is there, from an earlier try when that got so far. False when the round has ended otherwise. */
static bool look_at(nocter_run *run, struct fetcher *fetcher, const char *url, struct found *found) {
  struct text step = {NULL, 0, 0};
  nocter_text remembered;
  char reason[CURL_ERROR_SIZE];
  nocter_status status = nocter_run_step_get(run, nocter_text_of(STEP), &remembered);
  if (status == NOCTER_OK && !read_found(remembered, found)) {
    fail(run, "Step", "not what a crawl remembers", NOCTER_RETRY_NEVER);
    return false;
  }
  if (status == NOCTER_OK) return true;
  if (status != NOCTER_EMPTY) {
    refused(run, status);
    return false;
  }
  switch (fetch(fetcher, url, nocter_run_interrupt(run), found, reason, sizeof reason)) {
    case STOPPED:
      give_back(run);
      return false;
    case BROKEN:
      fail(run, "Broken", reason, NOCTER_RETRY_NEVER);
      return false;
    case UNREACHABLE:
      fail(run, "Unreachable", reason, NOCTER_RETRY_BY_POLICY);
      return false;
    case FETCHED:
      break;
  }
  write_found(&step, found);
  status = nocter_run_step_put(run, nocter_text_of(STEP), view(&step));
  free(step.data);
  if (status == NOCTER_OK || status == NOCTER_EXISTS) return true;
  refused(run, status);
  return false;
}

/* A task for each link. The key is the only one in the tree, so that no page is looked at twice, whoever finds it, and however
   often this round is made. */
static nocter_status submit_links(nocter_run *run, const struct strings *links) {
  if (links->count == 0) return NOCTER_OK;
  nocter_submission *pages = checked(calloc(links->count, sizeof *pages));
  char(*keys)[MAXIMUM_KEY + 1] = checked(calloc(links->count, sizeof *keys));
  struct text *payloads = checked(calloc(links->count, sizeof *payloads));
  for (size_t i = 0; i < links->count; i++) {
    write_payload(&payloads[i], links->items[i]);
    nocter_submission_init(&pages[i], sizeof pages[i]);
    pages[i].type = nocter_text_of(TYPE);
    pages[i].payload = view(&payloads[i]);
    pages[i].key = key_of(links->items[i], keys[i]);
    pages[i].key_scope = NOCTER_KEY_TREE;
    pages[i].flags = NOCTER_SUBMIT_PRIORITY; /* the oldest first: the tree stays flat */
    pages[i].max_attempts = TRIES;
  }
  const nocter_status status = nocter_run_submit_child(run, pages, links->count, NULL);
  for (size_t i = 0; i < links->count; i++) free(payloads[i].data);
  free(payloads);
  free(keys);
  free(pages);
  return status == NOCTER_EXISTS ? NOCTER_OK : status; /* somebody saw some of them first */
}

/* For `nocter tree` and `nocter watch`. */
static nocter_status tell_state(nocter_run *run, const struct found *found, size_t children) {
  struct text state = {NULL, 0, 0};
  append_number(&state, "{\"bytes\":", found->bytes);
  append_number(&state, ",\"links\":", found->links.count);
  append_number(&state, ",\"children\":", children);
  append(&state, "}");
  const nocter_status status = nocter_run_update_state(run, view(&state));
  free(state.data);
  return status;
}

/* ---- The last round ------------------------------------------------------------------------------------------------- */

/* A child that has failed is a link that leads nowhere. */
static void add_child(struct totals *totals, const nocter_task *child) {
  char *url = read_payload(child->payload);
  if (child->status != NOCTER_TASK_COMPLETED) {
    const nocter_text cancelled = nocter_text_of("cancelled");
    const bool failed = child->status == NOCTER_TASK_FAILED;
    add_broken(totals, url != NULL ? url : "?", failed ? child->failure.message : cancelled);
  } else if (!read_totals(child->result, totals)) {
    add_broken(totals, url != NULL ? url : "?", nocter_text_of("a result that no crawl has written"));
  }
  free(url);
}

/* A page belongs to whoever submitted it first, so each is counted once. False when there are children that have not ended. */
static bool sum_up(const nocter_task_list *children, struct totals *totals) {
  for (size_t i = 0; i < children->count; i++) {
    if (children->tasks[i]->ended_at_ms == 0) return false;
  }
  for (size_t i = 0; i < children->count; i++) add_child(totals, children->tasks[i]);
  return true;
}

/* ---- A round -------------------------------------------------------------------------------------------------------- */

static void park(nocter_run *run) {
  nocter_suspension suspension = NOCTER_SUSPENSION_INIT;
  suspension.until = NOCTER_UNTIL_CHILDREN;
  const nocter_status status = nocter_run_suspend(run, &suspension);
  if (!ended(status)) refused(run, status);
}

static void make_round(nocter_run *run, struct fetcher *fetcher, const char *url, struct found *found,
                       struct totals *totals) {
  nocter_task_list children;
  if (!look_at(run, fetcher, url, found)) return;
  nocter_status status = NOCTER_OK;
  if (!nocter_run_resumed(run)) status = submit_links(run, &found->links);
  if (status == NOCTER_OK) status = nocter_run_children(run, &children);
  if (status != NOCTER_OK) {
    refused(run, status);
    return;
  }
  add_found(totals, found);
  if (children.count == 0 || (nocter_run_resumed(run) && sum_up(&children, totals))) {
    finish(run, totals);
  } else {
    if (!nocter_run_resumed(run)) status = tell_state(run, found, children.count);
    if (status == NOCTER_OK) {
      park(run);
    } else {
      refused(run, status);
    }
  }
  nocter_task_list_free(&children);
}

static void crawl_page(nocter_run *run, struct fetcher *fetcher) {
  struct found found = {KIND_PAGE, 0, {NULL, 0, 0}};
  struct totals totals = {0, 0, 0, {NULL, 0, 0}};
  char *url = read_payload(nocter_run_task(run)->payload);
  if (url == NULL) {
    fail(run, "Payload", "not the URL of a page", NOCTER_RETRY_NEVER);
  } else {
    make_round(run, fetcher, url, &found, &totals);
  }
  free(url);
  free_strings(&found.links);
  free_strings(&totals.broken);
}

#endif
