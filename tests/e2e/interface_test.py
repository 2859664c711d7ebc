#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/INTERFACE.md, walked from its first line to its last against the real command and daemon.

Every row of the page has an entry in HELD: a check of this file that is run here, a test elsewhere that holds it (that it is
there is checked, and `./dev check` runs it), or the part of Daybook that it waits for. A row without an entry fails, and so does an
entry without a row. Prints the list of what is covered, and the counts.

usage: interface_test.py DAYBOOK SLOW_DISK [TEST...]"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import daybook_process as dp
from daybook_process import Daemon, event, ndjson

BINARY = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NDJSON = "application/x-ndjson"
HELD = {}  # id: ("here", function) | ("test", file, name) | ("later", part) | ("missing", what)


# ---- entries ---------------------------------------------------------------------------------


def at(file, *names):
    """Held by these tests of a file: a name alone is one of tests/e2e."""
    path = file if "/" in file else f"tests/e2e/{file}_test.py"
    return ("test", path, names)


def later(part):
    return ("later", part)


def missing(what):
    """Promised and not built yet: told, and counted apart."""
    return ("missing", what)


def here(*ids):
    """The function holds these rows by itself; it is given a daemon that runs."""
    def take(function):
        for name in ids:
            HELD[name] = ("here", function)
        return function
    return take


# ---- what the page says ----------------------------------------------------------------------


def page():
    with open(os.path.join(ROOT, "docs", "INTERFACE.md"), encoding="utf-8") as file:
        return file.read()


def statements():
    """{id: text} of the tables, but for the keys."""
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \|$", page(), re.M)
    found = dict(rows)
    keys = page().split("Every key, and its default:")[1].split("\n## ")[0]
    for name in re.findall(r"^\| `([a-z0-9-]+)` \|", keys, re.M):
        found.pop(name)
    assert len(rows) == len(found) > 100, "an id stands twice"
    return found


