/**
 * @file nocter/tasks.h
 * @brief Durable tasks: submitted once, run by whoever serves their type, suspended without holding a thread, and still there after
 *        the process was killed.
 */
#ifndef NOCTER_TASKS_H
#define NOCTER_TASKS_H

#include <nocter/runs.h>
#include <nocter/shared.h>
#include <nocter/task_records.h>
#include <nocter/task_store.h>

#endif
