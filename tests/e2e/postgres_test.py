#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The journal in PostgreSQL from outside: a private server with TLS and scram, set up as docs/POSTGRES.md says.

usage: postgres_test.py DAYBOOK SLOW_DISK [TEST...]"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import daybook_process as dp
from daybook_process import Daemon, event, ndjson, until
from postgres_database import DAEMON, JOURNAL, LEDGER, OWNER_VARIABLE, ROOT, VARIABLE, Database

BINARY, SLOW_DISK = sys.argv[1], sys.argv[2]
NDJSON = "application/x-ndjson"
TRACE_EVENTS = 28185
# namespace: rows, input tokens, output tokens, microdollars
TRACE = [("azure-code", 8819, 18059974, 245896, 57130674), ("azure-conv", 19366, 22361870, 4088665, 77433060)]
SUMS = ("select namespace, count(*), sum(input_tokens), sum(output_tokens), sum(cost_microdollars) from usage "
        "group by namespace order by namespace")
ASSIGNED = re.compile(rb"password\s*=")


def daemon(database, journal=None, environment=None, **sections):
    return Daemon(BINARY, journal=JOURNAL | (journal or {}), environment=environment or database.environment(),
                  **{"consumers": [{"name": "billing", "lease": "3s", "write_timeout": "1s", "sinks": [LEDGER]}],
                     **sections})


@contextlib.contextmanager
def served(database, **more):
    """A daemon that runs on a migrated schema."""
    with daemon(database, **more) as d:
        database.migrate(d)
        try:
            yield d.start()
        except BaseException:
            print("".join(f"# {line}\n" for line in d.log().splitlines()[-60:]), flush=True)
            raise


def write_configuration(d):
    with open(d.path("daybook.yaml"), "w", encoding="utf-8") as file:
        json.dump(d.config, file)


def run(d, *arguments, status=0, **environment):
    d.environment = {**d.environment, **environment}
    done = d.run(*arguments)
    assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout.decode() if status == 0 or done.stdout else done.stderr.decode()


def started_in_vain(d):
    """What a daemon says that ends at its start, and its exit status."""
    d.launch()
    return d.wait(30), d.log()


# ---- set-up ----------------------------------------------------------------------------------


def test_set_up_as_the_page_says():
    with Database() as database, daemon(database) as d:
        write_configuration(d)
        out = run(d, "migrate", "-c", "daybook.yaml", status=3)
        assert "schema daybook" in out and "not there" in out, out
        status, log = started_in_vain(d)
        assert status == 2 and "daybook migrate" in log, (status, log)
        assert "daybook migrate" in run(d, "check", "-c", "daybook.yaml", status=2)
        answer = json.loads(run(d, "migrate", "-c", "daybook.yaml", "--json", status=3))
        assert (answer["found"], answer["schema"], answer["applied"]) == (0, "daybook", False), answer
        sql = run(d, "migrate", "-c", "daybook.yaml", "--sql")
        assert sql == run(d, "migrate", "-c", "daybook.yaml", "--sql", "--from", "0", **{VARIABLE: ""})
        d.environment = database.environment()
        refused = run(d, "migrate", "-c", "daybook.yaml", "--apply", status=2)
        assert "daybook migrate" in refused and "permission denied" in refused, refused
        out = run(d, "migrate", "-c", "daybook.yaml", "--apply", "--dsn-env", OWNER_VARIABLE)
        assert "brought forward" in out, out
        # Without the grants a start says so.
        d.launch()
        until("it says what lacks", lambda: "permission denied" in d.log() or "not whole" in d.log())
        d.kill(signal.SIGKILL)
        d.wait()
        database.server.sql(database.grants + database.vacuum, database.owner_dsn())
        assert "nothing to do" in run(d, "migrate", "-c", "daybook.yaml")
        answer = json.loads(run(d, "migrate", "-c", "daybook.yaml", "--apply", "--json", "--dsn-env", OWNER_VARIABLE))
        assert answer["found"] == answer["wanted"] and not answer["applied"], answer
        assert "ok      journal schema daybook" in run(d, "check", "-c", "daybook.yaml")
        # The first event to the ledger.
        begin = time.monotonic()
        d.start()
        ready = time.monotonic() - begin
        assert d.post(event("first-1", model="m", cost_microdollars=1100))[0] == 201
        until("it is in the ledger", lambda: d.rows() == [("first-1",)])
        row = time.monotonic() - begin
        assert d.stats()["journal"]["backend"] == "postgres" and d.stats()["journal"]["mode"] == "billing_grade"
        assert d.post(event("first-1", model="m", cost_microdollars=1100))[0] == 200
        assert d.post(event("first-1", model="m", cost_microdollars=1101))[0] == 409
        encrypted = database.sql("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
                                 "WHERE application_name = 'daybook'")
        assert encrypted == "t", encrypted
        assert d.stop()[0] == 0, d.log()
        dp.promise("as docs/POSTGRES.md says: two roles, migrate, grants; TLS and scram; an event to the ledger",
                   f"ready after {ready:.2f} s, the row after {row:.2f} s; migrate ended with 3, then 0; the daemons' role may "
                   "not make the schema")