def promised_keys():
    keys = page().split("Every key, and its default:")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([a-z_.\[\]]+)` \| (.*) \|$", keys, re.M))


def run(*arguments, status=0, stdin=b"", cwd=None, env=None):
    done = subprocess.run([BINARY, *arguments], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
                          check=False, env={**os.environ, **(env or {})}, timeout=120)
    assert done.returncode == status, (arguments, done)
    return done.stdout.decode(), done.stderr.decode()


def dev():
    return subprocess.run([os.path.join(ROOT, "dev"), "help"], stdout=subprocess.PIPE, check=True, text=True).stdout


# ---- checked here: each function is given a daemon with one delivered event ------------------


@here("name-dev", "name-build")
def the_script(_):
    text = dev()
    for verb in "run check build lint bench e2e sim fuzz fmt".split():
        assert re.search(rf"^\./dev {verb}\b", text, re.M), verb
    assert "build/release/daybook" in re.search(r"^\./dev build .*$", text, re.M).group(0)


@here("name-prefix")
def the_prefix(_):
    headers = glob.glob(os.path.join(ROOT, "include", "daybook", "*.h"))
    assert len(headers) > 5
    for header in headers:
        with open(header, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        declared = re.findall(r"^DAYBOOK_API[^;(]*?\b(\w+)\(", text, re.M) + re.findall(r"^(?:struct|enum) (\w+) \{", text, re.M)
        declared += re.findall(r"^#define (\w+)", text, re.M)
        assert all(re.match(r"(daybook|DAYBOOK)_", name) for name in declared), (header, declared)
    library = os.path.join(os.path.dirname(BINARY), "libdaybook.so")
    if os.path.exists(library):
        symbols = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, check=True, text=True).stdout
        names = [line.split()[-1] for line in symbols.splitlines()]
        assert names and all(name.split("@")[0].startswith("daybook_") for name in names), names


@here("serve-defaults")
def the_defaults(_):
    with tempfile.TemporaryDirectory() as empty:
        out, _ = run("check", cwd=empty)
        assert "data directory ./daybook-data" in out and "of consumer billing" in out, out
        what = [json.loads(line) for line in run("check", "--json", cwd=empty)[0].splitlines()]
        assert [w["what"] for w in what].count("destination") == 1, what
    keys, text = documented()
    assert keys["listen.address"] == "127.0.0.1:8377" and keys["journal.path"] == "./daybook-data"
    assert re.search(r"`consumers`.*one consumer `billing`.*SQLite file `usage\.db` in the data directory", text)


@here("version")
def the_version(d):
    version = re.fullmatch(r"daybook (\d+\.\d+\.\d+)\n", run("--version")[0]).group(1)
    assert d.stats()["version"] == version


@here("find-daemon")
def finding(d):
    assert json.loads(run("stats", "--json", "--url", d.url)[0])["journal"]
    assert json.loads(run("stats", "--json", env={"DAYBOOK_URL": d.url})[0])["journal"]
    # The option wins, and the default is told by a command that finds nobody there (or finds a daemon of somebody's).
    assert "127.0.0.1:1 " in run("stats", "--url", "http://127.0.0.1:1", env={"DAYBOOK_URL": d.url}, status=1)[1]
    assert "else DAYBOOK_URL, else http://127.0.0.1:8377" in run("help", "stats")[0]
    for command in ("append", "stats", "consumers", "quarantine", "operations", "export"):
        assert "--url URL" in run("help", command)[0] and "--token-file FILE" in run("help", command)[0], command


@here("exit-0", "exit-1", "exit-2", "exit-3", "errors")
def statuses(d):
    assert run("stats", "--url", d.url, status=0)[1] == ""
    for arguments in (("stats", "--url", "http://127.0.0.1:1"), ("export", "--data", "/nowhere/at/all"),
                      ("append", "/nowhere/at/all", "--url", d.url)):
        out, err = run(*arguments, status=1)
        assert out == "" and re.fullmatch(r"daybook: [^\n]+\n", err), (arguments, out, err)
    for arguments in (("nothing",), ("stats", "--nothing"), ("consumers", "retire"), ("export", "--where", "x"),
                      ("check", "-c", "/nowhere/at/all"), ("stats", "--url", "nowhere")):
        out, err = run(*arguments, status=2)
        assert out == "" and re.fullmatch(r"daybook: [^\n]+\n", err), (arguments, out, err)
    assert "refused 1" in run("append", "--url", d.url, stdin=b"{}\n", status=3)[0]


@here("json")
def tables(d):
    """Every command that prints a table has --json, and it is JSON, a line each."""
    url = ("--url", d.url)
    asked = [("stats", "--json", *url), ("consumers", "list", "--json", *url), ("quarantine", "list", "--json", *url),
             ("operations", "--json", *url), ("check", "--json", "-c", d.path("daybook.yaml")),
             ("consumers", "rewind", "billing", "--json", *url)]
    for arguments in asked:
        for line in run(*arguments, cwd=d.directory)[0].splitlines():
            json.loads(line)
    assert json.loads(run("append", "--json", *url)[0]) == {"kind": "counts", "accepted": 0, "already_present": 0, "refused": 0}
    for command in ("stats", "consumers", "quarantine", "operations", "check", "verify", "dump", "repair", "backup", "append"):
        assert "  --json" in run("help", command)[0], command


@here("colour")
def plain(d):
    for arguments in (("stats",), ("consumers", "list"), ("quarantine", "list"), ("operations",), ("append",), ("export",)):
        out, err = run(*arguments, "--url", d.url)
        assert "\x1b" not in out + err and "\r" not in out + err, arguments
    assert "\x1b" not in d.out() + d.log()


@here("problems")
def problem_documents(d):
    for status, code, answer in (
            (404, "not_found", d.get("/nowhere")), (405, "method_not_allowed", d.request("PUT", "/v1/stats")),
            (400, "bad_argument", d.get("/v1/events?limit=x")), (400, "malformed_json", d.post("{")),
            (422, "invalid_event", d.post({})), (415, "unsupported_media_type", d.post("x", "text/plain"))):
        got, headers, body = answer
        assert (got, body["code"], body["status"]) == (status, code, status) and body["title"] and body["detail"], answer
        assert headers["Content-Type"] == "application/problem+json", headers


@here("times")
def times(d):
    form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
    line = json.loads(d.get("/v1/events")[2].splitlines()[0])
    assert re.fullmatch(form, line["observed_at"]) and re.fullmatch(form, line["accepted_at"]), line
    assert re.fullmatch(form, d.consumer()["last_claim_at"]), d.consumer()


@here("post-nesting")
def nesting(d):
    def nested(depth):  # the event itself is level 1
        return ('{"request_id":"deep-%d","namespace":"n","subject":"s","x":' % depth + "[" * (depth - 1) + "]" * (depth - 1) + "}")
    assert d.post(nested(64))[0] == 201
    status, _, body = d.post(nested(65))
    assert (status, body["code"]) == (422, "invalid_event"), body


@here("post-observed")
def observed(d):
    for number, (value, text) in enumerate((("2025-05-05T07:05:05.25+02:00", "2025-05-05T05:05:05.250000Z"),
                                            (1746421505250000, "2025-05-05T05:05:05.250000Z"))):
        assert d.post(event(f"observed-{number}", observed_at=value))[0] == 201
        assert d.get(f"/v1/events/observed-{number}")[2]["observed_at"] == text
    for value in ("2025-05-05T07:05:05", "2025-02-30T00:00:00Z", 1746421505, 1746421505250, "24:00", "2025-05-05T24:00:00Z"):
        status, _, body = d.post(event("observed-bad", observed_at=value))
        assert (status, body["code"]) == (422, "invalid_event") and "observed_at" in body["detail"], (value, body)


def members(value, *names):
    lacking = [name for name in names if name not in value]
    assert not lacking, f"{lacking} are missing in {value}"


@here("shape-line", "shape-breaks")
def lines(d):
    raw = b'{ "request_id" : "lines",\r\n "namespace":"n","subject":"s",\n\t"x":1.0e0, "y":"a\\nb" }'
    assert d.post(raw)[0] == 201
    kept = raw.replace(b"\r\n", b"  ").replace(b"\n", b" ")
    listed = next(l for l in d.get("/v1/events?limit=4096")[2].splitlines() if b'"lines"' in l)
    exported = next(l for l in run("export", "--url", d.url)[0].splitlines() if '"lines"' in l)
    for line in (listed.decode(), exported):
        assert list(json.loads(line)) == ["position", "request_id", "namespace", "subject", "observed_at", "accepted_at", "record"]
        assert line.endswith('"record":' + kept.decode() + "}"), line
    assert kept.decode() in run("export", "--records", "--url", d.url)[0].splitlines()


@here("shape-event")
def one_event(d):
    body = d.get("/v1/events/first")[2]
    members(body, "position", "request_id", "namespace", "subject", "observed_at", "accepted_at", "record", "consumers")
    for consumer in body["consumers"]:
        members(consumer, "name", "state", "attempt", "hand_outs")
        assert consumer["state"] in ("pending", "in_flight", "acknowledged", "quarantined", "discarded")


@here("get-stats", "shape-stats", "get-consumers")
def stats(d):
    body = d.stats()
    members(body, "version", "journal", "consumers")
    journal = body["journal"]
    members(journal, "backend", "mode", "state", "stored_events", "stored_bytes", "file_bytes", "capacity", "counters",
            "dedupe_window_seconds")
    members(journal["capacity"], "max_events", "max_bytes", "policy")
    members(journal["counters"], "accepted", "pruned", "reclaimed", "dropped", "discarded", "damaged")
    assert (journal["backend"], journal["mode"], journal["state"]) == ("log", "billing_grade", "open"), journal
    for consumer in body["consumers"] + d.get("/v1/consumers")[2]["consumers"] + [d.get("/v1/consumers/billing")[2]]:
        members(consumer, "name", "running", "pending", "in_flight", "quarantined", "oldest_pending_age_seconds",
                "oldest_unresolved_age_seconds", "drained", "last_claim_at", "destinations")
        for destination in consumer["destinations"]:
            members(destination, "name", "kind", "up", "reason", "since")


@here("many-shape")
def many(d):
    status, _, body = d.post(ndjson([event("many-1"), {"request_id": "many-2"}, event("first", other=1)]), NDJSON)
    assert status == 207 and list(body) == ["accepted", "already_present", "failed", "errors"], body
    assert (body["accepted"], body["already_present"], body["failed"]) == (1, 0, 2)
    for error in body["errors"]:
        assert set(error) == {"index", "line", "request_id", "code", "message", "retry"}, error


@here("shape-quarantine")
def quarantine_shape(_):
    with Daemon(BINARY, journal=dp.ONE_TRY_JOURNAL, consumers=[dp.ONE_TRY]) as d:
        d.start()
        d.post(event("good"))
        d.drained()
        d.reject("bad")
        d.post(event("bad", model="bad"))
        dp.until("it is quarantined", lambda: d.consumer()["quarantined"] == 1)
        entry = json.loads(d.get("/v1/consumers/billing/quarantine")[2])
        members(entry, "request_id", "position", "namespace", "subject", "reason", "words", "attempts", "quarantined_at", "record")
        members(entry["words"], "code", "constraint", "column", "message")
        assert entry["words"]["message"] == "no bad here" and entry["words"]["column"] is None, entry["words"]


@here("sqlite-columns")
def table_columns(d):
    columns = {name: kind for _, name, kind, *_ in d.rows("pragma table_info(usage)")}
    for name in ("request_id", "namespace", "subject", "observed_at", "delivered_at", "record", "trace_id", "model",
                 "target_provider", "target_model", "status"):
        assert columns.pop(name) == "TEXT", name
    for name in ("schema_version", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
                 "cost_microdollars", "latency_ms", "attempts"):
        assert columns.pop(name) == "INTEGER", name
    assert columns == {}, f"the page does not name {columns}"


def documented():
    """({key: default}, text) of the page that the table of keys writes."""
    text = run("help", "--configuration")[0]
    return {key: default.strip("`") for key, default in re.findall(r"^\| `([a-z_.\[\]]+)` \| [^|]* \| ([^|]*) \|", text, re.M)}, text


