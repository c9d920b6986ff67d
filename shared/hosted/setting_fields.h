// Turns the rows of a program's settings.def into the fields of its struct (hosted/setting_rows.h explains the rows).
// No include guard: included inside each struct, before the rows, and hosted/setting_rows_end.h behind them.
#define TEXT(section, key, size, ...) char section##_##key[size];
#define FILLED TEXT
#define SPEC TEXT
#define ENUM(section, key, ...) uint32_t section##_##key;
#define BOOL(section, key, ...) bool section##_##key;
#define U32(section, key, ...) uint32_t section##_##key;
#define U64(section, key, ...) uint64_t section##_##key;
#define REAL(section, key, ...) double section##_##key;
#define MS U64
#define AUTO_MS U64
#define BYTES U64
