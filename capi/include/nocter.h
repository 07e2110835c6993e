/**
 * @file nocter.h
 * @brief All of nocter.
 */
#ifndef NOCTER_H
#define NOCTER_H

/** The version these headers describe: (major << 16) | (minor << 8) | patch. */
#define NOCTER_VERSION_NUMBER 256

#include <nocter/base.h>
#include <nocter/blocking.h>
#include <nocter/keyed.h>
#include <nocter/retirement.h>
#include <nocter/signal.h>
#include <nocter/tasks.h>
#include <nocter/workers.h>

#endif
