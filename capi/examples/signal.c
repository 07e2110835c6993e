/*
 * A versioned signal closes the gap between looking at a state and waiting for it to change, without a lock around both:
 * a thermometer thread changes the state, the main thread prints each value that it sees.
 *
 * Build: cc -std=c11 signal.c $(pkg-config --cflags --libs nocter) -lpthread -o signal
 */
#include <nocter.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define LAST 30

static nocter_signal *changed;
static atomic_int degrees = 20;

static void *warm_up(void *user) {
  (void)user;
  for (int value = 21; value <= LAST; value++) {
    atomic_store(&degrees, value);
    if (nocter_signal_publish(changed, NULL) < 0) break; /* after the change, never before it */
  }
  return NULL;
}

int main(void) {
  pthread_t thermometer;
  nocter_status status = nocter_signal_create(&changed);
  if (status != NOCTER_OK || pthread_create(&thermometer, NULL, warm_up, NULL) != 0) {
    fprintf(stderr, "no signal or no thread: %s\n", nocter_error_message());
    return 1;
  }

  for (;;) {
    const uint64_t seen = nocter_signal_version(changed); /* first the version, */
    const int now = atomic_load(&degrees);                /* then the state: */
    printf("%d\n", now);
    if (now == LAST) break;
    /* had it changed in between, this would return at once. Several changes may become one. */
    const nocter_wait wait = nocter_wait_for_ms(10000);
    uint64_t version;
    status = nocter_signal_wait(changed, seen, &wait, &version);
    if (status != NOCTER_OK) {
      fprintf(stderr, "%s\n", nocter_status_name(status));
      return 1;
    }
  }

  pthread_join(thermometer, NULL);
  nocter_signal_destroy(changed);
  return 0;
}
