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

// Version 3. Replicas of single clients and groups: each is its parent with one download applied,
// or a base (the seed, a snapshot, or weights that are kept whole). A download is between two
// replicas, encoded once per (from_replica, to_version, codec); those of older files have zeros
// there and go by their age. A member's task may start from a replica of its own, with a codec and
// a directive of its own, and its update may count in a later round than it was made for.
static const char replicas[] =
    "CREATE TABLE replicas ("
    "  id BLOB PRIMARY KEY CHECK (length(id) = 32),"
    "  parent BLOB NOT NULL CHECK (length(parent) = 32),"     // zeros: a base
    "  download BLOB NOT NULL CHECK (length(download) = 32)," // that made it; zeros: none
    "  version INTEGER NOT NULL," // of the global model that it was made towards
    "  depth INTEGER NOT NULL,"   // downloads to apply to its base
    "  bytes INTEGER NOT NULL,"   // of those
    "  residual REAL NOT NULL,"   // Euclidean norm of that global model minus the replica
    "  used_ms INTEGER NOT NULL,"
    "  form INTEGER NOT NULL CHECK (form BETWEEN 0 AND 3)," // enum tern_db_replica_form
    "  trunk INTEGER NOT NULL CHECK (trunk IN (0, 1)),"
    "  children INTEGER NOT NULL CHECK (children >= 0),"   // replicas whose parent it is
    "  suspect INTEGER NOT NULL CHECK (suspect IN (0, 1))" // nobody may need it any more
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX replicas_by_use ON replicas (used_ms) WHERE children = 0;"
    "CREATE INDEX replicas_suspect ON replicas (version) WHERE suspect = 1;"
    "CREATE INDEX clients_by_replica ON clients (replica);"
    "CREATE TABLE replica_weights ("
    "  id BLOB NOT NULL CHECK (length(id) = 32),"
    "  part INTEGER NOT NULL,"
    "  count INTEGER NOT NULL,"
    "  crc32c INTEGER NOT NULL,"
    "  body BLOB NOT NULL,"
    "  PRIMARY KEY (id, part)"
    ") STRICT;"
    "ALTER TABLE downloads ADD COLUMN from_replica BLOB NOT NULL DEFAULT x'"
    "0000000000000000000000000000000000000000000000000000000000000000';"
    "ALTER TABLE downloads ADD COLUMN to_replica BLOB NOT NULL DEFAULT x'"
    "0000000000000000000000000000000000000000000000000000000000000000';"
    "DROP INDEX downloads_by_end;" // with the size, sums need not go through the bodies' pages
    "CREATE INDEX downloads_by_end ON downloads (to_version, snapshot, size);"
    "CREATE INDEX downloads_by_start ON downloads (from_replica, to_version);"
    "CREATE INDEX downloads_by_replica ON downloads (to_replica);"

    "ALTER TABLE assignments ADD COLUMN base BLOB NOT NULL DEFAULT x'"
    "0000000000000000000000000000000000000000000000000000000000000000';" // replica of its task
    "ALTER TABLE assignments ADD COLUMN base_version INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE assignments ADD COLUMN codec TEXT NOT NULL DEFAULT '';" // '': the round's
    "ALTER TABLE assignments ADD COLUMN directive INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE assignments ADD COLUMN factor REAL NOT NULL DEFAULT 0;" // of the directive
    "ALTER TABLE updates ADD COLUMN merged INTEGER NOT NULL DEFAULT 0;"  // round; 0: its own
    "CREATE INDEX updates_by_merged ON updates (merged) WHERE merged > 0;"

    "ALTER TABLE rounds ADD COLUMN strategy_parameters TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE rounds ADD COLUMN median_loss REAL NOT NULL DEFAULT 0;" // of its members
    "UPDATE rounds SET median_loss = mean_loss;"
    "ALTER TABLE rounds ADD COLUMN variance REAL NOT NULL DEFAULT 0;"    // of its updates
    "ALTER TABLE rounds ADD COLUMN local_steps REAL NOT NULL DEFAULT 0;" // done, on average
    "CREATE TABLE strategy_state ("
    "  name TEXT NOT NULL," // of the vector: "m", "v", ...
    "  part INTEGER NOT NULL,"
    "  version INTEGER NOT NULL," // of the model that it goes with
    "  count INTEGER NOT NULL,"
    "  crc32c INTEGER NOT NULL,"
    "  body BLOB NOT NULL,"
    "  PRIMARY KEY (name, part)"
    ") STRICT;"

    "ALTER TABLE ledger ADD COLUMN previous_generation INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE ledger ADD COLUMN finding INTEGER NOT NULL DEFAULT 0;" // lost, restored, cloned...
    "ALTER TABLE ledger ADD COLUMN finding_ms INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE ledger ADD COLUMN finding_generation INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE ledger ADD COLUMN directive INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE ledger ADD COLUMN factor REAL NOT NULL DEFAULT 0;"
    "ALTER TABLE ledger ADD COLUMN reason TEXT NOT NULL DEFAULT '';"

    "ALTER TABLE schedule ADD COLUMN codec TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE schedule ADD COLUMN policy TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE schedule ADD COLUMN least_bytes INTEGER NOT NULL DEFAULT 0;" // of a round
    "ALTER TABLE schedule ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;"       // as decided
    "UPDATE clients SET steps_per_second = 0;" // which clients had claimed, not shown
    "ALTER TABLE clients ADD COLUMN from_seed INTEGER NOT NULL DEFAULT 0"
    "  CHECK (from_seed IN (0, 1));"
    "ALTER TABLE clients ADD COLUMN step_ahead INTEGER NOT NULL DEFAULT 0"
    "  CHECK (step_ahead IN (0, 1));"
    "ALTER TABLE clients ADD COLUMN metered INTEGER NOT NULL DEFAULT 0 CHECK (metered IN (0, 1));"
    "ALTER TABLE clients ADD COLUMN budgeted INTEGER NOT NULL DEFAULT 0 CHECK (budgeted IN (0, 1));"
    "ALTER TABLE clients ADD COLUMN budget_left INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE clients ADD COLUMN budget_spent INTEGER NOT NULL DEFAULT 0;" // since
    "ALTER TABLE clients ADD COLUMN budget_renewed INTEGER NOT NULL DEFAULT 0"
    "  CHECK (budget_renewed IN (0, 1));"
    "ALTER TABLE clients ADD COLUMN power INTEGER NOT NULL DEFAULT 0;"

    "CREATE TABLE manifest (" // of a model that is none of the built-in ones
    "  id INTEGER PRIMARY KEY CHECK (id = 1),"
    "  sha256 BLOB NOT NULL CHECK (length(sha256) = 32),"
    "  body BLOB NOT NULL,"
    "  metadata TEXT NOT NULL" // JSON object of the file that the model came in; '': none
    ") STRICT;"
    "CREATE TABLE kept_tensors (" // of that file, neither trained nor sent
    "  id INTEGER PRIMARY KEY CHECK (id = 1),"
    "  sha256 BLOB NOT NULL CHECK (length(sha256) = 32),"
    "  body BLOB NOT NULL" // a safetensors file
    ") STRICT;";

// Version 4. From which round on missed rounds are still to be counted against an error buffer, and
// the round of a directive for them that may not have been followed yet. In older files the first
// is each client's last task, whose directive was for all rounds before it.
static const char missed_rounds[] =
    "ALTER TABLE ledger ADD COLUMN missed_from INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE ledger ADD COLUMN told_round INTEGER NOT NULL DEFAULT 0;"
    "UPDATE ledger SET missed_from = tasked.round"
    "  FROM (SELECT client, max(round) AS round FROM assignments WHERE local_steps > 0"
    "        GROUP BY client) AS tasked"
    "  WHERE tasked.client = ledger.client;";

const char *const tern_db_migrations[] = {base, small_devices, replicas, missed_rounds};
const int tern_db_migration_count = sizeof tern_db_migrations / sizeof tern_db_migrations[0];
