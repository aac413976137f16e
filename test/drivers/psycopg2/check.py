"""The program of package drivers for psycopg2. Address, database and user come from the environment."""

import io
import threading

import psycopg2


def report(check, work):
    """Prints the SQLSTATE that a piece of work ends with."""
    try:
        work()
        print(f"{check}: 00000")
    except psycopg2.Error as e:
        print(f"{check}: {e.pgcode or str(e).split('FATAL:  ')[-1].splitlines()[0]}")


def connect(**kwargs):
    conn = psycopg2.connect("", **kwargs)
    conn.autocommit = True
    return conn


def run(conn, sql, *args):
    with conn.cursor() as cursor:
        cursor.execute(sql, args or None)


def value(conn, sql):
    with conn.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def write(conn, note):
    run(conn, "INSERT INTO ledger (note) VALUES (%s)", note)


def copy_in(conn, note):
    with conn.cursor() as cursor:
        cursor.copy_expert("COPY ledger (note) FROM STDIN", io.StringIO(f"{note}\n{note}\n"))


def transaction(conn, *notes):
    """psycopg2 begins transactions by itself; its context manager commits or rolls back."""
    conn.autocommit = False
    try:
        with conn:
            for note in notes:
                write(conn, note)
    finally:
        conn.autocommit = True


def cancel(conn):
    ended = threading.Event()

    def ask():
        while not ended.wait(0.05):
            conn.cancel()

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        run(conn, "SELECT pg_sleep(30)")
    finally:
        ended.set()
        asking.join()


bare = connect()
report("no token", lambda: write(bare, "no token"))
run(bare, "SET fence.token = %s", "10")
report("token by SET", lambda: write(bare, "token by SET"))

old = connect(options="-c fence.token=10")
print("token at connect:", value(old, "SELECT current_setting('fence.token')"))
report("write", lambda: write(old, "write"))
run(old, "PREPARE write (text) AS INSERT INTO ledger (note) VALUES ($1)")
report("prepared write", lambda: [run(old, "EXECUTE write (%s)", "prepared write") for _ in range(3)])
report("commit", lambda: transaction(old, "commit"))
old.autocommit = False
write(old, "rollback")
report("rollback", old.rollback)
old.autocommit = True
report("copy in", lambda: copy_in(old, "copy in"))
with old.cursor() as cursor:
    out = io.StringIO()
    cursor.copy_expert("COPY (SELECT note FROM ledger WHERE note = 'write') TO STDOUT", out)
    print("copy out:", out.getvalue().strip())
report("cancel", lambda: cancel(connect()))

new = connect(options="-c fence.token=20")
print("takeover:", value(new, "SELECT current_setting('fence.token')"))

report("stale write", lambda: write(old, "stale write"))
report("stale prepared write", lambda: run(old, "EXECUTE write (%s)", "stale prepared write"))
old.autocommit = False
report("stale transaction", lambda: write(old, "stale transaction"))
report("behind the refusal", lambda: run(old, "SELECT 1"))
old.rollback()
old.autocommit = True
report("stale copy in", lambda: copy_in(old, "stale copy in"))
report("stale SET", lambda: run(connect(), "SET fence.token = %s", "15"))
report("stale connect", lambda: connect(options="-c fence.token=15"))
print("usable after refusal:", value(old, "SELECT 42"))
report("new holder's write", lambda: write(new, "new holder's write"))