def test_the_printed_statements_make_the_schema():
    with Database() as database, daemon(database, {"schema": "by_hand"}) as d:
        write_configuration(d)
        sql = run(d, "migrate", "-c", "daybook.yaml", "--sql")
        database.server.sql(sql, database.owner_dsn())
        database.server.sql(database.grants.replace("daybook.", "by_hand.").replace("SCHEMA daybook", "SCHEMA by_hand"),
                            database.owner_dsn())
        assert "nothing to do" in run(d, "migrate", "-c", "daybook.yaml")
        d.start()
        assert d.post(event("by-hand"))[0] == 201
        d.drained()


def test_a_missing_grant_is_named():
    with Database() as database, daemon(database) as d:
        database.migrate(d)
        for revoke, named in (("REVOKE UPDATE ON daybook.lane FROM daybook", "lane"),
                              ("REVOKE USAGE ON SEQUENCE daybook.token_seq FROM daybook", "token_seq")):
            database.sql(revoke)
            status, log = started_in_vain(d)
            assert status == 2 and named in log and "POSTGRES.md" in log, (status, log)
            database.server.sql(database.grants, database.owner_dsn())
        database.sql("ALTER TABLE daybook.event DROP CONSTRAINT event_request_id")
        status, log = started_in_vain(d)
        assert status == 2 and "event_request_id" in log, (status, log)


def test_a_service_file():
    with Database() as database, tempfile.TemporaryDirectory() as place:
        with open(f"{place}/services", "w", encoding="ascii") as file:
            file.write(f"[usage-journal]\nhost=localhost\nhostaddr=127.0.0.1\nport={database.server.port}\n"
                       "dbname=journal\nuser=daybook\nsslmode=verify-full\n"
                       f"sslrootcert={database.server.directory}/server.crt\n")
        with open(f"{place}/passwords", "w", encoding="ascii") as file:
            file.write(f"*:*:journal:daybook:{DAEMON}\n")
        os.chmod(f"{place}/passwords", 0o600)
        with daemon(database) as owner:
            database.migrate(owner)
        with Daemon(BINARY, journal={"backend": "postgres", "service": "usage-journal"},
                    environment={"PGSERVICEFILE": f"{place}/services", "PGPASSFILE": f"{place}/passwords"}) as d:
            d.start()
            assert d.post(event("by-service"))[0] == 201
            d.drained()
            with open(f"/proc/{d.process.pid}/environ", "rb") as file:
                assert DAEMON.encode() not in file.read()


# ---- operators -------------------------------------------------------------------------------


