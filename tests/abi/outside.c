/* A host in plain C that knows the library by `pkg-config --cflags --libs nocter` alone. */
#include <nocter.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  if (strcmp(nocter_version(), "") == 0 || nocter_version_number() != NOCTER_VERSION_NUMBER) return 1;
  nocter_blocking_options options = NOCTER_BLOCKING_OPTIONS_INIT;
  nocter_blocking *blocking = NULL;
  if (nocter_blocking_create(&options, &blocking) != NOCTER_OK) return 1;
  nocter_owned input = {NULL, NULL};
  nocter_job_id id;
  nocter_epoch epoch;
  if (nocter_blocking_submit(blocking, &input, &id, &epoch) != NOCTER_OK) return 1;
  nocter_blocking_counts counts = NOCTER_BLOCKING_COUNTS_INIT;
  if (nocter_blocking_count(blocking, &counts) != NOCTER_OK || counts.queued != 1) return 1;
  nocter_blocking_destroy(blocking);
  printf("%s\n", nocter_version());
  return 0;
}
