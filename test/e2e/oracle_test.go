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
	oracle{cluster: pgtest.Shared(t), tenures: 60}.run(t)
}

// The same while proxies and the server are killed with SIGKILL between announcements and writes.
func TestTokensOfCommittedWritesNeverDecreaseOverKills(t *testing.T) {
	o := oracle{cluster: pgtest.Start(t, pgtest.WithSetting("wal_level", "logical")), tenures: 40}
	o.between = func(t *testing.T, tenure int, proxies []*proxytest.Proxy) {
		if tenure%5 == 0 {
			p := proxies[tenure/5%2]
			p.Kill()
			if err := p.Run(); err != nil {
				t.Fatal(err)
			}
		}
		if tenure%12 == 0 {
			o.cluster.Kill()
			o.cluster.Restart(t)
		}
	}
	o.run(t)
}

type oracle struct {
	cluster *pgtest.Cluster
	tenures int
	between func(t *testing.T, tenure int, proxies []*proxytest.Proxy) // before each tenure; nil for nothing
}

func (o oracle) run(t *testing.T) {
	c := o.cluster
	db := fenced(t, c)
	c.Exec(t, db, "CREATE TABLE written (token bigint NOT NULL, n int); ALTER TABLE written OWNER TO teller; INSERT INTO written VALUES (0, 0)")
	slot := "oracle_" + db
	must(t, c.Connect(t, db, "postgres"), fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'test_decoding')", slot))
	flags := []string{"--fence", "job=written"}
	proxies := []*proxytest.Proxy{
		proxytest.Start(t, c.DSN(db, "postgres"), flags...),
		proxytest.Start(t, c.DSN(db, "postgres"), flags...),
	}

	const writers = 3 // per tenure, each alive for several tenures
	var wg sync.WaitGroup
	var landed, refused, other atomic.Int64
	for tenure := 1; tenure <= o.tenures; tenure++ {
		if o.between != nil {
			o.between(t, tenure, proxies)
		}
		for w := range writers {
			conn := o.enter(t, proxies[(tenure+w)%2], db, tenure)
			wg.Go(func() {
				defer conn.Close(context.Background())
				zombie(conn, int64(tenure), rand.New(rand.NewPCG(uint64(tenure), uint64(w))), &landed, &refused, &other)
			})
		}
		next := landed.Load() + 20
		for end := time.Now().Add(time.Second); landed.Load() < next && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
	o.enter(t, proxies[0], db, o.tenures+1).Close(context.Background()) // the last holders become stale as well
	wg.Wait()
	t.Logf("%d writes landed, %d were refused as stale, %d failed otherwise", landed.Load(), refused.Load(), other.Load())
	if landed.Load() < int64(o.tenures) || refused.Load() < int64(o.tenures)/2 {
		t.Errorf("too few: this run proves nothing")
	}
	direct := c.Connect(t, db, "postgres")
	commitOrder(t, direct, slot)
	must(t, direct, fmt.Sprintf("SELECT pg_drop_replication_slot('%s')", slot))
}

// enter connects under a new holder's token, again while proxy or server come back.
func (o oracle) enter(t *testing.T, p *proxytest.Proxy, db string, tenure int) (conn *pgx.Conn) {
	eventually(t, fmt.Sprintf("tenure %d begins", tenure), func() (in bool) {
		var err error
		if conn, err = p.TryConnect(db, user, fmt.Sprint(tenure)); code(err) == "ZF001" {
			t.Fatalf("tenure %d: %v", tenure, err)
		}
		return err == nil
	})
	return conn
}

// zombie writes under one token until it is refused, and twice more.
func zombie(conn *pgx.Conn, token int64, r *rand.Rand, landed, refused, other *atomic.Int64) {
	ctx := context.Background()
	levels := []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}
	for rest := 3; rest > 0 && !conn.IsClosed(); {
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