def test_what_operators_do():
    one_try = {"name": "billing", "lease": "600ms", "write_timeout": "200ms", "max_hand_outs": 1, "reject_brake": 1000,
               "sinks": [LEDGER]}
    with Database() as database, served(database, journal={"max_delivery_attempts": 1}, consumers=[one_try]) as d:
        assert d.post(event("fine-1", subject="a"))[0] == 201
        d.drained()
        d.reject("bad")
        events = [event(f"bad-{i}", subject=f"bad{i}", model="bad") for i in range(4)]
        assert d.post(ndjson(events + [event("fine-2", subject="b")]), NDJSON)[0] == 200
        until("they are quarantined", lambda: d.consumer()["quarantined"] == 4)
        status, _, state = d.get("/v1/events/bad-0")
        assert status == 200 and state["consumers"][0]["state"] == "quarantined", state
        shown = run(d, "quarantine", "list", "--consumer", "billing", "--json")
        assert [json.loads(line)["request_id"] for line in shown.splitlines()] == [e["request_id"] for e in events]
        run(d, "quarantine", "discard", "--consumer", "billing", "--why", "test", "bad-3")
        d.mend("bad")
        run(d, "quarantine", "release", "--consumer", "billing", "bad-0")
        answer = d.request("POST", "/v1/consumers/billing/quarantine/release", json.dumps({"reason": "rejected"}),
                           {"Content-Type": "application/json", "Daybook-Operator": "somebody"})
        assert answer[0] == 200, answer
        d.drained()
        assert {row[0] for row in d.rows()} == {"fine-1", "fine-2", "bad-0", "bad-1", "bad-2"}
        assert d.get("/v1/events/bad-3")[0] == 404  # discarded by the only consumer there is: forgotten
        run(d, "consumers", "start", "audit", "--from", "now")
        assert d.request("POST", "/v1/consumers/billing/rewind")[0] == 200
        d.drained()
        run(d, "consumers", "retire", "audit")
        trail = [json.loads(line) for line in run(d, "operations", "--json").splitlines()]
        kinds = {entry["operation"] if "operation" in entry else entry["kind"] for entry in trail}
        assert {"release", "discard", "rewind", "retire"} <= kinds, trail
        exported = [json.loads(line) for line in run(d, "export").splitlines()]
        positions = [line["position"] for line in exported]
        assert len(exported) == 5 and positions == sorted(positions)
        metrics = d.get("/metrics")[2].decode()
        assert re.search(r'^daybook_quarantined_events\{[^}]*consumer="billing"[^}]*\} 0$', metrics, re.M), metrics
        out = run(d, "backup", "--out", "elsewhere", "-c", "daybook.yaml", status=2)
        assert "POSTGRES.md" in out, out


# ---- what goes down --------------------------------------------------------------------------


class Producer:
    """Sends events one after the other, each again until it is answered; what was answered is kept. Ends with the block that it
    is the context of, and holds up no end of a test that failed."""

    def __init__(self, d, prefix, keys=8):
        self.d, self.prefix, self.keys = d, prefix, keys
        self.answered, self.refused, self.stop = [], 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)  # a test that fails ends all the same
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(10)

    def run(self):
        number = 0
        while not self.stop.is_set():
            body = event(f"{self.prefix}-{number}", subject=f"{self.prefix}-{number % self.keys}", n=number)
            try:
                status, _, answer = self.d.post(body)
            except OSError:
                status, answer = 0, None
            if status in (200, 201):
                self.answered.append(body)
                number += 1
            else:
                assert status in (0, 503), (status, answer)
                self.refused += 1
                time.sleep(0.02)

    def end(self):
        self.stop.set()
        self.thread.join()
        return self.answered


def check_ledger(d, answered, name="usage.db"):
    """Every answered event once, in order within its key."""
    rows = d.rows("select request_id, subject from usage order by rowid", name)
    assert len(rows) == len({row[0] for row in rows})
    for subject in {e["subject"] for e in answered}:
        sent = [e["request_id"] for e in answered if e["subject"] == subject]
        got = [row[0] for row in rows if row[1] == subject]
        assert got[:len(sent)] == sent and len(got) - len(sent) <= 1, (subject, sent[-3:], got[-3:])


def settled(d):
    until("everything is delivered", lambda: d.consumer()["drained"] and not d.consumer()["in_flight"], 60)