def default_of(key):
    return promised_keys()[key].strip("`")


# What a journal on the disk refuses; tests/e2e/postgres_test.py starts with them.
OF_POSTGRES = {f"journal.{key}" for key in ("dsn_env", "service", "schema", "create_schema", "connections")}


@here("config-all")
def every_key(d):
    """One file with every key that is built, at the default that the page promises (paths and the address apart)."""
    built, _ = documented()
    config, consumer, sink = {}, {"name": "billing"}, {"kind": "sqlite", "name": "ledger", "path": "usage.db"}
    for key in promised_keys():
        if key not in built or default_of(key) in ("required", "its kind") or key in OF_POSTGRES:
            continue
        value = default_of(key)
        value = None if value == "null" else [] if value == "[]" else int(value) if value.isdigit() else value
        if key.startswith("consumers[].sinks[]."):
            if key.rsplit(".", 1)[1] in ("table", "columns"):  # of sqlite
                sink[key.rsplit(".", 1)[1]] = value
        elif key.startswith("consumers[]."):
            consumer[key.split(".", 1)[1]] = value
        else:
            section, name = key.split(".")
            config.setdefault(section, {})[name] = value
    config["listen"]["address"], config["journal"]["path"] = "127.0.0.1:0", "data"
    config["consumers"] = [{**consumer, "sinks": [sink]}]
    assert sum(len(part) for part in config.values() if isinstance(part, dict)) >= 20 and len(consumer) >= 11, config
    with Daemon(BINARY) as whole:
        whole.config = config
        whole.start()
        assert whole.post(event("a"))[0] == 201
        whole.drained()
        assert whole.stop()[0] == 0


