#include "store/migrations.h"

// Version 1. Rows are STRICT and sizes are checked here too, so that a file edited by hand cannot
// hand the program a value that its types do not hold. The bodies of updates stand apart from
// their descriptions: listing and counting updates then never touches the large pages, and
// retention deletes bodies only.
static const char base[] =
    "CREATE TABLE federation ("
    "  id INTEGER PRIMARY KEY CHECK (id = 1),"
    "  model_spec TEXT NOT NULL,"
    "  seed INTEGER NOT NULL," // the 64 bits, read as signed
    "  model_hash BLOB NOT NULL CHECK (length(model_hash) = 32),"
    "  created_ms INTEGER NOT NULL"
    ") STRICT;"

    "CREATE TABLE clients ("
    "  id INTEGER PRIMARY KEY CHECK (id > 0),"
    "  name TEXT NOT NULL,"
    "  platform TEXT NOT NULL,"
    "  token_hash BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),"
    "  evaluator INTEGER NOT NULL CHECK (evaluator IN (0, 1)),"
    "  revoked INTEGER NOT NULL CHECK (revoked IN (0, 1)),"
    "  created_ms INTEGER NOT NULL,"
    "  last_seen_ms INTEGER NOT NULL,"
    "  steps_per_second REAL NOT NULL,"
    "  replica BLOB NOT NULL CHECK (length(replica) = 32),"
    "  version INTEGER NOT NULL"
    ") STRICT;"

    "CREATE TABLE codes ("
    "  hash BLOB PRIMARY KEY CHECK (length(hash) = 32),"
    "  label TEXT NOT NULL,"
    "  uses_left INTEGER NOT NULL CHECK (uses_left >= 0),"
    "  expires_ms INTEGER NOT NULL,"
    "  created_ms INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE rounds ("
    "  round INTEGER PRIMARY KEY CHECK (round > 0),"
    "  state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2),"
    "  base_version INTEGER NOT NULL,"
    "  target INTEGER NOT NULL,"
    "  quorum INTEGER NOT NULL,"
    "  opened_ms INTEGER NOT NULL,"
    "  deadline_ms INTEGER NOT NULL,"
    "  closed_ms INTEGER NOT NULL,"
    "  applied INTEGER NOT NULL,"
    "  mean_loss REAL NOT NULL,"
    "  attempts INTEGER NOT NULL,"
    "  strategy TEXT NOT NULL," // from here on: what a replay needs
    "  server_learning_rate REAL NOT NULL,"
    "  codec_up TEXT NOT NULL,"
    "  codec_down TEXT NOT NULL,"
    "  learning_rate REAL NOT NULL"
    ") STRICT;"

    "CREATE TABLE assignments ("
    "  round INTEGER NOT NULL REFERENCES rounds (round),"
    "  client INTEGER NOT NULL REFERENCES clients (id),"
    "  state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 3),"
    "  local_steps INTEGER NOT NULL,"
    "  invited_ms INTEGER NOT NULL,"
    "  tasked_ms INTEGER NOT NULL,"
    "  reported_ms INTEGER NOT NULL,"
    "  PRIMARY KEY (round, client)"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE updates ("
    "  id INTEGER PRIMARY KEY,"
    "  round INTEGER NOT NULL REFERENCES rounds (round),"
    "  client INTEGER NOT NULL REFERENCES clients (id),"
    "  sequence INTEGER NOT NULL,"
    "  sha256 BLOB NOT NULL CHECK (length(sha256) = 32),"
    "  size INTEGER NOT NULL CHECK (size >= 0),"
    "  received_ms INTEGER NOT NULL,"
    "  UNIQUE (round, client)"
    ") STRICT;"

    "CREATE TABLE update_bodies ("
    "  id INTEGER PRIMARY KEY," // of the update; gone once retention has dropped the body
    "  body BLOB NOT NULL"
    ") STRICT;"

    "CREATE TABLE weights ("
    "  kind INTEGER NOT NULL,"
    "  part INTEGER NOT NULL,"
    "  version INTEGER NOT NULL,"
    "  count INTEGER NOT NULL," // float32 values in all parts together
    "  crc32c INTEGER NOT NULL,"
    "  body BLOB NOT NULL,"
    "  PRIMARY KEY (kind, part)"
    ") STRICT;"

    "CREATE TABLE versions ("
    "  version INTEGER PRIMARY KEY CHECK (version >= 0),"
    "  round INTEGER NOT NULL,"
    "  replica BLOB NOT NULL CHECK (length(replica) = 32),"
    "  model_sha256 BLOB NOT NULL CHECK (length(model_sha256) = 32),"
    "  created_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX versions_by_replica ON versions (replica);"

    "CREATE TABLE downloads ("
    "  id INTEGER PRIMARY KEY,"
    "  sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),"
    "  snapshot INTEGER NOT NULL CHECK (snapshot IN (0, 1)),"
    "  from_version INTEGER NOT NULL,"
    "  to_version INTEGER NOT NULL,"
    "  size INTEGER NOT NULL,"
    "  payload INTEGER NOT NULL,"
    "  body BLOB NOT NULL CHECK (length(body) = size)"
    ") STRICT;"
    "CREATE INDEX downloads_by_end ON downloads (to_version, snapshot);"

    "CREATE TABLE ledger ("
    "  client INTEGER PRIMARY KEY REFERENCES clients (id),"
    "  generation INTEGER NOT NULL,"
    "  sequence INTEGER NOT NULL,"
    "  norm REAL NOT NULL,"
    "  maximum REAL NOT NULL,"
    "  round INTEGER NOT NULL,"
    "  loss REAL NOT NULL,"
    "  update_bytes INTEGER NOT NULL"
    ") STRICT;"

    "CREATE TABLE schedule ("
    "  client INTEGER PRIMARY KEY REFERENCES clients (id),"
    "  local_steps INTEGER NOT NULL,"
    "  reason TEXT NOT NULL,"
    "  updated_ms INTEGER NOT NULL"
    ") STRICT;"

    "CREATE TABLE evaluations ("
    "  version INTEGER NOT NULL,"
    "  client INTEGER NOT NULL REFERENCES clients (id),"
    "  num_examples INTEGER NOT NULL,"
    "  loss REAL NOT NULL,"
    "  accuracy REAL NOT NULL,"
    "  PRIMARY KEY (version, client)"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE meter ("
    "  round INTEGER NOT NULL,"
    "  client INTEGER NOT NULL," // 0 = peers that never authenticated
    "  purpose INTEGER NOT NULL,"
    "  up_payload INTEGER NOT NULL,"
    "  up_http INTEGER NOT NULL,"
    "  up_tls INTEGER NOT NULL,"
    "  up_wire INTEGER NOT NULL,"
    "  down_payload INTEGER NOT NULL,"
    "  down_http INTEGER NOT NULL,"
    "  down_tls INTEGER NOT NULL,"
    "  down_wire INTEGER NOT NULL,"
    "  exchanges INTEGER NOT NULL,"
    "  PRIMARY KEY (round, client, purpose)"
    ") STRICT, WITHOUT ROWID;";

// Version 2. Small devices: the keys of those that shake hands with one stand apart from the
// clients, so that no listing reads them; what a client can decode and hold outlasts a restart; a
// download says what codec made it ('': before this was recorded).
static const char small_devices[] =
    "CREATE TABLE psk_keys ("
    "  client INTEGER PRIMARY KEY REFERENCES clients (id),"
    "  key BLOB NOT NULL CHECK (length(key) = 32)"
    ") STRICT;"
    "ALTER TABLE clients ADD COLUMN codecs INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE clients ADD COLUMN coders INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE clients ADD COLUMN downloads_max INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE downloads ADD COLUMN codec TEXT NOT NULL DEFAULT '';";

const char *const tern_db_migrations[] = {base, small_devices};
const int tern_db_migration_count = sizeof tern_db_migrations / sizeof tern_db_migrations[0];
