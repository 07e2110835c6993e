/*
 * What a crawl writes into the store, as JSON: which page a task is for, what was found on it, what it and everything below
 * it come to. URLs are written without characters that JSON would escape (crawl_url.h sees to that), so reading what was
 * written here takes no more than this.
 */
#ifndef CRAWL_RECORDS_H
#define CRAWL_RECORDS_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nocter.h>

/* Nothing useful can be done without memory: the store gives what this process had claimed to others. */
static void *checked(void *memory) {
  if (memory != NULL) return memory;
  fputs("crawl: no memory\n", stderr);
  _Exit(2);
}

/* ---- Texts that grow ------------------------------------------------------------------------------------------- */

struct text {
  char *data;
  size_t size, capacity;
};

static void append_bytes(struct text *text, const char *data, size_t size) {
  if (text->capacity - text->size < size) {
    text->capacity = 2 * text->capacity + size + 64;
    text->data = checked(realloc(text->data, text->capacity));
  }
  memcpy(text->data + text->size, data, size);
  text->size += size;
}

static void append(struct text *text, const char *string) { append_bytes(text, string, strlen(string)); }

static void append_number(struct text *text, const char *before, uint64_t number) {
  char digits[24];
  snprintf(digits, sizeof digits, "%" PRIu64, number);
  append(text, before);
  append(text, digits);
}

static nocter_text view(const struct text *text) { return (nocter_text){text->data, text->size}; }

/* ---- Lists of strings ------------------------------------------------------------------------------------------ */

struct strings {
  char **items;
  size_t count, capacity;
};

static void add_string(struct strings *strings, char *item) {
  if (strings->count == strings->capacity) {
    strings->capacity = 2 * strings->capacity + 16;
    strings->items = checked(realloc(strings->items, strings->capacity * sizeof *strings->items));
  }
  strings->items[strings->count++] = item;
}