# ---- held elsewhere --------------------------------------------------------------------------

AUTH = "authentication with bearer tokens"
TLS = "TLS"
DESTINATIONS = "destinations other than sqlite, file and stdout"

HELD.update({
    "name-library": at("embedding", "test_a_program_of_forty_lines"),
    "serve-config": at("life", "test_starts_and_stops", "test_wrong_configuration"),
    "append-lines": at("life", "test_commands_over_http"),
    "append-refused": at("command", "test_append_progress_and_refused_lines"),
    "append-data": at("command", "test_append_and_export_without_a_daemon"),
    "append-bar": at("command", "test_append_progress_and_refused_lines"),
    "append-forms": at("life", "test_a_directory_moves_to_another"),
    "append-waits": at("command", "test_append_waits_for_a_daemon_that_takes_nothing_now"),
    "stats": at("command", "test_stats_watch", "test_consumers"),
    "consumers": at("command", "test_consumers"),
    "quarantine": at("command", "test_quarantine", "test_more_consumers_than_one"),
    "quarantine-why": at("command", "test_quarantine_usage"),
    "operations": at("command", "test_quarantine"),
    "export": at("life", "test_commands_over_http"),
    "export-records": at("life", "test_commands_over_http"),
    "audit": later("the audit"),
    "verify": at("tools", "test_backup_and_verify_beside_a_daemon_that_is_written_to"),
    "repair": at("tools", "test_repair_keeps_what_is_whole_and_says_what_is_missing",
                 "test_repair_and_backup_refuse_what_they_may_not_touch"),
    "dump": at("tools", "test_dump_shows_every_frame_and_goes_on_behind_damage"),
    "backup": at("tools", "test_backup_and_verify_beside_a_daemon_that_is_written_to"),
    "check": at("command", "test_check"),
    "migrate": at("postgres", "test_set_up_as_the_page_says", "test_the_printed_statements_make_the_schema"),
    "mint": at("command", "test_mint"),
    "bench": at("command", "test_bench"),
    "help": at("command", "test_help_and_the_man_page"),
    "completion": at("command", "test_completion"),
    "find-token": at("command", "test_the_token_is_shown_and_never_told"),
    "post-json": at("http", "test_one_event_each_status", "test_many"),
    "post-ndjson": at("ingest", "test_ndjson_as_it_is_found"),
    "post-cr": at("ingest", "test_ndjson_as_it_is_found"),
    "post-cloudevents": at("ingest", "test_cloudevents_structured_and_batch"),
    "post-cloudevents-binary": at("ingest", "test_cloudevents_binary"),
    "post-cloudevents-names": at("ingest", "test_cloudevents_structured_and_batch"),
    "post-gzip": at("ingest", "test_gzip"),
    "post-record": at("http", "test_E4_stored_byte_for_byte", "test_one_event_each_status"),
    **{f"one-{status}": at("http", "test_one_event_each_status") for status in (201, 200, 409, 422, 413, 400, 415)},
    "one-503": at("http", "test_A4_at_capacity"),
    "reason-capacity": at("http", "test_A4_at_capacity", "test_A4_disk"),
    "reason-backend": at("life", "test_A7_a_failed_journal_is_reopened", "test_starting"),
    "reason-timed-out": at("http", "test_J1_timed_out_then_already_present"),
    "reason-draining": at("life", "test_draining"),
    "one-202": at("consumers", "test_M2_serve_answers_202_and_counts_the_loss"),
    "many-200": at("http", "test_many"),
    "many-207": at("http", "test_A6_mixed_lines_store_exactly_the_good_ones"),
    "many-422": at("http", "test_many"),
    "many-503": at("http", "test_A4_at_capacity"),
    "many-line": at("http", "test_A6_mixed_lines_store_exactly_the_good_ones", "test_many"),
    "many-whole": at("http", "test_a_body_that_does_not_arrive_whole_stores_nothing"),
    "many-order": at("http", "test_A6_mixed_lines_store_exactly_the_good_ones"),
    "get-event": at("operators", "test_an_event_and_what_it_is_to_each_consumer"),
    "get-events": at("http", "test_reading"),
    "consumer-retire": at("operators", "test_consumers_rewind_and_retire"),
    "consumer-rewind": at("operators", "test_consumers_rewind_and_retire"),
    "consumers-lift": at("consumers", "test_W6b_O1_an_operator_lifts_the_brake"),
    "consumer-lift": at("consumers", "test_W6b_O1_an_operator_lifts_the_brake"),
    "consumer-start": at("operators", "test_C1_a_consumer_is_started_ahead_of_its_daemon"),
    "get-quarantine": at("operators", "test_quarantine_is_listed_and_shown"),
    "quarantine-release": at("operators", "test_release_of_one_and_the_order_it_brings_back", "test_release_of_many"),
    "quarantine-discard": at("operators", "test_discard"),
    "get-operations": at("operators", "test_O1_the_trail_says_who_when_and_why"),
    "path-encoding": at("operators", "test_an_event_and_what_it_is_to_each_consumer"),
    "get-metrics": at("metrics", "test_every_metric_of_the_contract"),
    "healthz": at("life", "test_draining", "test_starting"),
    "readyz-starting": at("life", "test_starting"),
    "readyz-draining": at("life", "test_draining"),
    "readyz-reads": at("life", "test_C7_readiness_says_that_events_cannot_be_read"),
    "readyz-failed": at("life", "test_A7_a_failed_journal_is_reopened"),
    "status-page": later("the status page"),
    "listen-loopback": at("src/app/config_test.c", "test_impossible_values"),
    "auth-tokens": later(AUTH),
    "auth-tls": later(TLS),
    "limit-body": at("http", "test_body_limit"),
    "limit-headers": at("ingest", "test_headers_have_a_limit"),
    "limit-connections": at("ingest", "test_connections_have_a_limit"),
    "limit-idle": at("ingest", "test_slow_clients_are_cut"),
    "no-secret": at("command", "test_the_token_is_shown_and_never_told"),
    "config-unknown": at("src/app/config_test.c", "test_unknown_keys"),
    "config-type": at("src/app/config_test.c", "test_every_key_is_refused_with_its_place_and_a_mend", "test_wrong_types"),
    "config-impossible": at("src/app/config_test.c", "test_impossible_values", "test_values_that_contradict_each_other"),
    "config-units": at("src/app/config_test.c", "test_units"),
    "config-page": at("src/app/config_test.c", "test_documentation_is_the_table"),
    "config-secrets": later("the first destination that has a secret"),
    "sighup": later("hot reload"),
    "sigterm": at("life", "test_drain_grace", "test_deadline_of_requests", "test_T1_stop_while_the_ledger_is_locked"),
    "sigterm-twice": at("life", "test_drain_grace"),
    "sqlite": at("src/sinks/sqlite_test.c", "test_W12_a_repeated_fact_is_accepted_and_adds_no_row"),
    "columns-strict": at("src/sinks/sqlite_test.c", "test_W12_a_billed_value_that_does_not_fit_rejects_the_row"),
    "columns-lenient": at("src/sinks/sqlite_test.c", "test_W12_a_billed_value_that_does_not_fit_rejects_the_row"),
    "file": at("destinations", "test_W1_file_lines_are_as_exported", "test_rotation",
               "test_W1_kills_leave_whole_lines_and_lose_nothing"),
    "stdout": at("destinations", "test_W1_standard_output"),
    **{kind: later(DESTINATIONS) for kind in ("postgres", "http", "clickhouse", "kafka", "otlp")},
    "shape-drain": at("life", "test_starts_and_stops", "test_T5_stop_while_the_journal_cannot_be_opened"),
})

