// Behind the rows of a settings.def that hosted/setting_fields.h turned into fields.
#undef TEXT
#undef FILLED
#undef SPEC
#undef ENUM
#undef BOOL
#undef U32
#undef U64
#undef REAL
#undef MS
#undef AUTO_MS
#undef BYTES
