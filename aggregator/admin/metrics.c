// Prometheus text exposition (version 0.0.4).
#include "admin/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void head(FILE *text, const char *name, const char *type, const char *help)
{
    fprintf(text, "# HELP tern_%s %s\n# TYPE tern_%s %s\n", name, help, name, type);
}

static void single(FILE *text, const char *name, const char *type, const char *help, uint64_t value)
{
    head(text, name, type, help);
    fprintf(text, "tern_%s %" PRIu64 "\n", name, value);
}

static void real(FILE *text, const char *name, const char *type, const char *help, double value)
{
    head(text, name, type, help);
    fprintf(text, "tern_%s %.9g\n", name, value);
}

// Writes a gauge; without a sample if the value is 0, which means unknown.
static void if_known(FILE *text, const char *name, const char *help, uint64_t value)
{
    head(text, name, "gauge", help);
    if (value > 0) {
        fprintf(text, "tern_%s %" PRIu64 "\n", name, value);
    }
}

static void histogram(FILE *text, const char *name, const char *help,
                      const struct tern_service_histogram *values, double unit)
{
    uint64_t below = 0;
    head(text, name, "histogram", help);
    for (unsigned i = 0; i < TERN_SERVICE_BUCKETS - 1; i++) {
        below += values->buckets[i];
        fprintf(text, "tern_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)(1u << i) * unit,
                below);
    }
    fprintf(text, "tern_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, values->count);
    fprintf(text, "tern_%s_sum %g\ntern_%s_count %" PRIu64 "\n", name, values->sum * unit, name,
            values->count);
}

static void byte_row(FILE *text, enum tern_purpose purpose, const char *direction,
                     const char *layer, uint64_t value)
{
    fprintf(text, "tern_bytes_total{purpose=\"%s\",direction=\"%s\",layer=\"%s\"} %" PRIu64 "\n",
            tern_purpose_name(purpose), direction, layer, value);
}

static void bytes(FILE *text, const struct tern_meter *meter)
{
    static const char *const directions[] = {[TERN_UP] = "up", [TERN_DOWN] = "down"};
    head(text, "bytes_total", "counter",
         "Bytes exchanged with clients, each layer including the layer before it.");
    for (unsigned p = 0; p < TERN_PURPOSE_COUNT; p++) {
        for (unsigned d = 0; d < TERN_DIRECTION_COUNT; d++) {
            const struct tern_bytes *count = &meter->bytes[p][d];
            byte_row(text, (enum tern_purpose)p, directions[d], "payload", count->payload);
            byte_row(text, (enum tern_purpose)p, directions[d], "http", count->http);
            byte_row(text, (enum tern_purpose)p, directions[d], "tls", count->tls);
            byte_row(text, (enum tern_purpose)p, directions[d], "wire", count->wire);
        }
    }
}

static void rounds(FILE *text, const struct tern_service_facts *facts)
{
    single(text, "version", "gauge", "Committed rounds: the version of the global model.",
           facts->federation.version);
    single(text, "round", "gauge", "Number of the open round, or of the last round.",
           facts->federation.machine.round);
    single(text, "round_open", "gauge", "1 while a round is open.", facts->federation.machine.open);
    single(text, "round_merging", "gauge", "1 while the open round's updates are merged.",
           facts->federation.merging);
    single(text, "round_target", "gauge", "Updates that the open round should collect.",
           facts->federation.machine.target);
    single(text, "round_reported", "gauge", "Updates that the open round has collected.",
           facts->federation.machine.reported);
    single(text, "round_members", "gauge", "Clients selected by the open round.",
           facts->federation.machine.member_count);
    single(text, "refused_cohorts", "gauge",
           "Consecutive cohorts whose updates were all refused for their values.",
           facts->federation.refused_cohorts);
    single(text, "finished", "gauge", "1 after round.rounds rounds, or an early stop.",
           tern_round_finished(&facts->federation.machine));
    head(text, "round_mean_loss", "gauge",
         "Mean training loss of the last committed round; absent with privacy.noise.");
    if (facts->federation.machine.committed > 0 && facts->federation.last_loss != 0.0F) {
        fprintf(text, "tern_round_mean_loss %.6g\n", (double)facts->federation.last_loss);
    }
}

static void waits(FILE *text, const struct tern_federation_facts *facts)
{
    head(text, "waiting", "gauge", "1 for the reason why the federation waits, as in the API.");
    for (unsigned i = 0; i < TERN_WAIT_COUNT; i++) {
        fprintf(text, "tern_waiting{reason=\"%s\"} %d\n", tern_wait_name((enum tern_wait)i),
                facts->wait == (enum tern_wait)i);
    }
    single(text, "waiting_needs_help", "gauge",
           "1 while the federation waits for an operator's action.", facts->needs_help);
}

static void upstream(FILE *text, const struct tern_service_upstream *link)
{
    head(text, "upstream_answers", "gauge",
         "Gateways: 0 while the upstream aggregator does not answer.");
    if (link->is_known) {
        fprintf(text, "tern_upstream_answers %d\n", link->silent_ms == 0);
    }
    head(text, "upstream_answered_seconds", "gauge",
         "Gateways: Unix time of the upstream aggregator's last answer; 0 = none since the start.");
    if (link->is_known) {
        fprintf(text, "tern_upstream_answered_seconds %" PRIu64 "\n", link->answered_ms / 1000);
    }
}

static void evaluated_row(FILE *text, const struct tern_accuracy *of, const char *metric,
                          double value)
{
    fprintf(text, "tern_evaluated{metric=\"%s\",model=\"%s\"} %.6g\n", metric,
            tern_evaluated_name(of->model), value);
}

static void evaluated(FILE *text, const struct tern_accuracy *of)
{
    const bool is_known = of->num_examples > 0;
    head(text, "evaluated_version", "gauge", "The newest version that evaluators reported on.");
    if (is_known) {
        fprintf(text, "tern_evaluated_version %" PRIu32 "\n", of->version);
    }
    head(text, "evaluated", "gauge",
         "Figures that evaluators reported for the newest reported version, weighted by examples.");
    if (is_known && !of->no_accuracy) {
        evaluated_row(text, of, "accuracy", of->accuracy);
    }
    if (is_known) {
        evaluated_row(text, of, "loss", of->loss);
    }
    for (uint32_t i = 0; is_known && i < of->metric_count; i++) {
        const char *name = of->metrics[i].name;
        if (strcmp(name, "accuracy") != 0 &&
            strcmp(name, "loss") != 0) { // a figure whose name the evaluator has chosen
            evaluated_row(text, of, name, of->metrics[i].value);
        }
    }
}

static void clients(FILE *text, const struct tern_service_facts *facts)
{
    single(text, "clients", "gauge", "Enrolled clients, revoked ones included.",
           facts->federation.clients);
    single(text, "clients_revoked", "gauge", "Revoked clients.", facts->federation.revoked);
    single(text, "clients_evaluators", "gauge", "Clients that evaluate and never train.",
           facts->federation.evaluators);
    single(text, "clients_unreliable", "gauge",
           "Clients that fetch tasks and do not report; rounds select other clients in addition.",
           facts->federation.unreliable);
    const struct tern_trainer_counts *trainers = &facts->federation.trainers;
    single(text, "clients_never_checked_in", "gauge",
           "Training clients that have never checked in.", trainers->never_checked_in);
    single(text, "clients_recent", "gauge",
           "Clients that train and were seen within round.eligible_within.", trainers->recent);
    single(text, "clients_spent", "gauge",
           "Recent clients whose byte budget is too small for another round.",
           trainers->out_of_budget);
    single(text, "checkins_held", "gauge", "Check-ins that wait for a task.", facts->held);
}

static void updates(FILE *text, const struct tern_service_facts *facts)
{
    head(text, "updates_total", "counter", "Updates by their answer.");
    fprintf(text, "tern_updates_total{status=\"accepted\"} %" PRIu64 "\n", facts->updates_accepted);
    fprintf(text, "tern_updates_total{status=\"duplicate\"} %" PRIu64 "\n",
            facts->updates_duplicate);
    fprintf(text, "tern_updates_total{status=\"late\"} %" PRIu64 "\n",
            facts->federation.counts.updates_late);
    fprintf(text, "tern_updates_total{status=\"rejected\"} %" PRIu64 "\n",
            facts->federation.counts.updates_rejected);
    single(text, "updates_scaled_down_total", "counter",
           "Updates whose weight was lowered because of an extreme norm or example count.",
           facts->federation.counts.updates_scaled_down);
    single(text, "tasks_missed_total", "counter",
           "Tasks that a client fetched without reporting in time.",
           facts->federation.counts.tasks_missed);
    single(text, "tasks_failed_total", "counter",
           "Tasks whose training a client reported as failed.",
           facts->federation.counts.tasks_failed);
}

static void requests(FILE *text, const struct tern_service_facts *facts)
{
    single(text, "enrolled_total", "counter", "Enrolments.", facts->enrolled);
    single(text, "checkins_total", "counter", "Check-ins.", facts->federation.counts.checkins);
    single(text, "downloads_total", "counter", "Downloads sent to clients, also by a cache.",
           facts->downloads);
    single(text, "downloads_authorized_total", "counter", "Downloads that a cache sent to clients.",
           facts->authorized);
    single(text, "cache_fills_total", "counter", "Downloads sent to caches.", facts->cache_fills);
    head(text, "cache_wire_bytes_total", "counter",
         "Bytes on the wire between caches and the aggregator, for downloads.");
    fprintf(text, "tern_cache_wire_bytes_total{direction=\"up\"} %" PRIu64 "\n",
            facts->cache_wire_up);
    fprintf(text, "tern_cache_wire_bytes_total{direction=\"down\"} %" PRIu64 "\n",
            facts->cache_wire_down);
    single(text, "unauthorized_total", "counter",
           "Requests with missing, wrong or revoked credentials.", facts->unauthorized);
    single(text, "rate_limited_total", "counter", "Requests over the limit per minute.",
           facts->rate_limited);
}

static void storage(FILE *text, const struct tern_service_facts *facts)
{
    single(text, "replica_bytes", "gauge", "Bytes of downloads and replicas in the database.",
           facts->federation.replica_bytes);
    single(text, "plan_searches_total", "counter",
           "Searches for the cheapest plan of downloads for one client.",
           facts->federation.searches.searches);
    real(text, "plan_search_seconds_total", "counter",
         "Processor time of these searches that have ended.",
         (double)facts->federation.searches.cpu_ns / 1e9);
    real(text, "service_worked_seconds_total", "counter",
         "Time for which the service thread has worked; its rate is the thread's share.",
         (double)facts->worked_us / 1e6);
    real(text, "service_longest_seconds", "gauge",
         "Longest time of one batch on the service thread, over the last one to two minutes. Other "
         "requests wait as long.",
         (double)facts->longest_us / 1e6);
    const struct tern_db_round *committed = &facts->federation.committed;
    if (committed->round > 0) {
        real(text, "round_service_share", "gauge",
             "Share of the last committed round's time for which the service thread worked.",
             tern_db_round_service_share(committed));
        real(text, "round_search_seconds", "gauge",
             "Processor time of the last committed round's searches, for each update.",
             tern_db_round_search_ms(committed) / 1e3);
    }
    single(text, "queue_length", "gauge", "Requests waiting for the database.", facts->queued);
    single(text, "store_writable", "gauge", "0 while nothing can be stored, as in /readyz.",
           facts->stores);
    single(text, "database_checked_seconds", "gauge",
           "Unix time of the last check that found the database intact; 0 = never.",
           facts->checked_ms / 1000);
    single(text, "database_bytes", "gauge", "Bytes of the database, without its log.",
           facts->database_bytes);
    if_known(text, "disk_free_bytes", "Free bytes on the database's file system.",
             facts->disk_free_bytes);
    if_known(text, "disk_room_bytes",
             "Bytes of the database's file, log and reserve, and of free space.",
             facts->disk_room_bytes);
    if_known(text, "disk_needed_bytes",
             "Estimate of the disk space that this federation needs by its settings.",
             facts->disk_needed_bytes);
    single(text, "batches_failed_total", "counter", "Transactions that could not be committed.",
           facts->batches_failed);
    histogram(text, "batch_requests", "Requests per transaction.", &facts->batch_size, 1.0);
    histogram(text, "commit_seconds", "Time from taking a batch to its commit.", &facts->commit_ms,
              0.001);
}

static void error_buffers(FILE *text, const struct tern_service_facts *facts)
{
    head(text, "error_anomalies_total", "counter",
         "Error buffers of clients that were found to be lost, restored or cloned.");
    for (uint32_t i = TERN_ANOMALY_NONE + 1; i < TERN_ANOMALY_COUNT; i++) {
        fprintf(text, "tern_error_anomalies_total{anomaly=\"%s\"} %" PRIu64 "\n",
                tern_error_anomaly_name(i), facts->federation.counts.anomalies[i]);
    }
    head(text, "error_directives_total", "counter",
         "Directives to clients about their error buffers, in new tasks.");
    for (uint32_t i = 0; i < TERN_DIRECTIVE_COUNT; i++) {
        fprintf(text, "tern_error_directives_total{directive=\"%s\"} %" PRIu64 "\n",
                tern_error_directive_name(i), facts->federation.counts.directives[i]);
    }
}

static void http(FILE *text, const struct tern_http_counters *counters)
{
    single(text, "http_connections_open", "gauge", "Open connections of clients.",
           counters->connections_open);
    single(text, "http_connections_total", "counter", "Connections accepted.",
           counters->connections_accepted);
    single(text, "http_connections_refused_total", "counter", "Connections over a limit.",
           counters->connections_refused);
    single(text, "http_connections_displaced_total", "counter",
           "Connections closed for new ones: without credentials, or a client's oldest.",
           counters->connections_displaced);
    head(text, "http_handshakes_total", "counter", "TLS handshakes by kind.");
    fprintf(text, "tern_http_handshakes_total{kind=\"full\"} %" PRIu64 "\n",
            counters->handshakes_full);
    fprintf(text, "tern_http_handshakes_total{kind=\"resumed\"} %" PRIu64 "\n",
            counters->handshakes_resumed);
    fprintf(text, "tern_http_handshakes_total{kind=\"failed\"} %" PRIu64 "\n",
            counters->handshakes_failed);
    single(text, "http_client_certificates_refused_total", "counter",
           "TLS handshakes that failed because of a bad or missing client certificate.",
           counters->client_certificates_refused);
    single(text, "http_handshakes_deferred_total", "counter",
           "TLS handshakes that were deferred because their address had no free handshake slot.",
           counters->handshakes_deferred);
    single(text, "http_requests_total", "counter", "Requests.", counters->requests);
    single(text, "http_requests_refused_total", "counter",
           "Requests refused before their body was read.", counters->requests_refused);
    single(text, "http_body_memory_bytes", "gauge", "Memory that the bodies of requests take.",
           counters->body_memory);
    single(text, "http_body_disk_bytes", "gauge", "Disk space that the bodies of requests take.",
           counters->body_disk);
    single(text, "http_bodies_unfinished", "gauge",
           "Interrupted uploads that are stored: incomplete updates whose connection broke.",
           counters->bodies_unfinished);
    single(text, "http_bodies_continued_total", "counter",
           "Updates that were continued after a broken connection.", counters->bodies_continued);
    single(text, "certificate_expires_seconds", "gauge",
           "Unix time when the server's certificate, or the first of its chain, expires.",
           counters->certificate_ends_s);
    single(text, "client_ca_expires_seconds", "gauge",
           "Unix time when the first CA of client certificates expires; 0 = no client CA.",
           counters->client_ca_ends_s);
    single(text, "http_timeouts_total", "counter", "Connections closed for being too slow.",
           counters->timeouts);
}

struct tern_blob *tern_admin_metrics(const struct tern_service_facts *facts,
                                     const struct tern_http_counters *counters)
{
    char *data = NULL;
    size_t len = 0;
    FILE *text = open_memstream(&data, &len);
    if (text == NULL) {
        return NULL;
    }
    rounds(text, facts);
    waits(text, &facts->federation);
    upstream(text, &facts->upstream);
    evaluated(text, &facts->federation.evaluated);
    clients(text, facts);
    updates(text, facts);
    requests(text, facts);
    storage(text, facts);
    error_buffers(text, facts);
    bytes(text, &facts->bytes);
    http(text, counters);
    const bool whole = ferror(text) == 0;
    struct tern_blob *blob = fclose(text) == 0 && whole ? tern_blob_new(len) : NULL;
    if (blob != NULL) {
        memcpy(blob->data, data, len);
    }
    free(data);
    return blob;
}
