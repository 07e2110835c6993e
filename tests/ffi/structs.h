/* FFI-02: structs that begin with their size. */
#ifndef NOCTER_TESTS_FFI_STRUCTS_H
#define NOCTER_TESTS_FFI_STRUCTS_H

#include <nocter.h>
#include <stddef.h>

/* Returns how many checks failed; counts what ran; keeps in `current` what is being checked, for the crash report. */
size_t check_structs(size_t *ran, char *current, size_t current_size);

/* Of durable tasks: see structs_tasks.c. */
void tasks_structs_begin(void);
void tasks_structs_end(void);
nocter_status try_tasks_options(void *options);
nocter_status try_submission(void *submission);
nocter_status try_task_filter(void *filter);
nocter_status try_tasks_counts(void *counts);
nocter_status try_failure(void *failure);
nocter_status try_suspension(void *suspension);
nocter_status try_task_handler(void *handler);
void init_tasks_options(void *at, size_t size);
void init_submission(void *at, size_t size);
void init_task_filter(void *at, size_t size);
void init_tasks_counts(void *at, size_t size);
void init_failure(void *at, size_t size);
void init_suspension(void *at, size_t size);
void init_task_handler(void *at, size_t size);

#endif
