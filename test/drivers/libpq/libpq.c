/* The program of package drivers for libpq: the plain calls, and pipeline mode. */
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INSERT "INSERT INTO ledger (note) VALUES ($1)"

static void die(const char *what, PGconn *conn)
{
	fprintf(stderr, "%s: %s\n", what, PQerrorMessage(conn));
	exit(1);
}

/* connect_with takes host, port, database and user from the environment. */
static PGconn *connect_with(const char *conninfo)
{
	PGconn *conn = PQconnectdb(conninfo);
	if (PQstatus(conn) != CONNECTION_OK)
		die("connect", conn);
	return conn;
}

/* state is a result's SQLSTATE. The result is freed; the text lives until the next call. */
static const char *state(PGresult *res)
{
	static char text[64];
	const char *code = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	ExecStatusType status = PQresultStatus(res);
	if (code)
		snprintf(text, sizeof text, "%s", code);
	else if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
		strcpy(text, "00000");
	else
		snprintf(text, sizeof text, "%s", PQresStatus(status));
	PQclear(res);
	return text;
}

static void report(const char *check, const char *result) { printf("%s: %s\n", check, result); }

static void report_value(const char *check, PGconn *conn, const char *sql)
{
	PGresult *res = PQexec(conn, sql);
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		die(check, conn);
	report(check, PQgetvalue(res, 0, 0));
	PQclear(res);
}

static const char *with_note(PGconn *conn, const char *statement, const char *note)
{
	const char *values[] = {note};
	if (statement)
		return state(PQexecPrepared(conn, statement, 1, values, NULL, NULL, 0));
	return state(PQexecParams(conn, INSERT, 1, NULL, values, NULL, NULL, 0));
}

static void must(PGconn *conn, const char *sql)
{
	if (strcmp(state(PQexec(conn, sql)), "00000") != 0)
		die(sql, conn);
}

static const char *copy_in(PGconn *conn, const char *note)
{
	PGresult *res = PQexec(conn, "COPY ledger (note) FROM STDIN");
	if (PQresultStatus(res) != PGRES_COPY_IN)
		return state(res);
	PQclear(res);
	for (int i = 0; i < 2; i++)
		if (PQputCopyData(conn, note, strlen(note)) != 1 || PQputCopyData(conn, "\n", 1) != 1)
			die("copy data", conn);
	if (PQputCopyEnd(conn, NULL) != 1)
		die("copy end", conn);
	static char last[64];
	strcpy(last, "no result");
	while ((res = PQgetResult(conn)))
		snprintf(last, sizeof last, "%s", state(res));
	return last;
}

static void copy_out(PGconn *conn)
{
	char *row;
	int n;
	PQclear(PQexec(conn, "COPY (SELECT note FROM ledger WHERE note = 'write') TO STDOUT"));
	while ((n = PQgetCopyData(conn, &row, 0)) > 0) {
		printf("copy out: %s", row);
		PQfreemem(row);
	}
	if (n != -1)
		die("copy out", conn);
	PQclear(PQgetResult(conn));
	while (PQgetResult(conn))
		;
}

/*
 * pipeline sends rounds of a query, a write, a query and a Sync without waiting for a reply, and reads the replies afterwards.
 * The results are written one after the other, '|' for the Sync.
 */
static void pipeline(PGconn *conn, const char *note, int rounds, char *results, size_t size)
{
	const char *values[] = {note};
	if (!PQenterPipelineMode(conn))
		die("pipeline mode", conn);
	for (int i = 0; i < rounds; i++)
		if (!PQsendQueryParams(conn, "SELECT 1", 0, NULL, NULL, NULL, NULL, 0) ||
		    !PQsendQueryParams(conn, INSERT, 1, NULL, values, NULL, NULL, 0) ||
		    !PQsendQueryParams(conn, "SELECT 2", 0, NULL, NULL, NULL, NULL, 0) || !PQpipelineSync(conn))
			die("pipeline", conn);
	results[0] = 0;
	for (int syncs = 0; syncs < rounds;) {
		PGresult *res = PQgetResult(conn);
		if (!res) /* behind each query's results */
			continue;
		const char *text = "|";
		if (PQresultStatus(res) == PGRES_PIPELINE_SYNC) {
			syncs++;
			PQclear(res);
		} else if (PQresultStatus(res) == PGRES_PIPELINE_ABORTED) {
			text = "aborted";
			PQclear(res);
		} else
			text = state(res);
		size_t used = strlen(results);
		snprintf(results + used, size - used, "%s%s", used ? " " : "", text);
	}
	if (!PQexitPipelineMode(conn))
		die("end of pipeline mode", conn);
}

