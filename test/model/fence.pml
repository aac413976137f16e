/*
 * The protocol of fence.guard, fence.raise and the proxy's announcement, for one fence, small enough to be searched
 * completely. `go run ./test/model` does it, and breaks the protocol in the ways named by the #ifdefs below, each of
 * which has to be found.
 *
 * SESSIONS sessions with tokens 1, 2, ...; those with an even number go through proxy 0, the others through proxy 1. The
 * first becomes a zombie as soon as the second one's token is the mark. Each presents its token and runs up to
 * TRANSACTIONS read-modify-write transactions at READ COMMITTED or REPEATABLE READ, with or without a savepoint before the
 * guard, which it may roll back to. It may stop for ever in the middle of a transaction. The server may crash once.
 *
 * Over-approximated: PostgreSQL's own conflict detection does not help (read and written row are different ones), a
 * session may present its token at any time, and each step may be delayed for ever.
 */

#ifndef SESSIONS
#define SESSIONS 3
#endif
#ifndef TRANSACTIONS
#define TRANSACTIONS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#define NOBODY 255
#define PROXIES 2

/* The database. A version of the mark's row is known by its token, for marks only rise. */
byte mark = 0;                 /* committed and visible */
bool updating = false;         /* an uncommitted version exists: xmax of the newest committed one is set */
byte x = 0;                    /* the application's data: number of committed transactions */
byte last = 0;                 /* token of the newest committed transaction */
byte flushed_mark = 0, flushed_x = 0, flushed_last = 0;   /* what is left after a crash: a prefix of the WAL */

/* The advisory lock of the mark. */
bool sharing[SESSIONS];        /* by a transaction of a session */
bool asking[SESSIONS];         /* a raise for this session's token waits; later guards queue behind it */
byte exclusive = NOBODY;       /* the raise that holds it */

/* What becomes of a backend without its doing. */
bool ended[SESSIONS];          /* the session's: evicted, or the server has crashed */
bool cut[SESSIONS];            /* the control connection that raises for it */

/* Memory of the proxies: highest mark heard of, and highest token whose raise was acknowledged. */
byte heard[PROXIES], announced[PROXIES];

byte acknowledged = 0;         /* highest token whose raise was acknowledged to anybody */

#define token(s)  (s + 1)
#define proxy(s)  (s % PROXIES)

inline higher(a, b) { if :: b > a -> a = b :: else fi }

inline flush() { flushed_mark = mark; flushed_x = x; flushed_last = last }

/* What is left of a transaction would only tell apart states that are the same. */
inline forget() { snapshot = 0; read = 0; seen = 0; repeatable = false; savepoint = false; back = false }

#define raise_waits   (asking[0] || asking[1] || asking[SESSIONS-1])
#define shared_by_any (sharing[0] || sharing[1] || sharing[SESSIONS-1])

/*
 * fence.raise on a control connection, on behalf of session s: read, lock, read again, update, commit, acknowledge.
 * ok: token(s) is the mark as far as anybody can tell.
 */
inline raise(s, ok) {
  ok = false;
  do
  :: atomic {
       cut[s] = false;
       if
       :: mark == token(s) -> ok = true; break       /* told without waiting for anybody */
       :: mark > token(s)  -> higher(heard[proxy(s)], mark); break
       :: else -> asking[s] = true
       fi
     };
#ifdef RAISE_WITHOUT_LOCK
     atomic { asking[s] = false };
#else
     atomic { (exclusive == NOBODY && !shared_by_any) || cut[s] ->
       asking[s] = false;
       if :: cut[s] -> skip :: else -> exclusive = s fi
     };
#endif
     if
     :: cut[s] -> goto again
     :: else
     fi;
#ifndef RAISE_READS_ONCE
     atomic {
       if
       :: cut[s] -> goto again
       :: !cut[s] && mark >= token(s) ->
          if :: exclusive == s -> exclusive = NOBODY :: else fi;
          ok = (mark == token(s)); higher(heard[proxy(s)], mark); break
       :: else
       fi
     };
#endif
     atomic { if :: cut[s] -> goto again :: else -> updating = true fi };
#ifndef RAISE_NOT_DURABLE
     atomic { if :: cut[s] -> goto again :: else -> flush(); flushed_mark = token(s) fi };
#endif
     atomic {
       if
       :: cut[s] -> goto again
       :: else ->
          assert(token(s) > mark);                   /* I3: a mark never goes down */
          mark = token(s); updating = false
       fi
     };
     atomic {
       if
       :: cut[s] -> goto again
       :: else -> if :: exclusive == s -> exclusive = NOBODY :: else fi; ok = true; break
       fi
     };
again: skip
  od;
  atomic {
    if
    :: ok -> higher(acknowledged, token(s)); higher(announced[proxy(s)], token(s)); higher(heard[proxy(s)], token(s))
    :: else
    fi
  }
}

/* The session is held until its announcement is answered. A remembered acknowledgement will do: it accepts nothing. */
inline announce(s, ok) {
  if
  :: announced[proxy(s)] == token(s) -> ok = true
  :: else -> raise(s, ok)
  fi
}