def test_the_server_is_restarted():
    with Database() as database, served(database) as d:
        with Producer(d, "restart") as producer:
            for mode in ("fast", "immediate"):
                before = len(producer.answered)
                until("events are answered", lambda n=before: len(producer.answered) > n + 50)
                database.server.restart(mode)
                before = len(producer.answered)
                until("they are again", lambda n=before: len(producer.answered) > n + 20)
            database.server.stop()
            until("a load balancer is told", lambda: d.get("/readyz")[0] == 503)
            assert d.get("/readyz")[2]["code"] == "journal_failed" and d.get("/healthz")[0] == 200
            assert d.get("/v1/stats")[0] in (200, 503) and d.get("/metrics")[0] in (200, 503)
            database.server.start()
            until("and told again", lambda: d.get("/readyz")[0] == 200)
            answered = producer.end()
            settled(d)
            check_ledger(d, answered)
            assert d.consumer()["quarantined"] == 0
            assert "answers again" in d.log()
            status, took = d.stop()
            assert status == 0, d.log()
            dp.promise("three restarts of the server under load: every answered event once, in order; the daemon stays",
                       f"{len(answered)} answered, {producer.refused} refused or unknown meanwhile and repeated; stopped in {took:.2f} s")


def test_kill_9_of_the_daemon():
    with Database() as database, served(database) as d:
        answered = []
        for number in range(4):
            with Producer(d, f"kill{number}") as producer:
                until("events are answered", lambda p=producer: len(p.answered) > 100)
                d.kill(signal.SIGKILL)
                d.wait()
                answered += producer.end()
                d.start()
        settled(d)
        check_ledger(d, answered)
        assert d.consumer()["quarantined"] == 0


def test_a_start_without_the_database():
    with Database() as database, daemon(database) as d:
        database.migrate(d)
        database.server.stop()
        d.start()
        assert d.get("/readyz")[0] == 503
        status, _, answer = d.post(event("early"))
        assert (status, answer["reason"]) == (503, "backend"), answer
        database.server.start()
        until("it serves", lambda: d.get("/readyz")[0] == 200, 40)
        assert d.post(event("early"))[0] == 201
        d.drained()
        # And a stop while it is away again.
        database.server.stop()
        status, took = d.stop()
        assert status in (0, 1) and took < 30, (status, took, d.log())


def every_process(server, number):
    """A signal for the server and all of its children: it hangs, and its sockets stay open."""
    with open(f"{server.data}/postmaster.pid", encoding="ascii") as file:
        postmaster = file.readline().strip()
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", postmaster], stdout=subprocess.PIPE, check=True).stdout.split()
    for pid in [postmaster, *children]:
        with contextlib.suppress(ProcessLookupError):  # a worker that had just ended
            os.kill(int(pid), number)


def test_a_server_that_hangs():
    with Database() as database, served(database, journal={"operation_timeout": "2s"},
                                        shutdown={"deadline": "1s", "flush_timeout": "1s"}) as d:
        assert d.post(event("before"))[0] == 201
        every_process(database.server, signal.SIGSTOP)
        try:
            begin = time.monotonic()
            status, _, answer = d.post(event("hung"))
            took = time.monotonic() - begin
            assert (status, answer["reason"]) == (503, "timed_out"), answer
            assert took < 4, took
            begin = time.monotonic()
            assert d.get("/healthz")[0] == 200 and d.get("/readyz")[0] in (200, 503)
            quick = time.monotonic() - begin
            assert quick < 1, quick
            status, stopped = d.stop(seconds=30)
            # T1, T2, T5: within its bound of 6 s by itself, not by the watchdog; what only the server knows is unknown.
            assert status == 0 and stopped < 6, (status, stopped, d.log())
            drain = [line for line in d.log().splitlines() if " drain " in line]
            assert len(drain) == 1 and "drained=unknown" in drain[0] and "undelivered=unknown" in drain[0], drain
        finally:
            every_process(database.server, signal.SIGCONT)
        d.start()
        assert d.post(event("hung"))[0] in (200, 201)
        settled(d)
        assert {row[0] for row in d.rows()} == {"before", "hung"}
        dp.promise("a database that hangs: an append is answered within 4 s at an operation_timeout of 2 s, health at once, a stop "
                   "ends by itself within its bound of 6 s and says that it does not know what waits",
                   f"answered after {took:.2f} s, health and readiness after {quick:.3f} s, stopped after {stopped:.2f} s with {status}")