/* cancel asks until it is heard: the statement may not have begun yet. */
static const char *cancel(PGconn *conn)
{
	char why[256];
	PGcancel *handle = PQgetCancel(conn);
	if (!PQsendQuery(conn, "SELECT pg_sleep(30)"))
		die("cancel", conn);
	struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
	do
		if (!PQcancel(handle, why, sizeof why)) {
			fprintf(stderr, "%s", why);
			exit(1);
		}
	while (poll(&fd, 1, 50) == 0);
	PQfreeCancel(handle);
	const char *text = state(PQgetResult(conn));
	while (PQgetResult(conn))
		;
	return text;
}

/* stale_connect shows how a program learns the SQLSTATE of a refused login: libpq has no field for it, but it can be made the text. */
static const char *stale_connect(void)
{
	PGconn *conn = PQconnectStart("options='-c fence.token=15'");
	PQsetErrorVerbosity(conn, PQERRORS_SQLSTATE);
	for (PostgresPollingStatusType next = PGRES_POLLING_WRITING; next != PGRES_POLLING_OK; next = PQconnectPoll(conn)) {
		if (next == PGRES_POLLING_FAILED) {
			char *found = strstr(PQerrorMessage(conn), "FATAL:  ");
			if (!found)
				return PQerrorMessage(conn);
			found[strcspn(found, "\n")] = 0;
			return found + strlen("FATAL:  ");
		}
		struct pollfd fd = {.fd = PQsocket(conn), .events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT};
		poll(&fd, 1, 10000);
	}
	return "connected";
}

int main(void)
{
	char results[4096];
	setvbuf(stdout, NULL, _IOLBF, 0);

	PGconn *bare = connect_with("");
	report("no token", state(PQexec(bare, "INSERT INTO ledger (note) VALUES ('no token')")));
	must(bare, "SET fence.token = '10'");
	report("token by SET", state(PQexec(bare, "INSERT INTO ledger (note) VALUES ('token by SET')")));

	PGconn *old = connect_with("options='-c fence.token=10'");
	report_value("token at connect", old, "SELECT current_setting('fence.token')");
	report("write", state(PQexec(old, "INSERT INTO ledger (note) VALUES ('write')")));
	if (strcmp(state(PQprepare(old, "write", INSERT, 1, NULL)), "00000") != 0)
		die("prepare", old);
	const char *worst = "00000";
	for (int i = 0; i < 3; i++) {
		const char *text = with_note(old, "write", "prepared write");
		if (strcmp(text, "00000") != 0)
			worst = strdup(text);
	}
	report("prepared write", worst);
	must(old, "BEGIN");
	if (strcmp(with_note(old, NULL, "commit"), "00000") != 0)
		die("write", old);
	report("commit", state(PQexec(old, "COMMIT")));
	must(old, "BEGIN");
	if (strcmp(with_note(old, NULL, "rollback"), "00000") != 0)
		die("write", old);
	report("rollback", state(PQexec(old, "ROLLBACK")));
	report("copy in", copy_in(old, "copy in"));
	copy_out(old);
	pipeline(old, "pipeline", 1, results, sizeof results);
	report("pipeline", strcmp(results, "00000 00000 00000 |") == 0 ? "00000" : results);
	report("cancel", cancel(old));

	PGconn *next = connect_with("options='-c fence.token=20'");
	report_value("takeover", next, "SELECT current_setting('fence.token')");

	report("stale write", state(PQexec(old, "INSERT INTO ledger (note) VALUES ('stale write')")));
	report("stale prepared write", with_note(old, "write", "stale prepared write"));
	must(old, "BEGIN");
	report("stale transaction", with_note(old, NULL, "stale transaction"));
	report("behind the refusal", state(PQexec(old, "SELECT 1")));
	must(old, "ROLLBACK");
	report("stale copy in", copy_in(old, "stale copy in"));
	pipeline(old, "stale pipeline", 3, results, sizeof results);
	const char *expected = "00000 ZF001 aborted | 00000 ZF001 aborted | 00000 ZF001 aborted |";
	report("stale pipeline", strcmp(results, expected) == 0 ? "ZF001" : results);
	report("stale SET", state(PQexec(connect_with(""), "SET fence.token = '15'")));
	report("stale connect", stale_connect());
	report_value("usable after refusal", old, "SELECT 42");
	report("new holder's write", state(PQexec(next, "INSERT INTO ledger (note) VALUES ('new holder''s write')")));
	PQfinish(old);
	PQfinish(next);
	return 0;
}
