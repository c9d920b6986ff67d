// Reads the data set that a spec string names, or one client's share of the data set, into memory. Called at the start of
// tern-client and tern-fleet. Hosted: reads files (plain or gzip) with zlib, and uses malloc. An opened data set does not
// change, so threads may share it.
//
//   digits[:train=6000,test=2000,size=16,seed=1]   generated digits, size 16 to 64 (data/generated.h)
//   sensors[:train=6000,test=2000,devices=50,seed=1]  a table of 24 readings (data/generated.h)
//       [,target=N][,anomalies=FRACTION]           reading N is the target; a fraction of the test rows has faults
//   audio[:train=6000,test=2000,speakers=50,seed=1]   spectrograms of sounds (data/generated.h)
//   idx:DIR[,mean=0.286,std=0.353]                 the four IDX files of MNIST or a similar data set, .gz or not
//   cifar10:DIR[,mean=M,std=S]                     data_batch_*.bin and test_batch.bin
//   csv:FILE[,label=NAME|INDEX|none][,target=NAME|INDEX][,drop=A|B][,classes=X|Y|Z][,group=NAME|INDEX][,only=VALUE]
//       [,test_file=FILE][,test=0.2][,seed=1][,scale=standard|FILE][,missing=mean|skip|skip-unlabelled|refuse][,header=yes|no]
//   npz:FILE, npy:FOLDER[,x=x][,y=y][,target=NAME][,group=group][,only=VALUE][,test=0.2][,seed=1]
//       [,scale=standard][,mean=M,std=S]           NumPy arrays (data/npy.c)
//
// csv: the label is the last column by default. Labels that are not class numbers from 0 need `classes`: a list of every label
// in class order, which must be the same on every client. `target` names a column of numbers to predict instead of a label.
// With label=none every column is a feature. `group` names the column with the row's device or person; `only` selects the
// training rows of one group. `missing` selects how missing values are treated. `header` declares whether the first line
// contains the columns' names, for files in which that is ambiguous.
//
// A file name or value in double quotes may contain commas; "" stands for a quote. Bytes of images become
// (byte / 255 - mean) / std.
#ifndef TERN_SOURCE_H
#define TERN_SOURCE_H

#include "data/partition.h"
#include "hosted/csv_columns.h"
#include "hosted/data_spec.h"
#include "hosted/input.h"
#include "hosted/name_set.h"
#include "result.h"
#include <stdbool.h>

#define TERN_DATA_WHY_MAX TERN_INPUT_WHY_MAX

// The limits of a data set, checked before memory is allocated. 0 means the default that follows each comment's semicolon.
struct tern_data_limits {
    uint64_t max_bytes;    // memory of one data set, and one file after gunzip; 4 GiB
    uint32_t max_examples; // train and test each; 16,777,216
    uint32_t max_features; // per example; 1,048,576
    uint32_t max_classes;  // 4,096; never above 65,536
};

// A data set: training and test examples. test.count may be 0 (csv with test=0).
struct tern_data {
    struct tern_dataset train;
    struct tern_dataset test; // train and test own their malloc'ed arrays
    bool unlabelled;          // with part->new_rows: every label was missing in the file, and is 0
    // with part->new_rows: [train.count] 1 for a row with a label or target, 0 for one without; NULL: all rows have one, or
    // none has
    uint8_t *labelled;
    bool scaled;           // the columns have been scaled because of the option scale
    char *notes;           // warnings for the user, one sentence a line, malloc'ed; NULL: none
    uint32_t column_names; // tag of the features' names (tern_column_names_tag()); 0: no names
    struct tern_name_set groups;  // group names of both parts, by number; empty for generated data
    struct tern_name_set classes; // class names, by number; empty if labels are numbers
};

// Reads the data set that `spec` names. limits: NULL for the defaults. On error *data is empty, and why is a sentence with
// the file, the place and the problem.
// TERN_ERR_CONFIG     the spec has none of the forms above, or a value is out of range
// TERN_ERR_NOT_FOUND  a file, a column, a class or a group does not exist
// TERN_ERR_CORRUPT    a file is damaged, cut short, or has another format
// TERN_ERR_TOO_LARGE  a limit is exceeded
// TERN_ERR_IO         reading failed
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_dataset_open(const char *spec,
                                                 const struct tern_data_limits *limits,
                                                 struct tern_data *data,
                                                 char why[TERN_DATA_WHY_MAX]);

// Joins the settings data.source and data.dir: "idx" and "idx,mean=0.3" in DIR become "idx:DIR" and
// "idx:DIR,mean=0.3". Keeps a source that names its own path, and any source if the directory is empty. A spec that is too
// long is cut; opening it then fails.
void tern_data_spec_join(const char *source, const char *directory, char spec[TERN_DATA_SPEC_MAX]);

// Copies `source` to spec with `place` instead of its file or folder; the kind and the options stay. Truncates a spec that is
// too long.
void tern_data_spec_move(const char *source, const char *place, char spec[TERN_DATA_SPEC_MAX]);

// Selects the examples that a client reads from a data set.
struct tern_data_part {
    // how the training examples are split among clients; NULL: all are read
    const struct tern_partition_config *partition;
    uint32_t client; // index of the client whose shard is read, < partition->clients
    bool test;       // the test examples are read, too
    // The data are new ones to predict: rows keep their order, no rows become test rows, and labels may be missing. Sources
    // with separate test files still read these.
    bool new_rows;
    // with new_rows: names by which the columns of a table are selected; NULL: they are selected by index
    struct tern_csv_names *trained;
};

// Like tern_dataset_open(), but reads only the training examples that `part` selects, in the partition's order. Without
// part->test, data->test is empty. For IDX files, memory is allocated only for the selected images, and without part->test the
// test files need not exist. Data of other kinds are first read completely, then reduced.
// TERN_ERR_ARGUMENT   the training examples cannot be partitioned as part->partition specifies
TERN_MUST_USE enum tern_result tern_dataset_open_part(const char *spec,
                                                      const struct tern_data_limits *limits,
                                                      const struct tern_data_part *part,
                                                      struct tern_data *data,
                                                      char why[TERN_DATA_WHY_MAX]);

// Copies the next sentence of data->notes to `note`, truncated to the buffer, and advances *rest. Returns false at the end.
bool tern_data_next_note(const char **rest, char note[TERN_DATA_WHY_MAX]);

// Frees the data set, which may be empty; *data is then empty.
void tern_data_close(struct tern_data *data);

#endif
