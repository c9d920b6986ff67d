// Opens the data set that a spec string names and keeps it, or a part of it, in memory. Hosted:
// reads files (plain or gzip) with zlib and uses malloc. Called once at start by tern-client and
// tern-fleet. An opened data set is never changed, so threads may share it.
//
//   digits[:train=6000,test=2000,size=16,seed=1]   drawn digits, size 16 to 64 (data/digits.h)
//   sensors[:train=6000,test=2000,devices=50,seed=1]  a table of 24 readings (data/sensors.h)
//       [,target=N][,anomalies=SHARE]              reading N is the target; a share of the test rows has faults
//   audio[:train=6000,test=2000,speakers=50,seed=1]   spectrograms of sounds (data/audio.h)
//   idx:DIR[,mean=0.286,std=0.353]                 the four IDX files of MNIST and its kin, .gz or not
//   cifar10:DIR[,mean=M,std=S]                     data_batch_*.bin and test_batch.bin
//   csv:FILE[,label=NAME|INDEX|none][,target=NAME|INDEX][,drop=A|B][,classes=X|Y|Z][,group=NAME|INDEX][,only=VALUE]
//       [,test_file=FILE][,test=0.2][,seed=1][,scale=standard|FILE][,missing=mean|skip|refuse][,header=yes|no]
//   npz:FILE, npy:FOLDER[,x=x][,y=y][,target=NAME][,group=group][,only=VALUE][,test=0.2][,seed=1]
//       [,scale=standard][,mean=M,std=S]           NumPy arrays (data/npy.c)
//
// csv: label is the last column unless given. Labels that are not class numbers from 0 need
// classes, every label in class order, the same on every client. target names a column of numbers that
// the model is to tell, in place of a label; label=none: every column is a feature. group names the column that says
// whose row it is; missing says what becomes of values that are not there; header, whether the first line names the
// columns, where that is not clear; only keeps the training rows of one such value.
//
// A file's name or a value in double quotes may hold commas; "" is a quote within. Bytes of images become byte / 255, less mean, over std when
// those are given.
#ifndef TERN_SOURCE_H
#define TERN_SOURCE_H

#include "data/partition.h"
#include "hosted/csv_names.h"
#include "hosted/data_spec.h"
#include "hosted/input.h"
#include "hosted/name_set.h"
#include "result.h"
#include <stdbool.h>

#define TERN_DATA_WHY_MAX TERN_INPUT_WHY_MAX

// Checked before memory is taken. A field of 0 means its default.
struct tern_data_limits {
    uint64_t max_bytes;    // of memory for one data set, and of one file after gunzip; 4 GiB
    uint32_t max_examples; // of train and test each; 16,777,216
    uint32_t max_features; // per example; 1,048,576
    uint32_t max_classes;  // 4,096; never above 65,536
};

// Both parts of a data set. test.count may be 0 (csv with test=0).
struct tern_data {
    struct tern_dataset train;
    struct tern_dataset test; // bytes, values and labels are malloc'ed and its own, as are train's
    bool unlabelled;          // labels were missing (part->whole), and are 0
    uint8_t *
        labelled; // of the rows of train, with part->whole: whether each has its label or target; NULL: all are alike
    bool scaled; // by the option scale, when they were read
    char
        *notes; // warnings for the user about the table, one sentence a line, malloc'ed; NULL: none
    uint32_t
        column_names; // tag of the features' names (tern_column_names_tag()); 0: they have none
    struct tern_name_set groups;  // names of the groups of both, by number; none of generated data
    struct tern_name_set classes; // names of the classes, by number; none where labels are numbers
};

// Reads the data set that `spec` names. limits: NULL for the defaults. On error *data is empty and
// why says in one sentence which file, what is wrong and where.
// TERN_ERR_CONFIG     the spec is not of a form above, or a value is out of range
// TERN_ERR_NOT_FOUND  a file, a column, a class or a group does not exist
// TERN_ERR_CORRUPT    a file is damaged, cut short, or not of its format
// TERN_ERR_TOO_LARGE  over a limit
// TERN_ERR_IO         reading failed
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_dataset_open(const char *spec,
                                                 const struct tern_data_limits *limits,
                                                 struct tern_data *data,
                                                 char why[TERN_DATA_WHY_MAX]);

// Joins a source of the settings with the directory given beside it: "idx" and "idx,mean=0.3" in
// DIR become "idx:DIR" and "idx:DIR,mean=0.3". A source that names its place itself, or an empty
// directory, is left as it is. A spec that is too long is cut, and refused when it is opened.
void tern_data_spec_join(const char *source, const char *directory, char spec[TERN_DATA_SPEC_MAX]);

// The spec of another file or folder that is read as `source`, which names one, is: its kind and options
// stay. Cut likewise.
void tern_data_spec_move(const char *source, const char *place, char spec[TERN_DATA_SPEC_MAX]);

// What a client keeps of a data set.
struct tern_data_part {
    const struct tern_partition_config *partition; // of the training examples; NULL: keep them all
    uint32_t client;                               // whose shard is kept, < partition->clients
    bool test;                                     // the test examples are kept
    // New data, to be looked at as it comes: rows keep their order, none of them is held out, and labels
    // may be missing. Sources with a test part of their own have it as ever.
    bool whole;
    struct tern_csv_names
        *trained; // with whole: selects a table's columns by these names; NULL: by index
};

// As tern_dataset_open(), but keeps the shard's training examples only, in the partition's order,
// as if they were the whole data set; without `test`, test is empty. IDX images that are not kept
// never are in memory, and without `test` its files need not be there; of other kinds everything is
// read first.
// TERN_ERR_ARGUMENT   the training examples cannot be partitioned so
TERN_MUST_USE enum tern_result tern_dataset_open_part(const char *spec,
                                                      const struct tern_data_limits *limits,
                                                      const struct tern_data_part *part,
                                                      struct tern_data *data,
                                                      char why[TERN_DATA_WHY_MAX]);

// Takes the next sentence of data->notes from *rest, cut to the buffer; false at their end.
bool tern_data_next_note(const char **rest, char note[TERN_DATA_WHY_MAX]);

// Gives the memory back; *data is then empty. An empty one is fine.
void tern_data_close(struct tern_data *data);

#endif