def test_backends_that_hang_are_left():
    """The server goes on, and what hangs are its processes that serve the daemon: nobody waits for them for ever."""
    with Database() as database, served(database) as d:
        assert d.post(event("before"))[0] == 201
        settled(d)
        pids = database.sql("SELECT pid FROM pg_stat_activity WHERE usename = 'daybook' AND state = 'idle'").split()
        assert pids
        for pid in pids:
            os.kill(int(pid), signal.SIGSTOP)
        begin = time.monotonic()
        try:
            with Producer(d, "hung") as producer:
                until("events are answered again", lambda: len(producer.answered) > 30, 100)
                answered = producer.end()
            settled(d)
            took = time.monotonic() - begin
            check_ledger(d, answered)
        finally:
            for pid in pids:
                os.kill(int(pid), signal.SIGCONT)
        dp.promise("backends that hang are left and others taken: everything is delivered within 100 s", f"{took:.1f} s")
        assert took < 100, took


def test_connections_are_ended_and_all_in_use():
    with Database(max_connections="24", superuser_reserved_connections="3") as database, served(database) as d:
        with Producer(d, "ended") as producer:
            for _ in range(3):
                before = len(producer.answered)
                until("events are answered", lambda n=before: len(producer.answered) > n + 30, 60)
                assert database.terminate() > 0
            hogs = [subprocess.Popen([f"{database.server.bin}/psql", "-XAtq", "-c", "SELECT pg_sleep(6)"],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     env=database.server.psql_environment(database.dsn())) for _ in range(24)]
            database.terminate()
            for hog in hogs:
                hog.wait()
            before = len(producer.answered)
            until("events are answered", lambda: len(producer.answered) > before + 30, 120)
            answered = producer.end()
            settled(d)
            check_ledger(d, answered)


def test_read_only_by_default_changes_nothing():
    with Database() as database, served(database) as d:
        database.sql("ALTER DATABASE journal SET default_transaction_read_only = on")
        database.terminate()
        until("an event is stored", lambda: d.post(event("read-only"))[0] in (200, 201))
        settled(d)


# Fires while a transaction commits: what it commits with.
WATCH = """
CREATE TABLE public.seen (what text, value text);
CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $fn$ BEGIN
    INSERT INTO public.seen VALUES (TG_TABLE_NAME||' '||TG_OP, current_setting('synchronous_commit'));
    RETURN NULL; END $fn$;
CREATE CONSTRAINT TRIGGER watch AFTER INSERT ON daybook.event DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION public.watch();
CREATE CONSTRAINT TRIGGER watch AFTER INSERT OR DELETE ON daybook.mark DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION public.watch();
CREATE CONSTRAINT TRIGGER watch AFTER INSERT ON daybook.operation DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION public.watch();
"""


def test_A1_a_role_that_has_switched_synchronous_commit_off_is_overruled():
    with Database() as database, served(database) as d:
        database.sql("ALTER ROLE daybook SET synchronous_commit = off;" + WATCH)
        database.terminate()
        until("an event is stored", lambda: d.post(event("commit"))[0] in (200, 201))
        settled(d)
        run(d, "consumers", "start", "late", "--from", "now")
        assert database.sql("SELECT DISTINCT what, value FROM public.seen ORDER BY 1").splitlines() == [
            "event INSERT|on", "mark DELETE|on", "mark INSERT|on", "operation INSERT|on"]


# ---- clocks, the real trace, the other engine ------------------------------------------------


