package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// The guarantee itself, read from the database's commit order by logical decoding: while holders follow each other and
// old ones keep writing through two proxies, in all protocols and isolation levels, the tokens of committed transactions
// never decrease, and none is lower than the mark was when it committed.
func TestTokensOfCommittedWritesNeverDecrease(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	c.Exec(t, db, "CREATE TABLE written (token bigint NOT NULL, n int); ALTER TABLE written OWNER TO teller; INSERT INTO written VALUES (0, 0)")
	slot := "oracle_" + db
	direct := c.Connect(t, db, "postgres")
	must(t, direct, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'test_decoding')", slot))
	defer must(t, direct, fmt.Sprintf("SELECT pg_drop_replication_slot('%s')", slot))
	flags := []string{"--fence", "job=written"}
	proxies := []*proxytest.Proxy{
		proxytest.Start(t, c.DSN(db, "postgres"), flags...),
		proxytest.Start(t, c.DSN(db, "postgres"), flags...),
	}

	const tenures, writers = 60, 3 // writers per tenure, each alive for several tenures
	var wg sync.WaitGroup
	var landed, refused, other atomic.Int64
	for tenure := int64(1); tenure <= tenures; tenure++ {
		for w := range writers {
			conn, err := proxies[(int(tenure)+w)%2].TryConnect(db, user, text(tenure))
			if err != nil {
				t.Fatalf("tenure %d: %v", tenure, err)
			}
			wg.Go(func() {
				defer conn.Close(context.Background())
				zombie(conn, tenure, rand.New(rand.NewPCG(uint64(tenure), uint64(w))), &landed, &refused, &other)
			})
		}
		next := landed.Load() + 20
		for end := time.Now().Add(time.Second); landed.Load() < next && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
	proxies[0].Connect(t, db, user, text(tenures+1)) // the last holders become stale as well
	wg.Wait()
	t.Logf("%d writes landed, %d were refused as stale, %d failed otherwise (serialisation)", landed.Load(), refused.Load(), other.Load())
	if landed.Load() < tenures || refused.Load() < tenures {
		t.Errorf("too few: this run proves nothing")
	}
	commitOrder(t, direct, slot)
}

// zombie writes under one token until it is refused, and twice more.
func zombie(conn *pgx.Conn, token int64, r *rand.Rand, landed, refused, other *atomic.Int64) {
	ctx := context.Background()
	levels := []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}
	for rest := 3; rest > 0; {
		var err error
		insert, update := fmt.Sprintf("INSERT INTO written VALUES (%d, 1)", token), fmt.Sprintf("UPDATE written SET token = %d WHERE n = 0", token)
		level := levels[r.IntN(3)]
		switch r.IntN(6) {
		case 0:
			_, err = conn.PgConn().Exec(ctx, insert).ReadAll()
		case 1:
			_, err = conn.Exec(ctx, "INSERT INTO written VALUES ($1, 2)", token)
		case 2:
			_, err = conn.PgConn().Exec(ctx, "BEGIN ISOLATION LEVEL "+level+"; SELECT 1; "+update+"; COMMIT").ReadAll()
		case 3: // a guard lost with its savepoint, then another write of the same transaction
			err = steps(conn, "BEGIN ISOLATION LEVEL "+level, "SAVEPOINT s", insert, "ROLLBACK TO s", insert, "COMMIT")
		case 4:
			err = steps(conn, "BEGIN ISOLATION LEVEL "+level, "SELECT count(*) FROM written", update, "COMMIT AND CHAIN", insert, "COMMIT")
		case 5:
			batch := &pgx.Batch{}
			batch.Queue("SELECT 1")
			batch.Queue("INSERT INTO written VALUES ($1, 3)", token)
			batch.Queue(insert)
			err = conn.SendBatch(ctx, batch).Close()
		}
		switch sqlstate := code(err); sqlstate {
		case "":
			landed.Add(1)
		case "ZF001":
			refused.Add(1)
			rest--
		case "40001", "40P01":
			other.Add(1)
		default:
			other.Add(1)
			rest = 0
		}
	}
}

func steps(conn *pgx.Conn, list ...string) (first error) {
	for _, sql := range list {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			conn.Exec(context.Background(), "ROLLBACK")
			return err
		}
	}
	return nil
}

var (
	decodedToken = regexp.MustCompile(`^table public\.written: (?:INSERT|UPDATE): .*?token\[bigint\]:(\d+)`)
	decodedMark  = regexp.MustCompile(`^table fence\.mark: (?:INSERT|UPDATE): .*token\[bigint\]:(\d+)`)
)

// commitOrder reads the changes in commit order.
func commitOrder(t *testing.T, direct *pgx.Conn, slot string) {
	rows, err := direct.Query(context.Background(), "SELECT data FROM pg_logical_slot_get_changes($1, NULL, NULL)", slot)
	if err != nil {
		t.Fatal(err)
	}
	var highest, mark, writes, raises int64
	for rows.Next() {
		var data string
		if err := rows.Scan(&data); err != nil {
			t.Fatal(err)
		}
		if m := decodedMark.FindStringSubmatch(data); m != nil {
			mark, _ = strconv.ParseInt(m[1], 10, 64)
			raises++
		}
		if m := decodedToken.FindStringSubmatch(data); m != nil {
			token, _ := strconv.ParseInt(m[1], 10, 64)
			writes++
			if token < highest || token < mark {
				t.Errorf("a write under token %d committed after one under %d, with the mark at %d", token, highest, mark)
			}
			highest = max(highest, token)
		}
	}
	if rows.Err() != nil || writes == 0 || raises < 10 {
		t.Fatalf("%d writes and %d raises decoded: %v", writes, raises, rows.Err())
	}
	t.Logf("%d writes and %d raises in commit order", writes, raises)
}
