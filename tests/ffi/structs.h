/* FFI-02: structs that begin with their size. */
#ifndef NOCTER_TESTS_FFI_STRUCTS_H
#define NOCTER_TESTS_FFI_STRUCTS_H

#include <stddef.h>

/* Returns how many checks failed; counts what ran; keeps in `current` what is being checked, for the crash report. */
size_t check_structs(size_t *ran, char *current, size_t current_size);

#endif