def test_a_clock_that_is_two_minutes_off_changes_nothing():
    with Database() as database, served(database) as right:
        database.migrate(right)
        now_us = int(time.time() * 1e6)
        for offset in (120, -120):
            shared = right.path("usage.db")
            wrong = daemon(database, consumers=[{"name": "billing", "lease": "3s", "write_timeout": "1s",
                                                 "sinks": [{**LEDGER, "path": shared}]}],
                           environment={**database.environment(), "DAYBOOK_TEST_CLOCK": str(offset)})
            wrong.slow_disk = SLOW_DISK
            with wrong as d:
                d.start()
                with Producer(right, f"right{offset}") as one, Producer(d, f"wrong{offset}") as other:
                    until("both are answered", lambda p=one, q=other: min(len(p.answered), len(q.answered)) > 150)
                    answered = one.end() + other.end()
                settled(d)
                check_ledger(right, answered)
                assert d.consumer()["quarantined"] == 0
                ages = [d.consumer()["oldest_unresolved_age_seconds"], d.stats()["journal"]["dedupe_window_seconds"]]
                assert all(age is None or 0 <= age < 60 for age in ages), ages
                assert d.stop()[0] == 0
        taken = [int(n) for n in database.sql("SELECT min(accepted_at), max(accepted_at) FROM daybook.event").split("|")]
        assert now_us - 5e6 < taken[0] and taken[1] < time.time() * 1e6 + 5e6, (now_us, taken)


def trace_lines():
    return subprocess.run([os.path.join(ROOT, "examples/azure-llm/to-ndjson")], stdout=subprocess.PIPE,
                          check=True).stdout


def test_the_real_trace():
    with Database() as database, served(database) as d:
        lines = trace_lines()
        begin = time.monotonic()
        done = d.run("append", "-", stdin=lines)
        taken = time.monotonic() - begin
        assert done.returncode == 0 and f"accepted {TRACE_EVENTS}".encode() in done.stdout + done.stderr, done
        d.drained()
        delivered = time.monotonic() - begin
        assert d.rows(SUMS) == TRACE, d.rows(SUMS)
        done = d.run("append", "-", stdin=lines)
        assert f"already present {TRACE_EVENTS}".encode() in done.stdout + done.stderr, done
        assert d.rows(SUMS) == TRACE
        dp.promise(f"{TRACE_EVENTS} events of the real trace: the sums of the trace, sent twice",
                   f"taken in {taken:.1f} s, delivered in {delivered:.1f} s; {d.rows(SUMS)}")


def test_a_journal_is_moved_from_one_engine_to_the_other():
    lines = trace_lines().splitlines(keepends=True)[:3000]
    future = {"name": "billing", "start": "2099-01-01T00:00:00Z", "sinks": [LEDGER]}
    with Database() as database, served(database) as pg, Daemon(BINARY, consumers=[future]) as log, \
            Daemon(BINARY) as back:
        log.start()
        back.start()
        assert log.run("append", "-", stdin=b"".join(lines)).returncode == 0
        moved = log.run("export", "--where", "all").stdout
        assert moved.count(b"\n") == 3000
        done = pg.run("append", "-", stdin=moved)
        assert done.returncode == 0 and b"accepted 3000" in done.stdout + done.stderr, done
        # Interrupted and done again: nothing twice.
        done = pg.run("append", "-", stdin=moved)
        assert b"already present 3000" in done.stdout + done.stderr, done
        pg.drained()
        again = pg.run("export", "--where", "all").stdout
        def facts(text):
            return [{k: v for k, v in json.loads(line).items() if k not in ("position", "accepted_at")}
                    for line in text.splitlines()]
        assert facts(again) == facts(moved)
        assert back.run("append", "-", stdin=again).returncode == 0
        back.drained()
        assert back.rows(SUMS) == pg.rows(SUMS) and sum(row[1] for row in pg.rows(SUMS)) == 3000


# ---- the secret ------------------------------------------------------------------------------

MARK = "S3cr3tMarkOfTheTest"