static int compare_strings(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void sort_strings(struct strings *strings) {
  if (strings->count > 1) qsort(strings->items, strings->count, sizeof *strings->items, compare_strings);
}

static void sort_and_unite(struct strings *strings) {
  size_t kept = 0;
  sort_strings(strings);
  for (size_t i = 0; i < strings->count; i++) {
    if (kept != 0 && strcmp(strings->items[kept - 1], strings->items[i]) == 0) {
      free(strings->items[i]);
    } else {
      strings->items[kept++] = strings->items[i];
    }
  }
  strings->count = kept;
}

static void free_strings(struct strings *strings) {
  for (size_t i = 0; i < strings->count; i++) free(strings->items[i]);
  free(strings->items);
  *strings = (struct strings){NULL, 0, 0};
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Where reading stands; NULL once something else was found than was to be there. */
struct reader {
  const char *at, *end;
};

static struct reader read_from(nocter_text text) {
  return (struct reader){text.size == 0 ? NULL : text.data, text.data + text.size};
}

/* Whether this comes next; it is read then. */
static bool next_is(struct reader *reader, const char *literal) {
  const size_t size = strlen(literal);
  if (reader->at == NULL || (size_t)(reader->end - reader->at) < size || memcmp(reader->at, literal, size) != 0)
    return false;
  reader->at += size;
  return true;
}

static void expect(struct reader *reader, const char *literal) {
  if (!next_is(reader, literal)) reader->at = NULL;
}

static uint64_t read_number(struct reader *reader, const char *before) {
  uint64_t number = 0;
  expect(reader, before);
  if (reader->at == NULL || reader->at == reader->end || *reader->at < '0' || *reader->at > '9') reader->at = NULL;
  while (reader->at != NULL && reader->at != reader->end && *reader->at >= '0' && *reader->at <= '9')
    number = number * 10 + (uint64_t)(*reader->at++ - '0');
  return number;
}

/* A string without its quotes, to be freed; NULL when there is none of those that are written here: plain ASCII. */
static char *read_string(struct reader *reader) {
  expect(reader, "\"");
  const char *begin = reader->at;
  while (reader->at != NULL && (reader->at == reader->end || *reader->at != '"')) {
    const bool plain = reader->at != reader->end && *reader->at >= ' ' && *reader->at <= '~' && *reader->at != '\\';
    reader->at = plain ? reader->at + 1 : NULL;
  }
  if (reader->at == NULL) return NULL;
  char *string = checked(strndup(begin, (size_t)(reader->at - begin)));
  reader->at++;
  return string;
}

static void read_strings(struct reader *reader, struct strings *strings) {
  expect(reader, "[");
  if (next_is(reader, "]")) return;
  do {
    char *item = read_string(reader);
    if (item != NULL) add_string(strings, item);
  } while (next_is(reader, ","));
  expect(reader, "]");
}

static bool is_read(const struct reader *reader) { return reader->at != NULL && reader->at == reader->end; }

static void append_strings(struct text *text, const char *before, const struct strings *strings) {
  append(text, before);
  for (size_t i = 0; i < strings->count; i++) {
    append(text, i == 0 ? "\"" : ",\"");
    append(text, strings->items[i]);
    append(text, "\"");
  }
  append(text, "]");
}

/* ---- The payload: which page ------------------------------------------------------------------------------------- */

static void write_payload(struct text *text, const char *url) {
  append(text, "{\"url\":\"");
  append(text, url);
  append(text, "\"}");
}

/* To be freed; NULL for the payload of somebody else. */
static char *read_payload(nocter_text payload) {
  struct reader reader = read_from(payload);
  expect(&reader, "{\"url\":");
  char *url = read_string(&reader);
  expect(&reader, "}");
  if (is_read(&reader)) return url;
  free(url);
  return NULL;
}

/* ---- The remembered step: what was found there --------------------------------------------------------------------- */

enum kind { KIND_PAGE, KIND_FILE, KIND_REDIRECT };
static const char *const KINDS[] = {"page", "file", "redirect"};

struct found {
  enum kind kind;
  uint64_t bytes;       /* of a page */
  struct strings links; /* to the same site, sorted, each once; of a redirect: where to */
};

static void write_found(struct text *text, const struct found *found) {
  append(text, "{\"kind\":\"");
  append(text, KINDS[found->kind]);
  append_number(text, "\",\"bytes\":", found->bytes);
  append_strings(text, ",\"links\":[", &found->links);
  append(text, "}");
}

static bool read_found(nocter_text step, struct found *found) {
  struct reader reader = read_from(step);
  expect(&reader, "{\"kind\":");
  char *kind = read_string(&reader);
  for (int i = KIND_PAGE; i <= KIND_REDIRECT && kind != NULL; i++) {
    if (strcmp(kind, KINDS[i]) == 0) found->kind = (enum kind)i;
  }
  free(kind);
  found->bytes = read_number(&reader, ",\"bytes\":");
  expect(&reader, ",\"links\":");
  read_strings(&reader, &found->links);
  expect(&reader, "}");
  return is_read(&reader);
}

/* ---- The result: what a page and everything below it come to ------------------------------------------------------- */

struct totals {
  uint64_t pages, bytes, files;
  struct strings broken; /* "URL: reason" */
};

static void add_found(struct totals *totals, const struct found *found) {
  totals->pages += found->kind == KIND_PAGE;
  totals->files += found->kind == KIND_FILE;
  totals->bytes += found->bytes;
}

/* The reason is made of what JSON would not escape. */
static void add_broken(struct totals *totals, const char *url, nocter_text reason) {
  struct text line = {NULL, 0, 0};
  append(&line, url);
  append(&line, ": ");
  for (size_t i = 0; i < reason.size; i++) {
    const char byte = reason.data[i];
    append_bytes(&line, byte < ' ' || byte > '~' || byte == '"' || byte == '\\' ? "?" : &byte, 1);
  }
  append_bytes(&line, "", 1);
  add_string(&totals->broken, line.data);
}

static void write_totals(struct text *text, const struct totals *totals) {
  append_number(text, "{\"pages\":", totals->pages);
  append_number(text, ",\"bytes\":", totals->bytes);
  append_number(text, ",\"files\":", totals->files);
  append_strings(text, ",\"broken\":[", &totals->broken);
  append(text, "}");
}

/* Adds them to what is there. */
static bool read_totals(nocter_text result, struct totals *totals) {
  struct reader reader = read_from(result);
  totals->pages += read_number(&reader, "{\"pages\":");
  totals->bytes += read_number(&reader, ",\"bytes\":");
  totals->files += read_number(&reader, ",\"files\":");
  expect(&reader, ",\"broken\":");
  read_strings(&reader, &totals->broken);
  expect(&reader, "}");
  return is_read(&reader);
}

#endif
