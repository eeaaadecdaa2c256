/* Zip archives, as .npz files are. Reading works on bytes in memory, which outlive the archive. */
#ifndef MOON_ZIP_H
#define MOON_ZIP_H

#include "output.h"

typedef struct moon_zip_entry {
    const char *name; /* in the bytes */
    size_t length;
    uint64_t header, start; /* places in the file, of the local header and of the data */
    uint64_t packed, size;  /* bytes there, and unpacked */
    uint32_t crc;
    uint16_t method; /* 0 stored, 8 deflate */
} moon_zip_entry;

typedef struct moon_zip {
    const uint8_t *bytes;
    moon_zip_entry *entries; /* in the archive's order */
    size_t count, room;
} moon_zip;

/* Checks the directory as a whole: entries within the file, apart from each other, with distinct and harmless names,
   stored or deflated, not encrypted. On failure there is nothing to close. */
moon_status moon_zip_open(moon_zip *zip, const uint8_t *bytes, size_t size);
void moon_zip_close(moon_zip *zip); /* twice is fine */
/* the entry's bytes, if they are stored; their CRC is checked */
moon_status moon_zip_stored(const moon_zip *zip, const moon_zip_entry *entry, const uint8_t **out);
/* entry->size bytes, unpacked; their CRC is checked */
moon_status moon_zip_unpack(const moon_zip *zip, const moon_zip_entry *entry, uint8_t *out);

/* ---- writing: entries are stored, one after another ---- */

typedef struct moon_zip_record {
    const char *name; /* the caller's, as long as the writer lives; ".npy" and the like are given apart */
    const char *suffix;
    size_t length;
    uint64_t at, size;
    uint32_t crc;
} moon_zip_record;

typedef struct moon_zip_writer {
    moon_output *out;
    moon_zip_record *records;
    size_t count, room;
} moon_zip_writer;

extern uint64_t moon_zip_limit; /* sizes and offsets from here on need zip64's wide fields; tests lower it */

/* for n entries; on failure there is nothing to close */
moon_status moon_zip_begin(moon_zip_writer *writer, moon_output *out, size_t n);
/* an entry of `size` bytes, which the caller writes next; moon_zip_entry_end then takes their CRC */
moon_status moon_zip_entry_begin(moon_zip_writer *writer, const char *name, size_t length, const char *suffix, uint64_t size);
moon_status moon_zip_entry_end(moon_zip_writer *writer, uint32_t crc);
moon_status moon_zip_directory(moon_zip_writer *writer); /* ends the archive */
void moon_zip_writer_close(moon_zip_writer *writer);     /* lets go of the writer's memory; the output stays open */

#endif