def whatever_was_said(d):
    """Logs, output, answers, the process's command line, and what its children have, if there are any."""
    said = [d.log().encode(), d.out().encode()]
    pid = d.process.pid
    if d.process.poll() is None:
        for path in ("/v1/stats", "/v1/consumers", "/metrics", "/readyz", "/v1/operations", "/v1/events", "/v1/events/x"):
            answer = d.get(path)[2]
            said.append(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
        said.append(json.dumps(d.post(event("secret"))[2]).encode())
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            said.append(file.read())
        with open(f"/proc/{pid}/comm", "rb") as file:
            said.append(file.read())
        children = subprocess.run(["pgrep", "-P", str(pid)], stdout=subprocess.PIPE, check=False).stdout.split()
        for child in children:
            with open(f"/proc/{child.decode()}/environ", "rb") as file:
                said.append(file.read())
    return said


def expect_silence(what, said):
    for text in said:
        assert MARK.encode() not in text and not ASSIGNED.search(text), (what, text[-2000:])


def test_the_connection_string_is_never_told():
    kinds = 0
    with Database() as database:
        database.server.sql(f"ALTER ROLE daybook PASSWORD '{MARK}'")
        good = database.dsn(password=MARK)
        with daemon(database) as owner:
            database.migrate(owner)
        bad = {"wrong password": database.dsn(password=MARK + "x"), "no such database": database.dsn(password=MARK, database="nope"),
               "no such role": database.dsn(user="nobody", password=MARK), "no server": good.replace(str(database.server.port), "1"),
               "no such host": good.replace("hostaddr='127.0.0.1'", "").replace("localhost", "host.invalid"),
               "no TLS": good.replace("verify-full", "disable"), "no syntax": f"host=localhost password={MARK} nonsense",
               "half a quotation": f"host=localhost password='{MARK}", "no URI": f"postgresql://daybook:{MARK}@[::1/journal",
               "unknown word": f"hots=localhost password={MARK}", "a bad port": f"postgresql://daybook:{MARK}@localhost:many/journal"}
        for what, dsn in bad.items():
            with daemon(database, environment={VARIABLE: dsn}) as d:
                d.launch()
                until("it serves or has ended", lambda d=d: d.process.poll() is not None or "listening" in d.out(), 30)
                if d.process.poll() is None:
                    d.is_up()
                said = whatever_was_said(d)
                assert d.log(), what
                for command in (("check", "-c", "daybook.yaml"), ("migrate", "-c", "daybook.yaml"),
                                ("migrate", "-c", "daybook.yaml", "--apply")):
                    done = d.run(*command)
                    assert done.returncode != 0, (what, command, done)
                    said += [done.stdout, done.stderr]
                expect_silence(what, said)
                kinds += 1
        # In the configuration by mistake.
        with daemon(database, {"dsn_env": f"host=localhost password={MARK}"}) as d:
            status, log = started_in_vain(d)
            assert status == 2 and "journal.dsn_env" in log
            expect_silence("in the configuration", [log.encode(), d.out().encode()])
        with daemon(database, {"schema": "nope"}, environment={VARIABLE: good}) as d:
            status, log = started_in_vain(d)
            assert status == 2 and "nope" in log
            expect_silence("missing schema", [log.encode(), d.out().encode()])
        # One that serves, and loses what it has.
        with daemon(database, environment={VARIABLE: good}, log={"level": "debug"}) as d:
            d.start()
            assert d.post(event("before"))[0] == 201
            said = whatever_was_said(d)
            until("its connections are killed", lambda: database.terminate() > 0)
            said += whatever_was_said(d)
            database.server.sql(f"ALTER ROLE daybook PASSWORD '{MARK}2'")
            database.terminate()
            until("it notices", lambda: d.get("/readyz")[0] == 503)
            said += whatever_was_said(d)
            database.server.stop("immediate")
            said += whatever_was_said(d)
            d.stop()
            expect_silence("killed backends, a changed password, no server", said + whatever_was_said(d))
        assert MARK not in database.server.log(), "in the server's log"
        dp.promise("a marked password in the connection string is in no log line, error, answer, metric, figure, command line or "
                   "child, whatever fails", f"{kinds + 5} kinds of failure, the mark in none of them")


if shutil.which("pgrep") is None:
    print("# pgrep is not installed: children are not looked at", flush=True)
sys.exit(dp.run_tests(globals(), sys.argv[3:]))