# Keys of the page that the table of keys does not have yet.
KEYS_LATER = {
    "listen.tls": later(TLS), "auth.tokens_file": later(AUTH),
}


# ---- the walk --------------------------------------------------------------------------------


def sources():
    found = {}
    for entry in HELD.values():
        if entry[0] == "test" and entry[1] not in found:
            with open(os.path.join(ROOT, entry[1]), encoding="utf-8") as file:
                found[entry[1]] = file.read()
    return found


def shown(entry):
    if entry[0] == "test":
        return f"{entry[1]}: {', '.join(entry[2])}"
    if entry[0] == "here":
        return f"here: {entry[1].__name__}"
    return f"{entry[0]}: {entry[1]}"


def test_every_statement_has_an_entry():
    promised = statements()
    assert not set(promised) - set(HELD), f"rows without an entry: {sorted(set(promised) - set(HELD))}"
    assert not set(HELD) - set(promised), f"entries without a row: {sorted(set(HELD) - set(promised))}"
    texts = sources()
    for name, entry in HELD.items():
        for test in entry[2] if entry[0] == "test" else ():
            assert re.search(rf"^(?:def|static void|void) {test}\(", texts[entry[1]], re.M), f"{name}: no {test} in {entry[1]}"
    for name in promised:
        print(f"# {name}: {shown(HELD[name])}", flush=True)
    count = {kind: sum(entry[0] == kind for entry in HELD.values()) for kind in ("here", "test", "later", "missing")}
    print(f"# {len(promised)} statements: {count['here']} run here, {count['test']} held by tests named here, "
          f"{count['later']} later, {count['missing']} missing", flush=True)