proctype Session(byte me) {
  byte snapshot;        /* the mark in the transaction's snapshot */
  byte read;            /* what it read of the data */
  byte seen;            /* the mark that the guard reads */
  byte left = TRANSACTIONS;
  bool repeatable, savepoint, back, ok;
  bool held;            /* the proxy believes that this transaction is guarded */
#ifdef GUARD_RAISES
  bool raising;
#endif

present:
  atomic { ended[me] = false; held = false; forget() };
#if !defined(GUARD_RAISES) && !defined(ANNOUNCED_AT_FIRST_WRITE)
  announce(me, ok);
  if :: !ok -> goto over :: else fi;
#endif

transaction:
  atomic {
    if :: left == 0 -> goto over :: else -> left-- fi;
    if :: repeatable = false :: repeatable = true fi;
    if :: savepoint = false :: savepoint = true fi;
    back = false;
#ifndef HELD_ACROSS_COMMIT
    held = false;
#endif
    /* The first statement: it reads the data, and above READ COMMITTED takes the snapshot. */
    if
    :: ended[me] -> goto present
    :: else -> read = x; if :: repeatable -> snapshot = mark :: else fi
    fi
  };

guard:
  atomic {
    if
    :: held -> goto write
    :: !held && heard[proxy(me)] > token(me) -> goto rollback        /* memory may reject */
    :: else
    fi
  };
#ifdef MEMORY_ACCEPTS
  if :: announced[proxy(me)] == token(me) -> goto write :: else fi;
#endif
#ifdef ANNOUNCED_AT_FIRST_WRITE
  if :: !sharing[me] -> announce(me, ok); if :: !ok -> goto rollback :: else fi :: else fi;
#endif
#ifdef GUARD_RAISES
  atomic { (exclusive == NOBODY && !shared_by_any) || ended[me] || exclusive == me ->
    if
    :: ended[me] -> goto present
    :: else -> exclusive = me
    fi
  };
  atomic {
    if
    :: ended[me] -> goto present
    :: else -> seen = (repeatable -> snapshot : mark)
    fi;
    if
    :: seen > token(me) -> exclusive = NOBODY; goto rollback
    :: repeatable && snapshot != mark -> exclusive = NOBODY; goto rollback    /* 40001 */
    :: else -> raising = true
    fi
  };
  goto write;
#endif
#ifdef GUARD_IN_ONE_STATEMENT
  atomic { if :: ended[me] -> goto present :: else -> seen = mark fi };
#endif
#ifndef GUARD_WITHOUT_LOCK
  /* Step one. Who has the lock already does not queue. */
  atomic { sharing[me] || (exclusive == NOBODY && !raise_waits) || ended[me] ->
    if :: ended[me] -> goto present :: else -> sharing[me] = true fi
  };
#endif
  /* Step two. */
  atomic {
    if
    :: ended[me] -> goto present
    :: !ended[me] && repeatable -> seen = snapshot
    :: else ->
#ifndef GUARD_IN_ONE_STATEMENT
       seen = mark
#else
       skip
#endif
    fi;
    if
    :: seen != token(me) -> higher(heard[proxy(me)], seen); goto rollback
#ifndef NO_XMAX_RULE
    /* xmax is set: FOR SHARE, which waits for who updates, and fails if the mark has changed. */
    :: seen == token(me) && repeatable && (updating || snapshot != mark) ->
       !updating || ended[me];
       if
       :: ended[me] -> goto present
       :: !ended[me] && snapshot != mark -> goto rollback    /* 40001 */
       :: else
       fi
#endif
    :: else
    fi;
    held = true
  };

write:
  atomic {
    if
    :: ended[me] -> goto present
    :: !ended[me] && savepoint && !back ->
       back = true; sharing[me] = false;            /* ROLLBACK TO a savepoint from before the guard releases the lock */
#ifndef NO_GUARD_AFTER_ROLLBACK_TO
       held = false;
#endif
       goto guard
    :: !ended[me] -> goto commit
    :: !ended[me] -> goto over                       /* stopped: idle in transaction, for ever */
    fi
  };

commit:
  atomic {
    if :: ended[me] -> goto present :: else fi;
    assert(token(me) >= last);                      /* the guarantee, first sentence */
    assert(token(me) >= acknowledged);              /* the guarantee, second sentence */
#ifdef GUARD_RAISES
    assert(token(me) >= mark);
    mark = token(me); raising = false; exclusive = NOBODY;
#endif
    assert(token(me) == mark);                      /* I1, I2, I4: nothing commits but under the mark */
    assert(read == x);                              /* nothing that an older holder committed is overwritten unseen */
    last = token(me);
    x++;
    if :: flush() :: skip fi                        /* synchronous_commit is the application's choice */
  };
  atomic { sharing[me] = false; forget() };         /* locks go after the commit is visible (xact.c CommitTransaction) */
  goto transaction;

rollback:
  atomic {
    sharing[me] = false;
#ifdef GUARD_RAISES
    if :: exclusive == me -> exclusive = NOBODY :: else fi;
#endif
    held = false; forget()
  };
  goto transaction;

over:
  skip
}

#ifndef NO_EVICTION
/* Whoever waits for a raise ends the backends that hold the lock under a lower token. */
#define in_the_way(s)  (sharing[s] && ((s < 1 && asking[1]) || (s < SESSIONS-1 && asking[SESSIONS-1])))

active proctype Evictor() {
end:
  do
  :: atomic { in_the_way(0) -> sharing[0] = false; ended[0] = true }
  :: atomic { in_the_way(1) -> sharing[1] = false; ended[1] = true }
  od
}
#endif

#if CRASHES > 0
active proctype Crash() {
  byte s;
  if
  :: d_step {
       exclusive = NOBODY; updating = false;
       for (s : 0 .. SESSIONS - 1) { sharing[s] = false; ended[s] = true; cut[s] = true };
       mark = flushed_mark; x = flushed_x; last = flushed_last;
       assert(mark >= acknowledged);                /* I3: durable before it is acknowledged */
       s = 0
     }
  :: skip
  fi
}
#endif

init {
  byte s;
  atomic {
    for (s : 0 .. SESSIONS - 1) { run Session(s) };
    s = 0
  }
}