def test_every_key_has_its_default():
    promised, (built, _) = promised_keys(), documented()
    assert len(promised) >= 50
    for key in promised:
        if key in KEYS_LATER:
            assert key not in built, f"{key} is built: take it out of KEYS_LATER"
            print(f"# {key}: {shown(KEYS_LATER[key])}", flush=True)
            continue
        assert key in built, f"{key} is not a key"
        if default_of(key) == "its kind":
            continue
        assert built[key] == default_of(key), f"{key}: the page says {default_of(key)}, the reader {built[key]}"
    print(f"# {len(promised)} keys: {len(promised) - len(KEYS_LATER)} with the default of the page, {len(KEYS_LATER)} not yet",
          flush=True)


def test_every_command_is_on_the_page():
    """And every path of the interface: what was added has a row."""
    commands = re.findall(r"^  ([a-z]+) ", run("help")[0], re.M)
    ids = statements()
    for command in commands:
        assert any(name == command or name.startswith(command + "-") for name in ids), f"`daybook {command}` has no row"


def test_the_walk():
    walked = []
    with Daemon(BINARY) as d:
        d.start()
        assert d.post(event("first", cost_microdollars=5))[0] == 201
        d.drained()
        functions = {entry[1] for entry in HELD.values() if entry[0] == "here"}
        for function in sorted(functions, key=lambda f: f.__code__.co_firstlineno):
            try:
                function(d)
            except BaseException:
                print(f"# in {function.__name__}", flush=True)
                raise
            walked += [name for name, entry in HELD.items() if entry == ("here", function)]
        assert d.stop()[0] == 0
    tests = {(entry[1], name) for entry in HELD.values() if entry[0] == "test" for name in entry[2]}
    others = sum(entry[0] == "test" for entry in HELD.values())
    waiting = sorted(name for name, entry in {**HELD, **KEYS_LATER}.items() if entry[0] == "missing")
    dp.promise("every statement of docs/INTERFACE.md is run, held by a test that is there, or waits for a part that is named",
               f"{len(statements())} statements: {len(walked)} run here, {others} held by {len(tests)} tests, "
               f"{len(HELD) - len(walked) - others} not built; missing of what this version should have: {', '.join(waiting) or 'none'}")


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
